"""Put modules together: sequences, alternatives, repetitions, literals, special tokens and whole modules as parts.

    part = sequence(literal("<answer>"), embedded(json_schema_module(schema)), literal("</answer>"))
    module = compose(part, "answer", "#", Budget())

A part writes itself between two nodes of a graph, and adds no edge into the first or out of the second. Procedures of
embedded modules are renumbered; those that are equal to one that is there already are not written again, so that many
modules with the same strings or the same values in them cost what they differ in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from schemac.budget import Budget
from schemac.frontend.markers import special_spans
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Graph, Module, ModuleBuilder
from schemac.ir.passes.components import strong_components
from schemac.ir.passes.repetitions import repetition as counted
from schemac_runtime.registers import Guard

#: More calls than this are counted by a guard.
_WRITTEN_OUT = 250
_Body = tuple[object, ...]


class Composer:
    """A module under construction, and what it already has. The procedure declared first is the root."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._builder = ModuleBuilder()
        self._known: dict[object, tuple[int, ...]] = {}  # equal groups of procedures -> their numbers

    def declare(self, name: str, place: str) -> int:
        """Reserve a procedure."""
        self.budget.spend("procedures", place=place)
        return self._builder.declare(name, place)

    def define(self, procedure: int, graph: Graph, guard: Guard | None = None) -> None:
        """Give a declared procedure its graph."""
        self._builder.define(procedure, graph, guard)

    def build(self) -> Module:
        """The module."""
        return self._builder.build()

    def include(self, module: Module) -> int:
        """Add the procedures of a module; returns the number of its root here.

        Procedures that call each other come as one group. A group is shared with an equal one of an earlier module:
        same graphs in the same order, the same calls among themselves and to what is outside of the group.
        """
        graphs = [procedure.graph for procedure in module.procedures]
        callees = [list(dict.fromkeys(callee for calls in g.call_edges for callee, _ in calls)) for g in graphs]
        component, members = strong_components(callees)
        number = [-1] * len(graphs)
        for group in members:  # each after the groups that it calls
            first = group[0]
            if len(group) > 1:  # the same one wherever such a group comes from
                inside = dict.fromkeys(group, 0)
                first = min(group, key=lambda procedure: repr(_body(graphs[procedure], inside, number)))
            reached = _breadth_first(first, callees, component)
            order = {procedure: position for position, procedure in enumerate(reached)}
            key = tuple((_body(graphs[p], order, number), module.procedures[p].guard) for p in order)
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = tuple(self._copied(module, order, number))
            for procedure, position in order.items():
                number[procedure] = found[position]
        return number[0]

    def _copied(self, module: Module, order: dict[int, int], number: list[int]) -> list[int]:
        """Declare and define a group of procedures, in order; `number` tells where the others are."""
        copies = {}
        for procedure in order:
            source = module.procedures[procedure]
            self.budget.spend("states", len(source.graph), place=source.place)
            copies[procedure] = self.declare(source.name, source.place)
        for procedure, copy in copies.items():
            source_graph = module.procedures[procedure].graph
            graph = Graph()
            graph.byte_edges, graph.epsilons = source_graph.byte_edges, source_graph.epsilons
            graph.token_edges, graph.finals = source_graph.token_edges, source_graph.finals
            graph.call_edges = [
                [(copies.get(callee, number[callee]), target) for callee, target in calls]
                for calls in source_graph.call_edges
            ]
            self.define(copy, graph, module.procedures[procedure].guard)
        return list(copies.values())


#: Writes itself into a graph, between the two nodes given.
Part = Callable[[Composer, Graph, int, int], None]


def compose(part: Part, name: str, place: str, budget: Budget) -> Module:
    """The module whose texts are those of a part."""
    composer = Composer(budget)
    root = composer.declare(name, place)
    graph = Graph()
    end = graph.node()
    graph.final(end)
    part(composer, graph, graph.start, end)
    composer.define(root, graph)
    return composer.build()


def nothing() -> Part:
    """The empty text."""
    return lambda _, graph, source, target: graph.epsilon(source, target)


def literal(text: str | bytes, *, special: bool = True) -> Part:
    """One text.

    Args:
        text: what to read; a `str` stands for its UTF-8 bytes.
        special: parts of a `str` that look like special tokens (see `markers`) may also be such a token, where the
            vocabulary has it.
    """

    def write(_: Composer, graph: Graph, source: int, target: int) -> None:
        write_literal(graph, source, text, target, special=special)

    return write


def write_literal(
    graph: Graph, source: int, text: str | bytes, target: int, *, special: bool = True
) -> list[int]:
    """Read one text between two nodes, as `literal` does; returns the nodes before, between and after its bytes."""
    data = text.encode() if isinstance(text, str) else text
    nodes = [source]
    for position, byte in enumerate(data):
        there = target if position == len(data) - 1 else graph.node()
        graph.byte(nodes[-1], byte, byte, there)
        nodes.append(there)
    if not data:
        graph.epsilon(source, target)
    if special and isinstance(text, str):
        for first, last, name in special_spans(text):
            graph.token(nodes[first], [name], nodes[last], optional=True)
    return nodes if data else [source, target]


def token(*texts: str) -> Part:
    """One special token, named by its text; several are alternatives. A vocabulary must have all of them."""
    return lambda _, graph, source, target: graph.token(source, texts, target)


def language(dfa: Dfa) -> Part:
    """A text of a language over bytes."""

    def write(_: Composer, graph: Graph, source: int, target: int) -> None:
        graph.language(source, dfa, target)

    return write


def embedded(module: Module) -> Part:
    """A text of another module."""

    def write(composer: Composer, graph: Graph, source: int, target: int) -> None:
        graph.call(source, composer.include(module), target)

    return write


def sequence(*parts: Part) -> Part:
    """One part after the other."""

    def write(composer: Composer, graph: Graph, source: int, target: int) -> None:
        here = source
        for part in parts:
            there = graph.node()
            part(composer, graph, here, there)
            here = there
        graph.epsilon(here, target)

    return write


def alternatives(*parts: Part) -> Part:
    """Any one of the parts; without parts, no text at all."""

    def write(composer: Composer, graph: Graph, source: int, target: int) -> None:
        for part in parts:
            part(composer, graph, source, target)

    return write


def repetition(part: Part, low: int, high: int | None, *, separator: Part | None = None) -> Part:
    """A part `low` to `high` times (None: any number of times), with `separator` between two of them.

    The part is written once, as a procedure, and called as often as it takes; many calls are counted by a guard.
    """

    def write(composer: Composer, graph: Graph, source: int, target: int) -> None:
        if high is not None and high < low:
            return
        large = max(low, high or 0) > _WRITTEN_OUT
        composer.budget.spend("states", 1 if large else max(low, high or 0) + 1)
        item = _procedure(composer, part, "item")
        # What every item but the first begins with a separator.
        later = item if separator is None else _procedure(composer, sequence(separator, _call(item)), "item")
        here = graph.node()
        graph.epsilon(source, here)
        if large:
            if low == 0:
                graph.epsilon(here, target)
            if separator is not None:  # the first item has none
                there = graph.node()
                graph.call(here, item, there)
                here = there
                if low <= 1:
                    graph.epsilon(here, target)
            before = int(separator is not None)
            loop = composer.declare("items", "")
            composer.define(loop, *counted(later, low - before, None if high is None else high - before))
            graph.call(here, loop, target)
            return
        for count in range(max(low, high or 0)):
            if count >= low:
                graph.epsilon(here, target)
            there = graph.node()
            graph.call(here, later if count else item, there)
            here = there
        if high is None:
            if low == 0 and separator is not None:
                graph.epsilon(here, target)
                there = graph.node()
                graph.call(here, item, there)
                here = there
            graph.call(here, later, here)
        graph.epsilon(here, target)

    return write


def _procedure(composer: Composer, part: Part, name: str) -> int:
    number = composer.declare(name, "")
    graph = Graph()
    end = graph.node()
    graph.final(end)
    part(composer, graph, graph.start, end)
    composer.define(number, graph)
    return number


def _call(procedure: int) -> Part:
    return lambda _, graph, source, target: graph.call(source, procedure, target)


def _breadth_first(first: int, callees: Sequence[Iterable[int]], component: Sequence[int]) -> list[int]:
    """The members of the group of a procedure, by calls from it."""
    order = {first: None}
    queue = [first]
    for procedure in queue:  # grows while we walk it
        for callee in callees[procedure]:
            if component[callee] == component[first] and callee not in order:
                order[callee] = None
                queue.append(callee)
    return queue


def _body(graph: Graph, order: dict[int, int], number: list[int]) -> _Body:
    """A graph as a value, with calls within its group by position and all others by number."""
    return (
        tuple(map(tuple, graph.byte_edges)),
        tuple(map(tuple, graph.epsilons)),
        tuple(
            tuple((-1 - order[callee] if callee in order else number[callee], target) for callee, target in calls)
            for calls in graph.call_edges
        ),
        tuple(map(tuple, graph.token_edges)),
        tuple(sorted(graph.finals)),
    )
