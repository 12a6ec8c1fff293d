"""Syntax trees of grammars from the leaves up, without recursion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lark import Token, Tree

from schemac.frontend.grammar import Source
from schemac.frontend.lark.lexer import UNBOUNDED
from schemac.frontend.lark.syntax import Node

_Value = TypeVar("_Value")

#: The inner nodes whose children are worked out first; all others are leaves to a fold.
INNER = ("expansions", "alias", "expansion", "expr", "maybe")


def fold(root: Node, leaf: Callable[[Node], _Value], inner: Callable[[Node, list[_Value]], _Value]) -> _Value:
    """The value of a tree: `leaf` is asked for the values of leaves, `inner` for those of all others."""
    tasks: list[tuple[Node, bool]] = [(root, False)]
    done: list[_Value] = []
    while tasks:
        node, ready = tasks.pop()
        if node.data == "value":
            inside = node.children[0]
            assert isinstance(inside, Tree)
            node = inside
        if node.data not in INNER:
            done.append(leaf(node))
            continue
        parts = [child for child in node.children if isinstance(child, Tree)]
        if node.data == "alias":
            parts = parts[:1]  # the second one is the name
        if not ready:
            tasks.append((node, True))
            tasks += [(part, False) for part in reversed(parts)]
            continue
        first = len(done) - len(parts)
        values = done[first:]
        del done[first:]
        done.append(inner(node, values))
    return done[0]


def counts(node: Node, source: Source) -> tuple[int, int | None]:
    """The least and greatest count of an ``expr``.

    Raises:
        SourceError: they are upside down.
    """
    operator, *numbers = [child for child in node.children if isinstance(child, Token)]
    if operator.type == "OP":
        return {"?": (0, 1), "*": (0, None), "+": (1, None)}[str(operator)]
    low = _count(str(numbers[0]))
    high = None if str(numbers[-1]) == UNBOUNDED else _count(str(numbers[-1]))
    if low < 0 or (high is not None and high < low):
        raise source.wrong("this repetition is upside down", operator.start_pos or 0, construct="..".join(numbers))
    return low, high


def _count(digits: str) -> int:
    """A number, saturating: no budget allows that many."""
    sign, digits = digits[:1] == "-", digits.lstrip("+-").lstrip("0")
    value = 10**18 if len(digits) > 18 else int(digits or "0")
    return -value if sign else value
