"""Every mask bit of every reachable configuration, against a recognizer that shares nothing with the compiler."""

from __future__ import annotations

import random

import pytest

from schemac.budget import Budget
from schemac.errors import EmptyLanguageError, LinkError
from schemac.ir.pipeline import lower
from tests.oracle.grammars import CONTEXT_FREE, REGULAR, rules, vocabulary_for
from tests.oracle.masks import program_for, walk
from tests.oracle.slow import SlowRecognizer, token_live


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
