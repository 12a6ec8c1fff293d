"""Programs as tables of a device: the same masks and steps as a matcher's, or a reason why not."""

from __future__ import annotations

import numpy as np
import pytest

from schemac_runtime import DeviceError, allocate_bitmask, unpack
from schemac_runtime.device.tables import FREE, step_tables
from schemac_runtime.kernels import reference
from schemac_runtime.kernels.table import NEED, ROW
from tests.device.programs import COUNTED, PLAIN, STACKED, VOCABULARIES, linked


def allowed_by(matcher, budget=None) -> np.ndarray:
    mask = allocate_bitmask(1, matcher.program.vocab_size)
    matcher.fill_bitmask(mask, 0, budget)
    return unpack(mask, matcher.program.vocab_size)[0]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("name", PLAIN)
def test_random_walks_allow_what_a_matcher_allows(name: str, vocabulary: str) -> None:
    program = linked(*PLAIN[name], vocabulary)
    extra = () if vocabulary == "small" else (200,)
    tables = step_tables([program], [extra])
    assert tables.min_tokens(0) <= program.min_tokens()
    rng = np.random.default_rng(3)
    width = (program.vocab_size + 31) // 32
    for _ in range(25):
        matcher, state = program.matcher(extra), tables.entry[0]
        for _ in range(60):
            allowed = reference.allowed_in(
                tables.rows, tables.info, tables.start, tables.classes, tables.following, state, 1 << 30, width
            )
            np.testing.assert_array_equal(allowed, allowed_by(matcher))
            assert (tables.info[state, NEED] == 1) == (matcher.is_complete() and not matcher.is_terminated())
            assert (tables.info[state, NEED] == 0) == matcher.is_terminated()
            if matcher.is_terminated():
                break
            for token in rng.choice(program.vocab_size, 3).tolist():  # whatever is refused leads nowhere
                after = reference.next_state(
                    tables.info, tables.start, tables.classes, tables.following, state, token
                )
                assert (after >= 0) == bool(allowed[token])
            token = int(rng.choice(np.flatnonzero(allowed)))
            assert matcher.accept(token)
            state = reference.next_state(tables.info, tables.start, tables.classes, tables.following, state, token)


@pytest.mark.parametrize("name", PLAIN)
def test_every_state_can_be_finished_in_what_it_needs(name: str) -> None:
    tables = step_tables([linked(*PLAIN[name], "small")])
    width = tables.rows.shape[1]
    for state in range(1, len(tables.info)):
        need = int(tables.info[state, NEED])
        allowed = reference.allowed_in(
            tables.rows, tables.info, tables.start, tables.classes, tables.following, state, max(need, 1), width
        )
        assert allowed.any()
        after = [reference.next_state(tables.info, tables.start, tables.classes, tables.following, state, token)
                 for token in np.flatnonzero(allowed).tolist()]  # fmt: skip
        assert min(int(tables.info[s, NEED]) for s in after) == max(need - 1, 0)


def test_several_programs_and_free_requests() -> None:
    programs = [linked(*PLAIN[name], "small") for name in PLAIN]
    tables = step_tables(programs)
    assert len(tables.entry) == len(programs)
    assert tables.info[FREE].tolist() == [0, 0, -1, -1]
    assert (tables.rows[0] == -1).all()
    for token in range(tables.vocab_size):
        free = reference.next_state(tables.info, tables.start, tables.classes, tables.following, FREE, token)
        assert free == FREE
    alone = [step_tables([program]) for program in programs]
    for number, other in enumerate(alone):
        assert tables.min_tokens(number) == other.min_tokens(0)
        np.testing.assert_array_equal(
            tables.rows[tables.info[tables.entry[number], ROW]], other.rows[other.info[other.entry[0], ROW]]
        )


@pytest.mark.parametrize("name", STACKED)
def test_what_needs_a_stack_is_refused_with_the_reason(name: str) -> None:
    source, kind, why = STACKED[name]
    with pytest.raises(DeviceError, match=why) as caught:
        step_tables([linked(source, kind, "bytes")])
    assert "row id" in (caught.value.hint or "")


def test_what_counts_in_registers_is_refused() -> None:
    with pytest.raises(DeviceError, match="more than a state"):
        step_tables([linked(*COUNTED, "bytes")])


def test_other_refusals() -> None:
    with pytest.raises(DeviceError, match="no program"):
        step_tables([])
    with pytest.raises(DeviceError, match="different sizes"):
        step_tables([linked(*PLAIN["regex"], "small"), linked(*PLAIN["regex"], "bytes")])
    with pytest.raises(DeviceError, match="more than 400 bytes"):
        step_tables([linked(*PLAIN["object"], "bytes")], most_bytes=400)
