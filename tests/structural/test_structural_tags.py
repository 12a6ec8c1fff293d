"""What each format accepts: by example, and against a reader that knows no automata, on random tags."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import schemac
from benchmarks.structural_walks import Reader
from schemac.budget import Budget
from schemac.errors import EmptyLanguageError, SchemacError, SourceError, UnsupportedError
from schemac.frontend.json_schema import JsonSchemaOptions
from schemac.frontend.regex import regex_module
from schemac.frontend.structural_tag import structural_tag_module
from schemac.ir.graph import Module
from schemac.ir.printer import print_automaton
from schemac.sampling import sample_bytes
from tests.oracle.slow import SlowRecognizer
from tests.structural.random_tags import LETTERS, mutated, random_format

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NUMBER = {"type": "json_schema", "json_schema": {"type": "integer"}}


def tag(begin: str, content: dict[str, Any], end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def triggered(triggers: list[str], *tags: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"type": "triggered_tags", "triggers": triggers, "tags": list(tags), **options}


def accepts(source: dict[str, Any], text: str, **options: Any) -> bool:
    compiled = schemac.compile(source, **options)
    assert compiled.kind == "structural-tag"
    return schemac.check(compiled.automaton, text.encode()).accepted


FUNCTIONS = triggered(
    ["<function="],
    tag("<function=get>", {"type": "json_schema", "json_schema": CITY}, "</function>"),
    tag("<function=get_time>", NUMBER, "</function>"),
)
ANY = {"type": "any_text"}
CASES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (FUNCTIONS, [
        "", "hi", "<function", "hi <function=get_time>12</function> and <<function=get_time>-1</function>",
        '<function=get>{"city": "</function><function="}</function>',
    ], ["<function=", "<function=x", "<function=get_time>1", "x <function=get_time>a</function>"]),
    ({**FUNCTIONS, "at_least_one": True}, ["<function=get_time>1</function> hi"], [
        "", "hi", " <function=get_time>1</function>"]),
    ({**FUNCTIONS, "stop_after_first": True}, ["", "hi", "hi <function=get_time>1</function>"], [
        "<function=get_time>1</function>.", "<function=get_time>1</function><function=get_time>1</function>"]),
    ({**FUNCTIONS, "at_least_one": True, "stop_after_first": True}, ["<function=get_time>1</function>"], [
        "", "a<function=get_time>1</function>", "<function=get_time>1</function>a"]),
    ({**FUNCTIONS, "excludes": ["</think>"]}, ["</think", "</<function=get_time>1</function>"], ["</think>"]),
    # A trigger within another: the one that is complete first counts.
    (triggered(["<a", "<ab"], tag("<abc>", NUMBER, "/"), tag("<a>", NUMBER, "/")), ["<abc>1/", "x<a>1/"], ["<abx"]),
    (triggered(["b<a", "<a"], tag("b<a1", NUMBER, "/"), tag("<a2", NUMBER, "/")), ["b<a11/", "b<a21/", "<a22/"], [
        "<a11/"]),
    (triggered(["aa"], tag("aab", NUMBER, "/")), ["a", "aab1/", "baab1/a"], ["aaab1/", "aa", "aaa"]),
    (tag("<t>", ANY, "</t>"), ["<t></t>", "<t></</t></t>"[:-4], "<t>é<t></t>"], ["<t>", "<t></t></t>", "<t></t>x"]),
    (tag("<", ANY, ["aa", "ab"]), ["<aa", "<bab", "<xaa"], ["<aaa", "<a", "<abaa"]),
    (tag("", ANY, ""), ["", "any"], []),
    (tag("<t>", {"type": "any_text", "max_chars": 2}, "</t>"), ["<t>é€</t>", "<t></</t>"], ["<t>abc</t>"]),
    (tag("<t>", {"type": "sequence", "elements": [ANY, {"type": "const_string", "value": "!"}]}, "</t>"), [
        "<t>!!</t>", "<t>a!</t>"], ["<t></t>!</t>", "<t>a</t>"]),
    (tag("<t>", {**FUNCTIONS, "excludes": ["</t>"]}, "</t>"), ["<t>a<function=get_time>1</function></t>"], [
        "<t></t></t>"]),
    ({"type": "tags_with_separator", "separator": ",", "tags": [tag("<i>", NUMBER, "</i>")]}, [
        "", "<i>1</i>", "<i>1</i>,<i>2</i>"], [",", "<i>1</i>,", "<i>1</i><i>1</i>"]),
    ({"type": "tags_with_separator", "separator": "", "tags": [tag("<i>", NUMBER, "")], "at_least_one": True}, [
        "<i>1<i>2"], [""]),
    ({"type": "dispatch", "rules": [["<n>", NUMBER], ["<s>", {"type": "const_string", "value": "x"}]]}, [
        "a<n>1 b<s>x", "<n>12"], ["<n>", "<s>y"]),
    ({"type": "dispatch", "rules": [["<n>", NUMBER]], "loop": False}, ["a", "a<n>1"], ["<n>1 "]),
    ({"type": "or", "elements": [{"type": "regex", "pattern": "a+"}, {"type": "optional", "content": NUMBER}]}, [
        "", "aa", "1"], ["a1"]),
    ({"type": "repeat", "min": 1, "max": 2, "content": {"type": "const_string", "value": "ab"}}, ["ab", "abab"], [
        "", "ababab"]),
    ({"type": "plus", "content": {"type": "star", "content": {"type": "const_string", "value": "a"}}}, ["", "aaa"], [
        "b"]),
    ({"type": "json_schema", "json_schema": {"enum": [[1, 2]]}, "max_whitespace_cnt": 1}, ["[1, 2]", "[1,2]"], [
        "[1,  2]"]),
]  # fmt: skip


@pytest.mark.parametrize(("form", "good", "bad"), CASES, ids=range(len(CASES)))
def test_examples(form: dict[str, Any], good: list[str], bad: list[str]) -> None:
    source = {"type": "structural_tag", "format": form}
    for text, expected in [*((text, True) for text in good), *((text, False) for text in bad)]:
        assert accepts(source, text) == expected, text
        assert Reader(source, text).accepts() == expected or "max_whitespace_cnt" in form, text


def test_the_older_form() -> None:
    source = {
        "type": "structural_tag",
        "structures": [{"begin": "<f>", "schema": CITY, "end": "</f>"},
                       {"begin": "<g>", "schema": json.dumps({"type": "null"}), "end": "</g>"}],
        "triggers": ["<f", "<g>"],
    }  # fmt: skip
    assert accepts(source, 'a <f>{"city": ""}</f> b <g>null</g>')
    assert not accepts(source, "<f")
    assert accepts(source, "<g")


def test_random_tags_are_read_as_described() -> None:
    accepted = rejected = 0
    for seed in range(400):
        generator = random.Random(seed)
        source = {"type": "structural_tag", "format": random_format(generator)}
        try:
            automaton = schemac.compile(source).automaton
        except (SourceError, EmptyLanguageError):
            continue
        texts = {"".join(generator.choice(LETTERS) for _ in range(generator.randint(0, 7))) for _ in range(8)}
        for index in range(5):
            text = sample_bytes(automaton, index).decode()
            if len(text) < 50:
                texts |= {text, mutated(generator, text), mutated(generator, text)}
        for text in sorted(texts):
            expected = Reader(source, text).accepts()
            assert schemac.check(automaton, text.encode()).accepted == expected, (seed, source, text)
            accepted, rejected = accepted + expected, rejected + (not expected)
    assert min(accepted, rejected) > 2_000


ERRORS: list[tuple[Any, type[SchemacError], str, str]] = [
    ({}, SourceError, "#", "there is no format"),
    ({"format": {"type": "nothing"}}, SourceError, "#/format/type", "there is no format 'nothing'"),
    ({"format": {"type": "const_string"}}, SourceError, "#/format", "`value` is missing"),
    ({"format": {**ANY, "exclude": ["a"]}}, SourceError, "#/format/exclude", "no field 'exclude'"),
    ({"format": {**ANY, "excludes": [""]}}, SourceError, "#/format/excludes/0", "not empty"),
    ({"format": {**ANY, "max_tokens": 3}}, UnsupportedError, "#/format/max_tokens", "depends on the vocabulary"),
    ({"format": triggered(["<a"], tag("<b", NUMBER, ""))}, SourceError, "#/format/tags/0/begin", "none of the"),
    ({"format": triggered(["x<a>", "<a"], tag("x<a>b", NUMBER, ""))}, SourceError, "#/format/tags/0/begin",
     "'<a' is read in it first"),
    ({"format": tag("", triggered(["</t"], tag("</th>", ANY, ".")), "</")}, SourceError,
     "#/format/content/tags/0/begin", "'</' is read in it first"),
    ({"format": {**NUMBER, "any_order": True}}, UnsupportedError, "#/format/any_order", "required keys"),
    ({"format": {**NUMBER, "style": "cohere_xml"}}, UnsupportedError, "#/format/style", "not supported"),
    ({"format": {**NUMBER, "json_schema": {"properties": {"p": {"pattern": "(a)\\1"}}}}}, UnsupportedError,
     "#/format/json_schema/properties/p/pattern:1:4", "backreferences"),
    ({"format": {"type": "regex", "pattern": "(a"}}, SourceError, "#/format/pattern", ""),
    ({"format": {"type": "exclude_token"}}, UnsupportedError, "#/format", "cannot be told by its bytes"),
    ({"format": {"type": "any_tokens", "exclude_tokens": ["x"]}}, UnsupportedError, "#/format/exclude_tokens", ""),
    ({"format": {"type": "repeat", "min": 3, "max": 2, "content": ANY}}, SourceError, "#/format", "less than"),
    ({"format": {"type": "or", "elements": []}}, SourceError, "#/format/elements", "nothing to choose"),
    ({"structures": [], "triggers": ["a"], "format": ANY}, SourceError, "#/format", "no field"),
    ({"structures": [{"begin": "a", "end": "b"}], "triggers": ["a"]}, SourceError, "#/structures/0", "`schema`"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "kind", "place", "reason"), ERRORS, ids=range(len(ERRORS)))
def test_errors(source: dict[str, Any], kind: type[SchemacError], place: str, reason: str) -> None:
    with pytest.raises(kind) as caught:
        schemac.compile({"type": "structural_tag", **source})
    assert (caught.value.place or "").startswith(place)
    assert reason in str(caught.value)


def test_nesting_is_bounded() -> None:
    form: dict[str, Any] = ANY
    for _ in range(250):
        form = {"type": "optional", "content": form}
    with pytest.raises(SourceError, match="nested too deep"):
        schemac.compile({"type": "structural_tag", "format": form})
    form = ANY
    for _ in range(100):
        form = {"type": "optional", "content": form}
    assert accepts({"type": "structural_tag", "format": form}, "x")


def test_the_source_says_its_kind() -> None:
    text = json.dumps({"format": ANY, "type": "structural_tag"})
    assert schemac.compile(text).kind == schemac.compile(text.encode()).kind == "structural-tag"
    assert schemac.compile({"properties": {"tools": {"const": "structural_tag"}}}).kind == "json-schema"


def test_a_grammar_is_read_by_its_own_frontend() -> None:
    seen = []

    def grammar(text: str) -> Module:
        seen.append(text)
        if text == "bad":
            raise SourceError("no", place="3:1")
        return regex_module("yes|no")

    def compiled(text: str) -> Module:
        form = {"type": "structural_tag", "format": {"type": "grammar", "grammar": text}}
        return structural_tag_module(
            form, schemas=JsonSchemaOptions(), grammar=grammar, budget=Budget(), warn=lambda _: None
        )

    assert SlowRecognizer(compiled("root ::= x")).accepts(b"yes")
    assert seen == ["root ::= x"]
    with pytest.raises(SourceError) as caught:
        compiled("bad")
    assert caught.value.place == "#/format/grammar:3:1"


def test_compiling_twice_gives_the_same() -> None:
    source = {"type": "structural_tag", "format": FUNCTIONS}
    assert print_automaton(schemac.compile(source).automaton) == print_automaton(schemac.compile(source).automaton)
