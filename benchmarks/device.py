"""Kernels on a device: right, and how far from the memory floor.

    python -m benchmarks.device --device cuda --json device.json
    TRITON_INTERPRET=1 python -m benchmarks.device --vocab 500,1000 --batch 1,3     # no GPU: correctness only

For each kernel, vocabulary size, batch size and kind of mask: the result is compared with torch operations, then timed.
The floor is the bytes that must move, in sectors of 32 bytes, over the bandwidth of a large copy on the same device.
Masks are `few` (16 tokens allowed, as inside JSON punctuation), `most` (all but 64, as inside a string), `half` (each
token by chance, the worst case for any kernel) and `free` (no constraint). Peers mask the same logits with the same
masks: xgrammar's Triton kernel, and vLLM's, where they are installed. Last, 64 steps of decoding on the device are
captured in one CUDA graph and replayed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import schemac
import schemac_runtime
from schemac.vocabulary import Vocabulary
from schemac_runtime.device import DeviceStepper, TorchKernels, calls, open_kernels, step_tables
from schemac_runtime.device.kernels import BinaryKernels
from schemac_runtime.kernels.table import NO_KEY

KINDS = ("few", "most", "half", "free")
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SECTOR = 32
STEPS = 64
#: Bytes that are written between timed runs, so that the logits come from memory and not from a cache.
FLUSH = 512 << 20


@dataclass(frozen=True)
class Result:
    """One line of the report: times in microseconds, None where nothing was timed."""

    kernel: str
    mask: str
    dtype: str
    vocab: int
    batch: int
    identical: bool
    micros: float | None = None
    floor: float | None = None


class Bench:
    """One device.

    Args:
        device: a torch device.
        artifacts: stored kernels, empty to compile just in time.
        repeat: timed runs of each kernel; the median counts.
    """

    def __init__(self, device: torch.device, artifacts: Any, repeat: int) -> None:
        self.device, self.repeat = device, repeat
        self.kernels = open_kernels(device, artifacts)
        self.timed = device.type == "cuda"
        self.bandwidth = self._bandwidth() if self.timed else 0.0
        self._flush = torch.empty(FLUSH if self.timed else 0, dtype=torch.uint8, device=device)

    def _bandwidth(self) -> float:
        """Bytes per second that a large copy reads and writes."""
        one = torch.empty(1 << 30, dtype=torch.uint8, device=self.device)
        other = torch.empty_like(one)
        return 2 * one.numel() / (self._median(lambda: other.copy_(one), flush=False) * 1e-6)

    def _median(self, work: Callable[[], Any], *, flush: bool = True) -> float:
        """Microseconds on the device."""
        times = []
        for _ in range(self.repeat + 3):
            if flush:
                self._flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
        return float(np.median(times[3:]))

    def time(self, work: Callable[[], Any], touched: int) -> tuple[float | None, float | None]:
        """(median time, floor) in microseconds."""
        if not self.timed:
            return None, None
        return self._median(work), touched / self.bandwidth * 1e6


def masks_of(kind: str, batch: int, vocab: int, rng: np.random.Generator) -> np.ndarray:
    """bool [batch, vocab]."""
    if kind == "half":
        return rng.random((batch, vocab)) < 0.5
    allowed = np.full((batch, vocab), kind != "few")
    if kind != "free":
        for row in allowed:
            row[rng.choice(vocab, min(16 if kind == "few" else 64, vocab), replace=False)] = kind == "few"
    return allowed


def packed(allowed: np.ndarray) -> np.ndarray:
    """int32 [batch, words] of bool [batch, vocab]."""
    width = -(-allowed.shape[1] // 32) * 32
    padded = np.zeros((len(allowed), width), dtype=np.bool_)
    padded[:, : allowed.shape[1]] = allowed
    return np.packbits(padded, axis=1, bitorder="little").view(np.int32)


def sectors(chosen: np.ndarray, item: int) -> int:
    """Bytes of the sectors in which any column is chosen, bool [batch, vocab]."""
    per = SECTOR // item
    width = -(-chosen.shape[1] // per) * per
    padded = np.zeros((len(chosen), width), dtype=np.bool_)
    padded[:, : chosen.shape[1]] = chosen
    return int(padded.reshape(len(chosen), -1, per).any(2).sum()) * SECTOR


def kernels_of(bench: Bench, name: str, vocab: int, batch: int, kind: str) -> Iterator[Result]:
    """The three kernels that mask or choose, and the peers."""
    rng = np.random.default_rng(vocab + batch)
    dtype, device = DTYPES[name], bench.device
    item = torch.empty(0, dtype=dtype).element_size()
    allowed = masks_of(kind, batch, vocab, rng)
    words = packed(allowed)
    pitch = -(-words.shape[1] // 16) * 16
    arena = torch.zeros((batch + 1, pitch), dtype=torch.int32, device=device)
    arena[0] = -1
    arena[1:, : words.shape[1]] = torch.from_numpy(words).to(device)
    ids = torch.arange(1, batch + 1, dtype=torch.int32, device=device) * (kind != "free")
    rows = torch.arange(batch, dtype=torch.int32, device=device)
    original = torch.randn((batch, vocab), device=device).to(dtype)
    logits = original.clone()
    reference = TorchKernels()
    reads = 0 if kind == "free" else words.nbytes
    alive = torch.zeros(batch, dtype=torch.int32, device=device)

    def masked(call: Callable[[Any], calls.Call], kernel: str, touched: int) -> Result:
        wanted = original.clone()
        reference.run(call(wanted))
        logits.copy_(original)
        bench.kernels.run(call(logits))
        same = bool(logits.equal(wanted))
        made = call(logits)
        return Result(kernel, kind, name, vocab, batch, same, *bench.time(lambda: bench.kernels.run(made), touched))

    writes = 0 if kind == "free" else sectors(~allowed, item)
    yield masked(lambda x: calls.mask_rows(x, arena, ids, alive, words.shape[1]), "mask_rows", reads + writes)
    if kind != "free":
        own = arena[1:]
        yield masked(lambda x: calls.mask_packed(x, own, rows, rows, alive, words.shape[1]), "mask_packed",
                     reads + writes)  # fmt: skip
    partial = torch.full((batch,), NO_KEY, dtype=torch.int64, device=device)
    key, count = torch.zeros_like(partial), torch.zeros_like(alive)
    tokens = [torch.zeros_like(alive) for _ in range(2)]
    made = [calls.argmax_rows(original, arena, ids, partial, count, key, token, words.shape[1]) for token in tokens]
    bench.kernels.run(made[0])
    reference.run(made[1])
    touched = reads + sectors(allowed, item)
    spent = bench.time(lambda: bench.kernels.run(made[0]), touched)
    yield Result("argmax_rows", kind, name, vocab, batch, bool(tokens[0].equal(tokens[1])), *spent)
    if bench.timed and kind != "free":
        yield from peers(bench, original, words, Result("", kind, name, vocab, batch, True), reads + writes)


def peers(bench: Bench, original: Any, words: np.ndarray, line: Result, touched: int) -> Iterator[Result]:
    """xgrammar's and vLLM's kernels on the same masks."""
    mask = torch.from_numpy(words).to(bench.device)
    wanted = original.clone()
    schemac_runtime.apply_bitmask(wanted, mask)
    for peer, apply in peer_kernels(original.shape, bench.device):
        logits = original.clone()
        apply(logits, mask)
        same = bool(logits.equal(wanted))
        micros, floor = bench.time(lambda apply=apply, logits=logits: apply(logits, mask), touched)
        yield Result(peer, line.mask, line.dtype, line.vocab, line.batch, same, micros, floor)


def peer_kernels(shape: Any, device: torch.device) -> Iterator[tuple[str, Callable[[Any, Any], None]]]:
    """(name, a function of logits and masks) of the peers that are installed."""
    try:
        from xgrammar.kernels.apply_token_bitmask_inplace_triton import apply_token_bitmask_inplace_triton
    except ImportError:
        pass
    else:
        yield "xgrammar", lambda logits, mask: apply_token_bitmask_inplace_triton(logits, mask, shape[1])
    try:
        from vllm.v1.worker.gpu.structured_outputs import _apply_grammar_bitmask_kernel as kernel
    except ImportError:
        return
    starts = torch.arange(shape[0] + 1, dtype=torch.int32, device=device)

    def apply(logits: Any, mask: Any) -> None:
        grid = (shape[0], -(-shape[1] // 8192))
        kernel[grid](logits, logits.stride(0), starts, starts, mask, mask.stride(0), shape[1], MASK_STRIDE=1,
                     BLOCK_SIZE=8192)  # fmt: skip

    yield "vllm", apply


def device_steps(bench: Bench, name: str, vocab: int, batch: int) -> Result:
    """64 greedy steps, on a GPU as one graph replay; the time is that of all."""
    schema = {"type": "object", "properties": {f"k{i}": {"type": "integer", "maximum": 999} for i in range(6)},
              "required": [f"k{i}" for i in range(6)], "additionalProperties": False}  # fmt: skip
    rng = np.random.default_rng(1)
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [bytes(rng.integers(33, 126, 4).tolist()) for _ in range(vocab - 257)]
    vocabulary = Vocabulary(tokens=(*tokens, None), special={"</s>": vocab - 1}, stop_ids=(vocab - 1,))
    program = schemac.link(schemac.compile(schema, whitespace="compact"), vocabulary).programs[0]
    tables = step_tables([program])
    logits = torch.randn((batch, vocab), device=bench.device).to(DTYPES[name])
    steppers = [DeviceStepper(tables, batch, STEPS, bench.device, kernels=k) for k in (bench.kernels, TorchKernels())]

    def start(stepper: DeviceStepper) -> None:
        for request in range(batch):
            stepper.start(request, 0, STEPS)

    def run(stepper: DeviceStepper) -> None:
        for _ in range(STEPS):
            stepper.greedy(logits)

    for stepper in steppers:
        start(stepper)
        run(stepper)
    answers, wanted = (stepper.read() for stepper in steppers)
    same = answers == wanted and all(answer.ended and not answer.failed for answer in answers)
    if not bench.timed:
        return Result("64 steps", "object", name, vocab, batch, same)
    stepper = steppers[0]
    start(stepper)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(stepper)
    start(stepper)
    graph.replay()
    same = same and stepper.read() == wanted
    return Result("64 steps", "object", name, vocab, batch, same, bench._median(graph.replay))


def numbers(text: str) -> list[int]:
    """A comma-separated list."""
    return [int(part) for part in text.split(",")]


def main() -> int:
    """Run it; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--vocab", type=numbers, default="32000,128256,256000")
    parser.add_argument("--batch", type=numbers, default="1,8,64,256,512")
    parser.add_argument("--dtype", choices=[*DTYPES, "all"], default="bf16")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--package", help="take kernels from this package; else they are compiled just in time")
    parser.add_argument("--json", help="write the results here")
    options = parser.parse_args()
    artifacts = schemac_runtime.load(options.package).targets if options.package else ()
    bench = Bench(torch.device(options.device), artifacts, options.repeat)
    how = "interpreted" if os.environ.get("TRITON_INTERPRET") == "1" else type(bench.kernels).__name__
    print(f"{options.device}: {how}" + (f", a copy moves {bench.bandwidth / 1e9:,.0f} GB/s" if bench.timed else ""))
    results = []
    for name in DTYPES if options.dtype == "all" else (options.dtype,):
        for vocab in options.vocab:
            for batch in options.batch:
                for kind in KINDS:
                    results += kernels_of(bench, name, vocab, batch, kind)
                results.append(device_steps(bench, name, vocab, batch))
    for note in bench.kernels.notes if isinstance(bench.kernels, BinaryKernels) else ():
        print("note:", note, file=sys.stderr)
    print(f"{'kernel':14}{'mask':8}{'dtype':6}{'vocab':>8}{'batch':>6}{'us':>10}{'floor':>10}{'ratio':>7}  result")
    for line in results:
        spent = f"{line.micros:10.1f}" if line.micros is not None else f"{'-':>10}"
        ratio = line.micros / line.floor if line.floor and line.micros else None
        floor = f"{'-':>10}{'-':>7}" if ratio is None else f"{line.floor:10.1f}{ratio:7.2f}"
        outcome = "identical" if line.identical else "DIFFERENT"
        print(f"{line.kernel:14}{line.mask:8}{line.dtype:6}{line.vocab:8}{line.batch:6}{spent}{floor}  {outcome}")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(line) for line in results], indent=1) + "\n")
    return int(not all(line.identical for line in results))


if __name__ == "__main__":
    sys.exit(main())
