"""Stacks of return states, shared, and sets of them for texts that can be read in several ways.

A `Stack` is a set of stacks, read from the top: it maps each return state that may be on top to what may lie below,
and says whether the stack may be empty. Nearly always it is one stack with one return state on top. Equal sets are one
object within a pool, so that comparing them, and remembering what was worked out for them, costs nothing; an ambiguous
grammar has few sets where it has exponentially many stacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemac_runtime.program import Mask

#: `Stack.ret` of a set that is not one return state on top of one set.
SEVERAL = -2
EMPTY_STACK = -1


class Stack:
    """A set of stacks.

    Attributes:
        ret: the return state on top, or `EMPTY_STACK` for the empty stack alone, or `SEVERAL`.
        parent: what lies below `ret`; None unless `ret` is a state.
        tops: all (return state, what lies below), ascending by return state.
        empty: whether the empty stack is in the set.
        needs: the fewest tokens that end all frames of one of the stacks, by `Tables.distance`.
        masks: by state, the mask of a configuration with this stack.
    """

    __slots__ = ("_children", "empty", "masks", "needs", "number", "parent", "ret", "tops")

    def __init__(self, number: int, tops: tuple[tuple[int, Stack], ...], empty: bool, needs: int) -> None:
        self.number = number
        self.needs = needs
        self.tops = tops
        self.empty = empty
        if len(tops) == 1 and not empty:
            self.ret, self.parent = tops[0]
        else:
            self.ret, self.parent = SEVERAL if tops else EMPTY_STACK, None
        self._children: dict[int, Stack] = {}
        self.masks: dict[int, Mask] = {}

    parent: Stack | None
    ret: int


class StackPool:
    """Makes stacks, each set once.

    Args:
        distance: tokens from each return state to an end of its frame.
    """

    __slots__ = ("_count", "_distance", "_merged", "_unions", "bottom")

    def __init__(self, distance: Sequence[int]) -> None:
        self._distance = distance
        self._count = 0
        self._merged: dict[tuple[bool, tuple[tuple[int, int], ...]], Stack] = {}
        self._unions: dict[tuple[int, ...], Stack] = {}
        self.bottom = self._new((), True)

    def _new(self, tops: tuple[tuple[int, Stack], ...], empty: bool) -> Stack:
        self._count += 1
        needs = 0 if empty else min(self._distance[ret] + parent.needs for ret, parent in tops)
        return Stack(self._count, tops, empty, needs)

    def push(self, stack: Stack, ret: int) -> Stack:
        """The set with `ret` on top of each of its stacks."""
        children = stack._children
        child = children.get(ret)
        if child is None:
            child = children[ret] = self._new(((ret, stack),), False)
        return child

    def union(self, stacks: Iterable[Stack]) -> Stack:
        """The union of sets. Unions of what lies below are made once and remembered, to any depth without recursion."""
        group = _group(stacks)
        if len(group) == 1:
            return group[0]
        pending = [group]
        while pending:
            here = pending[-1]
            key = tuple(stack.number for stack in here)
            if key in self._unions:
                pending.pop()
                continue
            below: dict[int, list[Stack]] = {}
            for stack in here:
                for ret, parent in stack.tops:
                    below.setdefault(ret, []).append(parent)
            groups = {ret: _group(parents) for ret, parents in below.items()}
            missing = [g for g in groups.values() if len(g) > 1 and tuple(s.number for s in g) not in self._unions]
            if missing:
                pending.extend(missing)
                continue
            tops = tuple(
                (ret, g[0] if len(g) == 1 else self._unions[tuple(s.number for s in g)])
                for ret, g in sorted(groups.items())
            )
            self._unions[key] = self._made(tops, any(stack.empty for stack in here))
            pending.pop()
        return self._unions[tuple(stack.number for stack in group)]

    def _made(self, tops: tuple[tuple[int, Stack], ...], empty: bool) -> Stack:
        if len(tops) == 1 and not empty:
            return self.push(tops[0][1], tops[0][0])
        key = (empty, tuple((ret, parent.number) for ret, parent in tops))
        made = self._merged.get(key)
        if made is None:
            made = self._merged[key] = self._new(tops, empty)
        return made


def _group(stacks: Iterable[Stack]) -> tuple[Stack, ...]:
    """Distinct sets in order of their making."""
    return tuple(sorted(dict.fromkeys(stacks), key=_number))


def _number(stack: Stack) -> int:
    return stack.number
