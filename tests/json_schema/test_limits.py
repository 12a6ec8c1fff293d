"""Limits on what a model could repeat for ever: blanks and digits."""

from __future__ import annotations

from typing import Any

import pytest

from schemac.errors import EmptyLanguageError, SourceError
from tests.json_schema.checking import texts

PAIR: Any = {"type": "array", "items": {"type": "number"}}
OBJECT: Any = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_blanks_in_a_row_are_bounded(limit: int) -> None:
    for text in ("[{0}1]", "[1{0}]", "[1{0},2]", "[1,{0}2]", "[{0}]"):
        for blank in " \n\t\r":
            for count in range(limit + 2):
                candidate = text.format(blank * count)
                assert texts(PAIR, candidate, whitespace_limit=limit) == [candidate] * (count <= limit), candidate
    for text in ('{{{0}"a":1}}', '{{"a"{0}:1}}', '{{"a":{0}1}}', '{{"a":1{0}}}', '{{"a":[1,{0}"b"]}}'):
        good, bad = text.format(" " * limit), text.format(" " * (limit + 1))
        assert texts(OBJECT, good, bad, whitespace_limit=limit) == [good]


def test_blanks_in_strings_are_not_whitespace() -> None:
    assert texts({"type": "string"}, '"     "', whitespace_limit=0) == ['"     "']


def test_digits_are_bounded() -> None:
    good = ["1", "0.33", "-123", "1e12", "1.5e1", "0.001"[:4]]
    assert texts({"type": "number"}, *good, "0.333", "1234", "1.5e12", digit_limit=3) == good
    assert texts({"items": {"enum": [1, 12, 1234, "1234"]}}, "[1,12]", "[1234]", '["1234"]', digit_limit=3) == [
        "[1,12]",
        '["1234"]',
    ]


def test_limits_that_leave_nothing() -> None:
    with pytest.raises(EmptyLanguageError):
        texts({"const": 12345}, digit_limit=3)
    for options in ({"digit_limit": 0}, {"whitespace_limit": -1}):
        with pytest.raises(SourceError):
            texts(PAIR, **options)
