"""Subset construction inside each procedure, over byte classes, special tokens and call edges as letters.

0: "a" -> 1, "a" -> 2, call p -> 3        {0}: "a" -> {1,2}, call p -> {3}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.ir.graph import Graph, Module


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The symbols of one module: classes of bytes that no edge tells apart, then special tokens.

    Attributes:
        byte_class: uint8 [256].
        labels: token texts, sorted; label i is symbol `byte_classes + i`.
    """

    byte_class: npt.NDArray[np.uint8]
    byte_classes: int
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of symbols."""
        return self.byte_classes + len(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Deterministic:
    """One deterministic procedure; state 0 is its entry.

    Attributes:
        next_state: int32 [n, symbols], -1 = no edge.
        accepting: bool [n].
        call_edges: int32 [E, 3] rows (state, procedure, target), sorted.
    """

    name: str
    place: str
    next_state: npt.NDArray[np.int32]
    accepting: npt.NDArray[np.bool_]
    call_edges: npt.NDArray[np.int32]


def module_alphabet(module: Module) -> Alphabet:
    """Split 0..255 into the coarsest classes that respect every interval of the module."""
    intervals: set[tuple[int, int]] = set()
    labels: set[str] = set()
    for procedure in module.procedures:
        for edges in procedure.graph.byte_edges:
            intervals.update((low, high) for low, high, _ in edges)
        for tokens in procedure.graph.token_edges:
            labels.update(text for texts, _ in tokens for text in texts)
    bounds = np.array(sorted(intervals), dtype=np.int32).reshape(-1, 2)
    values = np.arange(256)
    member = (bounds[:, :1] <= values) & (values <= bounds[:, 1:])  # bool [intervals, 256]
    columns = np.packbits(member, axis=0).T if len(bounds) else np.zeros((256, 1), np.uint8)
    _, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.uint8)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.uint8)  # classes in order of their first byte
    return Alphabet(rank[inverse.reshape(-1)], len(first), tuple(sorted(labels)))


def determinize(module: Module, alphabet: Alphabet, budget: Budget) -> list[Deterministic]:
    """Make every procedure deterministic. The budget `states` is charged to the procedure's place."""
    symbols = _SymbolCache(alphabet)
    return [_determinize(p.graph, p.name, p.place, symbols, alphabet.size, budget) for p in module.procedures]


class _SymbolCache:
    """The symbols of an interval or of a list of token texts, worked out once each."""

    def __init__(self, alphabet: Alphabet) -> None:
        self._byte_class = alphabet.byte_class.tolist()
        self._labels = {text: alphabet.byte_classes + i for i, text in enumerate(alphabet.labels)}
        self._intervals: dict[tuple[int, int], tuple[int, ...]] = {}

    def interval(self, low: int, high: int) -> tuple[int, ...]:
        if low == high:
            return (self._byte_class[low],)
        found = self._intervals.get((low, high))
        if found is None:
            found = tuple(sorted(set(self._byte_class[low : high + 1])))
            self._intervals[low, high] = found
        return found

    def texts(self, texts: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self._labels[text] for text in texts)


class _Closures:
    """Epsilon closures as sorted tuples of nodes that read, call or end something."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._memo: dict[int, tuple[int, ...]] = {}

    def of(self, node: int) -> tuple[int, ...]:
        found = self._memo.get(node)
        if found is None:
            found = self._memo[node] = self._compute(node)
        return found

    def _compute(self, start: int) -> tuple[int, ...]:
        graph = self._graph
        if not graph.epsilons[start]:
            return (start,)
        seen, stack = {start}, [start]
        while stack:
            for target in graph.epsilons[stack.pop()]:
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return tuple(
            sorted(
                node
                for node in seen
                if graph.byte_edges[node] or graph.call_edges[node] or graph.token_edges[node] or node in graph.finals
            )
        )


def _determinize(
    graph: Graph, name: str, place: str, symbols: _SymbolCache, width: int, budget: Budget
) -> Deterministic:
    closures = _Closures(graph)
    start = closures.of(graph.start)
    number: dict[tuple[int, ...], int] = {start: 0}
    subsets = [start]
    merged: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] = {}
    edges: list[tuple[int, int, int]] = []
    calls: list[tuple[int, int, int]] = []

    def add(moves: dict[int, tuple[int, ...]], letter: int, target: tuple[int, ...]) -> None:
        present = moves.get(letter)
        if present is None or present is target:
            moves[letter] = target
            return
        union = merged.get((present, target))
        if union is None:
            union = merged[present, target] = tuple(sorted({*present, *target}))
        moves[letter] = union

    def state_of(subset: tuple[int, ...]) -> int:
        state = number.get(subset)
        if state is None:
            state = number[subset] = len(subsets)
            subsets.append(subset)
            if state & 255 == 0:
                budget.spend("states", 256, place=place)
        return state

    position = 0
    while position < len(subsets):
        reads: dict[int, tuple[int, ...]] = {}
        invocations: dict[int, tuple[int, ...]] = {}
        for node in subsets[position]:
            for low, high, target in graph.byte_edges[node]:
                closure = closures.of(target)
                for symbol in symbols.interval(low, high):
                    add(reads, symbol, closure)
            for texts, target in graph.token_edges[node]:
                for symbol in symbols.texts(texts):
                    add(reads, symbol, closures.of(target))
            for callee, target in graph.call_edges[node]:
                add(invocations, callee, closures.of(target))
        edges.extend((position, symbol, state_of(reads[symbol])) for symbol in sorted(reads))
        calls.extend((position, callee, state_of(invocations[callee])) for callee in sorted(invocations))
        position += 1
    budget.spend("states", len(subsets) & 255, place=place)

    next_state = np.full((len(subsets), width), -1, dtype=np.int32)
    if edges:
        flat = np.array(edges, dtype=np.int32)
        next_state[flat[:, 0], flat[:, 1]] = flat[:, 2]
    finals = graph.finals
    accepting = np.array([any(node in finals for node in subset) for subset in subsets], dtype=np.bool_)
    return Deterministic(name, place, next_state, accepting, np.array(calls, dtype=np.int32).reshape(-1, 3))
