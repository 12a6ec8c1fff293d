"""Repetitions that a guard counts: one procedure for the loop, one for what is repeated.

procedure 1 "item" guard repeats 1..5000        the root calls 1; 2 reads one text
  0: call 2 -> 1
  1: call 2 -> 1, final

The frame of 1 counts its calls, so 2 must stay a procedure of its own.
"""

from __future__ import annotations

from dataclasses import replace

from schemac.budget import Budget
from schemac.ir.graph import Graph, Module
from schemac.ir.passes.components import strong_components
from schemac.ir.passes.left_recursion import start_closure
from schemac_runtime.registers import Guard


def repetition(body: int, low: int, high: int | None) -> tuple[Graph, Guard]:
    """(the graph of a procedure, its guard) for at least one and `low` to `high` texts of the procedure `body`."""
    graph = Graph()
    after = graph.node()
    graph.call(graph.start, body, after)
    graph.call(after, body, after)
    graph.final(after)
    return graph, Guard("repeats", max(low, 1), high)


def write_out_recursive(module: Module, budget: Budget) -> Module:
    """Repetitions that can begin with themselves are written out: `eliminate_left_recursion` copies frames, and a
    copied frame has no count of its own.
    """
    if not any(p.guard is not None and p.guard.kind == "repeats" for p in module.procedures):
        return module
    first = [
        sorted({callee for node in start_closure(p.graph) for callee, _ in p.graph.call_edges[node]})
        for p in module.procedures
    ]
    component, members = strong_components(first)
    procedures = list(module.procedures)
    for number, p in enumerate(module.procedures):
        guard = p.guard
        if guard is None or guard.kind != "repeats":
            continue
        if len(members[component[number]]) > 1 or number in first[number]:
            budget.spend("states", max(guard.low, guard.high or 0) + 1, place=p.place)
            body = p.graph.call_edges[p.graph.start][0][0]
            procedures[number] = replace(p, graph=written_out(body, guard), guard=None)
    return Module(tuple(procedures))


def written_out(body: int, guard: Guard) -> Graph:
    """The graph of a repetition without a guard."""
    graph = Graph()
    here = graph.start
    for count in range(1, (guard.low if guard.high is None else guard.high) + 1):
        there = graph.node()
        graph.call(here, body, there)
        here = there
        if count >= guard.low:
            graph.final(here)
    if guard.high is None:
        graph.call(here, body, here)
    return graph
