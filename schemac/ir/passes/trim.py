"""Remove what no text can use: calls that never end, procedures nobody reaches, and empty texts of callees.

procedure 0 root                       procedure 0 root
  0: call a -> 1, call b -> 1    =>      0: call a -> 1, epsilon -> 1
  1: final                               1: final
procedure 1 a: "x"? ; 2 b: "(" b ")"   procedure 1 a: "x"
"""

from __future__ import annotations

from dataclasses import replace

from schemac.errors import EmptyLanguageError
from schemac.ir.graph import Graph, Module, Procedure


def drop_unproductive(module: Module) -> Module:
    """Drop call edges to procedures that have no text, then procedures that the root never reaches.

    Raises:
        EmptyLanguageError: the root has no text.
    """
    productive = productive_procedures(module)
    if not productive[0]:
        root = module.procedures[0]
        raise EmptyLanguageError(f"no text satisfies {root.name!r}", place=root.place or None)
    graphs = [_without_calls(procedure.graph, productive) for procedure in module.procedures]
    reached, stack = {0}, [0]
    while stack:
        for calls in graphs[stack.pop()].call_edges:
            for callee, _ in calls:
                if callee not in reached:
                    reached.add(callee)
                    stack.append(callee)
    keep = sorted(reached)
    if len(keep) == len(graphs) and all(g is p.graph for g, p in zip(graphs, module.procedures, strict=True)):
        return module
    number = {old: new for new, old in enumerate(keep)}
    return Module(
        tuple(
            replace(module.procedures[p], graph=_renumbered(graphs[p], number))
            for p in keep
        )
    )


def remove_nullable(module: Module) -> Module:
    """Let no called procedure accept the empty text: its callers step over the call instead.

    A guarded repetition of something that may be empty has any number of texts up to its upper bound, and may itself be
    empty: its callers step over it, and it calls at least once.
    """
    nullable = _least_fixpoint(module, ignore_bytes=True)
    called = {callee for p in module.procedures for calls in p.graph.call_edges for callee, _ in calls}
    if not any(nullable[callee] for callee in called):
        return module
    procedures = []
    for number, procedure in enumerate(module.procedures):
        calls_nullable = any(nullable[callee] for calls in procedure.graph.call_edges for callee, _ in calls)
        if not calls_nullable and not (nullable[number] and number in called):
            procedures.append(procedure)
            continue
        if procedure.guard is not None and procedure.guard.kind == "repeats":
            procedures.append(replace(procedure, guard=replace(procedure.guard, low=1)))
            continue
        graph = copy_graph(procedure.graph)
        for node, calls in enumerate(graph.call_edges):
            for callee, target in calls:
                if nullable[callee]:
                    graph.epsilon(node, target)
        if nullable[number] and number in called:
            graph = _without_empty_text(graph)
        procedures.append(replace(procedure, graph=graph))
    if nullable[0] and 0 in called:  # the root keeps its empty text: a new root calls the old one
        root = Graph()
        end = root.node()
        root.call(root.start, len(procedures), end)
        root.final(root.start)
        root.final(end)
        shifted = {old: old or len(procedures) for old in range(len(procedures))}
        moved = [replace(p, graph=_renumbered(p.graph, shifted)) for p in procedures]
        return Module((Procedure(moved[0].name, moved[0].place, root), *moved[1:], moved[0]))
    return Module(tuple(procedures))


def productive_procedures(module: Module) -> list[bool]:
    """Per procedure: does it have a text?"""
    return _least_fixpoint(module, ignore_bytes=False)


def _least_fixpoint(module: Module, *, ignore_bytes: bool) -> list[bool]:
    """Per procedure: can it reach a final node? With `ignore_bytes`, without reading a byte or a token."""
    holds = [_exact_holds(p.graph, ignore_bytes=ignore_bytes) for p in module.procedures]
    waiting: list[list[tuple[int, int]]] = [[] for _ in module.procedures]  # callee -> (caller, return node)
    reached = [bytearray(len(p.graph)) for p in module.procedures]
    stack = [(number, 0) for number, p in enumerate(module.procedures) if p.graph.exact is None]
    while stack:
        number, node = stack.pop()
        if reached[number][node]:
            continue
        reached[number][node] = 1
        graph = module.procedures[number].graph
        if node in graph.finals and not holds[number]:
            holds[number] = True
            stack.extend(waiting[number])
        stack.extend((number, target) for target in graph.epsilons[node])
        if not ignore_bytes:
            stack.extend((number, target) for _, _, target in graph.byte_edges[node])
            stack.extend((number, target) for _, target in graph.token_edges[node])
        for callee, target in graph.call_edges[node]:
            waiting[callee].append((number, target))
            if holds[callee]:
                stack.append((number, target))
    return holds


def _exact_holds(graph: Graph, *, ignore_bytes: bool) -> bool:
    """The answer of `_least_fixpoint` for a graph that was made from an automaton; False for others."""
    if graph.exact is None:
        return False
    return graph.exact.accepts(()) if ignore_bytes else not graph.exact.is_empty


def copy_graph(graph: Graph) -> Graph:
    """A graph of its own with the same nodes and edges, to be changed."""
    copy = Graph()
    copy.apart = graph.apart
    copy.byte_edges = [list(edges) for edges in graph.byte_edges]
    copy.epsilons = [list(edges) for edges in graph.epsilons]
    copy.call_edges = [list(edges) for edges in graph.call_edges]
    copy.token_edges = [list(edges) for edges in graph.token_edges]
    copy.finals = set(graph.finals)
    return copy


def _without_calls(graph: Graph, keep: list[bool]) -> Graph:
    if all(keep[callee] for calls in graph.call_edges for callee, _ in calls):
        return graph
    copy = copy_graph(graph)
    copy.call_edges = [[(callee, target) for callee, target in calls if keep[callee]] for calls in graph.call_edges]
    return copy


def _renumbered(graph: Graph, number: dict[int, int]) -> Graph:
    """The graph with other procedure numbers; the rest is shared, since passes leave graphs as they are."""
    if graph.exact is not None:
        return graph
    copy = Graph()
    copy.byte_edges, copy.epsilons, copy.token_edges = graph.byte_edges, graph.epsilons, graph.token_edges
    copy.finals, copy.apart = graph.finals, graph.apart
    copy.call_edges = [[(number[callee], target) for callee, target in calls] for calls in graph.call_edges]
    return copy


def _without_empty_text(graph: Graph) -> Graph:
    """The same language without the empty text: a fresh start whose first step reads something."""
    copy = copy_graph(graph)
    old_start = len(copy)
    copy.node()
    copy.byte_edges[old_start] = list(copy.byte_edges[0])
    copy.epsilons[old_start] = list(copy.epsilons[0])
    copy.call_edges[old_start] = list(copy.call_edges[0])
    copy.token_edges[old_start] = list(copy.token_edges[0])
    for node in range(len(copy)):  # every edge into the start now goes to its copy
        copy.byte_edges[node] = [(lo, hi, t or old_start) for lo, hi, t in copy.byte_edges[node]]
        copy.epsilons[node] = [t or old_start for t in copy.epsilons[node]]
        copy.call_edges[node] = [(p, t or old_start) for p, t in copy.call_edges[node]]
        copy.token_edges[node] = [(texts, t or old_start) for texts, t in copy.token_edges[node]]
    if 0 in copy.finals:
        copy.finals.add(old_start)
    first, seen = [0], {0}
    while first:  # everything that the start reaches for free must be left by reading
        node = first.pop()
        for target in copy.epsilons[node]:
            if target not in seen:
                seen.add(target)
                first.append(target)
    free = sorted(seen)
    copy.byte_edges[0] = [edge for node in free for edge in copy.byte_edges[node]]
    copy.call_edges[0] = [edge for node in free for edge in copy.call_edges[node]]
    copy.token_edges[0] = [edge for node in free for edge in copy.token_edges[node]]
    copy.epsilons[0] = []
    copy.finals.discard(0)
    return copy
