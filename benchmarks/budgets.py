"""Answers that must end within a token limit, with a model that chooses uniformly at random.

    python -m benchmarks.budgets --data FILE.jsonl.gz --tokenizer tekken --schemas 500 --seed 1

Every schema gets a limit of ``2 * min_tokens + 20`` tokens, and each step draws one token of the mask for what remains.
Reported: how many answers end by themselves, and how many of those are valid.
"""

from __future__ import annotations

import json
import random

import click
import numpy as np

import schemac
from benchmarks.walks import objection, sampled_cases, validator
from schemac.errors import SchemacError
from schemac.vocabulary import Vocabulary
from schemac_runtime import allocate_bitmask, unpack
from schemac_runtime.program import Program


def random_answer(program: Program, vocabulary: Vocabulary, limit: int, generator: random.Random) -> bytes | None:
    """The text of an answer of at most `limit` tokens, or None if it was cut off."""
    matcher = program.matcher()
    mask = allocate_bitmask(1, program.vocab_size)
    tokens: list[int] = []
    while len(tokens) < limit and not matcher.is_terminated():
        matcher.fill_bitmask(mask, 0, limit - len(tokens))
        allowed = np.flatnonzero(unpack(mask, program.vocab_size)[0])
        token = int(allowed[generator.randrange(len(allowed))])
        if not matcher.accept(token):
            raise AssertionError(f"the mask allows token {token} and the matcher refuses it")
        tokens.append(token)
    return vocabulary.decode(tokens) if matcher.is_terminated() else None


@click.command()
@click.option("--data", required=True, help="MaskBench cases, .jsonl.gz.")
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--schemas", default=500, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(data: str, tokenizer: str, schemas: int, seed: int) -> None:
    """Draw one answer per schema within a tight limit."""
    vocabulary = schemac.load_vocabulary(tokenizer)
    generator = random.Random(seed)
    answers = ended = valid = refused = 0
    for case in sampled_cases(data, schemas, seed):
        try:
            compiled = schemac.link(schemac.compile(json.dumps(case["schema"])), vocabulary)
        except SchemacError:
            refused += 1
            continue
        program = compiled.programs[0]
        answers += 1
        text = random_answer(program, vocabulary, 2 * program.min_tokens() + 20, generator)
        if text is None:
            click.echo(f"{case['id']}: cut off")
            continue
        ended += 1
        reason = objection(validator(case["schema"]), text)
        valid += reason is None
        if reason is not None:
            click.echo(f"{case['id']}: {text[:300]!r}: {reason}")
    click.echo(f"{answers} answers ({refused} schemas refused): {ended} ended by themselves, {valid} of them valid")
    raise SystemExit(0 if valid == answers else 1)


if __name__ == "__main__":
    main()
