"""Products of two transition tables, explored from the start pair only."""

from __future__ import annotations

from typing import Literal

import numpy as np

from schemac.budget import Budget
from schemac.ir.minimize import BoolArray, IntArray, Table

Operation = Literal["and", "or", "minus", "xor"]
_NARROW = 256  # cells of a frontier up to which a plain loop beats sorting
_SMALL = 2_000  # cells of both automata together up to which they become lists at once
_PATIENCE = 24  # narrow frontiers before larger ones become lists


def product(left: Table, right: Table, operation: Operation, budget: Budget) -> Table:
    """Run two automata side by side; the result is neither minimal nor trimmed."""
    return _Product(left, right, operation).explore(budget)


class _Product:
    """One product under construction.

    A pair is coded as ``l * (R + 1) + r``; l = L and r = R stand for "dead".
    """

    def __init__(self, left: Table, right: Table, operation: Operation) -> None:
        self.left, self.right, self.operation = left, right, operation
        self.starts, self.classes, self.left_columns, self.right_columns = _joint_classes(left, right)
        self.cells = len(self.left_columns)
        self.left_dead, self.right_dead = len(left.next), len(right.next)
        self.base = self.right_dead + 1
        self.dead = self.left_dead * self.base + self.right_dead
        self.left_next, self.right_next = _completed(left.next), _completed(right.next)
        # Whether a pair is dead as soon as its left (right) half is.
        self.left_needed = operation in ("and", "minus")
        self.right_needed = operation == "and"
        self.pairs = [(0 if self.left_dead else self.left_dead) * self.base]
        self.number = {self.pairs[0]: 0}

    def explore(self, budget: Budget) -> Table:
        """Number all pairs that can be reached, frontier by frontier."""
        rows: list[IntArray] = []
        flat: list[int] = []  # rows made by the loop since the last array
        lists: tuple[list[list[int]], list[list[int]]] | None = None
        # In small automata, and after a while of narrow frontiers (a long chain), lists pay for their conversion.
        size = (self.left_dead + self.right_dead) * self.cells
        narrow = 0 if size > _SMALL else _PATIENCE - 1
        chunk = max(1, 2_000_000 // self.cells)
        done = 0
        while done < len(self.pairs):
            frontier = self.pairs[done : done + chunk]
            done += len(frontier)
            budget.spend("regex_states", len(frontier) + len(frontier) * self.cells // 512)
            if len(frontier) * self.cells <= _NARROW:
                narrow += 1
                if narrow == _PATIENCE and size <= 1_000_000:
                    lists = (
                        self.left_next[:, self.left_columns].tolist(),
                        self.right_next[:, self.right_columns].tolist(),
                    )
                if lists is not None:
                    self._loop(frontier, *lists, flat)
                    continue
            if flat:
                rows.append(np.array(flat, np.int32).reshape(-1, self.cells))
                flat = []
            rows.append(self._sweep(frontier))
        if flat:
            rows.append(np.array(flat, np.int32).reshape(-1, self.cells))
        return Table(self.starts, self.classes, np.concatenate(rows), self._accepting())

    def _loop(self, frontier: list[int], left: list[list[int]], right: list[list[int]], flat: list[int]) -> None:
        """Append the rows of a few pairs to `flat`."""
        base, dead, number, pairs = self.base, self.dead, self.number, self.pairs
        left_gone = self.left_dead if self.left_needed else -1
        right_gone = self.right_dead if self.right_needed else -1
        for pair in frontier:
            for one, two in zip(left[pair // base], right[pair % base], strict=True):
                if one == left_gone or two == right_gone:
                    flat.append(-1)
                    continue
                key = one * base + two
                value = number.get(key)
                if value is None:
                    value = -1
                    if key != dead:
                        value = len(pairs)
                        pairs.append(key)
                    number[key] = value
                flat.append(value)

    def _sweep(self, frontier: list[int]) -> IntArray:
        """The rows of many pairs."""
        here = np.array(frontier, np.int64)
        one = self.left_next[(here // self.base)[:, None], self.left_columns]
        two = self.right_next[(here % self.base)[:, None], self.right_columns]
        keys = one * self.base + two
        gone = keys == self.dead
        if self.left_needed:
            gone |= one == self.left_dead
        if self.right_needed:
            gone |= two == self.right_dead
        keys[gone] = -1
        unique, inverse = np.unique(keys, return_inverse=True)
        values = []
        for key in unique.tolist():
            value = -1 if key < 0 else self.number.get(key)
            if value is None:
                value = self.number[key] = len(self.pairs)
                self.pairs.append(key)
            values.append(value)
        rows: IntArray = np.array(values, np.int32)[inverse].reshape(keys.shape)
        return rows

    def _accepting(self) -> BoolArray:
        coded = np.array(self.pairs, np.int64)
        left: BoolArray = np.append(self.left.accepting, False)[coded // self.base]
        right: BoolArray = np.append(self.right.accepting, False)[coded % self.base]
        if self.operation == "and":
            return left & right
        if self.operation == "or":
            return left | right
        return left & ~right if self.operation == "minus" else left ^ right


def _completed(table: IntArray) -> np.ndarray:
    """``[N + 1, C] int64``: dead is state N."""
    count, width = table.shape
    result = np.full((count + 1, width), count, np.int64)
    result[:count] = np.where(table < 0, count, table)
    return result


def _joint_classes(left: Table, right: Table) -> tuple[IntArray, IntArray, np.ndarray, np.ndarray]:
    """Cut the alphabet at the intervals of both: starts, their classes, and per class its left and right one."""
    if len(left.starts) + len(right.starts) > 120:
        starts = np.union1d(left.starts, right.starts)
        left_class = left.classes[np.searchsorted(left.starts, starts, "right") - 1].astype(np.int64)
        right_class = right.classes[np.searchsorted(right.starts, starts, "right") - 1]
        width = right.next.shape[1]
        codes, classes = np.unique(left_class * width + right_class, return_inverse=True)
        return starts, classes.astype(np.int32), codes // width, codes % width
    one, two = left.starts.tolist(), right.starts.tolist()
    one_class, two_class = left.classes.tolist(), right.classes.tolist()
    i = j = 0
    points: list[int] = []
    numbers: list[int] = []
    known: dict[tuple[int, int], int] = {}
    for point in sorted({*one, *two}):
        if i + 1 < len(one) and one[i + 1] <= point:
            i += 1
        if j + 1 < len(two) and two[j + 1] <= point:
            j += 1
        points.append(point)
        numbers.append(known.setdefault((one_class[i], two_class[j]), len(known)))
    pairs = np.array(list(known), np.intp)
    return np.array(points, np.int32), np.array(numbers, np.int32), pairs[:, 0], pairs[:, 1]
