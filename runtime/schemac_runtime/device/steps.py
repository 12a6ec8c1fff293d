"""From matchers to row ids: what a scheduler works out for each step, and what it sends to where the device is.

    source = RowSource(rows=4096, vocab_size=V)           # with the matchers
    step = source.step([matcher, None, other])            # row ids, and rows that the arena lacks
    apply_step(masks, step, logits)                       # with the device: `DeviceMasks`

A mask is made only if no arena row holds it. It is found by the place of the text, without making it, in programs
without registers; else by its content. A step whose masks have no room in the arena carries packed masks instead.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from schemac_runtime.device.arena import FREE_ROW, ArenaFull, RowBook
from schemac_runtime.device.masks import DeviceMasks
from schemac_runtime.errors import DeviceError
from schemac_runtime.matcher import Matcher
from schemac_runtime.program import Program

Int32 = npt.NDArray[np.int32]

#: Places of a program that are remembered: about 100 bytes each.
_PLACES = 65_536
#: First of the words that an encoded step begins with.
_VERSION = 1
_HEAD = 7


@dataclass(frozen=True, eq=False)
class Step:
    """One step's masks, by row of logits or of what they are mapped to.

    Attributes:
        number: how many steps the source had made before. All of them must reach the arena, in this order.
        row_ids: int32 [n]; 0 for no constraint, and for what `packed_at` lists.
        new_ids: int32 [m], rows of the arena to write before the step.
        new_rows: int32 [m, words], what to write there.
        packed_at: int32 [k], indices in the step whose masks found no room in the arena.
        packed: int32 [k, words], these masks.
    """

    number: int
    row_ids: Int32
    new_ids: Int32
    new_rows: Int32
    packed_at: Int32
    packed: Int32

    def encode(self, rows: int) -> Int32:
        """The step as int32 [1, 1, length], to travel where packed masks, which have two dimensions, do.

        Args:
            rows: capacity of the source's arena.
        """
        words = self.new_rows.shape[1]
        head = [_VERSION, self.number & 0x7FFFFFFF, rows, words, len(self.row_ids), len(self.new_ids),
                len(self.packed_at)]  # fmt: skip
        parts = (np.array(head, np.int32), self.row_ids, self.new_ids, self.packed_at, self.new_rows.reshape(-1),
                 self.packed.reshape(-1))  # fmt: skip
        return np.concatenate(parts)[None, None]


def decode(data: Int32) -> tuple[Step, int] | None:
    """The step that `Step.encode` wrote and the capacity of its arena, or None for packed masks.

    Args:
        data: int32, as received.

    Raises:
        DeviceError: it is damaged, or of another version.
    """
    if data.ndim != 3:
        return None
    flat = data.reshape(-1)
    if len(flat) < _HEAD or flat[0] != _VERSION:
        raise DeviceError(f"a step of version {flat[:1].tolist()}, this runtime reads {_VERSION}")
    number, rows, words, ids, new, packed = flat[1:_HEAD].tolist()
    if min(ids, new, packed, words) < 0 or len(flat) != _HEAD + ids + new + packed + (new + packed) * words:
        raise DeviceError(f"a damaged step: {len(flat)} words for {ids} ids, {new} + {packed} masks of {words} words")
    row_ids, new_ids, packed_at, masks = np.split(flat[_HEAD:], np.cumsum([ids, new, packed]))
    masks = masks.reshape(new + packed, words)
    return Step(number, row_ids, new_ids, masks[:new], packed_at, masks[new:]), rows


class RowSource:
    """Finds the arena row of every mask of a step. Rows that a step uses are not given to other masks of that step.

    Args:
        rows: capacity of the arena, row 0 included.
        vocab_size: the number of tokens V.
        keep: how many earlier steps hold their rows too. 0 is enough where an arena writes new rows on the stream that
            its kernels run on, since these come after what earlier steps enqueued.

    Attributes:
        masks_made: how many masks were made so far.
        packed_masks: how many of them found no room in the arena.
    """

    def __init__(self, rows: int, vocab_size: int, keep: int = 0) -> None:
        self.vocab_size, self.words = vocab_size, (vocab_size + 31) // 32
        self.book = RowBook(rows)
        self.masks_made = 0
        self.packed_masks = 0
        #: Rows that no step has carried yet.
        self.unsent: dict[int, Int32] = {}
        self._keep = keep
        self._held: list[list[int]] = []
        # By program, which this does not keep alive: the digest of the mask at a place.
        self._digests: WeakKeyDictionary[Program, OrderedDict[Hashable, bytes]] = WeakKeyDictionary()
        self._scratch = np.zeros((1, self.words), np.int32)
        self._number = 0

    def step(self, matchers: Sequence[Matcher | None], budgets: Sequence[int | None] | None = None) -> Step:
        """The rows of a step; None stands for a request without constraint.

        Args:
            matchers: of programs with this vocabulary.
            budgets: the tokens that each has left, None for no limit.

        Raises:
            DeviceError: a mask allows no token, or a vocabulary is another.
            MatcherError: a budget is too small to finish the text.
        """
        builder = self.begin()
        try:
            for index, matcher in enumerate(matchers):
                builder.add(matcher, None if budgets is None else budgets[index])
        except BaseException:
            builder.abandon()
            raise
        return builder.finish()

    def begin(self) -> StepBuilder:
        """A step whose rows are added one by one, as drafts are read and taken back between them."""
        return StepBuilder(self)

    def made(self, matcher: Matcher, budget: int | None) -> Int32:
        """A mask, int32 [words].

        Raises:
            DeviceError, MatcherError: see `step`.
        """
        matcher.fill_bitmask(self._scratch, 0, budget)
        self.masks_made += 1
        mask: Int32 = self._scratch[0].copy()
        if not mask.any():
            raise DeviceError("this mask allows no token at all", hint="the text cannot go on from here")
        return mask

    def digest_at(self, program: Program, place: Hashable) -> bytes | None:
        """The digest of the mask at a place, if it is remembered and an arena row holds it."""
        known = self._digests.get(program)
        digest = None if known is None else known.get(place)
        return digest if digest is not None and digest in self.book else None

    def remember(self, program: Program, place: Hashable, digest: bytes) -> None:
        """That the mask at a place has this digest."""
        known = self._digests.setdefault(program, OrderedDict())
        known[place] = digest
        if len(known) > _PLACES:
            known.popitem(last=False)

    def hold(self, rows: list[int]) -> int:
        """Hold the rows of a step until `keep` more have been made; the number of the step."""
        self._held.append(rows)
        while len(self._held) > self._keep:
            for row in self._held.pop(0):
                self.book.release(row)
        self._number += 1
        return self._number - 1


class StepBuilder:
    """One step in the making; `finish` or `abandon` ends it.

    Args:
        source: where it takes its rows from.
    """

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self._ids: list[int] = []
        self._held: list[int] = []
        self._packed: dict[int, Int32] = {}

    def add(self, matcher: Matcher | None, budget: int | None = None) -> None:
        """The mask of a matcher as it stands now; None for a row without constraint.

        Raises:
            DeviceError, MatcherError: see `RowSource.step`.
        """
        if matcher is None:
            self._ids.append(FREE_ROW)
            return
        source = self._source
        if matcher.program.vocab_size != source.vocab_size:
            raise DeviceError(f"a program of {matcher.program.vocab_size} tokens, expected {source.vocab_size}")
        place = matcher.place(budget)
        key = None if place is None else (matcher.stop_ids, place)
        digest = None if key is None else source.digest_at(matcher.program, key)
        mask: Int32 | None = None
        if digest is None:
            mask = source.made(matcher, budget)
            digest = digest_of(mask)
        if self._add(digest, mask) and key is not None:
            source.remember(matcher.program, key, digest)

    def add_mask(self, mask: Int32) -> None:
        """A mask, int32 [words], that is no matcher's.

        Raises:
            DeviceError: it has another shape.
        """
        if mask.dtype != np.int32 or mask.shape != (self._source.words,):
            raise DeviceError(f"a mask must be int32 [{self._source.words}], not {mask.dtype} {list(mask.shape)}")
        self._add(digest_of(mask), mask.copy())

    def _add(self, digest: bytes, mask: Int32 | None) -> bool:
        """A row; whether the arena has room for it. `mask` may be None for what an arena row holds."""
        source = self._source
        try:
            row, new = source.book.acquire(digest)
        except ArenaFull:
            assert mask is not None  # what an arena row holds is never refused
            self._packed[len(self._ids)] = mask
            source.packed_masks += 1
            self._ids.append(FREE_ROW)
            return False
        if new:
            assert mask is not None
            source.unsent[row] = mask
        self._held.append(row)
        self._ids.append(row)
        return True

    def finish(self) -> Step:
        """The step."""
        source = self._source
        number = source.hold(self._held)
        new, source.unsent = source.unsent, {}
        return Step(
            number,
            np.array(self._ids, np.int32),
            np.array(list(new), np.int32),
            _stacked(new, source.words),
            np.array(list(self._packed), np.int32),
            _stacked(self._packed, source.words),
        )

    def abandon(self) -> None:
        """Give the rows back; what was made goes with the next step."""
        for row in self._held:
            self._source.book.release(row)
        self._held.clear()


def digest_of(mask: Int32) -> bytes:
    """What a mask is known by."""
    return hashlib.blake2b(np.ascontiguousarray(mask).data, digest_size=16).digest()


def _stacked(masks: dict[int, Int32], words: int) -> Int32:
    return np.stack(list(masks.values())) if masks else np.empty((0, words), np.int32)


def apply_step(masks: DeviceMasks, step: Step, logits: Any, logit_rows: Sequence[int] | None = None) -> None:
    """Mask the logits of a step on the device.

    Args:
        masks: of the device; every step of a source goes to it, in order.
        step: what the source made.
        logits: float [B, columns]; changed in place.
        logit_rows: the row of logits of each row of the step, -1 for none; row i for row i if None. Rows of logits
            that are not named are left alone.

    Raises:
        DeviceError: a row of logits is not there, or nothing fits.
    """
    rows = range(len(step.row_ids)) if logit_rows is None else logit_rows
    if len(rows) != len(step.row_ids):
        raise DeviceError(f"{len(rows)} rows of logits for {len(step.row_ids)} rows of a step", construct="logit_rows")
    if len(step.new_ids):
        masks.arena.write(step.new_ids.tolist(), step.new_rows)
    ids = np.zeros(len(logits), np.int32)
    targets = np.fromiter(rows, np.int64, len(rows))
    if len(targets) and (targets.min() < -1 or targets.max() >= len(ids)):
        reason = f"rows of logits {int(targets.min())}..{int(targets.max())} of {len(ids)}"
        raise DeviceError(reason, construct="logit_rows")
    ids[targets[targets >= 0]] = step.row_ids[targets >= 0]
    if ids.any():
        masks.mask(logits, ids)
    packed_to = targets[step.packed_at]
    if (packed_to >= 0).any():
        masks.mask_packed(logits, step.packed[packed_to >= 0], packed_to[packed_to >= 0].tolist())
