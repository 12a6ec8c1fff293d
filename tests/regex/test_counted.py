"""Large counts of one character set: bounds on the length instead of states."""

from __future__ import annotations

import pytest

from schemac.frontend.regex import lower, parse
from schemac.frontend.regex.counted import counted
from tests.json_schema.checking import texts


@pytest.mark.parametrize(
    ("pattern", "low", "high"),
    [
        ("^[a-z]{1,5000}$", 1, 5000),
        ("^.{0,100}$", 0, 100),
        ("^ab[a-z]{3,5000}(c|d)$", 6, 5003),
        ("^(ab|cd){2}x{70,}$", 74, None),
        ("^x{70}$", 70, 70),
    ],
)
def test_counts_become_bounds(pattern: str, low: int, high: int | None) -> None:
    found = counted(parse(pattern, dialect="ecma"))
    assert found is not None
    tree, *bounds = found
    assert bounds == [low, high]
    small, large = lower(tree, search=True), lower(parse(pattern, dialect="ecma"), search=True)
    for word in (large.words(3) if large.is_finite else []):
        assert small.accepts(word)
    assert small.size < 40 <= large.size


@pytest.mark.parametrize(
    "pattern",
    ["[a-z]{1,5000}", "^[a-z]{1,5000}", "^a*[a-z]{1,5000}$", "^(ab){1,500}$", "^[a-z]{1,500}[0-9]{1,500}$", "^a{1,9}$",
     "^(a|bc)[a-z]{1,500}$", "^x{1,500}|y$", "^$", ""],
)  # fmt: skip
def test_other_patterns_are_left_alone(pattern: str) -> None:
    assert counted(parse(pattern, dialect="ecma")) is None


def test_patterns_with_large_counts_in_schemas() -> None:
    schema = {"type": "string", "pattern": "^ab[c-e]{3,5000}f$", "maxLength": 4_000}
    cases = ["ab" + "d" * count + "f" for count in (2, 3, 3_997, 3_998)]
    assert [bool(texts(schema, f'"{case}"')) for case in cases] == [False, True, True, False]
    assert texts({"not": {"pattern": "^a{0,900}$"}}, '"a"', '""', f'"{"a" * 901}"', '"b"') == [f'"{"a" * 901}"', '"b"']
