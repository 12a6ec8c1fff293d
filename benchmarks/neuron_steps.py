"""The flow of vLLM on AWS Neuron without the device: scheduler, model runner, sampler, by masks and by row ids.

    python -m benchmarks.neuron_steps --steps 1000 --backend schemac --rows 256 --seed 1 --json FILE

Scheduler and model runner are simulated in one process, as the documents of vLLM Neuron describe them; the
`StructuredOutputManager`, its requests and `get_grammar_bitmask` are vLLM's own. Random logits take the place of the
model. Every step runs twice: through the boolean mask of the documented path and through row ids, and both must choose
the same tokens. Printed is how many bytes of masks each path moves to the device. Needs vLLM.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch._dynamo.testing

from benchmarks.neuron_workload import LONGEST, SPECULATIVE, Workload, engine_config
from schemac_runtime.neuron.layout import logit_rows
from schemac_runtime.neuron.rows import RowTable
from schemac_runtime.neuron.runner import ClassicMasks, NeuronConfig, RowIdMasks
from schemac_runtime.neuron.sampler import MaskedSampler
from schemac_runtime.neuron.scheduler import attach_bitmask, attach_rows

#: Requests in a batch; the bucket has room for their drafts too.
BATCH = 8
BUCKET = BATCH * (1 + SPECULATIVE)


class DocumentedSampler(torch.nn.Module):
    """What the documents say of vLLM Neuron's sampler: fill with -inf what is not allowed, take the largest."""

    def forward(self, logits: torch.Tensor, logit_mask: torch.Tensor) -> torch.Tensor:
        """int32 [B] from float [B, V] logits and a bool [B, V] mask."""
        return logits.masked_fill(~logit_mask, float("-inf")).argmax(-1).to(torch.int32)


class SimulatedScheduler:
    """Requests in, one step's output out, with the masks attached as vLLM Neuron's scheduler attaches them."""

    def __init__(self, manager: Any, workload: Workload) -> None:
        self.structured_output_manager = manager
        self.workload = workload
        self.requests: dict[str, Any] = {}

    def schedule(self) -> Any:
        """The output of a step: what runs, with which drafts, under which masks."""
        from vllm.v1.core.sched.scheduler import Scheduler

        while len(self.requests) < BATCH:
            request = self.workload.next_request()
            self.structured_output_manager.grammar_init(request)
            if request.structured_output_request is not None:
                self.workload.wait_for(request)
            self.requests[request.request_id] = request
        order = self.workload.shuffled(list(self.requests))
        drafts = {}
        for name in order:
            proposed = self.workload.drafts_for(self.requests[name])
            valid = self.structured_output_manager.validate_tokens(self.requests[name], proposed)
            if valid:
                drafts[name] = valid
        output = SimpleNamespace(
            num_scheduled_tokens={name: 1 + len(drafts.get(name, ())) for name in order},
            scheduled_spec_decode_tokens=drafts,
            has_structured_output_requests=any(r.use_structured_output for r in self.requests.values()),
        )
        attach_bitmask(output, Scheduler.get_grammar_bitmask(self, output))
        return output

    def update(self, output: Any, order: Sequence[str], tokens: Sequence[int]) -> int:
        """Give each request the tokens that were sampled for it, as far as its drafts agree; returns how many."""
        start = count = 0
        for name in order:
            request, drafts = self.requests[name], output.scheduled_spec_decode_tokens.get(name, [])
            sampled = list(tokens[start : start + 1 + len(drafts)])
            start += len(sampled)
            agreed = next((i for i, draft in enumerate(drafts) if draft != sampled[i]), len(drafts))
            new = sampled[: agreed + 1]
            ends = [index for index, token in enumerate(new) if token in self.workload.stop_ids]
            new = new[: ends[0] + 1] if ends else new
            assert min(new) >= 0, f"{name}: a mask that allows nothing"
            request.append_output_token_ids(new)
            if not self.structured_output_manager.accept_tokens(request, new):
                raise AssertionError(f"{name}: the grammar refuses {new}, which its mask allowed")
            count += len(new)
            if ends or request.num_output_tokens >= LONGEST:
                del self.requests[name]
        return count


@dataclass
class Figures:
    """What one path moved and took, step by step."""

    bytes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """Bytes per step and in all, and the median of the milliseconds per step on this machine."""
        moved = np.array(self.bytes)
        low, high = np.percentile(moved, [50, 99])
        return {
            "mean": float(moved.mean()), "p50": float(low), "p99": float(high), "largest": int(moved.max()),
            "total": int(moved.sum()), "host_ms_p50": float(np.median(self.seconds) * 1e3),
        }  # fmt: skip


def simulate(
    steps: int, backend: str, rows: int, seed: int, folder: Path, *, backend_rows: bool = False
) -> dict[str, Any]:
    """Run the steps on both paths.

    Args:
        steps: how many.
        backend: of structured outputs, by vLLM's name for it.
        rows: the capacity of the arena.
        seed: of requests, drafts and logits.
        folder: a model, as `tests.vllm.model` writes one.
        backend_rows: let the backend send row ids; then there are no masks, and no path but that of row ids. The
            tokens are to be compared by their digest with those of a run without.

    Raises:
        AssertionError: the paths chose different tokens, or a grammar refused one.
    """
    from vllm.v1.structured_output import StructuredOutputManager

    config = engine_config(folder, backend, rows if backend_rows else 0)
    manager = StructuredOutputManager(config)
    vocab_size = config.model_config.get_vocab_size()
    stop_ids = frozenset({int(config.model_config.hf_config.eos_token_id)})
    workload = Workload(vocab_size, stop_ids, backend, seed)
    scheduler = SimulatedScheduler(manager, workload)
    enabled = NeuronConfig(enable_structured_outputs=True)
    documented, sampler = DocumentedSampler(), MaskedSampler(vocab_size, rows)
    graphs = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(sampler, backend=graphs, fullgraph=True, dynamic=False)
    compiled(torch.zeros((BUCKET, vocab_size)), RowIdMasks(enabled, sampler).warmup_input(BUCKET))
    classic, by_row = ClassicMasks(enabled, vocab_size), RowIdMasks(enabled, sampler)
    table = None if backend_rows else RowTable(rows, vocab_size)
    figures = {name: Figures() for name in ("boolean masks", "row ids")[backend_rows:]}
    chosen = hashlib.sha256()
    counts = dict.fromkeys(("tokens", "drafts", "constrained rows", "free rows", "new rows"), 0)
    for _ in range(steps):
        output = scheduler.schedule()
        order, drafts = list(output.num_scheduled_tokens), output.scheduled_spec_decode_tokens
        used = logit_rows(order, drafts)
        logits = torch.zeros((BUCKET, vocab_size))
        at = 0
        for name in order:
            for ahead in range(1 + len(drafts.get(name, ()))):
                logits[at] = workload.logits(scheduler.requests[name], ahead)
                at += 1
        expected = None
        if not backend_rows:
            before = classic.bytes_moved
            start = time.perf_counter()
            logit_mask = classic.step_input(output, order, BUCKET)
            figures["boolean masks"].seconds.append(time.perf_counter() - start)
            figures["boolean masks"].bytes.append(classic.bytes_moved - before)
            expected = documented(logits, logit_mask)[:used].tolist()
        before = by_row.bytes_moved
        start = time.perf_counter()
        attach_rows(output, table)
        mask_rows = by_row.step_input(output, order, BUCKET)
        figures["row ids"].seconds.append(time.perf_counter() - start)
        figures["row ids"].bytes.append(by_row.bytes_moved - before)
        assert mask_rows is not None
        tokens = compiled(logits, mask_rows)[:used].tolist()
        assert expected is None or tokens == expected, f"masks choose {expected}, row ids {tokens}"
        chosen.update(np.array(tokens, dtype=np.int32).tobytes())
        attached = getattr(output, "_grammar_rows", None)
        constrained = 0 if attached is None else len(attached.row_ids)
        counts["tokens"] += scheduler.update(output, order, tokens)
        counts["drafts"] += used - len(order)
        counts["constrained rows"] += constrained
        counts["free rows"] += used - constrained
        counts["new rows"] += 0 if attached is None else len(attached.new_ids)
    manager.clear_backend()
    counts["graphs"] = graphs.frame_count
    return {
        "steps": steps, "backend": backend, "vocab_size": vocab_size, "bucket": BUCKET, "arena_rows": rows,
        "tokens_sha256": chosen.hexdigest(),
        **{name.replace(" ", "_"): count for name, count in counts.items()},
        "paths": {name: path.summary() for name, path in figures.items()},
    }  # fmt: skip


def report(figures: dict[str, Any]) -> str:
    """The figures as text."""
    same = ", the same on both paths" if len(figures["paths"]) > 1 else ", row ids from the backend"
    kept, tokens = figures["arena_rows"], f"{figures['tokens']:,} tokens{same}"
    what = f"{figures['steps']:,} steps of {figures['bucket']} rows, {figures['vocab_size']:,} token ids"
    rows = f"rows: {figures['constrained_rows']:,} constrained, {figures['free_rows']:,} free, drafts included"
    sent = f"{figures['new_rows']:,} mask rows sent to an arena of {kept}; graphs compiled: {figures['graphs']}"
    lines = [
        f"{what}, backend {figures['backend']}: {tokens}",
        f"{rows} ({figures['drafts']:,}); {sent}",
        f"{'bytes per step':16}{'mean':>14}{'p50':>12}{'p99':>12}{'largest':>12}{'in all':>18}",
    ]
    for name, path in figures["paths"].items():
        lines.append(
            f"{name:16}{path['mean']:14,.0f}{path['p50']:12,.0f}{path['p99']:12,.0f}{path['largest']:12,}"
            f"{path['total']:18,}"
        )
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--backend", default="schemac", help="schemac, xgrammar or guidance")
    parser.add_argument("--rows", type=int, default=256, help="capacity of the arena")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend-rows", action="store_true", help="let schemac's backend send row ids, no masks")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    from schemac_runtime.vllm import register
    from tests.vllm.model import make_model

    register(strict=True)
    with tempfile.TemporaryDirectory(prefix="schemac-neuron-") as folder:
        model = make_model(Path(folder))
        figures = simulate(
            options.steps, options.backend, options.rows, options.seed, model, backend_rows=options.backend_rows
        )
    print(report(figures))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
