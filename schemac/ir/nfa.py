"""Nondeterministic automata over integers, and the subset construction.

nfa = Nfa(limit)
end = nfa.literal(nfa.start, b"ab")
nfa.final(end)
table = nfa.determinize()          # not minimal; `Dfa.from_nfa` is
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from schemac.budget import Budget
from schemac.ir.charset import CharSet
from schemac.ir.minimize import BoolArray, IntArray, Table, inclusions

if TYPE_CHECKING:
    from schemac.ir.dfa import Dfa


class Nfa:
    """An automaton under construction. Nodes are 0, 1, 2, ...; node 0 is the start.

    Args:
        limit: greatest symbol of the alphabet.
    """

    __slots__ = (
        "_copied",
        "_groups",
        "_labels",
        "_ranked",
        "edges",
        "epsilons",
        "finals",
        "labels",
        "limit",
        "universal",
    )

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
        self._ranked: dict[int, tuple[int, int, int]] = {}  # node: (group, rank, state of the repeated body)
        self._groups: list[_Group] = []
        self._copied: dict[tuple[int, tuple[int, int]], int] = {}

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
        charsets, rows = _sparse(dfa)
        accepting = dfa.accepting_states()
        labels = [self.label(symbols) for symbols in charsets]
        group = len(self._groups)
        self._groups.append(_Group(dfa))
        for index in range(most):
            if index >= least:
                self.epsilon(source, target)
            first = len(self.edges)
            self.edges.extend([(labels[label], first + there) for label, there in row] for row in rows)
            self.epsilons.extend([] for _ in rows)
            if most > 1:
                rank = index if index >= least - 1 else -1 - index
                if rank >= 0 or len(rows) > 1:
                    self._ranked.update((first + state, (group, rank, state)) for state in range(len(rows)))
            self.epsilon(source, first)
            source = target if index == most - 1 else self.node()
            for state in accepting:
                self.epsilon(first + state, source)
        if least == most == 0:
            self.epsilon(source, target)

    def run(self, source: int, label: int, target: int, least: int, most: int) -> None:
        """Read between `least` and `most` symbols of a numbered set; ``0 <= least <= most`` and ``most > 0``."""
        group = len(self._groups)
        self._groups.append(_Group(None))
        for index in range(most):
            if index >= least:
                self.epsilon(source, target)
            there = target
            if index < most - 1:
                there = self.node()
                if index + 1 >= least:
                    self._ranked[there] = (group, index + 1, 0)
            self.labelled(source, label, there)
            source = there

    def rank_like(self, other: Nfa, node: int, mine: int, context: tuple[int, int]) -> None:
        """Let a node of this automaton be covered as one of another automaton is, among nodes of one context only."""
        found = other._ranked.get(node)
        if found is not None:
            group, rank, state = found
            key = (group, context)
            number = self._copied.get(key)
            if number is None:
                number = self._copied[key] = len(self._groups)
                self._groups.append(other._groups[group])
            self._ranked[mine] = (number, rank, state)

    def prune(self, nodes: frozenset[int]) -> frozenset[int]:
        """Drop nodes that accept nothing that another one of the set does not.

        Of a repetition with a least count that is met, an earlier copy can do all that a later one can: it has more
        repetitions left. Without this, counted repetitions of ambiguous bodies have exponentially many sets.
        """
        ranked = self._ranked
        groups: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for node in nodes:
            found = ranked.get(node)
            if found is not None:
                groups.setdefault(found[0], {}).setdefault(found[1], []).append((found[2], node))
        dropped: list[int] = []
        for group, copies in groups.items():
            if len(copies) == 1 and all(len(members) == 1 for members in copies.values()):
                continue
            above = self._groups[group].above()
            earlier = 0  # the states of earlier copies, as bits
            for rank in sorted(copies):
                same = 0
                for state, _ in copies[rank]:
                    same |= 1 << state
                # No two states of a minimal body cover each other, so that one of those that cover this one stays.
                for state, node in copies[rank]:
                    if above[state] & (earlier | same & ~(1 << state)):
                        dropped.append(node)
                if rank >= 0:
                    earlier |= same
        return nodes.difference(dropped) if dropped else nodes

    def covers(self, node: int, other: int) -> bool:
        """Whether `node` is known to accept all that `other` accepts."""
        if node == other:
            return True
        mine, theirs = self._ranked.get(node), self._ranked.get(other)
        if mine is None or theirs is None or mine[0] != theirs[0]:
            return False
        # A negative rank is like itself only.
        in_order = mine[1] == theirs[1] or 0 <= mine[1] <= theirs[1]
        return in_order and bool(self._groups[mine[0]].above()[theirs[2]] >> mine[2] & 1)

    def determinize(self, budget: Budget) -> Table:
        """The subset construction: reachable sets only, over classes of symbols that no label tells apart."""
        starts, classes, members = symbol_classes(self.labels, self.limit)
        width = members.shape[1]
        closure = self._closures()
        edges, finals = self.edges, self.finals
        universal, prune = self.universal, bool(self._ranked)
        whole = frozenset((min(universal),)) if universal else frozenset()
        first = closure(self.start)
        if not universal.isdisjoint(first):
            first = whole
        number: dict[frozenset[int], int] = {first: 0}
        queue = [first]
        accepting: list[bool] = []
        splits: dict[tuple[int, ...], list[tuple[list[int], tuple[int, ...]]]] = {}
        blank = array("i", [-1]) * width
        cells = array("i")
        columns_of = [np.flatnonzero(row).tolist() for row in members]
        for subset in queue:  # grows meanwhile
            budget.spend("regex_states", 1 + len(subset) // 8 + width // 512)
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
                split = splits[present] = _split(present, columns_of, members)
            row = blank[:]
            for columns, together in split:
                if len(together) == 1:
                    union = targets[together[0]]
                else:
                    union = frozenset().union(*[targets[label] for label in together])
                key = union if type(union) is frozenset else frozenset(union)
                value = number.get(key)
                if value is None:
                    small = key
                    if universal and not universal.isdisjoint(key):
                        small = whole
                    elif prune and len(key) > 1:
                        small = self.prune(key)
                    value = number.get(small)
                    if value is None:
                        value = number[small] = len(queue)
                        queue.append(small)
                    number[key] = value
                for column in columns:
                    row[column] = value
            cells += row
        table = (
            np.frombuffer(cells, np.int32).reshape(len(queue), width) if width else np.zeros((len(queue), 1), np.int32)
        )
        return Table(starts, classes, table, np.array(accepting, np.bool_))

    def _closures(self) -> Callable[[int], frozenset[int]]:
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


def _split(
    present: tuple[int, ...], columns_of: list[list[int]], members: BoolArray
) -> list[tuple[list[int], tuple[int, ...]]]:
    """Group classes by which of the labels `present` have them: (columns, labels) for each group with a label."""
    if len(present) == 1:
        return [(columns_of[present[0]], present)]
    if sum(len(columns_of[label]) for label in present) < 300:
        labels_of: dict[int, list[int]] = {}
        for label in present:
            for column in columns_of[label]:
                labels_of.setdefault(column, []).append(label)
        together: dict[tuple[int, ...], list[int]] = {}
        for column, labels in labels_of.items():
            together.setdefault(tuple(labels), []).append(column)
        return [(columns, labels) for labels, columns in together.items()]
    groups: dict[bytes, list[int]] = {}
    chosen = members[list(present)]
    for column in np.flatnonzero(chosen.any(axis=0)).tolist():
        groups.setdefault(chosen[:, column].tobytes(), []).append(column)
    return [
        (columns, tuple(label for label, flag in zip(present, key, strict=True) if flag))
        for key, columns in groups.items()
    ]


class _Group:
    """The copies of one repeated body, and which of its states accept more than others."""

    __slots__ = ("_above", "_body")

    def __init__(self, body: Dfa | None) -> None:
        self._body = body
        self._above: list[int] | None = [1] if body is None else None

    def above(self) -> list[int]:
        """Per state, the bits of those that accept at least as much."""
        if self._above is None:
            assert self._body is not None
            self._above = inclusions(self._body.table, self._body.accepting)
        return self._above


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
