"""Row ids in a server built like vLLM: a scheduler that fills masks, and workers elsewhere that apply them.

vLLM's scheduler asks its backend for a buffer of packed masks, has each grammar fill a row of it, and sends the rows to
the workers. Here the buffer is a `StepMasks`, which takes matchers in the place of masks and sends a `Step`: row ids,
and rows that the arena lacks. A worker hands what it receives to a `StepReceiver` before anything else does.

    backend.allocate_token_bitmask = lambda rows: StepMasks(RowSource(4096, vocab_size), rows)
    receiver.apply(grammar_output.grammar_bitmask, logits, logit_rows) or apply_as_before(...)

Nothing of vLLM is imported. The objects do what vLLM 0.32 and 0.33 ask of theirs: `StepMasks` may be indexed, sliced
and turned into an array, and its rows filled and copied.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.device.masks import DeviceMasks
from schemac_runtime.device.steps import RowSource, Step, apply_step, decode
from schemac_runtime.errors import DeviceError
from schemac_runtime.matcher import Matcher
from schemac_runtime.targets import TargetArtifact

Int32 = npt.NDArray[np.int32]


class StepMasks:
    """What a scheduler's grammars fill in the place of packed masks. Any number of threads may fill.

    Args:
        source: of rows.
        rows: how many rows a step may have.
    """

    def __init__(self, source: RowSource, rows: int) -> None:
        self.source = source
        self.shape = (rows, source.words)
        self._lock = threading.Lock()
        self._builder = source.begin()
        self._at: dict[int, int] = {}  # row -> row of the builder; a row that is not here is without constraint
        self._count = 0

    def fill(self, row: int, matcher: Matcher, budget: int | None = None) -> None:
        """Row `row` is the mask of the matcher as it stands now.

        Raises:
            DeviceError, MatcherError: see `RowSource.step`.
        """
        with self._lock:
            self._builder.add(matcher, budget)
            self._added(row)

    def fill_mask(self, row: int, mask: Int32) -> None:
        """Row `row` is this mask, int32 [words]."""
        with self._lock:
            self._builder.add_mask(mask)
            self._added(row)

    def _added(self, row: int) -> None:
        self._at[row] = self._count
        self._count += 1

    def free(self, row: int) -> None:
        """Row `row` is without constraint."""
        with self._lock:
            self._at.pop(row, None)

    def repeat(self, row: int, other: int) -> None:
        """Row `row` is as row `other`."""
        with self._lock:
            if other in self._at:
                self._at[row] = self._at[other]
            else:
                self._at.pop(row, None)

    def finish(self, rows: int) -> Int32:
        """The first `rows` rows as an encoded step; all are without constraint again."""
        with self._lock:
            step = self._builder.finish()
            places = [self._at.get(row, -1) for row in range(rows)]
            self._builder, self._at, self._count = self.source.begin(), {}, 0
        found = {int(at): index for index, at in enumerate(step.packed_at)}
        ids = np.array([step.row_ids[place] if place >= 0 else 0 for place in places], np.int32)
        packed_at = [row for row, place in enumerate(places) if place in found]
        packed = step.packed[[found[places[row]] for row in packed_at]]
        mapped = Step(step.number, ids, step.new_ids, step.new_rows, np.array(packed_at, np.int32), packed)
        return mapped.encode(self.source.book.rows)

    # What vLLM does with its tensor of masks.

    def __getitem__(self, index: int | slice) -> _Row | _Rows:
        if isinstance(index, slice):
            return _Rows(self, len(range(*index.indices(self.shape[0]))))
        return _Row(self, int(index))

    def numpy(self) -> Int32:
        """All rows, see `finish`."""
        return self.finish(self.shape[0])


class _Row:
    """One row of a `StepMasks`."""

    def __init__(self, masks: StepMasks, row: int) -> None:
        self._masks, self._row = masks, row

    def fill_(self, value: Any) -> None:
        if int(value) != -1:
            raise DeviceError("a row of masks is filled with ones or not at all")
        self._masks.free(self._row)

    def copy_(self, other: _Row) -> None:
        self._masks.repeat(self._row, other._row)


class _Rows:
    """The first rows of a `StepMasks`."""

    def __init__(self, masks: StepMasks, count: int) -> None:
        self._masks = masks
        self.shape = (count, masks.shape[1])

    def numpy(self) -> Int32:
        return self._masks.finish(self.shape[0])


def fill_row(bitmask: Any, row: int, matcher: Matcher, budget: int | None = None) -> None:
    """`Matcher.fill_bitmask`, where the buffer may also be a `StepMasks`."""
    if isinstance(bitmask, StepMasks):
        bitmask.fill(row, matcher, budget)
    else:
        matcher.fill_bitmask(bitmask, row, budget)


class StepReceiver:
    """Applies steps to logits in a worker; makes what it needs on the device at the first one.

    Args:
        requests: most rows of logits in a step.
        artifacts: stored kernels, such as `Package.targets`.
        first: as for `DeviceMasks`, where logits are cut into shards.
    """

    def __init__(self, requests: int = 1024, artifacts: Iterable[TargetArtifact] = (), first: int = 0) -> None:
        self._requests, self._artifacts, self._first = requests, tuple(artifacts), first
        self._masks: DeviceMasks | None = None
        self._next = 0

    @property
    def masks(self) -> DeviceMasks | None:
        """What is on the device, None before the first step."""
        return self._masks

    def apply(self, data: Int32, logits: Any, logit_rows: Sequence[int] | None = None) -> bool:
        """Mask logits, float [B, columns], as a step says; False for what is no step, such as packed masks.

        Args:
            data: as received.
            logits: changed in place.
            logit_rows: see `apply_step`.

        Raises:
            DeviceError: a step is damaged or missing, so that the arena is not what the scheduler takes it for.
        """
        decoded = decode(data)
        if decoded is None:
            return False
        step, rows = decoded
        if step.number != self._next:
            raise DeviceError(f"step {step.number} arrived, expected {self._next}: the mask arena is out of date")
        self._next = (self._next + 1) & 0x7FFFFFFF
        if self._masks is None:
            vocab = 32 * step.new_rows.shape[1]
            self._masks = DeviceMasks(
                vocab, logits.device, rows=rows, requests=max(self._requests, len(logits)),
                artifacts=self._artifacts, first=self._first,
            )  # fmt: skip
        apply_step(self._masks, step, logits, logit_rows)
        return True


def logit_rows(
    constrained: Sequence[str], batch: Sequence[str], drafts: Mapping[str, Sequence[int]]
) -> list[int]:
    """The row of logits of each row of masks, in vLLM's order; -1 for requests that have left the batch.

    Each request has one row of logits, and one more for each of its draft tokens.

    Args:
        constrained: requests in the order of the masks.
        batch: requests in the order of the logits.
        drafts: draft tokens by request; requests without may be left out.
    """
    start, starts = 0, {}
    for request in batch:
        starts[request] = start
        start += 1 + len(drafts.get(request, ()))
    rows: list[int] = []
    for request in constrained:
        count = 1 + len(drafts.get(request, ()))
        first = starts.get(request)
        rows += range(first, first + count) if first is not None else [-1] * count
    return rows
