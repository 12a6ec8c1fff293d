"""Turn a call of a procedure to itself into a jump where the stack would remember nothing.

procedure list                            procedure list
  0: "x" -> 1                      =>       0: "x" -> 1
  1: "," -> 2, final                        1: "," -> 2, final
  2: call list -> 3                         2: epsilon -> 0
  3: final                                  3: final

In general a call to the procedure A itself that goes on at t is a jump if A followed by what can be read from t is A
again. That is so if nothing can be read from t, and also if t may end and every end of A can go on as t does; then an
ambiguous `e: e "+" e | "n"` without its left recursion is a loop. Right-recursive rules become regular.
"""

from __future__ import annotations

from dataclasses import replace

from schemac.budget import Budget
from schemac.ir.graph import Graph, Module
from schemac.ir.passes.trim import copy_graph


def loop_tail_calls(module: Module, budget: Budget) -> Module:
    """Replace calls of procedures to themselves by epsilons to their starts where that is the same."""
    procedures = []
    for number, procedure in enumerate(module.procedures):
        graph = procedure.graph if procedure.guard is not None else _with_loops(procedure.graph, number)
        budget.check_time(place=procedure.place)
        same = graph is procedure.graph
        procedures.append(procedure if same else replace(procedure, graph=graph))
    return Module(tuple(procedures))


def _with_loops(graph: Graph, number: int) -> Graph:
    own = [
        (node, target)
        for node, calls in enumerate(graph.call_edges)
        for callee, target in calls
        if callee == number
    ]
    if not own:
        return graph
    closures = {target: _closure(graph, target) for _, target in own}
    shared: frozenset[int] | None = None  # what every end of the procedure can go on with
    for final in sorted(graph.finals):
        closure = _closure(graph, final)
        shared = closure if shared is None else shared & closure
    jumps = {
        (node, target)
        for node, target in own
        if (closures[target] & graph.finals)
        and (not any(_reads(graph, after) for after in closures[target]) or closures[target] <= (shared or frozenset()))
    }
    if not jumps:
        return graph
    result = copy_graph(graph)
    for node in sorted({node for node, _ in jumps}):
        kept = [call for call in result.call_edges[node] if call[0] != number or (node, call[1]) not in jumps]
        result.call_edges[node] = kept
        result.epsilons[node].append(result.start)
    return result


def _reads(graph: Graph, node: int) -> bool:
    return bool(graph.byte_edges[node] or graph.call_edges[node] or graph.token_edges[node])


def _closure(graph: Graph, start: int) -> frozenset[int]:
    """The nodes that read or end something and that `start` reaches without reading."""
    seen, stack = {start}, [start]
    while stack:
        for target in graph.epsilons[stack.pop()]:
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return frozenset(node for node in seen if _reads(graph, node) or node in graph.finals)
