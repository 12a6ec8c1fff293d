"""Registers: masks against every token tried, texts against jsonschema, and the past."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import schemac
from schemac.ir.recognizer import Places, Recognizer
from schemac.vocabulary import Vocabulary
from schemac_runtime import load
from schemac_runtime.errors import PackageError
from schemac_runtime.program import Program
from schemac_runtime.registers import canonical_value

PIECES = [
    *(bytes((byte,)) for byte in range(256)),
    *(b'"a"', b'"b', b'ab"', b'","', b'"],', b'[1,1', b"1,1]", b'["a","a"', b'[]', b'{}', b'"a":', b'{"a":', b'":1,"'),
    *(b'"a":1,"a"', b'"b":1}', b"]]", b"],[", b'\\"', b"\\u0061", "é".encode(), "éé".encode(), b"aaaa"),
    *(b"aaaaaaaa", b" ,"),
    *(b"true", b"null", b"12", b"0", b"00", b"},{", b'"}', b'"]', b'aa","aa"', b"\\ud83d\\ude00", b"\\ud83d"),
    *(b"\n", b", ", b"0E", b"e1"),
]  # fmt: skip
STOP = len(PIECES)
VOCABULARY = Vocabulary((*PIECES, None), special={"<end>": STOP}, stop_ids=(STOP,))

SCHEMAS: list[Any] = [
    {"type": "string", "maxLength": 1_000},
    {"type": "string", "minLength": 310, "maxLength": 700},
    {"type": "string", "minLength": 700},
    {"type": "string", "pattern": "^[a-z]([-a-z]*[a-z])?$", "maxLength": 600},
    {"type": "array", "items": {"enum": ["a", "b", "ab", 1, 12]}, "uniqueItems": True, "minItems": 3},
    {"type": "array", "items": {"type": ["string", "integer"], "maxLength": 3}, "uniqueItems": True},
    {"type": "array", "uniqueItems": True, "maxItems": 4},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 100, "minItems": 2},
    {"type": "array", "items": {"type": "integer", "maximum": 9, "minimum": 0}, "minItems": 70},
    {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True},
     "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"const": "a"}], "items": {"type": "string"},
     "uniqueItems": True},
    {"type": "array", "uniqueItems": True, "items": {"type": "object", "properties": {"a": {"type": "integer",
     "minimum": 0, "maximum": 3}, "b": {"type": "boolean"}}, "required": ["a", "b"], "additionalProperties": False}},
    {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "a b", "a,b", "b\"", 1, 1.5, 12, None, True]}},
    {"type": "array", "uniqueItems": True, "items": {"type": ["boolean", "null", "number"]}},
    {"type": "array", "uniqueItems": True, "items": {"type": "object", "properties": {"a": {"type": "array",
     "items": {"type": "integer"}, "uniqueItems": True}, "b": {"type": "string"}}, "additionalProperties": False}},
]  # fmt: skip
#: Objects whose members may come in any order.
UNORDERED: list[Any] = [
    {"properties": {"a": {"type": "integer"}, "ab": {"type": "integer"}}, "required": ["ab"], "type": "object"},
    {"properties": {"a": {"const": 1}, "b": {"const": 1}, "ab": {"const": 1}}, "required": ["b"], "type": "object",
     "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2, "maxProperties": 3},
    {"type": "object", "properties": {"a": {"type": "object", "required": ["b", "a"], "properties": {"b": {"const": 1}},
     "additionalProperties": {"type": "integer"}}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "required": ["b", "ab", "aaaa"], "additionalProperties": {"const": 1}, "maxProperties": 4},
    {"type": "object", "required": ["b", "ab"], "additionalProperties": {"const": 1}, "minProperties": 2,
     "maxProperties": 2},
    {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 1}, "aa": {"const": 1}, "éb": {"const": 1}},
     "required": ["éb", "a"], "additionalProperties": False, "minProperties": 3},
    {"type": "object", "maxProperties": 0},
    {"type": "object", "patternProperties": {"^[ab]$": {"const": 1}, "^a": {"type": "integer"}},
     "additionalProperties": False},
    {"type": "object", "propertyNames": {"enum": ["a", "ab", "b\"", "b\\"]}, "additionalProperties": {"const": 1}},
    {"type": "object", "properties": {"a": {"const": 1}, "b\"a": {"const": 1}}, "additionalProperties": {"const": 1}},
    {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b", "ab"]}], "properties": {"a": {"const": 1},
     "b": {"const": 1}, "ab": {"const": 1}, "aa": {"const": 1}}, "additionalProperties": False},
    {"type": "array", "items": {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 1}},
     "required": ["a"], "additionalProperties": False}, "minItems": 2},
    {"type": "object", "propertyNames": {"maxLength": 2, "pattern": "^[ab]*$"}, "additionalProperties": {"const": 1}},
    {"type": "object", "properties": {"a": {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 12}},
     "additionalProperties": False}, "b": {"const": "a"}}, "required": ["b"], "additionalProperties": False},
]  # fmt: skip


def linked(schema: Any, **options: Any) -> tuple[Program, Recognizer]:
    compiled = schemac.link(schemac.compile(json.dumps(schema), **options), VOCABULARY)
    return compiled.programs[0], Recognizer(compiled.automaton)


def allowed(program: Program, matcher: Any) -> set[int]:
    row = np.zeros((1, program.words), dtype=np.int32)
    matcher.fill_bitmask(row)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: program.vocab_size]).tolist())


def read(recognizer: Recognizer, places: Places, text: bytes) -> Places:
    for byte in text:
        places = recognizer.step(places, byte)
    return places


CASES = [
    *((schema, {"whitespace": "compact"}) for schema in SCHEMAS),
    *((schema, {"whitespace": "compact", "key_order": "any"}) for schema in UNORDERED),
    *((schema, {"whitespace": "flexible"}) for schema in SCHEMAS if "uniqueItems" in schema),
    *((schema, {"whitespace": "flexible", "key_order": "any"}) for schema in UNORDERED),
]


@pytest.mark.parametrize(("schema", "options"), CASES, ids=[json.dumps(schema)[:60] for schema, _ in CASES])
def test_masks_are_what_can_be_read_and_texts_are_valid(schema: Any, options: dict[str, Any]) -> None:
    program, recognizer = linked(schema, **options)
    assert program.guards is not None
    validator = Draft202012Validator(schema)
    generator = random.Random(7)
    ended = 0
    for walk in range(6):
        matcher = program.matcher()
        text = b""
        places = recognizer.start()
        for step in range(340):
            mask = allowed(program, matcher)
            assert mask, text
            if step % 17 == 0 or len(mask) < 40:
                for token in range(program.vocab_size):
                    fork = matcher.fork()
                    assert fork.accept(token) == (token in mask), (text, token)
                    assert matcher.validate([token]) == (token in mask)
                refused = sorted(set(range(STOP)) - mask)
                # What is refused but could be read must be a dead end.
                for token in generator.sample(refused, min(60, len(refused))):
                    after = read(recognizer, places, PIECES[token])
                    assert not after or not ends_soon(recognizer, after), (text, PIECES[token])
            if mask == {STOP} or (STOP in mask and (step > 40 or generator.random() < 0.1 * walk)):
                assert matcher.is_complete()
                assert matcher.accept(STOP)
                ended += 1
                assert validator.is_valid(strictly(text) if "key_order" in options else json.loads(text)), text
                break
            likely = [token for token in mask if token >= 256 or chr(token) in '"ab1,:[]{}-'] or sorted(mask)
            token = generator.choice([t for t in likely if t != STOP] or [min(mask)])
            assert matcher.accept(token)
            text += PIECES[token]
            places = read(recognizer, places, PIECES[token])
            assert places
    assert ended or "minItems" in schema or "minLength" in schema or options["whitespace"] == "flexible"


def strictly(text: bytes) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs), text
        return dict(pairs)

    return json.loads(text, object_pairs_hook=members)


def ends_soon(recognizer: Recognizer, places: Places, depth: int = 5, width: int = 60) -> bool:
    """Whether a few bytes, those of the test's texts, lead to an end."""
    frontier = [places]
    for _ in range(depth):
        if any(recognizer.ended(here) for here in frontier):
            return True
        after = [recognizer.step(here, byte) for here in frontier for byte in b'"a1:,]}b']
        frontier = [places for places in after if places][:width]
    return any(recognizer.ended(here) for here in frontier)


@pytest.mark.parametrize(("schema", "options"), CASES[::3], ids=[json.dumps(schema)[:60] for schema, _ in CASES[::3]])
def test_rollback_restores_registers(schema: Any, options: dict[str, Any]) -> None:
    program, _ = linked(schema, **options)
    generator = random.Random(3)
    matcher = program.matcher()
    masks = [allowed(program, matcher)]
    tokens: list[int] = []
    while len(tokens) < 60:
        choice = sorted(masks[-1] - {STOP})
        if not choice:
            break
        tokens.append(generator.choice(choice))
        assert matcher.accept(tokens[-1])
        masks.append(allowed(program, matcher))
        if generator.random() < 0.3:
            back = generator.randrange(len(tokens) + 1)
            matcher.rollback(back)
            assert allowed(program, matcher) == masks[-1 - back]
            assert matcher.accept_all(tokens[len(tokens) - back :])
    matcher.reset()
    assert allowed(program, matcher) == masks[0]
    assert matcher.validate([*tokens, -1]) == len(tokens)


def test_size_and_masks_do_not_depend_on_the_bound() -> None:
    sizes = set()
    for most in (1_000, 10_000, 1_000_000, 10**12):
        program, _ = linked({"type": "string", "maxLength": most})
        sizes.add((program.states, len(program.tables.edge_class), len(program.tables.dense)))
    assert len(sizes) == 1


@pytest.mark.parametrize("least", [0, 1, 300, 5_000])
def test_a_limit_is_kept_with_registers(least: int) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": least, "maxLength": 9_000}},
              "required": ["a"], "additionalProperties": False}  # fmt: skip
    program, _ = linked(schema)
    generator = random.Random(least)
    budget = program.min_tokens() + 5
    matcher = program.matcher()
    text = b""
    row = np.zeros((1, program.words), dtype=np.int32)
    while not matcher.is_terminated():
        matcher.fill_bitmask(row, budget=budget)
        bits = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: program.vocab_size])
        token = int(generator.choice(bits.tolist()))
        assert matcher.accept(token)
        text += b"" if token == STOP else PIECES[token]
        budget -= 1
    assert budget >= 0
    assert Draft202012Validator(schema).is_valid(json.loads(text))


@pytest.mark.parametrize(("schema", "options"), CASES[1::4], ids=[json.dumps(schema)[:60] for schema, _ in CASES[1::4]])
def test_a_loaded_package_does_the_same(schema: Any, options: dict[str, Any], tmp_path: Path) -> None:
    compiled = schemac.link(schemac.compile(json.dumps(schema), **options), VOCABULARY)
    schemac.save(compiled, tmp_path / "a.pkg")
    schemac.save(schemac.open_package(load(tmp_path / "a.pkg")), tmp_path / "b.pkg")
    assert (tmp_path / "a.pkg").read_bytes() == (tmp_path / "b.pkg").read_bytes()
    one, two = compiled.programs[0].matcher(), load(tmp_path / "a.pkg").program().matcher()
    generator = random.Random(5)
    for _ in range(50):
        mask = allowed(compiled.programs[0], one)
        assert mask == allowed(compiled.programs[0], two)
        token = generator.choice(sorted(mask))
        assert one.accept(token)
        assert two.accept(token)
        if token == STOP:
            break


def test_required_keys_are_no_states() -> None:
    names = [f"name{n}" for n in range(40)]
    sizes = []
    for count in (1, 40):
        schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
        program, _ = linked({**schema, "required": names[:count]}, key_order="any")
        sizes.append(program.states)
    assert sizes[0] == sizes[1]


def test_damaged_guards_are_refused(tmp_path: Path) -> None:
    compiled = schemac.link(schemac.compile(json.dumps(SCHEMAS[5])), VOCABULARY)
    program = compiled.programs[0]
    tables = program.guards
    assert tables is not None
    damages: list[dict[str, Any]] = [
        {"token_start": tables.token_start[:-1]},
        {"token_start": tables.token_start[::-1].copy()},
        {"unit": np.array([-1], dtype=np.int32)},
        {"label_token": np.array([5], dtype=np.int32)},
    ]
    for damage in damages:
        hurt = Program(program.tables, program.fingerprint, program.tokenizer, replace(tables, **damage))
        schemac.save(replace(compiled, programs=(hurt,)), tmp_path / "hurt.pkg")
        with pytest.raises(PackageError):
            load(tmp_path / "hurt.pkg")


@pytest.mark.parametrize("key", [b'"\\u0061"', b"a", b'"\\x"', b""])
def test_required_keys_in_another_spelling_are_refused(key: bytes, tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["a"], "additionalProperties": {"const": 1}}
    compiled = schemac.link(schemac.compile(json.dumps(schema), key_order="any"), VOCABULARY)
    ((procedure, guard),) = compiled.automaton.guards
    assert guard.required == {b'"a"'}
    hurt = replace(compiled.automaton, guards=((procedure, replace(guard, required=frozenset([key]))),))
    schemac.save(replace(compiled, automaton=hurt), tmp_path / "hurt.pkg")
    with pytest.raises(PackageError):
        load(tmp_path / "hurt.pkg").program()


def test_a_limit_that_turns_out_too_low_heads_for_the_nearest_end() -> None:
    properties = {name: {"const": 1} for name in ("a", "bbbb", "cccccccc")}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    program, _ = linked(schema, whitespace="compact", key_order="any")
    matcher = program.matcher()
    budget = program.min_tokens()
    row = np.zeros((1, program.words), dtype=np.int32)
    text = b""
    for _ in range(200):
        if matcher.is_terminated():
            break
        matcher.fill_bitmask(row, budget=budget)
        token = int(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))[0])
        assert matcher.accept(token)
        text += b"" if token == STOP else PIECES[token]
        budget -= 1
    assert strictly(text) == dict.fromkeys(properties, 1)


def test_equal_values_have_one_canonical_text() -> None:
    groups = [
        [b"1", b"1.0", b"1e0", b"10e-1", b"0.1E1", b" 1 "],
        [b"0", b"-0", b"0.00", b"0e5"],
        [b'"\xc3\xa9"', b'"\\u00e9"', b'"\\u00E9"'],
        [b'"/"', b'"\\/"', b'"\\u002f"'],
        [b'{"a":1,"b":[2,{}]}', b'{ "b" : [2.0, { } ], "a": 1e0 }'],
        [b"[]", b"[ ]"],
        [b"true"],
        [b'"1"'],
        [b"1e" + b"9" * 5_000],
        [b"[" * 50_000 + b"]" * 50_000],
    ]
    texts = [{canonical_value(text) for text in group} for group in groups]
    assert all(len(of) == 1 for of in texts)
    assert len(set().union(*texts)) == len(groups)
