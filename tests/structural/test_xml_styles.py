"""Parameters between markers, against parsers that read them as the models' own do."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import pytest

import schemac
from schemac.errors import EmptyLanguageError, SourceError, UnsupportedError
from schemac.sampling import sample_bytes

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "short": {"type": "string", "maxLength": 3},
        "count": {"type": "integer", "minimum": 0},
        "kind": {"enum": ["a\nb", "\nc", "d\n", "</parameter>"]},
        "rows": {"type": "array", "items": {"type": "string"}},
        "flag": {"type": "boolean"},
    },
    "required": ["count", "kind"],
    "additionalProperties": {"type": "string", "minLength": 1},
}


def compiled(schema: Any, style: str = "qwen_xml", whitespace: str = "flexible") -> schemac.Compiled:
    form = {"type": "json_schema", "json_schema": schema, "style": style}
    return schemac.compile({"type": "structural_tag", "format": form}, whitespace=whitespace)


def accepts(one: schemac.Compiled, text: str) -> bool:
    return schemac.check(one.automaton, text.encode()).accepted


def qwen_values(text: str, schema: Any) -> dict[str, Any] | None:
    """The arguments as Qwen's parsers read them; None if there is anything else or a parameter is there twice."""
    values: dict[str, Any] = {}
    at = 0
    one = re.compile(r"[ \t\r\n]*<parameter=([^>]*)>(.*?)</parameter>", re.DOTALL)
    while match := one.match(text, at):
        name, raw = match.groups()
        if name in values and name in schema["properties"]:
            return None
        raw = raw.removeprefix("\n").removesuffix("\n")
        sub = schema["properties"].get(name, schema["additionalProperties"])
        values[name] = raw if sub.get("type", "string") == "string" else json.loads(raw)
        at = match.end()
    return values if not text[at:].strip(" \t\r\n") else None


@pytest.mark.parametrize("whitespace", ["flexible", "compact"])
def test_what_is_written_is_read_back_valid(whitespace: str) -> None:
    seen: set[str] = set()
    for required in (SCHEMA["required"], list(SCHEMA["properties"])):
        schema = {**SCHEMA, "required": required}
        one = compiled(schema, whitespace=whitespace)
        check = jsonschema.Draft202012Validator(schema)
        for seed in range(40):
            text = sample_bytes(one.automaton, seed).decode()
            values = qwen_values(text, schema)
            assert values is not None
            assert check.is_valid(values), (text, values)
            seen |= values.keys()
    assert len(seen) >= len(SCHEMA["properties"])


def test_every_valid_value_can_be_written() -> None:
    one, flexible = compiled(SCHEMA, whitespace="compact"), compiled(SCHEMA)
    generator = random.Random(3)
    for _ in range(150):
        values: dict[str, Any] = {"count": generator.randrange(100), "kind": generator.choice(["a\nb", "\nc", "d\n"])}
        values["text"] = "".join(generator.choice("\n<a>/é") for _ in range(generator.randint(0, 6)))
        if generator.random() < 0.5:
            values["rows"] = ["</parameter"[: generator.randint(0, 11)], "x"]
        if generator.random() < 0.5:
            values["extra-name"] = "x\n"
        names = [name for name in SCHEMA["properties"] if name in values] + [n for n in values if n == "extra-name"]
        lines = [
            f"<parameter={name}>\n{values[name] if isinstance(values[name], str) else json.dumps(values[name])}\n"
            "</parameter>"
            for name in names
        ]
        assert accepts(one, "\n".join(lines).replace(", ", ","))
        assert accepts(flexible, " \n" + "\n\n".join(lines) + "\n")


def test_what_must_not_be_written() -> None:
    one = compiled(SCHEMA)
    assert accepts(one, "<parameter=count>1</parameter><parameter=kind>\n\nc\n</parameter>")
    for text in (
        "",
        "<parameter=count>-1</parameter><parameter=kind>\n\nc\n</parameter>",
        "<parameter=count>1</parameter>",
        "<parameter=kind>\n\nc\n</parameter><parameter=count>1</parameter>",
        "<parameter=count>1</parameter><parameter=kind>\nc\n</parameter>",  # would be read back as "c"
        "<parameter=count>1</parameter><parameter=kind>\n</parameter>\n</parameter>",
        "<parameter=count>1</parameter><parameter=kind>\n\nc\n</parameter><parameter=count>1</parameter>",
        "<parameter=count>1</parameter><parameter=kind>\n\nc\n</parameter><parameter=a b>x</parameter>",
        "<parameter=count>1</parameter><parameter=kind>\n\nc\n</parameter><parameter=x></parameter>",
    ):
        assert not accepts(one, text), text


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("qwen_xml", "<parameter=s>\nx\n</parameter>\n<parameter=n>\n1\n</parameter>"),
        ("minimax_xml", '<parameter name="s">x</parameter>\n<parameter name="n">1</parameter>'),
        ("glm_xml", "<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>"),
        ("deepseek_xml", """<｜DSML｜parameter name="s" string="true">x</｜DSML｜parameter>
<｜DSML｜parameter name="n" string="false">1</｜DSML｜parameter>"""),
    ],
)  # fmt: skip
def test_styles(style: str, text: str) -> None:
    schema = {"$ref": "#/$defs/args", "$defs": {"args": {
        "properties": {"s": {"type": "string"}, "n": {"type": ["integer", "null"]}}, "additionalProperties": False}}}
    for whitespace in ("flexible", "compact"):
        one = compiled(schema, style, whitespace)
        assert accepts(one, text)
        assert accepts(one, "")
        assert not accepts(one, text.replace("1", "x"))
        assert not accepts(one, text + text)
    assert accepts(compiled(schema, style), text.replace("1", " null "))


def test_the_name_of_the_older_format() -> None:
    form = {"type": "qwen_xml_parameter", "json_schema": {"properties": {"a": {"const": 1}}, "required": ["a"]}}
    one = schemac.compile({"type": "structural_tag", "format": form})
    assert accepts(one, "<parameter=a>1</parameter><parameter=b>x</parameter>")


@pytest.mark.parametrize(
    ("schema", "error", "place"),
    [
        ({"anyOf": [{}]}, UnsupportedError, "#/format/json_schema/anyOf"),
        ({"properties": {"a>b": {}}}, UnsupportedError, "#/format/json_schema/properties/a>b"),
        ({"properties": {"a": False}, "required": ["a"]}, EmptyLanguageError, "#/format/json_schema/properties/a"),
        ({"type": "array"}, SourceError, "#/format/json_schema/type"),
        ({"properties": {"a": {"pattern": "(b)\\1"}}}, UnsupportedError, "#/format/json_schema/properties/a/pattern"),
        ({"minProperties": 1}, UnsupportedError, "#/format/json_schema/minProperties"),
        (False, EmptyLanguageError, "#/format/json_schema"),
    ],
)
def test_errors(schema: Any, error: type[Exception], place: str) -> None:
    with pytest.raises(error) as caught:
        compiled(schema)
    assert str(caught.value).startswith(place)


def test_any_object() -> None:
    assert accepts(compiled(True), "<parameter=x>\n{1\n</parameter>")
    assert accepts(compiled({}), "")
