"""Patterns made to hang a compiler: each compiles or is refused within the budget, soon."""

from __future__ import annotations

import time

import pytest

from schemac.budget import Budget
from schemac.errors import BudgetExceeded, SchemacError
from schemac.frontend.regex import regex_language

DEPTH = 20_000
#: (pattern, states of the anchored language, or the budget it exceeds)
CASES = {
    "parentheses": ("(" * DEPTH + "a" + ")" * DEPTH, 2),
    "alternatives": ("(a|" * DEPTH + "b" + ")" * DEPTH, 2),
    "stars": ("(?:" * DEPTH + "a" + ")*" * DEPTH, 1),
    "classes": ("[" * DEPTH + "a" + "]" * DEPTH, 2),
    "unclosed": ("(" * DEPTH, "SourceError"),
    "lookarounds": ("(?=" * DEPTH + "a" + ")" * DEPTH, "UnsupportedError"),
    "overlap": ("(a|aa){1,5000}", 10_001),
    "nested plus": ("(x+x+)+y", 4),
    "nested counts": ("((a{1,100}){1,100}){1,100}", "regex_states"),
    "nested mixed counts": ("((a{1,100}b){1,100}c){1,100}", "regex_states"),
    "a count": ("a{99999999999999999999}", "regex_states"),
    "a count of a group": ("(ab|c){0,99999999999999999999}", "regex_states"),
    "a count of nothing": ("(){99999999999999999999}a", 2),
    "a count of an assertion": (r"(\b){99999999999999999999}a", 2),
    "multiplied counts": ("(((a{99999}b){99999}c){99999}d){99999}", "regex_states"),
    "optional letters": ("a?" * 3000, 3001),
    "nullable body": ("(a?b?c?d?){1,1000}", 4001),
    "exponential": ("(a|b)*a(a|b){60}", "regex_states"),
    "exponential lookahead": ("(.(?=(a|b)*a(a|b){40}$))*", "regex_states"),
    "many lookaheads": ("".join(f"(?=.*{letter})" for letter in "abcdefghij") + ".*", 1024),
    "word list": ("|".join(f"w{number}x" for number in range(5000)), 7),
}


@pytest.mark.parametrize("name", CASES)
def test_hostile_patterns(name: str) -> None:
    pattern, expected = CASES[name]
    budget = Budget({"regex_states": 100_000}, seconds=30)
    begin = time.monotonic()
    try:
        outcome: int | str
        outcome = regex_language(pattern, dialect="rust", search=False, budget=budget, place="#").size
        place = None
    except BudgetExceeded as error:
        outcome, place = error.budget, error.place
    except SchemacError as error:
        outcome, place = type(error).__name__, error.place
    assert outcome == expected
    assert place is None if isinstance(expected, int) else (place or "").startswith("#")
    assert time.monotonic() - begin < 20


def test_search_of_hostile_patterns_is_no_worse() -> None:
    for name in ("overlap", "nullable body", "optional letters", "word list", "alternatives"):
        assert regex_language(CASES[name][0], dialect="ecma", search=True).size < 10


def test_the_deadline_holds() -> None:
    begin = time.monotonic()
    with pytest.raises(BudgetExceeded):
        regex_language("(a|b)*a(a|b){60}", dialect="ecma", search=False, budget=Budget(seconds=0.2))
    assert time.monotonic() - begin < 2


def test_idle_counts_are_dropped_within_a_length_limit() -> None:
    pattern = r"^(?=.{1,255}$)(.{1,63}\.){1,127}[a-z0-9-]+\.?$"
    limited = regex_language(pattern, dialect="ecma", search=True)
    assert limited.size < 100_000
    assert limited.accepts("a." * 127 + "b") and not limited.accepts("a." * 127 + "bb")
    assert limited.accepts("a" * 63 + ".b") and not limited.accepts("a" * 64 + ".b")
    longest = regex_language(pattern.replace("(?=.{1,255}$)", ""), dialect="ecma", search=True, longest=255)
    assert longest.size < 1000
