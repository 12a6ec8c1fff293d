"""vLLM Neuron's flow with vLLM's own `StructuredOutputManager`: masks and row ids choose the same tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="not run: needs vLLM (make test-vllm)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "steps", "rows"), [("schemac", 1000, 256), ("schemac", 200, 40), ("xgrammar", 100, 256)]
)
def test_masks_and_row_ids_choose_the_same_tokens(
    backend: str, steps: int, rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.neuron_steps import BUCKET, report, simulate
    from schemac_runtime.vllm import register
    from tests.vllm.model import make_model

    register(strict=True)
    figures = simulate(steps, backend, rows, 1, make_model(tmp_path / "model"))  # raises if they differ
    with capsys.disabled():
        print(f"\n{report(figures)}")
    masks, row_ids = figures["paths"]["boolean masks"], figures["paths"]["row ids"]
    assert masks["p50"] == masks["largest"] == BUCKET * figures["vocab_size"]
    row = (figures["vocab_size"] + 31) // 32 * 4
    assert row_ids["total"] == steps * BUCKET * 4 + figures["new_rows"] * row
    assert row_ids["p50"] == BUCKET * 4 if rows > 100 else row_ids["p50"] < masks["p50"] / 10
    assert figures["graphs"] == 1  # constrained, free, mixed and speculative batches, and rows made late
    assert min(figures["constrained_rows"], figures["free_rows"], figures["drafts"]) > steps


@pytest.mark.slow
def test_row_ids_of_the_backend_choose_the_same_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.neuron_steps import report, simulate
    from schemac_runtime.vllm import register
    from tests.vllm.model import make_model

    register(strict=True)
    model = make_model(tmp_path / "model")
    masks = simulate(150, "schemac", 256, 1, model)
    rows = simulate(150, "schemac", 256, 1, model, backend_rows=True)
    with capsys.disabled():
        print(f"\n{report(rows)}")
    assert rows["tokens_sha256"] == masks["tokens_sha256"]
    assert list(rows["paths"]) == ["row ids"]
    assert rows["paths"]["row ids"]["p50"] == masks["paths"]["row ids"]["p50"]
