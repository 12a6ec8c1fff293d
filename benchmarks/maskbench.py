"""MaskBench: real schemas with valid and invalid instances, every engine on the same tokens in the same run.

    python -m benchmarks.maskbench --data FILE.jsonl.gz --tokenizer tekken --engines schemac,llguidance,xgrammar

Each line of the data is ``{"id", "schema", "tests": [{"valid", "data"}]}``. An instance is written as
``json.dumps(data, ensure_ascii=False)`` and tokenized with the real tokenizer, without begin and end tokens. A valid
one must be accepted token by token, with the end allowed after the last; an invalid one must be refused somewhere.
The time of a token is that of fill + accept, Python call included; the time to the first mask is that of compile,
link, matcher and first fill. With `--key-order any` schemac reads keys in any order; with `--shuffle SEED` the keys of
all objects in the instances are put in random order, for all engines. Engines take turns case by case, so that noise of
the machine meets all alike.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.canonical import shuffled
from benchmarks.engines import ENGINES, engine_factory, engine_version
from benchmarks.isolation import Case, Worker
from benchmarks.outcome import PERCENTILES, CaseResult, Verdict, on_common_cases, summarize
from benchmarks.vocabulary import Encoder, TokenTable, load_encoder, load_table
from schemac.frontend import KEY_ORDERS

#: How many lines of reasons and of failed cases are printed; the JSON report has all.
SHOWN = 15


def main(arguments: list[str] | None = None) -> int:
    """Run, print a report, and write it as JSON if asked."""
    parser = _parser()
    options = parser.parse_args(arguments)
    engines = list(dict.fromkeys(options.engines.split(",")))
    try:
        for name in engines:
            engine_factory(name)
    except (ValueError, ImportError, AttributeError) as error:
        parser.error(str(error))
    table = load_table(options.tokenizer)
    encoder = load_encoder(options.tokenizer)
    lines = _sample(options.data, options.sample, options.seed)
    settings = {"key_order": options.key_order}
    workers = {name: Worker(name, options.tokenizer, options.timeout, settings) for name in engines}
    results: dict[str, list[CaseResult]] = {name: [] for name in engines}
    start = time.monotonic()
    try:
        for name, worker in workers.items():
            if reason := worker.set_up():
                print(f"maskbench: {name}: {reason}; every case will count as a crash", file=sys.stderr)
        for number, case in enumerate(_cases(lines, table, encoder, options.shuffle)):
            # Another engine goes first each time.
            for turn in range(len(engines)):
                name = engines[(number + turn) % len(engines)]
                results[name].append(workers[name].run(case))
            _progress(number + 1, len(lines), results, start)
    finally:
        for worker in workers.values():
            worker.close()
    report: dict[str, Any] = {
        "run": _circumstances(options, table, engines, time.monotonic() - start),
        "engines": {name: summarize(of, options.timeout) for name, of in results.items()},
        "common": on_common_cases(results),
        "failures": [_failure(result) for of in results.values() for result in of if result.verdict],
    }
    for name, worker in workers.items():
        report["engines"][name]["peak_mib"] = round(worker.peak_kib / 1024)
    _print(report)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maskbench", description="Compare mask engines.")
    parser.add_argument("--data", type=Path, required=True, help="cases, one JSON object a line, gzipped or not")
    parser.add_argument("--tokenizer", default="tekken", help="as for schemac compile (default: tekken)")
    parser.add_argument("--engines", default=",".join(ENGINES), help="comma-separated (default: all three)")
    parser.add_argument("--sample", type=int, help="how many cases, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds per case and engine (default: 60)")
    parser.add_argument("--key-order", choices=KEY_ORDERS, default="schema", help="of schemac (default: schema)")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="put the keys of instances in random order")
    parser.add_argument("--json", metavar="OUT", help="write the report here too")
    return parser


def _sample(data: Path, count: int | None, seed: int) -> list[str]:
    """Lines of the data file in its order: all, or `count` drawn without replacement."""
    content = gzip.decompress(data.read_bytes()) if data.suffix == ".gz" else data.read_bytes()
    every = [line for line in content.decode().split("\n") if line.strip()]
    if count is None or count >= len(every):
        return every
    return [every[index] for index in sorted(random.Random(seed).sample(range(len(every)), count))]


def _cases(lines: list[str], table: TokenTable, encoder: Encoder, shuffle: int | None) -> Iterator[Case]:
    generator = random.Random(shuffle)
    for line in lines:
        case = json.loads(line)
        instances = []
        for test in case["tests"]:
            data = test["data"] if shuffle is None else shuffled(test["data"], generator)
            text = json.dumps(data, ensure_ascii=False)
            tokens = encoder(text)
            if table.decode(tokens) != text.encode():
                raise SystemExit(f"maskbench: the tokens of an instance of {case['id']} do not spell its text")
            instances.append((tuple(tokens), bool(test["valid"])))
        yield Case(case["id"], json.dumps(case["schema"], ensure_ascii=False), tuple(instances))


def _circumstances(
    options: argparse.Namespace, table: TokenTable, engines: list[str], seconds: float
) -> dict[str, Any]:
    return {
        "data": options.data.name,
        "tokenizer": options.tokenizer,
        "vocabulary": table.size,
        "sample": options.sample,
        "seed": options.seed,
        "timeout": options.timeout,
        "key_order": options.key_order,
        "shuffle": options.shuffle,
        "versions": {name: engine_version(name) for name in engines},
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "seconds": round(seconds, 1),
    }


def _failure(result: CaseResult) -> dict[str, Any]:
    return {
        "engine": result.engine,
        "id": result.name,
        "verdict": result.verdict.key,
        "reason": result.detail,
        "instance": result.where,
    }


def _progress(done: int, total: int, results: dict[str, list[CaseResult]], start: float) -> None:
    if not sys.stderr.isatty() and done % 100 and done != total:
        return
    passed = ", ".join(f"{name} {sum(not r.verdict for r in of)}" for name, of in results.items())
    end = "\r" if sys.stderr.isatty() and done < total else "\n"
    elapsed = time.monotonic() - start
    print(f"maskbench: {done}/{total} cases, {elapsed:.0f} s, passed: {passed}", end=end, file=sys.stderr)


def _print(report: dict[str, Any]) -> None:
    engines = report["engines"]
    run = report["run"]
    print(f"tokenizer {run['tokenizer']} ({run['vocabulary']} ids), limit {run['timeout']:g} s per case and engine")
    print(f"{run['seconds']:g} s in all; " + ", ".join(f"{name} {number}" for name, number in run["versions"].items()))
    columns = ["cases", *(verdict.key for verdict in Verdict), "peak_mib"]
    _table("outcome", columns, {name: [entry[column] for column in columns] for name, entry in engines.items()})
    _times("", engines)
    common = dict(report["common"])
    count = common.pop("cases")
    if len(engines) > 1 and count:
        _times(f", only the {count} cases that all engines compile", common)
    for name, entry in engines.items():
        if entry["reasons"]:
            print(f"\n{name}: compile errors")
        for reason, times in list(entry["reasons"].items())[:SHOWN]:
            print(f"{times:6}  {reason}")
        if len(entry["reasons"]) > SHOWN:
            print(f"        and {len(entry['reasons']) - SHOWN} more reasons")
        _print_failures(name, report["failures"])


def _print_failures(name: str, failures: list[dict[str, Any]]) -> None:
    for verdict in (Verdict.OVER_ACCEPT, Verdict.UNDER_ACCEPT, Verdict.CRASH, Verdict.TIMEOUT):
        found = [f for f in failures if f["engine"] == name and f["verdict"] == verdict.key]
        if found:
            print(f"\n{name}: {verdict.key}")
        for failure in found[:SHOWN]:
            instance = "" if failure["instance"] is None else f" instance {failure['instance']}"
            print(f"  {failure['id']}{instance}: {failure['reason'].strip().splitlines()[0][:200]}")
        if len(found) > SHOWN:
            print(f"  and {len(found) - SHOWN} more")


def _times(where: str, engines: dict[str, Any]) -> None:
    ranks = [f"p{rank}" for rank in PERCENTILES]
    for key, title in (("first_mask_ms", "time to first mask, ms"), ("per_token_us", "time per token, us")):
        rows = {name: [entry[key].get(rank, "-") for rank in ranks] for name, entry in engines.items()}
        ours = engines.get("schemac", {}).get(key)
        if ours:
            for name, entry in engines.items():
                if name != "schemac" and entry[key]:
                    rows[f"{name} / schemac"] = [f"{entry[key][rank] / max(ours[rank], 1e-3):.3g}x" for rank in ranks]
        _table(title + where, ranks, rows)


def _table(title: str, columns: list[str], rows: dict[str, list[Any]]) -> None:
    print(f"\n{title}\n" + " " * 24 + "".join(f"{column:>14}" for column in columns))
    for name, values in rows.items():
        print(f"  {name:22}" + "".join(f"{value:>14}" for value in values))


if __name__ == "__main__":
    sys.exit(main())
