"""The search for an accepted ordering, against all permutations spelled out."""

from __future__ import annotations

import itertools
import json
import random
from decimal import Decimal
from typing import Any

import pytest

import schemac
from benchmarks.canonical import Reader, declared_keys, dump, parse, spellings
from schemac.ir.recognizer import check


def reader(schema: Any, steps: int = 200_000) -> Reader:
    return Reader(schemac.compile(schema, whitespace="compact").automaton, schema, steps)


def orderings(value: Any) -> list[Any]:
    """`value` with its keys in every order, inner ones included."""
    if isinstance(value, list):
        return [list(items) for items in itertools.product(*map(orderings, value))]
    if not isinstance(value, dict):
        return [value]
    return [
        dict(zip(keys, members, strict=True))
        for keys in itertools.permutations(value)
        for members in itertools.product(*(orderings(value[key]) for key in keys))
    ]


SCHEMAS: list[Any] = [
    {"properties": {"b": {"type": "integer"}, "a": {}}, "required": ["c"]},
    {"additionalProperties": {"type": "integer"}, "maxProperties": 3, "properties": {"a": {}, "b": {}, "c": {}}},
    {
        "oneOf": [
            {"properties": {"a": {"const": 1}, "b": {}}, "required": ["a"]},
            {"properties": {"b": {}, "a": {"enum": [1, 2]}}, "required": ["a", "b"]},
        ]
    },
    {"type": "object", "patternProperties": {"^a": {"items": {"properties": {"y": {}, "x": {"type": "null"}}}}}},
    {"if": {"required": ["b"]}, "then": {"properties": {"a": {"type": "null"}}}, "else": {"required": ["c"]}},
]


def random_value(generator: random.Random, depth: int) -> Any:
    kind = generator.choice(["scalar", "object", "object", "array"] if depth else ["scalar"])
    if kind == "object":
        keys = generator.sample("abcxy", generator.randrange(4))
        return {key: random_value(generator, depth - 1) for key in keys}
    if kind == "array":
        return [random_value(generator, depth - 1) for _ in range(generator.randrange(3))]
    return generator.choice([None, 1, 2, "a"])


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_an_ordering_is_found_exactly_if_there_is_one(schema: Any) -> None:
    automaton = schemac.compile(schema, whitespace="compact").automaton
    search = Reader(automaton, schema)
    generator = random.Random(7)
    outcomes = set()
    for _ in range(60):
        value = random_value(generator, 2)
        texts = [json.dumps(ordering, separators=(",", ":")).encode() for ordering in orderings(value)]
        accepted = {text for text in texts if check(automaton, text).accepted}
        found = search.search(value)
        assert found.complete
        assert found.text in accepted if accepted else found.text is None
        outcomes.add(found.accepted)
    assert outcomes == {True, False}


def test_a_search_that_is_cut_off_says_so() -> None:
    schema = {"additionalProperties": {"type": "integer"}, "properties": {"z": False}}
    value = {f"k{index}": index for index in range(20)}
    assert reader(schema).search(value).accepted
    found = reader(schema, steps=500).search({**value, "z": 1})
    assert (found.accepted, found.complete) == (False, False)
    deep: Any = []
    for _ in range(3_000):
        deep = [deep]
    assert not reader({}).search(deep).complete


@pytest.mark.parametrize(
    ("number", "texts"),
    [
        ("1", [b"1"]),
        ("1.0", [b"1", b"1.0"]),
        ("-0.0", [b"0", b"-0.0"]),
        ("1e2", [b"100", b"100.0", b"1E+2"]),
        ("0.50", [b"0.5", b"0.50"]),
        ("1e-7", [b"0.0000001", b"1e-07", b"1E-7"]),
        ("0.1000000000000000055511151231257827", [b"0.1000000000000000055511151231257827"]),
    ],
)
def test_numbers_are_plain_decimals_first(number: str, texts: list[bytes]) -> None:
    assert spellings(parse(number)) == texts


def test_spellings_of_other_scalars() -> None:
    assert spellings('a"\\\u0007\n/\u00e9\U0001f600') == ['"a\\"\\\\\\u0007\\n/\u00e9\U0001f600"'.encode()]
    assert spellings("\u00e9", "every") == ['"\u00e9"'.encode(), b'"\\u00e9"']
    assert spellings(5, "every") == [b"5", b"5.0", b"5e0"]
    assert spellings(Decimal("5.0"), "own") == [b"5.0"]
    assert spellings(None) + spellings(True) == [b"null", b"true"]


def test_declared_keys_come_first_in_the_order_of_the_schema() -> None:
    schema = {"required": ["r", "b"], "properties": {"b": {"properties": {"z": {}}}, "a": {"required": ["q"]}}}
    assert declared_keys(schema) == [["b", "a", "r"], ["z"], ["q"], ["b", "a", "r", "z", "q"]]
    assert declared_keys({"enum": [{"properties": 1, "required": "abc"}]}) == [[]]
    # Two objects, the same keys in opposite orders: neither search has to look at many orderings.
    names = [f"k{index}" for index in range(25)]
    inner = {"properties": {name: {} for name in reversed(names)}, "additionalProperties": False}
    outer = {"properties": {**{name: {} for name in names}, "inner": inner}, "additionalProperties": False}
    value = dict.fromkeys(names, 1)
    assert reader(outer, steps=200).search({"inner": value, **value}).accepted


def test_schemas_are_written_with_their_own_digits() -> None:
    text = '{"maximum":100.10,"const":1E+400,"b":[true,null,"\\u00e9"]}'
    assert dump(parse(text)) == text
