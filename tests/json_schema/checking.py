"""How the tests of the frontend ask: compile a schema, then accept texts or values with the slow recognizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from schemac.budget import Budget
from schemac.frontend.json_schema import JsonSchemaOptions, SchemaWarning, json_schema_module
from schemac.ir.graph import Module
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import check
from tests.oracle.module_recognizer import ModuleRecognizer


class Accepting(Protocol):
    """Something that accepts texts."""

    def accepts(self, text: str) -> bool: ...


class LoweredRecognizer:
    """Accepts what the automaton of a module does, registers of guards included."""

    def __init__(self, module: Module) -> None:
        self._automaton, _ = lower(module, Budget(seconds=30))

    def accepts(self, text: str) -> bool:
        return check(self._automaton, text.encode("utf-8", "surrogatepass")).accepted


def recognizer(schema: object, warn: Callable[[SchemaWarning], None] | None = None, **options: Any) -> Accepting:
    """The recognizer of a schema; `options` are those of `JsonSchemaOptions`."""
    module = json_schema_module(schema, options=JsonSchemaOptions(**options), budget=Budget(seconds=30), warn=warn)
    if any(procedure.guard is not None for procedure in module.procedures):
        return LoweredRecognizer(module)
    return ModuleRecognizer(module, 20_000)


def texts(schema: object, *candidates: str, **options: Any) -> list[str]:
    """Those of the candidate texts that the schema accepts."""
    accepts = recognizer(schema, **options).accepts
    return [text for text in candidates if accepts(text)]
