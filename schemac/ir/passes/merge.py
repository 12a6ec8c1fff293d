"""Give equal procedures one number, and drop those that nobody calls any more.

procedure 1 a: "[" call 1 "]" | "x"       procedure 1 a: "[" call 1 "]" | "x"
procedure 2 b: "[" call 2 "]" | "x"   =>

Equal means: the same body, with calls to equal procedures. The coarsest such partition is found, so that procedures
that call themselves or one another merge too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.ir.passes.determinize import Deterministic
from schemac.ir.passes.partition import refine
from schemac_runtime.registers import Guard

Int32 = npt.NDArray[np.int32]


def merge_equal(procedures: list[Deterministic], budget: Budget) -> tuple[list[Deterministic], list[int]]:
    """(the procedures that are left, numbered breadth-first from the root; those that call what were two before)."""
    group = _equal(procedures, budget)
    first: dict[int, int] = {}
    for index, number in enumerate(group):
        first.setdefault(number, index)
    keep, position = [0], {group[0]: 0}
    for index in keep:  # grows while we walk it: breadth-first from the root
        for callee in procedures[index].call_edges[:, 1].tolist():
            if group[callee] not in position:
                position[group[callee]] = len(keep)
                keep.append(first[group[callee]])
    final = np.array([position.get(number, -1) for number in group], dtype=np.int32)
    result, touched = [], []
    for place, index in enumerate(keep):
        p = procedures[index]
        calls = p.call_edges.copy()
        calls[:, 1] = final[calls[:, 1]]
        if len(np.unique(calls[:, 1])) < len(np.unique(p.call_edges[:, 1])):
            touched.append(place)
        calls = calls[np.lexsort((calls[:, 2], calls[:, 1], calls[:, 0]))]
        result.append(replace(p, call_edges=calls))
    return result, touched


def _equal(procedures: list[Deterministic], budget: Budget) -> list[int]:
    """The group of each procedure: equal ones share it."""
    bodies: dict[tuple[bytes, bytes, bytes, Guard | None], int] = {}
    group: list[int] = []
    calls: list[list[tuple[int, int, int]]] = []
    callers: list[list[int]] = [[] for _ in procedures]
    for index, p in enumerate(procedures):
        body = (p.next_state.tobytes(), p.accepting.tobytes(), p.call_edges[:, [0, 2]].tobytes(), p.guard)
        group.append(bodies.setdefault(body, len(bodies)))
        calls.append([(state, callee, target) for state, callee, target in p.call_edges.tolist()])
        for callee in np.unique(p.call_edges[:, 1]).tolist():
            callers[callee].append(index)
    refine(
        group,
        lambda index: tuple(sorted((state, group[callee], target) for state, callee, target in calls[index])),
        callers.__getitem__,
        lambda _: budget.check_time(),
    )
    return group
