"""The torch sampler: equal to the reference, traced once, exportable, and the same over shards of the vocabulary."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemac_runtime.errors import MatcherError
from tests.neuron import reference

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-neuron)")

from schemac_runtime.neuron.layout import FREE_ROW, expand  # noqa: E402 - needs torch
from schemac_runtime.neuron.sampler import (  # noqa: E402
    MaskedSampler,
    ShardedMaskedSampler,
    combine_shards,
    shard_columns,
    shard_rows,
)

ROOT = Path(__file__).parent.parent.parent
SIZE, ROWS, BUCKET = 1003, 20, 16
DTYPES = ("float32", "bfloat16", "float16")


class DocumentedSampler(torch.nn.Module):  # type: ignore[misc]
    """What the documents say of vLLM Neuron's sampler."""

    def forward(self, logits: Any, sampling_params: Any, logit_mask: Any) -> Any:
        return logits.masked_fill(~logit_mask, float("-inf")).argmax(-1).to(torch.int32)


def sampler_with(arena: reference.Int32, size: int, inner: Any = None) -> Any:
    sampler = MaskedSampler(size, len(arena), inner)
    assert sampler.load_rows(1, arena[1:]) == arena[1:].nbytes
    return sampler


def tensor(values: reference.Array, dtype: str) -> Any:
    return torch.from_numpy(values.astype(np.float32)).to(getattr(torch, dtype))


@pytest.mark.parametrize("size", [1, 31, 32, 33, SIZE])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tokens_equal_the_reference(dtype: str, size: int) -> None:
    rng = np.random.default_rng(size)
    arena = reference.random_arena(rng, ROWS, size)
    sampler = sampler_with(arena, size)
    documented = sampler_with(arena, size, DocumentedSampler())
    for _ in range(60):
        logits = tensor(reference.random_logits(rng, BUCKET, size, "float32"), dtype)
        rows = rng.integers(-1, ROWS + 1, size=BUCKET, dtype=np.int32)
        expected = reference.greedy(logits.float().numpy(), rows, arena)
        assert sampler(logits, torch.from_numpy(rows)).tolist() == expected.tolist()
        usable = ~np.isnan(logits.float().numpy()).any(1) & (expected >= 0)
        usable &= np.take_along_axis(logits.float().numpy(), np.maximum(expected, 0)[:, None], 1)[:, 0] > -np.inf
        assert documented(logits, torch.from_numpy(rows))[usable].tolist() == expected[usable].tolist()


def batches(rng: np.random.Generator) -> list[tuple[str, Any, Any]]:
    """(name, row ids, logits) of steps of every sort, all in the same bucket."""
    requests = [f"r{index}" for index in range(6)]
    drafts = {"r1": [5, 6, 7], "r4": [9]}
    found = []
    for name, constrained, drafted in (
        ("warm-up", [], {}),
        ("constrained", requests, {}),
        ("unconstrained", [], {}),
        ("mixed", ["r3", "r0"], {}),
        ("speculative", ["r4", "r1", "r2"], drafts),
        ("one request", ["r0"], {}),
        ("rows of the end", requests[3:], drafts),
    ):
        compact = rng.integers(1, ROWS, size=20, dtype=np.int32)
        batch = requests[:1] if name == "one request" else requests
        rows = expand(compact, constrained, batch, drafted, BUCKET, FREE_ROW)
        logits = reference.random_logits(rng, BUCKET, SIZE, "float32")
        found.append((name, torch.from_numpy(rows), torch.from_numpy(logits)))
    return found


@pytest.mark.parametrize("wrapped", [False, True], ids=["own", "wrapped"])
def test_every_batch_runs_in_the_one_compiled_graph(wrapped: bool) -> None:
    import torch._dynamo.testing

    torch._dynamo.reset()
    rng = np.random.default_rng(3)
    arena = reference.random_arena(rng, ROWS, SIZE)
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    sampler = sampler_with(arena, SIZE, DocumentedSampler() if wrapped else None)
    compiled = torch.compile(sampler, backend=counter, fullgraph=True, dynamic=False)
    for turn in range(3):
        for name, rows, logits in batches(rng):
            got = compiled(logits, rows)
            if not wrapped:
                assert got.tolist() == reference.greedy(logits.numpy(), rows.numpy(), arena).tolist(), name
            assert torch.equal(got, sampler(logits, rows)), name
        arena[1:] = np.roll(arena[1:], turn + 1, axis=0)  # rows made late change no graph
        sampler.load_rows(1, arena[1:])
    assert counter.frame_count == 1


@pytest.mark.slow
def test_the_graph_of_inductor_gives_the_same_tokens() -> None:
    torch._dynamo.reset()
    rng = np.random.default_rng(4)
    arena = reference.random_arena(rng, ROWS, SIZE)
    sampler = sampler_with(arena, SIZE)
    compiled = torch.compile(sampler, fullgraph=True, dynamic=False)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for name, rows, logits in batches(rng):
            assert compiled(logits, rows).tolist() == sampler(logits, rows).tolist(), name


def test_it_exports_with_the_arena_as_a_buffer() -> None:
    rng = np.random.default_rng(5)
    arena = reference.random_arena(rng, ROWS, SIZE)
    sampler = sampler_with(arena, SIZE)
    _, rows, logits = batches(rng)[3]
    exported = torch.export.export(sampler, (logits, rows))
    buffers = [spec.target for spec in exported.graph_signature.input_specs if spec.kind.name == "BUFFER"]
    assert buffers == ["arena"]
    assert not exported.range_constraints  # no dynamic shapes
    module = exported.module()
    for name, rows, logits in batches(rng):
        assert torch.equal(module(logits, rows), sampler(logits, rows)), name
    used = {str(node.target) for node in exported.graph.nodes if node.op == "call_function"}
    assert not [name for name in used if "sym" in name or "item" in name or "nonzero" in name], used


def test_no_row_ids_is_an_error() -> None:
    with pytest.raises(MatcherError, match=r"no row ids \(pass zeros"):
        MaskedSampler(SIZE, ROWS)(torch.zeros(2, SIZE), None)


def test_rows_that_do_not_fit_are_refused() -> None:
    sampler = MaskedSampler(70, 4)
    good = np.zeros((2, 3), dtype=np.int32)
    sampler.load_rows(2, good)
    for first, rows in ((0, good), (3, good), (-1, good), (1, good.astype(np.int64)), (1, good[:, :2]), (1, good[0])):
        with pytest.raises(MatcherError):
            sampler.load_rows(first, rows)
    assert sampler.arena[0].tolist() == [-1, -1, -1]
    with pytest.raises(MatcherError, match="holds nothing"):
        MaskedSampler(70, 0)


# -- shards ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 33, 64, 1003])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_shards_hold_each_column_once(size: int, ranks: int) -> None:
    rng = np.random.default_rng(size)
    arena = reference.random_arena(rng, 9, size)
    seen = []
    for rank in range(ranks):
        first, width = shard_columns(size, rank, ranks)
        own = shard_rows(arena, size, first, width)
        assert own.shape == (9, (width + 31) // 32)
        for row in range(9):
            seen += [(row, first + token) for token in reference.allowed(own, row, own.shape[1] * 32)]
    assert sorted(seen) == [(row, token) for row in range(9) for token in reference.allowed(arena, row, size)]
    with pytest.raises(MatcherError, match="there is no rank"):
        shard_columns(size, ranks, ranks)


def in_shards(
    arena: reference.Int32, logits: Any, rows: Any, ranks: int, padded: int | None = None
) -> list[list[int]]:
    """The tokens that each rank returns, the ranks as threads that meet in the collective."""
    size = logits.shape[1]
    slots: list[Any] = [None] * ranks
    barrier = threading.Barrier(ranks)

    def gather_of(rank: int) -> Any:
        def gather(value: Any) -> Any:
            slots[rank] = value
            barrier.wait(timeout=30)
            together = torch.stack(slots)
            barrier.wait(timeout=30)
            return together

        return gather

    results: list[Any] = [None] * ranks

    def work(rank: int) -> None:
        sampler = ShardedMaskedSampler(size, len(arena), rank, ranks, gather_of(rank), padded)
        sampler.load_rows(1, arena[1:])
        own = torch.full((len(logits), sampler.width), 6e4, dtype=logits.dtype)  # padding must never win
        part = logits[:, sampler.first : sampler.first + sampler.width]
        own[:, : part.shape[1]] = part
        results[rank] = sampler(own, rows).tolist()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ranks", "padded"), [(1, None), (2, None), (3, None), (8, 1024), (4, 1280)])
def test_all_ranks_return_the_tokens_of_the_whole_vocabulary(ranks: int, padded: int | None, dtype: str) -> None:
    rng = np.random.default_rng(ranks)
    arena = reference.random_arena(rng, ROWS, SIZE)
    for _ in range(6):
        logits = tensor(reference.random_logits(rng, BUCKET, SIZE, "float32"), dtype)
        rows = rng.integers(ROWS, size=BUCKET, dtype=np.int32)
        expected = reference.greedy(logits.float().numpy(), rows, arena).tolist()
        assert in_shards(arena, logits, torch.from_numpy(rows), ranks, padded) == [expected] * ranks


def test_shards_that_find_nothing_are_left_out() -> None:
    values = torch.tensor([[5.0, -float("inf"), 1.0], [9.0, -float("inf"), 1.0]])
    tokens = torch.tensor([[3, 4, 7], [-1, -1, 6]], dtype=torch.int32)
    assert combine_shards(values, tokens).tolist() == [3, 4, 6]
    assert combine_shards(values, torch.full((2, 3), -1, dtype=torch.int32)).tolist() == [-1, -1, -1]


RANK = """
import sys
import numpy as np
import torch
import torch.distributed as dist
from schemac_runtime.neuron.sampler import ShardedMaskedSampler, gather_over
from tests.neuron import reference
rank, ranks, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks)
rng = np.random.default_rng(8)
arena = reference.random_arena(rng, 20, 1003)
logits = reference.random_logits(rng, 16, 1003, "float32")
rows = rng.integers(20, size=16, dtype=np.int32)
sampler = ShardedMaskedSampler(1003, 20, rank, ranks, gather_over())
sampler.load_rows(1, arena[1:])
own = torch.full((16, sampler.width), 1e9)
part = torch.from_numpy(logits[:, sampler.first : sampler.first + sampler.width])
own[:, : part.shape[1]] = part
compiled = torch.compile(sampler, backend="aot_eager", fullgraph=True, dynamic=False)
got = compiled(own, torch.from_numpy(rows)).tolist()
assert got == sampler(own, torch.from_numpy(rows)).tolist()
assert got == reference.greedy(logits, rows, arena).tolist(), got
dist.destroy_process_group()
print("same")
"""


@pytest.mark.slow
def test_two_processes_agree_through_torch_distributed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime")))}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), "2", str(tmp_path / "meeting")],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [rank.communicate(timeout=180)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert all("same" in output for output in outputs)
