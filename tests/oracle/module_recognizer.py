"""A slow, plain recognizer over symbolic modules: sets of configurations, byte by byte.

Independent of every pass: it reads `schemac.ir.graph.Module` as frontends hand it over. A configuration is
(procedure, node, stack), a stack a linked list of (procedure, return node, rest).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from schemac.ir.graph import ACTION, Module

Stack = tuple["int", "int", "Stack"] | None
Configuration = tuple[int, int, Stack]


class ModuleRecognizer:
    """Recognizes the texts of a module.

    Args:
        module: without left recursion.
        limit: most configurations at one time, against runaway stacks.
        orders: most steps in search for an order of the keys of one object.
    """

    def __init__(self, module: Module, limit: int = 100_000, orders: int = 2_000) -> None:
        self._procedures = module.procedures
        self._limit = limit
        self._orders = orders

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

    def accepts_value(self, value: object) -> bool:
        """Whether some text of a JSON value is accepted: compact, strings in their shortest spelling, any key order."""
        return any(self.accepting(current) for current in self._after(value, self.start()))

    def _after(self, value: object, current: set[Configuration]) -> Iterator[set[Configuration]]:
        """The configurations after a value, for each order of keys that gets through."""
        if isinstance(value, Mapping):
            yield from self._after_members(value, self._read("{", current))
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield from self._after_items(value, self._read("[", current), 0)
        else:
            text = json.dumps(value, ensure_ascii=False)
            following = self._read(text, current)
            if following:
                yield following

    def _after_members(
        self, members: Mapping[str, object], current: set[Configuration]
    ) -> Iterator[set[Configuration]]:
        """The configurations after an object; orders that lead to the same configurations are tried once."""
        seen: set[tuple[frozenset[str], int]] = set()
        stack = [(frozenset(members), current, True)]
        while stack:
            left, current, first = stack.pop()
            state = (left, hash(frozenset(current)))
            if not current or state in seen:
                continue
            seen.add(state)
            if len(seen) > self._orders:
                return
            if not left:
                closed = self._read("}", current)
                if closed:
                    yield closed
                continue
            ahead = current if first else self._read(",", current)
            for key in reversed(list(members)):
                if key in left:
                    named = self._read(json.dumps(key, ensure_ascii=False) + ":", ahead)
                    if named:
                        stack += [(left - {key}, after, False) for after in self._after(members[key], named)]

    def _after_items(
        self, items: Sequence[object], current: set[Configuration], index: int
    ) -> Iterator[set[Configuration]]:
        if not current:
            return
        if index == len(items):
            closed = self._read("]", current)
            if closed:
                yield closed
            return
        ahead = self._read(",", current) if index else current
        for after in self._after(items[index], ahead):
            yield from self._after_items(items, after, index + 1)

    def _read(self, text: str, current: set[Configuration]) -> set[Configuration]:
        for byte in text.encode("utf-8", "surrogatepass"):
            if not current:
                break
            current = self.step(current, byte)
        return current

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

    def allowed(self, current: set[Configuration]) -> list[int]:
        """The bytes that can be read next."""
        found: set[int] = set()
        for procedure, node, _ in current:
            for low, high, _target in self._procedures[procedure].graph.byte_edges[node]:
                found.update(range(low, high + 1))
        return sorted(found)

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
            # What guards remember is left to their own tests: a value has each of its keys once.
            acting = [(texts, target) for texts, target in graph.token_edges[node] if texts[0].startswith(ACTION)]
            found += [(procedure, target, stack) for _, target in acting]
            if stack is not None and node in graph.finals:
                found.append((stack[0], stack[1], stack[2]))
            for configuration in found:
                if configuration not in current:
                    current.add(configuration)
                    pending.append(configuration)
            if len(current) > self._limit:
                raise RuntimeError("too many configurations: left recursion, or a very ambiguous module")
        return current
