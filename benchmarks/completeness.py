"""Is every valid value accepted? Instances made by hypothesis-jsonschema, in canonical form.

    python -m benchmarks.completeness --data FILE.jsonl.gz --schemas 500 --seed 1

Real schemas are drawn until N of them were tested. A schema counts as tested if it compiles and the generator makes at
least one instance of it in the time it gets. An instance counts if `schemac_runtime.answers` finds it valid, formats
included, since the generator takes some formats and patterns more lightly; it must then be accepted in some ordering of
its keys, see `benchmarks/canonical.py`. What was left out is counted by reason: schemas that are refused, that the
generator does not know or finds no instance for, and instances that are not valid after all.

Some formats have valid texts that are never written (`docs/json-schema.md` names them). A rejection is put down to that
if the instance is accepted by the same schema without its `format` keywords; it is listed, and does not count.
"""

from __future__ import annotations

import collections
import contextlib
import json
import random
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

import schemac
from benchmarks.canonical import Reader, Search, dump, parse
from benchmarks.walks import sampled_cases
from schemac.errors import SchemacError
from schemac_runtime.answers import AnswerError, AnswerValidator


class _Late(BaseException):
    """Time is up; no `Exception`, so that nobody on the way catches it."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Interrupt what is inside after so many seconds; only the main thread can be interrupted."""

    def late(*_: object) -> None:
        raise _Late

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, hook = signal.signal(signal.SIGALRM, late), sys.unraisablehook
    sys.unraisablehook = lambda _: None  # it may strike in a callback of the interpreter, which would print it
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)  # and again, should somebody have caught it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook


def instances(schema: Any, count: int, seed: int, seconds: float) -> tuple[list[str], str]:
    """Different instances of a schema as JSON texts, and why there are none, if there are none.

    Args:
        schema: JSON data, with floats.
        count: how many at most.
        seed: of the generator.
        seconds: for all of them.
    """
    import hypothesis
    from hypothesis import HealthCheck, Phase
    from hypothesis_jsonschema import from_schema

    found: dict[str, None] = {}
    reason = ""
    try:
        with _limited(seconds):

            @hypothesis.seed(seed)
            @hypothesis.settings(
                max_examples=count,
                phases=[Phase.generate],
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )
            @hypothesis.given(from_schema(schema))
            def collect(value: Any) -> None:
                found[json.dumps(value)] = None

            collect()
    except _Late:
        reason = "too slow"
    except Exception as error:
        reason = f"{type(error).__name__}"
    return list(found), reason


@dataclass
class Report:
    """What was tested, left out, and rejected.

    Attributes:
        schemas: tested.
        accepted: instances.
        left_out: schemas by reason.
        invalid: instances that are not valid after all, or cannot be checked.
        by_format: rejected instances that a format leaves out.
        rejected: `(case, text, where)` of each instance that should have been accepted.
    """

    schemas: int = 0
    accepted: int = 0
    left_out: collections.Counter[str] = field(default_factory=collections.Counter)
    invalid: collections.Counter[str] = field(default_factory=collections.Counter)
    by_format: list[tuple[str, str, str]] = field(default_factory=list)
    rejected: list[tuple[str, str, str]] = field(default_factory=list)

    def test(self, name: str, schema: Any, count: int, seed: int, seconds: float, timeout: float) -> bool:
        """Test one schema; whether it counts as tested."""
        text = json.dumps(schema)
        try:
            compiled = schemac.compile(text, kind="json-schema", whitespace="compact", timeout=timeout)
            validator = AnswerValidator(text)
        except AnswerError as error:
            self.left_out[f"answers cannot be checked: {error.construct}"] += 1
            return False
        except SchemacError as error:
            about = error.construct or getattr(error, "budget", "")
            self.left_out[f"refused: {type(error).__name__} {about}".strip()] += 1
            return False
        texts, reason = instances(schema, count, seed, seconds)
        valid = [text for text in texts if self._is_valid(validator, text)]
        if not valid:
            self.left_out[f"no instance: {reason or 'none is valid'}"] += 1
            return False
        self.schemas += 1
        reader = Reader(compiled.automaton, schema)
        for instance in valid:
            search = reader.search(parse(instance))
            if search.accepted:
                self.accepted += 1
            elif _accepted_without_formats(schema, instance, timeout):
                self.by_format.append((name, instance, _where(search)))
            else:
                self.rejected.append((name, instance, _where(search)))
        return True

    def _is_valid(self, validator: AnswerValidator, text: str) -> bool:
        try:
            problems = validator.problems(text, most=1)
        except AnswerError as error:
            self.invalid[f"cannot be checked: {error.construct}"] += 1
            return False
        if problems:
            self.invalid[problems[0].construct or problems[0].reason] += 1
        return not problems


def _where(search: Search) -> str:
    read = search.read.decode("utf-8", "backslashreplace")
    return ("" if search.complete else "search cut off; ") + f"readable up to {read[-60:]!r}"


def _accepted_without_formats(schema: Any, instance: str, timeout: float) -> bool:
    bare = _without_formats(schema)
    if bare == schema:
        return False
    try:
        compiled = schemac.compile(dump(bare), kind="json-schema", whitespace="compact", timeout=timeout)
    except SchemacError:
        return False
    return Reader(compiled.automaton, schema).search(parse(instance)).accepted


def _without_formats(schema: Any) -> Any:
    """A schema without `format` keywords; a property of that name holds a schema, not a string, and stays."""
    if isinstance(schema, dict):
        kept = schema.items()
        return {k: _without_formats(v) for k, v in kept if k != "format" or not isinstance(v, str)}
    return [_without_formats(item) for item in schema] if isinstance(schema, list) else schema


@click.command()
@click.option("--data", required=True, help="MaskBench cases, .jsonl.gz.")
@click.option("--schemas", default=500, show_default=True, help="How many are tested.")
@click.option("--instances", "count", default=10, show_default=True, help="Instances per schema.")
@click.option("--seed", default=1, show_default=True)
@click.option("--deadline", default=5.0, show_default=True, help="Seconds for the instances of one schema.")
@click.option("--timeout", default=30.0, show_default=True, help="Seconds for one compile.")
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), help="Write the report here too.")
def main(data: str, schemas: int, count: int, seed: int, deadline: float, timeout: float, out: Path | None) -> None:
    """Generate instances of real schemas; all of them must be accepted."""
    report = Report()
    random.seed(seed)
    for number, case in enumerate(sampled_cases(data, sys.maxsize, seed)):
        if report.schemas >= schemas:
            break
        report.test(case["id"], case["schema"], count, seed * 1_000_003 + number, deadline, timeout)
    rejected, by_format = len(report.rejected), len(report.by_format)
    total = report.accepted + rejected + by_format
    click.echo(f"{report.schemas} schemas, {total} instances: {report.accepted} accepted")
    click.echo(f"rejected: {rejected}, and {by_format} that a format leaves out")
    for title, failures in (("rejected", report.rejected), ("left out by a format", report.by_format)):
        for name, text, where in failures:
            click.echo(f"  {title}: {name}: {text[:200]}: {where}")
    for title, counts in (("schemas not tested", report.left_out), ("instances not valid", report.invalid)):
        click.echo(f"{title}: {sum(counts.values())}")
        for reason, times in counts.most_common():
            click.echo(f"  {times:5} {reason}")
    if out is not None:
        summary = {
            "schemas": report.schemas,
            "accepted": report.accepted,
            "rejected": report.rejected,
            "by_format": report.by_format,
            "left_out": dict(report.left_out.most_common()),
            "invalid": dict(report.invalid.most_common()),
        }
        out.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.exit(1 if report.rejected else 0)


if __name__ == "__main__":
    main()
