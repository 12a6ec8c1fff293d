"""The token oracle on what real frontends make: regular expressions, choices and JSON schemas."""

from __future__ import annotations

import random

import numpy as np
import pytest

from schemac.errors import LinkError
from schemac.ir.graph import Module
from schemac_runtime import allocate_bitmask, unpack
from tests.oracle.grammars import CONTEXT_FREE, rules
from tests.oracle.grammars import vocabulary_for as pieces_for
from tests.oracle.masks import module_of, program_for, walk
from tests.oracle.slow import SlowRecognizer, token_live

REGEXES = [
    r"(a|b)*abb",
    r"(?i)ab?c{2,3}",
    r"[^a]{1,3}",
    r"é|e\u{301}?|\p{Greek}+",
    r"(?=.*b)[abc]{2,4}",
    r"\d{1,3}(\.\d+)?",
    r"\bfoo\b( \bbar\b)?",
    r"(x+y*)+z?",
    r"|a|ab",
    r"(?!ab)[ab]{2,3}",
]
CHOICES = ['["yes", "no", "yesno", "n"]', '["a\\n", "a", "\\u00e9", ""]']
SCHEMAS = [
    '{"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, null]}}}',
    """{"type": "object", "required": ["ab"], "properties": {"a": {"const": 1}, "ab": {"const": 2}},
        "additionalProperties": false}""",
    '{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}',
    '{"type": "array", "prefixItems": [{"const": "x"}, {"type": "null"}], "items": {"$ref": "#"}}',
    """{"$defs": {"t": {"type": "object", "properties": {"l": {"$ref": "#/$defs/t"}}, "additionalProperties": false}},
        "$ref": "#/$defs/t"}""",
    '{"type": "integer", "minimum": -12, "maximum": 105}',
    '{"type": "number"}',
    '{"type": "string"}',
    '{"type": "string", "maxLength": 2, "pattern": "^[ab\\u00e9]"}',
    '{"anyOf": [{"type": "string", "maxLength": 1}, {"type": "array", "items": {"type": "string"}}]}',
    '{"type": "object", "additionalProperties": {"type": "integer"}, "properties": {"a": {"type": "string"}}}',
    "{}",
]
#: What texts of these sources are likely to hold.
PIECES = [
    b'{"', b'":', b'"a"', b'"ab"', b'"b":', b"{}", b"[]", b"]]", b"}}", b'",', b'":{"', b"true", b"false", b"null",
    b"tr", b"ue", b", ", b'", "', b"10", b"-1", b"0.", b"e+", b'"x"', b"\xc3\xa9", b"\\u00", b'\\"', b'["', b'"]',
    b"abb", b"cc", b"CC", b"foo", b" bar", b"xy", b"yes", b"no", b"\xce", b"\xb1\xce", b"e\xcc", b"\xcc\x81", b"a\n",
    b"ab", b"ba", b'{"l', b'"l":', b"1}", b"1,", b"e}",
]


def vocabulary_for(module: Module, generator: random.Random, *, all_bytes: bool) -> list[bytes]:
    """A few dozen tokens: pieces, and the ends of the module's byte ranges or every byte."""
    ends = {b for p in module.procedures for edges in p.graph.byte_edges for edge in edges for b in edge[:2]}
    chosen = generator.sample(sorted(ends), min(14, len(ends)))
    tokens = {*generator.sample(PIECES, 26), *(bytes([b]) for b in chosen)}
    if all_bytes:
        tokens |= {bytes([b]) for b in range(256)}
    return sorted(tokens)


def check_masks(module: Module, seed: str, *, walks: int) -> None:
    generator = random.Random(seed)
    tokens = vocabulary_for(module, generator, all_bytes=True)
    program = program_for(module, tokens)
    assert walk(program, SlowRecognizer(module), tokens, None, generator, walks=walks, steps=9, probe=False) > 0


@pytest.mark.parametrize("source", REGEXES)
def test_regexes(source: str) -> None:
    check_masks(module_of(source, "regex"), source, walks=4)


@pytest.mark.parametrize("source", CHOICES)
def test_choices(source: str) -> None:
    check_masks(module_of(source, "choice"), source, walks=6)


@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
@pytest.mark.parametrize("source", SCHEMAS)
def test_json_schemas(source: str, whitespace: str) -> None:
    check_masks(module_of(source, "json-schema", whitespace), source + whitespace, walks=3)


@pytest.mark.parametrize("source", REGEXES)
@pytest.mark.parametrize("seed", range(2))
def test_regexes_with_missing_bytes(source: str, seed: int) -> None:
    generator = random.Random(f"{source}{seed}")
    module = module_of(source, "regex")
    tokens = vocabulary_for(module, generator, all_bytes=False)
    slow = SlowRecognizer(module)
    live = token_live(slow, tokens)
    try:
        program = program_for(module, tokens)
    except LinkError:
        assert not live[slow.start()]
        return
    assert live[slow.start()]
    walk(program, slow, tokens, live, generator, walks=4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CONTEXT_FREE)
def test_grammars_with_missing_bytes_have_no_dead_ends(name: str, seed: int) -> None:
    """Below calls the linker may forbid more than it must, but whatever it allows can be finished."""
    generator = random.Random(f"{name}{seed}")
    module = rules(CONTEXT_FREE[name])
    tokens = pieces_for(module, generator, all_bytes=False)
    slow = SlowRecognizer(module)
    try:
        program = program_for(module, tokens)
    except LinkError:
        return
    row = allocate_bitmask(1, program.vocab_size)
    for _ in range(10):
        matcher, text = program.matcher(), b""
        wander = generator.randint(0, 10)
        while not matcher.is_terminated():
            homing = None if wander > 0 else matcher.tokens_needed()
            matcher.fill_bitmask(row, 0, budget=homing)
            wander -= 1
            allowed = np.flatnonzero(unpack(row, program.vocab_size)).tolist()
            assert allowed, "a dead end"
            token = generator.choice(allowed)
            assert matcher.accept(token)
            text += tokens[token] if token < len(tokens) else b""
            assert len(text) < 500
        assert slow.accepts(text)
