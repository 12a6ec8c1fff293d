"""Mask rows: which tokens a set of classes allows, dense where there are many, a short list of words elsewhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.codegen.relations import ranges
from schemac_runtime.program import NO_ROW

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

#: Above this many tokens a row is dense: copying 16 KiB then costs less than a scatter.
SPARSE_TOKENS = 512


class RowTable:
    """Rows by their set of classes, deduplicated.

    Args:
        token_class: int32 [V].
        classes: the number of classes C, class 0 (allows nothing) included.
    """

    def __init__(self, token_class: Int32, classes: int, budget: Budget) -> None:
        self._token_class = token_class
        self._budget = budget
        self._words = (len(token_class) + 31) // 32
        self._tokens = np.argsort(token_class, kind="stable").astype(np.int64)
        self._class_start = np.searchsorted(token_class[self._tokens], np.arange(classes + 1)).astype(np.int64)
        self._class_size = np.diff(self._class_start)
        self._dense: list[Int32] = []
        self._sparse: list[tuple[Int64, Int64, Int32]] = []  # batches of (lengths, words, bits)
        self._sparse_count = 0
        self._known: dict[bytes, int] = {}

    def rows_of(self, group: Int64, symbol_class: Int64, groups: int) -> Int32:
        """Row codes of `groups` sets of classes.

        Args:
            group, symbol_class: int64 [n], members (set number, class), sorted by set, then class, distinct.

        Returns:
            int32 [groups]: r >= 0 a dense row, r < 0 the sparse row -1 - r, `NO_ROW` for no token.
        """
        codes = np.full(groups, NO_ROW, dtype=np.int32)
        size = self._class_size[symbol_class]
        group, symbol_class, size = group[size > 0], symbol_class[size > 0], size[size > 0]
        present, start = np.unique(group, return_index=True)
        bounds = np.append(start, len(group))
        members = symbol_class.astype(np.int32)
        fresh: list[tuple[int, int, int]] = []  # (code, low, high) of sparse rows to make
        edges = bounds.tolist()
        totals = np.add.reduceat(size, start).tolist() if len(start) else []
        for index, number in enumerate(present.tolist()):
            low, high = edges[index], edges[index + 1]
            key = members[low:high].tobytes()
            code = self._known.get(key)
            if code is None:
                if totals[index] > SPARSE_TOKENS:
                    code = len(self._dense)
                    self._budget.spend("rows")
                    self._dense.append(self._dense_row(symbol_class[low:high]))
                else:
                    code = -1 - self._sparse_count - len(fresh)
                    fresh.append((code, low, high))
                self._known[key] = code
            codes[number] = code
        if fresh:
            self._add_sparse(fresh, symbol_class)
        return codes

    def _dense_row(self, classes: Int64) -> Int32:
        allowed = np.zeros(len(self._class_size), dtype=np.bool_)
        allowed[classes] = True
        bits = np.zeros(self._words * 32, dtype=np.bool_)
        bits[: len(self._token_class)] = allowed[self._token_class]
        return np.packbits(bits, bitorder="little").view(np.int32)

    def _add_sparse(self, fresh: list[tuple[int, int, int]], symbol_class: Int64) -> None:
        low = np.array([item[1] for item in fresh], dtype=np.int64)
        high = np.array([item[2] for item in fresh], dtype=np.int64)
        classes = symbol_class[ranges(low, high - low)]
        row = np.repeat(np.arange(len(fresh), dtype=np.int64), high - low)
        size = self._class_size[classes]
        token = self._tokens[ranges(self._class_start[classes], size)]
        word = np.repeat(row, size) * self._words + (token >> 5)
        order = np.argsort(word, kind="stable")
        word, bit = word[order], (np.uint32(1) << (token[order] & 31).astype(np.uint32))
        first = np.flatnonzero(np.concatenate([[True], word[1:] != word[:-1]]))
        bits = np.bitwise_or.reduceat(bit, first).view(np.int32)
        word = word[first]
        lengths = np.bincount(word // self._words, minlength=len(fresh))
        self._sparse.append((lengths, word % self._words, bits))
        self._sparse_count += len(fresh)

    def arrays(self) -> tuple[Int32, Int32, Int64, Int32]:
        """(dense [D, W], sparse_start [S + 1], sparse_word, sparse_bits), see `schemac_runtime.program.Tables`."""
        dense = np.array(self._dense, dtype=np.int32).reshape(len(self._dense), self._words)
        lengths = np.concatenate([np.zeros(1, np.int64), *(batch[0] for batch in self._sparse)])
        words = np.concatenate([np.zeros(0, np.int64), *(batch[1] for batch in self._sparse)])
        bits = np.concatenate([np.zeros(0, np.int32), *(batch[2] for batch in self._sparse)])
        return dense, np.cumsum(lengths).astype(np.int32), words, bits
