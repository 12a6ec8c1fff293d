"""Sets of strings: regular languages, each beside bounds on the length that are not multiplied out.

`{"pattern": "^[a-z]", "maxLength": 65535}` as one automaton has a hundred thousand states; kept apart, two and a pair
of numbers. So is what Boolean operations make of it: cut at all bounds, a set is a language for each band of lengths,

    maxLength 9, or pattern P and maxLength 65535        0..9: any string        10..65535: P
    not maxLength 65535                                  65536..: any string

and operations work band by band. Small products are always multiplied out, so that equal sets compare equal as a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from schemac.budget import Budget
from schemac.frontend.json_schema.text import length_language
from schemac.ir.dfa import CODE_POINTS, Dfa

#: Products with a bound on the length are multiplied out up to this size.
_PRODUCT = 600
#: Automata up to this size are searched for words of certain lengths, larger ones are multiplied out for it: the sets
#: of states that are walked through repeat after at most 30 steps for 10 states, but that grows exponentially.
_SEARCHED = 10

_EVERYTHING = Dfa.everything(CODE_POINTS)
_NOTHING = Dfa.empty(CODE_POINTS)


@dataclass(frozen=True, slots=True)
class Band:
    """The words of `base` that have `low` to `high` code points.

    Attributes:
        base: a language over code points.
        low: fewest code points.
        high: most code points; None for no bound.
    """

    base: Dfa
    low: int = 0
    high: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether there are no bounds."""
        return self.low == 0 and self.high is None

    def language(self, budget: Budget) -> Dfa:
        """One automaton for the band."""
        if self.is_plain:
            return self.base
        return self.base.intersect(length_language(self.low, self.high, budget), budget=budget)

    @property
    def is_countable(self) -> bool:
        """Whether the length can be counted beside the states of `base`, without dead ends.

        That is so if every state has a successor that is no farther from the end: then a text can be continued to any
        length from the shortest one on.
        """
        table = self.base.table
        distance = _to_end(self.base)
        ahead = np.where(table >= 0, distance[table], self.base.size)
        return self.base.size > 0 and bool((ahead.min(axis=1) <= distance).all())

    def accepts(self, word: str | Sequence[int]) -> bool:
        """Whether a string is in the band."""
        return self.low <= len(word) and (self.high is None or len(word) <= self.high) and self.base.accepts(word)


@dataclass(frozen=True, slots=True)
class StringSet:
    """A set of strings. Build with `of`, or from one language.

    Attributes:
        base: the language, if there are no `bands`.
        bands: languages for lengths that do not overlap, shorter ones first; none of them is empty.
        outer: where these are only the strings that certainly belong to the set, those that possibly do; None where
            both are the same. A few formats are written more narrowly than they are defined, and what is not written
            need not be wrong: the complement of a set is made of what certainly does not belong to it.
        factors: the bands that `base` was multiplied out from, if it was.
    """

    base: Dfa
    bands: tuple[Band, ...] = ()
    outer: StringSet | None = None
    factors: tuple[Band, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def between(certain: Dfa, possible: Dfa) -> StringSet:
        """The set of which `certain` is known to be part, and which is part of `possible`."""
        return StringSet(certain, outer=None if certain == possible else StringSet(possible))

    @staticmethod
    def of(base: Dfa, low: int, high: int | None, budget: Budget) -> StringSet:
        """The words of a language within bounds on their length."""
        return _normal([Band(base, low, high)], budget)

    @property
    def parts(self) -> tuple[Band, ...]:
        """The set as bands, whatever it is kept as; empty if it is."""
        return self.bands or (() if self.base.is_empty else (Band(self.base),))

    @property
    def is_plain(self) -> bool:
        """Whether `base` alone is the set."""
        return not self.bands

    @property
    def is_empty(self) -> bool:
        """Whether there is certainly no such string."""
        upper = self._upper
        return not upper.bands and upper.base.is_empty

    @property
    def is_everything(self) -> bool:
        """Whether every string is in the set."""
        return not self.bands and self.base.is_everything

    @property
    def is_finite(self) -> bool:
        """Whether they can be listed; bounded lengths that are kept apart, and doubtful strings, count as too many."""
        return not self.bands and self.outer is None and self.base.is_finite

    def accepts(self, word: str | Sequence[int]) -> bool:
        """Whether a string is in the set."""
        return any(band.accepts(word) for band in self.parts)

    def language(self, budget: Budget) -> Dfa:
        """One automaton for the set."""
        if not self.bands:
            return self.base
        language = self.bands[0].language(budget)
        for band in self.bands[1:]:
            language = language.union(band.language(budget), budget=budget)
        return language

    def intersect(self, other: StringSet, budget: Budget) -> StringSet:
        """The strings in both."""
        if self.is_empty or other.is_everything:
            return self
        if other.is_empty or self.is_everything:
            return other
        if self.outer is not None or other.outer is not None:
            inner = replace(self, outer=None).intersect(replace(other, outer=None), budget)
            return inner._within(self._upper.intersect(other._upper, budget))
        return _combined(self, other, _intersection, budget)

    def union(self, other: StringSet, budget: Budget) -> StringSet:
        """The strings in either."""
        if self.is_empty or other.is_everything:
            return other
        if other.is_empty or self.is_everything:
            return self
        if self.outer is not None or other.outer is not None:
            inner = replace(self, outer=None).union(replace(other, outer=None), budget)
            return inner._within(self._upper.union(other._upper, budget))
        return _combined(self, other, _union, budget)

    def difference(self, other: StringSet, budget: Budget) -> StringSet:
        """The strings of this set that are not in the other."""
        if self.is_empty or other.is_empty:
            return self
        if self.outer is not None or other.outer is not None:
            inner = replace(self, outer=None).difference(other._upper, budget)
            return inner._within(self._upper.difference(replace(other, outer=None), budget))
        if self == other:
            return NO_STRINGS
        return _combined(self, other, _difference, budget)

    def complement(self, budget: Budget) -> StringSet:
        """All other strings."""
        if self.outer is not None:
            return self.outer.complement(budget)._within(replace(self, outer=None).complement(budget))
        return _combined(ALL_STRINGS, self, _difference, budget)

    @property
    def _upper(self) -> StringSet:
        return self if self.outer is None else self.outer

    def _within(self, outer: StringSet) -> StringSet:
        """The same certain strings, with other possible ones."""
        plain = replace(self, outer=None)
        return plain if outer == plain else replace(plain, outer=outer)


def _to_end(base: Dfa) -> NDArray[np.int64]:
    """int64 [states]: the fewest symbols to an end."""
    distance = np.where(base.accepting, 0, base.size).astype(np.int64)
    while True:
        ahead = np.where(base.table >= 0, distance[base.table], base.size).min(axis=1) + 1
        after = np.minimum(distance, ahead)
        if np.array_equal(after, distance):
            return distance
        distance = after


ALL_STRINGS = StringSet(_EVERYTHING)
NO_STRINGS = StringSet(_NOTHING)

Operation = Callable[[Dfa, Dfa, Budget], Dfa]


def _intersection(one: Dfa, other: Dfa, budget: Budget) -> Dfa:
    if one.is_empty or other.is_everything:
        return one
    return other if other.is_empty or one.is_everything else one.intersect(other, budget=budget)


def _union(one: Dfa, other: Dfa, budget: Budget) -> Dfa:
    if one.is_empty or other.is_everything:
        return other
    return one if other.is_empty or one.is_everything else one.union(other, budget=budget)


def _difference(one: Dfa, other: Dfa, budget: Budget) -> Dfa:
    return one if one.is_empty or other.is_empty else one.difference(other, budget=budget)


def _combined(one: StringSet, other: StringSet, operation: Operation, budget: Budget) -> StringSet:
    """An operation band by band. Sets that are multiplied out count as their factors if the other one has bands."""
    mine, theirs = one.bands or one.factors, other.bands or other.factors
    if not mine and not theirs:
        return StringSet(operation(one.base, other.base, budget))
    mine, theirs = mine or one.parts, theirs or other.parts
    cuts = sorted({0, *_cuts(mine), *_cuts(theirs)})
    budget.spend("branches", len(cuts))
    known: dict[tuple[Dfa, Dfa], Dfa] = {}
    bands = []
    for number, low in enumerate(cuts):
        high = cuts[number + 1] - 1 if number + 1 < len(cuts) else None
        pair = _at(mine, low), _at(theirs, low)
        if pair not in known:
            known[pair] = operation(*pair, budget)
        bands.append(Band(known[pair], low, high))
    return _normal(bands, budget)


def _cuts(bands: Sequence[Band]) -> list[int]:
    """Lengths from which on another language counts."""
    return [band.low for band in bands] + [band.high + 1 for band in bands if band.high is not None]


def _at(bands: Sequence[Band], length: int) -> Dfa:
    """The language that counts for a length."""
    for band in bands:
        if band.low <= length and (band.high is None or length <= band.high):
            return band.base
    return _NOTHING


def _normal(bands: Sequence[Band], budget: Budget) -> StringSet:
    """The set of bands that are in order and do not overlap: without empty ones, multiplied out if that is small."""
    kept: list[Band] = []
    for band in bands:
        if (band.high is not None and band.high < band.low) or not _reaches(band, budget):
            continue
        before = kept[-1] if kept else None
        if before is not None and before.base == band.base and before.high == band.low - 1:
            kept[-1] = Band(band.base, before.low, band.high)
        else:
            kept.append(band)
    if not kept:
        return NO_STRINGS
    if len(kept) == 1:
        kept = [_trimmed(kept[0])]
        if kept[0].is_plain:
            return StringSet(kept[0].base)
    size = sum(band.base.size * ((band.low if band.high is None else band.high) + 1) for band in kept)
    split = StringSet(_NOTHING, tuple(kept))
    if size <= _PRODUCT or all(band.base.is_finite for band in kept):
        return StringSet(split.language(budget), factors=split.bands)
    return split


def _trimmed(band: Band) -> Band:
    """The same words without bounds that say nothing."""
    base, high = band.base, band.high
    if high is not None and base.is_finite and (longest := base.max_length) is not None and longest <= high:
        high = None
    return Band(base, 0 if band.low <= base.min_length else band.low, high)


def _reaches(band: Band, budget: Budget) -> bool:
    """Whether there is a word in a band."""
    base, low, high = band.base, band.low, band.high
    if base.is_empty:
        return False
    shortest, longest = base.min_length, base.max_length
    if (high is not None and shortest > high) or (longest is not None and longest < low):
        return False
    if low <= shortest:
        return True
    # The shortest word of at least `low` characters is less than a round through all states longer.
    if longest is None and (high is None or high - low >= base.size):
        return True
    if base.size > _SEARCHED:
        return not band.language(budget).is_empty
    return _has_word(base, low, low + base.size if high is None else high)


def _has_word(base: Dfa, low: int, high: int) -> bool:
    """Whether some word of `base` has `low` to `high` symbols: walks through the sets of states by length."""
    edges: NDArray[np.bool_] = np.zeros((base.size, base.size), np.bool_)
    state, column = np.nonzero(base.table >= 0)
    edges[state, base.table[state, column]] = True
    current: NDArray[np.bool_] = np.zeros(base.size, np.bool_)
    current[0] = True
    seen: dict[bytes, int] | None = {}
    length = 0
    while length < low:
        if seen is not None:  # the sets repeat after a few steps; then whole rounds are skipped, once
            before = seen.setdefault(current.tobytes(), length)
            if before < length:
                length += (low - length) // (length - before) * (length - before)
                seen = None
                continue
        current = np.any(edges[current], axis=0)
        length += 1
    for _ in range(high - low + 1):
        if (current & base.accepting).any():
            return True
        current = np.any(edges[current], axis=0)
    return False
