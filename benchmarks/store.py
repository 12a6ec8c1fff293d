"""A store of real schemas: build it, then serve the first request of each from it.

    python -m benchmarks.store --data FILE.jsonl.gz --tokenizer tekken --schemas 500 --jobs 2

Printed are the time of the build, what was refused, and for each package how long the first request waits: look-up in
the store, mapping and verifying, with compiling turned off. The packages are in the page cache, as after a build.
"""

from __future__ import annotations

import collections
import json
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from benchmarks.walks import sampled_cases
from schemac.jobs import VocabularyChoice
from schemac.store.build import Plan, build
from schemac.store.sources import read_sources
from schemac_runtime.serving.constraint import Constraint
from schemac_runtime.serving.programs import Programs
from schemac_runtime.serving.settings import Settings


@click.command()
@click.option("--data", required=True, help="MaskBench cases, .jsonl.gz.")
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--schemas", default=500, show_default=True)
@click.option("--jobs", default=2, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(data: str, tokenizer: str, schemas: int, jobs: int, seed: int) -> None:
    """Build and serve."""
    with tempfile.TemporaryDirectory() as folder:
        sources, store = Path(folder, "sources"), Path(folder, "store")
        sources.mkdir()
        for number, case in enumerate(sampled_cases(data, schemas, seed)):
            (sources / f"{number:05}.json").write_text(json.dumps(case["schema"]))
        choice = VocabularyChoice(tokenizer)
        plan = Plan(store, [choice], {}, 60.0)
        start = time.monotonic()
        outcomes = list(build(plan, read_sources(sources, {}), jobs))
        took = time.monotonic() - start
        refused = collections.Counter(type(o.problem).__name__ for o in outcomes if o.problem is not None)
        done = [o for o in outcomes if o.problem is None]
        sizes = [path.stat().st_size / 2**20 for path in store.glob("*/*.pkg")]
        click.echo(f"build: {len(outcomes)} schemas, {len(done)} in the store, {took:.1f} s with {jobs} processes")
        click.echo(f"failed: {dict(sorted(refused.items()))}")
        click.echo(f"store: {len(sizes)} packages, {sum(sizes):,.0f} MiB")

        settings = Settings(stores=(str(store),), on_miss="reject", cache_mib=1 << 20)
        programs = Programs(settings, {"tokenizer": tokenizer}, Path(folder, "scratch"), keep=True)
        programs.fingerprint().result()
        waits = []
        for outcome in done:
            wanted = Constraint("json-schema", (sources / outcome.name).read_bytes())
            start = time.perf_counter()
            programs.get(wanted).result()
            waits.append((time.perf_counter() - start) * 1000)
        found = {label: int(value) for name, label, value in programs.metrics.snapshot()["values"] if label}
        programs.close()
        click.echo(f"served: {len(waits)} first requests, from {found}")
        shown = "".join(f"{value:10.2f}" for value in np.percentile(waits, [50, 90, 99, 100]))
        click.echo("                           p50       p90       p99       max")
        click.echo(f"wait, ms            {shown}")


if __name__ == "__main__":
    main()
