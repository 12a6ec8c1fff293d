"""What large bounds cost: repetitions of up to N for growing N, every engine on the same tokens in the same run.

    python -m benchmarks.bounds --tokenizer tekken --engines schemac,llguidance,xgrammar --timeout 120
    python -m benchmarks.bounds --source grammar

`string` is a schema: an object with one string of `maxLength` N. `regex` is `[a-z]{1,N}`. `grammar` is a list of up to
N items and one more, as GBNF and for llguidance as Lark. The instance is as long as the bound allows and at most
`--characters` long. Reported: time to the first mask, the size of schemac's package, and the time per token within the
repetition.
"""

from __future__ import annotations

import json
import re
import tempfile
from itertools import cycle
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
#: What is compiled, and the kind of it for each engine.
SOURCES = {
    "string": dict.fromkeys(ENGINES, "json-schema"),
    "regex": dict.fromkeys(ENGINES, "regex"),
    "grammar": {**dict.fromkeys(ENGINES, "gbnf"), "llguidance": "lark"},
}
_GBNF = 'root ::= "{" (item ","){0,%d} item "}"\nitem ::= [a-z]+ | "(" item ")"\n'
_LARK = 'start: "{" (item ","){0,%d} item "}"\nitem: /[a-z]+/ | "(" item ")"\n'


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


def sources(source: str, bound: int, length: int) -> tuple[dict[str, str], str]:
    """(the text for each kind of source, an instance)."""
    if source == "string":
        schema, instance = bounded(bound, length)
        return {"json-schema": schema}, instance
    words = re.findall("[a-z]+", WORDS)
    if source == "regex":
        letters = "".join(words)
        return {"regex": f"[a-z]{{1,{bound}}}"}, (letters * (length // len(letters) + 1))[: min(bound, length)]
    count = min(bound + 1, length // 6)
    items = [word if number % 3 else f"({word})" for number, word in zip(range(count), cycle(words), strict=False)]
    return {"gbnf": _GBNF % bound, "lark": _LARK % bound}, "{" + ",".join(items) + "}"


def package_bytes(schema: str, tokenizer: str, kind: str = "json-schema") -> int:
    """The size of the package."""
    compiled = schemac.link(schemac.compile(schema, kind=kind), tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grammar.pkg"
        schemac.save(compiled, path)
        return path.stat().st_size


@click.command()
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--engines", default=",".join(ENGINES), show_default=True)
@click.option("--source", type=click.Choice(list(SOURCES)), default="string", show_default=True)
@click.option("--bounds", default="100,10000,1000000", show_default=True)
@click.option("--characters", default=20_000, show_default=True, help="The longest text.")
@click.option("--timeout", default=120.0, show_default=True, help="Seconds for each engine and bound.")
def main(tokenizer: str, engines: str, source: str, bounds: str, characters: int, timeout: float) -> None:
    """Compare the engines for growing bounds."""
    encoder = load_encoder(tokenizer)
    kinds = SOURCES[source]
    workers = {
        name: Worker(name, tokenizer, timeout, {"kind": kinds.get(name, kinds["schemac"])})
        for name in engines.split(",")
    }
    heads = ("N", "engine", "first mask, ms", "p50, us", "p99, us", "package, MB")
    click.echo("{:>10} {:>12} {:>15} {:>9} {:>9} {:>12}".format(*heads))
    try:
        for bound in map(int, bounds.split(",")):
            texts, instance = sources(source, bound, characters)
            for name, worker in workers.items():
                kind = kinds.get(name, kinds["schemac"])
                case = Case(f"up to {bound}", texts[kind], ((tuple(encoder(instance)), True),))
                result = worker.run(case)
                size = f"{package_bytes(texts[kind], tokenizer, kind) / 1e6:.2f}" if name == "schemac" else ""
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
