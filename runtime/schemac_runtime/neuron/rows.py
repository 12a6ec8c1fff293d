"""Mask rows by content: which arena row holds a given mask, so that a step sends row ids instead of masks.

The table lives beside the scheduler and knows what the device's arena holds. It takes masks from any backend of vLLM,
as `StructuredOutputManager.grammar_bitmask` makes them. A mask that the arena does not hold yet travels once, and the
row that was used longest ago makes room for it. Where the scheduler has schemac's own matchers at hand,
`schemac_runtime.device.RowSource` makes the same steps without making the masks first.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from schemac_runtime.device.arena import FREE_ROW, ArenaFull, RowBook
from schemac_runtime.device.steps import Step
from schemac_runtime.errors import MatcherError

Int32 = npt.NDArray[np.int32]


class RowTable:
    """What each row of one device arena holds.

    Args:
        rows: the capacity R of the arena; row 0 allows everything and is never given away.
        vocab_size: the number of tokens V.
    """

    def __init__(self, rows: int, vocab_size: int) -> None:
        self.words = (vocab_size + 31) // 32
        self.book = RowBook(rows)
        self._held: list[int] = []
        self._steps = 0
        everything = np.full(self.words, -1, dtype=np.int32)
        self._everything = {_digest(everything)}
        if vocab_size % 32:  # bits past the vocabulary may be clear
            everything[-1] = (1 << vocab_size % 32) - 1
            self._everything.add(_digest(everything))

    def step(self, masks: Int32) -> Step:
        """The arena rows of a step's masks, int32 [n, W]. No row of the step is written over for another one of it.

        Raises:
            MatcherError: the masks are of another shape.
            ArenaFull: more different ones than the arena has rows; nothing has changed then.
        """
        if masks.dtype != np.int32 or masks.ndim != 2 or masks.shape[1] != self.words:
            raise MatcherError(f"masks must be int32 [n, {self.words}], not {masks.dtype} {masks.shape}")
        digests = [_digest(mask) for mask in masks]
        wanted = {digest: mask for digest, mask in zip(digests, masks, strict=True) if digest not in self._everything}
        if len(wanted) >= self.book.rows:
            raise ArenaFull(
                f"{len(wanted)} different masks in one step, the arena has {self.book.rows - 1} rows for them",
                construct="rows", hint="make the arena larger",
            )  # fmt: skip
        for row in self._held:  # the step before is done with them when this one's rows are written
            self.book.release(row)
        row_of = dict.fromkeys(self._everything, FREE_ROW)
        new_rows = {}
        for digest in sorted(wanted, key=self.book.__contains__, reverse=True):  # first what is there, to keep it
            row_of[digest], new = self.book.acquire(digest)
            if new:
                new_rows[row_of[digest]] = wanted[digest]
        self._held = [row_of[digest] for digest in wanted]
        self._steps += 1
        nothing = np.empty((0, self.words), dtype=np.int32)
        return Step(
            self._steps - 1,
            np.array([row_of[digest] for digest in digests], dtype=np.int32),
            np.array(sorted(new_rows), dtype=np.int32),
            np.stack([new_rows[row] for row in sorted(new_rows)]) if new_rows else nothing,
            np.empty(0, dtype=np.int32),
            nothing,
        )


def _digest(mask: Int32) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(mask).data, digest_size=32).digest()
