"""The commands doing their work."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import jsonschema
import pytest

from tests.cli.conftest import SCHEMA, Schemac

pytestmark = pytest.mark.usefixtures("schema", "vocabulary")


@pytest.fixture
def package(schemac: Schemac, schema: str, vocabulary: str) -> str:
    outcome = schemac("compile", schema, "--tokenizer", vocabulary, "-o", "grammar.pkg")
    assert outcome.code == 0, outcome.err
    return "grammar.pkg"


def test_compile_reports_the_package(schemac: Schemac, schema: str) -> None:
    outcome = schemac("compile", schema, "-o", "grammar.pkg")
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out.startswith("grammar.pkg: json-schema, ")
    assert " states, 0 linked programs, " in outcome.out
    assert [path.name for path in Path().glob("*.pkg*")] == ["grammar.pkg"]


def test_compile_twice_gives_the_same_bytes(schemac: Schemac, schema: str, package: str, vocabulary: str) -> None:
    schemac("compile", schema, "--tokenizer", vocabulary, "-o", "again.pkg")
    assert Path("again.pkg").read_bytes() == Path(package).read_bytes()


def test_link_adds_what_compile_links(schemac: Schemac, schema: str, package: str, vocabulary: str) -> None:
    schemac("compile", schema, "-o", "unlinked.pkg")
    outcome = schemac("link", "unlinked.pkg", "--tokenizer", vocabulary, "-o", "linked.pkg")
    assert outcome.code == 0, outcome.err
    assert Path("linked.pkg").read_bytes() == Path(package).read_bytes()


def test_stats_name_the_passes(schemac: Schemac, schema: str) -> None:
    outcome = schemac("compile", schema, "--stats", "-o", "grammar.pkg")
    assert outcome.code == 0
    assert "determinize" in outcome.err
    assert "minimize" in outcome.err


@pytest.mark.parametrize(("form", "sign"), [("ir", "procedure"), ("listing", "procedure"), ("dot", "digraph")])
def test_emit_prints_the_program(schemac: Schemac, schema: str, form: str, sign: str) -> None:
    outcome = schemac("compile", schema, "--emit", form)
    assert outcome.code == 0, outcome.err
    assert sign in outcome.out
    assert not list(Path().glob("*.pkg"))


def test_inspect_prints_the_manifest(schemac: Schemac, package: str) -> None:
    outcome = schemac("inspect", package, "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)
    assert schemac("inspect", package).code == 0


def test_verify_accepts_what_compile_writes(schemac: Schemac, package: str) -> None:
    outcome = schemac("verify", package)
    assert (outcome.code, outcome.out) == (0, "grammar.pkg: good, 1 linked program\n")


def test_check_accepts_a_text(schemac: Schemac, package: str) -> None:
    Path("text.json").write_text('{"id": 7, "tag": "b"}')
    assert schemac("check", package, "text.json")[:2] == (0, "accepted\n")


def test_check_overlooks_one_newline_at_the_end(schemac: Schemac, package: str) -> None:
    Path("text.json").write_text('{"id": 7}\n')
    assert schemac("check", package, "text.json").code == 0
    Path("text.json").write_text('{"id": 7}\n\n')
    assert schemac("check", package, "text.json").code == 1


def test_check_says_where_it_stops(schemac: Schemac, package: str) -> None:
    Path("text.json").write_text('{"id": 77}')
    outcome = schemac("check", package, "text.json")
    assert outcome.code == 1
    assert outcome.out.startswith("refused at byte 8: read ")
    assert len(outcome.out.splitlines()) == 1


@pytest.mark.parametrize("with_tokens", [False, True])
def test_samples_are_valid_and_repeatable(schemac: Schemac, package: str, vocabulary: str, with_tokens: bool) -> None:
    arguments = ["sample", package, "-n", "5", "--seed", "3"] + (["--tokenizer", vocabulary] if with_tokens else [])
    outcome = schemac(*arguments)
    assert outcome.code == 0, outcome.err
    assert schemac(*arguments).out == outcome.out
    decoder, text, count = json.JSONDecoder(), outcome.out.strip(), 0
    while text:
        value, end = decoder.raw_decode(text)
        jsonschema.validate(value, SCHEMA)
        text, count = text[end:].lstrip(), count + 1
    assert count == 5


def test_kind_is_read_from_the_name(schemac: Schemac) -> None:
    Path("digits.regex").write_text("[0-9]{3}")
    assert schemac("compile", "digits.regex", "-o", "digits.pkg").out.startswith("digits.pkg: regex, ")


def test_warnings_are_errors_when_strict(schemac: Schemac) -> None:
    Path("odd.json").write_text('{"type": "integer", "shoesize": 44}')
    outcome = schemac("compile", "odd.json", "--kind", "json-schema", "-o", "odd.pkg")
    assert outcome.code == 0
    assert outcome.err.startswith("schemac: warning: ")
    assert "shoesize" in outcome.err
    outcome = schemac("compile", "odd.json", "--kind", "json-schema", "--strict", "-o", "strict.pkg")
    assert outcome.code == 1
    assert outcome.err.startswith("schemac: error: ")
    assert not Path("strict.pkg").exists()


def test_references_lead_to_resources_only(schemac: Schemac) -> None:
    Path("parts").mkdir()
    Path("parts/tag.json").write_text('{"enum": ["x", "y"]}')
    Path("main.json").write_text('{"type": "object", "properties": {"a": {"$ref": "parts/tag.json"}}}')
    outcome = schemac("compile", "main.json", "-o", "main.pkg")
    assert outcome.code == 1
    assert "parts/tag.json" in outcome.err
    assert schemac("compile", "main.json", "--resource", "parts/tag.json", "-o", "main.pkg").code == 0
    Path("main.json").write_text('{"type": "object", "properties": {"a": {"$ref": "tag.json"}}}')
    assert schemac("compile", "main.json", "--resource", "parts", "-o", "main.pkg").code == 0
    digest = hashlib.sha256(Path("parts/tag.json").read_bytes()).hexdigest()
    assert json.loads(schemac("inspect", "main.pkg", "--json").out)["inputs"] == {"tag.json": digest}
    assert f"tag.json, sha256 {digest}" in schemac("inspect", "main.pkg").out


def test_imported_grammars_are_recorded(schemac: Schemac) -> None:
    Path("parts").mkdir()
    Path("parts/more.lark").write_text('WORD: "a"\n')
    Path("main.lark").write_text('%import .parts.more.WORD\n%import common.DIGIT\nstart: WORD DIGIT\n')
    assert schemac("compile", "main.lark", "-o", "main.pkg").code == 0
    digest = hashlib.sha256(Path("parts/more.lark").read_bytes()).hexdigest()
    assert json.loads(schemac("inspect", "main.pkg", "--json").out)["inputs"] == {"parts/more.lark": digest}
