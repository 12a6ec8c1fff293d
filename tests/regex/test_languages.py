"""The language of a pattern against RE2, Python's `re` and a matcher that follows the definition."""

from __future__ import annotations

import re
import warnings

import pytest
import re2
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from schemac.budget import Budget
from schemac.errors import BudgetExceeded
from schemac.frontend.regex import lower, parse, regex_language
from tests.regex.strategies import ALPHABET, TEXTS, matches, patterns

PLAIN = patterns([], [])
ANCHORED = patterns(["^", "$"], [])
BOUNDED = patterns([r"\b", r"\B", "^", "$"], [])
AHEAD = patterns([r"\b", "$"], ["(?=", "(?!"])
AROUND = patterns([r"\b", r"\B", "^", "$"], ["(?=", "(?!", "(?<=", "(?<!"])


@settings(max_examples=200, deadline=None)
@given(PLAIN | BOUNDED, st.lists(TEXTS, min_size=4, max_size=12), st.sampled_from(["", "s", "m", "i", "ms"]))
def test_rust_dialect_against_re2(pattern: str, texts: list[str], flags: str) -> None:
    try:
        peer = re2.compile(f"(?{flags})(?:{pattern})" if flags else pattern)
    except re2.error:
        return
    language = regex_language(pattern, dialect="rust", search=False, flags=flags)
    found = regex_language(pattern, dialect="rust", search=True, flags=flags)
    for text in texts:
        assert language.accepts(text) == (peer.fullmatch(text) is not None), text
        assert found.accepts(text) == (peer.search(text) is not None), text


@settings(max_examples=300, deadline=None)
@given(PLAIN | ANCHORED | AHEAD, st.lists(TEXTS, min_size=4, max_size=12))
def test_both_dialects_against_python(pattern: str, texts: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = re.compile(pattern.replace("$", r"\Z"))  # Python's $ also holds before a last line feed
    for dialect in ("rust", "ecma"):
        language = regex_language(pattern, dialect=dialect, search=False)  # type: ignore[arg-type]
        found = regex_language(pattern, dialect=dialect, search=True)  # type: ignore[arg-type]
        for text in texts:
            assert language.accepts(text) == (peer.fullmatch(text) is not None), text
            assert found.accepts(text) == (peer.search(text) is not None), text


@settings(max_examples=400, deadline=None)
@given(ANCHORED | BOUNDED | AROUND, st.lists(TEXTS, min_size=4, max_size=12), st.booleans(), st.sampled_from(["", "m"]))
def test_against_the_definition(pattern: str, texts: list[str], search: bool, flags: str) -> None:
    node = parse(pattern, dialect="rust", flags=flags)
    try:
        language = lower(node, search=search, budget=Budget({"regex_states": 50_000}, seconds=20))
    except BudgetExceeded:
        reject()  # lookarounds inside lookarounds can need very many states, though hardly any of these do
    for text in [*texts, "", *ALPHABET]:
        assert language.accepts(text) == matches(node, text, search), text
    for word in language.words(5):
        if len(word) < 12:
            assert matches(node, "".join(map(chr, word)), search)


@pytest.mark.parametrize(
    ("pattern", "accepted", "rejected"),
    [
        # assertions at the ends, in the middle, in loops
        ("^a|b$", ["a", "ax", "b", "xb"], ["xa", "bx", ""]),
        ("(^a|b)+c", ["ac", "abc", "bbc", "xbc"], ["xac"]),
        ("(a$|b)+", ["a", "b", "ba", "bx"], ["ax"]),
        ("^(?!.*foo)(?=.*[0-9])[a-z0-9]{3,}$", ["ab1", "123"], ["foo1", "abc", "a1"]),
        ("^((?!foo).)*$", ["", "fo", "barfo"], ["foo", "xfoox"]),
        (r"^\w+(?<!_)$", ["a", "_a"], ["a_", "_"]),
        (r"(?<=a)b(?=c)", ["abc", "xabcx"], ["bc", "ab", "xbc"]),
        (r"^(?:(?<=^|,)\d+(?=,|$),?)+$", ["1", "1,22", "1,2,"], ["1,,2", ","]),
        (r"\bfoo\b", ["foo", "a foo b", "-foo-"], ["foos", "afoo"]),
        (r"(?<!\bnot )ok", ["ok", "knot ok"], ["not ok"]),
        (r"^(?=(?!ab)a.$).*", ["aa", "ac"], ["ab", "a", "aaa"]),
        (r"(?<=(?=ab)..)c", ["abc"], ["bbc", "acc"]),
        (r"x(?<=^a(?=x$)x)", ["ax"], ["axb", "bax", "x"]),
        (r"(?=a(?!$))a.(?<!b)", ["aa", "baa"], ["a", "ab"]),
        (r"^(?!(?!a))", ["a", "ab"], ["", "b"]),
    ],
)
def test_assertions(pattern: str, accepted: list[str], rejected: list[str]) -> None:
    for dialect in ("rust", "ecma"):
        language = regex_language(pattern, dialect=dialect, search=True)  # type: ignore[arg-type]
        assert [text for text in accepted if not language.accepts(text)] == []
        assert [text for text in rejected if language.accepts(text)] == []
