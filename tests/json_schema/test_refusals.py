"""What is refused, and how: the kind of error, the place, the construct. Each message is one line with a way out."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest

import schemac
from schemac.budget import Budget
from schemac.errors import BudgetExceeded, EmptyLanguageError, SchemacError, SourceError, UnsupportedError
from schemac.frontend.json_schema import JsonSchemaOptions, SchemaWarning, json_schema_module
from schemac.frontend.json_schema.keywords import DRAFTS, KEYWORDS, known

#: (source, options, kind of error, place, construct)
REFUSED: list[tuple[Any, dict[str, Any], type[SchemacError], str | None, str | None]] = [
    ("{", {}, SourceError, "1:2", None),
    ('{"a": NaN}', {}, SourceError, None, None),
    ('{"type": "object",\n "type": "array"}', {}, SourceError, "2:2", None),
    (b"\xff", {}, SourceError, None, None),
    ('{"minimum": 1e999999}', {}, SourceError, None, None),
    ('{"minimum": ' + "9" * 4_001 + "}", {}, SourceError, None, None),
    ([], {}, SourceError, "#", None),
    ({"items": {"type": "strin"}}, {}, SourceError, "#/items/type", "type"),
    ({"properties": {"a/b": {"minLength": -1}}}, {}, SourceError, "#/properties/a~1b/minLength", "minLength"),
    ({"properties": {"a": {"required": True}}}, {}, SourceError, "#/properties/a/required", "required"),
    ({"anyOf": []}, {}, SourceError, "#/anyOf", "anyOf"),
    ({"$schema": "http://example.com/mine"}, {}, SourceError, "#/$schema", "$schema"),
    ({}, {"draft": "draft3"}, SourceError, None, "draft"),
    ({"$ref": "#/definitions/a", "$defs": {"a": {}}}, {}, SourceError, "#/$ref", "$ref"),
    ({"$ref": "http://example.com/other.json"}, {}, SourceError, "#/$ref", "$ref"),
    ({"$ref": "#nowhere"}, {}, SourceError, "#/$ref", "$ref"),
    ({"allOf": [{"$ref": "#"}]}, {}, SourceError, "#/allOf/0/$ref", "$ref"),
    ({"nulable": True}, {"strict": True}, SourceError, "#", "nulable"),
    ({"format": "colour"}, {"strict": True}, SourceError, "#", "format"),
    ({"type": "string", "pattern": "(a"}, {}, SourceError, "#/pattern:1:1", None),
    ({"type": "string", "pattern": "(a)\\1"}, {}, UnsupportedError, "#/pattern:1:4", None),
    ({"items": {"not": {"uniqueItems": True}}}, {}, UnsupportedError, "#/items/not", "uniqueItems"),
    *(
        ({"type": "array", "uniqueItems": True, "items": it, "minItems": 6}, more, UnsupportedError, "#", "uniqueItems")
        for more in ({}, {"key_order": "any"})
        for it in (
            {"type": "object", "additionalProperties": False},
            {"type": "array", "items": {"type": "boolean"}, "maxItems": 1},
            {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False},
        )
    ),
    (
        {"oneOf": [{"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}, {"minItems": 3}]},
        {},
        UnsupportedError,
        "#/oneOf/0/uniqueItems",
        "uniqueItems",
    ),
    (
        {"patternProperties": {"^[ab]$": {"type": "null"}}, "minProperties": 2},
        {},
        UnsupportedError,
        "#",
        "minProperties",
    ),
    (False, {}, EmptyLanguageError, "#", None),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, {}, EmptyLanguageError, "#", None),
    ({"allOf": [{"const": 1}, {"const": 2}]}, {}, EmptyLanguageError, "#/allOf/0", None),
    ({"type": "array", "contains": {"const": 1}, "minContains": 10**9}, {}, BudgetExceeded, None, None),
    ({"type": "number", "multipleOf": 0.000001234567}, {}, BudgetExceeded, "#/multipleOf", "multipleOf"),
]


@pytest.mark.parametrize(("source", "options", "kind", "place", "construct"), REFUSED)
def test_refused(
    source: Any, options: dict[str, Any], kind: type[SchemacError], place: str | None, construct: str | None
) -> None:
    with pytest.raises(kind) as caught:
        json_schema_module(source, options=JsonSchemaOptions(**options), budget=Budget(seconds=10))
    assert "\n" not in str(caught.value)
    if place is not None:
        assert caught.value.place == place
    if construct is not None:
        assert caught.value.construct == construct


@pytest.mark.parametrize(
    "items",
    [
        {},
        {"type": ["string", "null"]},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "boolean"}}},
        {"type": "array", "items": {"type": "boolean"}},
        {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "number"}}}, "maxItems": 1},
        {"anyOf": [{"type": "boolean"}, {"type": "object", "required": ["x"]}]},
        {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
        {"type": "object", "properties": {name: {"const": 1} for name in "abc"}, "additionalProperties": False},
    ],
)
def test_distinct_items_that_never_run_out_are_compiled(items: Any) -> None:
    for key_order in ("schema", "any"):
        schema = {"type": "array", "uniqueItems": True, "items": items, "minItems": 6}
        assert schemac.compile(json.dumps(schema), key_order=key_order).automaton.guards


def test_what_asserts_nothing_is_said() -> None:
    warnings: list[SchemaWarning] = []
    schema = {"nullable": True, "format": "colour", "title": "t", "properties": {"nullable": {"const": 1, "x-y": 2}}}
    json_schema_module(schema, warn=warnings.append)
    assert [(warning.place, warning.construct) for warning in warnings] == [("#", "nullable"), ("#", "format")]
    warnings.clear()
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "const": 1, "items": {"$ref": "#", "maxItems": 1}}
    json_schema_module(old, warn=warnings.append)
    assert [warning.construct for warning in warnings] == ["const", "$ref"]


def nested(levels: int, wrap: Any, leaf: Any) -> Any:
    """A leaf inside so many wrappings."""
    for level in range(levels):
        leaf = wrap(leaf, level)
    return leaf


HOSTILE: dict[str, Any] = {
    "nested text": '{"items":' * 20_000 + "true" + "}" * 20_000,
    "nested data": nested(20_000, lambda inner, _: {"items": inner}, True),
    "nested not": nested(140, lambda inner, _: {"not": inner}, {"type": "object", "required": ["a"]}),
    "nested oneOf": nested(
        30, lambda inner, n: {"oneOf": [inner, {"type": "string", "minLength": n}]}, {"type": "string"}
    ),
    "doubling references": {
        "$defs": {
            "d30": {"type": "object"},
            **{
                f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"items": {"$ref": f"#/$defs/d{n + 1}"}}]}
                for n in range(30)
            },
        },
        "$ref": "#/$defs/d0",
    },
    "chain of references": {
        "$defs": {"d5000": {}, **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(5000)}},
        "$ref": "#/$defs/d0",
    },
    "large enum": {"enum": [f"word{n * 7919}" for n in range(20_000)]},
    "many properties": {"properties": {f"property{n}": {"type": "string"} for n in range(1_000)}},
    "many alternatives": {"allOf": [{"anyOf": [{"required": [f"a{n}"]}, {"required": [f"b{n}"]}]} for n in range(40)]},
    "overlapping alternatives": {
        "oneOf": [{"properties": {f"k{n + m}": {"type": "integer"} for m in range(5)}} for n in range(40)]
    },
    "large counts": {"type": "array", "contains": {"type": "integer"}, "minContains": 10**7},
    "repetitions": {"type": "string", "pattern": "^(a|aa){1,5000}$"},
    "recursion through allOf": {
        "$defs": {"n": {"allOf": [{"type": "object"}, {"properties": {"c": {"$ref": "#/$defs/n"}}}]}},
        "$ref": "#/$defs/n",
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_compile_or_are_refused_in_time(name: str) -> None:
    started = time.monotonic()
    with contextlib.suppress(SourceError, UnsupportedError, BudgetExceeded):
        json_schema_module(HOSTILE[name], budget=Budget(seconds=5))
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("schema", "budget"),
    [
        ({"type": "array", "contains": {"type": "integer"}, "minContains": 10**6}, "branches"),
        ({"type": "array", "contains": {"type": "integer"}, "minContains": 10**20}, "states"),
        ({"type": "object", "minProperties": 10**9}, "states"),
        ({"type": "string", "allOf": [{"pattern": f"a{n}b.*c{n}"} for n in range(40)]}, "regex_states"),
        ({"properties": {f"property {n}": {} for n in range(3_000)}}, "states"),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_built(schema: Any, budget: str) -> None:
    started = time.monotonic()
    limits = {"states": 100_000, "regex_states": 50_000} if "allOf" in schema or "properties" in schema else {}
    with pytest.raises(BudgetExceeded) as caught:
        schemac.compile(schema, limits=limits)
    assert caught.value.budget == budget
    assert caught.value.place is not None
    assert time.monotonic() - started < 10


#: For each shape that a keyword's value may have to have, values that have another.
WRONG_SHAPES: dict[str, list[Any]] = {
    "types": ["strin", [], 1, ["string", None]],
    "values": ["a", {}],
    "number": ["1", True, None],
    "positive": [0, -1, "1", False],
    "bound": ["1", None],
    "count": [-1, 1.5, "1", True],
    "flag": ["true", 1],
    "text": [1, None, ["a"]],
    "names": ["a", [1], True],
    "names_map": [[], {"a": "b"}, {"a": [1]}],
    "schema": [1, "a", [], None],
    "schemas": [{}, [], [1]],
    "schema_map": [[], {"a": 1}],
    "items": [1, "a", [1]],
    "dependencies": [[], {"a": 1}, {"a": [1]}],
}


@pytest.mark.parametrize("draft", range(len(DRAFTS)))
@pytest.mark.parametrize("name", [name for name, keyword in KEYWORDS.items() if keyword.shape != "any"])
def test_a_value_of_the_wrong_shape_is_refused_by_name(name: str, draft: int) -> None:
    """Every keyword, in every draft that knows it, deep inside a schema; where it is not known, it is let be."""
    for value in WRONG_SHAPES[KEYWORDS[name].shape]:
        schema = {"properties": {"a/b": {name: value}}}
        if known(name, draft) is None or name == "$schema":
            continue
        with pytest.raises(SourceError) as caught:
            json_schema_module(schema, options=JsonSchemaOptions(draft=DRAFTS[draft]))
        assert (caught.value.place, caught.value.construct) == (f"#/properties/a~1b/{name}", name)
        assert "expected" in str(caught.value)
