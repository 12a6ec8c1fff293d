"""How near the token limit `finish` changes answers that would have fitted.

    python -m benchmarks.finish --data FILE.jsonl.gz --tokenizer tekken --schemas 100

Answers are drawn at random through the masks, without a limit; those that do not end within 400 tokens are left out.
Each is read again with a limit of its own length and a few tokens more, and counts as changed if at some step the mask
for that limit forbids its next token. With an exact distance to the end none would be.
"""

from __future__ import annotations

import collections
import json
from typing import Any

import click
import numpy as np

import schemac
from benchmarks.walks import sampled_cases
from schemac.errors import SchemacError
from schemac_runtime import Program, allocate_bitmask, unpack

LONGEST = 400
SPARE = (0, 1, 2, 3, 4, 6, 8, 12, 16)


@click.command()
@click.option("--data", required=True, help="MaskBench cases, .jsonl.gz.")
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--schemas", default=100, show_default=True)
@click.option("--answers", default=5, show_default=True, help="Answers per schema.")
@click.option("--seed", default=1, show_default=True)
def main(data: str, tokenizer: str, schemas: int, answers: int, seed: int) -> None:
    """Draw, read again, and print."""
    vocabulary = schemac.load_vocabulary(tokenizer)
    changed: collections.Counter[int] = collections.Counter()
    drawn = 0
    for case in sampled_cases(data, schemas, seed):
        try:
            compiled = schemac.compile(json.dumps(case["schema"]), whitespace="single", timeout=20)
            program = schemac.link(compiled, vocabulary, timeout=20).programs[-1]
        except SchemacError:
            continue
        rng = np.random.default_rng(seed)
        for _ in range(answers):
            answer = _draw(program, rng)
            if answer is None:
                continue
            drawn += 1
            for spare in SPARE:
                changed[spare] += not _fits(program, answer, len(answer) + spare)
    click.echo(f"{drawn} answers")
    for spare in SPARE:
        click.echo(f"{spare:3} tokens to spare: {changed[spare] / max(1, drawn):7.2%} changed")


def _draw(program: Program, rng: Any) -> list[int] | None:
    matcher, mask, ids = program.matcher(), allocate_bitmask(1, program.vocab_size), []
    while not matcher.is_terminated():
        matcher.fill_bitmask(mask, 0)
        allowed = np.flatnonzero(unpack(mask, program.vocab_size)[0])
        ending = [t for t in allowed if t in matcher.stop_ids]
        ids.append(int(ending[0] if ending and rng.random() < 0.5 else rng.choice(allowed)))
        assert matcher.accept(ids[-1])
        if len(ids) > LONGEST:
            return None
    return ids


def _fits(program: Program, answer: list[int], limit: int) -> bool:
    matcher, mask = program.matcher(), allocate_bitmask(1, program.vocab_size)
    for read, token in enumerate(answer):
        if limit - read < matcher.tokens_needed():
            return False
        matcher.fill_bitmask(mask, 0, limit - read)
        if not mask[0].view(np.uint32)[token >> 5] >> (token & 31) & 1:
            return False
        assert matcher.accept(token)
    return True


if __name__ == "__main__":
    main()
