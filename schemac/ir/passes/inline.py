"""Copy small or once-used procedures into their callers.

A call keeps a language in one place, at the price of a stack and of masks that depend on it. Copying is cheaper for
what is used once, and for small languages that allow few tokens, such as numbers and short patterns. A state that
allows most bytes (the inside of a string) allows most tokens too: it is shared, unless it is used once.
"""

from __future__ import annotations

from dataclasses import replace

from schemac.budget import Budget
from schemac.ir.graph import Graph, Module
from schemac.ir.passes.trim import copy_graph

#: A node that allows at least this many bytes is the inside of free text.
DENSE_BYTES = 100
#: Copies of a procedure may cost this many node-bytes in all, see `_weight`.
COPY_LIMIT = 8_000
#: Larger languages stay procedures even if they are used once: they are minimal as they are, and nothing is won.
LARGE_LANGUAGE = 1_000


def inline_calls(module: Module, budget: Budget) -> Module:
    """Inline bottom-up; recursive procedures stay calls. Inlined procedures are left for the next trim to drop."""
    graphs = [procedure.graph for procedure in module.procedures]
    kept = [p.guard is not None for p in module.procedures]
    for p in module.procedures:
        if p.guard is not None and p.guard.kind == "repeats":  # counts its calls
            for calls in p.graph.call_edges:
                for callee, _ in calls:
                    kept[callee] = True
    copied = _choose(graphs, kept)
    if not any(copied):
        return module
    return Module(
        tuple(
            p
            if copied[number] or p.graph.exact is not None
            else replace(p, graph=_spliced(graphs, number, copied, budget, p.place))
            for number, p in enumerate(module.procedures)
        )
    )


def _choose(graphs: list[Graph], kept: list[bool]) -> list[bool]:
    """Which procedures to copy into their callers. A copied one may itself contain copies, never a cycle of them.

    Args:
        kept: those that stay procedures: a guarded one keeps its register in a frame of its own.
    """
    sites = [0] * len(graphs)
    for graph in graphs:
        for calls in graph.call_edges:
            for callee, _ in calls:
                sites[callee] += 1
    copied = [False] * len(graphs)
    weights: dict[int, int] = {}  # of procedures done, copies included
    dense = [False] * len(graphs)
    for number in _callees_first(graphs):
        graph = graphs[number]
        if graph.apart or (graph.exact is not None and graph.exact.size > LARGE_LANGUAGE):
            weights[number], dense[number] = len(graph), True
            continue
        weight, dense[number] = _weight(graphs[number])
        recursive = False
        for calls in graphs[number].call_edges:
            for callee, _ in calls:
                recursive = recursive or callee not in weights
                if copied[callee]:
                    weight += weights[callee]
                    dense[number] = dense[number] or dense[callee]
        weights[number] = weight
        small = not dense[number] and weight * sites[number] <= COPY_LIMIT
        copied[number] = number != 0 and not recursive and not kept[number] and (sites[number] == 1 or small)
    return copied


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


def _spliced(graphs: list[Graph], number: int, copied: list[bool], budget: Budget, place: str) -> Graph:
    """The graph of a procedure with every call to a copied one replaced by that one's graph, to any depth."""
    result = copy_graph(graphs[number])
    pending = list(range(len(result)))
    for node in pending:  # grows while we walk it
        calls = result.call_edges[node]
        if not any(copied[callee] for callee, _ in calls):
            continue
        result.call_edges[node] = [call for call in calls if not copied[call[0]]]
        for callee, target in calls:
            if copied[callee]:
                body = graphs[callee]
                budget.spend("states", len(body), place=place)
                base = _append(result, body)
                pending.extend(range(base, len(result)))
                result.epsilon(node, base)
                for final in sorted(body.finals):
                    result.epsilon(base + final, target)
    return result


def _append(graph: Graph, body: Graph) -> int:
    """Copy the nodes of `body` behind those of `graph`; returns the number of the first one."""
    base = len(graph)
    moved: dict[tuple[int, int, int], tuple[int, int, int]] = {}  # equal edges are one object: they are many
    graph.byte_edges += [
        [moved.get(edge) or moved.setdefault(edge, (edge[0], edge[1], edge[2] + base)) for edge in edges]
        for edges in body.byte_edges
    ]
    graph.epsilons += [[t + base for t in edges] for edges in body.epsilons]
    graph.call_edges += [[(p, t + base) for p, t in edges] for edges in body.call_edges]
    graph.token_edges += [[(texts, t + base) for texts, t in edges] for edges in body.token_edges]
    return base
