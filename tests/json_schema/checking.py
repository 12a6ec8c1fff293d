"""How the tests of the frontend ask: compile a schema, then accept texts or values with the slow recognizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schemac.budget import Budget
from schemac.frontend.json_schema import JsonSchemaOptions, SchemaWarning, json_schema_module
from tests.oracle.module_recognizer import ModuleRecognizer


def recognizer(schema: object, warn: Callable[[SchemaWarning], None] | None = None, **options: Any) -> ModuleRecognizer:
    """The recognizer of a schema; `options` are those of `JsonSchemaOptions`."""
    module = json_schema_module(schema, options=JsonSchemaOptions(**options), budget=Budget(seconds=30), warn=warn)
    return ModuleRecognizer(module, 20_000)


def texts(schema: object, *candidates: str, **options: Any) -> list[str]:
    """Those of the candidate texts that the schema accepts."""
    accepts = recognizer(schema, **options).accepts
    return [text for text in candidates if accepts(text)]
