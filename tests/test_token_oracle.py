"""Every mask bit of every reachable configuration, against a recognizer that shares nothing with the compiler."""

from __future__ import annotations

import random

import numpy as np
import pytest

from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.errors import EmptyLanguageError, LinkError
from schemac.ir.graph import Module
from schemac.ir.pipeline import lower
from schemac.vocabulary import Vocabulary
from schemac_runtime import allocate_bitmask, unpack
from schemac_runtime.program import Program
from schemac_runtime.verifier import verify_tables
from tests.oracle.grammars import CONTEXT_FREE, REGULAR, rules, vocabulary_for
from tests.oracle.slow import SlowRecognizer, token_live

CONFIGURATIONS = 120


def program_for(module: Module, tokens: list[bytes]) -> Program:
    automaton, _ = lower(module, Budget())
    vocabulary = Vocabulary(tokens=(*tokens, None), special={"</s>": len(tokens)}, stop_ids=(len(tokens),))
    program = link(automaton, vocabulary, Budget())
    verify_tables(program.tables)
    return program


def walk(program: Program, slow: SlowRecognizer, tokens: list[bytes], live, generator: random.Random) -> int:
    """Compare masks along random token paths until enough different places were seen; returns the bits compared."""
    stop, seen, bits = len(tokens), set(), 0
    row = allocate_bitmask(1, program.vocab_size)
    for _ in range(8):
        matcher, places, depth = program.matcher(), slow.start(), 0
        while depth < 10:
            depth += 1
            matcher.fill_bitmask(row)
            allowed = unpack(row, program.vocab_size)[0]
            after = [slow.read(places, token) for token in tokens]
            expected = np.array([bool(a) and (live is None or live[a]) for a in after] + [slow.ended(places)])
            assert np.array_equal(allowed, expected), (
                [tokens[i] for i in np.flatnonzero(allowed != expected).tolist() if i != stop], places
            )
            for token in range(program.vocab_size):
                probe = matcher.validate([token])
                assert probe == int(expected[token])
            assert matcher.is_complete() == bool(expected[stop])
            bits += len(expected)
            seen.add(places)
            choices = np.flatnonzero(expected[:stop]).tolist()
            assert choices or expected[stop], "a dead end"
            if not choices:
                break
            token = generator.choice(choices)
            assert matcher.accept(token)
            places = after[token]
        if len(seen) > CONFIGURATIONS:
            break
    return bits


@pytest.mark.parametrize("name", CONTEXT_FREE)
@pytest.mark.parametrize("seed", range(3))
def test_context_free_masks(name: str, seed: int) -> None:
    generator = random.Random(f"{name}{seed}")
    module = rules(CONTEXT_FREE[name])
    tokens = vocabulary_for(module, generator, all_bytes=True)
    assert walk(program_for(module, tokens), SlowRecognizer(module), tokens, None, generator) > 0


@pytest.mark.parametrize("name", REGULAR)
@pytest.mark.parametrize("seed", range(6))
def test_regular_masks_with_missing_bytes(name: str, seed: int) -> None:
    generator = random.Random(f"{name}{seed}")
    module = rules(REGULAR[name])
    tokens = vocabulary_for(module, generator, all_bytes=seed % 2 == 0)
    slow = SlowRecognizer(module)
    live = token_live(slow, tokens)
    try:
        program = program_for(module, tokens)
    except LinkError:
        assert not live[slow.start()]
        return
    assert live[slow.start()]
    walk(program, slow, tokens, live, generator)


def test_an_empty_language_is_refused() -> None:
    with pytest.raises(EmptyLanguageError, match="no text satisfies 's'"):
        lower(rules("s = 'a' s"), Budget())
