"""The backend beside vLLM's own, each in a real server on the CPU with random weights.

    make test-vllm PYTEST_ARGS=--collect-only            # sets up .venv-vllm
    .venv-vllm/bin/python -m benchmarks.serving --data FILE.jsonl.gz

The servers have the same model and are all up at once, idle but for the one that is asked; they take turns, so that
noise of the machine meets all alike.

- answers: real schemas at 100 tokens, 16 at a time: refused, complete and valid, cut off, complete and not valid. An
  answer is checked by `schemac_runtime.answers`, which shares nothing with the masks. `schemac, finish` is the same
  server with the switch in the requests.
- added time: time per token of a stream that a schema keeps going, less that of one without constraint, at batch 1 and
  16; medians over the repeats.
- stall: the longest time between two chunks of a stream without constraint, while a cold schema of 200 KB or 1 MB
  is asked for, and without that.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gzip
import itertools
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from benchmarks.big_schema import big_schema
from tests.vllm.model import make_model
from tests.vllm.server import serving

#: Name shown -> backend, and what is added to a request.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "schemac, finish": ("schemac", {"vllm_xargs": {"schemac_finish": 1}}),
    "schemac": ("schemac", {}),
    "guidance": ("guidance", {}),
    "xgrammar": ("xgrammar", {}),
}
SETTINGS = {"schemac": {"compile_seconds": 600}}
LIMIT = 100
#: Tokens of the streams that are timed; not every one is a chunk, since some are parts of characters.
TOKENS = 150
#: A schema whose answers do not end within the limit.
ENDLESS = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type":
           "integer"}}, "required": ["name", "n"], "additionalProperties": False}, "minItems": 1000}  # fmt: skip
STALL_SECONDS = 120


@click.command()
@click.option("--data", required=True, help="MaskBench cases, .jsonl.gz.")
@click.option("--schemas", default=100, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--big", default=(200_000, 1_000_000), multiple=True, show_default=True, help="Bytes of a cold schema.")
@click.option("--backend", "chosen", multiple=True, type=click.Choice(["schemac", "guidance", "xgrammar"]))
def main(data: str, schemas: int, seed: int, repeats: int, big: tuple[int, ...], chosen: tuple[str, ...]) -> None:
    """Run and print."""
    with gzip.open(data, "rt") as lines:
        cases = [json.loads(line)["schema"] for line in lines]
    sample = random.Random(seed).sample(cases, schemas)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        model = make_model(Path(folder, "model"))
        urls = {}
        for backend in chosen or ("schemac", "guidance", "xgrammar"):
            log = Path(folder, f"{backend}.log")
            urls[backend] = stack.enter_context(
                serving(model, log, backend=backend, settings=SETTINGS.get(backend))
            ).url
        for name, (backend, more) in VARIANTS.items():
            if backend in urls and sample:
                click.echo(f"{name:16} {asyncio.run(_answers(urls[backend], sample, more))}")
        for batch in (1, 16):
            for backend, line in asyncio.run(_added(urls, batch, repeats)).items():
                click.echo(f"{backend:16} {line}")
        for size in big:
            for backend, url in urls.items():
                click.echo(f"{backend:16} {asyncio.run(_stall(url, size, seed))}")


def _client(url: str) -> Any:
    import openai

    return openai.AsyncOpenAI(base_url=url, api_key="none", timeout=STALL_SECONDS + 100, max_retries=0)


def _format(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


async def _answers(url: str, sample: list[Any], more: dict[str, Any]) -> str:
    import openai

    from schemac_runtime.answers import AnswerError, validate_answer

    counts: collections.Counter[str] = collections.Counter()
    gate = asyncio.Semaphore(16)
    async with _client(url) as client:

        async def one(number: int, schema: Any) -> str:
            async with gate:
                try:
                    answer = await client.chat.completions.create(
                        model="test", messages=[{"role": "user", "content": f"request {number}"}], max_tokens=LIMIT,
                        seed=number, response_format=_format(schema), extra_body=more,
                    )  # fmt: skip
                except openai.BadRequestError:
                    return "refused"
                except openai.APIError:
                    return "failed"
            choice = answer.choices[0]
            if choice.finish_reason == "length":
                return "cut off"
            try:
                wrong = validate_answer(json.dumps(schema), choice.message.content or "")
            except AnswerError:
                return "not checked"
            return "not valid" if wrong else "complete and valid"

        counts.update(await asyncio.gather(*(one(number, schema) for number, schema in enumerate(sample))))
    served = sum(counts.values()) - counts["refused"] - counts["not checked"]
    share = counts["complete and valid"] / max(1, served)
    shown = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    return f"answers: {shown}; {share:.0%} of those served and checked are complete and valid"


async def _stream(client: Any, number: int, limit: int, constraint: dict[str, Any]) -> list[float]:
    """The times at which text came."""
    stream = await client.chat.completions.create(
        model="test", messages=[{"role": "user", "content": f"request {number}"}], max_tokens=limit, seed=number,
        stream=True, **constraint,
    )  # fmt: skip
    return [time.perf_counter() async for chunk in stream if chunk.choices and chunk.choices[0].delta.content]


async def _added(urls: dict[str, str], batch: int, repeats: int) -> dict[str, str]:
    kinds = {"free": {"extra_body": {"ignore_eos": True}}, "constrained": {"response_format": _format(ENDLESS)}}
    times: dict[tuple[str, str], list[float]] = {(backend, kind): [] for backend in urls for kind in kinds}
    for repeat in range(repeats + 1):
        for backend, url in urls.items():
            async with _client(url) as client:
                for kind, body in kinds.items():
                    numbers = range(100 * repeat, 100 * repeat + batch)
                    streams = await asyncio.gather(*(_stream(client, n, TOKENS, body) for n in numbers))
                    if repeat:  # the first round compiles and warms up
                        times[backend, kind] += [(s[-1] - s[0]) / (TOKENS - 1) for s in streams]
    found = {}
    for backend in urls:
        free, held = (statistics.median(times[backend, kind]) * 1000 for kind in kinds)
        found[backend] = f"batch {batch:2}: {free:.2f} ms per token free, {held:.2f} constrained, {held - free:+.2f}"
    return found


async def _stall(url: str, size: int, seed: int) -> str:
    import openai

    gaps: list[float] = []
    done = asyncio.Event()
    async with _client(url) as client:

        async def watch(until: asyncio.Event) -> float:
            longest = 0.0
            while not until.is_set():
                times = await _stream(client, 0, 300, {"extra_body": {"ignore_eos": True}})
                longest = max([longest, *(b - a for a, b in itertools.pairwise(times))])
            return longest

        quiet = asyncio.Event()
        asyncio.get_running_loop().call_later(10, quiet.set)
        gaps.append(await watch(quiet))
        watching = asyncio.create_task(watch(done))
        await asyncio.sleep(2)
        start = time.perf_counter()
        try:
            outcome = "served"
            await asyncio.wait_for(
                client.chat.completions.create(
                    model="test", messages=[{"role": "user", "content": "x"}], max_tokens=20,
                    response_format=_format(big_schema(size, seed)),
                ), STALL_SECONDS,
            )  # fmt: skip
        except TimeoutError:
            outcome = f"no answer in {STALL_SECONDS} s"
        except openai.APIError as error:
            outcome = f"refused: {str(error)[:160]}"
        took = time.perf_counter() - start
        done.set()
        gaps.append(await watching)
    during = f"{gaps[1]:.2f} s at most while {size:,} bytes were compiled ({outcome}, {took:.0f} s)"
    return f"stall: {during}, {gaps[0]:.2f} s without"


if __name__ == "__main__":
    main()
