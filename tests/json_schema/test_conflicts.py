"""Why a schema allows no value: the message names the keywords that clash, and no others."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from schemac.budget import Budget
from schemac.errors import EmptyLanguageError, SchemacError, UnsupportedError
from schemac.frontend.json_schema import json_schema_module
from tests.oracle.random_schemas import schema as random_schema

S, N = {"type": "string"}, {"type": "integer"}

#: (schema, place of the error, pointers of the keywords that clash)
CONFLICTS: list[tuple[Any, str, list[str]]] = [
    (False, "#", []),
    ({"allOf": [S, N]}, "#/allOf/0", ["#/allOf/0/type", "#/allOf/1/type"]),
    ({"title": "t", "maxLength": 9, "allOf": [{"const": 1}, {"const": 2}, {"maximum": 9}]}, "#/allOf/0",
     ["#/allOf/0/const", "#/allOf/1/const"]),
    ({**N, "minimum": 5, "multipleOf": 1, "maximum": 4}, "#", ["#/type", "#/minimum", "#/maximum"]),
    ({**S, "minLength": 2, "pattern": "^a?$", "format": "uri"}, "#", ["#/type", "#/minLength", "#/pattern"]),
    ({"enum": [1, "a"], "type": "null"}, "#", ["#/enum", "#/type"]),
    ({"enum": []}, "#/enum", []),
    ({"not": {}}, "#/not", []),
    ({"oneOf": [N, N]}, "#/oneOf", []),
    ({"anyOf": [{"allOf": [S, N]}, False]}, "#/anyOf/0/allOf/0", ["#/anyOf/0/allOf/0/type", "#/anyOf/0/allOf/1/type"]),
    ({"anyOf": [S, {"type": "null"}], "type": "object"}, "#", ["#/anyOf", "#/type"]),
    ({"type": "array", "minItems": 3, "maxItems": 2, "items": S}, "#", ["#/type", "#/minItems", "#/maxItems"]),
    ({"type": "array", "minItems": 2, "prefixItems": [S], "items": False}, "#/items", []),
    ({"type": "array", "items": N, "contains": S}, "#", ["#/type", "#/items", "#/contains"]),
    ({"type": "object", "properties": {"a": S, "b": False}, "required": ["a", "b"]}, "#/properties/b", []),
    ({"type": "object", "properties": {"a": S}, "required": ["b"], "additionalProperties": False},
     "#/additionalProperties", []),
    ({"type": "object", "required": ["ab"], "patternProperties": {"^a": S, "b$": N}}, "#/patternProperties/^a",
     ["#/patternProperties/^a/type", "#/patternProperties/b$/type"]),
    ({"type": "object", "minProperties": 2, "maxProperties": 1, "required": ["a"]}, "#",
     ["#/type", "#/minProperties", "#/maxProperties"]),
    ({"type": "object", "required": ["abc"], "propertyNames": {"maxLength": 2}}, "#",
     ["#/type", "#/required", "#/propertyNames"]),
    ({"$defs": {"s": S}, "$ref": "#/$defs/s", "type": "object"}, "#", ["#/type", "#/$defs/s/type"]),
    ({"$defs": {"o": {"properties": {"a": S}, "required": ["a"]}},
      "allOf": [{"$ref": "#/$defs/o"}, {"type": "object", "properties": {"a": N}}]}, "#/$defs/o/properties/a",
     ["#/$defs/o/properties/a/type", "#/allOf/1/properties/a/type"]),
    ({"type": "object", "properties": {"a": {"$ref": "#"}, "b": S}, "required": ["b", "a"]}, "#",
     ["#/type", "#/properties", "#/required"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "place", "clash"), CONFLICTS)
def test_the_keywords_that_clash_are_named(schema: Any, place: str, clash: list[str]) -> None:
    with pytest.raises(EmptyLanguageError) as caught:
        json_schema_module(schema)
    assert caught.value.place == place
    assert sorted(_named(caught.value.reason)) == sorted(clash)
    if not clash:
        assert caught.value.place == "#" or caught.value.construct or caught.value.reason.startswith("`false`")


@pytest.mark.parametrize(("schema", "place", "clash"), [case for case in CONFLICTS if case[0]])
def test_deep_inside_too(schema: Any, place: str, clash: list[str]) -> None:
    definitions = schema.get("$defs", {})
    outer = {"type": "object", "properties": {"x": {"items": {"$ref": "#/$defs/it"}, "type": "array", "minItems": 1}}}
    whole = {"required": ["x"], **outer, "$defs": {"it": schema, **definitions}}
    with pytest.raises(EmptyLanguageError) as caught:
        json_schema_module(whole)
    pointers = [re.sub(r"#(?!/\$defs)", "#/$defs/it", pointer) for pointer in clash]
    if '"$ref": "#"' not in str(schema).replace("'", '"'):
        assert sorted(_named(caught.value.reason)) == sorted(pointers)


def _named(reason: str) -> list[str]:
    return re.findall(r"` at (#[^ ,]*)", reason)


def test_what_a_conflict_names_is_there_and_clashes() -> None:
    generator, found = random.Random(3), 0
    for _ in range(250):
        schema = random_schema(generator)
        error = _refusal(schema)
        if not isinstance(error, EmptyLanguageError):
            continue
        found += 1
        _resolve(schema, str(error.place))
        named = _named(error.reason)
        for pointer in named:
            _resolve(schema, pointer)
        if named and "without end" not in error.reason:
            # The named keywords alone, with what they read beside them, still have no value.
            parts = [_alone(schema, pointer) for pointer in named]
            assert isinstance(_refusal({"allOf": parts}), EmptyLanguageError)
    assert found > 20


def _refusal(schema: Any) -> SchemacError | None:
    try:
        json_schema_module(schema, budget=Budget(seconds=20))
    except SchemacError as error:
        return error
    return None


def _resolve(schema: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        part = token.replace("~1", "/").replace("~0", "~")
        schema = schema[int(part)] if isinstance(schema, list) else schema[part]
    return schema


#: What a keyword's meaning depends on.
BESIDE = {
    "items": ("prefixItems",),
    "additionalProperties": ("properties", "patternProperties"),
    "contains": ("minContains", "maxContains"),
    "if": ("then", "else"),
}


def _alone(schema: Any, pointer: str) -> Any:
    holder, _, keyword = pointer.rpartition("/")
    around = _resolve(schema, holder)
    if keyword.startswith("unevaluated"):
        return around
    result = {keyword: around[keyword]}
    for other in BESIDE.get(keyword, ()):
        if other in around:
            result[other] = around[other]
            if other == "prefixItems":
                result[other] = [True] * len(around[other])
            elif other.endswith("roperties"):
                result[other] = dict.fromkeys(around[other], True)
    return result


@pytest.mark.parametrize("schema", [
    {"type": "string", "not": {"format": "regex"}},
    {"type": "object", "properties": {"a": {"type": "string", "not": {"format": "regex"}}}, "required": ["a"]},
    {"type": "string", "oneOf": [{"format": "regex"}, {}]},
])  # fmt: skip
def test_what_is_only_not_known_is_not_called_empty(schema: Any) -> None:
    with pytest.raises(UnsupportedError, match="regex"):
        json_schema_module(schema)


def test_what_certainly_has_no_value_is_empty_whatever_is_known_of_its_format() -> None:
    with pytest.raises(EmptyLanguageError):
        json_schema_module({"type": "string", "format": "email", "maxLength": 2})


def test_the_search_ends() -> None:
    many = [{"anyOf": [{"required": [f"a{n}"]}, {"required": [f"b{n}"]}]} for n in range(60)]
    schema = {"type": "object", "allOf": [*many, {"maxProperties": 3}, {"minProperties": 4}]}
    with pytest.raises(SchemacError):
        json_schema_module(schema, budget=Budget(seconds=20))
