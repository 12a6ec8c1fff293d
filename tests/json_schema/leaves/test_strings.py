"""Sets of strings with bounds on the length kept apart: every operation gives what plain automata give."""

from __future__ import annotations

import itertools
import random

import pytest

from schemac.budget import Budget
from schemac.errors import BudgetExceeded
from schemac.frontend.json_schema import strings as strings_module
from schemac.frontend.json_schema.strings import ALL_STRINGS, NO_STRINGS, Band, StringSet
from schemac.frontend.json_schema.text import length_language
from schemac.frontend.regex import regex_language
from schemac.ir.dfa import CODE_POINTS, Dfa
from tests.json_schema.checking import recognizer, texts

PATTERNS = ("", "^a", "b$", "^(ab)*$", "^(aaa)*$", "^a{2,4}$", "aa", "^b{5}")


def a_set(generator: random.Random) -> tuple[StringSet, Dfa]:
    """A random set, and the same one as a single automaton."""
    budget = Budget()
    base = regex_language(generator.choice(PATTERNS), dialect="ecma", search=True)
    low, high = generator.choice((0, 0, 1, 3, 7)), generator.choice((None, None, 2, 5, 9))
    return StringSet.of(base, low, high, budget), base.intersect(length_language(low, high))


@pytest.mark.parametrize("kept_apart", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_operations_agree_with_plain_automata(seed: int, kept_apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if kept_apart:
        monkeypatch.setattr(strings_module, "_PRODUCT", 0)
    generator = random.Random(seed)
    budget = Budget()
    pool = [a_set(generator) for _ in range(4)]
    for _ in range(12):
        one, language = generator.choice(pool)
        other, other_language = generator.choice(pool)
        operation = generator.choice(("intersect", "union", "difference", "complement"))
        if operation == "complement":
            pool.append((one.complement(budget), language.complement()))
        else:
            result = getattr(one, operation)(other, budget)
            pool.append((result, getattr(language, operation)(other_language)))
        result, language = pool[-1]
        assert result.language(budget) == language, operation
        assert result.is_empty == language.is_empty
        assert not result.is_finite or language.is_finite
        for word in ("", "a", "ab", "aab", "bbbbb", "ababab", "aaaaaaaaa", "b" * 12):
            assert result.accepts(word) == language.accepts(word)
        lengths = [(band.low, band.high) for band in result.bands]
        assert all(high is not None and high < low for (_, high), (low, _) in itertools.pairwise(lengths))
        assert all(not band.language(budget).is_empty for band in result.bands)


@pytest.mark.parametrize(
    ("step", "low", "high"),
    [(7, 10**9 + 1, 10**9 + 2), (7, 10**9, 10**9 + 6), (3, 10**18, 10**18), (5, 10**18, 10**18)],
)
def test_lengths_far_out_are_decided_without_walking_there(step: int, low: int, high: int) -> None:
    base = regex_language(f"(a{{{step}}})*", dialect="rust", search=False)
    found = StringSet.of(base, low, high, Budget(seconds=5))
    assert found.is_empty == (low + -low % step > high)


def test_large_bounds_cost_nothing_under_any_operation() -> None:
    budget = Budget({"regex_states": 5_000}, seconds=10)
    any_string = Dfa.everything(CODE_POINTS)
    short = StringSet.of(any_string, 50, 10**6, budget)
    long = short.complement(budget)
    assert [(band.low, band.high) for band in long.bands] == [(0, 49), (10**6 + 1, None)]
    assert long.complement(budget) == short
    assert short.union(long, budget) == ALL_STRINGS
    assert short.intersect(long, budget) == NO_STRINGS
    starts = StringSet(regex_language("^a", dialect="ecma", search=True))
    both = short.difference(starts, budget)
    assert both.bands == (Band(starts.base.complement(), 50, 10**6),)
    assert short.intersect(StringSet.of(any_string, 0, 10**5, budget), budget).bands == (Band(any_string, 50, 10**5),)


def test_what_has_to_be_multiplied_out_is_paid_for() -> None:
    many_states = regex_language("[ab]*a[ab]{8}", dialect="rust", search=False)
    with pytest.raises(BudgetExceeded):
        StringSet.of(many_states, 10**6, 10**6 + 1, Budget())


def test_a_bound_may_be_denied() -> None:
    schema = {"oneOf": [{"type": "string", "maxLength": 2_000}, {"type": "string", "minLength": 1_000}]}
    short, both, long = ('"' + "é" * count + '"' for count in (999, 1_500, 2_001))
    assert texts(schema, short, both, long) == [short, long]
    assert texts({"not": {"maxLength": 2_000}}, short, long, "1") == [long]


@pytest.mark.parametrize(
    ("pattern", "low", "high", "accepted", "refused"),
    [
        ("^data:image/(png|gif|jpe?g);base64,[a-f]*$", 0, 5_000, ["data:image/png;base64," + "f" * 4_978],
         ["data:image/png;base64," + "f" * 4_979, "data:image/png;base64", "data:image/bmp;base64,a"]),
        ("^(abcdefghijklmnop|q{30,}|rs)$", 2, 1_000, ["abcdefghijklmnop", "q" * 30, "q" * 1_000, "rs"],
         ["q" * 29, "q" * 1_001, "r", "abcdefghijklmnopq"]),
        ("^abcdefghijklmnop[é-ü]*$", 20, None, ["abcdefghijklmnop" + "é" * 4, "abcdefghijklmnop" + "é" * 999],
         ["abcdefghijklmnop" + "é" * 3]),
    ],
)  # fmt: skip
def test_lengths_are_counted_beside_any_pattern(
    pattern: str, low: int, high: int | None, accepted: list[str], refused: list[str]
) -> None:
    schema = {"type": "string", "pattern": pattern, "minLength": low}
    schema |= {} if high is None else {"maxLength": high}
    accepts = recognizer(schema).accepts
    assert [accepts(f'"{text}"') for text in accepted] == [True] * len(accepted)
    assert [accepts(f'"{text}"') for text in refused] == [False] * len(refused)
