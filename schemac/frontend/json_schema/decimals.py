"""Automata that read decimal numbers: comparison with bounds, divisibility, scientific notation.

All of them are exact and read the number once, left to right, as text:

- A *comparison* tracks, per bound, whether the digits so far are below, equal to or above those of the bound; the
  number of digits before the point decides first.
- *Divisibility* by ``M / 10**k`` keeps a remainder modulo M.
- In *scientific notation* the mantissa comes first but the exponent decides, so the mantissa only picks the range of
  exponents.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from schemac.budget import Budget
from schemac.ir.charset import BYTES, CharSet
from schemac.ir.dfa import Dfa, union_all
from schemac.ir.minimize import Table

__all__ = ["DIGIT", "NONZERO", "Bound", "Exact", "integer_texts", "interval", "multiples", "scientific", "short_texts"]

Exact = int | Decimal | Fraction

DIGIT = CharSet(((0x30, 0x39),))
NONZERO = CharSet(((0x31, 0x39),))

# Columns of the tables below: one per symbol of number texts, the last one for every other byte.
_SYMBOLS = b"0123456789-."
_DIGITS, _MINUS, _POINT, _OTHER = range(10), 10, 11, 12
_COLUMNS = np.full(256, _OTHER, np.int32)
_COLUMNS[list(_SYMBOLS)] = np.arange(len(_SYMBOLS))
_STARTS = np.arange(256, dtype=np.int32)

#: Exponents that Python writes for floats: below -4 or above 15 (CPython, Python/pystrtod.c, format 'r').
_LOW_EXPONENT, _HIGH_EXPONENT = -5, 16


@dataclass(frozen=True, slots=True)
class Bound:
    """A number as decimal digits: ``whole`` without leading zeros (but "0"), ``fraction`` without trailing ones."""

    negative: bool
    whole: str
    fraction: str

    @staticmethod
    def of(value: Exact, budget: Budget) -> Bound:
        """Spell a number; the digits are paid for before they are made.

        Raises:
            ValueError: not a finite decimal.
            TypeError: a binary float.
        """
        if isinstance(value, float):
            raise TypeError("numbers are exact: int, Decimal or Fraction")
        if isinstance(value, Fraction):
            value = _decimal(value)
        number = Decimal(value)
        if not number.is_finite():
            raise ValueError(f"{value} is not a number")
        sign, raw, _ = number.as_tuple()
        if not any(raw):
            return Bound(False, "0", "")
        exponent = number.adjusted() - len(raw) + 1
        budget.spend("regex_states", max(len(raw) + exponent, -exponent, 1), construct="number")
        digits = "".join(map(str, raw))
        if exponent >= 0:
            return Bound(sign == 1, (digits + "0" * exponent).lstrip("0"), "")
        digits = digits.rjust(1 - exponent, "0")
        whole, fraction = digits[:exponent].lstrip("0") or "0", digits[exponent:].rstrip("0")
        return Bound(sign == 1, whole, fraction)

    @property
    def is_zero(self) -> bool:
        """Whether this is 0."""
        return self.whole == "0" and not self.fraction

    def text(self) -> str:
        """The shortest plain decimal."""
        return "-" * self.negative + self.whole + ("." + self.fraction if self.fraction else "")

    def magnitude(self) -> Bound:
        """Without the sign."""
        return Bound(False, self.whole, self.fraction)

    def normal(self) -> tuple[Bound, int]:
        """A nonzero magnitude as mantissa from 1 to below 10, and exponent."""
        if self.whole != "0":
            return Bound(False, self.whole[0], (self.whole[1:] + self.fraction).rstrip("0")), len(self.whole) - 1
        digits = self.fraction.lstrip("0")
        return Bound(False, digits[0], digits[1:]), len(digits) - len(self.fraction) - 1

    def scientific_texts(self) -> list[bytes]:
        """The spelling of a nonzero number in scientific notation, if it has one; see `scientific`."""
        mantissa, exponent = self.normal()
        if _LOW_EXPONENT < exponent < _HIGH_EXPONENT:
            return []
        return [f"{'-' * self.negative}{mantissa.text()}e{exponent:+03d}".encode()]


def _decimal(value: Fraction) -> Decimal:
    """A fraction as an exact decimal; ValueError if its expansion does not end."""
    rest, places = value.denominator, 0
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest //= prime
            count += 1
        places = max(places, count)
    if rest != 1:
        raise ValueError(f"{value} is not a finite decimal")
    scaled = value.numerator * 10**places // value.denominator
    sign, digits, _ = Decimal(scaled).as_tuple()
    return Decimal((sign, digits, -places))


Orders = tuple[int, ...]
_Phase = Literal["start", "whole", "zero", "point", "fraction"]  # "zero": a single zero, which no digit may follow
_Position = tuple[int, _Phase, int, Orders]  # side (0 positive, 1 negative), phase, digits read, orders

#: A half line of magnitudes is kept as (bound, whether the bound itself is outside); None is no bound.
End = tuple[Bound, bool] | None


def interval(low: Bound | None, high: Bound | None, open_low: bool, open_high: bool, budget: Budget) -> Dfa:
    """Plain decimals between two bounds; an open one is itself outside, None is no bound."""
    return Dfa.from_table(BYTES, _comparison(*_halves(low, high, open_low, open_high), budget))


def _halves(
    low: Bound | None, high: Bound | None, open_low: bool, open_high: bool
) -> tuple[tuple[End, End] | None, tuple[End, End] | None]:
    """Two bounds as bounds of the magnitudes of positive numbers, and of negative ones; None: there are none."""
    zero = (Bound(False, "0", ""), False)
    positive: tuple[End, End] | None = None
    negative: tuple[End, End] | None = None
    if high is None or not high.negative:
        least = zero if low is None or low.negative else (low, open_low)
        positive = (least, None if high is None else (high, open_high))
    if low is None or low.negative or low.is_zero:
        least = zero if high is None or not (high.negative or high.is_zero) else (high.magnitude(), open_high)
        negative = (least, None if low is None else (low.magnitude(), open_low))
    return positive, negative


class _Side:
    """Reads one magnitude digit by digit and compares it with two bounds.

    Positions in the whole part are (digits read, order so far against low, against high), where an order is -1, 0 or
    1 for the number being below, equal or above so far. A number with fewer whole digits is the lower one.
    """

    def __init__(self, low: End, high: End) -> None:
        self.ends = (low, high)
        self.cap = max(len(end[0].whole) for end in (low, high) if end is not None) + 1
        self.places = max(len(end[0].fraction) for end in (low, high) if end is not None)

    def digits(self, count: int, orders: Orders, whole: bool) -> list[tuple[int, int, Orders]]:
        """Ranges of the next digit ``(first, past the last, the orders after it)``."""
        others: list[int | None] = []  # the digit to compare with, per bound
        for order, end in zip(orders, self.ends, strict=True):
            if order or end is None:
                others.append(None)
            else:
                text = end[0].whole if whole else end[0].fraction
                others.append(int(text[count]) if count < len(text) else 0)
        cuts = sorted({0, 10, *(cut for other in others if other is not None for cut in (other, other + 1))})
        return [
            (
                first,
                last,
                tuple(
                    order if other is None else (first > other) - (first < other)
                    for order, other in zip(orders, others, strict=True)
                ),
            )
            for first, last in pairwise(cuts)
        ]

    def end_of_whole(self, count: int, orders: Orders) -> Orders:
        """The orders once the number of whole digits is known."""
        lengths = [count if end is None else len(end[0].whole) for end in self.ends]
        return tuple(
            order if count == length else (1 if count > length else -1)
            for order, length in zip(orders, lengths, strict=True)
        )

    def settled(self, orders: Orders) -> bool:
        """Whether more digits of the fraction change nothing."""
        return all(order or end is None for order, end in zip(orders, self.ends, strict=True))

    def inside(self, count: int, orders: Orders, final: bool) -> bool:
        """Whether the number is between the bounds should it end here (`final`), or can be, after `count` places."""
        for order, end, inner in zip(orders, self.ends, (1, -1), strict=True):
            if end is None or order == inner:
                continue
            bound, is_open = end
            if order:
                return False
            # Equal so far. Places of the bound that are left are not all zero: then the number is below it.
            left = count < len(bound.fraction)
            if (inner > 0 and final and (left or is_open)) or (inner < 0 and not left and is_open):
                return False
        return True


def _comparison(positive: tuple[End, End] | None, negative: tuple[End, End] | None, budget: Budget) -> Table:
    """The table of plain decimals whose magnitude is between the ends for their sign; None allows none of that sign."""
    sides = [None if ends is None else _Side(*ends) for ends in (positive, negative)]
    start: _Position = (0, "start", 0, (0, 0))
    number: dict[_Position, int] = {start: 0}
    queue: list[_Position] = [start]
    rows: list[list[int]] = []
    accepting: list[bool] = []

    def visit(side: int, phase: _Phase, count: int, orders: Orders) -> int:
        position = (side, phase, count, orders)
        found = number.get(position)
        if found is None:
            found = number[position] = len(queue)
            queue.append(position)
        return found

    for which, phase, count, orders in queue:  # grows meanwhile
        budget.spend("regex_states")
        row = [-1] * (_OTHER + 1)
        rows.append(row)
        side = sides[which]
        if phase == "start" and which == 0 and sides[1] is not None:
            row[_MINUS] = visit(1, "start", 0, (0, 0))
        if side is None:
            accepting.append(False)
        elif phase in ("start", "whole", "zero"):
            ended = side.end_of_whole(count, orders)
            accepting.append(phase != "start" and side.inside(0, ended, final=True))
            if phase != "start" and side.inside(0, ended, final=False):
                row[_POINT] = visit(which, "point", 0, ended)
            if phase != "zero":
                for first, last, after in side.digits(count, orders, whole=True):
                    row[first:last] = [visit(which, "whole", min(count + 1, side.cap), after)] * (last - first)
            if phase == "start":
                row[0] = visit(which, "zero", 1, side.digits(0, orders, whole=True)[0][2])
        else:
            accepting.append(phase == "fraction" and side.inside(count, orders, final=True))
            for first, last, after in side.digits(count, orders, whole=False):
                places = side.places if side.settled(after) else min(count + 1, side.places)
                if side.inside(places, after, final=False):
                    row[first:last] = [visit(which, "fraction", places, after)] * (last - first)
    return Table(_STARTS, _COLUMNS, np.array(rows, np.int32), np.array(accepting, np.bool_))


# -- fixed languages ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def integer_texts() -> Dfa:
    """``-?(0|[1-9][0-9]*)``."""
    nonzero = Dfa.symbols(NONZERO, BYTES).concat(Dfa.runs(DIGIT, 0, None, BYTES))
    return Dfa.literals([b"", b"-"], BYTES).concat(Dfa.literal(b"0", BYTES).union(nonzero))


@lru_cache(maxsize=1)
def short_texts() -> Dfa:
    """The shortest plain decimal of each number: no zeros at the end of a fraction, no negative zero."""
    digits = Dfa.runs(DIGIT, 0, None, BYTES)
    fraction = Dfa.literal(b".", BYTES).concat(digits).concat(Dfa.symbols(NONZERO, BYTES))
    return integer_texts().concat(fraction.optional()).difference(Dfa.literal(b"-0", BYTES))


# -- scientific notation --------------------------------------------------------------------------------------------


def scientific(low: Bound | None, high: Bound | None, open_low: bool, open_high: bool, budget: Budget) -> Dfa:
    """Numbers between two bounds as Python writes floats far from 1: ``-1.5e-07``, ``1e+16``.

    The mantissa is the shortest one with one nonzero digit before the point; the exponent has a sign and at least two
    digits, and is below -4 or above 15.
    """
    positive, negative = _halves(low, high, open_low, open_high)
    parts = [Dfa.empty(BYTES)]
    for sign, ends in ((b"", positive), (b"-", negative)):
        if ends is not None:
            parts += [Dfa.literal(sign, BYTES).concat(part) for part in _scientific_half(*ends, budget)]
    return union_all(parts, BYTES, budget=budget)


def _scientific_half(low: End, high: End, budget: Budget) -> list[Dfa]:
    """The unsigned part: mantissas cut at those of the bounds; each piece goes with a range of exponents."""
    if high is not None and high[0].is_zero:
        return []
    ends = [None if end is None or end[0].is_zero else (*end[0].normal(), end[1]) for end in (low, high)]
    cuts = sorted({end[0] for end in ends if end is not None}, key=lambda cut: Fraction(cut.text()))
    one, ten = Bound(False, "1", ""), Bound(False, "10", "")
    pieces: list[tuple[Bound, Bound, bool, bool]] = []  # (from, to, open, open)
    before, is_open = one, False
    for cut in cuts:
        if cut != one:
            pieces.append((before, cut, is_open, True))
        pieces.append((cut, cut, False, False))
        before, is_open = cut, True
    pieces.append((before, ten, is_open, True))
    found = []
    for first, last, open_first, open_last in pieces:
        limits: list[int | None] = []
        for end, side in zip(ends, (1, -1), strict=True):
            if end is None:
                limits.append(None)
                continue
            mantissa, exponent, excluded = end
            if first == last == mantissa:
                fits = not excluded
            else:  # the whole piece is on one side of the mantissa
                fits = (Fraction(first.text()) >= Fraction(mantissa.text())) == (side > 0)
            limits.append(exponent if fits else exponent + side)
        texts = short_texts().intersect(interval(first, last, open_first, open_last, budget), budget=budget)
        found.append(texts.concat(_exponents(limits[0], limits[1], budget), budget=budget))
    return found


def _exponents(low: int | None, high: int | None, budget: Budget) -> Dfa:
    """``e-05`` downwards and ``e+16`` upwards, within two bounds."""
    parts = []
    for sign, first, last in (
        (b"e-", -_LOW_EXPONENT if high is None else max(-_LOW_EXPONENT, -high), None if low is None else -low),
        (b"e+", _HIGH_EXPONENT if low is None else max(_HIGH_EXPONENT, low), high),
    ):
        if last is not None and last < first:
            continue
        end = None if last is None else Bound.of(last, budget)
        numbers = integer_texts().intersect(interval(Bound.of(first, budget), end, False, False, budget), budget=budget)
        one_digit = numbers.intersect(Dfa.symbols(DIGIT, BYTES))
        padded = numbers.difference(one_digit).union(Dfa.literal(b"0", BYTES).concat(one_digit))
        parts.append(Dfa.literal(sign, BYTES).concat(padded, budget=budget))
    return union_all(parts, BYTES, budget=budget)


# -- divisibility ---------------------------------------------------------------------------------------------------


def multiples(modulus: int, places: int, zeros: int, budget: Budget) -> Dfa:
    """Plain decimals that are multiples of ``modulus / 10**places * 10**zeros``; one of `places`, `zeros` is 0."""
    if modulus >= 1 << 30:  # far beyond any budget, and products of two remainders would not fit int64
        budget.spend("regex_states", modulus, construct="multipleOf")
    # Before the point: u = the digits read, modulo what is left of the modulus once 10**places is a factor.
    shared = _common(modulus, places)
    left = modulus // shared
    # After j places: w = what the remaining places must add, 0 <= w < 10**(places - j).
    widths = [min(modulus, 10 ** min(places - j, 19)) for j in range(places + 1)]
    total = 4 + left + zeros + sum(widths)
    budget.spend("regex_states", total, construct="multipleOf")
    whole, waiting = 4, 4 + left  # waiting[t]: a multiple of the modulus, then t + 1 zeros
    place = np.cumsum([waiting + zeros, *widths])[:-1].tolist()
    table = np.full((total, _OTHER + 1), -1, np.int32)
    accepting = np.zeros(total, np.bool_)
    start, minus, zero, point_only = 0, 1, 2, 3
    digits = np.arange(10)
    rest = np.arange(left)
    table[whole : whole + left, :10] = whole + (rest[:, None] * 10 + digits) % left
    if zeros:
        table[whole, 0] = waiting
        table[waiting : waiting + zeros, :10] = table[whole, :10]
        table[waiting : waiting + zeros - 1, 0] = np.arange(waiting + 1, waiting + zeros)
        table[waiting + zeros - 1, 0] = waiting + zeros - 1
    table[start, 1:10] = table[minus, 1:10] = whole + digits[1:] % left
    table[start, 0] = table[minus, 0] = zero
    table[start, _MINUS] = minus
    # Where the whole part may end, and what it asks of the places.
    good = waiting + zeros - 1 if zeros else whole
    accepting[[zero, good]] = True
    if places:
        asked = -rest * pow(10, places, modulus) % modulus
        can = asked < widths[0]
        table[whole : whole + left, _POINT][can] = place[0] + asked[can]
        table[zero, _POINT] = place[0]
        for j in range(places):
            need = np.arange(widths[j], dtype=np.int64)[:, None]
            weight = pow(10, places - 1 - j, modulus)
            after = (need - digits * weight) % modulus
            target = np.where(after < widths[j + 1], place[j + 1] + after, -1)
            table[place[j] : place[j] + widths[j], :10] = target
            if j:
                accepting[place[j]] = True
        accepting[place[places]] = True
        table[place[places], 0] = place[places]
    else:
        table[[zero, good], _POINT] = point_only
        table[point_only, 0] = place[0]
        table[place[0], 0] = place[0]
        accepting[place[0]] = True
    return Dfa.from_table(BYTES, Table(_STARTS, _COLUMNS, table, accepting))


def _common(modulus: int, places: int) -> int:
    """gcd(modulus, 10**places)."""
    result = 1
    for prime in (2, 5):
        for _ in range(places):
            if modulus % prime:
                break
            modulus //= prime
            result *= prime
    return result
