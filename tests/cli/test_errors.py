"""Every failure is one line, with the right exit code, and leaves nothing half-written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schemac import cli
from tests.cli.conftest import Schemac

#: name of the source, its content, options, what the message holds
REFUSED_SOURCES = [
    ("missing.json", None, [], "missing.json"),
    ("broken.json", b'{"type": ', ["--kind", "json-schema"], "1:"),
    ("latin1.json", b'{"title": "\xe9"}', ["--kind", "json-schema"], ""),
    ("type.json", b'{"type": "integr"}', ["--kind", "json-schema"], "#/type"),
    ("nothing.json", b'{"type": "integer", "minimum": 5, "maximum": 3}', ["--kind", "json-schema"], ""),
    ("false.json", b"false", ["--kind", "json-schema"], ""),
    ("elsewhere.json", b'{"$ref": "other.json#/a"}', ["--kind", "json-schema"], "$ref"),
    ("nowhere.json", b'{"$ref": "#/$defs/a"}', ["--kind", "json-schema"], "$ref"),
    ("deep.json", b"[" * 100_000, ["--kind", "json-schema"], ""),
    ("open.regex", b"a(b", [], "1:"),
    ("count.regex", b"a{3,1}", [], "1:"),
    ("back.regex", rb"(a)\1", [], "1:"),
    ("empty.regex", b"[^\\x00-\\U0010FFFF]", [], ""),
    ("no.choice", b"[]", ["--kind", "choice"], ""),
    ("mixed.choice", b'["a", 1]', ["--kind", "choice"], ""),
    ("schema.json", None, ["--tokenizer", "absent/tokenizer.json"], "absent/tokenizer.json"),
    ("schema.json", None, ["--tokenizer", "no-such-name"], "no-such-name"),
    ("schema.json", None, ["--budget", "states=3"], "states"),
]


def assert_one_line(err: str) -> None:
    assert err.startswith("schemac: error: ")
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    assert "internal error" not in err


@pytest.mark.usefixtures("schema")
@pytest.mark.parametrize(("name", "content", "options", "said"), REFUSED_SOURCES)
def test_refused_sources(schemac: Schemac, name: str, content: bytes | None, options: list[str], said: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    before = sorted(Path().iterdir())
    outcome = schemac("compile", name, *options, "-o", "grammar.pkg")
    assert outcome.code == 1
    assert outcome.out == ""
    assert_one_line(outcome.err)
    assert said in outcome.err
    assert sorted(Path().iterdir()) == before


@pytest.mark.usefixtures("schema")
@pytest.mark.parametrize(
    "arguments",
    [
        ["compile", "schema.json"],
        ["compile", "schema.json", "--kind", "yaml", "-o", "x"],
        ["compile", "schema.json", "--budget", "states", "-o", "x"],
        ["compile", "schema.json", "--budget", "stats=5", "-o", "x"],
        ["compile", "schema.json", "--budget", "states=-5", "-o", "x"],
        ["compile", "schema.json", "--timeout", "-1", "-o", "x"],
        ["compile", "schema.json", "--fast", "-o", "x"],
        ["link", "grammar.pkg"],
        ["sample", "grammar.pkg", "-n", "-3"],
        ["inspect"],
        ["explain", "grammar.pkg"],
    ],
)
def test_wrong_usage(schemac: Schemac, arguments: list[str]) -> None:
    outcome = schemac(*arguments)
    assert outcome.code == 2
    assert_one_line(outcome.err)
    assert "--help" in outcome.err


@pytest.mark.parametrize("command", ["inspect", "verify", "sample"])
@pytest.mark.parametrize("content", [None, b"", b"not a package", b"\x00" * 10_000])
def test_bad_packages(schemac: Schemac, command: str, content: bytes | None) -> None:
    if content is not None:
        Path("bad.pkg").write_bytes(content)
    outcome = schemac(command, "bad.pkg")
    assert outcome.code == 1
    assert outcome.out == ""
    assert_one_line(outcome.err)
    assert "bad.pkg" in outcome.err


def test_truncated_package(schemac: Schemac, schema: str, vocabulary: str) -> None:
    assert schemac("compile", schema, "--tokenizer", vocabulary, "-o", "whole.pkg").code == 0
    whole = Path("whole.pkg").read_bytes()
    for kept in range(0, len(whole), max(1, len(whole) // 40)):
        Path("cut.pkg").write_bytes(whole[:kept])
        outcome = schemac("verify", "cut.pkg")
        assert outcome.code == 1, f"{kept} of {len(whole)} bytes"
        assert_one_line(outcome.err)


def test_output_that_cannot_be_written_leaves_nothing(schemac: Schemac, schema: str) -> None:
    outcome = schemac("compile", schema, "-o", "no/such/folder/grammar.pkg")
    assert outcome.code == 1
    assert_one_line(outcome.err)
    assert not Path("no").exists()


def test_a_failed_compile_keeps_the_old_package(schemac: Schemac, schema: str) -> None:
    assert schemac("compile", schema, "-o", "grammar.pkg").code == 0
    before = Path("grammar.pkg").read_bytes()
    Path("broken.json").write_text("{")
    assert schemac("compile", "broken.json", "--kind", "json-schema", "-o", "grammar.pkg").code == 1
    assert Path("grammar.pkg").read_bytes() == before


def test_control_characters_are_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    cli.complain("a\nb\x1b[31m é")
    assert capsys.readouterr().err == "schemac: error: a\\nb\\x1b[31m é\n"


def test_an_unexpected_exception_is_one_line(
    schemac: Schemac, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(_path: Path) -> bytes:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(cli, "_read", explode)
    outcome = schemac("compile", schema, "-o", "grammar.pkg")
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith("schemac: error: internal error, please report: ZeroDivisionError at test_errors.py:")


def test_help_and_version(schemac: Schemac) -> None:
    outcome = schemac("--help")
    assert outcome.code == 0
    for command in ("compile", "link", "inspect", "verify", "check", "sample"):
        assert command in outcome.out
        assert schemac(command, "--help").code == 0
    assert schemac().code == 2


def test_a_closed_pipe_is_no_traceback() -> None:
    script = "import sys; from schemac.cli import main; main(['--help'])"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait()
