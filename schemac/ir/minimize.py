"""From any deterministic transition table to the one that is minimal, trimmed and numbered canonically.

A table is ``next[N, C] int32`` over symbol classes, -1 = dead. The steps, each about linear and either vectorized or a
plain loop, whichever suits the shape:

1. drop the states from which nothing can be accepted, merge those from which everything is accepted;
2. states that reach no other cycle are merged bottom-up, by longest path (this covers word lists and long chains);
3. the rest is refined by signatures, recomputing only predecessors of states that moved; the largest part of a block
   keeps its number, so that every transition is looked at O(log N) times (the argument of Hopcroft, 1971);
4. number states in breadth-first order over symbols, and classes by first symbol.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
Index = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

_SMALL_CELLS = 600  # tables up to this size (and 80 states) are worked out on lists, where arrays only add overhead
_FEW_STATES = 24  # states of one refinement round up to which it is done on lists
_LOOP_EDGES = 100_000  # below this many edges a plain loop beats one array operation per level
_MULTIPLIERS = np.random.default_rng(0x5EED).integers(1, 1 << 62, size=1 << 12, dtype=np.uint64) * np.uint64(
    2
) + np.uint64(1)


class Table(NamedTuple):
    """A deterministic automaton over symbol classes; the start is state 0, and no state means the empty language."""

    starts: IntArray  # [K] first symbol of each interval, ascending, starts[0] == 0
    classes: IntArray  # [K] class of each interval, in 0..C-1
    next: IntArray  # [N, C] next state, -1 = dead
    accepting: BoolArray  # [N]


class _Reverse:
    """Predecessors of every state, each once, in compressed rows."""

    def __init__(self, table: IntArray) -> None:
        count = len(table)
        ordered = np.sort(table, axis=1)
        keep = ordered >= 0
        keep[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        source = np.nonzero(keep)[0]
        target = ordered[keep]
        self.source, self.target = source, target
        self.pred = source[np.argsort(target, kind="stable")]
        self.offsets = np.zeros(count + 1, np.intp)
        np.cumsum(np.bincount(target, minlength=count), out=self.offsets[1:])

    def gather(self, states: Index) -> Index:
        """All predecessors of `states`, one after another (repeats possible)."""
        low = self.offsets[states]
        counts = self.offsets[states + 1] - low
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        found: Index = self.pred[np.repeat(low - ends + counts, counts) + np.arange(total)]
        return found

    def closure(self, seed: BoolArray) -> BoolArray:
        """The states from which a state of `seed` can be reached, itself included."""
        if len(self.pred) > _LOOP_EDGES:
            seen: BoolArray = seed.copy()
            frontier = np.flatnonzero(seen)
            while frontier.size:
                found = self.gather(frontier)
                frontier = np.unique(found[~seen[found]])
                seen[frontier] = True
            return seen
        flags, pred, offsets = seed.tolist(), self.pred.tolist(), self.offsets.tolist()
        stack = np.flatnonzero(seed).tolist()
        while stack:
            state = stack.pop()
            for source in pred[offsets[state] : offsets[state + 1]]:
                if not flags[source]:
                    flags[source] = True
                    stack.append(source)
        return np.array(flags, np.bool_)

    def heights(self, leaf: int) -> Index:
        """The longest path from each state, -1 where it is unbounded; `leaf` (or -1) counts as if it did not exist."""
        count = len(self.offsets) - 1
        degree = np.bincount(self.source[self.target != leaf], minlength=count)
        if len(self.pred) > _LOOP_EDGES:
            heights = np.full(count, -1, np.intp)
            frontier, level = np.flatnonzero(degree == 0), 0
            frontier = frontier[frontier != leaf]
            while frontier.size:
                heights[frontier] = level
                found = self.gather(frontier)
                np.subtract.at(degree, found, 1)
                found = np.unique(found)
                frontier, level = found[degree[found] == 0], level + 1
                frontier = frontier[frontier != leaf]
            return heights
        result = [-1] * count
        left, pred, offsets = degree.tolist(), self.pred.tolist(), self.offsets.tolist()
        stack = [state for state in range(count) if not left[state] and state != leaf]
        longest = [0] * count
        while stack:
            state = stack.pop()
            height = result[state] = longest[state]
            for source in pred[offsets[state] : offsets[state + 1]]:
                longest[source] = max(longest[source], height + 1)
                left[source] -= 1
                if not left[source] and source != leaf:
                    stack.append(source)
        return np.array(result, np.intp)


def heights(table: IntArray) -> Index:
    """The longest path from each state of a table, -1 where it is unbounded."""
    return _Reverse(table).heights(-1)


def inclusions(table: IntArray, accepting: BoolArray) -> list[int]:
    """Per state, bit q is set if state q is known to accept all that it accepts; exact up to 256 states."""
    count = len(table)
    if count > 256:
        return [1 << state for state in range(count)]
    final = np.append(accepting, False)
    following = np.vstack([np.where(table < 0, count, table), np.full((1, table.shape[1]), count)])
    lacks = final[:, None] & ~final  # [p, q] a word of p that q does not have is known
    while True:
        more = lacks.copy()
        for column in following.T:
            more |= lacks[np.ix_(column, column)]
        if (more == lacks).all():
            break
        lacks = more
    return [sum(1 << state for state in np.flatnonzero(~row[:count]).tolist()) for row in lacks[:count]]


def _group(signatures: NDArray[np.int32], extra: NDArray[np.int32]) -> tuple[Index, Index]:
    """Group equal rows of ``[A, C]`` signatures with equal ``[A]`` extras: (group of each row, a row of each group)."""
    width = signatures.shape[1]
    if width < len(_MULTIPLIERS):
        mixed = signatures.astype(np.uint64) @ _MULTIPLIERS[1 : width + 1] + extra.astype(np.uint64) * _MULTIPLIERS[0]
        _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
        # Equal hashes are compared, not trusted.
        same = first[inverse]
        if (extra == extra[same]).all() and (signatures == signatures[same]).all():
            return inverse, first
    rows: dict[bytes, int] = {}
    firsts: list[int] = []
    groups = np.empty(len(extra), np.intp)
    whole = np.ascontiguousarray(np.column_stack([signatures, extra]))
    for position, row in enumerate(whole):
        group = rows.setdefault(row.tobytes(), len(rows))
        if group == len(firsts):
            firsts.append(position)
        groups[position] = group
    return groups, np.array(firsts, np.intp)


def _equivalence(table: IntArray, accepting: BoolArray) -> IntArray:
    """Number states by language: ``[N + 1]`` ids, equal iff the languages are; id 0 is the empty language."""
    count = len(table)
    ids = np.zeros(count + 1, np.int32)  # the entry past the end is where index -1 (dead) looks
    reverse = _Reverse(table)
    live = reverse.closure(accepting)
    # A state accepts everything unless it can reach a rejecting state or a dead end.
    universal = ~reverse.closure(~accepting | (table < 0).any(axis=1) | ~live)
    leaf = -1
    if universal.any():
        ids[:count][universal] = 1
        leaf = int(np.flatnonzero(universal)[0])
    if (leaf >= 0 and int(universal.sum()) > 1) or not live.all():
        table = np.where(
            table < 0, -1, np.append(np.where(live, np.where(universal, leaf, np.arange(count)), -1), -1)[table]
        )
        table = table.astype(np.int32)
        table[~live] = -1
        if leaf >= 0:
            table[universal] = leaf
        reverse = _Reverse(table)
    fresh = 2
    height = reverse.heights(leaf)
    height[~live | universal] = -2
    peeled = np.flatnonzero(height >= 0)
    if peeled.size:
        # Longest paths are a property of the language here, so that only states of one level can be equal.
        peeled = peeled[np.argsort(height[peeled], kind="stable")]
        bounds = [0, *(np.flatnonzero(np.diff(height[peeled])) + 1).tolist(), len(peeled)]
        for low, high in pairwise(bounds):
            if high - low == 1:
                ids[peeled[low]] = fresh
                fresh += 1
                continue
            level = peeled[low:high]
            inverse, first = _group(ids[table[level]], accepting[level].astype(np.int32))
            ids[level] = inverse + fresh
            fresh += len(first)
    rest = np.flatnonzero(height == -1)
    if rest.size:
        _refine(table, accepting, ids, rest, fresh, reverse)
    return ids


def _refine(table: IntArray, accepting: BoolArray, ids: IntArray, rest: Index, fresh: int, reverse: _Reverse) -> None:
    """Number the states `rest` by language, in place in `ids`, from `fresh` on; the ids of all others are final."""
    count = len(table)
    size = np.zeros(fresh + len(rest) + 2, np.intp)
    ids[rest] = fresh + accepting[rest]
    size[fresh : fresh + 2] = np.bincount(ids[rest] - fresh, minlength=2)
    fresh += 2
    in_rest = np.zeros(count, np.bool_)
    in_rest[rest] = True
    mark = np.zeros(count, np.bool_)
    affected = rest
    while affected.size:
        if affected.size <= _FEW_STATES:
            fresh, affected = _split_few(table, ids, rest, affected, size, fresh, reverse)
            affected = affected[in_rest[affected]]
            affected = affected[size[ids[affected]] > 1]
            continue
        old = ids[affected]
        inverse, first = _group(ids[table[affected]], old)
        group_size = np.bincount(inverse)
        blocks, block_of_group = np.unique(old[first], return_inverse=True)
        remainder = size[blocks] - np.bincount(block_of_group, weights=group_size).astype(np.intp)
        if len(blocks) == len(first) and not remainder.any():
            return
        order = np.lexsort((group_size, block_of_group))
        last = np.append(np.flatnonzero(np.diff(block_of_group[order])), len(order) - 1)
        biggest = order[last]  # per block, its largest group
        stays = group_size[biggest] >= remainder
        moves = np.ones(len(first), np.bool_)
        moves[biggest[stays]] = False
        changed = affected[moves[inverse]]
        evicted = blocks[stays & (remainder > 0)]
        if evicted.size:
            # The unaffected part of these blocks is the smaller one and gets the new number.
            mark[affected] = True
            renumber = np.zeros(len(size), np.int32)
            renumber[evicted] = np.arange(fresh, fresh + len(evicted))
            others = rest[(renumber[ids[rest]] > 0) & ~mark[rest]]
            mark[affected] = False
        number = np.zeros(len(first), np.int32)
        base = fresh + len(evicted)
        number[moves] = np.arange(base, base + int(moves.sum()))
        ids[changed] = number[inverse][moves[inverse]]
        size[number[moves]] = group_size[moves]
        np.subtract.at(size, old[first][moves], group_size[moves])
        if evicted.size:
            size[renumber[evicted]] = size[evicted] - group_size[biggest[stays & (remainder > 0)]]
            size[evicted] = group_size[biggest[stays & (remainder > 0)]]
            ids[others] = renumber[ids[others]]
            changed = np.concatenate([changed, others])
        fresh = base + int(moves.sum())
        mark[reverse.gather(changed)] = True
        affected = np.flatnonzero(mark)
        mark[affected] = False
        affected = affected[in_rest[affected]]
        affected = affected[size[ids[affected]] > 1]


def _split_few(
    table: IntArray, ids: IntArray, rest: Index, affected: Index, size: Index, fresh: int, reverse: _Reverse
) -> tuple[int, Index]:
    """One round of `_refine` for few affected states: (next fresh id, the predecessors of states that moved)."""
    states: list[int] = affected.tolist()
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    rows = ids[table[affected]].tolist()
    for state, block, row in zip(states, ids[affected].tolist(), rows, strict=True):
        groups.setdefault((block, tuple(row)), []).append(state)
    by_block: dict[int, list[list[int]]] = {}
    for (block, _), group in groups.items():
        by_block.setdefault(block, []).append(group)
    changed: list[int] = []
    for block, parts in by_block.items():
        remainder = int(size[block]) - sum(map(len, parts))
        if len(parts) == 1 and not remainder:
            continue
        parts.sort(key=len)
        if len(parts[-1]) >= remainder:
            parts.pop()
            if remainder:
                parts.append(sorted(set(rest[ids[rest] == block].tolist()).difference(states)))
        for part in parts:
            ids[part] = fresh
            size[fresh] = len(part)
            size[block] -= len(part)
            fresh += 1
            changed += part
    found = reverse.gather(np.array(changed, np.intp))
    return fresh, np.unique(found)


def canonical(raw: Table) -> Table:
    """Number the states of `raw` breadth-first and its classes by first symbol; drop what cannot be reached.

    Equal classes are merged. The result is the normal form if `raw` is minimal and trimmed.
    """
    count = len(raw.next)
    if not count:
        return empty_table()
    _, first, inverse = np.unique(raw.classes, return_index=True, return_inverse=True)
    by_symbol = np.argsort(first)
    rank = np.empty(len(first), np.int32)
    rank[by_symbol] = np.arange(len(first))
    classes = rank[inverse]
    table = raw.next[:, raw.classes[first[by_symbol]]]
    order = _breadth_first(table)
    number = np.full(count + 1, -1, np.int32)
    number[order] = np.arange(len(order))
    table = number[table[order]]
    columns: dict[bytes, int] = {}
    merged = np.array(
        [columns.setdefault(row.tobytes(), len(columns)) for row in np.ascontiguousarray(table.T)], np.int32
    )
    if len(columns) < table.shape[1]:
        table = table[:, np.unique(merged, return_index=True)[1]]
        classes = merged[classes]
    keep = np.ones(len(classes), np.bool_)
    keep[1:] = classes[1:] != classes[:-1]
    table = np.ascontiguousarray(table)
    return Table(raw.starts[keep].astype(np.int32), classes[keep].astype(np.int32), table, raw.accepting[order])


def _breadth_first(table: IntArray) -> Index:
    """The states that state 0 reaches, in breadth-first order over columns."""
    count, width = table.shape
    seen = np.zeros(count, np.bool_)
    seen[0] = True
    frontier: Index = np.zeros(1, np.intp)
    order = [frontier]
    while frontier.size:
        if frontier.size * width <= 48:
            found = []
            for target in dict.fromkeys(table[frontier].ravel().tolist()):
                if target >= 0 and not seen[target]:
                    seen[target] = True
                    found.append(target)
            frontier = np.array(found, np.intp)
        else:
            targets = table[frontier].ravel()
            targets = targets[targets >= 0]
            targets = targets[~seen[targets]]
            unique, first = np.unique(targets, return_index=True)
            frontier = unique[np.argsort(first)].astype(np.intp)
            seen[frontier] = True
        order.append(frontier)
    return np.concatenate(order)


def empty_table() -> Table:
    """The table of the empty language."""
    zero = np.zeros(1, np.int32)
    return Table(zero, zero, np.zeros((0, 1), np.int32), np.zeros(0, np.bool_))


def minimal(raw: Table) -> Table:
    """The normal form of any table."""
    count = len(raw.next)
    if not count or not raw.accepting.any():
        return empty_table()
    if count <= 80 and raw.next.size <= _SMALL_CELLS:
        return _minimal_small(raw)
    ids = _equivalence(raw.next, raw.accepting)
    if ids[0] == 0:
        return empty_table()
    unique, first = np.unique(ids[:count], return_index=True)
    if unique[0] == 0:
        unique, first = unique[1:], first[1:]
    number = np.full(int(ids.max()) + 1, -1, np.int32)
    number[unique] = np.arange(len(unique))
    # State 0 must stay the start: swap it to the front.
    start = int(number[ids[0]])
    if start:
        first[0], first[start] = first[start], first[0]
        number[ids[first[0]]], number[ids[first[start]]] = 0, start
    table = number[ids[raw.next[first]]]
    return canonical(Table(raw.starts, raw.classes, table, raw.accepting[first]))


def _minimal_small(raw: Table) -> Table:
    """`minimal` for small tables: refinement by whole signatures, on lists."""
    rows: list[list[int]] = raw.next.tolist()
    accepting: list[bool] = raw.accepting.tolist()
    count = len(rows)
    before: list[list[int]] = [[] for _ in range(count)]
    for state, row in enumerate(rows):
        for target in set(row):
            if target >= 0:
                before[target].append(state)
    # The distance to an accepting state tells languages apart, and splits chains at once.
    ids = [0 if flag else -1 for flag in accepting]
    level = [state for state in range(count) if accepting[state]]
    distance = 0
    while level:
        distance += 1
        found = []
        for target in level:
            for state in before[target]:
                if ids[state] < 0:
                    ids[state] = distance
                    found.append(state)
        level = found
    if ids[0] < 0:
        return empty_table()
    live = [state for state in range(count) if ids[state] >= 0]
    ids.append(-1)  # where index -1 (dead) looks
    blocks = len({ids[state] for state in live})
    while True:
        number: dict[tuple[int, ...], int] = {}
        fresh = [-1] * (count + 1)
        for state in live:
            key = (ids[state], *[ids[target] for target in rows[state]])
            fresh[state] = number.setdefault(key, len(number))
        ids = fresh
        if len(number) == blocks:
            break
        blocks = len(number)
    # Breadth-first numbering over classes by first symbol; then equal columns and neighbouring intervals merge.
    classes: list[int] = raw.classes.tolist()
    by_symbol = list(dict.fromkeys(classes))
    example: dict[int, int] = {}
    for state in live:
        example.setdefault(ids[state], state)
    order = {ids[0]: 0}
    table: list[list[int]] = []
    queue = [ids[0]]
    for block in queue:  # grows meanwhile
        row = rows[example[block]]
        merged = []
        for column in by_symbol:
            target = ids[row[column]]
            if target < 0:
                merged.append(-1)
                continue
            position = order.get(target)
            if position is None:
                position = order[target] = len(queue)
                queue.append(target)
            merged.append(position)
        table.append(merged)
    columns: dict[tuple[int, ...], int] = {}
    rank = {
        column: columns.setdefault(values, len(columns))
        for column, values in zip(by_symbol, zip(*table, strict=True), strict=True)
    }
    starts: list[int] = []
    kept: list[int] = []
    for start, column in zip(raw.starts.tolist(), classes, strict=True):
        merged_class = rank[column]
        if not kept or kept[-1] != merged_class:
            starts.append(start)
            kept.append(merged_class)
    return Table(
        np.array(starts, np.int32),
        np.array(kept, np.int32),
        np.array(list(zip(*columns, strict=True)), np.int32),
        np.array([accepting[example[block]] for block in queue], np.bool_),
    )
