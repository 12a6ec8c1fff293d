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

import numpy as np
import numpy.typing as npt

from schemac_runtime.device.arena import FREE_ROW, ArenaFull, RowBook
from schemac_runtime.device.masks import DeviceMasks
from schemac_runtime.errors import DeviceError
from schemac_runtime.matcher import Matcher

Int32 = npt.NDArray[np.int32]

#: Places that are remembered: about 100 bytes each.
_PLACES = 65_536
#: First word of an encoded step: "row ids", version 1.
_MAGIC = 0x52494401
_HEAD = 5


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

    def encode(self) -> Int32:
        """The step as int32 [1, length], to travel where packed masks do."""
        head = [_MAGIC, self.number & 0x7FFFFFFF, len(self.row_ids), len(self.new_ids), len(self.packed_at)]
        parts = (np.array(head, np.int32), self.row_ids, self.new_ids, self.packed_at, self.new_rows.reshape(-1),
                 self.packed.reshape(-1))  # fmt: skip
        return np.concatenate(parts)[None]


def decode(words: Int32, width: int) -> Step | None:
    """The step that `Step.encode` wrote, or None for what is none, such as packed masks.

    Args:
        words: int32, as received.
        width: words of a mask.

    Raises:
        DeviceError: it says that it is a step and is damaged.
    """
    if words.ndim != 2 or len(words) != 1 or words.shape[1] < _HEAD or words[0, 0] != _MAGIC or words.shape[1] == width:
        return None
    flat = words[0]
    number, ids, new, packed = flat[1:_HEAD].tolist()
    if min(ids, new, packed) < 0 or len(flat) != _HEAD + ids + new + packed + (new + packed) * width:
        raise DeviceError(f"a damaged step: {len(flat)} words for {ids} ids, {new} + {packed} masks of {width} words")
    row_ids, new_ids, packed_at, masks = np.split(flat[_HEAD:], np.cumsum([ids, new, packed]))
    masks = masks.reshape(new + packed, width)
    return Step(number, row_ids, new_ids, masks[:new], packed_at, masks[new:])


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
        self._digests: OrderedDict[Hashable, bytes] = OrderedDict()
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

    def digest_at(self, key: Hashable) -> bytes | None:
        """The digest of the mask at a place, if it is remembered and an arena row holds it."""
        digest = self._digests.get(key)
        return digest if digest is not None and digest in self.book else None

    def remember(self, key: Hashable, digest: bytes) -> None:
        """That the mask at a place has this digest."""
        self._digests[key] = digest
        if len(self._digests) > _PLACES:
            self._digests.popitem(last=False)

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
        key = None if place is None else (matcher.program, matcher.stop_ids, place)
        digest = None if key is None else source.digest_at(key)
        mask: Int32 | None = None
        if digest is None:
            mask = source.made(matcher, budget)
            digest = hashlib.blake2b(mask.data, digest_size=16).digest()
        try:
            row, new = source.book.acquire(digest)
        except ArenaFull:
            assert mask is not None  # what an arena row holds is never refused
            self._packed[len(self._ids)] = mask
            source.packed_masks += 1
            self._ids.append(FREE_ROW)
            return
        if new:
            assert mask is not None
            source.unsent[row] = mask
        if key is not None:
            source.remember(key, digest)
        self._held.append(row)
        self._ids.append(row)

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


def _stacked(masks: dict[int, Int32], words: int) -> Int32:
    return np.stack(list(masks.values())) if masks else np.empty((0, words), np.int32)


def apply_step(masks: DeviceMasks, step: Step, logits: Any, logit_rows: Sequence[int] | None = None) -> None:
    """Mask the logits of a step on the device.

    Args:
        masks: of the device; every step of a source goes to it, in order.
        step: what the source made.
        logits: float [B, columns]; changed in place.
        logit_rows: the row of logits of each row of the step; row i for row i if None. Others are left alone.

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
    if len(targets) and (targets.min() < 0 or targets.max() >= len(ids)):
        raise DeviceError(f"rows of logits {int(targets.min())}..{int(targets.max())} of {len(ids)}",
                          construct="logit_rows")  # fmt: skip
    ids[targets] = step.row_ids
    if ids.any():
        masks.mask(logits, ids)
    if len(step.packed_at):
        masks.mask_packed(logits, step.packed, [int(targets[at]) for at in step.packed_at])
