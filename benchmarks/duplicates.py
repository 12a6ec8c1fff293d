"""Arrays of distinct items: texts in which an item comes again must be refused, and no others.

    python -m benchmarks.duplicates --data FILE.jsonl.gz --tokenizer tekken --attempts 10000 --seed 1

From the schemas with `uniqueItems` their valid instances are taken, and changed at random: somewhere in an array, an
item comes once more, in the same or in another spelling. What `jsonschema` calls invalid must be refused token by
token; what it calls valid (an array without `uniqueItems`) must be accepted.
"""

from __future__ import annotations

import collections
import copy
import json
import random
from typing import Any

import click

import schemac
from benchmarks.vocabulary import load_encoder
from benchmarks.walks import objection, sampled_cases, validator
from schemac.errors import SchemacError
from schemac_runtime.program import Program


def arrays(value: Any) -> list[list[Any]]:
    """All arrays in a value that hold something."""
    found: list[list[Any]] = []
    pending = [value]
    for item in pending:  # grows while we walk it
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list) and item:
            found.append(item)
            pending += item
    return found


def respelled(value: Any, generator: random.Random) -> Any:
    """An equal value, perhaps with its keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        generator.shuffle(keys)
        return {key: respelled(value[key], generator) for key in keys}
    return [respelled(item, generator) for item in value] if isinstance(value, list) else value


def accepts(program: Program, tokens: list[int]) -> bool:
    """Whether a text is accepted as a whole."""
    matcher = program.matcher()
    return matcher.accept_all(tokens) and matcher.is_complete()


@click.command()
@click.option("--data", required=True, help="MaskBench cases, .jsonl.gz.")
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--attempts", default=10_000, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--timeout", default=60.0, show_default=True, help="Seconds for one compile.")
def main(data: str, tokenizer: str, attempts: int, seed: int, timeout: float) -> None:
    """Repeat items of real instances."""
    encoder = load_encoder(tokenizer)
    vocabulary = schemac.load_vocabulary(tokenizer)
    generator = random.Random(seed)
    cases = [case for case in sampled_cases(data, 1 << 30, seed) if '"uniqueItems": true' in json.dumps(case["schema"])]
    chosen = [case for case in cases if any(t["valid"] and arrays(t["data"]) for t in case["tests"])]
    counts: collections.Counter[str] = collections.Counter()
    each = -(-attempts // max(1, len(chosen)))
    for case in chosen:
        try:
            compiled = schemac.compile(json.dumps(case["schema"]), kind="json-schema", key_order="any", timeout=timeout)
            program = schemac.link(compiled, vocabulary, timeout=timeout).programs[0]
        except SchemacError as error:
            counts[f"schemas refused: {error.construct or type(error).__name__}"] += 1
            continue
        counts["schemas"] += 1
        check = validator(case["schema"])
        instances = [t["data"] for t in case["tests"] if t["valid"] and arrays(t["data"])]
        for _ in range(each):
            value = copy.deepcopy(generator.choice(instances))
            array = generator.choice(arrays(value))
            array.insert(generator.randrange(len(array) + 1), respelled(generator.choice(array), generator))
            text = json.dumps(value, ensure_ascii=generator.random() < 0.5)
            valid = objection(check, text.encode()) is None
            accepted = accepts(program, encoder(text))
            counts[f"{'valid' if valid else 'invalid'}, {'accepted' if accepted else 'refused'}"] += 1
            if valid != accepted:
                click.echo(f"{case['id']}: {'refused though valid' if valid else 'ACCEPTED'}: {text[:200]}")
    for name, count in sorted(counts.items()):
        click.echo(f"{count:7} {name}")
    raise SystemExit(1 if counts["invalid, accepted"] or counts["valid, refused"] else 0)


if __name__ == "__main__":
    main()
