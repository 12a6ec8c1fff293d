"""The command line: ``schemac compile | link | inspect | verify | check | sample | build | store | neff``.

Exit codes: 0 all is well; 1 the input is refused (or an internal error, which says so); 2 wrong usage. An error is one
line on standard error, ``schemac: error: ...``; results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schemac import __version__
from schemac.budget import Budget
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
from schemac.errors import SchemacError, SourceError
from schemac.frontend import KEY_ORDERS, KINDS, WHITESPACE, SourceOptions, parse_source
from schemac.neff import neff_command
from schemac.store.command import build_command, store_commands

if TYPE_CHECKING:
    from schemac.api import Compiled
    from schemac.ir.pipeline import PassStatistics
    from schemac.vocabulary import Vocabulary
    from schemac_runtime import Package

EMIT = ("ir", "listing", "dot")

#: What `--kind auto` reads from the name of the source; other names leave the decision to the content.
KIND_OF_SUFFIX = {".lark": "lark", ".gbnf": "gbnf", ".ebnf": "gbnf", ".regex": "regex"}

#: How many procedures `inspect` names; `--json` has all.
SHOWN_PROCEDURES = 10

REFUSED, USAGE = 1, 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code and never lets an exception out."""
    try:
        result = commands.main(args=arguments, prog_name="schemac", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "schemac"
        complain(f"{error.format_message()} (see {command} --help)")
        return USAGE
    except click.Abort:
        complain("interrupted")
        return REFUSED
    except SchemacError as error:
        complain(str(error))
        return REFUSED
    except BrokenPipeError:
        # Whoever reads standard output has seen enough. Nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return REFUSED
    except MemoryError:
        complain("out of memory")
        return REFUSED
    except Exception as error:  # noqa: BLE001 - the last resort: one line instead of a traceback
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        complain(f"internal error, please report: {type(error).__name__} at {place}: {error}")
        return REFUSED


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def commands() -> None:
    """Compile JSON Schema, regular expressions and grammars to token masks for language models."""


_output = click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The package to write.")
_package = click.argument("package", metavar="PKG", type=click.Path(path_type=Path))


@commands.command("compile")
@click.argument("source", type=click.Path(allow_dash=True, path_type=Path))
@click.option("--kind", type=click.Choice(("auto", *KINDS)), default="auto", show_default=True, help="What SOURCE is.")
@tokenizers_option
@stop_ids_option
@vocab_size_option
@targets_option
@click.option("--whitespace", type=click.Choice(WHITESPACE), default="flexible", show_default=True, help="Of JSON.")
@click.option(
    "--key-order",
    type=click.Choice(KEY_ORDERS),
    default="schema",
    show_default=True,
    help="Of JSON objects: as the schema has them, or any, each key once.",
)
@limits_of_json
@click.option("--draft", type=click.Choice(DRAFTS), help="JSON Schema draft, in place of what $schema says.")
@click.option(
    "--resource",
    "resources",
    metavar="FILE|DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A schema that references may lead to, by its $id or its path from SOURCE; or a folder of *.json, by $id or "
    "path in it. Nothing else is ever read.",
)
@click.option(
    "--reasoning-end",
    metavar="TEXT",
    help="Free text comes first, up to and including the first TEXT, such as </think>; then the constraint.",
)
@click.option(
    "--openapi-nullable",
    is_flag=True,
    help="`nullable: true` beside `type` allows null too, as in OpenAPI 3.0; by JSON Schema it says nothing.",
)
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@budget_option
@timeout_option
@click.option("--stats", is_flag=True, help="Print what each pass did to standard error.")
@click.option(
    "--emit",
    type=click.Choice(EMIT),
    help="Print to standard output the program as the frontend made it, as all passes leave it, or for Graphviz.",
)
@_output
def compile_command(
    source: Path,
    kind: str,
    tokenizers: tuple[str, ...],
    stop_ids: tuple[int, ...],
    vocab_size: int | None,
    targets: tuple[str, ...],
    whitespace: str,
    key_order: str,
    whitespace_limit: int | None,
    digit_limit: int | None,
    draft: str | None,
    resources: tuple[Path, ...],
    reasoning_end: str | None,
    openapi_nullable: bool,
    strict: bool,
    limits: dict[str, int],
    timeout: float,
    stats: bool,
    emit: str | None,
    output: Path | None,
) -> None:
    """Compile SOURCE (a file, or - for standard input), and link it for each tokenizer."""
    import schemac
    from schemac.ir.printer import print_automaton, print_dot, print_module

    if output is None and emit is None:
        raise click.UsageError("nothing to do: give -o, or --emit")
    data = _read(source)
    documents = _read_resources(resources, source)
    folder = None if str(source) == "-" else source.parent
    reasoning = None if reasoning_end is None else schemac.ReasoningPrefix(reasoning_end)
    if kind == "auto":
        kind = KIND_OF_SUFFIX.get(source.suffix, "auto")
    with _progress("compiling") as say:
        compiled = schemac.compile(
            data,
            kind=kind,
            whitespace=whitespace,
            strict=strict,
            limits=limits,
            timeout=timeout or None,
            draft=draft,
            resources=documents,
            reasoning=reasoning,
            folder=folder,
            openapi_nullable=openapi_nullable,
            key_order=key_order,
            whitespace_limit=whitespace_limit,
            digit_limit=digit_limit,
            on_warning=lambda text: say(text, "warning"),
        )
        for vocabulary in _load_vocabularies(tokenizers, vocab_size, stop_ids):
            compiled = schemac.link(compiled, vocabulary, limits=limits, timeout=timeout or None)
        for target in targets:
            compiled = schemac.add_target(compiled, target)
        if output is not None:
            schemac.save(compiled, output)
    if stats:
        _print_statistics(compiled.stats)
    if emit is not None:
        if emit == "ir":
            options = SourceOptions(
                whitespace,
                strict,
                draft,
                documents,
                reasoning,
                folder,
                openapi_nullable,
                key_order,
                whitespace_limit,
                digit_limit,
            )
            module = parse_source(data, compiled.kind, options, Budget(limits, timeout or None), lambda _: None)
            click.echo(print_module(module), nl=False)
        else:
            click.echo({"listing": print_automaton, "dot": print_dot}[emit](compiled.automaton), nl=False)
    elif output is not None:
        _report(compiled, output)


@commands.command("link")
@_package
@tokenizers_option
@stop_ids_option
@vocab_size_option
@targets_option
@budget_option
@timeout_option
@_output
def link_command(
    package: Path,
    tokenizers: tuple[str, ...],
    stop_ids: tuple[int, ...],
    vocab_size: int | None,
    targets: tuple[str, ...],
    limits: dict[str, int],
    timeout: float,
    output: Path | None,
) -> None:
    """Link the compiled package PKG for more tokenizers, or compile kernels for more machines."""
    import schemac
    import schemac_runtime

    if not tokenizers and not targets:
        raise click.UsageError("nothing to do: give --tokenizer or --target")
    if output is None:
        raise click.UsageError("give -o, the package to write (it may be PKG itself)")
    with _progress("linking"):
        compiled = schemac.open_package(schemac_runtime.load(package))
        for vocabulary in _load_vocabularies(tokenizers, vocab_size, stop_ids):
            compiled = schemac.link(compiled, vocabulary, limits=limits, timeout=timeout or None)
        for target in targets:
            compiled = schemac.add_target(compiled, target)
        schemac.save(compiled, output)
    _report(compiled, output)


@commands.command("inspect")
@_package
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def inspect_command(package: Path, as_json: bool) -> None:
    """Print what the package PKG holds."""
    import schemac_runtime

    loaded = schemac_runtime.load(package)
    if as_json:
        click.echo(json.dumps(loaded.manifest, indent=2, ensure_ascii=False))
        return
    for name, value in _summary(loaded):
        click.echo(f"{name:12} {value}")


@commands.command("verify")
@_package
def verify_command(package: Path) -> None:
    """Check every digest, shape and index of the package PKG."""
    import schemac
    import schemac_runtime

    loaded = schemac_runtime.load(package)
    schemac.open_package(loaded)  # checks the automaton, which the runtime never reads, and what targets hold
    targets = dict.fromkeys(artifact.target for artifact in loaded.targets)
    click.echo(f"{package}: good, {', '.join((_linked(len(loaded.programs)), *targets))}")


@commands.command("check")
@_package
@click.argument("file", type=click.Path(allow_dash=True, path_type=Path))
def check_command(package: Path, file: Path) -> int:
    """Say whether the package PKG allows the text of FILE (- for standard input), or where it stops.

    The text is taken byte for byte. Only if that is refused is one newline at its end left out, as editors add it.
    """
    import schemac
    import schemac_runtime

    automaton = schemac.open_package(schemac_runtime.load(package)).automaton
    data = _read(file)
    result = schemac.check(automaton, data)
    if not result.accepted and data.endswith(b"\n"):
        result = schemac.check(automaton, data[:-2] if data.endswith(b"\r\n") else data[:-1])
    if result.accepted:
        click.echo("accepted")
        return 0
    click.echo(f"refused at byte {result.position}: read {result.read}, expected {result.expected}")
    return REFUSED


@commands.command("sample")
@_package
@click.option("-n", "--number", "count", type=click.IntRange(min=0), default=1, show_default=True, help="How many.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random choices.")
@click.option("--tokenizer", metavar="T", help="Choose tokens of this vocabulary, as a model would.")
@stop_ids_option
@vocab_size_option
def sample_command(
    package: Path, count: int, seed: int, tokenizer: str | None, stop_ids: tuple[int, ...], vocab_size: int | None
) -> None:
    """Print random texts that the package PKG allows, each followed by a newline."""
    import schemac
    import schemac_runtime

    loaded = schemac_runtime.load(package)
    vocabulary = next(_load_vocabularies((tokenizer,), vocab_size, stop_ids)) if tokenizer else None
    for text in schemac.sample(loaded, count, seed, vocabulary):
        click.echo(text)


def _read(path: Path) -> bytes:
    """A file or standard input.

    Raises:
        SourceError: it cannot be read.
    """
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        raise SourceError(getattr(error, "strerror", None) or str(error), place=str(path)) from None


def _read_resources(paths: Sequence[Path], source: Path) -> dict[str, Any]:
    """The content of every resource by the name that a reference calls it.

    Raises:
        SourceError: one cannot be read.
    """
    found: dict[str, Any] = {}
    for path in paths:
        if path.is_dir():
            found.update((file.relative_to(path).as_posix(), _read(file)) for file in sorted(path.rglob("*.json")))
        else:
            name = Path(os.path.relpath(path, "." if str(source) == "-" else source.parent)).as_posix()
            found[name] = _read(path)
    return found


def _load_vocabularies(specs: Sequence[str], size: int | None, stop_ids: Sequence[int]) -> Iterator[Vocabulary]:
    from schemac.vocabulary import load_vocabulary

    for spec in specs:
        vocabulary = load_vocabulary(spec, size=size)
        yield vocabulary.with_stop_ids(stop_ids) if stop_ids else vocabulary


def _linked(programs: int) -> str:
    return f"{programs} linked program" + ("" if programs == 1 else "s")


def _report(compiled: Compiled, output: Path) -> None:
    programs, size = _linked(len(compiled.programs)), output.stat().st_size
    click.echo(f"{output}: {compiled.kind}, {compiled.automaton.states:,} states, {programs}, {size:,} bytes")


def _print_statistics(stats: Sequence[PassStatistics]) -> None:
    click.echo(f"{'pass':24}{'ms':>10}{'states before':>16}{'after':>10}", err=True)
    for entry in stats:
        row = f"{entry.name:24}{entry.seconds * 1e3:10.1f}{entry.states_before:16,}{entry.states_after:10,}"
        click.echo(row, err=True)


def _summary(package: Package) -> Iterator[tuple[str, str]]:
    """What `schemac inspect` prints, as (name, text)."""
    from schemac.codegen.targets import describe_target

    manifest, arrays = package.manifest, package.arrays
    size = package.path.stat().st_size
    yield "package", f"{package.path}: {size:,} bytes, format {manifest['format']}, schemac {manifest['schemac']}"
    yield "source", f"{manifest['kind']}, sha256 {manifest['source_sha256']}"
    yield "options", ", ".join(f"{name}: {json.dumps(value)}" for name, value in manifest["options"].items())
    for name, digest in manifest.get("inputs", {}).items():
        yield "input", f"{name}, sha256 {digest}"
    for warning in manifest["warnings"]:
        yield "warning", warning
    automaton = manifest["automaton"]
    owner = arrays["automaton/owner"]
    edges, calls = len(arrays["automaton/edge_target"]), len(arrays["automaton/call_return"])
    yield "automaton", f"{len(owner):,} states, {automaton['symbols']} symbols, {edges:,} edges, {calls:,} calls"
    procedures = list(zip(automaton["procedures"], automaton["places"], strict=True))
    for number, (name, place) in enumerate(procedures[:SHOWN_PROCEDURES]):
        states = int((owner == number).sum())
        yield "procedure", f"{number} {name or '-'}{f' at {place}' if place else ''}: {states:,} states"
    if len(procedures) > SHOWN_PROCEDURES:
        yield "", f"and {len(procedures) - SHOWN_PROCEDURES:,} more procedures"
    for program in package.programs:
        tables = program.tables
        classes = int(tables.token_class.max(initial=0)) + 1
        name = program.tokenizer or "a vocabulary"
        yield "program", f"for {name}, {program.vocab_size:,} tokens, fingerprint {program.fingerprint}"
        yield "", f"{classes:,} token classes, {len(tables.edge_value):,} transitions by class"
        yield "", f"{len(tables.dense):,} dense and {len(tables.sparse_start) - 1:,} sparse mask rows"
        yield "", f"the shortest text takes {program.min_tokens():,} tokens, the one that ends it included"
        for artifact in package.targets:
            if artifact.fingerprint == program.fingerprint:
                yield "target", f"{artifact.target}: {describe_target(artifact)}"


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Any]:
    """While a command works for more than a second, say so on a terminal; yields a function that prints a message."""
    done = threading.Event()
    terminal = sys.stderr.isatty()
    lock = threading.Lock()

    def erase() -> None:
        if terminal:
            sys.stderr.write("\r\x1b[K")

    def say(text: str, kind: str) -> None:
        with lock:
            erase()
            complain(text, kind)

    def tick() -> None:
        start = time.monotonic()
        while not done.wait(1.0):
            with lock:
                sys.stderr.write(f"\r\x1b[Kschemac: {what}, {time.monotonic() - start:.0f} s")
                sys.stderr.flush()

    thread = threading.Thread(target=tick, daemon=True)
    if terminal:
        thread.start()
    try:
        yield say
    finally:
        done.set()
        if terminal:
            thread.join()
            erase()
            sys.stderr.flush()


commands.add_command(build_command)
commands.add_command(store_commands)
commands.add_command(neff_command)


if __name__ == "__main__":
    main()
