"""Free text up to the first of some markers, as an exact automaton over bytes.

    free text  "a" "b" "<" "c"          no marker in it
    "<tool>"                            the marker that is complete first ends it

A state is what the last bytes may be the beginning of (Aho and Corasick 1975) and what is missing of the character
being read (RFC 3629). A marker that has been completed must be taken: text with a marker in it is no free text. So
each text is read in one way only, however a vocabulary cuts it into tokens. Special tokens are never free text; one
that is the name of a marker, or part of one, may be read wherever that marker has been read up to it.

Text that is excluded must not occur in the free part. It may still overlap the marker that ends the text, or be it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.ir.graph import Graph

Int32 = npt.NDArray[np.int32]

#: A node of the trie holds a row of 1 KiB: what it costs in the budget `branches`.
_NODE_COST = 8

#: Per state within a character the bytes that can follow: (low, high, state then). 0 is between characters.
_UTF8: tuple[tuple[tuple[int, int, int], ...], ...] = (
    (
        (0x00, 0x7F, 0), (0xC2, 0xDF, 1), (0xE0, 0xE0, 4), (0xE1, 0xEC, 2), (0xED, 0xED, 5), (0xEE, 0xEF, 2),
        (0xF0, 0xF0, 6), (0xF1, 0xF3, 3), (0xF4, 0xF4, 7),
    ),
    ((0x80, 0xBF, 0),),
    ((0x80, 0xBF, 1),),
    ((0x80, 0xBF, 2),),
    ((0xA0, 0xBF, 1),),
    ((0x80, 0x9F, 1),),
    ((0x90, 0xBF, 2),),
    ((0x80, 0x8F, 2),),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Marker:
    """A text that ends free text, and the node where it leads. Several markers may have one text."""

    text: bytes
    target: int


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A special token that may be read where `before`, the beginning of a marker, has just been read."""

    before: bytes
    name: str
    target: int
    optional: bool = True


@dataclass(frozen=True, slots=True)
class FreeText:
    """Free text, as one edge of a graph might be.

    Attributes:
        markers: none of them is empty.
        shortcuts: special tokens; the texts before them are beginnings of markers.
        excludes: what the text must not contain; none is empty.
        longest: at most so many characters before the marker, or None.
    """

    markers: Sequence[Marker] = ()
    shortcuts: Sequence[Shortcut] = ()
    excludes: Sequence[bytes] = ()
    longest: int | None = None

    def write(self, graph: Graph, source: int, done: int | None, budget: Budget) -> None:
        """Read free text from `source` on: to `done` if no marker is needed to end it, or through a marker."""
        trie = _Trie([marker.text for marker in self.markers], self.excludes, budget)
        complete: dict[int, list[Marker]] = {}
        for marker in self.markers:
            complete.setdefault(trie.node(marker.text), []).append(marker)
        shortcuts: dict[int, list[Shortcut]] = {}
        for shortcut in self.shortcuts:
            shortcuts.setdefault(trie.node(shortcut.before), []).append(shortcut)
        start = _State(0, 0, 0, -1)
        number = {start: graph.node()}
        graph.epsilon(source, number[start])
        queue = [start]
        for state in queue:  # grows while we walk it
            here = number[state]
            if not state.missing:
                if done is not None and state.closed < 0:
                    graph.epsilon(here, done)
                for node in trie.suffixes(state.node):
                    for shortcut in shortcuts.get(node, ()) if trie.depth[node] > state.closed else ():
                        graph.token(here, [shortcut.name], shortcut.target, optional=shortcut.optional)
            for low, high, node, missing in _edges(trie.rows[state.node], state.missing):
                after = self._after(trie, state, node, missing)
                ending = [marker for suffix in trie.suffixes(node) for marker in complete.get(suffix, ())]
                for marker in ending:
                    if len(marker.text) > after.closed:
                        graph.byte(here, low, high, marker.target)
                if ending or trie.marker_depth[node] <= after.closed:
                    continue  # no free text; or what is read of a marker began behind the end of the free part
                if after not in number:
                    budget.spend("states")
                    number[after] = graph.node()
                    queue.append(after)
                graph.byte(here, low, high, number[after])

    def _after(self, trie: _Trie, state: _State, node: int, missing: int) -> _State:
        if state.closed >= 0:
            return _State(node, missing, 0, state.closed + 1)
        count = 0 if self.longest is None else state.count + (not state.missing)
        if trie.excluded[node] or (self.longest is not None and count > self.longest):
            return _State(node, missing, 0, 0)
        return _State(node, missing, count, -1)


@dataclass(frozen=True, slots=True)
class _State:
    """After some bytes.

    Attributes:
        node: of the trie: the longest end of the text that is the beginning of a text looked for.
        missing: what is missing of a character, see `_UTF8`.
        count: characters begun, if they are counted.
        closed: -1, or the number of bytes since the last byte was read that cannot be in the free part any more; only
            a marker that began before that byte, or with it, can follow.
    """

    node: int
    missing: int
    count: int
    closed: int


class _Trie:
    """The beginnings of markers and of excluded texts, and which of them a text ends in. Node 0 is the empty one.

    Attributes:
        depth: per node, the length of its text.
        rows: per node int32 [256], the node after one more byte.
        excluded: per node, whether excluded text ends here.
        marker_depth: per node, the length of the longest end of the text that is the beginning of a marker.
    """

    def __init__(self, markers: Sequence[bytes], excludes: Sequence[bytes], budget: Budget) -> None:
        self.depth = [0]
        self._children: list[dict[int, int]] = [{}]
        ends = [self._add(text, budget) for text in (*markers, *excludes)]
        size = len(self.depth)
        self.rows = np.zeros((size, 256), dtype=np.int32)
        self._fail = [0] * size
        self.excluded = [False] * size
        self.marker_depth = [0] * size
        for end in ends[len(markers) :]:
            self.excluded[end] = True
        for marker in markers:
            for node in self._path(marker):
                self.marker_depth[node] = self.depth[node]
        queue = [0]
        for node in queue:  # grows while we walk it: breadth-first, so that the rows of shorter texts are there
            fail = self._fail[node]
            if node:
                self.rows[node] = self.rows[fail]
                self.excluded[node] = self.excluded[node] or self.excluded[fail]
                self.marker_depth[node] = max(self.marker_depth[node], self.marker_depth[fail])
            for byte, child in self._children[node].items():
                self._fail[child] = int(self.rows[fail, byte]) if node else 0
                self.rows[node, byte] = child
                queue.append(child)

    def _add(self, text: bytes, budget: Budget) -> int:
        here = 0
        for byte in text:
            there = self._children[here].get(byte)
            if there is None:
                budget.spend("branches", _NODE_COST)
                there = self._children[here][byte] = len(self.depth)
                self.depth.append(self.depth[here] + 1)
                self._children.append({})
            here = there
        return here

    def _path(self, text: bytes) -> Iterator[int]:
        """The nodes of the beginnings of a text, the empty one first."""
        here = 0
        yield here
        for byte in text:
            here = self._children[here][byte]
            yield here

    def node(self, text: bytes) -> int:
        """The node of a beginning of a text looked for."""
        *_, last = self._path(text)
        return last

    def suffixes(self, node: int) -> Iterator[int]:
        """The node, and those of all shorter ends of its text, the empty one last."""
        while node:
            yield node
            node = self._fail[node]
        yield 0


def _edges(row: Int32, missing: int) -> Iterator[tuple[int, int, int, int]]:
    """(low, high, node then, state within a character then) over the bytes that can follow."""
    changes = np.flatnonzero(np.diff(row)) + 1
    for low, high, after in _UTF8[missing]:
        bounds = [low, *changes[(changes > low) & (changes <= high)].tolist(), high + 1]
        for first, behind in pairwise(bounds):
            yield first, behind - 1, int(row[first]), after
