"""How long a linked package takes to load, verification included.

    python -m benchmarks.loading --data FILE.jsonl.gz --tokenizer tekken --schemas 100 --seed 1
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import click
import numpy as np

import schemac
import schemac_runtime
from benchmarks.walks import sampled_cases
from schemac.errors import SchemacError

#: Loads per package; the fastest counts, since the question is the work and not the noise.
REPEATS = 5


@click.command()
@click.option("--data", required=True, help="MaskBench cases, .jsonl.gz.")
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--schemas", default=100, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(data: str, tokenizer: str, schemas: int, seed: int) -> None:
    """Compile, link, save and load real schemas."""
    vocabulary = schemac.load_vocabulary(tokenizer)
    times, first, sizes = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grammar.pkg"
        for case in sampled_cases(data, schemas, seed):
            try:
                compiled = schemac.link(schemac.compile(json.dumps(case["schema"])), vocabulary)
            except SchemacError:
                continue
            schemac.save(compiled, path)
            sizes.append(path.stat().st_size / 1024)
            runs = []
            for _ in range(REPEATS):
                started = time.perf_counter()
                schemac_runtime.load(path).program()
                runs.append((time.perf_counter() - started) * 1000)
            times.append(min(runs))
            first.append(runs[0])
    click.echo(f"{len(times)} packages            p50       p90       p99       max")
    for name, values in (("load, ms", times), ("first load, ms", first), ("size, KiB", sizes)):
        click.echo(f"{name:20}" + "".join(f"{value:10.2f}" for value in np.percentile(values, [50, 90, 99, 100])))


if __name__ == "__main__":
    main()
