"""Mask rows by content: which arena row holds a given mask, so that a step sends row ids instead of masks.

The table lives beside the scheduler and knows what the device's arena holds. It takes masks from any backend of vLLM,
as `StructuredOutputManager.grammar_bitmask` makes them. A mask that the arena does not hold yet travels once, and the
row that was used longest ago makes room for it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemac_runtime.errors import MatcherError
from schemac_runtime.neuron.layout import FREE_ROW

Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Assignment:
    """The arena rows of one step's masks.

    Attributes:
        number: how many assignments its table had made before. Each must reach the arena, in this order.
        row_ids: int32 [n], one per mask.
        new_ids: int32 [m], the arena rows to write before the step runs.
        new_rows: int32 [m, W], what to write there.
    """

    number: int
    row_ids: Int32
    new_ids: Int32
    new_rows: Int32


class RowTable:
    """What each row of one device arena holds.

    Args:
        rows: the capacity R of the arena; row 0 allows everything and is never given away.
        vocab_size: the number of tokens V.
    """

    def __init__(self, rows: int, vocab_size: int) -> None:
        self.rows = rows
        self.words = (vocab_size + 31) // 32
        self._assignments = 0
        self._row_of: OrderedDict[bytes, int] = OrderedDict()  # by digest of the mask, the longest unused first
        self._free = list(range(rows - 1, FREE_ROW, -1))
        everything = np.full(self.words, -1, dtype=np.int32)
        self._everything = {_digest(everything)}
        if vocab_size % 32:  # bits past the vocabulary may be clear
            everything[-1] = (1 << vocab_size % 32) - 1
            self._everything.add(_digest(everything))

    def assign(self, masks: Int32) -> Assignment:
        """The rows of masks, int32 [n, W]. Rows of this call are never taken from one another.

        Raises:
            MatcherError: the masks are of another shape, or more different ones than the arena has rows.
        """
        if masks.dtype != np.int32 or masks.ndim != 2 or masks.shape[1] != self.words:
            raise MatcherError(f"masks must be int32 [n, {self.words}], not {masks.dtype} {masks.shape}")
        digests = [_digest(mask) for mask in masks]
        wanted = {digest for digest in digests if digest not in self._everything}
        if len(wanted) >= self.rows:
            raise MatcherError(
                f"{len(wanted)} different masks in one step, the arena has {self.rows - 1} rows for them",
                hint="make the arena larger",
            )
        for digest in wanted & self._row_of.keys():
            self._row_of.move_to_end(digest)
        row_ids = np.empty(len(masks), dtype=np.int32)
        new: dict[int, Int32] = {}
        for index, digest in enumerate(digests):
            if digest in self._everything:
                row_ids[index] = FREE_ROW
                continue
            row = self._row_of.get(digest)
            if row is None:
                row = self._free.pop() if self._free else self._row_of.popitem(last=False)[1]
                self._row_of[digest] = row
                new[row] = masks[index]
            row_ids[index] = row
        new_rows = np.stack(list(new.values())) if new else np.empty((0, self.words), dtype=np.int32)
        self._assignments += 1
        return Assignment(self._assignments - 1, row_ids, np.array(list(new), dtype=np.int32), new_rows)


def _digest(mask: Int32) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(mask).data, digest_size=32).digest()
