"""Products of two transition tables, explored from the start pair only."""

from __future__ import annotations

from typing import Literal

import numpy as np

from schemac.budget import Budget
from schemac.ir.minimize import IntArray, Table

Operation = Literal["and", "or", "minus", "xor"]
_NARROW = 256  # cells of a frontier up to which a plain loop beats sorting
_SMALL = 2_000  # cells of both automata together up to which they become lists at once
_PATIENCE = 24  # narrow frontiers before larger ones become lists


def product(left: Table, right: Table, operation: Operation, budget: Budget) -> Table:
    """Run two automata side by side; the result is neither minimal nor trimmed.

    A pair is coded as ``l * (R + 1) + r``; l = L and r = R stand for "dead".
    """
    starts, classes, left_columns, right_columns = _joint_classes(left, right)
    left_dead, right_dead = len(left.next), len(right.next)
    base = right_dead + 1
    left_next = _completed(left.next)
    right_next = _completed(right.next)
    left_needed = operation in ("and", "minus")
    right_needed = operation == "and"
    dead = left_dead * base + right_dead

    number: dict[int, int] = {}
    pairs: list[int] = []
    rows: list[IntArray] = []
    start = (0 if left_dead else left_dead) * base
    number[start] = 0
    pairs.append(start)
    flat: list[int] = []  # rows made by the loop since the last array
    done = 0
    cells = len(left_columns)
    chunk = max(1, 2_000_000 // cells)
    lists: tuple[list[list[int]], list[list[int]]] | None = None
    narrow = 0 if (left_dead + right_dead) * cells > _SMALL else _PATIENCE - 1
    while done < len(pairs):
        count = min(len(pairs) - done, chunk)
        budget.spend("regex_states", count + count * cells // 512)
        if count * cells <= _NARROW:
            # In small automata, and after a while of narrow frontiers (a long chain), lists pay for their conversion.
            narrow += 1
            if narrow == _PATIENCE and (left_dead + right_dead) * cells <= 1_000_000:
                lists = (left_next[:, left_columns].tolist(), right_next[:, right_columns].tolist())
            if lists is not None:
                for pair in pairs[done : done + count]:
                    one, two = lists[0][pair // base], lists[1][pair % base]
                    row = []
                    for a, b in zip(one, two, strict=True):
                        if (left_needed and a == left_dead) or (right_needed and b == right_dead):
                            row.append(-1)
                            continue
                        key = a * base + b
                        value = number.get(key)
                        if value is None:
                            if key == dead:
                                value = -1
                            else:
                                value = len(pairs)
                                pairs.append(key)
                            number[key] = value
                        row.append(value)
                    flat += row
                done += count
                continue
        if flat:
            rows.append(np.array(flat, np.int32).reshape(-1, cells))
            flat = []
        here = np.array(pairs[done : done + count], np.int64)
        one = left_next[(here // base)[:, None], left_columns]
        two = right_next[(here % base)[:, None], right_columns]
        keys = one * base + two
        gone = keys == dead
        if left_needed:
            gone |= one == left_dead
        if right_needed:
            gone |= two == right_dead
        keys[gone] = -1
        unique, inverse = np.unique(keys, return_inverse=True)
        values = []
        for key in unique.tolist():
            value = number.get(key)
            if value is None:
                if key < 0:
                    value = -1
                else:
                    value = number[key] = len(pairs)
                    pairs.append(key)
            values.append(value)
        rows.append(np.array(values, np.int32)[inverse].reshape(count, cells))
        done += count
    if flat:
        rows.append(np.array(flat, np.int32).reshape(-1, cells))
    coded = np.array(pairs, np.int64)
    one = np.append(left.accepting, False)[coded // base]
    two = np.append(right.accepting, False)[coded % base]
    if operation == "and":
        accepting = one & two
    elif operation == "or":
        accepting = one | two
    elif operation == "minus":
        accepting = one & ~two
    else:
        accepting = one ^ two
    return Table(starts, classes, np.concatenate(rows), accepting)


def _completed(table: IntArray) -> np.ndarray:
    """``[N + 1, C] int64``: dead is state N."""
    count, width = table.shape
    result = np.full((count + 1, width), count, np.int64)
    result[:count] = np.where(table < 0, count, table)
    return result


def _joint_classes(left: Table, right: Table) -> tuple[IntArray, IntArray, np.ndarray, np.ndarray]:
    """Cut the alphabet at the intervals of both: interval starts, their classes, and per class its left and right one."""
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
