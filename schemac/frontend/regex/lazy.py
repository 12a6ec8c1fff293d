r"""Lazy quantifiers, exactly: where a match could go on, a lazy repetition does not repeat.

    X*?K   =>   (?:(?!K)X)*K        K being all that follows in the pattern

A text then matches if and only if the match at its start is the whole text: ``".*?"`` matches ``"a"`` and not
``"a"b"``. Only laziness counts so; greedy repetitions and alternatives match all that they can.
"""

from __future__ import annotations

from schemac.errors import UnsupportedError
from schemac.frontend.regex import ast
from schemac.frontend.regex.ast import Alternation, Concat, Look, Node, Repeat

#: What follows a node: nearest first, as a linked list.
_Rest = tuple[Node, "_Rest"] | None


def without_lazy(root: Node, *, place: str = "") -> Node:
    """The tree with every lazy repetition replaced.

    Raises:
        UnsupportedError: a lazy repetition within a counted one.
    """
    lazy = _with_lazy(root)
    if id(root) not in lazy:
        return root
    tasks: list[tuple[Node, _Rest, bool]] = [(root, None, False)]
    done: list[Node] = []
    while tasks:
        node, rest, ready = tasks.pop()
        if id(node) not in lazy:
            done.append(node)
        elif isinstance(node, (Concat, Alternation)):
            if not ready:
                tasks.append((node, rest, True))
                tasks += _parts(node, rest)
                continue
            first = len(done) - len(node.parts)
            parts = done[first:]
            del done[first:]
            done.append(ast.concat(parts) if isinstance(node, Concat) else ast.alternate(parts))
        else:
            assert isinstance(node, Repeat)
            if not ready:
                tasks.append((node, rest, True))
                tasks.append((node.body, _after_body(node, rest, place) if id(node.body) in lazy else rest, False))
                continue
            done.append(_repeated(node, done.pop(), rest))
    return done[0]


def _with_lazy(root: Node) -> set[int]:
    """The nodes, by identity, that are or contain lazy repetitions; those within assertions are none."""
    found: set[int] = set()
    tasks: list[tuple[Node, bool]] = [(root, False)]
    seen: set[int] = set()
    while tasks:
        node, ready = tasks.pop()
        parts: tuple[Node, ...] = ()
        if isinstance(node, (Concat, Alternation)):
            parts = node.parts
        elif isinstance(node, Repeat):
            parts = (node.body,)
        if ready:
            if (isinstance(node, Repeat) and node.lazy) or any(id(part) in found for part in parts):
                found.add(id(node))
        elif id(node) not in seen:
            seen.add(id(node))
            tasks.append((node, True))
            tasks += [(part, False) for part in parts]
    return found


def _parts(node: Concat | Alternation, rest: _Rest) -> list[tuple[Node, _Rest, bool]]:
    """The tasks for the parts, the first one last."""
    tasks: list[tuple[Node, _Rest, bool]] = []
    for part in reversed(node.parts):
        tasks.append((part, rest, False))
        if isinstance(node, Concat):
            rest = (part, rest)
    return tasks


def _after_body(node: Repeat, rest: _Rest, place: str) -> _Rest:
    """What follows one time of the body."""
    if node.high == 1:
        return rest
    if node.high is not None or node.low > 1:
        raise UnsupportedError(
            "lazy repetitions within counted ones are not known", place=place or None, hint="leave out the ?"
        )
    return ast.repeat(node.body, 0, None), rest


def _repeated(node: Repeat, body: Node, rest: _Rest) -> Node:
    if not node.lazy:
        return ast.repeat(body, node.low, node.high)
    following: list[Node] = []
    while rest is not None:
        part, rest = rest
        following.append(part)
    again = ast.concat([Look(ast.concat(following), ahead=True, negative=True), body])
    more = None if node.high is None else node.high - node.low
    return ast.concat([ast.repeat(body, node.low, node.low), ast.repeat(again, 0, more)])
