"""Random small schemas and a pool of values, so that frontends can be compared with `jsonschema` on their products.

Key names, constants and patterns come from tiny sets, so that the keywords of one schema meet on the same members.
"""

from __future__ import annotations

import random
from typing import Any

KEYS = ("a", "b", "ab")
PATTERNS = ("^a", "b$", "^ab?$", "")
SCALARS = (None, True, False, 0, 1, 2, -1, 1.5, "", "a", "b", "ab", "ba")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def values(generator: random.Random, count: int, depth: int = 2) -> list[Any]:
    """A pool of values: all scalars, then random arrays and objects."""
    return [*SCALARS, *(_value(generator, depth) for _ in range(count))]


def _value(generator: random.Random, depth: int) -> Any:
    if depth == 0 or generator.random() < 0.25:
        return generator.choice(SCALARS)
    if generator.random() < 0.4:
        return [_value(generator, depth - 1) for _ in range(generator.randrange(4))]
    names = generator.sample((*KEYS, "c", "é"), generator.randrange(4))
    return {name: _value(generator, depth - 1) for name in names}


def schema(generator: random.Random, depth: int = 3) -> Any:
    """A random schema of draft 2020-12, without `uniqueItems`, references and formats."""
    if depth == 0 or generator.random() < 0.15:
        return generator.choice([True, True, False, {"type": generator.choice(TYPES)}, {"const": _value(generator, 1)}])
    result: dict[str, Any] = {}
    for _ in range(generator.randrange(1, 4)):
        name = generator.choice(list(_KEYWORDS))
        result.update(_KEYWORDS[name](generator, depth - 1))
    return result


def _some(generator: random.Random, depth: int) -> list[Any]:
    return [schema(generator, depth) for _ in range(generator.randrange(1, 4))]


def _by_key(generator: random.Random, depth: int, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: schema(generator, depth) for name in generator.sample(names, generator.randrange(1, 3))}


_KEYWORDS: dict[str, Any] = {
    "type": lambda g, _: {"type": g.choice([g.choice(TYPES), g.sample(TYPES, 2)])},
    "enum": lambda g, _: {"enum": [_value(g, 1) for _ in range(g.randrange(1, 4))]},
    "const": lambda g, _: {"const": _value(g, 2)},
    "minimum": lambda g, _: {"minimum": g.choice([0, 1, 0.5])},
    "exclusiveMaximum": lambda g, _: {"exclusiveMaximum": g.choice([1, 2, 1.5])},
    "multipleOf": lambda g, _: {"multipleOf": g.choice([1, 2, 0.5])},
    "length": lambda g, _: {g.choice(["minLength", "maxLength"]): g.randrange(3)},
    "pattern": lambda g, _: {"pattern": g.choice(PATTERNS)},
    "items": lambda g, d: {"items": schema(g, d)},
    "prefixItems": lambda g, d: {"prefixItems": _some(g, d), "items": schema(g, d)},
    "itemCount": lambda g, _: {g.choice(["minItems", "maxItems"]): g.randrange(3)},
    "contains": lambda g, d: {"contains": schema(g, d), **g.choice([{}, {"minContains": 0}, {"maxContains": 1}])},
    "properties": lambda g, d: {"properties": _by_key(g, d, KEYS)},
    "required": lambda g, _: {"required": g.sample(KEYS, g.randrange(1, 3))},
    "additionalProperties": lambda g, d: {
        "properties": _by_key(g, d, KEYS),
        "additionalProperties": schema(g, d),
    },
    "patternProperties": lambda g, d: {"patternProperties": _by_key(g, d, PATTERNS)},
    "propertyNames": lambda g, _: {"propertyNames": {"pattern": g.choice(PATTERNS)}},
    "propertyCount": lambda g, _: g.choice([{"minProperties": 1}, {"maxProperties": g.randrange(3)}]),
    "dependentRequired": lambda g, _: {"dependentRequired": {g.choice(KEYS): g.sample(KEYS, 2)}},
    "dependentSchemas": lambda g, d: {"dependentSchemas": _by_key(g, d, KEYS)},
    "unevaluatedProperties": lambda g, d: {
        "properties": _by_key(g, d, KEYS),
        "anyOf": _some(g, d),
        "unevaluatedProperties": schema(g, min(d, 1)),
    },
    "unevaluatedItems": lambda g, d: {
        "prefixItems": _some(g, d),
        "anyOf": _some(g, d),
        "unevaluatedItems": schema(g, min(d, 1)),
    },
    "allOf": lambda g, d: {"allOf": _some(g, d)},
    "anyOf": lambda g, d: {"anyOf": _some(g, d)},
    "oneOf": lambda g, d: {"oneOf": _some(g, d)},
    "not": lambda g, d: {"not": schema(g, d)},
    "if": lambda g, d: {"if": schema(g, d), "then": schema(g, d), "else": schema(g, d)},
}
