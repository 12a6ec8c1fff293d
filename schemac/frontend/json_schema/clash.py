"""Cheap proofs that no value satisfies a formula, or two formulas together.

They are one-sided: a proof is certain, its absence says nothing. Whatever they miss is found by the fixpoint at the
end (`productive`); what they find keeps `oneOf` and `anyOf` from branching where a type, a discriminating constant
or a required key already decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schemac.budget import Budget
from schemac.frontend.json_schema.formula import FALSE, TRUE

if TYPE_CHECKING:
    from schemac.frontend.json_schema.typed import Types

#: How deep a proof looks into required members, and how many alternatives it compares.
_MAX_DEPTH = 4
_MAX_PAIRS = 256


@dataclass(slots=True)
class _Facts:
    """What a conjunction about arrays or objects demands at its top level."""

    values: dict[object, list[int]] = field(default_factory=dict)  # member name or index -> formulas of its value
    needed: dict[object, None] = field(default_factory=dict)  # members that must be there
    others: list[tuple[Any, int]] = field(default_factory=list)  # ("other", names, ()) or item start -> formula
    least: int = 0
    most: int | None = None


class Clashes:
    """Answers, memoized, for one compile."""

    def __init__(self, types: Types, budget: Budget) -> None:
        self._types = types
        self._formulas = types.formulas
        self._budget = budget
        self._empty: dict[int, bool] = {FALSE: True, TRUE: False}
        self._clash: set[tuple[int, int]] = set()
        #: Formulas and pairs looked at in vain, with the depth that was left then.
        self._unproven: dict[int | tuple[int, int], int] = {}
        self._facts: dict[int, list[_Facts]] = {}
        self._depth = 0

    def is_empty(self, formula: int) -> bool:
        """Whether it is certain that no value satisfies the formula."""
        found = self._empty.get(formula)
        if found is not None:
            return found
        depth_left = _MAX_DEPTH - self._depth
        if depth_left <= self._unproven.get(formula, 0):
            return False
        self._depth += 1
        try:
            signature = self._types.signature(formula)
            result = (
                not signature.constants
                and signature.numbers.is_empty
                and signature.strings.is_empty
                and self._hopeless(signature.arrays)
                and self._hopeless(signature.objects)
            )
        finally:
            self._depth -= 1
        if result:
            self._empty[formula] = True
        else:
            self._unproven[formula] = depth_left
        return result

    def clash(self, one: int, other: int) -> bool:
        """Whether it is certain that no array (or object) satisfies both of two split formulas."""
        key = (one, other) if one < other else (other, one)
        if key in self._clash:
            return True
        depth_left = _MAX_DEPTH - self._depth
        if depth_left <= self._unproven.get(key, 0):
            return False
        mine, theirs = self._alternatives(one), self._alternatives(other)
        result = len(mine) * len(theirs) <= _MAX_PAIRS and all(self._contradict((a, b)) for a in mine for b in theirs)
        if result:
            self._clash.add(key)
        else:
            self._unproven[key] = depth_left
        return result

    def _hopeless(self, formula: int) -> bool:
        return formula == FALSE or all(self._contradict((facts,)) for facts in self._alternatives(formula))

    def _alternatives(self, formula: int) -> list[_Facts]:
        """The facts of each alternative at the top of a split formula."""
        found = self._facts.get(formula)
        if found is None:
            node = self._formulas.nodes[formula]
            parts = node[1] if node[0] == "or" else (formula,)
            found = [self._read(part) for part in parts[: _MAX_PAIRS + 1]]
            self._facts[formula] = found
        return found

    def _read(self, formula: int) -> _Facts:
        facts = _Facts()
        nodes = self._formulas.nodes
        node = nodes[formula]
        for part in node[1] if node[0] == "and" else (formula,):
            kind, *rest = nodes[part]
            if kind not in ("lit", "dual"):
                continue
            name, *arguments = rest[1]
            positive = kind == "lit"
            if name in ("property", "item"):
                member, value = arguments
                facts.values.setdefault(member, []).append(value if positive else self._formulas.negation(value))
                if not positive:
                    facts.needed[member] = None
                    if name == "item":
                        facts.least = max(facts.least, member + 1)
            elif name == "keys" and positive and arguments[0][0] == "other" and not arguments[0][2]:
                facts.others.append((frozenset(arguments[0][1]), arguments[1]))
            elif name == "items" and positive:
                facts.others.append((arguments[0], arguments[1]))
            elif name in ("min_items", "min_properties"):
                if positive:
                    facts.least = max(facts.least, arguments[0])
                else:
                    facts.most = _least(facts.most, arguments[0] - 1)
            elif name in ("max_items", "max_properties"):
                if positive:
                    facts.most = _least(facts.most, arguments[0])
                else:
                    facts.least = max(facts.least, arguments[0] + 1)
        return facts

    def _contradict(self, all_facts: Iterable[_Facts]) -> bool:
        """Whether the facts cannot hold together."""
        all_facts = tuple(all_facts)
        least = max(facts.least for facts in all_facts)
        most: int | None = None
        for facts in all_facts:
            most = _least(most, facts.most)
        if most is not None and least > most:
            return True
        needed: dict[object, None] = {}
        for facts in all_facts:
            needed |= facts.needed
            needed |= {member: None for member in facts.values if isinstance(member, int) and member < least}
        for member in needed:
            demands: list[int] = []
            for facts in all_facts:
                demands += facts.values.get(member, ())
                demands += [
                    formula
                    for rest, formula in facts.others
                    if (member >= rest if isinstance(rest, int) else member not in rest)  # type: ignore[operator]
                ]
            if demands and self.is_empty(self._formulas.conjunction(demands)):
                return True
        return False


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
