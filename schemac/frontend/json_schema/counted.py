"""Strings with a large bound on their length, in blocks of calls.

`maxLength: 65535` as one automaton has 65,536 states, times about seven for UTF-8. Here it is 512 steps, each of them

    i: call exactly-128 -> i + 1, call up-to-127 -> end

so that its size is that of two blocks and a step per block. Blocks are shared by all such strings, and blocks of
blocks serve still larger bounds. A base language with more states has a block for each pair of them. Inside such a
string a few configurations are alive: whether it ends in this block or goes on is open until it ends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from schemac.budget import Budget
from schemac.frontend.json_schema.strings import Band
from schemac.frontend.json_schema.text import length_language, string_body
from schemac.ir.dfa import CODE_POINTS, Dfa
from schemac.ir.graph import Graph
from schemac.ir.minimize import Table

#: Characters per smallest block, and blocks per larger block.
_BLOCK = 128
_FAN = 64


class CountedStrings:
    """The blocks of one compile.

    Args:
        declare: (name) -> a new procedure.
        define: gives a procedure its graph; the flag says that it is known to read some text.
        budget: pays "states".
    """

    def __init__(
        self, declare: Callable[[str], int], define: Callable[[int, Graph, bool], None], budget: Budget
    ) -> None:
        self._declare = declare
        self._define = define
        self._budget = budget
        self._blocks: dict[tuple[Dfa, int, int | None, int | None, bool], int | None] = {}

    def body(self, strings: Band) -> Graph:
        """The graph that reads the contents of a string of a set with bounds on the length."""
        graph = Graph()
        end = graph.node()
        graph.final(end)
        starts = self._run(graph, strings.base, {0: graph.start}, strings.low)
        most = None if strings.high is None else strings.high - strings.low
        self._finish(graph, strings.base, starts, most, end)
        return graph

    def _run(
        self, graph: Graph, base: Dfa, nodes: dict[int, int], count: int, below: int | None = None
    ) -> dict[int, int]:
        """Read exactly `count` characters, in blocks smaller than `below`.

        Args:
            graph: what is written.
            base: the language.
            nodes: graph nodes by state of `base`, as the result.
            count: so many characters.
            below: a block must not be made of itself.
        """
        for size in _steps(count, below):
            following: dict[int, int] = {}
            for state, node in nodes.items():
                for target in range(base.size):
                    block = self._block(base, state, target, size, exact=True)
                    if block is not None:
                        if target not in following:
                            following[target] = graph.node()
                        graph.call(node, block, following[target])
            nodes = following
            self._budget.spend("states", len(nodes))
        return nodes

    def _finish(self, graph: Graph, base: Dfa, nodes: dict[int, int], most: int | None, end: int) -> None:
        """Read up to `most` characters (None: any number) and end."""
        if most is None:
            for state, node in nodes.items():
                block = self._block(base, state, None, None, exact=False)
                if block is not None:
                    graph.call(node, block, end)
            return
        for size in _steps(most):
            for state, node in nodes.items():
                block = self._block(base, state, None, size - 1, exact=False)
                if block is not None:
                    graph.call(node, block, end)
            nodes = self._run(graph, base, nodes, size)
        for state, node in nodes.items():
            if base.accepting[state]:
                graph.epsilon(node, end)

    def _block(self, base: Dfa, state: int, target: int | None, count: int | None, *, exact: bool) -> int | None:
        """A procedure: from `state`, exactly `count` characters to `target`, or up to `count` to an end.

        Returns:
            None if there is no such text.
        """
        key = (base, state, target, count, exact)
        if key in self._blocks:
            return self._blocks[key]
        if count is None or count <= _BLOCK:
            accepting = base.accepting if target is None else np.arange(base.size) == target
            texts = _between(base, state, accepting)
            low = count if exact and count is not None else 0
            texts = texts.intersect(length_language(low, count), budget=self._budget)
            number = None if texts.is_empty else self._declare("characters")
            self._blocks[key] = number
            if number is not None:
                body = string_body(texts, self._budget)
                self._budget.spend("states", body.size)
                graph = Graph()
                graph.final(graph.language(graph.start, body))
                self._define(number, graph, True)
            return number
        number = self._blocks[key] = self._declare("characters")
        graph = Graph()
        if exact:
            for reached, node in self._run(graph, base, {state: graph.start}, count, below=count).items():
                if reached == target:
                    graph.final(node)
        else:
            end = graph.node()
            graph.final(end)
            self._finish(graph, base, {state: graph.start}, count, end)
        self._define(number, graph, False)
        return number


def _steps(count: int, below: int | None = None) -> list[int]:
    """`count` as a sum of block sizes less than `below`: equal ones, then smaller ones for the rest."""
    steps: list[int] = []
    while count:
        size = _BLOCK
        while size * _FAN <= count and (below is None or size * _FAN < below):
            size *= _FAN
        size = min(size, count)
        steps += [size] * (count // size)
        count %= size
    return steps


def _between(base: Dfa, state: int, accepting: NDArray[np.bool_]) -> Dfa:
    """The words that lead from a state to an accepting one."""
    swap = np.arange(base.size + 1, dtype=np.int32)
    swap[[0, state, base.size]] = [state, 0, -1]
    order = swap[: base.size]
    return Dfa.from_table(CODE_POINTS, Table(base.starts, base.classes, swap[base.table[order]], accepting[order]))
