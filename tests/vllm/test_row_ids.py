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

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-device)")

from schemac_runtime.vllm.grammar import GrammarState  # noqa: E402
from schemac_runtime.vllm.rows import refusal, step_masks, taking_steps  # noqa: E402
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


def test_which_runners_get_packed_masks() -> None:
    old, new = VERSIONS["0.32"], VERSIONS["0.33"]
    assert refusal(SimpleNamespace(), old) is None
    assert "0.33" in str(refusal(SimpleNamespace(), new))
    assert "V2_MODEL_RUNNER" in str(refusal(SimpleNamespace(use_v2_model_runner=True), old))
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
