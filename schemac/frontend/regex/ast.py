"""Regex syntax trees: flat, frozen nodes without positions, flags or groups (the parser has resolved these).

Build with the functions below, which simplify. Trees may be deep; nothing here or in the lowering recurses over them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from schemac.ir.charset import CharSet

#: Counts saturate here; no budget allows that many states.
MANY = 10**18
_NO_SYMBOLS = CharSet()
_FLATTEN = 64  # a nested sequence up to this long is spliced into its parent; longer ones would cost quadratic time


@dataclass(frozen=True, slots=True, eq=False)
class Chars:
    """One character of a set; the empty set matches nothing."""

    symbols: CharSet


@dataclass(frozen=True, slots=True, eq=False)
class Concat:
    """The parts one after another; no part is the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Alternation:
    """Any of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """`low` to `high` (None: any number of) times the body; `lazy`: as few times as possible, see `lazy`."""

    body: Node
    low: int
    high: int | None
    lazy: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Anchor:
    """An assertion about the neighbours of a position.

    ``start`` and ``end`` are those of the text; ``line_start`` and ``line_end`` hold there and next to a character of
    `symbols`; ``boundary`` holds between a character of `symbols` and one that is none (or the end of the text).
    """

    kind: Literal["start", "end", "line_start", "line_end", "boundary", "not_boundary"]
    symbols: CharSet = _NO_SYMBOLS


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The body matches (or, `negative`, does not match) a text that starts here (`ahead`) or ends here."""

    body: Node
    ahead: bool
    negative: bool


Node = Chars | Concat | Alternation | Repeat | Anchor | Look

EMPTY = Concat(())
NOTHING = Chars(_NO_SYMBOLS)


def concat(parts: Iterable[Node]) -> Node:
    """The parts one after another; neighbouring repetitions of one character set become one."""
    flat: list[Node] = []
    for part in parts:
        for inner in part.parts if isinstance(part, Concat) and len(part.parts) <= _FLATTEN else (part,):
            joined = _joined(flat[-1], inner) if flat and isinstance(inner, (Chars, Repeat)) else None
            if joined is None:
                flat.append(inner)
            else:
                flat[-1] = joined
    return flat[0] if len(flat) == 1 else Concat(tuple(flat)) if flat else EMPTY


def _joined(left: Node, right: Chars | Repeat) -> Node | None:
    """One repetition for two neighbours, at least one of them a repetition, of the same character set."""
    one = left.body if isinstance(left, Repeat) else left
    two = right.body if isinstance(right, Repeat) else right
    if (isinstance(left, Repeat) and left.lazy) or (isinstance(right, Repeat) and right.lazy):
        return None
    if (one is left and two is right) or not isinstance(one, Chars) or not isinstance(two, Chars):
        return None
    if one.symbols != two.symbols:
        return None
    low, high = (left.low, left.high) if isinstance(left, Repeat) else (1, 1)
    more, most = (right.low, right.high) if isinstance(right, Repeat) else (1, 1)
    return Repeat(one, min(low + more, MANY), None if high is None or most is None else min(high + most, MANY))


def alternate(parts: Iterable[Node]) -> Node:
    """Any of the parts; sets of characters among them become one."""
    flat: list[Node] = []
    chars: list[tuple[int, int]] = []
    position = -1
    for part in parts:
        for inner in part.parts if isinstance(part, Alternation) and len(part.parts) <= _FLATTEN else (part,):
            if not isinstance(inner, Chars):
                flat.append(inner)
                continue
            chars += inner.symbols.ranges
            if position < 0:
                position = len(flat)
                flat.append(inner)
    if position >= 0:
        flat[position] = Chars(CharSet.merged(chars))
    return flat[0] if len(flat) == 1 else Alternation(tuple(flat))


def repeat(body: Node, low: int, high: int | None, *, lazy: bool = False) -> Node:
    """`low` to `high` times the body; nested repetitions become one where that is the same."""
    low, high = min(low, MANY), None if high is None else min(high, MANY)
    if high == 0 or (isinstance(body, Concat) and not body.parts):
        return EMPTY
    if low == high == 1:
        return body
    if isinstance(body, (Anchor, Look)):
        return EMPTY if low == 0 else body
    if lazy and low != high:
        return Repeat(body, low, high, True)
    if isinstance(body, Repeat) and not body.lazy:
        least, most = body.low, body.high
        # The counts least*k..most*k, for k in low..high, must leave no gap; it would be widest after k = low.
        if low == high or (least <= 1 if low == 0 else most is None or low * (most - least) >= least - 1):
            unbounded = most is None or high is None
            top = None if most is None or high is None or unbounded else min(most * high, MANY)
            return Repeat(body.body, min(least * low, MANY), top)
    return Repeat(body, low, high)


def parts_of(node: Node) -> tuple[Node, ...]:
    """The nodes directly below; those of assertions are none."""
    if isinstance(node, (Concat, Alternation)):
        return node.parts
    return (node.body,) if isinstance(node, Repeat) else ()


def bottom_up(root: Node, known: Container[int]) -> Iterator[Node]:
    """Every node after those below it, once; without those, by identity, that are `known` when their turn comes.

    The caller makes a node known before it asks for the next one.
    """
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in known:
            continue
        parts = parts_of(node)
        if parts and not ready:
            stack.append((node, True))
            stack += [(part, False) for part in reversed(parts)]
            continue
        yield node


def with_parts(node: Node, parts: Sequence[Node]) -> Node:
    """The node with other nodes directly below; the node itself if they are the same."""
    if all(one is two for one, two in zip(parts, parts_of(node), strict=True)):
        return node
    if isinstance(node, Repeat):
        return Repeat(parts[0], node.low, node.high, node.lazy)
    assert isinstance(node, (Concat, Alternation))
    return type(node)(tuple(parts))
