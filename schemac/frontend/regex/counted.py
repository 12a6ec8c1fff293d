r"""Patterns in which one character set is repeated many times: a smaller language, and bounds on the length of a word.

    ^ab[a-z]{3,5000}c$     is     ^ab[a-z]*c$     with 6 to 5,003 characters

That is exact where all other parts have a fixed length: then the length of a word tells the count.
"""

from __future__ import annotations

from schemac.frontend.regex import ast
from schemac.frontend.regex.ast import Alternation, Anchor, Chars, Concat, Node, Repeat

#: Counts up to this are written out.
WRITTEN_OUT = 64


def counted(node: Node) -> tuple[Node, int, int | None] | None:
    """(tree, fewest characters, most characters) of a pattern that is anchored at both ends, and repeats one character
    set more than `WRITTEN_OUT` times; None for any other. The tree keeps its anchors.
    """
    parts = node.parts if isinstance(node, Concat) else (node,)
    if len(parts) < 3 or not _is_anchor(parts[0], "start") or not _is_anchor(parts[-1], "end"):
        return None
    found: int | None = None
    fixed = 0
    for index, part in enumerate(parts[1:-1], 1):
        length = _fixed_length(part)
        if length is not None and not _is_large(part):
            fixed += length
        elif found is None and _is_large(part):
            found = index
        else:
            return None
    if found is None:
        return None
    repeated = parts[found]
    assert isinstance(repeated, Repeat)
    tree = Concat((*parts[:found], ast.repeat(repeated.body, 0, None), *parts[found + 1 :]))
    return tree, repeated.low + fixed, None if repeated.high is None else repeated.high + fixed


def _is_anchor(node: Node, kind: str) -> bool:
    return isinstance(node, Anchor) and node.kind == kind


def _is_large(node: Node) -> bool:
    if not isinstance(node, Repeat) or not isinstance(node.body, Chars) or not node.body.symbols:
        return False
    return max(node.low, node.high or 0) > WRITTEN_OUT


def _fixed_length(root: Node) -> int | None:
    """The length of all words of a tree without assertions, if it is one; 0 for a tree without words."""
    lengths: dict[int, int | None] = {}
    for node in ast.bottom_up(root, lengths):
        of = [lengths[id(part)] for part in ast.parts_of(node)]
        length: int | None = None
        if isinstance(node, Chars):
            length = 1
        elif None in of:
            length = None
        elif isinstance(node, Concat):
            length = sum(part or 0 for part in of)
        elif isinstance(node, Alternation):
            length = of[0] if len(set(of)) == 1 else None
        elif isinstance(node, Repeat) and node.low == node.high and not node.lazy:
            length = (of[0] or 0) * node.low
        lengths[id(node)] = length
    return lengths[id(root)]
