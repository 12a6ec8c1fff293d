"""Members on a frame's graph: what lies between the keys, which `keys` writes, and the values, which are called."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from schemac.frontend.json_schema.keys import KeyTexts, KeyTries, Trie
from schemac.frontend.json_schema.layout import Layout
from schemac.ir.graph import Graph
from schemac_runtime.registers import KEY, NEXT


class Values(KeyTexts, Protocol):
    """What a frame needs from the lowering that it is part of."""

    def value(self, graph: Graph, source: int, formula: int, target: int) -> None:
        """Read a value that satisfies the formula."""
        ...

    def is_sure(self, formula: int) -> bool:
        """Whether it is plain to see that some value satisfies the formula."""
        ...

    def object_alternative(self, formula: int, names: tuple[str, ...], place: str) -> int:
        """The procedure that reads what follows the opening brace by `formula`, with the key order `names`."""
        ...


class Members:
    """Writes the members of one frame.

    Args:
        names: the declared keys.
        values: reads member values.
        layout: whitespace.
        guarded: the frame remembers its keys, so that it has the actions of a guard of kind "members".
    """

    def __init__(self, names: Sequence[str], values: Values, layout: Layout, *, guarded: bool) -> None:
        self.graph = Graph()
        self._values = values
        self._layout = layout
        self._guarded = guarded
        self.tries = KeyTries(self.graph, names, values, KEY if guarded else None)
        self._after: dict[Hashable, int] = {}
        self._members: dict[tuple[tuple[int, Hashable], ...], int] = {}
        self._end = self.graph.node()
        self.graph.final(self._end)

    def member(self, alternatives: tuple[tuple[int, Hashable], ...]) -> int:
        """The node after a key's quotation mark: colon, a value, and on to the state that belongs to it.

        Args:
            alternatives: (formula of the value, state of the frame after it).
        """
        node = self._members.get(alternatives)
        if node is None:
            node = self.graph.node()
            self._members[alternatives] = node
            value = self._layout.colon(self.graph, node)
            for formula, state in alternatives:
                self._values.value(self.graph, value, formula, self._state(state))
        return node

    def _state(self, state: Hashable) -> int:
        """The node after a member's value."""
        node = self._after.get(state)
        if node is None:
            node = self.graph.node()
            self._after[state] = node
        return node

    def begin(self, trie: Trie | None, *, may_end: bool) -> None:
        """What follows the opening brace."""
        self._close_or(self._layout.gap(self.graph, self.graph.start), trie, may_end)

    def after(self, state: Hashable, trie: Trie | None, *, may_end: bool) -> None:
        """What follows a value that leads to a state; states that no value leads to are left out."""
        node = self._after.get(state)
        if node is None:
            return
        behind = self._layout.gap(self.graph, node)
        self._close_or(behind, None, may_end)
        if trie is not None:
            quote = self._layout.comma(self.graph, behind, NEXT if self._guarded else None)
            self._close_or(quote, trie, may_end=False)

    def _close_or(self, node: int, trie: Trie | None, may_end: bool) -> None:
        if may_end:
            self.graph.byte(node, 0x7D, 0x7D, self._end)
        if trie is not None:
            self.graph.byte(node, 0x22, 0x22, self.tries.node(trie))


def apart(alternatives: Sequence[int], names: tuple[str, ...], values: Values, place: str) -> Graph:
    """A frame for each alternative, all of them followed side by side."""
    graph = Graph()
    end = graph.node()
    graph.final(end)
    for alternative in alternatives:
        graph.call(graph.start, values.object_alternative(alternative, names, place), end)
    return graph
