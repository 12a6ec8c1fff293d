"""Where whitespace may stand (RFC 8259, section 2), by policy."""

from __future__ import annotations

from dataclasses import dataclass

from schemac.ir.graph import Graph

_SPACE = (0x20, 0x0A, 0x0D, 0x09)


@dataclass(frozen=True, slots=True)
class Layout:
    """Adds structural characters and the whitespace around them.

    Attributes:
        whitespace: ``flexible``, ``single`` or ``compact``.
        limit: the most whitespace characters in a row under ``flexible``, None for no limit.
    """

    whitespace: str
    limit: int | None = None

    def gap(self, graph: Graph, node: int) -> int:
        """Whitespace after a bracket or a value; returns the node behind it (the same one if there is no limit)."""
        if self.whitespace != "flexible":
            return node
        if self.limit is None:
            for byte in _SPACE:
                graph.byte(node, byte, byte, node)
            return node
        behind = graph.node()
        graph.epsilon(node, behind)
        for _ in range(self.limit):
            after = graph.node()
            for byte in _SPACE:
                graph.byte(node, byte, byte, after)
            graph.epsilon(after, behind)
            node = after
        return behind

    def _separator(self, graph: Graph, node: int, byte: int, action: str | None = None) -> int:
        behind = graph.node()
        graph.byte(node, byte, byte, behind)
        if action is not None:
            acting, behind = behind, graph.node()
            graph.action(acting, action, behind)
        if self.whitespace != "single":
            return self.gap(graph, behind)
        spaced = graph.node()
        graph.byte(behind, 0x20, 0x20, spaced)
        graph.epsilon(behind, spaced)
        return spaced

    def comma(self, graph: Graph, node: int, action: str | None = None) -> int:
        """A comma, an action of the guard right after it, and what may surround it, `gap` before it excepted; returns
        the node behind.
        """
        return self._separator(graph, node, 0x2C, action)

    def colon(self, graph: Graph, node: int) -> int:
        """A colon and what may surround it; returns the node behind."""
        return self._separator(graph, self.gap(graph, node), 0x3A)
