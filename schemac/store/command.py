"""The commands ``schemac build`` and ``schemac store``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from schemac.cli_options import (
    DRAFTS,
    budget_option,
    complain,
    limits_of_json,
    stop_ids_option,
    targets_option,
    timeout_option,
    tokenizers_option,
    vocab_size_option,
)
from schemac.frontend import KEY_ORDERS, WHITESPACE
from schemac_runtime.store import Store

_store = click.argument("store", metavar="STORE", type=click.Path(exists=True, file_okay=False, path_type=Path))
#: Digits of a key that `ls` prints; `--full` prints all.
SHOWN_DIGITS = 16
REFUSED = 1


@click.command("build")
@click.argument("sources", metavar="MANIFEST|DIR", type=click.Path(path_type=Path))
@tokenizers_option
@stop_ids_option
@vocab_size_option
@targets_option
@click.option("--whitespace", type=click.Choice(WHITESPACE), default="flexible", show_default=True, help="Of JSON.")
@click.option("--key-order", type=click.Choice(KEY_ORDERS), default="schema", show_default=True, help="In objects.")
@limits_of_json
@click.option("--openapi-nullable", is_flag=True, help="`nullable: true` allows null too, as in OpenAPI 3.0.")
@click.option("--draft", type=click.Choice(DRAFTS), help="JSON Schema draft, in place of what $schema says.")
@click.option("--reasoning-end", metavar="TEXT", help="Free text comes first, up to and including the first TEXT.")
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@budget_option
@timeout_option
@click.option("--memory", metavar="MIB", type=click.IntRange(min=1), help="Memory that one compile may take, in MiB.")
@click.option(
    "-j", "--jobs", "workers", metavar="N", type=click.IntRange(min=1), default=1, show_default=True,
    help="Processes to compile in.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Compile on the Dask cluster of this scheduler instead.")
@click.option(
    "-o", "--output", metavar="STORE", required=True, type=click.Path(file_okay=False, path_type=Path),
    help="The store to write; made if it is not there.",
)  # fmt: skip
def build_command(
    sources: Path,
    tokenizers: tuple[str, ...],
    stop_ids: tuple[int, ...],
    vocab_size: int | None,
    targets: tuple[str, ...],
    whitespace: str,
    key_order: str,
    whitespace_limit: int | None,
    digit_limit: int | None,
    openapi_nullable: bool,
    draft: str | None,
    reasoning_end: str | None,
    strict: bool,
    limits: dict[str, int],
    timeout: float,
    memory: int | None,
    workers: int,
    scheduler: str | None,
    output: Path,
) -> int:
    """Compile every source of a folder, or of a manifest, into a store. What is up to date is left as it is."""
    from schemac.jobs import VocabularyChoice
    from schemac.store.build import Plan, build, build_on_dask
    from schemac.store.sources import read_sources, reasoning_option

    if not tokenizers:
        raise click.UsageError("give --tokenizer, the vocabulary to link for")
    options = {"whitespace": whitespace, "strict": strict, "draft": draft, "reasoning": reasoning_option(reasoning_end),
               "openapi_nullable": openapi_nullable, "key_order": key_order}  # fmt: skip
    limits_given = {"whitespace_limit": whitespace_limit, "digit_limit": digit_limit}
    options |= {name: limit for name, limit in limits_given.items() if limit is not None}
    found = read_sources(sources, options)
    choices = [VocabularyChoice(_absolute(name), vocab_size, stop_ids or None) for name in tokenizers]
    plan = Plan(output.absolute(), choices, limits, timeout or None, memory and memory << 20, targets)
    outcomes = build_on_dask(plan, found, scheduler) if scheduler else build(plan, found, workers)
    compiled = current = failed = 0
    progress = _Progress(len(found) * len(choices))
    try:
        for outcome in outcomes:
            if outcome.problem is not None:
                failed += 1
                progress.erase()
                complain(f"{outcome.name}: {outcome.problem}")
            elif outcome.compiled:
                compiled += 1
            else:
                current += 1
            progress.show(compiled + current + failed, failed)
    finally:
        progress.erase()
    click.echo(f"{output}: {compiled:,} compiled, {current:,} up to date, {failed:,} failed")
    return REFUSED if failed else 0


def _absolute(tokenizer: str) -> str:
    """A path that means the same in every process."""
    path = Path(tokenizer)
    return str(path.absolute()) if path.exists() and tokenizer not in _names() else tokenizer


def _names() -> tuple[str, ...]:
    from schemac.vocabulary import vocabulary_names

    return vocabulary_names()


@click.group("store", context_settings={"help_option_names": ["-h", "--help"]})
def store_commands() -> None:
    """List, check and clean a store of packages."""


@store_commands.command("ls")
@_store
@click.option("--full", is_flag=True, help="Print whole keys and fingerprints.")
def list_command(store: Path, full: bool) -> None:
    """Print the packages of STORE: key, bytes, kind, states, vocabulary."""
    from schemac.store.manage import listed

    count = total = 0
    for item in listed(Store(store)):
        count, total = count + 1, total + item.size
        key = item.key if full else item.key[:SHOWN_DIGITS]
        if item.problem is not None:
            click.echo(f"{key}  {item.size:>12,}  cannot be read: {item.problem}")
            continue
        vocabulary = item.tokenizer or (item.fingerprint if full else item.fingerprint[:SHOWN_DIGITS])
        click.echo(f"{key}  {item.size:>12,}  {item.kind:<14}  {item.states:>9,} states  {vocabulary}")
    click.echo(f"{count:,} packages, {total:,} bytes")


@store_commands.command("verify")
@_store
def verify_command(store: Path) -> int:
    """Check every package of STORE: digests, shapes, indices, and that it is what its name says."""
    from schemac.store.manage import listed

    good = bad = 0
    for item in listed(Store(store)):
        if item.problem is None:
            good += 1
        else:
            bad += 1
            complain(item.problem)
    click.echo(f"{store}: {good:,} good, {bad:,} bad")
    return REFUSED if bad else 0


@store_commands.command("gc")
@_store
@click.option(
    "--unused-days", "days", metavar="N", type=click.FloatRange(min=0),
    help="Remove what no build has made or found up to date for N days.",
)
@click.option("--max-bytes", metavar="N", type=click.IntRange(min=0), help="Remove the oldest until N bytes are left.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would go.")
def gc_command(store: Path, days: float | None, max_bytes: int | None, dry_run: bool) -> None:
    """Remove what STORE has no use for: what cannot be read, what writers left half done, and what you say."""
    from schemac.store.manage import collect

    count = total = 0
    for path, size, why in collect(Store(store), days=days, max_bytes=max_bytes, dry_run=dry_run):
        count, total = count + 1, total + size
        click.echo(f"{path.name}  {size:>12,}  {why}")
    click.echo(f"{store}: {count:,} files, {total:,} bytes {'would go' if dry_run else 'removed'}")


class _Progress:
    """A line on a terminal that says how far a build is."""

    def __init__(self, total: int) -> None:
        self._total, self._start, self._shown = total, time.monotonic(), 0.0
        self._terminal = sys.stderr.isatty()

    def show(self, done: int, failed: int) -> None:
        now = time.monotonic()
        if self._terminal and now - self._shown > 0.2:
            self._shown = now
            trouble = f", {failed:,} failed" if failed else ""
            text = f"schemac: building {done:,} of {self._total:,}{trouble}, {now - self._start:.0f} s"
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def erase(self) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
