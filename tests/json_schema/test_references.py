"""Where references lead, and under which draft."""

from __future__ import annotations

import pytest

from schemac.budget import Budget
from schemac.frontend.json_schema import json_schema_module
from tests.json_schema.checking import recognizer, texts
from tests.oracle.module_recognizer import ModuleRecognizer


def test_pointers_anchors_and_embedded_resources() -> None:
    schema = {
        "$id": "http://example.com/root.json",
        "$defs": {
            "a~b/c%d": {"$anchor": "here", "type": "integer"},
            "inner": {"$id": "inner.json", "$defs": {"s": {"type": "string"}}, "$ref": "#/$defs/s"},
        },
        "anyOf": [{"$ref": "#here"}, {"$ref": "inner.json"}, {"$ref": "root.json#/$defs/a~0b~1c%25d"}],
    }
    assert texts(schema, "1", '"x"', "null") == ["1", '"x"']


def test_resources_are_the_only_outside() -> None:
    resources = {
        "other.json": {"definitions": {"x": {"type": "boolean"}}, "$ref": "http://example.com/third.json"},
        "http://example.com/third.json": {"type": "null"},
    }
    schema = {"anyOf": [{"$ref": "other.json"}, {"$ref": "other.json#/definitions/x"}]}
    assert texts(schema, "null", "true", "1", resources=resources) == ["null", "true"]
    with_id = {"$id": "http://example.com/dir/root.json", "$ref": "part.json"}
    assert texts(with_id, "1", '"x"', resources={"http://example.com/dir/part.json": {"type": "integer"}}) == ["1"]


def test_siblings_of_a_reference_count_since_2019() -> None:
    schema = {"definitions": {"a": {"type": "integer"}}, "$ref": "#/definitions/a", "maximum": 5}
    assert texts(schema, "3", "7", draft="2020-12") == ["3"]
    assert texts(schema, "3", "7", draft="7") == ["3", "7"]


def test_dynamic_references_take_the_outermost_anchor() -> None:
    tree = {
        "$id": "http://example.com/tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"children": {"items": {"$dynamicRef": "#node"}}},
    }
    strict = {
        "$id": "http://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
    }
    candidates = ['{"children":[{}]}', '{"children":[{"x":1}]}']
    assert texts(tree, *candidates) == candidates
    assert texts(strict, *candidates, resources={"http://example.com/tree": tree}) == candidates[:1]


def test_recursive_definitions_share_procedures() -> None:
    schema = {
        "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "additionalProperties": False}},
        "$ref": "#/$defs/n",
    }
    accepts = recognizer(schema).accepts
    assert accepts('{"n":' * 50 + "{}" + "}" * 50)
    assert not accepts('{"n":' * 50 + "{}" + "}" * 49)


def test_old_forms() -> None:
    bounds = {"minimum": 1, "exclusiveMinimum": True, "type": "integer"}
    assert texts(bounds, "1", "2", draft="4") == ["2"]
    tuples = {"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}}
    for draft in ("4", "7", "2019-09", "2020-12"):
        assert texts(tuples, "[]", "[1]", '[1,"x"]', '["x"]', draft=draft) == ["[]", "[1]", '[1,"x"]']
    anchored = {"b": {"id": "#b", "type": "null"}}
    identified = {"id": "http://example.com/a", "definitions": anchored, "allOf": [{"$ref": "a#b"}]}
    assert texts(identified, "null", "1", draft="4") == ["null"]


@pytest.mark.parametrize("uri", [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
])  # fmt: skip
def test_meta_schemas_compile(uri: str) -> None:
    """Each made of parts that refer to one another dynamically in the newer drafts; in one scope they are one."""
    module = json_schema_module({"$ref": uri}, budget=Budget({"branches": 10_000}, seconds=60))
    accepts = ModuleRecognizer(module, 20_000).accepts
    old = "draft-04" in uri
    assert accepts('{"properties":{"a":{"type":"string"},"b":{"items":{"minimum":3}}}}')
    assert accepts('{"anyOf":[{"not":{"type":["integer","null"]}}]}')
    assert not accepts('{"properties":{"a":{"type":"strin"}}}')
    assert not accepts('{"anyOf":[{"not":{"minLength":-1}}]}')
    assert not accepts('{"anyOf":[]}')
    assert accepts('{"not":true}') is not old
