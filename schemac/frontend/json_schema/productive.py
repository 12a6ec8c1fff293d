"""Remove what cannot be finished: the least fixpoint of procedures that read some text.

A formula has a value iff its procedure reads a text. Calls of procedures that read none are dropped; the passes of
`schemac.ir` then trim the nodes that this leaves hanging.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from schemac.errors import EmptyLanguageError
from schemac.ir.graph import Graph, Module


def productive_procedures(module: Module, languages: Collection[int], witnesses: Mapping[int, Graph]) -> list[bool]:
    """For each procedure, whether it reads some text.

    Args:
        module: procedure 0 is the root.
        languages: procedures that are known to read some text.
        witnesses: for procedures with a guard that decides it, a graph that reads some text if and only if they do.
    """
    graphs = [witnesses.get(number, procedure.graph) for number, procedure in enumerate(module.procedures)]
    return _productive(graphs, languages)


def productive_part(module: Module, productive: Sequence[bool]) -> Module:
    """The module without calls that never return.

    Args:
        module: procedure 0 is the root.
        productive: see `productive_procedures`.

    Raises:
        EmptyLanguageError: the root reads no text.
    """
    if not productive[0]:
        raise EmptyLanguageError(
            "no value satisfies this schema",
            place=module.procedures[0].place,
            hint="some required member can have no value, or only infinitely nested ones",
        )
    if not all(productive):
        for procedure in module.procedures:
            graph = procedure.graph
            graph.call_edges = [[edge for edge in edges if productive[edge[0]]] for edges in graph.call_edges]
    return module


def callees(graph: Graph) -> set[int]:
    """The procedures that a graph calls."""
    return {callee for edges in graph.call_edges for callee, _ in edges}


def _productive(graphs: list[Graph], languages: Collection[int]) -> list[bool]:
    """For each procedure, whether it reads some text: forward search in which calls wait for their callee."""
    result = [number in languages for number in range(len(graphs))]
    seen: list[set[int]] = [{0} for _ in graphs]
    waiting: list[list[tuple[int, int]]] = [[] for _ in graphs]  # callee -> (caller, return node)
    work = [(number, 0) for number in range(len(graphs)) if number not in languages]
    while work:
        number, node = work.pop()
        graph, mine = graphs[number], seen[number]
        targets = [target for _, _, target in graph.byte_edges[node]]
        targets += graph.epsilons[node]
        targets += [target for _, target in graph.token_edges[node]]
        for callee, target in graph.call_edges[node]:
            if result[callee]:
                targets.append(target)
            else:
                waiting[callee].append((number, target))
        if node in graph.finals and not result[number]:
            result[number] = True
            for caller, target in waiting[number]:
                if target not in seen[caller]:
                    seen[caller].add(target)
                    work.append((caller, target))
        for target in targets:
            if target not in mine:
                mine.add(target)
                work.append((number, target))
    return result
