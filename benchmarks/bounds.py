"""What large bounds cost: a string with `maxLength` N for growing N, every engine on the same tokens in the same run.

    python -m benchmarks.bounds --tokenizer tekken --engines schemac,llguidance,xgrammar --timeout 120

The schema is an object with one string. The instance is a text of running words, as long as the bound allows and at
most `--characters` long. Reported: time to the first mask, the size of schemac's package, and the time per token inside
the string.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click
import numpy as np

import schemac
from benchmarks.engines import ENGINES
from benchmarks.isolation import Case, Worker
from benchmarks.vocabulary import load_encoder

WORDS = "The quick brown fox jumps over the lazy dog, and then – naturally – some more of it. "
#: Tokens before the contents of the string.
OPENING = 5


def bounded(bound: int, length: int) -> tuple[str, str]:
    """(schema, instance) as JSON texts."""
    schema = {
        "type": "object",
        "properties": {"content": {"type": "string", "maxLength": bound}},
        "required": ["content"],
        "additionalProperties": False,
    }
    text = (WORDS * (length // len(WORDS) + 1))[: min(bound, length)]
    return json.dumps(schema), json.dumps({"content": text}, ensure_ascii=False)


def package_bytes(schema: str, tokenizer: str) -> int:
    """The size of the package."""
    compiled = schemac.link(schemac.compile(schema, kind="json-schema"), tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grammar.pkg"
        schemac.save(compiled, path)
        return path.stat().st_size


@click.command()
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--engines", default=",".join(ENGINES), show_default=True)
@click.option("--bounds", default="100,10000,1000000", show_default=True)
@click.option("--characters", default=20_000, show_default=True, help="The longest text.")
@click.option("--timeout", default=120.0, show_default=True, help="Seconds for each engine and bound.")
def main(tokenizer: str, engines: str, bounds: str, characters: int, timeout: float) -> None:
    """Compare the engines for growing bounds."""
    encoder = load_encoder(tokenizer)
    workers = {name: Worker(name, tokenizer, timeout) for name in engines.split(",")}
    heads = ("maxLength", "engine", "first mask, ms", "p50, us", "p99, us", "package, MB")
    click.echo("{:>10} {:>12} {:>15} {:>9} {:>9} {:>12}".format(*heads))
    try:
        for bound in map(int, bounds.split(",")):
            schema, instance = bounded(bound, characters)
            case = Case(f"maxLength {bound}", schema, ((tuple(encoder(instance)), True),))
            for name, worker in workers.items():
                result = worker.run(case)
                size = f"{package_bytes(schema, tokenizer) / 1e6:.2f}" if name == "schemac" else ""
                first = "-" if result.first_mask_ns is None else f"{result.first_mask_ns / 1e6:.1f}"
                times = np.concatenate(result.times_ns)[OPENING:] / 1e3 if result.times_ns else np.zeros(0)
                shown = [f"{np.percentile(times, rank):.1f}" for rank in (50, 99)] if len(times) else ["-", "-"]
                note = f"  {result.verdict.key}: {result.reason}" if result.verdict else ""
                click.echo(f"{bound:>10} {name:>12} {first:>15} {shown[0]:>9} {shown[1]:>9} {size:>12}{note}")
    finally:
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    main()
