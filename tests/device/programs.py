"""Linked programs for the tests of devices."""

from __future__ import annotations

import functools

import schemac
from schemac_runtime.program import Program
from tests.runtime.programs import SMALL, byte_vocabulary

OBJECT = (
    '{"type": "object", "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 250}, "tag": {"enum": ["a", '
    '"bc", "true"]}, "n": {"type": "string", "maxLength": 5}}, "required": ["id"], "additionalProperties": false}'
)
#: Deterministic and without a stack.
PLAIN = {
    "object": (OBJECT, "json-schema"),
    "regex": ("(ab|a[bc]c+){1,4}", "regex"),
    "choice": ('["true", "12", "1234", "bcd"]', "choice"),
    "array": ('{"type": "array", "items": {"type": "boolean"}, "maxItems": 3}', "json-schema"),
}
#: Each with the word by which it is refused.
STACKED = {
    "recursive": ('{"type": "array", "items": {"$ref": "#"}}', "json-schema", "stack"),
    "any": ("{}", "json-schema", "stack"),
}
#: Counted in registers: more of a text is known than its state.
COUNTED = ('{"type": "array", "items": {"enum": [1, 2, 12]}, "uniqueItems": true, "maxItems": 900}', "json-schema")
VOCABULARIES = {"small": SMALL, "bytes": byte_vocabulary()}


@functools.cache
def linked(source: str, kind: str, vocabulary: str) -> Program:
    compiled = schemac.compile(source, kind=kind, whitespace="compact")
    return schemac.link(compiled, VOCABULARIES[vocabulary]).programs[0]
