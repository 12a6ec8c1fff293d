"""Numbers from few candidates: try each one instead of multiplying automata.

`{"type": "integer", "minimum": 1, "maximum": 500, "not": {"multipleOf": 7919}}` has 500 candidates; an outline of the
formula (bounds and a common step) finds that out at once, and each candidate is then checked by exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from schemac.frontend.json_schema.evaluate import SetAlgebra
from schemac.frontend.json_schema.formula import Atom

#: Up to so many numbers are tried one by one.
MAX_CANDIDATES = 1_500


@dataclass(frozen=True, slots=True)
class Outline:
    """A set of numbers that holds all those that satisfy a formula, and maybe more.

    Attributes:
        low: no member is below; None is no bound.
        high: no member is above.
        step: all members are multiples of it; None if there is none.
        members: the only possible members, if they are listed.
        nothing: no member at all.
        integral: integers were asked for, see `numbers.NumberSet`.
        hard: automata for the formula may be large.
    """

    low: Fraction | None = None
    high: Fraction | None = None
    step: Fraction | None = None
    members: frozenset[Fraction] | None = None
    nothing: bool = False
    integral: bool = False
    hard: bool = False

    def candidates(self) -> list[Fraction] | None:
        """All numbers within the outline, ascending, or None if they are too many or automata will do."""
        if self.nothing:
            return []
        if not self.hard:
            return None
        if self.members is not None:
            return sorted(self.members) if len(self.members) <= MAX_CANDIDATES else None
        if self.low is None or self.high is None or self.step is None:
            return None
        first, last = ceil(self.low / self.step), floor(self.high / self.step)
        if last - first >= MAX_CANDIDATES:
            return None
        return [number * self.step for number in range(first, last + 1)]


def _lowest(bounds: Sequence[Fraction | None]) -> Fraction | None:
    known = [bound for bound in bounds if bound is not None]
    return min(known) if len(known) == len(bounds) else None


def _highest(bounds: Sequence[Fraction | None]) -> Fraction | None:
    known = [bound for bound in bounds if bound is not None]
    return max(known) if len(known) == len(bounds) else None


def _common_divisor(steps: Sequence[Fraction]) -> Fraction:
    """The greatest number that all steps are multiples of."""
    result = steps[0]
    for step in steps[1:]:
        result = Fraction(gcd(result.numerator, step.numerator), lcm(result.denominator, step.denominator))
    return result


class OutlineAlgebra:
    """Outlines; complements say nothing."""

    wants_complements = False
    top = Outline()
    bottom = Outline(nothing=True)

    def atom(self, atom: Atom, formula: int) -> Outline:
        """Bounds or step of an assertion."""
        kind, *arguments = atom
        if kind == "minimum":
            return Outline(low=arguments[0])
        if kind == "maximum":
            return Outline(high=arguments[0])
        if kind == "integer":
            return Outline(step=Fraction(1), integral=True)
        if kind == "multiple":
            return Outline(step=arguments[0], hard=True)
        if kind == "set":
            return Outline()
        return Outline(min(arguments[0]), max(arguments[0]), None, frozenset(arguments[0]), hard=True)

    def complement_of_atom(self, atom: Atom, formula: int) -> Outline:
        """The other side of a bound."""
        kind, *arguments = atom
        if kind == "minimum":
            return Outline(high=arguments[0])
        return Outline(low=arguments[0]) if kind == "maximum" else Outline(hard=True)

    def intersection(self, parts: Sequence[Outline]) -> Outline:
        """The outline of what is in all parts."""
        if any(part.nothing for part in parts):
            return self.bottom
        lows = [part.low for part in parts if part.low is not None]
        highs = [part.high for part in parts if part.high is not None]
        steps = [part.step for part in parts if part.step is not None]
        listed = [part.members for part in parts if part.members is not None]
        return Outline(
            max(lows, default=None),
            min(highs, default=None),
            max(steps, default=None),  # the coarsest one; a common multiple would be exact, and may be huge
            min(listed, key=len) if listed else None,
            integral=any(part.integral for part in parts),
            hard=any(part.hard for part in parts),
        )

    def union(self, parts: Sequence[Outline]) -> Outline:
        """The outline of what is in any part."""
        live = [part for part in parts if not part.nothing]
        if not live:
            return self.bottom
        steps = [part.step for part in live if part.step is not None]
        listed = [part.members for part in live if part.members is not None]
        return Outline(
            _lowest([part.low for part in live]),
            _highest([part.high for part in live]),
            _common_divisor(steps) if len(steps) == len(live) else None,
            frozenset().union(*listed) if len(listed) == len(live) else None,
            integral=all(part.integral for part in live),
            hard=any(part.hard for part in live),
        )

    def exactly_one(self, parts: Sequence[Outline], complements: Sequence[Outline]) -> Outline:
        """No more than the union."""
        return self.union(parts)

    def not_exactly_one(self, parts: Sequence[Outline], complements: Sequence[Outline]) -> Outline:
        """Anything."""
        return Outline(hard=True)


class TrialAlgebra(SetAlgebra[int]):
    """Subsets of the candidates, as bit masks."""

    bottom = 0

    def __init__(self, candidates: Sequence[Fraction]) -> None:
        self._candidates = candidates
        self._bits = {number: 1 << bit for bit, number in enumerate(candidates)}
        self.top = (1 << len(candidates)) - 1

    def atom(self, atom: Atom, formula: int) -> int:
        """The candidates for which an atom holds."""
        if atom[0] == "numbers":
            return sum({self._bits.get(number, 0) for number in atom[1]})
        return sum(1 << bit for bit, number in enumerate(self._candidates) if _holds(atom, number))

    def both(self, one: int, other: int) -> int:
        """Candidates in both."""
        return one & other

    def either(self, one: int, other: int) -> int:
        """Candidates in either."""
        return one | other

    def complement(self, one: int) -> int:
        """All other candidates."""
        return self.top & ~one


def _holds(atom: Atom, number: Fraction) -> bool:
    kind, *arguments = atom
    if kind == "minimum":
        return bool(number > arguments[0] or (number == arguments[0] and not arguments[1]))
    if kind == "maximum":
        return bool(number < arguments[0] or (number == arguments[0] and not arguments[1]))
    if kind == "integer":
        return number.denominator == 1
    if kind == "multiple":
        return bool((number / arguments[0]).denominator == 1)
    if kind == "set":
        return bool(arguments[0].contains(number))
    return number in arguments[0]
