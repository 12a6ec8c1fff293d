"""Trim each procedure, merge equivalent states, number the rest breadth-first, and merge equal procedures.

Equivalent means: the same symbols and calls lead to equivalent states. The first partition is by the length of the
shortest way to an end, which already separates nearly all states of a schema. A few rounds of Moore's refinement, all
states at once and by hash, do most of the rest; then only states with a successor that moved are looked at again, the
largest part of a split block keeping its number, as in Hopcroft's algorithm, so that long chains stay cheap.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.ir.passes.determinize import Deterministic

#: Rounds over all states before the work list takes over.
VECTOR_ROUNDS = 4

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


def minimize(procedures: list[Deterministic], budget: Budget) -> list[Deterministic]:
    """Minimize each procedure, then merge procedures that became equal."""
    return merge_equal([_minimize(procedure, budget) for procedure in procedures])


def merge_equal(procedures: list[Deterministic]) -> list[Deterministic]:
    """Give equal procedures one number, until nothing changes, and drop those that nobody calls any more."""
    number = np.arange(len(procedures), dtype=np.int32)
    while True:
        seen: dict[tuple[bytes, bytes, bytes], int] = {}
        merged = number.copy()
        for index, p in enumerate(procedures):
            if number[index] == index:
                calls = p.call_edges.copy()
                calls[:, 1] = number[calls[:, 1]]
                key = (p.next_state.tobytes(), p.accepting.tobytes(), calls.tobytes())
                merged[index] = seen.setdefault(key, index)
        merged = merged[number]
        if np.array_equal(merged, number):
            break
        number = merged
    keep = [0]
    position = {0: 0}
    for index in keep:  # grows while we walk it: breadth-first from the root
        for callee in number[procedures[index].call_edges[:, 1]].tolist():
            if callee not in position:
                position[callee] = len(keep)
                keep.append(callee)
    final = np.array([position.get(int(representative), -1) for representative in number], dtype=np.int32)
    result = []
    for index in keep:
        p = procedures[index]
        calls = p.call_edges.copy()
        calls[:, 1] = final[calls[:, 1]]
        calls = calls[np.lexsort((calls[:, 2], calls[:, 1], calls[:, 0]))]
        result.append(Deterministic(p.name, p.place, p.next_state, p.accepting, calls))
    return result


def _minimize(p: Deterministic, budget: Budget) -> Deterministic:
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
    block, count = _split_until_stable(block, count, p, source, target, budget)
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
    trimmed = Deterministic(p.name, p.place, number[p.next_state[alive]], p.accepting[alive], calls)
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
    block: Int64, count: int, p: Deterministic, source: npt.NDArray[np.intp], target: Int32, budget: Budget
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
    numbers = block.tolist()
    members: list[set[int]] = [set() for _ in range(count)]
    for state, number in enumerate(numbers):
        members[number].add(state)

    def signature(state: int) -> tuple[bytes, tuple[tuple[int, int], ...]]:
        row = padded[p.next_state[state]].tobytes()
        edges = calls.get(state)
        return row, tuple(sorted((callee, numbers[after]) for callee, after in edges)) if edges else ()

    dirty = [state for group in members if len(group) > 1 for state in sorted(group)]
    while dirty:
        budget.check_time(place=p.place)
        by_block: dict[int, list[int]] = {}
        for state in dirty:
            by_block.setdefault(numbers[state], []).append(state)
        moved: list[tuple[int, int]] = []
        for number, states in by_block.items():
            if len(members[number]) == 1:
                continue
            groups: dict[object, list[int]] = {}
            for state in states:
                groups.setdefault(signature(state), []).append(state)
            clean = len(members[number]) - len(states)
            if clean:
                looked = set(states)
                witness = next(state for state in members[number] if state not in looked)
                clean += len(groups.pop(signature(witness), ()))
            parts = sorted(groups.values(), key=len)
            if parts and len(parts[-1]) > clean:
                kept = set(parts.pop())
                rest = members[number] - kept - {state for part in parts for state in part}
                if rest:
                    parts.append(sorted(rest))
            for part in parts:
                members.append(set(part))
                members[number].difference_update(part)
                moved.extend((state, len(members) - 1) for state in part)
        for state, number in moved:
            numbers[state] = number
            padded[state] = number
        dirty = sorted({source for state, _ in moved for source in before[start[state] : start[state + 1]]})
    return padded[:-1], len(members)


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
    )
