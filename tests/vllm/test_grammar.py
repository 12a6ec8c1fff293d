"""The contract of a request's grammar, as vLLM's scheduler uses it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from schemac_runtime import allocate_bitmask, unpack
from schemac_runtime.program import Program
from schemac_runtime.vllm.grammar import Finish, GrammarState, stop_ids_of, token_limit
from tests.runtime.programs import OTHER_STOP, SMALL, STOP, byte_vocabulary, schema_program, token
from tests.vllm.fakes import Request

ARRAY = '{"type": "array", "items": {"enum": [1, 12, 2]}, "maxItems": 6}'


def allowed(state: GrammarState) -> set[int]:
    mask = allocate_bitmask(3, state.program.vocab_size)
    state.fill_bitmask(mask, 1)
    assert (mask[[0, 2]] == -1).all(), "other rows are not touched"
    return set(np.flatnonzero(unpack(mask, state.program.vocab_size)[1]).tolist())


def ids(text: str) -> list[int]:
    return [token(bytes([byte])) for byte in text.encode()]


def test_accepts_all_or_none() -> None:
    state = GrammarState(schema_program(ARRAY), {STOP})
    assert state.accept_tokens("r", ids("[1,"))
    before = allowed(state)
    assert not state.accept_tokens("r", ids("2x"))
    assert allowed(state) == before
    assert not state.accept_tokens("r", [-1])
    assert not state.accept_tokens("r", [10**9])
    assert state.accept_tokens("r", [*ids("2]"), STOP])
    assert state.is_terminated()


def test_validate_gives_a_prefix_and_changes_nothing() -> None:
    state = GrammarState(schema_program(ARRAY), {STOP})
    assert state.validate_tokens([*ids("[1,2]"), STOP, STOP]) == [*ids("[1,2]"), STOP]
    assert state.validate_tokens(ids("[1x2")) == ids("[1")
    assert state.validate_tokens([*ids("[1"), -1, *ids(",")]) == ids("[1"), "padding ends it"
    assert state.validate_tokens([]) == []
    assert allowed(state) == set(ids("[")) | {token(b"[[")} - {token(b"[[")}


def test_drafts_come_and_go() -> None:
    """As the manager fills a row per draft: fill, accept, ..., roll back; the state is as before."""
    rng = random.Random(0)
    state = GrammarState(schema_program(ARRAY), {STOP})
    while not state.is_terminated():
        first = allowed(state)
        rows, read = [first], 0
        for _ in range(rng.randint(0, 3)):
            draft = rng.choice(sorted(rows[-1]))
            assert state.accept_tokens("r", [draft])
            read += 1
            if state.is_terminated():
                break
            rows.append(allowed(state))
        state.rollback(read)
        assert allowed(state) == first
        assert state.accept_tokens("r", [rng.choice(sorted(first))])


def test_a_request_may_bring_stop_ids() -> None:
    colon = token(b"~")
    state = GrammarState(schema_program("true"), {STOP, colon})
    assert colon not in allowed(state)
    assert state.accept_tokens("r", ids("1"))
    assert {STOP, OTHER_STOP, colon} <= allowed(state)
    assert state.accept_tokens("r", [colon])
    assert state.is_terminated()


def test_an_end_at_which_vllm_goes_on_stays_constrained() -> None:
    """`ignore_eos`, or a stop id of the vocabulary that vLLM does not know: no row may be left unmasked."""
    state = GrammarState(schema_program("true"), {STOP})
    assert state.accept_tokens("r", [*ids("1"), OTHER_STOP])
    assert not state.is_terminated()
    assert allowed(state) == {STOP}
    assert state.validate_tokens([*ids("1")]) == []
    assert not state.accept_tokens("r", ids("1"))
    assert state.accept_tokens("r", [OTHER_STOP, STOP])
    state.rollback(3)
    assert state.accept_tokens("r", [STOP])
    assert state.is_terminated()

    endless = GrammarState(schema_program("true"), set())  # ignore_eos
    assert endless.accept_tokens("r", [*ids("1"), STOP])
    assert not endless.is_terminated()
    assert allowed(endless) == {STOP, OTHER_STOP}


def test_reset_and_unknown_stop_ids() -> None:
    state = GrammarState(schema_program("true"), None)
    assert state.accept_tokens("r", [*ids("1"), STOP, STOP])
    assert state.is_terminated()
    state.reset()
    assert not state.is_terminated()
    assert state.accept_tokens("r", ids("1"))
    assert state.is_complete()
    assert stop_ids_of(None) is None
    assert stop_ids_of({1, 2}) == {1, 2}
    GrammarState(schema_program("true"), {10**9, STOP})  # an id past the vocabulary cannot be sampled


def run(program: Program, rng: random.Random, limit: int, *, thinking: int = 0, drafts: int = 0) -> Sequence[int]:
    """A request as the scheduler runs it; `thinking` unconstrained tokens come first."""
    request = Request()
    state = GrammarState(program, set(program.stop_ids))
    state.finish_within(Finish(request, limit, drafts))
    request.num_output_tokens = thinking
    while not state.is_terminated() and request.num_output_tokens < limit:
        now = sorted(allowed(state))
        spec = state.validate_tokens([rng.choice(now), *(rng.randrange(program.vocab_size) for _ in range(drafts))])
        taken, read = [], 0
        for draft in spec[:drafts]:
            if draft not in allowed(state):
                break
            assert state.accept_tokens("r", [draft])
            read += 1
            taken.append(draft)
            if state.is_terminated() or rng.random() < 0.5:
                break
        if not state.is_terminated():
            taken.append(rng.choice(sorted(allowed(state))))
        state.rollback(read)
        request.num_output_tokens += len(taken)
        assert state.accept_tokens("r", taken)
        request.tokens += taken
    assert state.is_terminated(), "it ends within the limit"
    return request.tokens


@pytest.mark.parametrize("drafts", [0, 3])
@pytest.mark.parametrize("thinking", [0, 5])
def test_answers_end_within_the_limit(drafts: int, thinking: int) -> None:
    rng = random.Random(drafts + thinking)
    for vocabulary in (SMALL, byte_vocabulary()):
        for schema in ("true", ARRAY, '{"type": "array", "minItems": 3, "items": {"type": "string"}}'):
            program = schema_program(schema, vocabulary)
            for more in (0, 1, 2, 5, 20):
                limit = program.min_tokens() + thinking + more + (drafts if thinking else 0)
                run(program, rng, limit, thinking=thinking, drafts=drafts)


def test_too_late_is_no_empty_mask() -> None:
    request = Request(num_output_tokens=50)  # thinking took all of it
    state = GrammarState(schema_program(ARRAY), {STOP})
    state.finish_within(Finish(request, 51))
    assert allowed(state) == set(ids("["))
    del request
    assert allowed(state) == set(ids("["))


def test_limits() -> None:
    assert token_limit(100, 4096, 10) == 100
    assert token_limit(100, 64, 10) == 54
    assert token_limit(None, 64, 10) == 54
