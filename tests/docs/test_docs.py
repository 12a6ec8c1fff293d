"""The documents say what is true: their examples run, and what they name is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from benchmarks.keyword_table import replaced
from schemac import errors
from schemac.budget import DEFAULT_LIMITS, DEFAULT_SECONDS
from schemac.cli import commands
from schemac.codegen.package import automaton_arrays
from schemac.frontend.json_schema.formats import FORMATS
from schemac.ir.pipeline import lower
from schemac.vocabulary import vocabulary_names
from schemac_runtime.program import TABLE_DTYPES, Tables

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
TEXTS = {name: (ROOT / name).read_text("utf-8") for name in DOCUMENTS}
#: Output that changes with every change of the lowering is compared without its numbers.
EXACT = ("--emit", "schemac check", "error:", "accepted")


#: Command lines of other programs, which have options of their own.
FOREIGN = re.compile(r"^ +(?:(?:python -m )?pip|neuronx-cc) .*", re.MULTILINE)


class Block(NamedTuple):
    kind: str
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a document."""
    kind, start, lines = None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif kind is None:
            kind, start, lines = line[3:].strip(), number + 1, []
        else:
            yield Block(kind, "\n".join(lines) + "\n", start)
            kind = None
    assert kind is None, f"the block of line {start} is never closed"


def with_blocks(kind: str) -> list[str]:
    return [name for name, text in TEXTS.items() if any(block.kind == kind for block in blocks(text))]


def needs_tekken(text: str) -> None:
    if "tekken" in text and find_spec("mistral_common") is None:
        pytest.skip("not run: needs the mistral-common package, extra tekken")


# -- examples ----------------------------------------------------------------------------------------------------


def run_python(name: str, chosen: list[Block]) -> None:
    namespace: dict[str, Any] = {"__name__": name}
    for block in chosen:
        source = "\n" * (block.line - 1) + block.text  # line numbers as in the document
        exec(compile(source, str(ROOT / name), "exec"), namespace)


@pytest.mark.parametrize("name", with_blocks("python"))
def test_python_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [block for block in blocks(TEXTS[name]) if block.kind == "python" and "import torch" not in block.text]
    needs_tekken("".join(block.text for block in chosen))
    monkeypatch.chdir(tmp_path)
    run_python(name, chosen)


@pytest.mark.parametrize("name", [name for name in with_blocks("python") if "import torch" in TEXTS[name]])
def test_torch_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="not run: needs torch")
    chosen = [block for block in blocks(TEXTS[name]) if block.kind == "python"]
    needs_tekken("".join(block.text for block in chosen))
    monkeypatch.chdir(tmp_path)
    run_python(name, chosen)


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """(command, what it prints) of a console block."""
    for part in ("\n" + block.text).split("\n$ ")[1:]:
        command, _, output = part.partition("\n")
        yield command, output if not output or output.endswith("\n") else output + "\n"


def without_numbers(text: str) -> str:
    return re.sub(r"\d[\d,.]*", "N", re.sub(r"\b[0-9a-f]{16,}\b", "HEX", text))


@pytest.mark.parametrize("name", with_blocks("console"))
def test_commands_print_what_is_shown(name: str, tmp_path: Path) -> None:
    chosen = [block for block in blocks(TEXTS[name]) if block.kind == "console"]
    needs_tekken("".join(block.text for block in chosen))
    (tmp_path / "bin").mkdir()
    schemac = tmp_path / "bin" / "schemac"
    schemac.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m schemac.cli "$@"\n')
    schemac.chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {
        **os.environ,
        "PATH": f"{schemac.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime"))),
        "PYTHONIOENCODING": "utf-8",
    }
    for block in chosen:
        for command, expected in commands_of(block):
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment, timeout=120, text=True, encoding="utf-8",
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            refused = "schemac: error:" in expected or expected.startswith("refused")
            assert done.returncode == int(refused), done.stdout
            if "schemac sample" in command:  # other texts after every change of the lowering
                assert done.stdout.count("\n") == expected.count("\n")
            elif any(mark in command + expected for mark in EXACT):
                assert done.stdout == expected
            else:
                assert without_numbers(done.stdout) == without_numbers(expected)


# -- names -------------------------------------------------------------------------------------------------------


def options_of(command: click.Command) -> set[str]:
    own = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*map(options_of, inner))


OPTIONS = {name: options_of(command) for name, command in commands.commands.items()}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_options_exist(name: str) -> None:
    text = FOREIGN.sub("", TEXTS[name].replace("\\\n", " "))
    others = ("tests/conftest.py", "tests/vllm/server.py")  # options of pytest, and those of vLLM that the tests use
    elsewhere = {option for path in others for option in re.findall(r'"(--[a-z-]+)"', (ROOT / path).read_text("utf-8"))}
    for module in re.findall(r"python -m (benchmarks\.\w+)", text):
        source = ROOT / f"{module.replace('.', '/')}.py"
        own = set(re.findall(r'"(--[a-z-]+)"', source.read_text("utf-8")))
        elsewhere |= own
        for line in re.findall(rf"python -m {re.escape(module)}\b([^\n`)]*)", text):
            assert set(re.findall(r"(?<!\S)--[a-z-]+", line)) <= own
    for command, rest in re.findall(r"^ *(?:\$ )?(?:echo .* \| )?schemac (\w+)(.*)$", text, re.MULTILINE):
        if command in OPTIONS:
            given = re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest.partition("#")[0])
            assert set(given) <= OPTIONS[command], rest
    known = set().union(*OPTIONS.values(), elsewhere, {"--version"})
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) <= known


def test_the_readme_lists_all_options_of_compile() -> None:
    named = re.findall(r"--[a-z-]+", section_of("README.md", "## A short tour"))
    options = {option for option in OPTIONS["compile"] if option.startswith("--")}
    assert options - {"--help", "--output"} <= set(named)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXTS[name]):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text("utf-8")), target


def anchors(text: str) -> set[str]:
    """The names of headings, as GitHub makes them."""
    for block in blocks(text):
        text = text.replace(block.text, "")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_that_are_named_exist(name: str) -> None:
    found = re.findall(r"`((?:benchmarks|docs|examples|runtime|schemac|tests)/[\w./-]+)`", TEXTS[name])
    assert [path for path in found if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_exist(name: str) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"(?:`|^    )make ([a-z]+)", TEXTS[name], re.MULTILINE)) <= set(targets)


def test_extras_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")  # by hand: Python 3.10 has no tomllib
    listed = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = re.findall(r"^(\w+) = \[", listed, re.MULTILINE)
    section = TEXTS["README.md"].partition("## Install")[2].partition("\n## ")[0]
    named = [name for row in table(section) for name in re.findall(r"`([\w-]+)`", row[0])]
    assert sorted(named) == sorted(extras)


# -- tables ------------------------------------------------------------------------------------------------------


def table(section: str) -> list[list[str]]:
    """The rows of the first table of a section, without its heading."""
    found = re.search(r"(?:^\|.*\n)+", section + "\n", re.MULTILINE)
    assert found
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found.group().splitlines()[2:]]


def section_of(name: str, heading: str) -> str:
    _, found, rest = TEXTS[name].partition(f"\n{heading}\n")
    assert found, heading
    return re.split(r"\n##+ ", rest)[0]


def test_the_keyword_table_is_that_of_the_frontend() -> None:
    text = TEXTS["docs/json-schema.md"]
    assert replaced(text) == text, "python -m benchmarks.keyword_table --write"


def test_the_formats_are_those_of_the_frontend() -> None:
    rows = table(section_of("docs/json-schema.md", "## Formats"))
    named = [name for row in rows for name in re.findall(r"`([\w-]+)`", row[0])]
    assert sorted(named) == sorted(FORMATS)
    for name, lacks in ((name, row[2]) for row in rows for name in re.findall(r"`([\w-]+)`", row[0])):
        assert FORMATS[name].exact == (not lacks), name


def test_the_arrays_of_a_program_are_those_of_the_format() -> None:
    rows = table(section_of("docs/package-format.md", "## A linked program"))
    assert [row[0].strip("`") for row in rows] == Tables.names()
    assert [row[1] for row in rows] == [TABLE_DTYPES.get(name, "int32") for name in Tables.names()]


def test_the_arrays_of_an_automaton_are_those_of_the_format() -> None:
    from schemac.budget import Budget
    from schemac.frontend.choice import choice_module

    automaton, _ = lower(choice_module(["a"]), Budget())
    arrays = automaton_arrays(automaton)
    rows = table(section_of("docs/package-format.md", "## The automaton"))
    assert [f"automaton/{row[0].strip('`')}" for row in rows] == list(arrays)
    assert [row[1] for row in rows] == [array.dtype.name for array in arrays.values()]


def test_the_budgets_are_those_of_the_compiler() -> None:
    section = section_of("docs/errors.md", "## Budgets")
    assert {row[0].strip("`"): int(row[1].replace(",", "")) for row in table(section)} == dict(DEFAULT_LIMITS)
    assert f"{DEFAULT_SECONDS:g} seconds" in section


def test_the_errors_are_those_of_the_hierarchy() -> None:
    section = section_of("docs/errors.md", "## Errors").partition("```\n\n")[2]
    assert {row[0].strip("`") for row in table(section)} == {*errors.__all__, "AnswerError"} - {"SchemacError"}


def test_the_vocabularies_are_those_of_the_registry() -> None:
    rows = table(section_of("docs/vocabularies.md", "## Where they come from"))
    assert sorted(row[0].strip("`") for row in rows) == sorted(vocabulary_names())


def test_the_passes_are_those_of_the_pipeline() -> None:
    from schemac.budget import Budget
    from schemac.frontend.choice import choice_module

    _, statistics = lower(choice_module(["a"]), Budget())
    rows = table(section_of("docs/architecture.md", "### Passes"))
    assert [row[0].strip("`") for row in rows] == [entry.name for entry in statistics]


def test_the_settings_of_the_vllm_backend() -> None:
    from schemac_runtime.serving.settings import Settings

    rows = table(section_of("docs/vllm.md", "## Settings"))
    assert [row[0].strip("`") for row in rows] == [field.name for field in fields(Settings)]


def test_the_metrics_of_the_vllm_backend() -> None:
    from schemac_runtime.serving.metrics import NAMES

    rows = table(section_of("docs/vllm.md", "## Metrics"))
    named = [name for row in rows for name in re.findall(r"`([a-z_]+)", row[0])]
    assert sorted(named) == sorted(NAMES)
