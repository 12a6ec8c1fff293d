"""Answers that must end within a token limit, with a model that chooses uniformly at random.

    python -m benchmarks.budgets --data FILE.jsonl.gz --tokenizer tekken --schemas 500 --seed 1
    python -m benchmarks.budgets --data FILE.jsonl.gz --engines schemac,llguidance,xgrammar
    python -m benchmarks.budgets --data FILE.jsonl.gz --key-order any

Every schema gets a limit of ``2 * min_tokens + 20`` tokens, and each step draws one token of the mask. schemac is told
the tokens that remain. The peers have no such call: they draw from their masks under the same limit, for the schemas
that schemac compiles. Reported, by engine: how many answers end by themselves, and how many of those are valid. Every
answer is made in a process of its own, which has `--timeout` seconds for it.
"""

from __future__ import annotations

import collections
import json
import multiprocessing
import random
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import click
import numpy as np

import schemac
from benchmarks.engines import ENGINES, Engine, Refused, engine_version
from benchmarks.vocabulary import TokenTable, load_table
from benchmarks.walks import objection, sampled_cases, validator
from schemac.errors import SchemacError
from schemac_runtime import allocate_bitmask, unpack

#: (what happened, the tokens of the answer, the limit)
_Outcome = tuple[str, list[int], int]


def drawn(
    fill: Callable[[int], np.ndarray], accept: Callable[[int], bool], table: TokenTable, seed: str, limit: int
) -> _Outcome:
    """An answer of at most `limit` tokens, each of them drawn uniformly from the mask for what remains."""
    generator = random.Random(seed)
    tokens: list[int] = []
    while len(tokens) < limit:
        allowed = np.flatnonzero(unpack(fill(limit - len(tokens)), table.size)[0])
        if not len(allowed):
            return "stuck", tokens, limit
        token = int(allowed[generator.randrange(len(allowed))])
        if not accept(token):
            return "refused what the mask allows", tokens, limit
        tokens.append(token)
        if token in table.eos:
            return "ended", tokens[:-1], limit
    return "cut off", tokens, limit


def schemac_answer(schema: str, table: TokenTable, key_order: str, seed: str, timeout: float) -> _Outcome:
    """schemac with a budget."""
    try:
        compiled = schemac.compile(schema, key_order=key_order, timeout=timeout)
        program = schemac.link(compiled, table.source, timeout=timeout).programs[0]
    except SchemacError as error:
        return f"schema refused: {error.construct or type(error).__name__}", [], 0
    matcher = program.matcher()
    mask = allocate_bitmask(1, program.vocab_size)

    def fill(left: int) -> np.ndarray:
        matcher.fill_bitmask(mask, 0, left)
        return mask

    return drawn(fill, matcher.accept, table, seed, 2 * program.min_tokens() + 20)


def peer_answer(schema: str, engine: Engine, table: TokenTable, seed: str, limit: int) -> _Outcome:
    """A peer, without one."""
    try:
        started = engine.compile(schema).start()
    except Refused as error:
        return f"schema refused: {error.reason}", [], limit

    def fill(_: int) -> np.ndarray:
        started.fill()
        return engine.bitmask

    return drawn(fill, started.accept, table, seed, limit)


def apart(work: Callable[[], _Outcome], timeout: float) -> _Outcome:
    """What `work` returns, in a process of its own."""

    def run(connection: Connection) -> None:
        try:
            connection.send(work())
        except Exception:
            connection.send((f"exception: {traceback.format_exc().splitlines()[-1][:100]}", [], 0))

    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(theirs,))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(timeout) else ("timeout", [], 0)
    except EOFError:
        return "crash", [], 0
    finally:
        process.kill()
        process.join()
        ours.close()


@click.command()
@click.option("--data", required=True, help="MaskBench cases, .jsonl.gz.")
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--schemas", default=500, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--engines", default="schemac", show_default=True, help="schemac first, then peers, with commas.")
@click.option("--key-order", type=click.Choice(["schema", "any"]), default="schema", show_default=True)
@click.option("--timeout", default=60.0, show_default=True, help="Seconds for one answer, compile included.")
def main(
    data: str, tokenizer: str, schemas: int, seed: int, engines: str, key_order: str, timeout: float
) -> None:
    """Draw one answer per schema and engine within a tight limit."""
    table = load_table(tokenizer)
    names = engines.split(",")
    if names[0] != "schemac":
        raise click.BadParameter("schemac comes first: its shortest answers set the limits", param_hint="--engines")
    peers = {name: ENGINES[name](table, timeout) for name in names[1:]}
    counts: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in names}
    spent = dict.fromkeys(names, 0.0)
    for case in sampled_cases(data, schemas, seed):
        schema, limit = json.dumps(case["schema"]), 0
        draw = f"{seed} {case['id']}"
        check = validator(case["schema"])
        for name in names:
            start = time.monotonic()
            if name == "schemac":
                outcome = apart(partial(schemac_answer, schema, table, key_order, draw, timeout), timeout)
                limit = outcome[2]
            else:
                outcome = apart(partial(peer_answer, schema, peers[name], table, draw, limit), timeout)
            spent[name] += time.monotonic() - start
            said, tokens, _ = outcome
            if said == "ended":
                reason = objection(check, table.decode(tokens))
                said = "valid" if reason is None else "ended, not valid"
            counts[name]["schema refused" if said.startswith("schema refused") else said] += 1
            if name == "schemac" and said != "valid" and not said.startswith("schema refused"):
                click.echo(f"{case['id']}: {said}, limit {limit}: {table.decode(tokens)[:300]!r}")
            if not limit:
                break
    for name in names:
        total = sum(counts[name].values())
        answers = total - counts[name]["schema refused"]
        ended = counts[name]["valid"] + counts[name]["ended, not valid"]
        share = 100 * counts[name]["valid"] / max(1, answers)
        click.echo(
            f"{name} {engine_version(name)}: {total} schemas, {answers} answers, {ended} ended by themselves, "
            f"{counts[name]['valid']} of them valid ({share:.1f} %), {spent[name]:.0f} s"
        )
        for said, count in sorted(counts[name].items()):
            if said != "valid":
                click.echo(f"  {count:5} {said}")
    mine = counts["schemac"]
    raise SystemExit(0 if mine["valid"] + mine["schema refused"] == sum(mine.values()) else 1)


if __name__ == "__main__":
    main()
