r"""Patterns with lazy quantifiers, exactly: a text matches if the match at its start, as Python finds it, is all of it.

Where a pattern has a choice, a later way is taken only if no earlier one gets through with K, all that follows:

    X*?K    =>   (?:(?!K)X)*K                        lazy: stop as soon as the rest can match
    X*K     =>   X*(?!X X*K)K                        greedy: go on as long as that can
    (A|B)K  =>   (?:A|(?!AK)B)K

So ``".*?"`` matches ``"a"`` and not ``"a"b"``. Guards are left out where the next character decides. Patterns without
lazy quantifiers stay as they are: all their texts match.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemac.errors import UnsupportedError
from schemac.frontend.regex import ast
from schemac.frontend.regex.ast import Alternation, Chars, Concat, Look, Node, Repeat
from schemac.ir.charset import CharSet


@dataclass(frozen=True, slots=True)
class _First:
    """What a text of a node can start with, and whether it can be empty."""

    symbols: CharSet
    nullable: bool


@dataclass(frozen=True, slots=True)
class _Rest:
    """What follows a node in the pattern: a node, and what follows that."""

    node: Node
    first: _First  # of all of it
    next: _Rest | None


def without_lazy(root: Node, *, place: str = "") -> Node:
    """The tree with guards in place of laziness, if it has any.

    Raises:
        UnsupportedError: a lazy repetition within a counted one.
    """
    return _Guards(root, place).tree() if _has_lazy(root) else root


def _has_lazy(root: Node) -> bool:
    stack, seen = [root], {id(root)}
    while stack:
        node = stack.pop()
        if isinstance(node, Repeat) and node.lazy:
            return True
        for part in ast.parts_of(node):
            if id(part) not in seen:
                seen.add(id(part))
                stack.append(part)
    return False


class _Guards:
    def __init__(self, root: Node, place: str) -> None:
        self._root = root
        self._place = place
        self._firsts: dict[int, _First] = {}
        self._roots: list[Node] = []  # kept alive, so that identities stay theirs

    def tree(self) -> Node:
        tasks: list[tuple[Node, _Rest | None, bool]] = [(self._root, None, False)]
        done: list[Node] = []
        while tasks:
            node, rest, ready = tasks.pop()
            parts = ast.parts_of(node)
            if not parts:
                done.append(node)
            elif not ready:
                tasks.append((node, rest, True))
                for part in reversed(parts):
                    tasks.append((part, self._after_body(node, rest) if isinstance(node, Repeat) else rest, False))
                    if isinstance(node, Concat):
                        rest = self._before(part, rest)
            else:
                fresh = done[len(done) - len(parts) :]
                del done[len(done) - len(parts) :]
                if isinstance(node, Concat):
                    done.append(ast.concat(fresh))
                elif isinstance(node, Alternation):
                    done.append(self._alternatives(node, fresh, rest))
                else:
                    assert isinstance(node, Repeat)
                    done.append(self._repetition(node, fresh[0], rest))
        return done[0]

    def _after_body(self, node: Repeat, rest: _Rest | None) -> _Rest | None:
        """What follows one time of the body."""
        if node.high == 1 or isinstance(node.body, Chars):
            return rest
        if node.high is not None or node.low > 1:
            if _has_lazy(node.body):
                raise UnsupportedError(
                    "lazy repetitions within counted ones are not known",
                    place=self._place or None,
                    hint="leave out the ?",
                )
            return rest
        return self._before(ast.repeat(node.body, 0, None), rest)

    def _alternatives(self, node: Alternation, fresh: list[Node], rest: _Rest | None) -> Node:
        guarded: list[Node] = []
        for index, part in enumerate(node.parts):
            mine = self._with_rest(self._first(part), rest)
            rivals = [
                earlier
                for earlier in node.parts[:index]
                if self._meet(self._with_rest(self._first(earlier), rest), mine)
            ]
            guard = [_guard([ast.alternate(rivals)], rest)] if rivals else []
            guarded.append(ast.concat([*guard, fresh[index]]))
        return ast.alternate(guarded)

    def _repetition(self, node: Repeat, body: Node, rest: _Rest | None) -> Node:
        low, more = node.low, None if node.high is None else node.high - node.low
        if node.lazy:
            must = rest is None or self._meet(self._with_rest(self._first(node.body), rest), rest.first)
            again = ast.concat([*([_guard([], rest)] if must else []), body])
            return ast.concat([ast.repeat(body, low, low), ast.repeat(again, 0, more)])
        whole = ast.repeat(body, low, node.high)
        if rest is None or low == node.high or not self._meet(self._first(node.body), rest.first):
            return whole
        if more is None or low == 0:
            further = ast.repeat(node.body, 0, None if more is None else more - 1)
            guard = _guard([node.body, further], rest)
            if more is None:
                return ast.concat([whole, guard])
            if more == 1:
                return ast.alternate([body, guard])
        return whole  # a counted repetition that what follows could take over: rare, and left to match all it can

    # -- what comes first ---------------------------------------------------------------------------------------

    def _before(self, node: Node, rest: _Rest | None) -> _Rest:
        self._roots.append(node)
        return _Rest(node, self._with_rest(self._first(node), rest), rest)

    @staticmethod
    def _with_rest(first: _First, rest: _Rest | None) -> _First:
        if not first.nullable or rest is None:
            return first
        return _First(first.symbols | rest.first.symbols, rest.first.nullable)

    @staticmethod
    def _meet(one: _First, two: _First) -> bool:
        """Whether both could match at one place; not so if their next characters differ."""
        return one.nullable or two.nullable or bool(one.symbols & two.symbols)

    def _first(self, root: Node) -> _First:
        firsts = self._firsts
        for node in ast.bottom_up(root, firsts):
            firsts[id(node)] = self._combined(node, [firsts[id(part)] for part in ast.parts_of(node)])
        return firsts[id(root)]

    @staticmethod
    def _combined(node: Node, parts: list[_First]) -> _First:
        if isinstance(node, Chars):
            return _First(node.symbols, False)
        symbols, nullable = CharSet(), not isinstance(node, Alternation)
        if isinstance(node, Concat):
            for part in parts:
                if nullable:
                    symbols, nullable = symbols | part.symbols, part.nullable
            return _First(symbols, nullable)
        for part in parts:
            symbols, nullable = symbols | part.symbols, nullable or part.nullable
        if isinstance(node, Repeat):
            nullable = node.low == 0 or parts[0].nullable
        return _First(symbols, nullable)


def _guard(nodes: list[Node], rest: _Rest | None) -> Node:
    """Not: some nodes and all that follows."""
    following = list(nodes)
    while rest is not None:
        following.append(rest.node)
        rest = rest.next
    return Look(ast.concat(following), ahead=True, negative=True)
