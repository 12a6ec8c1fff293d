"""Masks of structural tags with vocabularies that split and straddle every marker, bit by bit."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

import schemac
from benchmarks.structural_walks import Walker, cases
from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.errors import EmptyLanguageError, LinkError, SourceError
from schemac.ir.graph import Module
from schemac.ir.pipeline import lower
from schemac.vocabulary import Vocabulary
from schemac_runtime import allocate_bitmask, unpack
from tests.oracle.masks import module_of, program_for, walk
from tests.oracle.slow import SlowRecognizer
from tests.structural.random_tags import random_format, word
from tests.structural.test_structural_tags import ANY, FUNCTIONS, tag, triggered

BYTES = [bytes([value]) for value in range(256)]


def awkward_tokens(generator: random.Random, texts: list[str], count: int) -> list[bytes]:
    """Every byte, and parts of texts that are cut anywhere, some with another one's beginning behind."""
    parts: set[bytes] = set()
    for _ in range(count):
        data, other = (generator.choice(texts).encode() for _ in range(2))
        start = generator.randrange(len(data))
        parts.add(data[start : start + generator.randint(2, 14)])
        parts.add(data[-generator.randint(1, 5) :] + other[: generator.randint(1, 8)])
    return BYTES + sorted(part for part in parts if len(part) > 1)


def next_token(
    generator: random.Random, vocabulary: Vocabulary, names: dict[str, int], data: bytes
) -> tuple[int, bytes]:
    """A random token that a text goes on with, and the rest of the text; often a special one, if its text is next."""
    for text, token in names.items():
        if data.startswith(text.encode()) and generator.random() < 0.6:
            return token, data[len(text.encode()) :]
    lengths = [length for length in range(1, min(20, len(data)) + 1) if vocabulary.ids_of(data[:length])]
    length = generator.choice(lengths)
    return vocabulary.ids_of(data[:length])[0], data[length:]


def compare(module: Module, texts: list[str], names: tuple[str, ...], seed: int, *, rounds: int = 6) -> int:
    """Every mask bit on the way through valid texts, cut at random, equals the slow recognizer's answer.

    Returns:
        how many special tokens were read.
    """
    generator = random.Random(seed)
    ordinary = awkward_tokens(generator, texts, 50)
    stop = len(ordinary) + len(names)
    special = {"</s>": stop, **{name: len(ordinary) + index for index, name in enumerate(names)}}
    vocabulary = Vocabulary((*ordinary, *[None] * (len(names) + 1)), special, (stop,))
    automaton, _ = lower(module, Budget())
    program = link(automaton, vocabulary, Budget())
    slow = SlowRecognizer(module)
    row = allocate_bitmask(1, program.vocab_size)
    specials_read = 0
    for _ in range(rounds):
        matcher, places = program.matcher(), slow.start()
        rest = generator.choice(texts).encode()
        while not matcher.is_terminated():
            matcher.fill_bitmask(row)
            allowed = unpack(row, program.vocab_size)[0]
            expected = [bool(slow.read(places, data)) for data in ordinary]
            expected += [bool(slow.read_token(places, name)) for name in names]
            expected.append(slow.ended(places))
            wrong = np.flatnonzero(allowed != np.array(expected)).tolist()
            assert not wrong, [vocabulary.tokens[i] or i for i in wrong]
            usable = {name: special[name] for name in names if allowed[special[name]]}
            token, rest = next_token(generator, vocabulary, usable, rest) if rest else (stop, b"")
            assert matcher.accept(token)
            if token < len(ordinary):
                places = slow.read(places, ordinary[token])
            elif token != stop:
                specials_read += 1
                places = slow.read_token(places, names[token - len(ordinary)])
    return specials_read


def compiled_module(form: dict[str, Any]) -> Module:
    return module_of(json.dumps({"type": "structural_tag", "format": form}), "structural-tag", "flexible")


def test_triggers_in_pieces() -> None:
    texts = [
        'hi <function=get>{"city": "</function><function="}</function> a<function=get_time>12</function>',
        "<<function=get_time>-1</function><functio",
        '<function=get>{ "city" : "x" , "more": [1, {}]}</function>é',
    ]
    compare(compiled_module(FUNCTIONS), texts, (), 1)


def test_markers_that_overlap() -> None:
    form = triggered(
        ["<<a", "<a", "aa"],
        tag("<<ab>", {"type": "json_schema", "json_schema": {"type": "integer"}}, "a"),
        tag("<a>", ANY, ["aa", "<a"]),
        tag("aa<", {"type": "regex", "pattern": "[a-c]{1,3}"}, ""),
        excludes=["<x"],
    )
    compare(compiled_module(form), ["b<<ab>12a<a>b<a<", "aa<abc", "<a>xaaé<<ab>0a", "a<bbaa<cb<a>aa"], (), 2)


def test_markers_that_are_special_tokens() -> None:
    form = {"type": "sequence", "elements": [
        tag("<think>", ANY, "</think>"),
        triggered(["<tool_call>\n"], tag("<tool_call>\n<f=g>", {
            "type": "json_schema", "json_schema": {"enum": ["<tool_call>", "</tool_call>"]}}, "</tool_call>")),
    ]}  # fmt: skip
    texts = [
        '<think>a<tool_call></think>b <tool_call>\n<f=g>"</tool_call>"</tool_call> c',
        '<think></think><tool_call>\n<f=g>"<tool_call>"</tool_call><tool_call>\n<f=g>"</tool_call>"</tool_call>',
    ]
    names = ("<think>", "</think>", "<tool_call>", "</tool_call>")
    for count in range(len(names) + 1):
        assert compare(compiled_module(form), texts, names[:count], count, rounds=4) >= count


def test_a_special_token_across_the_end_of_a_trigger() -> None:
    form = triggered(["x<to"], tag("x<tool>1", ANY, "</tool>"))
    assert compare(compiled_module(form), ["ax<tool>1b</tool>x<tool>1</tool>"], ("<tool>", "</tool>"), 1) > 4


def test_random_tags() -> None:
    bits = 0
    for seed in range(60):
        generator = random.Random(seed)
        try:
            module = compiled_module(random_format(generator, 2))
            tokens = BYTES + sorted({word(generator, 2, 5).encode() for _ in range(30)} | {b"\xa9<a", b"<\xc3"})
            program = program_for(module, tokens)
        except (SourceError, EmptyLanguageError):
            continue
        bits += walk(program, SlowRecognizer(module), tokens, None, generator, walks=3, steps=7, probe=False)
    assert bits > 300_000


def test_token_formats() -> None:
    call = {"type": "token", "token": "<call>"}
    form = {
        "type": "token_triggered_tags", "trigger_tokens": ["<call>"],
        "tags": [{"begin": call, "content": FUNCTIONS["tags"][1], "end": {"type": "token", "token": "<end>"}}],
    }  # fmt: skip
    source = {"type": "structural_tag", "format": form}
    vocabulary = Vocabulary((*BYTES, None, None, None), {"<call>": 256, "<end>": 257, "</s>": 258}, (258,))
    program = schemac.link(schemac.compile(source), vocabulary).programs[0]
    good = [*b"a<call>", 256, *b"<function=get_time>1</function>", 257, *b"b", 258]
    assert program.matcher().validate(good) == len(good)
    matcher = program.matcher()
    assert matcher.validate([*b"ab", 257]) == 2
    assert matcher.validate([256, *b"b"]) == 1
    assert matcher.validate([256, *b"<function=get_time>1</function><end>"]) == 1 + 31
    by_id = json.loads(json.dumps(source).replace('"<call>"', "256").replace('"<end>"', "257"))
    assert schemac.link(schemac.compile(by_id), vocabulary).programs[0].matcher().validate(good) == len(good)
    dispatch = {"type": "token_dispatch", "rules": [["<call>", {"type": "const_string", "value": "x"}]], "loop": False}
    program = schemac.link(schemac.compile({"type": "structural_tag", "format": dispatch}), vocabulary).programs[0]
    assert program.matcher().validate([*b"a", 256, *b"x", 258]) == 4
    with pytest.raises(LinkError, match="no special token '<call>'"):
        schemac.link(schemac.compile(source), Vocabulary((*BYTES, None), {"</s>": 256}, (256,)))


def test_walks_with_a_real_vocabulary(tekken: Vocabulary) -> None:
    chosen = cases()
    for index, name in enumerate(("hermes auto", "mistral auto", "qwen3_coder required", "overlapping markers")):
        walker = Walker(chosen[name], tekken, index, 6)
        for _ in range(6):
            assert walker.walk() is None
