"""Object keys as tries over bytes, shared between the states of a frame.

The trie of a state is that of the next state with one more key in it. Inserting copies only the nodes along the key,
so all tries together have about as many nodes as the keys have bytes. A trie may also stand for "or any other key":
then every node knows that bytes without a branch lead to an undeclared key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from schemac.frontend.json_schema.text import spell, string_body
from schemac.ir.dfa import CODE_POINTS, Dfa
from schemac.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class OpenKeys:
    """A class of undeclared keys.

    Attributes:
        language: over code points; None for all undeclared keys.
        target: the graph node behind the key's closing quotation mark.
    """

    language: Dfa | None
    target: int


class KeyTexts(Protocol):
    """What the tries need from the lowering that they are part of."""

    def any_key_rest(self) -> int:
        """The procedure that reads the rest of any key in its shortest spelling, and the closing quotation mark."""
        ...

    def key_texts(self, language: Dfa | None) -> int:
        """The procedure that reads the keys of a language, None for all, in their shortest spelling: the text between
        the quotation marks, the empty one left out.
        """
        ...


class Trie:
    """A node: branches by byte, what a closing quotation mark leads to, and what all else leads to."""

    __slots__ = ("branches", "exit", "languages", "number", "other")

    def __init__(self) -> None:
        self.branches: dict[int, Trie] = {}
        self.exit: int | None = None  # graph node
        self.other: tuple[int, int] | None = None  # (state of the any-key automaton, graph node behind such keys)
        self.languages: tuple[OpenKeys, ...] = ()  # read besides, from here
        self.number: int | None = None  # in the graph, once written

    def copy(self) -> Trie:
        """A node with the same branches, not yet written."""
        twin = Trie()
        twin.branches = dict(self.branches)
        twin.exit = self.exit
        twin.other = self.other
        twin.languages = self.languages
        return twin


@lru_cache(maxsize=1)
def _any_key() -> tuple[tuple[tuple[tuple[int, int, int], ...], ...], frozenset[int]]:
    """The shortest spellings of any key: edges ``(low, high, next)`` by state, and the accepting states.

    State 0 is the only accepting one: every complete character leads back to it.
    """
    body = string_body(Dfa.everything(CODE_POINTS))
    edges: list[list[tuple[int, int, int]]] = [[] for _ in range(body.size)]
    for state, low, high, target in body.edges():
        edges[state].append((low, high, target))
    return tuple(map(tuple, edges)), frozenset(body.accepting_states())


@lru_cache(maxsize=65_536)
def _other_edges(state: int, taken: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """The edges of a state of the any-key automaton without some bytes, which are sorted."""
    return tuple(
        (first, last, there) for low, high, there in _any_key()[0][state] for first, last in _without(low, high, taken)
    )


class KeyTries:
    """The tries of one frame.

    Args:
        graph: where they are written.
        names: the declared keys in order.
        texts: gives the procedures that read keys.
        action: what the guard of the frame does after the closing quotation mark of each key; None for no guard.
    """

    def __init__(self, graph: Graph, names: Sequence[str], texts: KeyTexts, action: str | None) -> None:
        self._graph = graph
        self._texts = texts
        self._action = action
        self._acting: dict[int, int] = {}  # target -> node that acts and goes there
        self._spelled = [spell(name)[1:-1] for name in names]
        self._rests: dict[int, int] = {}  # target -> node that reads the rest of any key
        self._inside: dict[tuple[int, int], int] = {}  # (any-key state, target) -> node inside a character
        #: (any-key state, bytes of branches, target) -> edges of all other bytes; shared, for there are many.
        self._others: dict[tuple[int, tuple[int, ...], int], list[tuple[int, int, int]]] = {}
        self._entries: dict[tuple[Dfa, int], int] = {}

    def insert(self, trie: Trie | None, key: int, target: int) -> Trie:
        """The trie with one more declared key."""
        root = Trie() if trie is None else trie.copy()
        node = root
        for byte in self._spelled[key]:
            branch = node.branches.get(byte)
            branch = Trie() if branch is None else branch.copy()
            node.branches[byte] = branch
            node = branch
        node.exit = target
        return root

    def undeclared(self, opened: Sequence[OpenKeys]) -> Trie | None:
        """The trie that reads undeclared keys only."""
        if not opened:
            return None
        root = Trie()
        root.languages = tuple(part for part in opened if part.language is not None)
        for part in opened:
            if part.language is None:
                self._open(root, part.target)
        return root

    def _open(self, root: Trie, target: int) -> None:
        """Let every key in that is not declared."""
        edges, _ = _any_key()
        root.other = (0, target)
        ends: list[Trie] = []
        for spelled in self._spelled:
            node, state = root, 0
            for byte in spelled:
                state = next(there for low, high, there in edges[state] if low <= byte <= high)
                branch = node.branches.get(byte)
                if branch is None:
                    branch = Trie()
                    branch.other = (state, target)
                    node.branches[byte] = branch
                node = branch
            ends.append(node)
        for node in ends:
            node.exit = -1  # declared, so not to be read here

    def any_order(self, declared: Mapping[int, int], opened: Sequence[OpenKeys]) -> Trie | None:
        """The trie of a state where declared keys (key -> target) and undeclared ones may come.

        There are many such states. So the texts of undeclared keys, which allow most of any vocabulary, are called and
        stand beside the declared keys, instead of going on from each of their nodes. Each class has its language.
        """
        if not declared and not opened:
            return None
        root = Trie()
        root.languages = tuple(opened)
        for key, target in declared.items():
            node = root
            for byte in self._spelled[key]:
                node = node.branches.setdefault(byte, Trie())
            node.exit = target
        return root

    # -- writing ------------------------------------------------------------------------------------------------

    def node(self, trie: Trie) -> int:
        """The graph node of a trie, written on first use."""
        if trie.number is None:
            trie.number = self._graph.node()
            stack = [trie]
            while stack:
                stack.extend(self._write(stack.pop()))
        return trie.number

    def _write(self, trie: Trie) -> list[Trie]:
        """Write the edges of a node; returns its branches that are new to the graph."""
        graph, number = self._graph, trie.number
        assert number is not None
        fresh = []
        for byte, branch in trie.branches.items():
            if branch.number is None:
                branch.number = graph.node()
                fresh.append(branch)
            graph.byte(number, byte, byte, branch.number)
        if trie.exit is not None and trie.exit >= 0:
            self._close(number, trie.exit)
        for part in trie.languages:
            graph.epsilon(number, self._entry(part))
        if trie.other is not None:
            self._write_other(trie, number, *trie.other)
        return fresh

    def _write_other(self, trie: Trie, number: int, state: int, target: int) -> None:
        if state == 0 and not trie.branches and trie.exit is None:
            self._graph.epsilon(number, self._rest(target))
            return
        if state in _any_key()[1] and trie.exit is None:
            self._close(number, target)
        key = (state, tuple(sorted(trie.branches)), target)
        edges = self._others.get(key)
        if edges is None:
            edges = self._others[key] = [
                (first, last, self._inside_of(there, target)) for first, last, there in _other_edges(*key[:2])
            ]
        self._graph.byte_edges[number].extend(edges)

    def _inside_of(self, state: int, target: int) -> int:
        """The node for an undeclared key after some bytes that no declared key starts with."""
        if state == 0:
            return self._rest(target)
        node = self._inside.get((state, target))
        if node is None:
            node = self._graph.node()
            self._inside[state, target] = node
            for low, high, there in _any_key()[0][state]:  # a handful of states, at most a character deep
                self._graph.byte(node, low, high, self._inside_of(there, target))
        return node

    def _rest(self, target: int) -> int:
        """The node for an undeclared key between two characters, once no declared key can come of it."""
        node = self._rests.get(target)
        if node is None:
            node = self._rests[target] = self._graph.node()
            if self._action is None:
                self._graph.call(node, self._texts.any_key_rest(), target)
            else:  # the mark is read here, for it acts
                behind = self._graph.node()
                self._graph.call(node, self._texts.key_texts(None), behind)
                self._close(node, target)
                self._close(behind, target)
        return node

    def _entry(self, part: OpenKeys) -> int:
        assert part.language is not None
        entry = self._entries.get((part.language, part.target))
        if entry is None:
            entry = self._graph.node()
            self._entries[part.language, part.target] = entry
            if self._action is not None:  # the mark is read here, for it acts
                behind = self._graph.node()
                self._graph.call(entry, self._texts.key_texts(part.language), behind)
                self._close(behind, part.target)
                if part.language.accepts(""):
                    self._close(entry, part.target)
                return entry
            end = self._graph.language(entry, string_body(part.language))
            self._close(end, part.target)
        return entry

    def _close(self, node: int, target: int) -> None:
        """The closing quotation mark, and what the guard does then."""
        if self._action is not None:
            acting = self._acting.get(target)
            if acting is None:
                acting = self._acting[target] = self._graph.node()
                self._graph.action(acting, self._action, target)
            target = acting
        self._graph.byte(node, 0x22, 0x22, target)


def _without(low: int, high: int, taken: Sequence[int]) -> list[tuple[int, int]]:
    """The interval low..high without some bytes, which are sorted."""
    pieces = []
    for byte in taken:
        if low <= byte <= high:
            if low < byte:
                pieces.append((low, byte - 1))
            low = byte + 1
    if low <= high:
        pieces.append((low, high))
    return pieces
