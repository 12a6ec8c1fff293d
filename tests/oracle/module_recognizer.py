"""A slow, plain recognizer over symbolic modules: sets of configurations, byte by byte.

Independent of every pass: it reads `schemac.ir.graph.Module` as frontends hand it over. A configuration is
(procedure, node, stack), a stack a linked list of (procedure, return node, rest).
"""

from __future__ import annotations

from schemac.ir.graph import Module

Stack = tuple["int", "int", "Stack"] | None
Configuration = tuple[int, int, Stack]


class ModuleRecognizer:
    """Recognizes the texts of a module.

    Args:
        module: without left recursion.
        limit: most configurations at one time, against runaway stacks.
    """

    def __init__(self, module: Module, limit: int = 100_000) -> None:
        self._procedures = module.procedures
        self._limit = limit

    def accepts(self, text: str | bytes) -> bool:
        """Whether the whole text is one of the module's."""
        return self.prefix(text) == -1

    def prefix(self, text: str | bytes) -> int:
        """-1 if the text is accepted, else how many bytes were read before no way was left (all, if it just ends)."""
        data = text.encode() if isinstance(text, str) else text
        current = self.start()
        for position, byte in enumerate(data):
            current = self.step(current, byte)
            if not current:
                return position
        return -1 if self.accepting(current) else len(data)

    def start(self) -> set[Configuration]:
        """The configurations before the first byte."""
        return self._closure({(0, 0, None)})

    def step(self, current: set[Configuration], byte: int) -> set[Configuration]:
        """The configurations after one more byte."""
        following: set[Configuration] = set()
        for procedure, node, stack in current:
            for low, high, target in self._procedures[procedure].graph.byte_edges[node]:
                if low <= byte <= high:
                    following.add((procedure, target, stack))
        return self._closure(following)

    def accepting(self, current: set[Configuration]) -> bool:
        """Whether the text may end here."""
        return any(
            stack is None and node in self._procedures[procedure].graph.finals for procedure, node, stack in current
        )

    def _closure(self, current: set[Configuration]) -> set[Configuration]:
        pending = list(current)
        while pending:
            procedure, node, stack = pending.pop()
            graph = self._procedures[procedure].graph
            found: list[Configuration] = [(procedure, target, stack) for target in graph.epsilons[node]]
            found += [(callee, 0, (procedure, target, stack)) for callee, target in graph.call_edges[node]]
            if stack is not None and node in graph.finals:
                found.append((stack[0], stack[1], stack[2]))
            for configuration in found:
                if configuration not in current:
                    current.add(configuration)
                    pending.append(configuration)
            if len(current) > self._limit:
                raise RuntimeError("too many configurations: left recursion, or a very ambiguous module")
        return current
