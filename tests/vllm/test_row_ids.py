"""Row ids between vLLM's scheduler and its model runner: the same masks as packed ones give."""

from __future__ import annotations

import asyncio
import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-vllm)")

from schemac_runtime import DeviceError  # noqa: E402
from schemac_runtime.vllm.grammar import GrammarState  # noqa: E402
from schemac_runtime.vllm.rows import newer_taking_steps, refusal, step_masks, taking_steps  # noqa: E402
from schemac_runtime.vllm.versions import VERSIONS  # noqa: E402
from tests.runtime.programs import OTHER_STOP, SMALL, STOP, schema_program  # noqa: E402
from tests.vllm.model import make_model  # noqa: E402

SCHEMAS = (
    '{"type": "array", "items": {"enum": [1, 12, 2]}, "maxItems": 6}',
    '{"type": "array", "items": {"$ref": "#"}}',
    '{"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": false}',
)


def without_vllm(scheduler_output: Any, grammar_output: Any, input_batch: Any, logits: Any) -> None:
    """What vLLM's function does with packed masks, as its documentation says it."""
    starts, start = {}, 0
    drafts = scheduler_output.scheduled_spec_decode_tokens
    for name in input_batch.req_ids:
        starts[name] = start
        start += 1 + len(drafts.get(name, ()))
    row = 0
    for name in grammar_output.structured_output_request_ids:
        for index in range(1 + len(drafts.get(name, ()))):
            if name in starts:
                bits = np.unpackbits(grammar_output.grammar_bitmask[row].view(np.uint8), bitorder="little")
                logits[starts[name] + index, torch.from_numpy(bits[: logits.shape[1]] == 0)] = float("-inf")
            row += 1


def functions() -> list[Callable[..., None]]:
    if importlib.util.find_spec("vllm") is None:
        return [without_vllm]
    from vllm.v1.structured_output.utils import apply_grammar_bitmask

    return [without_vllm, getattr(apply_grammar_bitmask, "__wrapped__", apply_grammar_bitmask)]


@pytest.mark.parametrize("original", functions())
def test_steps_do_what_packed_masks_do(original: Callable[..., None]) -> None:
    generator = random.Random(1)
    apply = taking_steps(original)
    steps = step_masks(3, SMALL.size, 64)  # too few rows: some masks travel packed
    batch = type("Batch", (), {})()  # one that may be referred to weakly, as vLLM's
    states = [GrammarState(schema_program(SCHEMAS[i % 3]), {STOP, OTHER_STOP} if i % 2 else set()) for i in range(7)]
    for _ in range(40):
        names = [f"r{index}" for index in range(7)]
        drafts = {name: [0] * generator.randrange(3) for name in generator.sample(names, 4)}
        constrained = generator.sample(names, 5)
        batch.req_ids = generator.sample(names, 6)
        packed = torch.zeros((64, (SMALL.size + 31) // 32), dtype=torch.int32)
        row = 0
        for name in constrained:
            for index in range(1 + len(drafts.get(name, ()))):
                for bitmask in (packed, steps):
                    if index == 1 or states[int(name[1:])].is_terminated():
                        bitmask[row].fill_(torch.tensor(-1, dtype=torch.int32))
                    else:
                        states[int(name[1:])].fill_bitmask(bitmask, row)
                row += 1
        scheduled = SimpleNamespace(scheduled_spec_decode_tokens=drafts)
        results = []
        logits = torch.randn(sum(1 + len(drafts.get(name, ())) for name in batch.req_ids), SMALL.size)
        for data in (packed[:row].numpy(), steps[:row].numpy()):
            output = SimpleNamespace(structured_output_request_ids=constrained, grammar_bitmask=data)
            apply(scheduled, output, batch, out := logits.clone())
            results.append(out)
        assert results[0].equal(results[1])
        for state in states:
            tokens = [t for t in range(SMALL.size) if state.validate_tokens([t])]
            if state.is_terminated() or not tokens:
                state.reset()
            else:
                assert state.accept_tokens("r", [generator.choice(tokens)])
    assert steps.source.packed_masks > 0


def test_the_newer_runner() -> None:
    """Its method, with what it is given when no request has drafts; a request that has left the batch has no row."""
    calls: list[Any] = []
    apply = newer_taking_steps(lambda *arguments: calls.append(arguments))
    worker = type("Worker", (), {})()
    states = [GrammarState(schema_program(schema), {STOP}) for schema in SCHEMAS]
    steps = step_masks(50, SMALL.size, 8)
    batch = SimpleNamespace(req_ids=["c", "x", "a"], cu_num_logits_np=np.array([0, 1, 2, 3], np.int32))
    packed = torch.zeros((3, (SMALL.size + 31) // 32), dtype=torch.int32)
    for bitmask in (packed, steps):
        for row, state in enumerate(states):
            state.fill_bitmask(bitmask, row)
    logits = torch.randn(3, SMALL.size)
    wanted = logits.clone()
    output = SimpleNamespace(structured_output_request_ids=["a", "b", "c"], grammar_bitmask=packed.numpy())
    without_vllm(SimpleNamespace(scheduled_spec_decode_tokens={}), output, batch, wanted)
    apply(worker, logits, batch, ["a", "b", "c"], steps[:3].numpy())
    assert logits.equal(wanted) and not calls
    apply(worker, logits, batch, ["a"], packed.numpy())
    assert len(calls) == 1, "packed masks are vLLM's"
    batch.cu_num_logits_np = np.array([0, 2, 3, 4], np.int32)
    steps[0].fill_(-1)
    with pytest.raises(DeviceError, match="more than one row"):
        apply(worker, logits, batch, ["c"], steps[:1].numpy())


def test_what_is_patched_is_as_expected() -> None:
    pytest.importorskip("vllm", reason="not run: needs vLLM, which `make test-vllm` sets up")
    import inspect

    newer = pytest.importorskip("vllm.v1.worker.gpu.structured_outputs")
    found = inspect.signature(newer.StructuredOutputsWorker.apply_grammar_bitmask)
    assert tuple(found.parameters) == ("self", "logits", "input_batch", "grammar_req_ids", "grammar_bitmask")


def test_which_runners_get_packed_masks() -> None:
    old, new = VERSIONS["0.32"], VERSIONS["0.33"]
    assert refusal(SimpleNamespace(), old) is None
    assert "0.33" in str(refusal(SimpleNamespace(), new))
    newer = {"use_v2_model_runner": True}
    assert refusal(SimpleNamespace(**newer, speculative_config=None), old) is None
    assert "drafts" in str(refusal(SimpleNamespace(**newer, speculative_config=object()), old))
    assert refusal(SimpleNamespace(speculative_config=object()), old) is None
    sharded = SimpleNamespace(enable_batch_sharded_sampling=True)
    assert "part of the batch" in str(refusal(SimpleNamespace(**newer, parallel_config=sharded), old))
    parallel = SimpleNamespace(pipeline_parallel_size=2)
    assert "pipeline" in str(refusal(SimpleNamespace(parallel_config=parallel), old))


@pytest.mark.slow
@pytest.mark.parametrize("speculative", [False, True])
def test_a_server_that_sends_row_ids(tmp_path: Path, speculative: bool) -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("not run: needs vLLM, which `make test-vllm` sets up")
    from tests.vllm.server import serving
    from tests.vllm.traffic import cases, send

    model = make_model(tmp_path / "model")
    settings = {"finish": True, "device_rows": 512}
    with serving(model, tmp_path / "log.txt", speculative=speculative, settings=settings) as server:
        report = asyncio.run(send(server.url, cases(50, seed=6)))
        assert report.problems == [] and report.finished > 30 and report.cut == 0
        log = server.log_text()
    assert "row ids are sent in the place of masks" in log
    for sign in (" ERROR ", "Traceback", "Unexpected: grammar"):
        assert sign not in log, [line for line in log.splitlines() if sign in line][:5]
