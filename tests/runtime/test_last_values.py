"""Arrays whose items run out: no token leads to where only repetitions are left, however many ways there are to write
them.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from schemac_runtime.registers import begun_value
from tests.runtime.test_guarded import PIECES, STOP, allowed, linked

NUMBER = {"type": "number"}


def objects(names: str, **more: Any) -> dict[str, Any]:
    members = {name: {"const": 1} for name in names}
    return {"type": "object", "properties": members, "required": list(names), "additionalProperties": False, **more}


#: (the items, options, texts of an array up to where one more item cannot come, or not by the next byte).
CASES: list[tuple[Any, dict[str, Any], list[tuple[bytes, bytes]]]] = [
    ({"enum": [0, 1]}, {"whitespace_limit": 3}, [(b"[1 ,\n1", b""), (b"[1,", b"1"), (b"[0,1", b",")]),
    (NUMBER, {"digit_limit": 2}, [(b"[0,0", b"e"), (b"[0,0", b",")]),
    (NUMBER, {}, [(b"[0,0", b"e"), (b"[0,-0.00", b"E"), (b"[1,0e5,0", b"e")]),
    ({"type": "array", "items": NUMBER, "maxItems": 1}, {}, [(b"[[0],[0", b"e")]),
    ({"type": "object", "properties": {"a": NUMBER}, "required": ["a"], "additionalProperties": False}, {},
     [(b'[{"a":0},{"a":0', b"e")]),
    (objects("ab"), {"key_order": "any"}, [(b'[{"a":1,"b":1}', b",")]),
    (objects("abcdef"), {"key_order": "any", "whitespace": "flexible"},
     [(b'[{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}', b",")]),
    ({"enum": [{"a": 1}, {"a": 2}, {"a": 1, "b": 1}]}, {"key_order": "any", "whitespace": "flexible"},
     [(b'[{"a": 1}, {"b":1,"a":1}, {', b""), (b'[{"a": 1}, {"b":1,"a":1}, {"', b"b")]),
    ({"type": "array", "items": {"const": 1}, "minItems": 70, "maxItems": 70}, {},
     [(b"[[" + b"1," * 69 + b"1]", b",")]),
    ({"type": "string", "pattern": "^(ab){700}$"}, {}, [(b'["' + b"ab" * 700 + b'"', b",")]),
    ({"type": "string", "pattern": "^a{700}$"}, {}, [(b'["' + b"a" * 700 + b'"', b",")]),
]  # fmt: skip


@pytest.mark.parametrize(("items", "options", "texts"), CASES, ids=[json.dumps(case[:2])[:70] for case in CASES])
def test_nothing_leads_to_repetitions_only(items: Any, options: dict[str, Any], texts: list[Any]) -> None:
    schema = {"type": "array", "items": items, "uniqueItems": True}
    program, _ = linked(schema, **{"whitespace": "compact", **options})
    for text, refused in texts:
        matcher = program.matcher()
        if not refused:  # that far at the most
            matcher.accept_all(text)
            assert allowed(program, matcher)
            continue
        assert matcher.accept_all(text), text
        mask = allowed(program, matcher)
        assert mask
        assert refused[0] not in mask
        for token in range(program.vocab_size):
            assert matcher.fork().accept(token) == (token in mask), (text, token)


@pytest.mark.parametrize(("items", "options", "_texts"), CASES, ids=[json.dumps(case[:2])[:70] for case in CASES])
def test_walks_can_always_go_on(items: Any, options: dict[str, Any], _texts: list[Any]) -> None:
    schema = {"type": "array", "items": items, "uniqueItems": True}
    program, _ = linked(schema, **{"whitespace": "compact", **options})
    generator = random.Random(2)
    for _ in range(4):
        matcher, text = program.matcher(), b""
        for _ in range(60):
            mask = allowed(program, matcher)
            assert mask, text
            if STOP in mask:
                assert Draft202012Validator(schema).is_valid(json.loads(text)), text
                break
            if len(mask) < 20:
                assert {token for token in range(program.vocab_size) if matcher.fork().accept(token)} == mask, text
            token = generator.choice(sorted(mask - {*b"] eE"}) or sorted(mask))
            assert matcher.accept(token)
            text += PIECES[token]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (b"[1,", b"[1.0 ,"),
        (b'{"a":1,"b":[],', b'{"b":[ ],"a":1e0,'),
        (b'[[{"a":1},2,', b'[[{"a":1.0},20e-1,'),
        (b'["\\u0061",', b'["a",'),
    ],
)
def test_beginnings_of_equal_values(text: bytes, same: bytes) -> None:
    assert begun_value(text) == begun_value(same) is not None


@pytest.mark.parametrize("text", [b"[1", b'["a,', b'["a\\",', b"", b"1,", b"[1],"])
def test_beginnings_that_do_not_end_with_a_comma_inside(text: bytes) -> None:
    assert begun_value(text) is None


def test_beginnings_that_go_on_elsewhere_differ() -> None:
    assert begun_value(b"[1,") != begun_value(b"[[1,")
    assert begun_value(b"[[],") != begun_value(b"[[[],")


def test_keys_of_which_a_character_is_half_read() -> None:
    inner = {"type": "object", "properties": {"b\"": {"const": 1}}, "required": ["a"]}
    items = {"type": "object", "properties": {"a": inner, "é": {"const": 1}, "aa": {"const": 1}}}
    program, _ = linked({"type": "array", "items": items, "uniqueItems": True}, whitespace="compact", key_order="any")
    matcher = program.matcher()
    for token in '[{"a":{"a":1}},{"a":{"é\\"12éb\\"é":1,"é'.encode():
        assert matcher.accept(token)
        mask = allowed(program, matcher)
        assert mask
        for other in range(128, STOP):
            assert matcher.fork().accept(other) == (other in mask)
