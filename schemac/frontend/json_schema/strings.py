"""Sets of strings: a regular language, and beside it a bound on the length that is not multiplied out.

`{"pattern": "^[a-z]", "maxLength": 65535}` as one automaton has a hundred thousand states; kept apart, two and a pair
of numbers. Conjunctions keep them apart; whatever else needs one automaton multiplies them out, within the budget.
Small ones always are, so that equal sets compare equal as a rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from schemac.budget import Budget
from schemac.frontend.json_schema.text import length_language
from schemac.ir.dfa import CODE_POINTS, Dfa

#: Products with a bound on the length are multiplied out up to this size.
_PRODUCT = 600
#: Larger automata are always multiplied out: blocks cost the square of their size.
_MAX_BASE = 10


@dataclass(frozen=True, slots=True)
class StringSet:
    """The words of `base` that have `low` to `high` code points. Build with `of`.

    Attributes:
        base: a language over code points.
        low: fewest code points.
        high: most code points; None for no bound.
        outer: where these are only the strings that certainly belong to the set, those that possibly do; None where
            both are the same. A few formats are written more narrowly than they are defined, and what is not written
            need not be wrong: the complement of a set is made of what certainly does not belong to it.
    """

    base: Dfa
    low: int = 0
    high: int | None = None
    outer: StringSet | None = None

    @staticmethod
    def between(certain: Dfa, possible: Dfa) -> StringSet:
        """The set of which `certain` is known to be part, and which is part of `possible`."""
        return StringSet(certain, outer=None if certain == possible else StringSet(possible))

    @property
    def _upper(self) -> StringSet:
        return self if self.outer is None else self.outer

    def _within(self, outer: StringSet) -> StringSet:
        """The same certain strings, with other possible ones."""
        plain = replace(self, outer=None)
        return plain if outer == plain else replace(plain, outer=outer)

    @staticmethod
    def of(base: Dfa, low: int, high: int | None, budget: Budget) -> StringSet:
        """The words of a language within bounds on their length; multiplied out if that is small."""
        if base.is_empty or (high is not None and high < low):
            return NO_STRINGS
        shortest = base.min_length
        if low <= shortest:
            low = 0
        if low == 0 and high is None:
            return StringSet(base)
        if high is not None and high < shortest:
            return NO_STRINGS
        bound = low if high is None else high
        if base.size * (bound + 1) <= _PRODUCT or base.size > _MAX_BASE or base.is_finite:
            return StringSet(base.intersect(length_language(low, high, budget), budget=budget))
        if low and not _reaches(base, low, high):
            return NO_STRINGS
        return StringSet(base, low, high)

    @property
    def is_plain(self) -> bool:
        """Whether `base` alone is the set."""
        return self.low == 0 and self.high is None

    @property
    def is_empty(self) -> bool:
        """Whether there is certainly no such string."""
        return self._upper.base.is_empty

    @property
    def is_everything(self) -> bool:
        """Whether every string is in the set."""
        return self.is_plain and self.base.is_everything

    @property
    def is_finite(self) -> bool:
        """Whether they can be listed; bounded lengths that are kept apart, and doubtful strings, count as too many."""
        return self.is_plain and self.outer is None and self.base.is_finite

    def accepts(self, word: str | Sequence[int]) -> bool:
        """Whether a string is in the set."""
        return self.low <= len(word) and (self.high is None or len(word) <= self.high) and self.base.accepts(word)

    def language(self, budget: Budget) -> Dfa:
        """One automaton for the set."""
        if self.is_plain:
            return self.base
        return self.base.intersect(length_language(self.low, self.high, budget), budget=budget)

    def intersect(self, other: StringSet, budget: Budget) -> StringSet:
        """The strings in both."""
        if self.is_empty or other.is_everything:
            return self
        if other.is_empty or self.is_everything:
            return other
        if self.outer is not None or other.outer is not None:
            inner = replace(self, outer=None).intersect(replace(other, outer=None), budget)
            return inner._within(self._upper.intersect(other._upper, budget))
        highs = [bound for bound in (self.high, other.high) if bound is not None]
        base = self.base.intersect(other.base, budget=budget)
        return StringSet.of(base, max(self.low, other.low), min(highs, default=None), budget)

    def union(self, other: StringSet, budget: Budget) -> StringSet:
        """The strings in either."""
        if self.is_empty or other.is_everything:
            return other
        if other.is_empty or self.is_everything:
            return self
        if self.outer is not None or other.outer is not None:
            inner = replace(self, outer=None).union(replace(other, outer=None), budget)
            return inner._within(self._upper.union(other._upper, budget))
        if (self.low, self.high) == (other.low, other.high):
            return StringSet.of(self.base.union(other.base, budget=budget), self.low, self.high, budget)
        return StringSet(self.language(budget).union(other.language(budget), budget=budget))

    def difference(self, other: StringSet, budget: Budget) -> StringSet:
        """The strings of this set that are not in the other."""
        if self.is_empty or other.is_empty:
            return self
        if self.outer is not None or other.outer is not None:
            inner = replace(self, outer=None).difference(other._upper, budget)
            return inner._within(self._upper.difference(replace(other, outer=None), budget))
        if other.is_plain:
            return StringSet.of(self.base.difference(other.base, budget=budget), self.low, self.high, budget)
        if self == other:
            return NO_STRINGS
        return StringSet(self.language(budget).difference(other.language(budget), budget=budget))

    def complement(self, budget: Budget) -> StringSet:
        """All other strings."""
        if self.outer is not None:
            return self.outer.complement(budget)._within(replace(self, outer=None).complement(budget))
        return StringSet(self.language(budget).complement(budget=budget))


ALL_STRINGS = StringSet(Dfa.everything(CODE_POINTS))
NO_STRINGS = StringSet(Dfa.empty(CODE_POINTS))


def _reaches(base: Dfa, low: int, high: int | None) -> bool:
    """Whether some word of `base` has `low` to `high` symbols."""
    edges: NDArray[np.bool_] = np.zeros((base.size, base.size), np.bool_)
    state, column = np.nonzero(base.table >= 0)
    edges[state, base.table[state, column]] = True
    current: NDArray[np.bool_] = np.zeros(base.size, np.bool_)
    current[0] = True
    seen: dict[bytes, int] = {}
    length = 0
    while length < low:  # the sets of states repeat after a few steps; then whole rounds are skipped
        key = current.tobytes()
        if key in seen:
            length += (low - length) // (length - seen[key]) * (length - seen[key])
            seen = {}
            if length >= low:
                break
        else:
            seen[key] = length
        current = np.any(edges[current], axis=0)
        length += 1
    for _ in range(base.size + 1 if high is None else min(high - low, base.size) + 1):
        if (current & base.accepting).any():
            return True
        current = np.any(edges[current], axis=0)
    return False
