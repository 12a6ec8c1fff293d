"""What only saves work changes no mask: default states, and rows made ahead."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from schemac.budget import Budget
from schemac.codegen import linker
from schemac.codegen.defaults import no_defaults
from schemac.ir.automaton import Automaton
from schemac.ir.pipeline import lower
from schemac.vocabulary import Vocabulary
from schemac_runtime import Matcher, allocate_bitmask, unpack
from schemac_runtime.program import Program
from schemac_runtime.verifier import verify_tables
from tests.oracle.grammars import CONTEXT_FREE, rules, vocabulary_for
from tests.oracle.masks import module_of, program_for, walk
from tests.oracle.slow import SlowRecognizer
from tests.runtime.programs import byte_vocabulary

#: Objects with open keys, whose declared keys begin alike, and strings that end in many ways.
SCHEMAS = {
    "open object": '{"properties": {"name": {"type": "string"}, "nation": {"$ref": "#"}}}',
    "required keys": """{"type": "object", "required": ["id", "ident"],
        "properties": {"id": {"type": "integer"}, "ident": {"enum": ["a", "ab", "abc"]}}}""",
    "additional keys": """{"type": "object", "properties": {"a": {}, "ab": {"type": "null"}},
        "additionalProperties": {"type": "array", "items": {"type": "string", "maxLength": 4}}}""",
    "nested": """{"type": "array", "items": {"type": "object", "additionalProperties": {"$ref": "#"},
        "properties": {"key": {"type": "boolean"}, "kind": {"const": "x"}}}}""",
    "any value": "{}",
    "words": '{"enum": ["alpha", "alphabet", "beta", {"alpha": 1}, ["alpha"]]}',
}

Change = Callable[[pytest.MonkeyPatch], None]


def without_defaults(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(linker, "default_states", lambda automaton, _: no_defaults(automaton))


def rows_below_on_use(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(linker, "BELOW_LIMIT", 0)


def neither(patch: pytest.MonkeyPatch) -> None:
    without_defaults(patch)
    rows_below_on_use(patch)


CHANGES = [without_defaults, rows_below_on_use, neither]


def linked(automaton: Automaton, vocabulary: Vocabulary, change: Change | None = None) -> Program:
    with pytest.MonkeyPatch.context() as patch:
        if change is not None:
            change(patch)
        program = linker.link(automaton, vocabulary, Budget())
    verify_tables(program.tables)
    return program


def compare_along_walks(one: Program, other: Program, generator: random.Random, walks: int, steps: int) -> int:
    """The same tokens through both programs, masks compared at each step; returns how many were."""
    masks = allocate_bitmask(2, one.vocab_size)
    compared = 0
    for _ in range(walks):
        pair: list[Matcher] = [one.matcher(), other.matcher()]
        for _ in range(steps):
            for row, matcher in enumerate(pair):
                matcher.fill_bitmask(masks, row)
            compared += 1
            differ = np.flatnonzero(unpack(masks[0] ^ masks[1], one.vocab_size))
            assert not len(differ), f"{len(differ)} bits differ, first of token {differ[0]}"
            assert pair[0].is_complete() == pair[1].is_complete()
            allowed = np.flatnonzero(unpack(masks[0], one.vocab_size)).tolist()
            forbidden = generator.randrange(one.vocab_size)
            expected = forbidden in allowed
            assert [matcher.validate([forbidden]) for matcher in pair] == [expected, expected]
            token = generator.choice(allowed)
            assert all(matcher.accept(token) for matcher in pair)
            if pair[0].is_terminated():
                break
    return compared


@pytest.mark.parametrize("name", SCHEMAS)
def test_over_a_real_vocabulary(name: str, tekken: Vocabulary) -> None:
    automaton, _ = lower(module_of(SCHEMAS[name], "json-schema", "flexible"), Budget())
    usual = linked(automaton, tekken)
    for change in CHANGES:
        assert compare_along_walks(usual, linked(automaton, tekken, change), random.Random(name), 3, 25) > 10


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", SCHEMAS)
def test_over_a_small_vocabulary(name: str, change: Change) -> None:
    automaton, _ = lower(module_of(SCHEMAS[name], "json-schema", "single"), Budget())
    usual, other = (linked(automaton, byte_vocabulary(), c) for c in (None, change))
    assert compare_along_walks(usual, other, random.Random(name), 20, 40) > 50


def test_the_changes_take_effect() -> None:
    automaton, _ = lower(module_of(SCHEMAS["open object"], "json-schema"), Budget())
    usual = linked(automaton, byte_vocabulary()).tables
    assert (usual.default_state >= 0).any()
    assert len(usual.below_return) and len(usual.deep_rest)
    assert not (linked(automaton, byte_vocabulary(), without_defaults).tables.default_state >= 0).any()
    on_use = linked(automaton, byte_vocabulary(), rows_below_on_use).tables
    assert on_use.below_on_use[0] == 1 and not len(on_use.below_return)


@pytest.mark.parametrize("change", [rows_below_on_use, neither])
@pytest.mark.parametrize("name", CONTEXT_FREE)
def test_rows_on_use_against_the_oracle(name: str, change: Change) -> None:
    generator = random.Random(name)
    module = rules(CONTEXT_FREE[name])
    tokens = vocabulary_for(module, generator, all_bytes=True)
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        program = program_for(module, tokens)
    walk(program, SlowRecognizer(module), tokens, None, generator, walks=4)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_mask_does_not_depend_on_what_was_masked_before(name: str) -> None:
    automaton, _ = lower(module_of(SCHEMAS[name], "json-schema"), Budget())
    used = linked(automaton, byte_vocabulary())
    compare_along_walks(used, used, random.Random(1), 10, 30)  # fills its caches
    fresh = Program(used.tables, used.fingerprint)
    assert compare_along_walks(used, fresh, random.Random(2), 10, 30) > 20
