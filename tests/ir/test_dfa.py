"""Laws of `Dfa`, against enumeration of all short words."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemac.budget import Budget
from schemac.errors import BudgetExceeded
from schemac.ir import minimize
from schemac.ir.charset import BYTES, CODE_POINTS, CharSet
from schemac.ir.dfa import Dfa, intersect_all, union_all
from schemac.ir.minimize import Table

LIMIT = 3
WORDS = [word for length in range(6) for word in itertools.product(range(LIMIT + 1), repeat=length)]


def language(dfa: Dfa) -> set[tuple[int, ...]]:
    """The words of up to five symbols."""
    found = {()} if dfa.accepts(()) else set()
    ends: dict[tuple[int, ...], int] = {(): 0 if dfa.size else -1}
    for word in WORDS[1:]:
        state = ends[word] = dfa.step(ends[word[:-1]], word[-1]) if ends[word[:-1]] >= 0 else -1
        if state >= 0 and dfa.accepting[state]:
            found.add(word)
    return found


@st.composite
def tables(draw: st.DrawFn) -> Dfa:
    """Any small automaton, some of them finite, some with much that is equivalent."""
    count = draw(st.integers(1, 6))
    shape = draw(st.sampled_from(["any", "forward", "total"]))
    rows = []
    for state in range(count):
        low = state + 1 if shape == "forward" else 0
        targets = list(range(low, count)) + ([] if shape == "total" and count > low else [-1])
        rows.append(draw(st.lists(st.sampled_from(targets), min_size=2, max_size=2)))
    accepting = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    cut = draw(st.integers(1, LIMIT))
    table = Table(
        np.array([0, cut], np.int32), np.array([0, 1], np.int32), np.array(rows, np.int32), np.array(accepting)
    )
    return Dfa.from_table(LIMIT, table)


def check_normal(dfa: Dfa) -> None:
    """Building again, by another way, gives the very same arrays; every pair of states differs in language."""
    again = Dfa.from_table(LIMIT, Table(dfa.starts, dfa.classes, dfa.table, dfa.accepting))
    assert again == dfa and hash(again) == hash(dfa)
    assert dfa.reverse().reverse() == dfa
    residuals = {dfa.residual(state) for state in range(dfa.size)}
    assert len(residuals) == dfa.size and not any(residual.is_empty for residual in residuals)


@settings(max_examples=150, deadline=None)
@given(tables(), tables())
def test_operations_are_those_of_sets(left: Dfa, right: Dfa) -> None:
    one, two = language(left), language(right)
    every = set(WORDS)
    for result, expected in [
        (left.intersect(right), one & two),
        (left.union(right), one | two),
        (left.difference(right), one - two),
        (left.complement(), every - one),
        (left.optional(), one | {()}),
        (union_all([left, right, left.complement()], LIMIT), every),
        (intersect_all([left, right], LIMIT), one & two),
        (left.reverse(), {word[::-1] for word in one}),
        (left.concat(right), {a + b for a in one for b in two if len(a + b) <= 5}),
    ]:
        assert language(result) == expected
        check_normal(result)
    assert left.complement().complement() == left
    assert left.union(right).complement() == left.complement().intersect(right.complement())


@settings(max_examples=100, deadline=None)
@given(tables(), st.integers(0, 3), st.none() | st.integers(0, 2))
def test_repeat_is_repeated_concatenation(body: Dfa, low: int, more: int | None) -> None:
    high = None if more is None else low + more
    expected: set[tuple[int, ...]] = set()
    power = {()}
    words = language(body)
    for count in range(9 if high is None else high + 1):
        if count >= low:
            expected |= power
        power = {a + b for a in power for b in words if len(a + b) <= 5}
    result = body.repeat(low, high)
    assert language(result) == expected
    check_normal(result)


@settings(max_examples=100, deadline=None)
@given(tables())
def test_queries(dfa: Dfa) -> None:
    words = sorted(language(dfa), key=lambda word: (len(word), word))
    enumerated = dfa.words(40)
    assert all(dfa.accepts(word) for word in enumerated)
    short = [word for word in enumerated if len(word) <= 5]
    assert short == words[: len(short)] and (len(enumerated) == 40 or dfa.is_finite)
    assert dfa.is_empty == (dfa.size == 0)
    assert dfa.min_length == (len(enumerated[0]) if enumerated else -1)
    if dfa.is_finite:
        assert dfa.max_length == max((len(word) for word in language(dfa)), default=-1)
    else:
        assert dfa.max_length is None
    rebuilt = np.full((dfa.size, LIMIT + 1), -1)
    for state, low, high, target in dfa.edges():
        assert (rebuilt[state, low : high + 1] == -1).all()
        rebuilt[state, low : high + 1] = target
    assert [[dfa.step(state, symbol) for symbol in range(LIMIT + 1)] for state in range(dfa.size)] == rebuilt.tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, LIMIT), max_size=5)))
def test_literals(words: list[list[int]]) -> None:
    dfa = Dfa.literals(words, LIMIT)
    assert language(dfa) == {tuple(word) for word in words}
    check_normal(dfa)
    assert dfa == union_all([Dfa.literal(word, LIMIT) for word in words], LIMIT)


def test_vectorized_and_looped_steps_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large automata take other code than small ones; force it on small ones."""
    words = [f"{number * 7919 % 1000:b}" for number in range(300)]
    plain = Dfa.literals(words, CODE_POINTS)
    other = Dfa.runs(CharSet.of((48, 49)), 2, 7, CODE_POINTS)
    results = [plain.complement(), plain.difference(other), plain.concat(other), plain.star(), plain.union(other)]
    monkeypatch.setattr(minimize, "_LOOP_EDGES", -1)
    assert results == [
        plain.complement(),
        plain.difference(other),
        plain.concat(other),
        plain.star(),
        plain.union(other),
    ]
    assert plain.is_finite and plain.max_length == 10


def test_equal_hashes_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"{number:03d}" for number in range(0, 1000, 7)]
    expected = Dfa.literals(words, CODE_POINTS)
    monkeypatch.setattr(minimize, "_MULTIPLIERS", np.zeros(1 << 12, np.uint64))
    again = Dfa.from_table(CODE_POINTS, Table(expected.starts, expected.classes, expected.table, expected.accepting))
    assert again == expected and expected.star().intersect(expected) == expected


def test_long_chains() -> None:
    digit = CharSet.of((48, 57))
    chain = Dfa.runs(digit, 1, 5000, CODE_POINTS)
    assert chain == Dfa.symbols(digit, CODE_POINTS).repeat(1, 5000)
    assert chain.complement().complement() == chain
    assert chain.difference(Dfa.runs(digit, 3, 4000, CODE_POINTS)).words(2) == [(48,), (49,)]
    assert chain.concat(Dfa.literal("x", CODE_POINTS).star()).size == 5001


@pytest.mark.parametrize("count", [10**20, 10**7])
def test_counts_beyond_the_budget_are_refused_first(count: int) -> None:
    for body in ("a", "ab"):
        with pytest.raises(BudgetExceeded) as caught:
            Dfa.literal(body, CODE_POINTS).repeat(count, None)
        assert caught.value.budget == "regex_states"
        with pytest.raises(BudgetExceeded):
            Dfa.literal(body, CODE_POINTS).repeat(0, count)


def test_nullable_bodies_repeat_as_one_chain() -> None:
    body = Dfa.literals(["", "ab"], CODE_POINTS)
    assert body.repeat(1000, 2000) == Dfa.literal("ab", CODE_POINTS).repeat(0, 2000)


def test_budget_is_shared_and_named() -> None:
    budget = Budget({"regex_states": 100})
    with pytest.raises(BudgetExceeded, match="regex states"):
        Dfa.runs(CharSet.of(1), 50, 60, BYTES, budget=budget).concat(
            Dfa.runs(CharSet.of(2), 80, 80, BYTES), budget=budget
        )


def test_alphabets_must_agree() -> None:
    with pytest.raises(ValueError, match="alphabets differ"):
        Dfa.literal("a", BYTES).union(Dfa.literal("a", CODE_POINTS))
    with pytest.raises(ValueError, match="outside"):
        Dfa.literal([256], BYTES)
