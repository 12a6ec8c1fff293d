"""Lazy rules commit: where one can begin, nothing else that begins there runs past its end.

    start: (call | other)* TEXT                 at every place where TEXT can begin, `head` can begin too: so TEXT has
    call: head ...                              no "<tool>" in it there, and once "<tool>" has been read, a call it is
    head[lazy]: TEXT "<tool>"

Which terminals can begin together is worked out on the graphs of the rules, from every place that a text of a terminal
can lead to. A terminal is cut short only where the lazy rule can begin in each of these cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from schemac.budget import Budget
from schemac.frontend.lark.lexemes import IGNORED, Lexeme
from schemac.frontend.regex import language_module
from schemac.ir.charset import CODE_POINTS, SCALARS
from schemac.ir.dfa import Dfa, union_all
from schemac.ir.graph import Graph, Module
from schemac.ir.passes.trim import copy_graph

_Node = tuple[int, int]  # (procedure, node)


@dataclass(frozen=True, slots=True)
class _Kind:
    language: Dfa
    lazy: bool


def commit_lazy(module: Module, lexemes: Mapping[str, Lexeme], budget: Budget) -> Module:
    """Cut terminals short where a lazy rule can begin at the same place.

    Args:
        module: of a grammar.
        lexemes: by the names of their procedures.
        budget: limits.
    """
    names = [procedure.name for procedure in module.procedures]
    kinds = {n: _Kind(found.language, found.lazy) for n, name in enumerate(names)
             if (found := lexemes.get(name)) and found.language is not None}
    if not any(kind.lazy for kind in kinds.values()):
        return module
    skip = {number for number, name in enumerate(names) if name.startswith(IGNORED)}
    rivals = _Places(module, kinds, skip, budget).rivals()
    return _Cutting(module, kinds, budget).cut(rivals)


class _Places:
    """Which terminals can begin together."""

    def __init__(self, module: Module, kinds: Mapping[int, _Kind], skip: set[int], budget: Budget) -> None:
        self._graphs = [procedure.graph for procedure in module.procedures]
        self._kinds = kinds
        self._skip = skip
        self._budget = budget
        self._returns: list[list[_Node]] = [[] for _ in self._graphs]
        for number, graph in enumerate(self._graphs):
            for calls in graph.call_edges:
                for callee, target in calls:
                    self._returns[callee].append((number, target))

    def rivals(self) -> dict[tuple[int, int, int], frozenset[int]]:
        """Per call of a terminal, as (procedure, node, terminal): the lazy ones that can always begin there too."""
        found: dict[tuple[int, int, int], frozenset[int]] = {}
        for kernel in self._kernels():
            calls = self._calls(kernel)
            lazy = frozenset(terminal for _, _, terminal in calls if self._kinds[terminal].lazy)
            for call in calls:
                found[call] = found.get(call, lazy) & lazy
        return found

    def _kernels(self) -> list[_Node]:
        """The root's start, and every node that reading leads to."""
        kernels: dict[_Node, None] = {(0, 0): None}
        for number, graph in enumerate(self._graphs):
            if number in self._kinds or number in self._skip:
                continue
            for node in range(len(graph)):
                targets = [target for _, _, target in graph.byte_edges[node]]
                targets += [target for _, target in graph.token_edges[node]]
                targets += [t for callee, t in graph.call_edges[node] if callee in self._kinds]
                kernels.update(dict.fromkeys((number, target) for target in targets))
        return list(kernels)

    def _calls(self, kernel: _Node) -> list[tuple[int, int, int]]:
        """The calls of terminals that a place leads to without reading, through any callers at ends of rules."""
        self._budget.check_time()
        seen, stack = {kernel}, [kernel]
        calls: dict[tuple[int, int, int], None] = {}
        while stack:
            number, node = stack.pop()
            graph = self._graphs[number]
            after = [(number, target) for target in graph.epsilons[node]]
            if node in graph.finals:
                after += self._returns[number]
            for callee, target in graph.call_edges[node]:
                if callee in self._kinds:
                    calls[number, node, callee] = None
                    if self._kinds[callee].language.accepts(""):
                        after.append((number, target))
                elif callee in self._skip:
                    after.append((number, target))
                else:
                    after.append((callee, 0))
            for place in after:
                if place not in seen:
                    seen.add(place)
                    stack.append(place)
        return list(calls)


class _Cutting:
    def __init__(self, module: Module, kinds: Mapping[int, _Kind], budget: Budget) -> None:
        self._procedures = list(module.procedures)
        self._kinds = kinds
        self._budget = budget
        self._shorter: dict[tuple[int, frozenset[int]], int] = {}

    def cut(self, rivals: Mapping[tuple[int, int, int], frozenset[int]]) -> Module:
        fresh: dict[int, Graph] = {}
        for (number, node, terminal), lazy in rivals.items():
            others = lazy - {terminal}
            if others and (instead := self._cut_terminal(terminal, others)) != terminal:
                graph = fresh.setdefault(number, copy_graph(self._procedures[number].graph))
                graph.call_edges[node] = [
                    (instead if callee == terminal else callee, target) for callee, target in graph.call_edges[node]
                ]
        for number, graph in fresh.items():
            old = self._procedures[number]
            self._procedures[number] = replace(old, graph=graph)
        return Module(tuple(self._procedures))

    def _cut_terminal(self, terminal: int, lazy: frozenset[int]) -> int:
        """The procedure for the texts of a terminal that do not run past the end of one of some lazy rules."""
        number = self._shorter.get((terminal, lazy))
        if number is not None:
            return number
        budget, kind, procedure = self._budget, self._kinds[terminal], self._procedures[terminal]
        ends = union_all([self._kinds[other].language for other in sorted(lazy)], budget=budget)
        rest = Dfa.runs(SCALARS, 1 if kind.lazy else 0, None, CODE_POINTS)
        shorter = kind.language.difference(ends.concat(rest, budget=budget), budget=budget)
        number = terminal
        if shorter != kind.language:
            number = len(self._procedures)
            module = language_module(shorter, procedure.name, budget=budget, place=procedure.place)
            self._procedures.append(module.procedures[0])
        self._shorter[terminal, lazy] = number
        return number
