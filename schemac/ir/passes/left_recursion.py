"""Remove left recursion: read a left corner first, then grow it (Rosenkrantz and Lewis 1970; Moore 2000).

procedure e                              procedure e
  0: call e -> 1, "n" -> 3       =>        0: "n" -> 3, "(" -> 4               # what any left corner of e starts with
  1: "+" -> 2                              1: "+" -> 2
  2: call e -> 3                           2: call e -> 3
  3: final                                 3: epsilon -> 6
  0: "(" -> 4, 4: call e -> 5, ...         4: call e -> 5 ...
                                           6: epsilon -> 1, final                # a whole e, and what may go on from it

It is exact for direct and indirect recursion, and through nullable procedures after `remove_nullable`.
"""

from __future__ import annotations

from schemac.budget import Budget
from schemac.ir.graph import Graph, Module, Procedure
from schemac.ir.passes.components import strong_components


def eliminate_left_recursion(module: Module, budget: Budget) -> Module:
    """Let no procedure call itself before it reads. Called procedures must not accept the empty text.

    Raises:
        BudgetExceeded: `states`; a group of k procedures that begin with each other is copied up to k times.
    """
    graphs = [procedure.graph for procedure in module.procedures]
    left_calls = [_left_calls(graph) for graph in graphs]
    callees = [sorted({callee for callee, _ in calls}) for calls in left_calls]
    component, members = strong_components(callees)
    recursive = [len(group) > 1 or group[0] in callees[group[0]] for group in members]
    if not any(recursive):
        return module
    needed = _called_otherwise(graphs, left_calls, component)
    procedures = list(module.procedures)
    for group, again in zip(members, recursive, strict=True):
        for number in group if again else ():
            if number in needed:
                procedure = procedures[number]
                budget.spend("states", sum(len(graphs[member]) for member in group), place=procedure.place)
                graph = _grown(number, group, graphs, left_calls)
                procedures[number] = Procedure(procedure.name, procedure.place, graph)
    # The others keep their left recursion, but nothing calls them now: `drop_unproductive` removes them.
    return Module(tuple(procedures))


def start_closure(graph: Graph) -> list[int]:
    """The nodes that the start reaches without reading, ascending."""
    seen, stack = {graph.start}, [graph.start]
    while stack:
        for target in graph.epsilons[stack.pop()]:
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return sorted(seen)


def _left_calls(graph: Graph) -> list[tuple[int, int]]:
    """(callee, target) of the calls that come before anything is read."""
    return [call for node in start_closure(graph) for call in graph.call_edges[node]]


def _called_otherwise(graphs: list[Graph], left_calls: list[list[tuple[int, int]]], component: list[int]) -> set[int]:
    """The procedures that are still called when left calls within a component have become epsilons, and the root."""
    needed = {0}
    for number, graph in enumerate(graphs):
        needed.update(callee for callee, _ in left_calls[number] if component[callee] != component[number])
        # A node before which nothing need be read may also be reached after reading: its calls count both ways.
        needed.update(callee for calls in graph.call_edges for callee, _ in calls)
    return needed


def _grown(number: int, group: list[int], graphs: list[Graph], left_calls: list[list[tuple[int, int]]]) -> Graph:
    """The procedure `number` of a component of left calls, without them."""
    result = Graph()
    base, whole = {}, {}
    for member in group:
        base[member] = len(result)
        _append(result, graphs[member], base[member])
        whole[member] = result.node()  # a whole text of this member has been read
        for final in sorted(graphs[member].finals):
            result.epsilon(base[member] + final, whole[member])
    result.final(whole[number])
    for member in group:
        for node in start_closure(graphs[member]):
            graph, first = graphs[member], base[member]
            result.byte_edges[0] += [(low, high, first + target) for low, high, target in graph.byte_edges[node]]
            result.token_edges[0] += [(texts, first + target) for texts, target in graph.token_edges[node]]
            result.call_edges[0] += [(callee, first + t) for callee, t in graph.call_edges[node] if callee not in whole]
        for callee, target in left_calls[member]:
            if callee in whole:
                result.epsilon(whole[callee], base[member] + target)
    return result


def _append(graph: Graph, body: Graph, base: int) -> None:
    """Copy the nodes of `body` behind those of `graph`."""
    graph.byte_edges += [[(lo, hi, t + base) for lo, hi, t in edges] for edges in body.byte_edges]
    graph.epsilons += [[t + base for t in edges] for edges in body.epsilons]
    graph.call_edges += [[(p, t + base) for p, t in edges] for edges in body.call_edges]
    graph.token_edges += [[(texts, t + base) for texts, t in edges] for edges in body.token_edges]
