"""Numbers: every set is compared with exact arithmetic on random texts."""

import json
import operator
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest

from schemac.budget import Budget
from schemac.errors import BudgetExceeded
from schemac.frontend.json_schema.numbers import (
    NumberSet,
    bounds,
    equals,
    integers,
    multiple_of,
    no_numbers,
    numbers,
    one_of,
    plain_text,
)

Predicate = Callable[[Fraction], bool]


def accepts(found: NumberSet, text: str) -> bool:
    return found.plain.accepts(text.encode()) or found.exponent.accepts(text.encode())


def random_plain(rng: random.Random) -> str:
    whole = rng.choice(["0", *(str(rng.randint(0, most)) for most in (9, 9, 150, 10 ** rng.randint(1, 20)))])
    fraction = rng.choice(["", "", "0", "00", str(rng.randint(0, 9)), f"{rng.randint(0, 999):03d}", "25", "50", "125"])
    return rng.choice(["", "", "-"]) + whole + ("." + fraction if fraction else "")


def random_exponent(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return repr(rng.choice([1, -1]) * rng.randint(1, 99999) * 10.0 ** rng.choice([-9, -12, -30, 14, 16, 20, 100]))
    return random_plain(rng) + rng.choice(["e", "E"]) + rng.choice(["", "+", "-"]) + str(rng.randint(0, 30))


def random_set(rng: random.Random, depth: int) -> tuple[NumberSet, Predicate]:
    if depth and rng.random() < 0.75:
        one, one_holds = random_set(rng, depth - 1)
        kind = rng.choice(["and", "or", "not"])
        if kind == "not":
            return one.complement(), lambda value: not one_holds(value)
        two, two_holds = random_set(rng, depth - 1)
        if kind == "and":
            return one.intersect(two), lambda value: one_holds(value) and two_holds(value)
        return one.union(two), lambda value: one_holds(value) or two_holds(value)
    kind = rng.choice(["number", "integer", "bounds", "bounds", "bounds", "multiple", "one"])
    if kind == "number":
        return numbers(), lambda _: True
    if kind == "integer":
        return integers(), lambda value: value.denominator == 1
    if kind == "multiple":
        step = Decimal(rng.choice("1 2 3 7 0.1 0.01 2.5 0.25 10 100 30 1.5 0.075".split()))
        return multiple_of(step), lambda value: (value / Fraction(step)).denominator == 1
    if kind == "one":
        values = [Fraction(random_plain(rng)) for _ in range(3)]
        return one_of(values), lambda value: value in values
    low = rng.choice([None, Fraction(0), Fraction(random_plain(rng)), Fraction(random_plain(rng))])
    high = rng.choice([None, Fraction(0), Fraction(random_plain(rng)), Fraction(random_plain(rng))])
    above = rng.choice([operator.gt, operator.ge])
    below = rng.choice([operator.lt, operator.le])
    found = bounds(
        low,
        high,
        exclusive_minimum=above is operator.gt,
        exclusive_maximum=below is operator.lt,
        exponents=rng.random() < 0.5,
    )
    return found, lambda value: (low is None or above(value, low)) and (high is None or below(value, high))


@pytest.mark.parametrize("seed", range(150))
def test_sets_are_exact_by_value(seed: int) -> None:
    rng = random.Random(seed)
    found, holds = random_set(rng, 3)
    texts = found.texts(Budget())
    universe_texts = 0
    for _ in range(120):
        text = random_plain(rng)
        expected = holds(Fraction(text))
        assert found.plain.accepts(text.encode()) == expected
        assert found.contains(Fraction(text)) == expected
        assert expected or not texts.accepts(text.encode())
        text = random_exponent(rng)
        expected = holds(Fraction(text))
        assert expected or not (texts.accepts(text.encode()) or found.exponent.accepts(text.encode()))
        universe_texts += found.exponent.accepts(text.encode())
        if found.universe == "any" or (found.universe == "normal" and text == repr(float(text)) and "e" in text):
            assert found.exponent.accepts(text.encode()) == expected
    assert found.universe != "none" or not universe_texts
    # Every value has a text; every text is JSON.
    for _ in range(30):
        value = Fraction(random_plain(rng))
        if holds(value):
            assert texts.accepts(plain_text(value).encode())
    for word in texts.words(30):
        assert holds(Fraction(bytes(word).decode()))
        json.loads(bytes(word))


@pytest.mark.parametrize(
    ("found", "good", "bad"),
    [
        (numbers(), "0 -0 5 5.0 1e5 1E+05 -1.50e-7", "01 .5 5. +1 1e 0x1 - e5 1e+ NaN"),
        (integers(), "0 -5 12345678901234567890 -0", "5.0 1e3 01"),
        (bounds(0), "0 0.0 5 1e-400 0e5", "-1 -0.1 -1e-400 -0"),
        (bounds(0, exclusive_minimum=True), "1e-400 0.001 5", "0 0.0 0e5 -1"),
        (bounds(None, 0), "-5 0 -0 -0.0 -1e5", "1 1e-9"),
        (bounds(-1, 1), "-1 -1.0 -0.5 0 0.99999999999999999999 1.000", "1.0000000000000000000001 -1.1 1e-1 2 10"),
        (integers().intersect(bounds(1, 65535)), "1 9 65535 65534 10000", "0 65536 70000 100000 1.0 -1 01"),
        (bounds(Decimal("0.1"), Decimal("0.3")), "0.1 0.10 0.2 0.3 0.30", "0.09 0.31 0 1 0.300000000000000000001"),
        (equals(5), "5 5.0", "5.00 05 5e0 6 -5"),
        (equals(Decimal("2.5")), "2.5", "2.50 2 25e-1"),
        (equals(Decimal("1e-7")), "0.0000001 1e-07", "1e-7 0.000000100"),
        (one_of([1, Decimal("1e400")]), "1 1" + "0" * 400, "2 10"),
        (numbers().intersect(integers().complement()), "0.5 -1.25 0.500", "1 1.0 0 1e-1 1e3"),
        (multiple_of(Decimal("0.01")), "0 0.01 5 5.1 5.25 5.250 -3.330", "0.001 5.255 5.2500001"),
        (multiple_of(1000), "0 1000 -12000 5000.0", "100 1500 1000.5"),
        (bounds(Decimal("1e-6"), 1, exponents=True), "1e-06 0.5 1 9.99e-06 0.000001", "9e-07 1e+16 1.5 1e-6 1.0e-06"),
        (bounds(None, Decimal("-2.5e20"), exponents=True), "-2.5e+20 -2.51e+20 -1e+21", "-2.49e+20 -1e+20 -25e+19"),
    ],
)  # fmt: skip
def test_what_is_written(found: NumberSet, good: str, bad: str) -> None:
    texts = found.texts()
    assert [text for text in good.split() if not texts.accepts(text.encode())] == []
    assert [text for text in bad.split() if texts.accepts(text.encode())] == []


def test_empty_sets_are_known() -> None:
    assert no_numbers().is_empty
    assert bounds(1, 0).is_empty
    assert bounds(1, 1, exclusive_minimum=True).is_empty
    assert integers().intersect(bounds(Decimal("0.1"), Decimal("0.9"))).is_empty
    assert multiple_of(3).intersect(one_of([1, 2, 4])).is_empty
    assert numbers().complement().is_empty
    assert not bounds(0, 0).is_empty
    assert bounds(-5, Decimal("-5.0")).intersect(equals(-5).complement()).is_empty


def test_members_are_listed() -> None:
    found = integers().intersect(bounds(-2, 2))
    assert found.values(10) == [-2, -1, 0, 1, 2]
    assert found.values(4) is None
    assert bounds(0, 1).values(1000) is None
    assert one_of([Fraction(1, 4), 0, -7]).values(3) == [-7, 0, Fraction(1, 4)]


def test_automata_are_small() -> None:
    assert integers().intersect(bounds(0)).texts().size == 3
    assert integers().intersect(bounds(1, 65535)).texts().size == 10
    assert numbers().intersect(bounds(0)).texts().size == 8


def test_bounds_of_any_size_and_precision() -> None:
    big = Decimal("123456789012345678901234567890.000000000000000000000000000001")
    found = bounds(big, exclusive_minimum=True)
    assert not found.contains(big)
    assert found.contains(Fraction(big) + Fraction(1, 10**40))
    assert bounds(Decimal("1e300"), Decimal("1e300")).contains(10**300)
    assert bounds(10**1000).contains(10**1000)


def test_large_constants_are_paid_for_before_they_are_built() -> None:
    for value in (Decimal("1e999999"), Decimal("1e-999999"), Decimal("1e999999999")):
        with pytest.raises(BudgetExceeded):
            bounds(value, budget=Budget())
        with pytest.raises(BudgetExceeded):
            one_of([value], Budget())
    for step in (Decimal("0.123456789"), 1234567891, 123456789012345678901):
        with pytest.raises(BudgetExceeded):
            multiple_of(step, Budget())
    assert multiple_of(Decimal("1e300")).contains(10**300)


def test_binary_floats_are_refused() -> None:
    with pytest.raises(TypeError):
        bounds(0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finite decimal"):
        bounds(Fraction(1, 3))
    with pytest.raises(ValueError, match="greater than 0"):
        multiple_of(0)
