"""`nullable`: nothing by JSON Schema, null by OpenAPI 3.0 if that is asked for; the answer validator reads it alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import schemac
import schemac_runtime
from schemac.errors import SourceError
from schemac.frontend.json_schema import SchemaWarning
from schemac_runtime.answers import AnswerValidator, validate_answer
from tests.json_schema.checking import recognizer, texts

VALUES = ["null", "1", '"a"', "[null]", '{"a":null}', '{"a":"x"}', "true"]

#: (schema, what OpenAPI allows of `VALUES`)
NULLABLE: list[tuple[Any, list[str]]] = [
    ({"type": "string", "nullable": True}, ["null", '"a"']),
    ({"nullable": True, "type": ["string", "boolean"]}, ["null", '"a"', "true"]),
    ({"type": "integer", "minimum": 0, "nullable": True}, ["null", "1"]),
    ({"type": "string", "nullable": False}, ['"a"']),
    ({"type": "array", "items": {"type": "string", "nullable": True}}, ["[null]"]),
    ({"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}, ['{"a":null}', '{"a":"x"}']),
    # Nothing but `type` is widened: what stands beside it holds for null too.
    ({"type": "string", "nullable": True, "enum": ["a"]}, ['"a"']),
    ({"type": "string", "nullable": True, "enum": ["a", None]}, ["null", '"a"']),
    ({"allOf": [{"type": "string", "nullable": True}, {"type": "string"}]}, ['"a"']),
    ({"allOf": [{"$ref": "#/$defs/s"}], "nullable": True, "$defs": {"s": {"type": "string"}}}, ['"a"']),
    ({"not": {"type": "string", "nullable": True}}, ["1", "[null]", '{"a":null}', '{"a":"x"}', "true"]),
    ({"properties": {"nullable": {"type": "string"}}, "type": "object"}, ['{"a":null}', '{"a":"x"}']),
]


@pytest.mark.parametrize(("schema", "allowed"), NULLABLE)
def test_openapi_nullable(schema: Any, allowed: list[str]) -> None:
    assert texts(schema, *VALUES, openapi_nullable=True) == allowed
    validator = AnswerValidator(schema, openapi_nullable=True)
    assert [text for text in VALUES if not validator.problems(text)] == allowed


@pytest.mark.parametrize("schema", [schema for schema, _ in NULLABLE])
def test_by_default_it_says_nothing(schema: Any) -> None:
    bare = json.loads(json.dumps(schema), object_hook=lambda o: {k: v for k, v in o.items() if not isinstance(v, bool)})
    allowed = texts(bare, *VALUES)
    assert texts(schema, *VALUES) == allowed
    validator = AnswerValidator(schema)
    assert [text for text in VALUES if not validator.problems(text)] == allowed


def test_what_says_nothing_is_said() -> None:
    warnings: list[SchemaWarning] = []
    recognizer({"type": "string", "nullable": True}, warnings.append)
    assert "--openapi-nullable" in str(warnings[0])
    warnings.clear()
    inner = {"type": "string", "nullable": True}
    recognizer({"nullable": True, "items": inner}, warnings.append, openapi_nullable=True)
    assert [(warning.place, warning.construct) for warning in warnings] == [("#", "nullable")]
    for source, place in [({"nullable": True}, "#"), ({"type": "string", "nullable": 1}, "#/nullable")]:
        with pytest.raises(SourceError) as caught:
            recognizer(source, openapi_nullable=True, strict=True)
        assert (caught.value.place, caught.value.construct) == (place, "nullable")


def test_a_package_remembers(tmp_path: Path) -> None:
    path = tmp_path / "grammar.pkg"
    schema = {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}, "required": ["a"]}
    for option in (False, True):
        schemac.save(schemac.compile(schema, openapi_nullable=option), path)
        package = schemac_runtime.load(path)
        assert not validate_answer(package, '{"a":"x"}')
        assert bool(validate_answer(package, '{"a":null}')) is not option
