"""The official JSON-Schema-Test-Suite: how many of its tests are decided, and how.

    python -m benchmarks.suite --data DIR [--draft draft2020-12]... [--json OUT] [--timeout S]

DIR holds `tests/DRAFT/**/*.json` (the optional tests and formats included) and `remotes/`, whose files go in as
resources under `http://localhost:1234/`. Each schema is compiled with ``whitespace="compact"``, under the draft of its
folder unless its own `$schema` says otherwise. An instance counts as accepted if some ordering of its keys, in
canonical form, is accepted, and as rejected if none is; `benchmarks/canonical.py` says how orderings are searched and
how values are spelled. For an instance that is not valid, other spellings must be refused too (in draft 4, where 1 may
be valid and 1.0 not, one with such a number only in its own). With `--key-order any`, keys come in any order, and with
`--shuffle SEED` those of valid instances are put in random order and have to be accepted in just that one. Each test
counts once:

- right: accepted and valid, or rejected and not valid;
- under_accept: valid, and rejected;
- over_accept: not valid, and accepted;
- refused: the schema was refused with an error that names the reason. An `EmptyLanguageError` is no refusal but the
  decision that no instance is valid; `empty` says how many tests were decided by it.
- crash: any other exception.

`undecided` tells how many of the rejections rest on a search that was cut off; they count as rejections.
The suite's own view of `format` in 2019-09 and later is that it asserts nothing by default, and `format.json` there
tests that; here formats are asserted, so that these tests are under-accepts.
"""

from __future__ import annotations

import collections
import json
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

import schemac
from benchmarks.canonical import Reader, dump, parse, shuffled
from schemac.errors import EmptyLanguageError, SchemacError
from schemac.frontend import KEY_ORDERS
from schemac.frontend.json_schema.keywords import DRAFTS

#: Where the suite expects its `remotes` folder.
REMOTES = "http://localhost:1234/"
_ZERO_FRACTION = re.compile(r"\.0+(?!\d)")
OUTCOMES = ("right", "under_accept", "over_accept", "refused", "crash")


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one test.

    Attributes:
        outcome: one of `OUTCOMES`.
        reason: error class and construct, what stands at the end of the readable text, or empty.
        message: the whole error, or the text that was accepted.
        undecided: the search was cut off.
        empty: decided by an `EmptyLanguageError`.
    """

    outcome: str
    reason: str = ""
    message: str = ""
    undecided: bool = False
    empty: bool = False


@dataclass
class Tally:
    """Counts of one file or draft.

    Attributes:
        counts: tests by outcome; also ``undecided`` and ``empty``.
        reasons: refused and crashed tests by reason.
    """

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    reasons: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, decision: Decision) -> None:
        """Count one test."""
        self.counts["tests"] += 1
        self.counts[decision.outcome] += 1
        self.counts["undecided"] += decision.undecided
        self.counts["empty"] += decision.empty
        if decision.outcome in ("refused", "crash"):
            self.reasons[decision.reason] += 1

    def report(self) -> dict[str, Any]:
        """The counts as JSON data."""
        report: dict[str, Any] = {key: self.counts[key] for key in ("tests", *OUTCOMES, "undecided", "empty")}
        report["reasons"] = dict(sorted(self.reasons.items(), key=lambda item: (-item[1], item[0])))
        return report


def load_remotes(data: Path) -> dict[str, str]:
    """The text of each file of the `remotes` folder by the URI that the suite gives it; empty if there is none."""
    folder = data / "remotes"
    return {
        REMOTES + path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.json"))
    }


def test_files(data: Path, draft: str) -> list[Path]:
    """The files of a draft, optional ones last."""
    folder = data / "tests" / draft
    return sorted(folder.rglob("*.json"), key=lambda path: (len(path.relative_to(folder).parts), path.as_posix()))


@dataclass(frozen=True, slots=True)
class Conditions:
    """How tests are run.

    Attributes:
        timeout: seconds for one compile.
        key_order: see `schemac.compile`.
        shuffle: seed for the order of the keys of valid instances; None searches for an order.
    """

    timeout: float = 60.0
    key_order: str = "schema"
    shuffle: int | None = None


def decide(
    schema: Any, tests: list[Mapping[str, Any]], draft: str, remotes: Mapping[str, str], conditions: Conditions
) -> Iterator[Decision]:
    """Compile one schema of the suite and decide its tests.

    Args:
        schema: as the suite has it, numbers exact.
        tests: the suite's `{"data", "valid"}` objects.
        draft: of the folder; used where the schema has no `$schema`.
        remotes: see `load_remotes`.
        conditions: limits and options.
    """
    text = dump(schema)
    named = isinstance(schema, dict) and "$schema" in schema
    try:
        compiled = schemac.compile(
            text,
            kind="json-schema",
            whitespace="compact",
            draft=None if named else draft,
            # Whatever is not named in the schema cannot be reached from it, and need not be read.
            resources=remotes if REMOTES in text else None,
            timeout=conditions.timeout,
            key_order=conditions.key_order,
        )
        reader = Reader(compiled.automaton, schema)
    except EmptyLanguageError as error:
        for test in tests:
            yield Decision("under_accept" if test["valid"] else "right", message=str(error), empty=True)
        return
    except SchemacError as error:
        reason = f"{type(error).__name__} {error.construct or getattr(error, 'budget', '')}".strip()
        for _ in tests:
            yield Decision("refused", reason, str(error))
        return
    except Exception as error:
        for _ in tests:
            yield Decision("crash", type(error).__name__, repr(error))
        return
    for test in tests:
        yield _search(reader, test["data"], test["valid"], draft, conditions.shuffle)


def _search(reader: Reader, value: Any, valid: bool, draft: str, shuffle: int | None) -> Decision:
    # Where 1 is valid and 1.0 is not, accepting the text `1` says nothing about the instance `1.0`.
    own = draft == "draft4" and _ZERO_FRACTION.search(dump(value))
    if valid and shuffle is not None:
        search = reader.search(shuffled(value, random.Random(shuffle)), as_it_stands=True)
    else:
        search = reader.search(value, "canonical" if valid else "own" if own else "every")
    if search.text is not None:
        return Decision("right" if valid else "over_accept", message=search.text.decode("utf-8", "backslashreplace"))
    if not valid:
        return Decision("right", undecided=not search.complete)
    read = search.read.decode("utf-8", "backslashreplace")
    return Decision("under_accept", message=f"readable up to {read!r}", undecided=not search.complete)


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path), help="The suite.")
@click.option("--draft", "drafts", multiple=True, type=click.Choice(DRAFTS), help="May be repeated; all by default.")
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), help="Write the report here too.")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds for one compile.")
@click.option("--key-order", type=click.Choice(KEY_ORDERS), default="schema", show_default=True, help="As in compile.")
@click.option("--shuffle", type=int, metavar="SEED", help="Read the keys of valid instances in random order only.")
def main(
    data: Path, drafts: tuple[str, ...], out: Path | None, timeout: float, key_order: str, shuffle: int | None
) -> None:
    """Decide the tests of the official suite."""
    present = [draft for draft in DRAFTS if (data / "tests" / draft).is_dir()]
    chosen = [draft for draft in present if not drafts or draft in drafts]
    absent = [draft for draft in drafts if draft not in present]
    if absent or not chosen:
        raise click.UsageError(f"{data} has no tests of " + (", ".join(absent) or "any draft"))
    remotes = load_remotes(data)
    conditions = Conditions(timeout, key_order, shuffle)
    report: dict[str, Any] = {"key_order": key_order, "shuffle": shuffle, "drafts": {}}
    for draft in chosen:
        start = time.monotonic()
        entry = run_draft(data, draft, remotes, conditions)
        entry["seconds"] = round(time.monotonic() - start, 1)
        report["drafts"][draft] = entry
        print_draft(draft, entry)
    print_table("all drafts", report["drafts"])
    if out is not None:
        out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.exit(1 if any(e["over_accept"] or e["crash"] for e in report["drafts"].values()) else 0)


def run_draft(data: Path, draft: str, remotes: Mapping[str, str], conditions: Conditions) -> dict[str, Any]:
    """All files of one draft: its counts, those of each file, and every test that was not decided right."""
    whole = Tally()
    files: dict[str, Any] = {}
    failures: list[dict[str, Any]] = []
    folder = data / "tests" / draft
    for path in test_files(data, draft):
        tally = Tally()
        name = path.relative_to(folder).as_posix()
        for group in parse(path.read_bytes()):
            decisions = decide(group["schema"], group["tests"], draft, remotes, conditions)
            for test, decision in zip(group["tests"], decisions, strict=True):
                whole.add(decision)
                tally.add(decision)
                if decision.outcome != "right" or decision.undecided:
                    failures.append(
                        {
                            "file": name,
                            "case": f"{group['description']} / {test['description']}",
                            "outcome": "undecided" if decision.outcome == "right" else decision.outcome,
                            "message": decision.message,
                        }
                    )
        files[name] = tally.report()
    return {**whole.report(), "files": files, "failures": failures}


def print_draft(draft: str, entry: Mapping[str, Any]) -> None:
    """Counts by file, reasons, and what was accepted or rejected wrongly."""
    print_table(f"{draft} ({entry['seconds']:g} s)", {**entry["files"], draft: entry})
    for reason, count in entry["reasons"].items():
        print(f"  refused: {count:5} {reason}")
    for outcome in ("crash", "over_accept", "under_accept", "undecided"):
        for failure in entry["failures"]:
            if failure["outcome"] == outcome:
                print(f"  {outcome}: {failure['file']}: {failure['case']}: {failure['message'][:160]}")


def print_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """One line per file or draft."""
    width = max(30, *map(len, rows))
    columns = ("tests", *OUTCOMES)
    print(f"\n{title}\n" + " " * (width + 2) + "".join(f"{column:>14}" for column in columns) + f"{'right %':>10}")
    for name, row in rows.items():
        counts = "".join(f"{row[column] or '.':>14}" for column in columns)
        print(f"  {name:{width}}{counts}{100 * row['right'] / max(1, row['tests']):>10.1f}")


if __name__ == "__main__":
    main()
