"""Keywords as the compiler reads them, for jsonschema: patterns by RE2, numbers exact, old forms in newer drafts.

What differs from jsonschema's own: `pattern`, `patternProperties`, `additionalProperties` and `unevaluated*` never run
Python's `re`; `multipleOf` is exact; `format` is asserted by `formats`; `exclusiveMinimum: true` beside `minimum`,
array-form `items` with `additionalItems`, and `dependencies` mean in every draft what they meant where they come from.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from schemac_runtime.answers.formats import conforms
from schemac_runtime.answers.patterns import compile_pattern

Errors = Iterator[Any]
Keyword = Callable[[Any, Any, Any, Any], Errors]


def _error(message: str, *path: str | int) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message, path=path)


# -- strings and numbers ----------------------------------------------------------------------------------------


def _pattern(_validator: Any, value: str, instance: Any, _schema: Any) -> Errors:
    if isinstance(instance, str) and not compile_pattern(value).search(instance):
        yield _error(f"{instance!r} does not match {value!r}")


def _format(draft: str) -> Keyword:
    def rule(_validator: Any, value: Any, instance: Any, _schema: Any) -> Errors:
        if isinstance(instance, str) and isinstance(value, str) and not conforms(value, instance, draft):
            yield _error(f"{instance!r} is not a {value!r}")

    return rule


def _content_encoding(_validator: Any, value: Any, instance: Any, _schema: Any) -> Errors:
    """Draft 7, validation section 8.3; the later drafts assert nothing."""
    if isinstance(instance, str) and str(value).lower() == "base64" and _decoded(instance) is None:
        yield _error(f"{instance!r} is not base64")


def _content_media_type(_validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    """Draft 7, validation section 8.4; the later drafts assert nothing."""
    if not isinstance(instance, str) or str(value).lower().partition(";")[0].strip() != "application/json":
        return
    encoded = str(schema.get("contentEncoding")).lower() == "base64"
    content = _decoded(instance) if encoded else instance
    try:
        if content is not None:  # else the other keyword objects
            json.loads(content)
    except (ValueError, RecursionError):
        yield _error(f"{instance!r} does not hold a JSON document")


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _is_number(instance: Any) -> bool:
    return isinstance(instance, (int, Decimal)) and not isinstance(instance, bool)


def _multiple_of(_validator: Any, value: Any, instance: Any, _schema: Any) -> Errors:
    if _is_number(instance) and (Fraction(instance) / Fraction(value)).denominator != 1:
        yield _error(f"{instance} is not a multiple of {value}")


def _minimum(_validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    exclusive = schema.get("exclusiveMinimum") is True
    if _is_number(instance) and (instance <= value if exclusive else instance < value):
        yield _error(f"{instance} is {'not more' if exclusive else 'less'} than {value}")


def _maximum(_validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    exclusive = schema.get("exclusiveMaximum") is True
    if _is_number(instance) and (instance >= value if exclusive else instance > value):
        yield _error(f"{instance} is {'not less' if exclusive else 'more'} than {value}")


def _exclusive_minimum(_validator: Any, value: Any, instance: Any, _schema: Any) -> Errors:
    if _is_number(instance) and not isinstance(value, bool) and instance <= value:
        yield _error(f"{instance} is not more than {value}")


def _exclusive_maximum(_validator: Any, value: Any, instance: Any, _schema: Any) -> Errors:
    if _is_number(instance) and not isinstance(value, bool) and instance >= value:
        yield _error(f"{instance} is not less than {value}")


# -- objects ----------------------------------------------------------------------------------------------------


def _is_other(key: str, schema: Mapping[str, Any]) -> bool:
    """Whether neither `properties` nor `patternProperties` speaks of a key."""
    if key in schema.get("properties", ()):
        return False
    return not any(compile_pattern(pattern).search(key) for pattern in schema.get("patternProperties", ()))


def _pattern_properties(validator: Any, value: Any, instance: Any, _schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    for pattern, inner in value.items():
        matcher = compile_pattern(pattern)
        for key, member in instance.items():
            if matcher.search(key):
                yield from validator.descend(member, inner, path=key, schema_path=pattern)


def _additional_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    for key, member in instance.items():
        if _is_other(key, schema):
            yield from _unexpected(validator, value, key, member)


def _unexpected(validator: Any, schema: Any, where: str | int, member: Any) -> Errors:
    """Errors of a member or item under the schema for all the rest."""
    if schema is False:
        yield _error(f"{where!r} is not expected here", where)
    else:
        yield from validator.descend(member, schema, path=where)


def _dependencies(validator: Any, value: Any, instance: Any, _schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    for key, dependency in value.items():
        if key not in instance:
            continue
        if isinstance(dependency, list):
            for name in dependency:
                if name not in instance:
                    yield _error(f"{name!r} is required beside {key!r}")
        else:
            yield from validator.descend(instance, dependency, schema_path=key)


# -- arrays -----------------------------------------------------------------------------------------------------


def _items(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    """2020-12's `items`, and the older array form of it."""
    if not isinstance(instance, list):
        return
    if isinstance(value, list):
        for index, (item, inner) in enumerate(zip(instance, value, strict=False)):
            yield from validator.descend(item, inner, path=index, schema_path=index)
        return
    start = _prefix(validator, schema)
    for index, item in enumerate(instance[start:], start):
        yield from _unexpected(validator, value, index, item)


def _prefix(validator: Any, schema: Any) -> int:
    """How many items have schemas of their own, in the drafts that know `prefixItems`."""
    return len(schema.get("prefixItems", ())) if "prefixItems" in validator.VALIDATORS else 0


def _additional_items(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    items = schema.get("items")
    if isinstance(instance, list) and isinstance(items, list):
        for index, item in enumerate(instance[len(items) :], len(items)):
            yield from _unexpected(validator, value, index, item)


# -- unevaluated* -----------------------------------------------------------------------------------------------


def _unevaluated_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    evaluated = _evaluated(validator, instance, schema, "unevaluatedProperties")
    for key, member in instance.items():
        if key not in evaluated:
            yield from _unexpected(validator, value, key, member)


def _unevaluated_items(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, list):
        return
    evaluated = _evaluated(validator, instance, schema, "unevaluatedItems")
    for index, item in enumerate(instance):
        if index not in evaluated:
            yield from _unexpected(validator, value, index, item)


def _evaluated(validator: Any, instance: Any, schema: Any, leaving_out: str = "") -> set[Any]:
    """Keys or indices that a schema, valid for `instance`, evaluates (2020-12 core, section 11).

    Args:
        validator: of the schema; knows how its references resolve.
        instance: an object or array.
        schema: the schema.
        leaving_out: the keyword that asks.
    """
    if not isinstance(schema, dict):
        return set()
    own = _evaluated_keys if isinstance(instance, dict) else _evaluated_indices
    found = own(validator, instance, schema, leaving_out)
    for inner_validator, inner in _in_place(validator, instance, schema):
        found |= _evaluated(inner_validator, instance, inner)
    return found


def _evaluated_keys(_validator: Any, instance: Any, schema: Any, leaving_out: str) -> set[Any]:
    found = {key for key in instance if key in schema.get("properties", ())}
    for pattern in schema.get("patternProperties", ()):
        matcher = compile_pattern(pattern)
        found |= {key for key in instance if matcher.search(key)}
    if "additionalProperties" in schema:
        found |= {key for key in instance if _is_other(key, schema)}
    if "unevaluatedProperties" in schema and leaving_out != "unevaluatedProperties":
        found |= set(instance)
    return found


def _evaluated_indices(validator: Any, instance: Any, schema: Any, leaving_out: str) -> set[Any]:
    everything = set(range(len(instance)))
    items = schema.get("items")
    found = set(range(_prefix(validator, schema)))
    if isinstance(items, list):
        found |= everything if "additionalItems" in schema else set(range(len(items)))
    elif items is not None:
        return everything
    if "unevaluatedItems" in schema and leaving_out != "unevaluatedItems":
        return everything
    if "contains" in schema and "prefixItems" in validator.VALIDATORS:  # only 2020-12 says that it evaluates
        inner = _inside(validator, schema["contains"])
        found |= {index for index, item in enumerate(instance) if inner.is_valid(item)}
    return found


def _inside(validator: Any, schema: Any) -> Any:
    """The validator of a subschema. jsonschema has no public way that keeps the base URI of an inner `$id`."""
    if not isinstance(schema, dict):
        return validator.evolve(schema=schema)
    from referencing.jsonschema import DRAFT202012  # `$id` is the same in both drafts that know `unevaluated*`

    return validator.evolve(
        schema=schema, _resolver=validator._resolver.in_subresource(DRAFT202012.create_resource(schema))
    )


def _referred(validator: Any, resolved: Any) -> tuple[Any, Any]:
    return validator.evolve(schema=resolved.contents, _resolver=resolved.resolver), resolved.contents


def _in_place(validator: Any, instance: Any, schema: Any) -> Iterator[tuple[Any, Any]]:
    """The subschemas that apply to the same instance and are valid for it."""
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            yield _referred(validator, validator._resolver.lookup(schema[keyword]))
    if "$recursiveRef" in schema and "$recursiveRef" in validator.VALIDATORS:
        from referencing.jsonschema import lookup_recursive_ref

        yield _referred(validator, lookup_recursive_ref(validator._resolver))
    for keyword in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(keyword, ()):
            inner_validator = _inside(validator, inner)
            if inner_validator.is_valid(instance):
                yield inner_validator, inner
    if "if" in schema:
        condition = _inside(validator, schema["if"])
        holds = condition.is_valid(instance)
        if holds:
            yield condition, schema["if"]
        branch = "then" if holds else "else"
        if branch in schema:
            yield _inside(validator, schema[branch]), schema[branch]
    if isinstance(instance, dict):
        for keyword in ("dependentSchemas", "dependencies"):
            for key, inner in schema.get(keyword, {}).items():
                if key in instance and not isinstance(inner, list):
                    yield _inside(validator, inner), inner


#: What replaces jsonschema's keywords in the drafts that have them.
_EXACT: dict[str, Keyword] = {
    "pattern": _pattern,
    "multipleOf": _multiple_of,
    "minimum": _minimum,
    "maximum": _maximum,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
}
#: What every draft knows.
_EVERYWHERE: dict[str, Keyword] = {
    "items": _items,
    "additionalItems": _additional_items,
    "dependencies": _dependencies,
    "exclusiveMinimum": _exclusive_minimum,
    "exclusiveMaximum": _exclusive_maximum,
}


def rules(draft: str, known: Mapping[str, Any]) -> dict[str, Keyword]:
    """The keywords to use instead of jsonschema's, or beside them.

    Args:
        draft: a draft name.
        known: jsonschema's keywords of that draft.
    """
    exact = {name: rule for name, rule in _EXACT.items() if name in known}
    contents: dict[str, Keyword] = {}
    if draft == "draft7":
        contents = {"contentEncoding": _content_encoding, "contentMediaType": _content_media_type}
    return {**exact, **_EVERYWHERE, **contents, "format": _format(draft)}


def is_integer(_: Any, instance: Any) -> bool:
    """A number without a fraction, however it is written (draft 6 and later)."""
    if isinstance(instance, Decimal):
        return instance == instance.to_integral_value()
    return isinstance(instance, int) and not isinstance(instance, bool)
