"""Nondeterministic automata over integers, and the subset construction.

    nfa = Nfa(limit)
    end = nfa.literal(nfa.start, b"ab")
    nfa.final(end)
    table = nfa.determinize()          # not minimal; `Dfa.from_nfa` is
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from schemac.budget import Budget
from schemac.ir.charset import CharSet
from schemac.ir.minimize import BoolArray, Index, IntArray, Table

if TYPE_CHECKING:
    from schemac.ir.dfa import Dfa


class Nfa:
    """An automaton under construction. Nodes are 0, 1, 2, ...; node 0 is the start.

    Args:
        limit: greatest symbol of the alphabet.
    """

    __slots__ = ("_labels", "edges", "epsilons", "finals", "labels", "limit", "universal")

    start = 0

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.labels: list[CharSet] = []  # interned
        self._labels: dict[CharSet, int] = {}
        self.edges: list[list[tuple[int, int]]] = [[]]  # per node: (label, target)
        self.epsilons: list[list[int]] = [[]]
        self.finals: set[int] = set()
        #: Nodes that accept all that any node could; a set of nodes with one of these is as good as that one alone.
        self.universal: set[int] = set()

    def __len__(self) -> int:
        return len(self.edges)

    def node(self) -> int:
        """Add a node."""
        self.edges.append([])
        self.epsilons.append([])
        return len(self.edges) - 1

    def label(self, symbols: CharSet) -> int:
        """The number of a symbol set, for `labelled`."""
        found = self._labels.get(symbols)
        if found is None:
            found = self._labels[symbols] = len(self.labels)
            self.labels.append(symbols)
        return found

    def labelled(self, source: int, label: int, target: int) -> None:
        """Read one symbol of a numbered set."""
        self.edges[source].append((label, target))

    def symbols(self, source: int, symbols: CharSet, target: int) -> None:
        """Read one symbol of a set."""
        if symbols:
            self.edges[source].append((self.label(symbols), target))

    def epsilon(self, source: int, target: int) -> None:
        """Go on without reading."""
        self.epsilons[source].append(target)

    def literal(self, source: int, symbols: Iterable[int]) -> int:
        """Read exactly these symbols; returns the node reached."""
        for symbol in symbols:
            target = self.node()
            self.symbols(source, CharSet(((symbol, symbol),)), target)
            source = target
        return source

    def final(self, node: int) -> None:
        """Accept at `node`."""
        self.finals.add(node)

    def language(self, source: int, dfa: Dfa, target: int) -> None:
        """Read a text of `dfa` from `source` to `target`."""
        self.copies(source, dfa, target, 1, 1)

    def copies(self, source: int, dfa: Dfa, target: int, least: int, most: int) -> None:
        """Read between `least` and `most` texts of `dfa`, one after another; ``0 <= least <= most``.

        Copy number k ends where copy k + 1 starts; each start from the `least`-th on may leave for `target`.
        """
        if not dfa.size:
            most = 0
        template = _sparse(dfa)
        accepting = dfa.accepting_states()
        labels = [self.label(symbols) for symbols in template[0]]
        for index in range(most):
            if index >= least:
                self.epsilon(source, target)
            first = len(self.edges)
            self.edges.extend([(labels[label], first + there) for label, there in row] for row in template[1])
            self.epsilons.extend([] for _ in template[1])
            self.epsilon(source, first)
            source = target if index == most - 1 else self.node()
            for state in accepting:
                self.epsilon(first + state, source)
        if least == most == 0:
            self.epsilon(source, target)

    def determinize(self, budget: Budget) -> Table:
        """The subset construction: reachable sets only, over classes of symbols that no label tells apart."""
        starts, classes, members = symbol_classes(self.labels, self.limit)
        width = int(classes.max()) + 1
        closure = self._closures()
        edges, finals = self.edges, self.finals
        universal = self.universal
        whole = frozenset((min(universal),)) if universal else frozenset()
        first = closure(self.start)
        if not universal.isdisjoint(first):
            first = whole
        number: dict[frozenset[int], int] = {first: 0}
        queue = [first]
        accepting: list[bool] = []
        splits: dict[tuple[int, ...], list[tuple[Index, tuple[int, ...]]]] = {}
        cells_at: list[Index] = []  # per run of cells, their columns; the row and the value beside it
        cells_row: list[int] = []
        cells_value: list[int] = []
        for row, subset in enumerate(queue):  # grows meanwhile
            budget.spend("regex_states", 1 + len(subset) // 32 + width // 512)
            accepting.append(not finals.isdisjoint(subset))
            targets: dict[int, set[int] | frozenset[int]] = {}
            for node in subset:
                for label, target in edges[node]:
                    reached = closure(target)
                    known = targets.get(label)
                    if known is None:
                        targets[label] = reached
                    elif type(known) is set:
                        known.update(reached)
                    elif known is not reached:
                        targets[label] = {*known, *reached}
            present = tuple(targets) if len(targets) == 1 else tuple(sorted(targets))
            split = splits.get(present)
            if split is None:
                split = splits[present] = _split(present, members)
            for columns, together in split:
                if len(together) == 1:
                    union = targets[together[0]]
                else:
                    union = frozenset().union(*[targets[label] for label in together])
                if universal and not universal.isdisjoint(union):
                    key = whole
                else:
                    key = union if type(union) is frozenset else frozenset(union)
                value = number.get(key)
                if value is None:
                    value = number[key] = len(queue)
                    queue.append(key)
                cells_at.append(columns)
                cells_row.append(row)
                cells_value.append(value)
        table = np.full((len(queue), width), -1, np.int32)
        if cells_at:
            lengths = np.fromiter(map(len, cells_at), np.intp, len(cells_at))
            rows = np.repeat(np.array(cells_row, np.intp), lengths)
            table[rows, np.concatenate(cells_at)] = np.repeat(np.array(cells_value, np.int32), lengths)
        return Table(starts, classes, table, np.array(accepting, np.bool_))

    def _closures(self):  # type: ignore[no-untyped-def]
        """A memoized function: what a node reaches by epsilons, as far as it reads a symbol or is final."""
        memo: dict[int, frozenset[int]] = {}
        edges, epsilons, finals = self.edges, self.epsilons, self.finals

        def closure(node: int) -> frozenset[int]:
            found = memo.get(node)
            if found is None:
                if not epsilons[node]:
                    found = frozenset((node,))
                else:
                    seen = {node}
                    stack = [node]
                    while stack:
                        for target in epsilons[stack.pop()]:
                            if target not in seen:
                                seen.add(target)
                                stack.append(target)
                    found = frozenset(state for state in seen if edges[state] or state in finals)
                memo[node] = found
            return found

        return closure


def _split(present: tuple[int, ...], members: BoolArray) -> list[tuple[Index, tuple[int, ...]]]:
    """Group classes by which of the labels `present` have them: (columns, labels) for each group with a label."""
    if len(present) == 1:
        return [(np.flatnonzero(members[present[0]]), present)]
    groups: dict[bytes, list[int]] = {}
    chosen = members[list(present)]
    for column in np.flatnonzero(chosen.any(axis=0)).tolist():
        groups.setdefault(chosen[:, column].tobytes(), []).append(column)
    return [
        (np.array(columns, np.intp), tuple(label for label, flag in zip(present, key, strict=True) if flag))
        for key, columns in groups.items()
    ]


def symbol_classes(labels: list[CharSet], limit: int) -> tuple[IntArray, IntArray, BoolArray]:
    """Cut the alphabet so that no label separates a class: interval starts [K], class of each [K], labels x classes."""
    points = [0]
    for symbols in labels:
        for low, high in symbols.ranges:
            points.append(low)
            points.append(high + 1)
    if len(points) < 100:
        return _few_classes(labels, sorted({point for point in points if point <= limit}))
    starts = np.unique(np.array(points, np.int64))
    starts = starts[starts <= limit]
    member = np.zeros((len(labels), len(starts) + 1), np.int8)
    for row, symbols in enumerate(labels):
        if symbols.ranges:
            bounds = np.array(symbols.ranges, np.int64)
            member[row, np.searchsorted(starts, bounds[:, 0])] += 1
            member[row, np.searchsorted(starts, bounds[:, 1] + 1)] -= 1
    inside = np.cumsum(member, axis=1, dtype=np.int8)[:, :-1] > 0
    signature: dict[bytes, int] = {}
    columns = np.ascontiguousarray(inside.T)
    classes = np.array([signature.setdefault(column.tobytes(), len(signature)) for column in columns], np.int32)
    first = np.unique(classes, return_index=True)[1]
    return starts.astype(np.int32), classes, np.ascontiguousarray(columns[first].T)


def _few_classes(labels: list[CharSet], points: list[int]) -> tuple[IntArray, IntArray, BoolArray]:
    """`symbol_classes` on lists."""
    member = [0] * len(points)  # bit i: label i has the interval
    position = {point: index for index, point in enumerate(points)}
    for row, symbols in enumerate(labels):
        for low, high in symbols.ranges:
            for index in range(position[low], position.get(high + 1, len(points))):
                member[index] |= 1 << row
    known: dict[int, int] = {}
    classes = [known.setdefault(bits, len(known)) for bits in member]
    inside = [[bool(bits >> row & 1) for bits in known] for row in range(len(labels))]
    shaped = np.array(inside, np.bool_).reshape(len(labels), len(known))
    return np.array(points, np.int32), np.array(classes, np.int32), shaped


def _sparse(dfa: Dfa) -> tuple[list[CharSet], list[list[tuple[int, int]]]]:
    """A `Dfa` as (label sets, per state (label, target))."""
    charsets: list[CharSet] = []
    known: dict[tuple[int, ...], int] = {}
    rows: list[list[tuple[int, int]]] = [[] for _ in range(dfa.size)]
    if dfa.table.size <= 2_000:
        for row, values in zip(rows, dfa.table.tolist(), strict=True):
            groups: dict[int, list[int]] = {}
            for index, value in enumerate(values):
                if value >= 0:
                    groups.setdefault(value, []).append(index)
            for value, group in groups.items():
                key = tuple(group)
                label = known.get(key)
                if label is None:
                    label = known[key] = len(charsets)
                    charsets.append(dfa.class_symbols(key))
                row.append((label, value))
        return charsets, rows
    state, column = np.nonzero(dfa.table >= 0)
    target = dfa.table[state, column]
    order = np.lexsort((column, target, state))
    state, column, target = state[order], column[order], target[order]
    cut = np.flatnonzero((np.diff(state) != 0) | (np.diff(target) != 0)) + 1
    bounds = [0, *cut.tolist(), len(state)] if len(state) else [0]
    columns = column.tolist()
    heads_state, heads_target = state[bounds[:-1]].tolist(), target[bounds[:-1]].tolist()
    for index in range(len(bounds) - 1):
        key = tuple(columns[bounds[index] : bounds[index + 1]])
        label = known.get(key)
        if label is None:
            label = known[key] = len(charsets)
            charsets.append(dfa.class_symbols(key))
        rows[heads_state[index]].append((label, heads_target[index]))
    return charsets, rows
