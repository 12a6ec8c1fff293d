"""Parts put together accept what Python's own concatenation of their texts says."""

from __future__ import annotations

from itertools import product

import pytest

from schemac.budget import Budget
from schemac.errors import BudgetExceeded
from schemac.frontend.compose import (
    Composer,
    Part,
    alternatives,
    compose,
    embedded,
    language,
    literal,
    nothing,
    repetition,
    sequence,
    token,
)
from schemac.frontend.json_schema import json_schema_module
from schemac.frontend.regex import regex_module
from schemac.ir.dfa import BYTES, Dfa
from schemac.ir.graph import Module
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import Recognizer
from tests.oracle.slow import SlowRecognizer


def module(part: Part) -> Module:
    return compose(part, "test", "#", Budget())


def texts(part: Part, letters: str = "ab", longest: int = 4) -> set[str]:
    slow = SlowRecognizer(module(part))
    words = ("".join(letters) for length in range(longest + 1) for letters in product("ab", repeat=length))
    return {word for word in words if slow.accepts(word.encode())}


A, AB = literal("a"), alternatives(literal("ab"), literal("b"))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (nothing(), {""}),
        (sequence(), {""}),
        (sequence(A, AB), {"aab", "ab"}),
        (alternatives(), set()),
        (alternatives(A, nothing(), AB), {"", "a", "ab", "b"}),
        (repetition(A, 0, None), {"", "a", "aa", "aaa", "aaaa"}),
        (repetition(AB, 1, 2), {"ab", "b", "abab", "abb", "bab", "bb"}),
        (repetition(A, 2, 1), set()),
        (repetition(A, 0, 2, separator=literal("b")), {"", "a", "aba"}),
        (repetition(A, 1, None, separator=literal("b")), {"a", "aba"}),
        (repetition(alternatives(A, nothing()), 3, 3), {"", "a", "aa", "aaa"}),
        (language(Dfa.literals([b"a", b"bb"], BYTES)), {"a", "bb"}),
        (sequence(embedded(regex_module("a+")), embedded(regex_module("b?"))), {
            "a", "aa", "aaa", "aaaa", "ab", "aab", "aaab"}),
    ],
)  # fmt: skip
def test_texts(part: Part, expected: set[str]) -> None:
    assert texts(part) == expected
    if expected:
        recognizer = Recognizer(lower(module(part), Budget())[0])
        for word in expected:
            places = recognizer.start()
            for byte in word.encode():
                places = recognizer.step(places, byte)
            assert recognizer.ended(places)


def test_equal_procedures_are_written_once() -> None:
    any_value = json_schema_module(True)
    composer = Composer(Budget())
    root = composer.include(any_value)
    assert composer.include(json_schema_module(True)) == root
    other = composer.include(json_schema_module({"type": "array"}))
    assert other != root
    assert composer.declare("next", "") < len(any_value.procedures) + 4  # the array's own, and no other values


def test_procedures_that_call_each_other_keep_their_calls() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {
        "a": {"type": "array", "items": {"$ref": "#/$defs/b"}, "maxItems": 1},
        "b": {"type": "object", "properties": {"k": {"$ref": "#/$defs/a"}}, "additionalProperties": False},
    }}  # fmt: skip
    inner = json_schema_module(schema)
    slow = SlowRecognizer(module(sequence(literal("<"), embedded(inner), literal(">"), embedded(inner))))
    assert slow.accepts(b'<[{"k": [{}]}]>[]')
    assert not slow.accepts(b'<[{"k": [1]}]>[]')


def test_what_looks_like_a_special_token_may_be_one() -> None:
    graph = module(literal("x<|end|></s>")).procedures[0].graph
    labels = {texts for edges in graph.token_edges for texts, _ in edges}
    assert labels == {("", "<|end|>"), ("", "</s>")}
    assert not any(module(literal("x<|end|>", special=False)).procedures[0].graph.token_edges)
    assert module(token("<a>", "<b>")).procedures[0].graph.token_edges[0] == [(("<a>", "<b>"), 1)]


def test_repetitions_are_counted() -> None:
    with pytest.raises(BudgetExceeded, match="states"):
        compose(repetition(A, 200, None), "test", "#", Budget({"states": 100}))
    module = compose(repetition(A, 10**9, None), "test", "#", Budget())
    assert [p.guard.low for p in module.procedures if p.guard is not None] == [10**9]
