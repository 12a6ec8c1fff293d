"""Subset construction inside each procedure, over byte classes, special tokens and call edges as letters.

0: "a" -> 1, "a" -> 2, call p -> 3        {0}: "a" -> {1,2}, call p -> {3}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Graph, Module, Procedure
from schemac_runtime.registers import Guard


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The symbols of one module: classes of bytes that no edge tells apart, then special tokens.

    Attributes:
        byte_class: uint8 [256].
        labels: token texts, sorted; label i is symbol `byte_classes + i`.
        optional: those of them that a vocabulary need not have.
    """

    byte_class: npt.NDArray[np.uint8]
    byte_classes: int
    labels: tuple[str, ...]
    optional: tuple[str, ...] = ()

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
        guard: what its frames remember.
        minimal: known to be minimal, and numbered breadth-first.
    """

    name: str
    place: str
    next_state: npt.NDArray[np.int32]
    accepting: npt.NDArray[np.bool_]
    call_edges: npt.NDArray[np.int32]
    guard: Guard | None = None
    minimal: bool = False


def module_alphabet(module: Module) -> Alphabet:
    """Split 0..255 into the coarsest classes that respect every interval of the module."""
    intervals: set[tuple[int, int]] = set()
    labels: set[str] = set()
    needed: set[str] = set()
    exact: list[npt.NDArray[np.bool_]] = []  # the sets of bytes that the automaton of a graph does not tell apart
    for procedure in module.procedures:
        if procedure.graph.exact is not None:
            exact.append(_classes(procedure.graph.exact))
            continue
        for edges in procedure.graph.byte_edges:
            intervals.update((low, high) for low, high, _ in edges)
        for tokens in procedure.graph.token_edges:
            labels.update(text for texts, _ in tokens for text in texts if text)
            needed.update(text for texts, _ in tokens if "" not in texts for text in texts)
    bounds = np.array(sorted(intervals), dtype=np.int32).reshape(-1, 2)
    values = np.arange(256)
    member = np.concatenate([(bounds[:, :1] <= values) & (values <= bounds[:, 1:]), *exact])  # bool [sets, 256]
    columns = np.packbits(member, axis=0).T if len(member) else np.zeros((256, 1), np.uint8)
    _, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.uint8)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.uint8)  # classes in order of their first byte
    return Alphabet(rank[inverse.reshape(-1)], len(first), tuple(sorted(labels)), tuple(sorted(labels - needed)))


def _classes(dfa: Dfa) -> npt.NDArray[np.bool_]:
    """bool [classes, 256]: which bytes are in which class of an automaton."""
    of_byte = dfa.classes[np.searchsorted(dfa.starts, np.arange(256), "right") - 1]
    return np.asarray(of_byte == np.arange(dfa.table.shape[1])[:, None])


def determinize(module: Module, alphabet: Alphabet, budget: Budget) -> list[Deterministic]:
    """Make every procedure deterministic. The budget `states` is charged to the procedure's place."""
    symbols = _SymbolCache(alphabet)
    return [
        _determinize(p, symbols, alphabet.size, budget)
        if p.graph.exact is None
        else _from_dfa(p, p.graph.exact, alphabet, budget)
        for p in module.procedures
    ]


def _from_dfa(p: Procedure, dfa: Dfa, alphabet: Alphabet, budget: Budget) -> Deterministic:
    budget.spend("states", dfa.size, place=p.place)
    next_state = np.full((dfa.size, alphabet.size), -1, dtype=np.int32)
    _, byte = np.unique(alphabet.byte_class, return_index=True)  # one of each class
    next_state[:, : alphabet.byte_classes] = dfa.table[:, dfa.classes[np.searchsorted(dfa.starts, byte, "right") - 1]]
    return Deterministic(
        p.name, p.place, next_state, dfa.accepting, np.zeros((0, 3), dtype=np.int32), p.guard, minimal=True
    )


class _SymbolCache:
    """Sets of symbols by number: those of an interval of bytes or of a list of token texts, worked out once each."""

    def __init__(self, alphabet: Alphabet) -> None:
        self._byte_class = alphabet.byte_class.tolist()
        self._labels = {text: alphabet.byte_classes + i for i, text in enumerate(alphabet.labels)}
        self._numbers: dict[object, int] = {symbol: symbol for symbol in range(alphabet.size)}
        self.sets: list[tuple[int, ...]] = [(symbol,) for symbol in range(alphabet.size)]

    def interval(self, low: int, high: int) -> int:
        """The number of the set of classes of the bytes low..high."""
        if low == high:
            return int(self._byte_class[low])
        found = self._numbers.get((low, high))
        return self._add((low, high), set(self._byte_class[low : high + 1])) if found is None else found

    def texts(self, texts: tuple[str, ...]) -> int:
        """The number of the set of these special tokens."""
        found = self._numbers.get(texts)
        return self._add(texts, {self._labels[text] for text in texts if text}) if found is None else found

    def _add(self, key: object, symbols: set[int]) -> int:
        self._numbers[key] = len(self.sets)
        self.sets.append(tuple(sorted(symbols)))
        return len(self.sets) - 1


class _Closures:
    """Epsilon closures as sorted tuples of nodes that read, call or end something."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._memo: dict[int, tuple[int, ...]] = {}

    def of(self, node: int) -> tuple[int, ...]:
        """The closure of a node, shared along chains of single epsilons (the ends of rules in rules in rules)."""
        graph, memo = self._graph, self._memo
        chain: list[int] = []
        while node not in memo and len(chain) < len(graph) and self._passes(node):
            chain.append(node)
            node = graph.epsilons[node][0]
        found = memo.get(node)
        if found is None:
            found = memo[node] = self._compute(node)
        for before in chain:
            memo[before] = found
        return found

    def _passes(self, node: int) -> bool:
        """Whether a node does nothing but go on to one other."""
        graph = self._graph
        return len(graph.epsilons[node]) == 1 and node not in graph.finals and not (
            graph.byte_edges[node] or graph.call_edges[node] or graph.token_edges[node]
        )

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


def _determinize(procedure: Procedure, symbols: _SymbolCache, width: int, budget: Budget) -> Deterministic:
    graph, place = procedure.graph, procedure.place
    closures = _Closures(graph)
    start = closures.of(graph.start)
    number: dict[tuple[int, ...], int] = {start: 0}
    subsets = [start]
    state_of_node: dict[int, int] = {}  # of the closure of a node
    merged: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] = {}
    sources: list[int] = []
    labels: list[int] = []  # numbers of symbol sets
    targets: list[int] = []
    calls: list[tuple[int, int, int]] = []

    def state_of(subset: tuple[int, ...]) -> int:
        state = number.get(subset)
        if state is None:
            state = number[subset] = len(subsets)
            subsets.append(subset)
            if state & 255 == 0:
                budget.spend("states", 256, place=place)
        return state

    def after(node: int) -> int:
        state = state_of_node.get(node)
        if state is None:
            state = state_of_node[node] = state_of(closures.of(node))
        return state

    def union(present: tuple[int, ...] | None, target: tuple[int, ...]) -> tuple[int, ...]:
        if present is None or present is target:
            return target
        found = merged.get((present, target))
        if found is None:
            found = merged[present, target] = tuple(sorted({*present, *target}))
        return found

    position = 0
    while position < len(subsets):
        subset = subsets[position]
        edges = [
            (symbols.interval(low, high), target)
            for node in subset for low, high, target in graph.byte_edges[node]
        ]
        edges += [(symbols.texts(texts), target) for node in subset for texts, target in graph.token_edges[node]]
        letters = [symbol for label, _ in edges for symbol in symbols.sets[label]]
        if len(letters) == len(set(letters)):  # no two edges share a symbol: nothing to unite
            sources += [position] * len(edges)
            labels += [label for label, _ in edges]
            targets += [after(target) for _, target in edges]
        else:
            reads: dict[int, tuple[int, ...]] = {}
            for label, target in edges:
                closure = closures.of(target)
                for symbol in symbols.sets[label]:
                    reads[symbol] = union(reads.get(symbol), closure)
            sources += [position] * len(reads)
            labels += reads
            targets += [state_of(subset) for subset in reads.values()]
        invocations: dict[int, tuple[int, ...]] = {}
        for node in subset:
            for callee, target in graph.call_edges[node]:
                invocations[callee] = union(invocations.get(callee), closures.of(target))
        calls += [(position, callee, state_of(invocations[callee])) for callee in sorted(invocations)]
        position += 1
    budget.spend("states", len(subsets) & 255, place=place)

    next_state = np.full((len(subsets), width), -1, dtype=np.int32)
    if labels:
        length = np.array([len(symbols.sets[label]) for label in labels])
        flat = np.array([symbol for label in labels for symbol in symbols.sets[label]])
        next_state[np.repeat(np.array(sources), length), flat] = np.repeat(np.array(targets, dtype=np.int32), length)
    finals = graph.finals
    accepting = np.array([any(node in finals for node in subset) for subset in subsets], dtype=np.bool_)
    call_edges = np.array(calls, dtype=np.int32).reshape(-1, 3)
    return Deterministic(procedure.name, place, next_state, accepting, call_edges, procedure.guard)


def determinize_calls(p: Deterministic, budget: Budget) -> Deterministic:
    """Subset construction over a procedure of which only the calls are not deterministic; itself if they are."""
    state, callee = p.call_edges[:, 0], p.call_edges[:, 1]
    if not np.any((state[1:] == state[:-1]) & (callee[1:] == callee[:-1])):
        return p
    calls_of: dict[int, list[tuple[int, int]]] = {}
    for source, procedure, target in p.call_edges.tolist():
        calls_of.setdefault(source, []).append((procedure, target))
    number: dict[tuple[int, ...], int] = {(0,): 0}
    subsets: list[tuple[int, ...]] = [(0,)]
    rows: list[list[int]] = []
    calls: list[tuple[int, int, int]] = []

    def state_of(subset: tuple[int, ...]) -> int:
        found = number.get(subset)
        if found is None:
            budget.spend("states", place=p.place)
            found = number[subset] = len(subsets)
            subsets.append(subset)
        return found

    for position, subset in enumerate(subsets):  # grows while we walk it
        reads = [sorted(set(targets) - {-1}) for targets in p.next_state[list(subset)].T.tolist()]
        rows.append([state_of(tuple(targets)) if targets else -1 for targets in reads])
        after: dict[int, set[int]] = {}
        for member in subset:
            for procedure, target in calls_of.get(member, ()):
                after.setdefault(procedure, set()).add(target)
        calls += [(position, procedure, state_of(tuple(sorted(after[procedure])))) for procedure in sorted(after)]
    return Deterministic(
        p.name,
        p.place,
        np.array(rows, dtype=np.int32).reshape(len(subsets), -1),
        np.array([bool(p.accepting[list(subset)].any()) for subset in subsets], dtype=np.bool_),
        np.array(calls, dtype=np.int32).reshape(-1, 3),
        p.guard,
    )
