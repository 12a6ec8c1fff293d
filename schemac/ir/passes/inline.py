"""Copy small or once-used procedures into their callers.

A call keeps a language in one place, at the price of a stack and of masks that depend on it. Copying is cheaper for
what is used once, and for small languages that allow few tokens, such as numbers and short patterns. A state that allows
most bytes (the inside of a string) allows most tokens too: it is shared, unless it is used once.
"""

from __future__ import annotations

from schemac.budget import Budget
from schemac.ir.graph import Graph, Module, Procedure

#: A node that allows at least this many bytes is the inside of free text.
DENSE_BYTES = 100
#: Copies of a procedure may cost this many node-bytes in all, see `_weight`.
COPY_LIMIT = 8_000


def inline_calls(module: Module, budget: Budget) -> Module:
    """Inline bottom-up; recursive procedures stay calls. Unused procedures are left for the next trim."""
    graphs = [procedure.graph for procedure in module.procedures]
    sites = [0] * len(graphs)
    for graph in graphs:
        for calls in graph.call_edges:
            for callee, _ in calls:
                sites[callee] += 1
    weights: dict[int, int | None] = {}
    for number in _callees_first(graphs):
        if any(weights.get(callee) is not None for calls in graphs[number].call_edges for callee, _ in calls):
            chosen = {p: graphs[p] for p, weight in weights.items() if weight is not None}
            graphs[number] = _splice(graphs[number], chosen, budget, module.procedures[number].place)
        weight, dense = _weight(graphs[number])
        recursive = any(weights.get(callee, None) is None and callee not in weights
                        for calls in graphs[number].call_edges for callee, _ in calls)
        small = not dense and weight * sites[number] <= COPY_LIMIT
        copied = number != 0 and not recursive and (sites[number] == 1 or small)
        weights[number] = weight if copied else None
    return Module(tuple(Procedure(p.name, p.place, g) for p, g in zip(module.procedures, graphs, strict=True)))


def _weight(graph: Graph) -> tuple[int, bool]:
    """The number of bytes allowed, summed over the nodes, and whether any node allows free text."""
    total, dense = len(graph), False
    for edges, calls in zip(graph.byte_edges, graph.call_edges, strict=True):
        covered = sum(high - low + 1 for low, high, _ in edges)
        dense = dense or covered >= DENSE_BYTES
        total += covered + len(calls)
    return total, dense


def _callees_first(graphs: list[Graph]) -> list[int]:
    """Procedure numbers, callees before their callers (depth-first post-order from 0; cycles are cut anywhere)."""
    callees = [sorted({callee for calls in graph.call_edges for callee, _ in calls}) for graph in graphs]
    order: list[int] = []
    entered = [False] * len(graphs)
    for root in range(len(graphs)):
        if entered[root]:
            continue
        entered[root] = True
        stack = [(root, 0)]
        while stack:
            number, index = stack.pop()
            while index < len(callees[number]) and entered[callees[number][index]]:
                index += 1
            if index == len(callees[number]):
                order.append(number)
                continue
            stack.append((number, index + 1))
            callee = callees[number][index]
            entered[callee] = True
            stack.append((callee, 0))
    return order


def _splice(graph: Graph, chosen: dict[int, Graph], budget: Budget, place: str) -> Graph:
    """`graph` with every call to a chosen procedure replaced by a copy of its graph."""
    result = Graph()
    result.byte_edges = [list(edges) for edges in graph.byte_edges]
    result.epsilons = [list(edges) for edges in graph.epsilons]
    result.token_edges = [list(edges) for edges in graph.token_edges]
    result.call_edges = [[] for _ in graph.call_edges]
    result.finals = set(graph.finals)
    for node, calls in enumerate(graph.call_edges):
        for callee, target in calls:
            body = chosen.get(callee)
            if body is None:
                result.call(node, callee, target)
                continue
            budget.spend("states", len(body), place=place)
            base = len(result)
            result.byte_edges += [[(lo, hi, t + base) for lo, hi, t in edges] for edges in body.byte_edges]
            result.epsilons += [[t + base for t in edges] for edges in body.epsilons]
            result.call_edges += [[(p, t + base) for p, t in edges] for edges in body.call_edges]
            result.token_edges += [[(texts, t + base) for texts, t in edges] for edges in body.token_edges]
            result.epsilon(node, base)
            for final in sorted(body.finals):
                result.epsilon(base + final, target)
    return result
