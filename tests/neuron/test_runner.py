"""Scheduler and runner: rows reach the logits they are for, and what must not run unconstrained is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from schemac_runtime import allocate_bitmask
from schemac_runtime.device import ArenaFull, RowSource
from schemac_runtime.errors import MatcherError, SchemacError
from tests.neuron import reference
from tests.runtime.programs import rules_program, token

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-neuron)")

from schemac_runtime.neuron.layout import ALL_ALLOWED, FREE_ROW, expand, logit_rows, unpack_bitmask  # noqa: E402
from schemac_runtime.neuron.rows import RowTable  # noqa: E402
from schemac_runtime.neuron.runner import (  # noqa: E402
    ClassicMasks,
    NeuronConfig,
    RowIdMasks,
    StructuredOutputsDisabled,
)
from schemac_runtime.neuron.sampler import MaskedSampler, ShardedMaskedSampler  # noqa: E402
from schemac_runtime.neuron.scheduler import SendsRowIds, attach_bitmask, attach_rows, attach_step  # noqa: E402

ENABLED = NeuronConfig(enable_structured_outputs=True)
SIZE = 100


class Output(SimpleNamespace):
    """What the code under test uses of vLLM's `SchedulerOutput`."""

    scheduled_spec_decode_tokens: dict[str, list[int]]


def step(masks: Any, constrained: list[str], drafts: dict[str, list[int]] | None = None) -> Output:
    output = Output(scheduled_spec_decode_tokens=drafts or {})
    attach_bitmask(output, SimpleNamespace(grammar_bitmask=masks, structured_output_request_ids=constrained))
    return output


# -- layout ------------------------------------------------------------------------------------------------------


def documented_reordering(
    compact: Any, constrained: list[str], req_ids: list[str], drafts: dict[str, list[int]], rows: int
) -> Any:
    """As the documents tell it: the index of the batch plus the drafts so far; then row by row."""
    starts, offset = {}, 0
    for index, request in enumerate(req_ids):
        starts[request] = index + offset
        offset += len(drafts.get(request, ()))
    full = np.full((rows, compact.shape[1]), -1, dtype=np.int32)
    at = 0
    for request in constrained:
        for draft in range(1 + len(drafts.get(request, ()))):
            if request in starts:
                full[starts[request] + draft] = compact[at]
            at += 1
    return full


def test_rows_come_in_the_order_of_the_logits() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        req_ids = [f"r{index}" for index in range(rng.integers(1, 9))]
        known = [*req_ids, "gone"]
        constrained = [str(name) for name in rng.permutation(known)[: rng.integers(0, len(known) + 1)]]
        drafts = {name: [1] * int(rng.integers(1, 5)) for name in known if rng.random() < 0.4}
        rows = logit_rows(req_ids, drafts) + int(rng.integers(0, 4))
        needed = sum(1 + len(drafts.get(name, ())) for name in constrained)
        compact = rng.integers(-(1 << 31), 1 << 31, (needed, 4), dtype=np.int32)
        got = expand(compact, constrained, req_ids, drafts, rows, ALL_ALLOWED)
        expected = documented_reordering(compact, constrained, req_ids, drafts, rows)
        np.testing.assert_array_equal(got, expected)
        ids = expand(compact[:, 0], constrained, req_ids, drafts, rows, -1)
        np.testing.assert_array_equal(ids, expected[:, 0])


def test_an_example_with_drafts_and_padding() -> None:
    ids = np.array([11, 12, 13, 21], dtype=np.int32)
    # "b" has two drafts, "c" none, "a" is free with one draft; the bucket has 8 rows
    got = expand(ids, ["b", "c"], ["a", "c", "b"], {"a": [7], "b": [8, 9]}, 8, FREE_ROW)
    assert got.tolist() == [0, 0, 21, 11, 12, 13, 0, 0]


def test_numbers_of_rows_that_disagree_are_errors() -> None:
    ids = np.array([1, 2], dtype=np.int32)
    with pytest.raises(MatcherError, match="2 mask rows for 1 requests that need 3"):
        expand(ids, ["a"], ["a"], {"a": [5, 6]}, 8, FREE_ROW)
    with pytest.raises(MatcherError, match="3 rows of logits in a bucket of 2"):
        expand(ids, ["a"], ["a", "b"], {"a": [5]}, 2, FREE_ROW)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 1003])
def test_unpacking_gives_the_bits(size: int) -> None:
    arena = reference.random_arena(np.random.default_rng(size), 12, size)
    mask = unpack_bitmask(torch.from_numpy(arena), size)
    assert mask.dtype == torch.bool
    for row in range(12):
        assert mask[row].nonzero().flatten().tolist() == reference.allowed(arena, row, size)


# -- row ids -----------------------------------------------------------------------------------------------------


def test_a_row_travels_once_and_the_longest_unused_makes_room() -> None:
    table = RowTable(4, SIZE)
    masks = np.arange(1, 21, dtype=np.int32).reshape(5, 4)
    first = table.step(masks[[0, 1, 0]])
    assert (first.row_ids.tolist(), first.new_ids.tolist()) == ([1, 2, 1], [1, 2])
    np.testing.assert_array_equal(first.new_rows, masks[:2])
    again = table.step(masks[[1, 0]])
    assert (again.row_ids.tolist(), len(again.new_rows)) == ([2, 1], 0)
    table.step(masks[[0, 2]])
    late = table.step(masks[[3, 2]])  # 1 was used longest ago
    assert (late.row_ids.tolist(), late.new_ids.tolist()) == ([2, 3], [2])
    with pytest.raises(ArenaFull, match="4 different masks in one step, the arena has 3 rows"):
        table.step(masks[1:])
    assert table.step(masks[[3, 2, 0]]).new_ids.tolist() == []  # the refused step changed nothing


def test_what_allows_everything_is_row_0() -> None:
    table = RowTable(4, SIZE)
    masks = np.full((3, 4), -1, dtype=np.int32)
    masks[1, 3] = (1 << SIZE % 32) - 1  # the bits past the vocabulary do not matter
    masks[2, 3] = (1 << SIZE % 32) - 2
    got = table.step(masks)
    assert (got.row_ids.tolist(), got.new_ids.tolist()) == ([0, 0, 1], [1])


def test_the_arena_holds_what_the_table_says_over_many_steps() -> None:
    rng = np.random.default_rng(1)
    pool = reference.random_arena(rng, 60, SIZE)
    sampler = MaskedSampler(SIZE, 17)
    table, runner = RowTable(17, SIZE), RowIdMasks(ENABLED, sampler)
    for _ in range(300):
        requests = [f"r{index}" for index in range(6)]
        constrained = [name for name in requests if rng.random() < 0.6]
        drafts = {name: [0] * int(rng.integers(1, 3)) for name in requests if rng.random() < 0.3}
        count = sum(1 + len(drafts.get(name, ())) for name in constrained)
        masks = pool[rng.integers(len(pool), size=count)] if rng.random() < 0.5 else pool[rng.integers(9, size=count)]
        output = step(masks.copy(), constrained, drafts)
        attach_rows(output, table)
        rows = runner.step_input(output, requests, 20)
        expected = expand(masks, constrained, requests, drafts, 20, ALL_ALLOWED)
        np.testing.assert_array_equal(sampler.arena[rows].numpy(), expected)


def test_a_lost_step_is_found_out() -> None:
    table, runner = RowTable(8, SIZE), RowIdMasks(ENABLED, MaskedSampler(SIZE, 8))
    outputs = [step(np.full((1, 4), n, dtype=np.int32), ["a"]) for n in (1, 2)]
    for output in outputs:
        attach_rows(output, table)
    with pytest.raises(MatcherError, match="step 1 came where 0 was due"):
        runner.step_input(outputs[1], ["a"], 1)
    assert runner.step_input(outputs[0], ["a"], 1).tolist() == [1]


def test_steps_of_matchers_travel_the_same_way() -> None:
    program = rules_program("root = 'a' | 'bc'")
    source, sampler = RowSource(8, program.vocab_size), MaskedSampler(program.vocab_size, 8)
    runner = RowIdMasks(ENABLED, sampler)
    matchers = [program.matcher(), program.matcher()]
    assert matchers[1].accept(token(b"a"))
    output = Output(scheduled_spec_decode_tokens={})
    attach_step(output, source.step(matchers), ["x", "y"])
    rows = runner.step_input(output, ["y", "free", "x"], 4)
    expected = allocate_bitmask(4, program.vocab_size)
    matchers[1].fill_bitmask(expected, 0)
    matchers[0].fill_bitmask(expected, 2)
    np.testing.assert_array_equal(sampler.arena[rows].numpy(), expected)


def test_a_backend_that_sends_row_ids_itself_needs_no_table() -> None:
    program = rules_program("root = 'a' | 'bc'")
    source, sampler = RowSource(8, program.vocab_size), MaskedSampler(program.vocab_size, 8)
    output = step(source.step([program.matcher()]).encode(8), ["x"])
    with pytest.raises(MatcherError, match="sent row ids, not masks"):
        ClassicMasks(ENABLED, program.vocab_size).step_input(output, ["x"], 1)
    attach_rows(output)
    rows = RowIdMasks(ENABLED, sampler).step_input(output, ["free", "x"], 2)
    expected = allocate_bitmask(2, program.vocab_size)
    program.matcher().fill_bitmask(expected, 1)
    np.testing.assert_array_equal(sampler.arena[rows].numpy(), expected)
    with pytest.raises(MatcherError, match=r"no table of rows \(set row_table"):
        attach_rows(step(expected, ["x"]))


def test_masks_that_found_no_row_are_an_error() -> None:
    program = rules_program("root = 'a' | 'bc'")
    source = RowSource(2, program.vocab_size)
    matchers = [program.matcher(), program.matcher()]
    assert matchers[1].accept(token(b"a"))
    output = Output(scheduled_spec_decode_tokens={})
    attach_step(output, source.step(matchers), ["x", "y"])
    with pytest.raises(MatcherError, match=r"1 masks found no row in the arena \(make the arena larger"):
        RowIdMasks(ENABLED, MaskedSampler(program.vocab_size, 2)).step_input(output, ["x", "y"], 2)


def test_masks_where_row_ids_are_expected_are_an_error() -> None:
    runner = RowIdMasks(ENABLED, MaskedSampler(SIZE, 8))
    with pytest.raises(MatcherError, match="masks, not row ids"):
        runner.step_input(step(np.zeros((1, 4), dtype=np.int32), ["a"]), ["a"], 1)


def test_a_sharded_sampler_takes_rows_of_the_whole_vocabulary() -> None:
    sampler = ShardedMaskedSampler(SIZE, 8, 1, 2, lambda value: value.unsqueeze(0))
    table, runner = RowTable(8, SIZE), RowIdMasks(ENABLED, sampler)
    masks = reference.random_arena(np.random.default_rng(2), 3, SIZE)[2:]
    output = step(masks, ["a"])
    attach_rows(output, table)
    runner.step_input(output, ["a"], 4)
    own = reference.allowed(sampler.local.arena.numpy(), 1, sampler.width)
    assert [sampler.first + token for token in own] == [t for t in reference.allowed(masks, 0, SIZE) if t >= 50]
    with pytest.raises(MatcherError, match=r"int32 \[n, 4\]"):
        sampler.load_rows(1, np.zeros((1, 2), dtype=np.int32))


# -- scheduler ---------------------------------------------------------------------------------------------------


class BaseScheduler:
    """A scheduler with vLLM's `get_grammar_bitmask`."""

    def __init__(self, grammar_output: Any) -> None:
        self.grammar_output, self.calls = grammar_output, 0

    def schedule(self) -> Output:
        return Output(scheduled_spec_decode_tokens={})

    def get_grammar_bitmask(self, _: Output) -> Any:
        self.calls += 1
        return self.grammar_output


class NeuronScheduler(BaseScheduler):
    """One that attaches the masks itself, as documented."""

    def schedule(self) -> Output:
        output = super().schedule()
        attach_bitmask(output, self.get_grammar_bitmask(output))
        return output


@pytest.mark.parametrize("base", [BaseScheduler, NeuronScheduler])
def test_the_mixin_sends_row_ids(base: type) -> None:
    scheduler_class = type("RowIdScheduler", (SendsRowIds, base), {})
    masks = np.arange(8, dtype=np.int32).reshape(2, 4)
    scheduler = scheduler_class(SimpleNamespace(grammar_bitmask=masks, structured_output_request_ids=["a", "b"]))
    scheduler.row_table = RowTable(8, SIZE)
    output = scheduler.schedule()
    assert scheduler.calls == 1
    assert output._grammar_bitmask is None
    assert output._structured_output_request_ids == ["a", "b"]
    assert output._grammar_rows.row_ids.tolist() == [1, 2]
    free = scheduler_class(None)
    free.row_table = RowTable(8, SIZE)
    assert not hasattr(free.schedule(), "_grammar_rows")


# -- modes -------------------------------------------------------------------------------------------------------


def test_enabled_always_gives_a_tensor_of_the_bucket() -> None:
    classic, by_row = ClassicMasks(ENABLED, SIZE), RowIdMasks(ENABLED, MaskedSampler(SIZE, 8))
    free = Output(scheduled_spec_decode_tokens={})
    for made in (classic.warmup_input(4), classic.step_input(free, ["a"], 4)):
        assert (made.dtype, tuple(made.shape), bool(made.all())) == (torch.bool, (4, SIZE), True)
    for made in (by_row.warmup_input(4), by_row.step_input(free, ["a"], 4)):
        assert (made.dtype, made.tolist()) == (torch.int32, [0, 0, 0, 0])
    assert classic.bytes_moved == 4 * SIZE  # of the step; warm-up is not counted
    assert by_row.bytes_moved == 4 * 4


def test_disabled_gives_no_input_and_refuses_constrained_requests() -> None:
    config = NeuronConfig()
    config.check_request("free", constrained=False)
    with pytest.raises(StructuredOutputsDisabled) as refusal:
        config.check_request("r1", constrained=True)
    assert isinstance(refusal.value, ValueError)  # which vLLM answers with 400
    assert "request r1" in str(refusal.value)
    assert 'restart it with {"neuron_config": {"enable_structured_outputs": true}}' in str(refusal.value)
    for path in (ClassicMasks(config, SIZE), RowIdMasks(config, MaskedSampler(SIZE, 8))):
        assert path.warmup_input(4) is None
        assert path.step_input(Output(scheduled_spec_decode_tokens={}), ["a"], 4) is None
        with pytest.raises(StructuredOutputsDisabled):  # never unconstrained, even if admission was passed by
            path.step_input(step(np.zeros((1, 4), dtype=np.int32), ["a"]), ["a"], 4)


def test_cpu_sampling_is_not_implemented() -> None:
    config = NeuronConfig(enable_structured_outputs=True, on_device_sampling=False)
    config.check_request("free", constrained=False)
    with pytest.raises(NotImplementedError, match="on-device sampling"):
        config.check_request("r1", constrained=True)


def test_the_configuration_is_read_from_vllms() -> None:
    assert NeuronConfig.read({"neuron_config": {"enable_structured_outputs": True}}) == ENABLED
    assert NeuronConfig.read({"neuron_config": {}}) == NeuronConfig.read(None) == NeuronConfig()
    with pytest.raises(SchemacError, match="expected true or false, not 'yes'"):
        NeuronConfig.read({"neuron_config": {"enable_structured_outputs": "yes"}})
