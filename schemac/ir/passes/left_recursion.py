"""Remove left recursion: read a left corner first, then grow it (Rosenkrantz and Lewis 1970).

procedure e                               procedure e
  0: call e -> 1, "n" -> 3        =>        0: "n" -> 3               # whatever a text of e can start with
  1: "+" -> 2                               1: "+" -> 2
  2: call e -> 3                            2: call e -> 3
  3: final                                  3: epsilon -> 4
                                            4: epsilon -> 1, final    # a whole e has been read; another e may be begun

Exact for direct and indirect recursion, and for recursion behind nullable procedures after `remove_nullable`.
"""

from __future__ import annotations

from dataclasses import replace

from schemac.budget import Budget
from schemac.ir.graph import Graph, Module
from schemac.ir.passes.components import strong_components

#: (callee, target) of the calls of a procedure that come before anything is read.
LeftCalls = list[tuple[int, int]]


def eliminate_left_recursion(module: Module, budget: Budget) -> Module:
    """Let no procedure call itself before it reads. Called procedures must not accept the empty text.

    Raises:
        BudgetExceeded: `states`; k procedures that begin with each other are copied up to k times each.
    """
    graphs = [procedure.graph for procedure in module.procedures]
    starts = [start_closure(graph) for graph in graphs]
    left_calls = [
        [call for node in start for call in graph.call_edges[node]] for graph, start in zip(graphs, starts, strict=True)
    ]
    first = [sorted({callee for callee, _ in calls}) for calls in left_calls]
    component, members = strong_components(first)
    recursive = [len(group) > 1 or group[0] in first[group[0]] for group in members]
    if not any(recursive):
        return module
    procedures = list(module.procedures)
    needed, pending = {0}, [0]
    while pending:
        number = pending.pop()
        procedure, group = procedures[number], members[component[number]]
        if recursive[component[number]]:
            budget.spend("states", sum(len(graphs[member]) + 1 for member in group), place=procedure.place)
            graph = _grown(number, group, graphs, starts, left_calls)
            procedures[number] = procedure = replace(procedure, graph=graph)
        for calls in procedure.graph.call_edges:
            for callee, _ in calls:
                if callee not in needed:
                    needed.add(callee)
                    pending.append(callee)
    # Procedures that were called at the left only keep their left recursion; nothing reaches them any more.
    empty = Graph()
    return Module(tuple(p if n in needed else replace(p, graph=empty) for n, p in enumerate(procedures)))


def start_closure(graph: Graph) -> list[int]:
    """The nodes that the start reaches without reading, ascending."""
    return sorted(_reached(graph, [graph.start], reading=False))


def _reached(graph: Graph, nodes: list[int], *, reading: bool) -> set[int]:
    seen, stack = set(nodes), list(nodes)
    while stack:
        node = stack.pop()
        targets = list(graph.epsilons[node])
        if reading:
            targets += [target for _, _, target in graph.byte_edges[node]]
            targets += [target for _, target in graph.token_edges[node]]
            targets += [target for _, target in graph.call_edges[node]]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return seen


def _grown(
    number: int, group: list[int], graphs: list[Graph], starts: list[list[int]], left_calls: list[LeftCalls]
) -> Graph:
    """The procedure `number` of a component of left calls, without left calls to the component."""
    result = Graph()
    base: dict[int, int] = {}
    whole: dict[int, int] = {}
    for member in group:
        base[member] = append_graph(result, graphs[member])
        whole[member] = result.node()  # a whole text of this member has been read
        for final in sorted(graphs[member].finals):
            result.epsilon(base[member] + final, whole[member])
    result.final(whole[number])
    for member in group:
        graph, first = graphs[member], base[member]
        for node in starts[member]:
            result.byte_edges[0] += [(low, high, first + target) for low, high, target in graph.byte_edges[node]]
            result.token_edges[0] += [(texts, first + target) for texts, target in graph.token_edges[node]]
            result.call_edges[0] += [(callee, first + t) for callee, t in graph.call_edges[node] if callee not in whole]
        for callee, target in left_calls[member]:
            if callee in whole:
                result.epsilon(whole[callee], first + target)
    return _restricted(result, sorted(_reached(result, [0], reading=True)))


def append_graph(graph: Graph, body: Graph) -> int:
    """Copy the nodes of `body` behind those of `graph`, not its finals; returns the number of the first one."""
    base = len(graph)
    graph.byte_edges += [[(lo, hi, t + base) for lo, hi, t in edges] for edges in body.byte_edges]
    graph.epsilons += [[t + base for t in edges] for edges in body.epsilons]
    graph.call_edges += [[(p, t + base) for p, t in edges] for edges in body.call_edges]
    graph.token_edges += [[(texts, t + base) for texts, t in edges] for edges in body.token_edges]
    return base


def _restricted(graph: Graph, keep: list[int]) -> Graph:
    """The graph without the nodes that are not in `keep`, which holds 0 and all targets of its members."""
    result = Graph()
    number = {old: new for new, old in enumerate(keep)}
    result.byte_edges = [[(lo, hi, number[t]) for lo, hi, t in graph.byte_edges[node]] for node in keep]
    result.epsilons = [[number[t] for t in graph.epsilons[node]] for node in keep]
    result.call_edges = [[(p, number[t]) for p, t in graph.call_edges[node]] for node in keep]
    result.token_edges = [[(texts, number[t]) for texts, t in graph.token_edges[node]] for node in keep]
    result.finals = {number[node] for node in graph.finals if node in number}
    return result
