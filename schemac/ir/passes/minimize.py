"""Trim each procedure, merge equivalent states, number the rest breadth-first, and merge equal procedures.

Equivalent means: the same symbols and calls lead to equivalent states. The first partition is by the length of the
shortest way to an end, which already separates nearly all states of a schema. A few rounds of Moore's refinement, all
states at once and by hash, do most of the rest; then only states with a successor that moved are looked at again, so
that long chains stay cheap.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.ir.passes.determinize import Deterministic, determinize_calls
from schemac.ir.passes.merge import merge_equal
from schemac.ir.passes.partition import refine

#: Rounds over all states before the work list takes over.
VECTOR_ROUNDS = 4

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


def minimize(procedures: list[Deterministic], budget: Budget) -> list[Deterministic]:
    """Minimize each procedure, and merge procedures that are equal.

    Where two callees became one, a state may call it twice, or equal another state: those callers are made
    deterministic and minimal again.
    """
    minimal = [_minimize(procedure, budget) for procedure in procedures]
    while True:
        minimal, touched = merge_equal(minimal, budget)
        if not touched:
            return minimal
        for index in touched:
            minimal[index] = _minimize(determinize_calls(minimal[index], budget), budget)


def _minimize(p: Deterministic, budget: Budget) -> Deterministic:
    if p.minimal:
        return p
    source, symbol = np.nonzero(p.next_state >= 0)
    target = p.next_state[source, symbol]
    calls = p.call_edges
    distance = _distance_to_end(p, source, target)
    if (distance < 0).any():
        p, calls = _without_dead_states(p, distance >= 0)
        source, symbol = np.nonzero(p.next_state >= 0)
        target = p.next_state[source, symbol]
        distance = distance[distance >= 0]
    block = _first_partition(p, distance)
    count = int(block.max(initial=-1)) + 1
    for _ in range(VECTOR_ROUNDS):
        refined = _refine(block, count, source, symbol, target, calls)
        refined_count = int(refined.max(initial=-1)) + 1
        if refined_count == count:
            break
        block, count = refined, refined_count
    budget.check_time(place=p.place)
    block, count = _split_until_stable(block, p, source, target, budget)
    return _quotient(p, block, count)


def _distance_to_end(p: Deterministic, source: npt.NDArray[np.intp], target: Int32) -> Int32:
    """int32 [n]: fewest symbols and calls to an accepting state, -1 where there is none."""
    n = len(p.accepting)
    all_source = np.concatenate([source.astype(np.int32), p.call_edges[:, 0]])
    all_target = np.concatenate([target, p.call_edges[:, 2]])
    order = np.argsort(all_target, kind="stable")
    predecessor = all_source[order].tolist()
    start = np.searchsorted(all_target[order], np.arange(n + 1)).tolist()
    distance = np.where(p.accepting, 0, -1).tolist()
    frontier = [state for state in range(n) if distance[state] == 0]
    for state in frontier:  # grows while we walk it: breadth-first
        step = distance[state] + 1
        for before in predecessor[start[state] : start[state + 1]]:
            if distance[before] < 0:
                distance[before] = step
                frontier.append(before)
    return np.array(distance, dtype=np.int32)


def _without_dead_states(p: Deterministic, alive: npt.NDArray[np.bool_]) -> tuple[Deterministic, Int32]:
    number = np.full(len(alive) + 1, -1, dtype=np.int32)  # the last slot serves next_state == -1
    number[:-1][alive] = np.arange(int(alive.sum()), dtype=np.int32)
    calls = p.call_edges[alive[p.call_edges[:, 0]] & alive[p.call_edges[:, 2]]]
    calls = np.stack([number[calls[:, 0]], calls[:, 1], number[calls[:, 2]]], axis=1).astype(np.int32)
    trimmed = Deterministic(p.name, p.place, number[p.next_state[alive]], p.accepting[alive], calls, p.guard)
    return trimmed, calls


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A 64-bit mixing step (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


def _first_partition(p: Deterministic, distance: Int32) -> Int64:
    present = np.packbits(p.next_state >= 0, axis=1).astype(np.uint64)
    weights = _mix(np.arange(1, present.shape[1] + 1, dtype=np.uint64))
    key = (_mix(present + np.uint64(7)) * weights).sum(axis=1, dtype=np.uint64)
    key ^= _mix(distance.astype(np.uint64) * np.uint64(2) + p.accepting.astype(np.uint64))
    return np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _refine(
    block: Int64, count: int, source: npt.NDArray[np.intp], symbol: npt.NDArray[np.intp], target: Int32, calls: Int32
) -> Int64:
    """Split blocks by a hash of (block, {(letter, block of target)}); never joins what was split."""
    edge = _mix(symbol.astype(np.uint64) * np.uint64(count + 1) + block[target].astype(np.uint64))
    call = _mix(
        (calls[:, 1].astype(np.uint64) + np.uint64(1 << 32)) * np.uint64(count + 1)
        + block[calls[:, 2]].astype(np.uint64)
    )
    total = np.zeros(len(block), dtype=np.uint64)
    np.add.at(total, source, edge)
    np.add.at(total, calls[:, 0], call)
    order = np.lexsort((total, block))
    new = np.ones(len(block), dtype=np.bool_)
    new[1:] = (block[order][1:] != block[order][:-1]) | (total[order][1:] != total[order][:-1])
    refined = np.empty(len(block), dtype=np.int64)
    refined[order] = np.cumsum(new) - 1
    return refined


def _split_until_stable(
    block: Int64, p: Deterministic, source: npt.NDArray[np.intp], target: Int32, budget: Budget
) -> tuple[Int64, int]:
    """Split blocks by exact rows until every block's members agree. Returns (block of each state, number of blocks)."""
    n = len(block)
    calls: dict[int, list[tuple[int, int]]] = {}
    for state, callee, after in p.call_edges.tolist():
        calls.setdefault(state, []).append((callee, after))
    all_source = np.concatenate([source.astype(np.int64), p.call_edges[:, 0]])
    all_target = np.concatenate([target.astype(np.int64), p.call_edges[:, 2]])
    order = np.argsort(all_target, kind="stable")
    before = all_source[order].tolist()
    start = np.searchsorted(all_target[order], np.arange(n + 1)).tolist()
    padded = np.append(block, -1)
    numbers: list[int] = block.tolist()

    def signature(state: int) -> tuple[bytes, tuple[tuple[int, int], ...]]:
        row = padded[p.next_state[state]].tobytes()
        edges = calls.get(state)
        return row, tuple(sorted((callee, numbers[after]) for callee, after in edges)) if edges else ()

    def moved(moves: list[tuple[int, int]]) -> None:
        budget.check_time(place=p.place)
        for state, number in moves:
            padded[state] = number

    count = refine(numbers, signature, lambda state: before[start[state] : start[state + 1]], moved)
    return padded[:-1], count


def _quotient(p: Deterministic, block: Int64, count: int) -> Deterministic:
    """One state per block, numbered breadth-first from the entry, letters in order."""
    first = np.zeros(count, dtype=np.int64)
    first[block[::-1]] = np.arange(len(block) - 1, -1, -1)
    padded = np.append(block, -1)
    rows = padded[p.next_state[first]]
    owner = {int(state): int(index) for index, state in enumerate(first)}
    calls_of: dict[int, list[tuple[int, int]]] = {}
    for state, callee, target in p.call_edges.tolist():
        if state in owner:
            calls_of.setdefault(owner[state], []).append((callee, int(block[target])))
    source, symbol = np.nonzero(rows >= 0)
    bounds = np.searchsorted(source, np.arange(count + 1)).tolist()
    targets = rows[source, symbol].tolist()
    number = [-1] * count
    queue = [int(block[0])]
    number[queue[0]] = 0
    for state in queue:  # grows while we walk it
        successors = targets[bounds[state] : bounds[state + 1]] + [t for _, t in sorted(calls_of.get(state, []))]
        for successor in successors:
            if number[successor] < 0:
                number[successor] = len(queue)
                queue.append(successor)
    order = np.array(queue, dtype=np.int64)
    renumber = np.array([*number, -1], dtype=np.int32)
    calls = sorted(
        (number[state], callee, number[target])
        for state, edges in calls_of.items()
        for callee, target in edges
        if number[state] >= 0
    )
    return Deterministic(
        p.name,
        p.place,
        renumber[rows[order]],
        p.accepting[first[order]],
        np.array(calls, dtype=np.int32).reshape(-1, 3),
        p.guard,
    )
