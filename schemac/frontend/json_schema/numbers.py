"""Sets of numbers as languages of JSON number texts, exact by value; no binary floats anywhere.

A `NumberSet` is closed under value: it holds all plain spellings of a number (``5``, ``5.0``, ``5.00``) or none, so
that the Boolean operations on texts are the Boolean operations on values. Plain decimals (no exponent) spell every
JSON number. Spellings with an exponent come along only as long as each predicate involved can read them:

- "a number" and sign conditions (bounds at 0) read any exponent (universe "any");
- single numbers, and other bounds on request, read scientific notation as Python's ``repr`` of floats writes it,
  ``1.5e-07`` (universe "normal");
- divisibility reads plain decimals only (universe "none").

An operation on two sets keeps the smaller universe. What to write for a set is decided last, by `NumberSet.texts`.

Number grammar: RFC 8259, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Literal

import numpy as np

from schemac.budget import Budget
from schemac.frontend.json_schema.decimals import (
    DIGIT,
    Bound,
    Exact,
    integer_texts,
    interval,
    multiples,
    scientific,
    short_texts,
)
from schemac.ir.charset import BYTES, CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.minimize import Table

Universe = Literal["none", "normal", "any"]
_RANK: dict[Universe, int] = {"none": 0, "normal": 1, "any": 2}
_ZERO = Bound(False, "0", "")


@dataclass(frozen=True, slots=True)
class NumberSet:
    """A set of numbers. Build with the functions of this module.

    Attributes:
        plain: all plain decimal spellings of its members (bytes).
        exponent: all spellings of its members within `universe` (bytes).
        universe: which spellings with an exponent exist at all.
        integral: the members were asked to be integers, so that they are written as such.
    """

    plain: Dfa
    exponent: Dfa
    universe: Universe
    integral: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no number is a member; every JSON number has a plain spelling."""
        return self.plain.is_empty

    def contains(self, value: Exact) -> bool:
        """Whether a number is a member."""
        return self.plain.accepts(plain_text(value).encode())

    def values(self, most: int) -> list[Fraction] | None:
        """The members, ascending, or None if there are more than `most`."""
        short = self.plain.intersect(short_texts())
        if not short.is_finite:
            return None
        found = short.words(most + 1)
        return None if len(found) > most else sorted(Fraction(bytes(word).decode()) for word in found)

    def intersect(self, other: NumberSet, budget: Budget | None = None) -> NumberSet:
        """The numbers in both."""
        universe = min(self.universe, other.universe, key=_RANK.__getitem__)
        return NumberSet(
            self.plain.intersect(other.plain, budget=budget),
            self._exponent(universe).intersect(other._exponent(universe), budget=budget),
            universe,
            self.integral or other.integral,
        )

    def union(self, other: NumberSet, budget: Budget | None = None) -> NumberSet:
        """The numbers in either."""
        universe = min(self.universe, other.universe, key=_RANK.__getitem__)
        return NumberSet(
            self.plain.union(other.plain, budget=budget),
            self._exponent(universe).union(other._exponent(universe), budget=budget),
            universe,
            self.integral and other.integral,
        )

    def complement(self, budget: Budget | None = None) -> NumberSet:
        """The numbers not in this set."""
        return NumberSet(
            _plain_texts().difference(self.plain, budget=budget),
            _exponent_texts(self.universe).difference(self.exponent, budget=budget),
            self.universe,
        )

    def _exponent(self, universe: Universe) -> Dfa:
        return self.exponent if universe == self.universe else self.exponent.intersect(_exponent_texts(universe))

    def texts(self, budget: Budget | None = None) -> Dfa:
        """What may be written for a member: at least one spelling of each, and only spellings of members.

        - Where integers were asked for: no fraction, no exponent.
        - A finite set otherwise: the shortest spelling, or that with ``.0``.
        - No spelling of zero with a sign, unless there are negative members.

        Returns:
            A language over bytes.
        """
        plain, exponent = self.plain, self.exponent
        if self.integral:
            plain, exponent = plain.intersect(integer_texts(), budget=budget), Dfa.empty(BYTES)
        else:
            short = plain.intersect(_short_or_point_zero(), budget=budget)
            if short.is_finite:
                plain = short
                exponent = Dfa.empty(BYTES) if self.universe == "any" else exponent
        result = plain.union(exponent, budget=budget)
        if result.step(0, 0x2D) >= 0 and plain.intersect(_below_zero(), budget=budget).is_empty:
            result = result.difference(_signed(), budget=budget)
        return result


def digits_language(most: int, budget: Budget) -> Dfa:
    """The byte strings with at most so many digits."""
    budget.spend("regex_states", most + 1, construct="digit_limit")
    table = np.stack([np.arange(most + 1), np.append(np.arange(1, most + 1), -1)], axis=1).astype(np.int32)
    starts, classes = np.array([0, 0x30, 0x3A], np.int32), np.array([0, 1, 0], np.int32)
    return Dfa.from_table(BYTES, Table(starts, classes, table, np.ones(most + 1, np.bool_)))


# -- predicates -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def numbers() -> NumberSet:
    """All numbers, in every spelling of RFC 8259 section 6."""
    return NumberSet(_plain_texts(), _exponent_texts("any"), "any")


@lru_cache(maxsize=1)
def no_numbers() -> NumberSet:
    """No number."""
    return NumberSet(Dfa.empty(BYTES), Dfa.empty(BYTES), "any")


@lru_cache(maxsize=1)
def integers() -> NumberSet:
    """The integers, ``5.0`` among them by value; written without fraction and exponent."""
    return NumberSet(integer_texts().concat(_point_zeros()), Dfa.empty(BYTES), "none", integral=True)


def bounds(
    minimum: Exact | None = None,
    maximum: Exact | None = None,
    *,
    exclusive_minimum: bool = False,
    exclusive_maximum: bool = False,
    exponents: bool = False,
    budget: Budget | None = None,
) -> NumberSet:
    """The numbers between two bounds; None is no bound.

    Args:
        minimum: the lower bound.
        maximum: the upper bound.
        exclusive_minimum: whether the lower bound is itself excluded.
        exclusive_maximum: whether the upper bound is itself excluded.
        exponents: allow scientific notation too, as far as the module docstring says.
        budget: pays one ``regex_states`` per digit of a bound before the digits are made.
    """
    budget = budget or Budget()
    low = None if minimum is None else Bound.of(minimum, budget)
    high = None if maximum is None else Bound.of(maximum, budget)
    if all(end is None or end.is_zero for end in (low, high)):
        return _sign_bounds(low is not None, high is not None, exclusive_minimum, exclusive_maximum)
    plain = interval(low, high, exclusive_minimum, exclusive_maximum, budget)
    if not exponents:
        return NumberSet(plain, Dfa.empty(BYTES), "none")
    return NumberSet(plain, scientific(low, high, exclusive_minimum, exclusive_maximum, budget), "normal")


def equals(value: Exact, budget: Budget | None = None) -> NumberSet:
    """One number."""
    return one_of([value], budget)


def one_of(values: Iterable[Exact], budget: Budget | None = None) -> NumberSet:
    """Finitely many numbers."""
    budget = budget or Budget()
    whole: list[bytes] = []
    broken: list[bytes] = []
    normal: list[bytes] = []
    for value in values:
        bound = Bound.of(value, budget)
        (broken if bound.fraction else whole).append(bound.text().encode())
        if bound.is_zero:
            whole.append(b"-0")
        else:
            normal += bound.scientific_texts()
    zeros = Dfa.runs(CharSet.of(0x30), 0, None, BYTES)
    plain = (
        Dfa.literals(whole, BYTES, budget=budget)
        .concat(_point_zeros(), budget=budget)
        .union(Dfa.literals(broken, BYTES, budget=budget).concat(zeros, budget=budget), budget=budget)
    )
    return NumberSet(plain, Dfa.literals(normal, BYTES, budget=budget), "normal")


def multiple_of(step: Exact, budget: Budget | None = None) -> NumberSet:
    """The multiples of a positive number, exactly.

    With ``step = M / 10**k`` (M not divisible by 10) the automaton keeps the number read so far, times ``10**k``,
    modulo M; for a step that is itself a multiple of ten, M = step / 10**z, it also waits for z zeros.

    Args:
        step: the divisor, greater than 0.
        budget: pays for about ``M`` states, and ``min(M, 10**j)`` more for each j < k, before any is made.
    """
    budget = budget or Budget()
    bound = Bound.of(step, budget)
    if bound.is_zero or bound.negative:
        raise ValueError(f"{step} is not greater than 0")
    digits = (bound.whole + bound.fraction).lstrip("0")
    places = len(bound.fraction)
    zeros = 0 if places else len(digits) - len(digits.rstrip("0"))
    modulus = int(digits[: len(digits) - zeros])
    return NumberSet(multiples(modulus, places, zeros, budget), Dfa.empty(BYTES), "none")


def plain_text(value: Exact) -> str:
    """The shortest plain decimal of a number; integers have no fraction."""
    return Bound.of(value, Budget()).text()


# -- fixed languages ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _plain_texts() -> Dfa:
    r"""``-?(0|[1-9][0-9]*)(\.[0-9]+)?``."""
    fraction = Dfa.literal(b".", BYTES).concat(Dfa.runs(DIGIT, 1, None, BYTES))
    return integer_texts().concat(fraction.optional())


@lru_cache(maxsize=1)
def _point_zeros() -> Dfa:
    """Nothing, or ``.0``, ``.00`` and so on."""
    return Dfa.literal(b".", BYTES).concat(Dfa.runs(CharSet.of(0x30), 1, None, BYTES)).optional()


@lru_cache(maxsize=1)
def _short_or_point_zero() -> Dfa:
    """The shortest plain decimals, and those of integers with ``.0``."""
    whole = integer_texts().difference(Dfa.literal(b"-0", BYTES))
    return short_texts().union(whole.concat(Dfa.literal(b".0", BYTES)))


@lru_cache(maxsize=1)
def _signed() -> Dfa:
    """All texts that begin with a minus sign."""
    return Dfa.literal(b"-", BYTES).concat(Dfa.everything(BYTES))


@lru_cache(maxsize=1)
def _below_zero() -> Dfa:
    """Plain decimals of negative numbers."""
    return interval(None, _ZERO, False, True, Budget())


@lru_cache(maxsize=1)
def _any_exponent() -> Dfa:
    """``[eE][+-]?[0-9]+``."""
    mark = Dfa.literals([mark + sign for mark in (b"e", b"E") for sign in (b"", b"+", b"-")], BYTES)
    return mark.concat(Dfa.runs(DIGIT, 1, None, BYTES))


@lru_cache(maxsize=3)
def _exponent_texts(universe: Universe) -> Dfa:
    """All number texts with an exponent of a universe."""
    if universe == "none":
        return Dfa.empty(BYTES)
    if universe == "any":
        return _plain_texts().concat(_any_exponent())
    return scientific(None, None, False, False, Budget())


@cache
def _sign_bounds(at_least: bool, at_most: bool, open_low: bool, open_high: bool) -> NumberSet:
    """Numbers between bounds that are 0 or missing: with any exponent, the mantissa has the sign of the number."""
    mantissa = interval(_ZERO if at_least else None, _ZERO if at_most else None, open_low, open_high, Budget())
    return NumberSet(mantissa, mantissa.concat(_any_exponent()), "any")
