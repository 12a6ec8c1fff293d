"""The contract of a matcher: masks, steps, refusals, rollback, forks, ends."""

from __future__ import annotations

import random

import numpy as np
import pytest

from schemac_runtime import Matcher, MatcherError, allocate_bitmask, unpack
from schemac_runtime.program import Program
from tests.runtime.programs import OTHER_STOP, PADDING, SMALL, SPECIAL, STOP, rules_program, schema_program, token

WORD = "s = 'a' [b-c]* 'd'"
LISTS = "s = '[' (s (',' s)*)? ']' | 'a'"
OPEN_END = "s = 'a' s 'b'? | 'a'"


def mask_of(matcher: Matcher) -> np.ndarray:
    row = allocate_bitmask(1, matcher.program.vocab_size)
    matcher.fill_bitmask(row)
    return unpack(row, matcher.program.vocab_size)[0]


def allowed(matcher: Matcher) -> set[int]:
    return set(np.flatnonzero(mask_of(matcher)).tolist())


def read(matcher: Matcher, *tokens: bytes) -> None:
    for data in tokens:
        assert matcher.accept(token(data)), data


def state_of(matcher: Matcher) -> tuple[object, ...]:
    return mask_of(matcher).tobytes(), matcher.accepted, matcher.is_complete(), matcher.is_terminated()


def random_walk(program: Program, generator: random.Random, steps: int) -> list[int]:
    """Allowed tokens, stops left out while anything else is allowed."""
    matcher, tokens = program.matcher(), []
    for _ in range(steps):
        choices = sorted(allowed(matcher) - set(matcher.stop_ids))
        if not choices:
            break
        tokens.append(generator.choice(choices))
        assert matcher.accept(tokens[-1])
    return tokens


# -- masks -----------------------------------------------------------------------------------------------------


def test_a_mask_allows_what_can_follow() -> None:
    matcher = rules_program(WORD).matcher()
    assert allowed(matcher) == {token(b"a"), token(b"ab")}
    read(matcher, b"ab")
    assert allowed(matcher) == {token(b) for b in (b"b", b"c", b"d", b"bc", b"bcd")}
    read(matcher, b"bcd")
    assert allowed(matcher) == {STOP, OTHER_STOP}


def test_a_two_dimensional_mask_gets_one_row() -> None:
    matcher = rules_program(WORD).matcher()
    mask = allocate_bitmask(3, SMALL.size)
    matcher.fill_bitmask(mask, 1)
    assert (mask[[0, 2]] == -1).all()
    assert np.flatnonzero(unpack(mask, SMALL.size)[1]).tolist() == sorted(allowed(matcher))


def test_a_one_dimensional_mask_is_row_0() -> None:
    matcher = rules_program(WORD).matcher()
    mask = np.full((SMALL.size + 31) // 32, -1, dtype=np.int32)
    matcher.fill_bitmask(mask)
    assert np.flatnonzero(unpack(mask, SMALL.size)).tolist() == sorted(allowed(matcher))
    read(matcher, b"a")
    matcher.fill_bitmask(mask)  # the same array again
    assert np.flatnonzero(unpack(mask, SMALL.size)).tolist() == sorted(allowed(matcher))
    with pytest.raises(MatcherError, match="no row 1"):
        matcher.fill_bitmask(mask, 1)


@pytest.mark.parametrize("source", [WORD, LISTS, OPEN_END])
def test_words_past_the_vocabulary_are_cleared(source: str) -> None:
    program = rules_program(source)
    matcher = program.matcher()
    for _ in range(6):
        wide = np.full((2, program.words + 3), -1, dtype=np.int32)
        matcher.fill_bitmask(wide, 1)
        assert (wide[0] == -1).all()
        assert (wide[1, program.words :] == 0).all()
        assert np.flatnonzero(unpack(wide, wide.shape[1] * 32)[1]).tolist() == sorted(allowed(matcher))
        if not matcher.accept(token(b"[")) and not matcher.accept(token(b"a")):
            matcher.accept(STOP)


def test_a_mask_can_be_a_part_of_a_larger_one() -> None:
    matcher = rules_program(WORD).matcher()
    large = np.full((4, 10), -1, dtype=np.int32)
    matcher.fill_bitmask(large[1:3, 2:7], 1)
    assert np.flatnonzero(unpack(large[2, 2:7], SMALL.size)).tolist() == sorted(allowed(matcher))
    large[2, 2:7] = -1
    assert (large == -1).all()


@pytest.mark.parametrize(
    "mask",
    [
        np.zeros((1, 3), dtype=np.int32),
        np.zeros(3, dtype=np.int32),
        np.zeros((1, 4), dtype=np.int64),
        np.zeros((1, 4), dtype=np.uint32),
        np.zeros((1, 4), dtype=np.float32),
        np.zeros((1, 1, 4), dtype=np.int32),
        np.zeros((), dtype=np.int32),
        np.zeros((1, 4), dtype=">i4"),
        [0, 0, 0, 0],
        bytearray(16),
        None,
    ],
    ids=lambda mask: f"{getattr(mask, 'dtype', type(mask).__name__)} {getattr(mask, 'shape', '')}",
)
def test_a_mask_of_another_type_is_refused(mask: object) -> None:
    matcher = rules_program(WORD).matcher()
    with pytest.raises(MatcherError, match="a mask must be"):
        matcher.fill_bitmask(mask)
    good = allocate_bitmask(1, SMALL.size)
    matcher.fill_bitmask(good)
    with pytest.raises(MatcherError):
        matcher.fill_bitmask(mask)
    assert allowed(matcher) == {token(b"a"), token(b"ab")}


def test_a_row_that_is_not_there_and_a_mask_that_is_read_only_are_refused() -> None:
    matcher = rules_program(WORD).matcher()
    mask = allocate_bitmask(2, SMALL.size)
    with pytest.raises(MatcherError, match="no row 2"):
        matcher.fill_bitmask(mask, 2)
    mask.flags.writeable = False
    with pytest.raises(MatcherError, match="writable"):
        matcher.fork().fill_bitmask(mask)


def test_padding_and_special_ids_are_never_allowed() -> None:
    matcher = schema_program("{}").matcher()
    for _ in range(20):
        assert not allowed(matcher) & {SPECIAL, PADDING}
        assert not matcher.accept(SPECIAL)
        assert not matcher.accept(PADDING)
        choices = sorted(allowed(matcher) - {STOP, OTHER_STOP})
        if not choices:
            break
        assert matcher.accept(choices[len(choices) // 2])


# -- steps and refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [WORD, LISTS, OPEN_END])
def test_a_refusal_changes_nothing(source: str) -> None:
    program = rules_program(source)
    matcher = program.matcher()
    for chosen in random_walk(program, random.Random(source), 12):
        before = state_of(matcher)
        good = allowed(matcher)
        for bad in (*set(range(SMALL.size)) - good, -1, -5, SMALL.size, SMALL.size + 3, 1 << 40, -(1 << 40)):
            assert matcher.accept(bad) is False
        assert state_of(matcher) == before
        assert matcher.accept(chosen) is True


def test_after_the_end_nothing_is_accepted() -> None:
    matcher = rules_program(WORD).matcher()
    read(matcher, b"a", b"d")
    assert not matcher.is_terminated()
    assert matcher.accept(STOP)
    assert matcher.is_terminated() and matcher.is_complete()
    before = state_of(matcher)
    for bad in range(-1, SMALL.size + 1):
        assert not matcher.accept(bad)
    assert state_of(matcher) == before


def test_after_the_end_only_stop_ids_are_in_the_mask() -> None:
    matcher = rules_program(WORD).matcher()
    read(matcher, b"a", b"d")
    matcher.accept(OTHER_STOP)
    assert allowed(matcher) == {STOP, OTHER_STOP}
    assert matcher.configurations == 0


def test_a_stop_id_is_refused_before_the_end() -> None:
    matcher = rules_program(WORD).matcher()
    for data in (b"a", b"b", b"c"):
        assert not allowed(matcher) & {STOP, OTHER_STOP}
        assert not matcher.accept(STOP)
        read(matcher, data)


def test_ids_may_be_any_kind_of_integer() -> None:
    matcher = rules_program(WORD).matcher()
    assert matcher.accept(np.int64(token(b"a")))
    assert matcher.accept(np.int32(token(b"d")))
    assert matcher.validate([np.array(STOP)]) == 1
    assert matcher.accept(np.array(STOP))
    assert matcher.is_terminated()


def test_accept_all_takes_all_or_nothing() -> None:
    matcher = rules_program(WORD).matcher()
    before = state_of(matcher)
    assert not matcher.accept_all([token(b"a"), token(b"b"), token(b"a")])
    assert state_of(matcher) == before
    assert matcher.accept_all([token(b"a"), token(b"b"), token(b"d"), STOP])
    assert matcher.accepted == 4 and matcher.is_terminated()
    assert matcher.accept_all([])


@pytest.mark.parametrize("source", [WORD, LISTS, OPEN_END])
def test_validate_counts_and_changes_nothing(source: str) -> None:
    program = rules_program(source)
    generator = random.Random(source)
    path = random_walk(program, generator, 15)
    matcher = program.matcher()
    for position, chosen in enumerate(path):
        before = state_of(matcher)
        assert matcher.validate(path[position:]) == len(path) - position
        bad = generator.choice(sorted(set(range(SMALL.size)) - allowed(matcher)))
        assert matcher.validate([bad]) == 0
        assert matcher.validate([chosen, -1, chosen]) == 1
        assert matcher.validate([chosen, SMALL.size]) == 1
        assert matcher.validate([]) == 0
        assert state_of(matcher) == before
        assert matcher.accept(chosen)


def test_validate_goes_over_the_end_and_no_further() -> None:
    matcher = rules_program(WORD).matcher()
    path = [token(b"a"), token(b"d"), STOP]
    assert matcher.validate([*path, STOP]) == 3
    assert matcher.validate([token(b"a"), STOP]) == 1
    assert matcher.accept_all(path)
    assert matcher.validate([STOP]) == 0


# -- rollback, reset, fork -------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [WORD, LISTS, OPEN_END])
def test_rollback_is_exact_across_many_steps(source: str) -> None:
    program = rules_program(source)
    generator = random.Random(source)
    matcher, states = program.matcher(), []
    for chosen in random_walk(program, generator, 40):
        states.append(state_of(matcher))
        assert matcher.accept(chosen)
    states.append(state_of(matcher))
    path = random_walk(program, random.Random(source), 40)
    while matcher.accepted:
        count = generator.randint(0, min(7, matcher.accepted))
        matcher.rollback(count)
        assert state_of(matcher) == states[matcher.accepted]
        again = generator.randint(0, min(3, len(path) - matcher.accepted))
        if again < count:
            assert matcher.accept_all(path[matcher.accepted : matcher.accepted + again])
            assert state_of(matcher) == states[matcher.accepted]


def test_rollback_goes_over_the_stop_token() -> None:
    matcher = rules_program(WORD).matcher()
    read(matcher, b"a", b"c", b"d")
    before = state_of(matcher)
    assert matcher.accept(STOP)
    matcher.rollback(1)
    assert state_of(matcher) == before
    assert not matcher.is_terminated()
    assert matcher.accept(OTHER_STOP)
    matcher.rollback(3)
    read(matcher, b"bcd")
    assert matcher.accept(STOP)
    matcher.rollback(3)
    assert state_of(matcher) == state_of(rules_program(WORD).matcher())


@pytest.mark.parametrize("count", [-1, 3, 100])
def test_rollback_of_what_was_not_accepted_is_refused(count: int) -> None:
    matcher = rules_program(WORD).matcher()
    read(matcher, b"a", b"b")
    before = state_of(matcher)
    with pytest.raises(MatcherError, match="cannot roll back"):
        matcher.rollback(count)
    assert state_of(matcher) == before


def test_reset_starts_over() -> None:
    program = rules_program(LISTS)
    matcher, fresh = program.matcher(), state_of(program.matcher())
    read(matcher, b"[", b"[", b"a")
    matcher.reset()
    assert state_of(matcher) == fresh
    with pytest.raises(MatcherError):
        matcher.rollback(1)
    read(matcher, b"a")
    matcher.accept(STOP)
    matcher.reset()
    assert state_of(matcher) == fresh


def test_forks_go_their_own_ways() -> None:
    matcher = rules_program(LISTS).matcher()
    read(matcher, b"[", b"a")
    here = state_of(matcher)
    fork = matcher.fork()
    assert state_of(fork) == here
    read(fork, b",", b"[")
    assert state_of(matcher) == here
    matcher.rollback(2)
    read(matcher, b"a")
    assert allowed(fork) == {token(b) for b in (b"[", b"a", b"]", b"[[", b"]]")}
    fork.rollback(4)  # the history of before the fork
    assert state_of(fork) == state_of(rules_program(LISTS).matcher())
    second = matcher.fork()
    matcher.reset()
    assert second.accepted == 1
    assert second.is_complete()


def test_a_fork_keeps_its_stop_ids() -> None:
    matcher = rules_program(WORD).matcher(stop_ids=(PADDING,))
    read(matcher, b"a", b"d")
    assert allowed(matcher.fork()) == {STOP, OTHER_STOP, PADDING}


# -- ends ------------------------------------------------------------------------------------------------------


def test_extra_stop_ids_end_a_text() -> None:
    matcher = rules_program(WORD).matcher(stop_ids=(SPECIAL, PADDING))
    assert matcher.stop_ids == {STOP, OTHER_STOP, SPECIAL, PADDING}
    assert not matcher.accept(PADDING)
    read(matcher, b"a", b"d")
    assert allowed(matcher) == matcher.stop_ids
    assert matcher.accept(SPECIAL)
    assert matcher.is_terminated()
    assert allowed(matcher) == matcher.stop_ids
    assert allowed(rules_program(WORD).matcher()) == {token(b"a"), token(b"ab")}


def test_an_extra_stop_id_with_bytes_is_read_until_the_end() -> None:
    extra = token(b"b")
    matcher = rules_program("s = 'a' 'b'* ").matcher(stop_ids=(extra,))
    assert not matcher.accept(extra)
    read(matcher, b"a")
    assert extra in allowed(matcher)
    assert matcher.accept(extra)
    assert matcher.is_terminated()


@pytest.mark.parametrize("bad", [-1, SMALL.size])
def test_a_stop_id_outside_the_vocabulary_is_refused(bad: int) -> None:
    with pytest.raises(MatcherError, match="stop id"):
        rules_program(WORD).matcher(stop_ids=(bad,))


def test_complete_is_not_terminated() -> None:
    matcher = rules_program("s = 'a' 'b'* ").matcher()
    assert not matcher.is_complete()
    read(matcher, b"ab")
    assert matcher.is_complete() and not matcher.is_terminated()
    read(matcher, b"b")
    assert allowed(matcher) == {token(b"b"), STOP, OTHER_STOP}
    assert matcher.accept(STOP)
    assert matcher.is_complete() and matcher.is_terminated()


def test_the_empty_text_can_end_at_once() -> None:
    matcher = rules_program("s = ('a' 'b')?").matcher()
    assert matcher.is_complete()
    assert allowed(matcher) == {token(b"a"), token(b"ab"), STOP, OTHER_STOP}
    assert matcher.accept(STOP)


# -- forced tokens ---------------------------------------------------------------------------------------------


def test_forced_tokens_stop_where_there_is_a_choice() -> None:
    matcher = rules_program("s = 'x' 'y' 'z' ('p' | 'q') 'r' 's'").matcher()
    before = state_of(matcher)
    run = matcher.forced_tokens()
    assert run == [token(b"x"), token(b"y"), token(b"z")]
    assert matcher.forced_tokens(limit=2) == run[:2]
    assert matcher.forced_tokens(limit=0) == []
    assert state_of(matcher) == before
    assert matcher.accept_all(run)
    assert matcher.forced_tokens() == []
    read(matcher, b"q")
    assert matcher.forced_tokens() == [token(b"r"), token(b"s")]
    read(matcher, b"r", b"s")
    assert matcher.forced_tokens() == []
    matcher.accept(STOP)
    assert matcher.forced_tokens() == []


def test_a_token_with_a_shorter_beginning_is_not_forced() -> None:
    matcher = rules_program(WORD).matcher()
    assert matcher.forced_tokens() == []  # `a` or `ab`


def test_forced_tokens_of_every_bit() -> None:
    for byte in range(0x20, 0x7F):
        if byte not in b"'|()[]*+? ":
            program = rules_program(f"s = '{chr(byte)}'")
            assert program.matcher().forced_tokens() == [token(bytes([byte]))]
