"""A format that is written more narrowly than it is defined must not let its other texts through under negation."""

from __future__ import annotations

import json

import pytest

import schemac
from schemac.errors import UnsupportedError


def accepts(schema: object, value: object) -> bool:
    automaton = schemac.compile(json.dumps(schema)).automaton
    return schemac.check(automaton, json.dumps(value).encode()).accepted


@pytest.mark.parametrize(
    ("name", "unwritten"),
    [
        ("hostname", ".".join(["a" * 50] * 4)),
        ("hostname", "xn--ihqwcrb4cv8a8dqg056pqjye"),
        ("date-time", "0000-01-01T00:00:00Z"),
    ],
)
def test_conforming_texts_that_are_not_written_stay_out(name: str, unwritten: str) -> None:
    assert not accepts({"format": name, "type": "string"}, unwritten)
    assert not accepts({"not": {"format": name}}, unwritten)
    assert not accepts({"oneOf": [{"format": name}, {"type": "string"}]}, unwritten)
    assert accepts({"not": {"format": name}}, "..")
    assert accepts({"oneOf": [{"format": name}, {"type": "string"}]}, "..")


def test_both_branches_of_one_of_may_hold() -> None:
    schema = {"type": "string", "oneOf": [{"format": "hostname"}, {"format": "ipv4"}]}
    assert accepts(schema, "example.org")
    assert not accepts(schema, "1.2.3.4")  # a host name too
    assert accepts({"not": {"not": {"format": "hostname"}}, "type": "string"}, "example.org")


def test_key_names() -> None:
    assert accepts({"propertyNames": {"format": "hostname"}}, {"a": 1})
    assert not accepts({"propertyNames": {"format": "hostname"}}, {"..": 1})
    assert accepts({"not": {"propertyNames": {"format": "ipv4"}}}, {"..": 1})
    with pytest.raises(UnsupportedError, match="propertyNames"):
        accepts({"not": {"propertyNames": {"format": "hostname"}}}, {"..": 1})
