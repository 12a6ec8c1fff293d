"""Limits on the tokens of guarded texts: whatever the masks allow, the text ends in time, and is valid."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import schemac
from schemac_runtime import MatcherError, allocate_bitmask, unpack
from schemac_runtime.program import Program
from tests.runtime.test_guarded import PIECES, STOP, VOCABULARY, strictly

ONE = {"const": 1}
#: Objects and arrays for which it matters what has been read.
SCHEMAS: list[Any] = [
    {"properties": {"a": ONE, "bbbb": ONE, "cccccccc": ONE}, "required": ["a", "bbbb", "cccccccc"],
     "additionalProperties": False},
    {"properties": {"a": ONE, "bbbb": ONE, "cccccccc": ONE}, "required": ["bbbb"], "additionalProperties": False},
    {"properties": {"a": {"type": "integer"}, "ab": {"enum": ["x", "yyyyyyy"]}}, "required": ["ab"],
     "additionalProperties": {"type": "boolean"}},
    {"required": ["name", "na", "value"], "additionalProperties": {"type": ["null", "string"]}},
    {"required": ["é", "quoted \"x\"", "\\n"], "additionalProperties": ONE},
    {"required": ["long", "longer", "longest"], "additionalProperties": ONE, "maxProperties": 3},
    {"required": ["b"], "additionalProperties": {"enum": [0, 1000]}, "minProperties": 3, "maxProperties": 4},
    {"required": ["outer"], "properties": {"outer": {"type": "object", "required": ["inner", "other"],
     "additionalProperties": {"type": "array", "items": ONE}}}, "additionalProperties": False},
    {"minProperties": 4, "additionalProperties": {"type": "integer"}},
    {"properties": {"a": ONE, "b": ONE, "cc": ONE, "ddd": ONE, "eeee": ONE}, "minProperties": 4,
     "additionalProperties": False},
    {"oneOf": [{"properties": {"k": {"const": "one"}}, "required": ["k", "first"]},
               {"properties": {"k": {"const": "two"}}, "required": ["k", "second", "third"]}],
     "additionalProperties": ONE, "properties": {"k": True}},
    {"anyOf": [{"required": ["aaaaaaaa", "b"]}, {"required": ["cccccccccccc"]}], "additionalProperties": False,
     "properties": {"aaaaaaaa": ONE, "b": ONE, "cccccccccccc": ONE, "x": ONE}},
    {"dependentRequired": {"a": ["bbbbbbbb"]}, "required": ["c"], "additionalProperties": ONE},
    {"patternProperties": {"^x+$": ONE}, "additionalProperties": False, "minProperties": 3},
    {"propertyNames": {"enum": ["a", "bb", "cccccc", "dddddddddd"]}, "minProperties": 3, "additionalProperties": ONE},
    {"type": "array", "items": {"enum": ["a", "ab", "abcdefghij", 1, 123456]}, "uniqueItems": True, "minItems": 4},
    {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True, "minItems": 3},
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "string", "pattern": "^a*$"}, "uniqueItems": True, "minItems": 3},
    {"type": "array", "items": {"type": "number"}, "uniqueItems": True},
    {"type": "array", "uniqueItems": True, "minItems": 1},
    {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3, "uniqueItems": True},
     "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
     "additionalProperties": False}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "prefixItems": [ONE, {"const": "aa"}], "items": {"type": "boolean"}, "uniqueItems": True},
]  # fmt: skip
#: Limits from the least one on are tried at this distance.
STEP = 6
CASES = [(schema, order) for schema in SCHEMAS for order in ("any", "schema")]


def linked(schema: Any, order: str, whitespace: str = "compact") -> Program:
    whole = schema if "type" in schema else {"type": "object", **schema}
    compiled = schemac.compile(json.dumps(whole), key_order=order, whitespace=whitespace)
    return schemac.link(compiled, VOCABULARY).programs[0]


def answer(program: Program, budget: int, generator: random.Random) -> bytes | None:
    """A text drawn from the masks within a budget, now and then with a step back; None if it did not end."""
    matcher = program.matcher()
    row = allocate_bitmask(1, program.vocab_size)
    tokens: list[int] = []
    steps = 0
    while not matcher.is_terminated():
        left = budget - len(tokens)
        if left <= 0:
            return None
        matcher.fill_bitmask(row, budget=left)
        allowed = np.flatnonzero(unpack(row, program.vocab_size)[0])
        assert len(allowed)
        token = int(allowed[generator.randrange(len(allowed))])
        assert matcher.accept(token)
        tokens.append(token)
        steps += 1
        if steps < 3 * budget and generator.random() < 0.1:
            back = generator.randrange(len(tokens) + 1)
            matcher.rollback(back)
            del tokens[len(tokens) - back :]
    return b"".join(b"" if token == STOP else PIECES[token] for token in tokens)


@pytest.mark.parametrize(("schema", "order"), CASES, ids=[f"{order} {json.dumps(s)[:70]}" for s, order in CASES])
def test_limits_are_kept(schema: Any, order: str) -> None:
    program = linked(schema, order)
    validator = Draft202012Validator(schema)
    generator = random.Random(json.dumps(schema) + order)
    least = program.min_tokens()
    for budget in range(least, least + 31, STEP):
        text = answer(program, budget, generator)
        assert text is not None, budget
        assert validator.is_valid(strictly(text) if order == "any" else json.loads(text)), text
    with pytest.raises(MatcherError, match="not enough"):
        program.matcher().fill_bitmask(allocate_bitmask(1, program.vocab_size), budget=least - 1)


@pytest.mark.parametrize("schema", [SCHEMAS[index] for index in (0, 3, 7, 15, 17)])
def test_limits_are_kept_with_white_space(schema: Any) -> None:
    """Tokens that end a value and its object count on nothing that a guard may forbid."""
    program = linked(schema, "any", "flexible")
    generator = random.Random(json.dumps(schema))
    for budget in range(program.min_tokens(), program.min_tokens() + 30, 5):
        text = answer(program, budget, generator)
        assert text is not None, budget
        assert Draft202012Validator(schema).is_valid(strictly(text)), text
