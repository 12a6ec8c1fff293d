"""The symbolic level of the IR: procedures as nondeterministic graphs over bytes, calls and special tokens.

Frontends build a `Module`; the passes of `schemac.ir.pipeline` lower it to an `Automaton`. A procedure is a graph
with one start node and any number of final nodes. An edge reads one byte of an interval, or nothing (epsilon), or
whatever another procedure reads (call), or one special token.

    procedure 0 pair                    # prints as
      0: "a".."f" -> 1
      1: call list -> 2, epsilon -> 0
      2: final
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schemac_runtime.registers import Guard

if TYPE_CHECKING:
    from schemac.ir.dfa import Dfa


#: How the label of an action begins: no special token has such a text.
ACTION = "\0"


class Graph:
    """One procedure under construction. Nodes are 0, 1, 2, ...; node 0 is the start.

    Attributes:
        exact: an automaton of the same language, if the whole graph was made from it; passes need not look inside,
            and its byte edges are made only when somebody does.
        apart: never copied into callers, because that would multiply it with what stands beside it.
    """

    __slots__ = ("apart", "byte_edges", "call_edges", "epsilons", "exact", "finals", "token_edges")

    def __init__(self) -> None:
        self.exact: Dfa | None = None
        self.apart = False
        self.byte_edges: list[list[tuple[int, int, int]]] = [[]]  # per node: (low, high, target), inclusive
        self.epsilons: list[list[int]] = [[]]
        self.call_edges: list[list[tuple[int, int]]] = [[]]  # per node: (procedure, target)
        self.token_edges: list[list[tuple[tuple[str, ...], int]]] = [[]]  # per node: (token texts, target)
        self.finals: set[int] = set()

    start = 0

    def __len__(self) -> int:
        return len(self.epsilons)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """The byte edges of an exact graph, when they are first asked for."""
            if name != "byte_edges":
                raise AttributeError(name)
            self.byte_edges = [[] for _ in self.epsilons]
            for state, low, high, target in self.exact.edges():
                self.byte_edges[2 + state].append((low, high, 2 + target))
            return self.byte_edges

    def node(self) -> int:
        """Add a node."""
        self.byte_edges.append([])
        self.epsilons.append([])
        self.call_edges.append([])
        self.token_edges.append([])
        return len(self.epsilons) - 1

    def byte(self, source: int, low: int, high: int, target: int) -> None:
        """Read one byte in ``low..high`` (inclusive)."""
        self.byte_edges[source].append((low, high, target))

    def epsilon(self, source: int, target: int) -> None:
        """Go on without reading."""
        self.epsilons[source].append(target)

    def call(self, source: int, procedure: int, target: int) -> None:
        """Read a text of `procedure` (an id from `ModuleBuilder.declare`)."""
        self.call_edges[source].append((procedure, target))

    def token(self, source: int, texts: Iterable[str], target: int, *, optional: bool = False) -> None:
        """Read one special token, named by its text; several texts are alternatives.

        With `optional`, a vocabulary need not have these tokens; the edge is then as if it were not there. So there
        must be another way to `target`. In `token_edges` the texts of such an edge begin with the empty one.
        """
        self.token_edges[source].append((tuple(sorted({*texts, ""} if optional else set(texts))), target))

    def action(self, source: int, name: str, target: int) -> None:
        """Let the guard of this procedure do something, see `Guard`; reads nothing.

        Every edge to `source` must read a byte and nothing else may leave it, so that `assemble` can make the action a
        part of that byte.
        """
        self.token_edges[source].append(((ACTION + name,), target))

    def literal(self, source: int, data: bytes, target: int | None = None) -> int:
        """Read exactly `data`; returns the node reached (`target`, or a new node)."""
        here = source
        for index, value in enumerate(data):
            there = target if target is not None and index == len(data) - 1 else self.node()
            self.byte(here, value, value, there)
            here = there
        if target is not None and not data:
            self.epsilon(source, target)
        return here if target is None else target

    def language(self, source: int, dfa: Dfa, target: int | None = None) -> int:
        """Read a text of a byte `Dfa`, copied into this graph; returns the node reached."""
        end = self.node() if target is None else target
        first, size = len(self), dfa.size
        for edges in (self.byte_edges, self.epsilons, self.call_edges, self.token_edges):
            edges.extend([] for _ in range(size))
        if size:
            self.epsilon(source, first)
        byte_edges = self.byte_edges
        for state, low, high, next_state in dfa.edges():
            byte_edges[first + state].append((low, high, first + next_state))
        for state in dfa.accepting_states():
            self.epsilon(first + state, end)
        return end

    @classmethod
    def of_language(cls, dfa: Dfa) -> Graph:
        """The graph that reads the texts of a byte `Dfa`. It must not be changed."""
        graph = cls()
        end = graph.node()
        graph.final(end)
        del graph.byte_edges
        graph.exact = dfa
        nothing: list[Any] = []  # shared: the graph must not be changed
        at_end = [end]
        ends = [at_end if final else nothing for final in dfa.accepting.tolist()]
        graph.epsilons = [[2] if dfa.size else [], [], *ends]
        graph.call_edges = [nothing] * len(graph.epsilons)
        graph.token_edges = [nothing] * len(graph.epsilons)
        return graph

    def final(self, node: int) -> None:
        """Let the procedure end at `node`."""
        self.finals.add(node)


@dataclass(frozen=True, slots=True)
class Procedure:
    """A named graph. `place` is where in the source it comes from (JSON pointer or line:column)."""

    name: str
    place: str
    graph: Graph
    guard: Guard | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """All procedures of one program; number 0 is the root."""

    procedures: tuple[Procedure, ...]


@dataclass(slots=True)
class ModuleBuilder:
    """Collects procedures. Declare first, define later, so that recursion needs no order."""

    _declared: list[tuple[str, str]] = field(default_factory=list)
    _graphs: dict[int, Graph] = field(default_factory=dict)
    _guards: dict[int, Guard] = field(default_factory=dict)

    def declare(self, name: str, place: str) -> int:
        """Reserve a procedure id; the first one declared is the root."""
        self._declared.append((name, place))
        return len(self._declared) - 1

    def define(self, procedure: int, graph: Graph, guard: Guard | None = None) -> None:
        """Give a declared procedure its graph, once."""
        if procedure in self._graphs:
            raise ValueError(f"procedure {procedure} is defined twice")
        self._graphs[procedure] = graph
        if guard is not None:
            self._guards[procedure] = guard

    def build(self) -> Module:
        """Freeze. Every declared procedure must be defined."""
        missing = [name for number, (name, _) in enumerate(self._declared) if number not in self._graphs]
        if missing:
            raise ValueError(f"undefined procedures: {missing}")
        return Module(
            tuple(
                Procedure(name, place, self._graphs[i], self._guards.get(i))
                for i, (name, place) in enumerate(self._declared)
            )
        )
