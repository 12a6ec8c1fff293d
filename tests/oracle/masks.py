"""Masks of a linked program compared, bit by bit, with the slow recognizer's answers."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np

from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.frontend import SourceOptions, parse_source
from schemac.ir.graph import Module
from schemac.ir.pipeline import lower
from schemac.vocabulary import Vocabulary
from schemac_runtime import allocate_bitmask, unpack
from schemac_runtime.program import Program
from schemac_runtime.verifier import verify_tables
from tests.oracle.slow import Place, SlowRecognizer

CONFIGURATIONS = 120


def vocabulary_of(tokens: list[bytes]) -> Vocabulary:
    """These tokens, and one stop id behind them."""
    return Vocabulary(tokens=(*tokens, None), special={"</s>": len(tokens)}, stop_ids=(len(tokens),))


def program_for(module: Module, tokens: list[bytes]) -> Program:
    automaton, _ = lower(module, Budget())
    program = link(automaton, vocabulary_of(tokens), Budget())
    verify_tables(program.tables)
    return program


def module_of(source: str, kind: str, whitespace: str = "compact") -> Module:
    """What a frontend makes of a source, before any pass."""
    return parse_source(source.encode(), kind, SourceOptions(whitespace), Budget(), lambda _: None)


def walk(
    program: Program,
    slow: SlowRecognizer,
    tokens: list[bytes],
    live: Mapping[frozenset[Place], bool] | None,
    generator: random.Random,
    *,
    walks: int = 8,
    steps: int = 10,
    probe: bool = True,
) -> int:
    """Compare masks along random token paths until enough different places were seen; returns the bits compared.

    Args:
        live: which places tokens can finish, where not every byte is a token.
        probe: ask `validate` for every token too.
    """
    stop, bits = len(tokens), 0
    seen: set[frozenset[Place]] = set()
    row = allocate_bitmask(1, program.vocab_size)
    for _ in range(walks):
        matcher, places = program.matcher(), slow.start()
        for _ in range(steps):
            matcher.fill_bitmask(row)
            allowed = unpack(row, program.vocab_size)[0]
            after = [slow.read(places, token) for token in tokens]
            expected = np.array([bool(a) and (live is None or live[a]) for a in after] + [slow.ended(places)])
            assert np.array_equal(allowed, expected), (
                [tokens[i] for i in np.flatnonzero(allowed != expected).tolist() if i != stop], places
            )
            if probe:
                for token in range(program.vocab_size):
                    assert matcher.validate([token]) == int(expected[token])
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
