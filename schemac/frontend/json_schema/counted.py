"""Strings of one character set with a large bound on their length, in blocks.

`maxLength: 65535` as one automaton has 65,536 states, times about seven for UTF-8. Here it is 512 steps, each of them

    i: call exactly-128 -> i + 1, call up-to-127 -> end

so that its size is that of two blocks and a step per block; the blocks are shared by all such strings. Two
configurations are alive inside such a string: whether it ends in this block or goes on is open until it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schemac.ir.charset import CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Graph

#: Characters per block.
BLOCK = 128
#: Shorter automata stay as they are: one configuration at a time is worth more than the states saved.
_LONG = 600


@dataclass(frozen=True, slots=True)
class Counted:
    """`low` to `high` characters of a set."""

    characters: CharSet
    low: int
    high: int

    @classmethod
    def of(cls, language: Dfa) -> Counted | None:
        """The language in this form, if it is a long chain."""
        size = language.size
        if size <= _LONG or language.table.shape[1] > 2:
            return None
        live = np.flatnonzero(language.table[0] >= 0)
        if len(live) != 1:
            return None
        chain = language.table[:, live[0]]
        others = np.delete(language.table, live[0], axis=1)
        steps = np.append(np.arange(1, size), -1)
        low = int(np.argmax(language.accepting))
        if not (chain == steps).all() or (others >= 0).any() or not language.accepting[low:].all():
            return None
        return cls(language.class_symbols(live.tolist()), low, size - 1)

    def graph(self, block: Callable[[int, int], int]) -> Graph:
        """The graph that reads it.

        Args:
            block: (low, high) -> the procedure that reads so many of the characters.
        """
        graph = Graph()
        node = graph.start
        whole, rest = divmod(self.low, BLOCK)
        for count in [BLOCK] * whole + ([rest] if rest else []):
            node = self._call(graph, node, block(count, count))
        end = graph.node()
        graph.final(end)
        whole, rest = divmod(self.high - self.low, BLOCK)
        for _ in range(whole):
            graph.call(node, block(0, BLOCK - 1), end)
            node = self._call(graph, node, block(BLOCK, BLOCK))
        graph.call(node, block(0, rest), end) if rest else graph.epsilon(node, end)
        return graph

    def _call(self, graph: Graph, node: int, procedure: int) -> int:
        there = graph.node()
        graph.call(node, procedure, there)
        return there
