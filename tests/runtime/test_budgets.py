"""A text that is given enough tokens always ends within them, whatever is chosen among what the masks allow."""

from __future__ import annotations

import random

import numpy as np
import pytest

from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.ir.pipeline import lower
from schemac.vocabulary import Vocabulary
from schemac_runtime import MatcherError, allocate_bitmask, unpack
from schemac_runtime.program import Program
from tests.oracle.grammars import CONTEXT_FREE, REGULAR, rules, vocabulary_for


def small_program(name: str, seed: int) -> tuple[Program, list[bytes]]:
    module = rules({**CONTEXT_FREE, **REGULAR}[name])
    tokens = vocabulary_for(module, random.Random(f"{name}{seed}"), all_bytes=True)
    vocabulary = Vocabulary(tokens=(*tokens, None), special={"</s>": len(tokens)}, stop_ids=(len(tokens),))
    return link(lower(module, Budget())[0], vocabulary, Budget()), tokens


@pytest.mark.parametrize("name", [*CONTEXT_FREE, *REGULAR])
@pytest.mark.parametrize("slack", [0, 1, 7])
def test_every_choice_ends_in_time(name: str, slack: int) -> None:
    program, _ = small_program(name, slack)
    generator = random.Random(slack)
    row = allocate_bitmask(1, program.vocab_size)
    for _ in range(12):
        matcher = program.matcher()
        left = program.min_tokens() + slack
        while not matcher.is_terminated():
            assert matcher.tokens_needed() <= left
            matcher.fill_bitmask(row, 0, budget=left)
            allowed = np.flatnonzero(unpack(row, program.vocab_size)[0]).tolist()
            assert allowed, "a dead end"
            unlimited = allocate_bitmask(1, program.vocab_size)
            matcher.fill_bitmask(unlimited)
            assert not (row & ~unlimited).any()
            assert matcher.accept(generator.choice(allowed))
            left -= 1
        assert left >= 0


@pytest.mark.parametrize("name", ["words", "parentheses", "strings called"])
def test_a_large_budget_forbids_nothing(name: str) -> None:
    program, _ = small_program(name, 0)
    with_budget, without = (allocate_bitmask(1, program.vocab_size) for _ in range(2))
    matcher = program.matcher()
    matcher.fill_bitmask(with_budget, 0, budget=10_000)
    matcher.fill_bitmask(without)
    assert np.array_equal(with_budget, without)


def test_too_small_a_budget_is_an_error() -> None:
    program, _ = small_program("parentheses", 0)
    matcher = program.matcher()
    with pytest.raises(MatcherError, match="not enough to finish this text"):
        matcher.fill_bitmask(allocate_bitmask(1, program.vocab_size), 0, budget=program.min_tokens() - 1)


def test_the_shortest_text_needs_what_min_tokens_says() -> None:
    tokens = [b"a", b"b", b"ab", b"aab"]
    vocabulary = Vocabulary(tokens=(*tokens, None), special={"</s>": 4}, stop_ids=(4,))
    program = link(lower(rules("s = 'aabab'"), Budget())[0], vocabulary, Budget())
    assert program.min_tokens() == 3  # aab, ab, and the stop token
