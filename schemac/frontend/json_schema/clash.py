"""Cheap proofs that no value satisfies a formula, or two formulas together.

They are one-sided: a proof is certain, its absence says nothing. Whatever they miss is found by the fixpoint at the
end (`productive`); what they find keeps `oneOf` and `anyOf` from branching where a type, a discriminating constant
or a required key already decides.

A proof looks at scalars exactly, and at arrays and objects through what is demanded outright, not through their
alternatives, a few levels deep. It never asks for the split of a formula whose split may be waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemac.frontend.json_schema.evaluate import Evaluation, SetAlgebra
from schemac.frontend.json_schema.formula import (
    ARRAY,
    FALSE,
    FALSE_VALUE,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
    TRUE_VALUE,
    Atom,
    Formulas,
)

#: How deep a proof looks into required members, how many alternatives it compares, how many parts it reads.
_MAX_DEPTH = 4
_MAX_PAIRS = 256
_MAX_PARTS = 2_000


class _Possible(SetAlgebra[bool]):
    """The algebra of "maybe": whether a type is possible at all, as far as type masks tell."""

    top = True
    bottom = False

    def atom(self, atom: Atom, formula: int) -> bool:
        """Maybe."""
        return True

    complement_of_atom = atom

    def both(self, one: bool, other: bool) -> bool:
        """Possible in both."""
        return one and other

    def either(self, one: bool, other: bool) -> bool:
        """Possible in either."""
        return one or other

    def exactly_one(self, parts: Sequence[bool], complements: Sequence[bool]) -> bool:
        """Possible in one of them."""
        return any(parts)

    def not_exactly_one(self, parts: Sequence[bool], complements: Sequence[bool]) -> bool:
        """Maybe."""
        return True


@dataclass(slots=True)
class _Facts:
    """What a conjunction about arrays or objects demands outright."""

    values: dict[object, list[int]] = field(default_factory=dict)  # member name or index -> formulas of its value
    needed: dict[object, None] = field(default_factory=dict)  # members that must be there
    others: list[tuple[Any, int]] = field(default_factory=list)  # names that are excepted, or first index; formula
    least: int = 0
    most: int | None = None

    def add(self, kind: str, atom: Atom, negation: Callable[[int], int]) -> None:
        """Take in one assertion (`kind` "lit") or its dual."""
        name, *arguments = atom
        positive = kind == "lit"
        if name in ("property", "item"):
            member, value = arguments
            self.values.setdefault(member, []).append(value if positive else negation(value))
            if not positive:
                self.needed[member] = None
                if name == "item":
                    self.least = max(self.least, member + 1)
        elif name == "keys" and positive and arguments[0][0] == "other" and not arguments[0][2]:
            self.others.append((frozenset(arguments[0][1]), arguments[1]))
        elif name == "items" and positive:
            self.others.append((arguments[0], arguments[1]))
        elif name in ("min_items", "min_properties"):
            if positive:
                self.least = max(self.least, arguments[0])
            else:
                self.most = _least(self.most, arguments[0] - 1)
        elif name in ("max_items", "max_properties"):
            if positive:
                self.most = _least(self.most, arguments[0])
            else:
                self.least = max(self.least, arguments[0] + 1)


class Clashes:
    """Answers, memoized, for one compile.

    Args:
        formulas: the store.
        has_scalars: (formula, type bit) -> whether some scalar of the type satisfies it, exactly.
    """

    def __init__(self, formulas: Formulas, has_scalars: Callable[[int, int], bool]) -> None:
        self._formulas = formulas
        self._has_scalars = has_scalars
        self._possible = {
            bit: Evaluation(formulas, bit, _Possible())
            for bit in (NULL, FALSE_VALUE, TRUE_VALUE, NUMBER, STRING, ARRAY, OBJECT)
        }
        self._empty: dict[int, bool] = {FALSE: True, TRUE: False}
        #: Formulas looked at in vain, with the depth that was left then.
        self._unproven: dict[int, int] = {}
        self._clash: dict[tuple[int, int], bool] = {}
        self._split_facts: dict[int, list[_Facts]] = {}

    def is_empty(self, formula: int, depth_left: int = _MAX_DEPTH) -> bool:
        """Whether it is certain that no value satisfies the formula."""
        found = self._empty.get(formula)
        if found is not None:
            return found
        if depth_left <= self._unproven.get(formula, 0):
            return False
        for bit in (NULL, FALSE_VALUE, TRUE_VALUE, NUMBER, STRING):
            if self._possible[bit](formula) and self._has_scalars(formula, bit):
                self._empty[formula] = False
                return False
        for bit in (ARRAY, OBJECT):
            if self._possible[bit](formula):
                facts = self._outright(formula, bit)
                if facts is not None and not self._contradict((facts,), depth_left - 1):
                    self._unproven[formula] = depth_left
                    return False
        self._empty[formula] = True
        return True

    def clash(self, one: int, other: int) -> bool:
        """Whether it is certain that no array (or object) satisfies both of two split formulas."""
        key = (one, other) if one < other else (other, one)
        found = self._clash.get(key)
        if found is None:
            mine, theirs = self._alternatives(one), self._alternatives(other)
            found = len(mine) * len(theirs) <= _MAX_PAIRS and all(
                self._contradict((a, b), _MAX_DEPTH) for a in mine for b in theirs
            )
            self._clash[key] = found
        return found

    def is_hopeless(self, formula: int) -> bool:
        """Whether it is certain that no array (or object) satisfies a split formula."""
        if formula == FALSE:
            return True
        alternatives = self._alternatives(formula)
        return len(alternatives) <= _MAX_PAIRS and all(self._contradict((facts,), _MAX_DEPTH) for facts in alternatives)

    def _alternatives(self, formula: int) -> list[_Facts]:
        """The facts of each alternative at the top of a split formula."""
        found = self._split_facts.get(formula)
        if found is None:
            nodes = self._formulas.nodes
            node = nodes[formula]
            found = []
            for part in node[1][: _MAX_PAIRS + 1] if node[0] == "or" else (formula,):
                facts = _Facts()
                for literal in nodes[part][1] if nodes[part][0] == "and" else (part,):
                    kind = nodes[literal][0]
                    if kind in ("lit", "dual"):
                        facts.add(kind, nodes[literal][2], self._formulas.negation)
                found.append(facts)
            self._split_facts[formula] = found
        return found

    def _outright(self, formula: int, bit: int) -> _Facts | None:
        """What an unsplit formula demands of arrays (or objects) outright; None if it excludes them."""
        facts = _Facts()
        stack = [formula]
        for _ in range(_MAX_PARTS):
            if not stack:
                break
            node = self._formulas.opened(stack.pop())
            if node[0] == "and":
                stack.extend(reversed(node[1]))
            elif node[0] == "types":
                if not node[1] & bit:
                    return None
            elif node[0] == "dual" and node[1] != bit:
                return None
            elif node[0] in ("lit", "dual") and node[1] == bit:
                facts.add(node[0], node[2], self._formulas.negation)
            elif node[0] == "or":
                # `required` reads "not an object, or the key is there": one branch may be left.
                live = [part for part in node[1] if self._possible[bit](part)]
                if len(live) == 1:
                    stack.append(live[0])
        return facts

    def _contradict(self, all_facts: Iterable[_Facts], depth_left: int) -> bool:
        """Whether the facts cannot hold together."""
        all_facts = tuple(all_facts)
        least = max(facts.least for facts in all_facts)
        most: int | None = None
        for facts in all_facts:
            most = _least(most, facts.most)
        if most is not None and least > most:
            return True
        if depth_left <= 0:
            return False
        needed: dict[object, None] = {}
        for facts in all_facts:
            needed.update(facts.needed)
            needed.update({member: None for member in facts.values if isinstance(member, int) and member < least})
        for member in needed:
            demands: list[int] = []
            for facts in all_facts:
                demands += facts.values.get(member, ())
                demands += [
                    formula
                    for rest, formula in facts.others
                    if (member >= rest if isinstance(rest, int) else member not in rest)  # type: ignore[operator]
                ]
            if demands and self.is_empty(self._formulas.conjunction(demands), depth_left):
                return True
        return False


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
