"""Answers are checked by other means than the masks: what is found, what is refused, and that both readings agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import schemac
import schemac_runtime
from schemac.frontend.regex import regex_language
from schemac_runtime.answers import AnswerError, AnswerValidator, Problem, validate_answer
from schemac_runtime.answers.formats import conforms
from schemac_runtime.answers.patterns import Malformed, compile_pattern

ROOT = Path(__file__).resolve().parents[2]
SUITE = Path(os.environ.get("SCHEMAC_SUITE") or ROOT.parent / "shared" / "data" / "json-schema-test-suite")
ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": 1}, "tags": {"items": {"pattern": "^[a-z]+$"}}},
    "required": ["id"],
}


def test_what_is_wrong_is_told_with_its_places() -> None:
    assert validate_answer(ORDER, '{"id": 1, "tags": ["a"]}') == []
    problems = validate_answer(ORDER, '{"id": 0, "tags": ["a", "B/~"]}')
    assert [(p.place, p.construct, p.schema_place) for p in problems] == [
        ("#/id", "minimum", "#/properties/id/minimum"),
        ("#/tags/1", "pattern", "#/properties/tags/items/pattern"),
    ]
    assert str(problems[0]) == "#/id `minimum`: 0 is less than 1"
    assert len(validate_answer({"items": False}, "[1, 2, 3]", most=2)) == 2


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ('{"a": 1, "a": 1}', "the key 'a' is twice in one object", "#"),
        ('{"b": [{"a": 1, "\\u0061": 2}]}', "the key 'a' is twice in one object", "#"),
        ('{"a": 1', "not JSON: Expecting ',' delimiter", "1:8"),
        ("[1,\n]", "not JSON", "1:3"),
        ("NaN", "not JSON: NaN", "#"),
        ("[-Infinity]", "not JSON: -Infinity", "#"),
        (b'"\xff"', "not UTF-8 at byte 1", "#"),
        ('["\\ud800"]', "the string has a lone surrogate", "#/0"),
        ('{"a": {"\\udc00": 1}}', "the string has a lone surrogate", "#/a"),
        ("1e999999999999999999999", "too long to be checked", "#"),
        ("1e99999", "too long to be checked", "#"),
        ("1" * 10_000, "too long to be checked", "#"),
        ("[" * 100_000, "nested too deep", "#"),
        ("", "not JSON", "1:1"),
        ("{} {}", "not JSON: Extra data", "1:4"),
    ],
)
def test_texts_that_are_no_plain_json_are_problems(text: str | bytes, reason: str, place: str) -> None:
    (problem,) = validate_answer(True, text)
    assert reason in problem.reason
    assert problem.place == place or place == "1:3"
    assert problem.construct is None


def test_a_package_brings_its_schema_and_draft(tmp_path: Path) -> None:
    schemac.save(schemac.compile(ORDER), tmp_path / "a.pkg")
    package = schemac_runtime.load(tmp_path / "a.pkg")
    assert validate_answer(package, '{"id": 5}') == []
    assert validate_answer(package, "{}")[0].construct == "required"
    # Draft 7 does not know `prefixItems`.
    schema = {"prefixItems": [False], "items": [{"type": "null"}], "additionalItems": False}
    schemac.save(schemac.compile(schema, draft="draft7"), tmp_path / "b.pkg")
    package = schemac_runtime.load(tmp_path / "b.pkg")
    assert AnswerValidator(package).draft == "draft7"
    assert validate_answer(package, "[null]") == []
    assert validate_answer(package, "[null, 1]")[0].place == "#/1"
    schemac.save(schemac.compile(["a", "b"]), tmp_path / "c.pkg")
    with pytest.raises(AnswerError, match="kind choice, not a JSON Schema"):
        validate_answer(schemac_runtime.load(tmp_path / "c.pkg"), '"a"')


def test_nothing_is_fetched_and_what_is_handed_over_is_found() -> None:
    schema = {"$id": "http://example.com/root.json", "$ref": "parts/x.json#/$defs/n"}
    with pytest.raises(AnswerError, match="leads nowhere") as caught:
        validate_answer(schema, "1")
    assert caught.value.construct == "$ref"
    part = {"$defs": {"n": {"type": "integer"}}}
    for name in ("parts/x.json", "http://example.com/parts/x.json"):
        assert validate_answer(schema, "1", resources={name: part}) == []
        assert validate_answer(schema, "1.5", resources={name: json.dumps(part)})[0].construct == "type"
    meta = {"$ref": "http://json-schema.org/draft-07/schema#"}
    assert validate_answer(meta, '{"type": "integer"}') == []
    assert validate_answer(meta, '{"type": "whole"}') != []


def test_inner_schemas_keep_their_own_draft_and_our_keywords() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {
            "old": {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"format": "date"}]},
            "again": {"$ref": "#"},
            "$schema": {"type": "string"},
        },
        "patternProperties": {"\\d$": {"type": "null"}},
    }
    assert validate_answer(schema, '{"again": {"again": {"a٣": 1, "$schema": "x"}}}') == []  # `re` would take the digit
    assert validate_answer(schema, '{"again": {"again": {"a3": 1}}}')[0].place == "#/again/again/a3"
    assert validate_answer(schema, '{"old": ["2023-02-29"]}')[0].construct == "format"
    with pytest.raises(AnswerError, match="dialect"):
        validate_answer({"$schema": "http://example.com/mine"}, "1")
    assert validate_answer({"$schema": "http://example.com/mine"}, "1", draft="7") == []


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"multipleOf": 0.1}, ["0.3", "1e2", "123456789012345678901234567890.1"], ["0.35"]),
        ({"maximum": 9007199254740993}, ["9007199254740993"], ["9007199254740993.5", "9007199254740994"]),
        ({"const": 0.1}, ["0.1", "0.10", "1e-1"], ["0.1000000000000000055"]),
        ({"type": "integer"}, ["1.0", "1e3"], ["1.5", "true"]),
        ({"minimum": 1, "exclusiveMinimum": True}, ["1.1"], ["1"]),
        ({"exclusiveMaximum": 1, "maximum": 5}, ["0.9"], ["1"]),
        ({"uniqueItems": True}, ["[1, true, 1.5]"], ["[1, 1.0]", "[[1], [1.0]]"]),
        ({"items": [{"type": "null"}], "additionalItems": False}, ["[null]", "[]"], ["[1]", "[null, 1]"]),
        ({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, ['{"a": 1, "b": 1}'], ['{"a": 1}', '{"c": 1}']),
        ({"properties": {"a": {}}, "additionalProperties": False}, ['{"a": 1}'], ['{"b": 1}']),
        ({"contains": {"type": "null"}, "unevaluatedItems": False}, ["[null]"], ["[null, 1]"]),
        (
            {"anyOf": [{"patternProperties": {"^a\\s": True}}, True], "unevaluatedProperties": False},
            ['{"a\\u00a0": 1}'],
            ['{"a": 1}'],
        ),
        (
            {"$ref": "#/$defs/x", "unevaluatedProperties": False, "$defs": {"x": {"properties": {"a": {}}}}},
            ['{"a": 1}'],
            ['{"a": 1, "b": 1}'],
        ),
    ],
    ids=str,
)
def test_keywords(schema: Any, valid: list[str], invalid: list[str]) -> None:
    validator = AnswerValidator(schema)
    for text in valid:
        assert validator.problems(text) == [], text
    for text in invalid:
        assert validator.problems(text), text


@pytest.mark.parametrize("schema", ["{", "[1]", "7", {"a": {1, 2}}, b"\xff", '{"a": 1, "a": 2}'])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(AnswerError, match="is not a JSON Schema"):
        AnswerValidator(schema)


def test_malformed_schemas_are_refused() -> None:
    for schema in ({"type": 7}, {"minLength": "x"}, {"allOf": 3}, {"$ref": 5}, {"multipleOf": 0}):
        with pytest.raises(AnswerError, match="malformed"):
            validate_answer(schema, "7" if "multipleOf" in schema else '"a"')


# -- patterns ---------------------------------------------------------------------------------------------------

PATTERNS = [
    "a", "^a$", "a|b", "^(?:a|bc)*$", "^.$", "\\.", "^\\d+$", "^\\D$", "^\\w+$", "^\\W$", "^\\s$", "^\\S$",
    "^[\\s]$", "^[^\\s\\d]$", "^[]$", "^[^]$", "[[]", "^[a-c-]$", "^[\\w-.]+$", "^\\-\\@\\/$", "^{}$", "a{,}",
    "^a{2}$", "^a{1,2}?b", "^a{0,1500}$", "^.{1001,2500}$", "^(ab){2,}$", "\\bfoo\\b", "\\Boo", "^\\cA$", "^\\0$",
    "^\\x41\\u0042\\u{43}$", "^\\ud83d\\ude00$", "^\\p{Lu}$", "^\\P{L}$", "^\\p{Script=Greek}+$", "^\\p{Letter}$",
    "^\\p{gc=Nd}$", "^[\\p{L}_]$", "^\\p{ASCII}$", "^\\P{ASCII}$", "^(?<name>a)$", "^(?i:k)b$", "(?i)^straße$",
    "^(?s:.)$", "^(?!a)", "^(?=.*\\d)(?!1).{2}$", "^(?=a|b)(?!.*c$).*$", "(?i)^(?!AB).", "é", "^😀$", "^$", "",
    "^(a|)$", "\\$", "^\\\\$", "(^a|b$)", "x*$",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "c", "A", "aa", "ab", "abab", "ababab", "bc", "abc", "AB", "B", "Ab", "foo", "a foo b", "food",
    "1", "12", "21", "٣", "_", "-", ".", "-.a", "-@/", "{}", "a{,}", "[", "]", "\n", "\r", "\u2028", " ", "\u00a0",
    "\ufeff", "\u180e", "\x0b", "\x01", "\x00", "ABC", "😀", "é", "É", "Ω", "ΩΨ", "K", "kb", "Kb", "\u212ab",
    "straße", "STRASSE", "STRAßE", "ſ", "a" * 1500, "a" * 1501, "b" * 1000, "b" * 1001, "b" * 2500, "b" * 2501, "$",
    "\\", "x1", "a1", "ac", "bb", "\U00010400",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_re2_is_told_what_ecma_262_means(pattern: str) -> None:
    language = regex_language(pattern, dialect="ecma", search=True)
    matcher = compile_pattern(pattern)
    for text in TEXTS:
        assert matcher.search(text) == language.accepts([ord(char) for char in text]), text[:20]


@pytest.mark.parametrize(
    "pattern",
    [
        "(a)\\1", "(?<n>a)\\k<n>", "a(?=b)", "(?<=a)b", "^(?=a)b|c", "\\p{Emoji}", "(?m)^a$", "(?i)\\p{Lu}", "(?i)\\W",
        "a{30000}", "(?:a{600}){600}", "\\ud800", "\\p{scx=Greek}",
    ],
)  # fmt: skip
def test_what_re2_cannot_say_is_refused(pattern: str) -> None:
    with pytest.raises(AnswerError, match="cannot be checked") as caught:
        validate_answer({"pattern": pattern}, '"a"')
    assert caught.value.construct == "pattern"
    assert caught.value.hint


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[", "*", "a{2,1}", "\\", "\\A", "[b-a]", "(?x)", "\\u12", "\\u{110000}", "a**"]
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(Malformed):
        compile_pattern(pattern)


def test_hostile_patterns_take_no_time() -> None:
    assert validate_answer({"pattern": "^(a|a)*$"}, json.dumps("a" * 20_000 + "b"))
    assert validate_answer({"patternProperties": {"^(a+)+$": True}, "additionalProperties": False}, '{"aaaaab": 1}')


# -- formats ----------------------------------------------------------------------------------------------------


def test_unknown_formats_assert_nothing() -> None:
    assert validate_answer({"format": "colour"}, '"x"') == []
    assert validate_answer({"format": "date"}, "5") == []


@pytest.mark.parametrize(
    "name",
    [
        "date", "date-time", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6",
        "uri", "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer",
        "relative-json-pointer", "regex",
    ],
)  # fmt: skip
def test_formats_that_are_written_conform(name: str) -> None:
    if name.startswith("idn-"):
        pytest.importorskip("idna", reason="not run: needs the idna package")
    compiled = schemac.compile({"type": "string", "format": name}, whitespace="compact")
    for text in schemac.sample(compiled, 40, seed=5):
        assert conforms(name, json.loads(text)), text


def test_answers_of_a_program_are_valid() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "number", "multipleOf": 0.05, "minimum": -2, "maximum": 1e3},
            "s": {"type": "string", "pattern": "^\\S+\\s\\w{2,}$", "not": {"pattern": "x"}},
            "u": {"oneOf": [{"type": "integer"}, {"type": "number", "maximum": 7}]},
        },
        "patternProperties": {"^x-": {"type": "null"}},
        "minProperties": 1,
        "unevaluatedProperties": False,
    }
    validator = AnswerValidator(schema)
    for text in schemac.sample(schemac.compile(schema), 60, seed=2):
        assert validator.problems(text) == [], text


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("draft", ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"])
def test_official_suite(draft: str) -> None:
    from benchmarks.canonical import dump, parse
    from benchmarks.suite import REMOTES, load_remotes, test_files
    from schemac.frontend.json_schema.keywords import DRAFTS

    if not SUITE.is_dir():
        pytest.skip(f"the official suite is not at {SUITE}; set SCHEMAC_SUITE to where it is")
    pytest.importorskip("idna", reason="not run: needs the idna package")
    # Those of other drafts are read as their `$schema` says; where they have none, nothing here refers to them.
    other = tuple(f"{REMOTES}{folder}/" for folder in DRAFTS if folder != draft)
    unknown = (f"{REMOTES}draft3/", f"{REMOTES}v1/")
    remotes = {
        name: text
        for name, text in load_remotes(SUITE).items()
        if not name.startswith(unknown) and (not name.startswith(other) or "$schema" in text)
    }
    wrong, refused = [], []
    for path in test_files(SUITE, draft):
        if path.name == "format.json":  # there formats assert nothing
            continue
        for group in parse(path.read_bytes()):
            schema, text = group["schema"], dump(group["schema"])
            named = isinstance(schema, dict) and "$schema" in schema
            resources = remotes if "localhost:1234" in text else None
            try:
                validator = AnswerValidator(text, resources=resources, draft=None if named else draft)
                for test in group["tests"]:
                    if (not validator.problems(dump(test["data"]))) is not test["valid"]:
                        wrong.append((path.name, group["description"], test["description"]))
            except AnswerError as error:
                refused.append(error)
    assert wrong == []
    assert {error.construct for error in refused} <= {"$schema"}  # meta-schemas of its own


def test_optional_packages_are_imported_late() -> None:
    program = "import schemac_runtime.answers, sys; print(*sorted(sys.modules))"
    environment = {"PYTHONPATH": str(ROOT / "runtime"), "PATH": ""}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    loaded = set(result.stdout.split())
    assert loaded.isdisjoint({"jsonschema", "referencing", "re2", "idna", "schemac"})


def test_problems_are_plain_records() -> None:
    assert str(Problem("bad", "#/a")) == "#/a: bad"
