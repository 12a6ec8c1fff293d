"""Keywords, their duals and their products, compared with `jsonschema` on a pool of values.

Every verdict on every value must agree: the first direction is soundness, the other completeness up to key order.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from schemac.budget import Budget
from schemac.errors import EmptyLanguageError, UnsupportedError
from schemac.frontend.json_schema import json_schema_module, objects
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import check
from tests.json_schema.checking import recognizer
from tests.oracle.module_recognizer import ModuleRecognizer
from tests.oracle.module_sampler import sample
from tests.oracle.random_schemas import schema as random_schema
from tests.oracle.random_schemas import values

INTEGER, STRING = {"type": "integer"}, {"type": "string"}

#: One schema for each keyword, on the keys and values of the pool.
KEYWORDS: dict[str, Any] = {
    "type": {"type": ["integer", "array"]},
    "enum": {"enum": [1, "a", None, {"a": 1}, [1, "a"], []]},
    "const": {"const": {"a": 1, "b": [True]}},
    "multipleOf": {"multipleOf": 0.5},
    "minimum": {"minimum": 1},
    "maximum": {"maximum": 1.5},
    "exclusiveMinimum": {"exclusiveMinimum": 1},
    "exclusiveMaximum": {"exclusiveMaximum": 1},
    "minLength": {"minLength": 2},
    "maxLength": {"maxLength": 1},
    "pattern": {"pattern": "^a|b$"},
    "items": {"items": INTEGER},
    "prefixItems": {"prefixItems": [STRING, INTEGER]},
    "prefixItems closed": {"prefixItems": [STRING, INTEGER], "items": False},
    "contains": {"contains": STRING},
    "minContains": {"contains": INTEGER, "minContains": 2},
    "maxContains": {"contains": INTEGER, "maxContains": 1},
    "minItems": {"minItems": 2},
    "maxItems": {"maxItems": 1},
    "properties": {"properties": {"a": INTEGER, "b": STRING}},
    "patternProperties": {"patternProperties": {"^a": INTEGER, "b$": {"type": ["string", "integer"]}}},
    "additionalProperties": {"properties": {"a": {}}, "additionalProperties": INTEGER},
    "propertyNames": {"propertyNames": {"maxLength": 1}},
    "required": {"required": ["b", "a"]},
    "minProperties": {"properties": {"a": {}, "b": {}}, "additionalProperties": False, "minProperties": 2},
    "maxProperties": {"maxProperties": 0},
    "dependentRequired": {"dependentRequired": {"a": ["b"], "b": ["ab"]}},
    "dependentSchemas": {"dependentSchemas": {"a": {"properties": {"b": INTEGER}}}},
    "unevaluatedProperties": {
        "properties": {"a": {}},
        "anyOf": [{"properties": {"b": STRING}, "required": ["b"]}, {"patternProperties": {"^ab": {}}}],
        "unevaluatedProperties": False,
    },
    "unevaluatedItems": {
        "prefixItems": [{}],
        "anyOf": [{"prefixItems": [{}, INTEGER]}, {"contains": {"const": "a"}}],
        "unevaluatedItems": False,
    },
    "allOf": {"allOf": [{"required": ["a"]}, {"properties": {"a": INTEGER}}]},
    "anyOf": {"anyOf": [{"required": ["a"]}, {"maxProperties": 0}, INTEGER]},
    "oneOf": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}, INTEGER, {"minimum": 1}]},
    "if": {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"maxProperties": 0}},
    "recursion": {"properties": {"a": {"$ref": "#"}}, "additionalProperties": INTEGER, "items": {"$ref": "#"}},
}
POOL = values(random.Random(5), 120)


def disagreements(schema: Any) -> list[Any]:
    """The values of the pool that are decided otherwise than by `jsonschema`."""
    expected = Draft202012Validator(schema)
    accepts: Callable[[object], bool]
    try:
        accepts = recognizer(schema).accepts_value
    except EmptyLanguageError:

        def accepts(value: object) -> bool:
            return False

    return [value for value in POOL if accepts(value) != expected.is_valid(value)]


@pytest.mark.parametrize("name", KEYWORDS)
def test_keyword(name: str) -> None:
    """Each keyword alone."""
    assert disagreements(KEYWORDS[name]) == []


@pytest.mark.parametrize("name", [name for name in KEYWORDS if name != "recursion"])
def test_dual(name: str) -> None:
    """`not` of each keyword, and `oneOf` against each."""
    assert disagreements({"not": KEYWORDS[name]}) == []
    assert disagreements({"oneOf": [KEYWORDS[name], {"type": ["object", "string"]}, {"minItems": 1}]}) == []


@pytest.mark.parametrize("name", [name for name in KEYWORDS if name != "recursion"])
def test_with_two_others(name: str) -> None:
    """Each keyword together with two others, once affirmed and once denied."""
    names = sorted(set(KEYWORDS) - {name, "recursion"})
    generator = random.Random(name)
    for _ in range(2):
        one, other = (KEYWORDS[chosen] for chosen in generator.sample(names, 2))
        assert disagreements({"allOf": [KEYWORDS[name], one, {"not": other}]}) == []
        assert disagreements({"anyOf": [{"allOf": [KEYWORDS[name], one]}, {"not": {"anyOf": [one, other]}}]}) == []


@pytest.mark.parametrize("seed", range(60))
def test_random_schema(seed: int) -> None:
    """Random schemas, three levels deep."""
    schema = random_schema(random.Random(seed))
    try:
        assert disagreements(schema) == [], json.dumps(schema)
    except UnsupportedError:
        pytest.skip("counts undeclared keys")


@pytest.mark.parametrize("seed", range(40))
def test_random_texts_are_valid(seed: int) -> None:
    """Whatever a module reads satisfies its schema, with duplicate keys collapsed as parsers do."""
    generator = random.Random(seed)
    schema = random_schema(generator)
    validator = Draft202012Validator(json.loads(json.dumps(schema), parse_float=Decimal))  # exact, as the texts are
    try:
        module = json_schema_module(schema, budget=Budget(seconds=30))
    except (EmptyLanguageError, UnsupportedError):
        return
    if any(procedure.guard for procedure in module.procedures):
        pytest.skip("the sampler remembers no keys")
    for text in sample(module, generator, 15):
        assert validator.is_valid(json.loads(text, parse_float=Decimal)), (text, json.dumps(schema))


@pytest.mark.parametrize("seed", range(60, 90))
def test_alternatives_apart(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects whose alternatives are procedures of their own, as where there are too many states, allow the same."""
    monkeypatch.setattr(objects, "_FEW", -(10**6))
    generator = random.Random(seed)
    branches = [random_schema(generator, 2) for _ in range(3)]
    schema: Any = {"anyOf": branches, "allOf": [random_schema(generator, 1)]}
    if seed % 2:
        schema = {"type": "object", "oneOf": [*branches, {"minProperties": 1}], "anyOf": branches}
    try:
        assert disagreements(schema) == [], json.dumps(schema)
    except UnsupportedError:
        pytest.skip("counts undeclared keys")


def test_entangled_alternatives_do_not_multiply() -> None:
    """Alternatives that a late key tells apart, with members of their own before it (an object of real schemas)."""
    branches = [
        {"properties": {f"p{n}": {"type": "array", "items": {"const": n}}, "type": {"const": f"t{n}"}}}
        for n in range(24)
    ]
    schema = {"type": "object", "anyOf": branches}
    budget = Budget({"branches": 100_000}, seconds=30)
    compiled = lower(json_schema_module(schema, budget=budget), budget)[0]
    assert compiled.states < 20_000
    for text, allowed in [
        ('{"p1":[1],"type":"t1"}', True),
        ('{"p1":[1],"p2":[2],"type":"t2"}', True),
        ('{"p1":[0],"p2":[0],"type":"t2"}', False),
        ('{"p1":[0],"p2":[0],"p3":[0],"type":"t4"}', True),
        ('{"p1":[0],"p2":[0],"p3":[0],"type":"t3"}', False),
        ('{"p1":[0],"p2":[0],"p3":[0]}', True),
    ]:
        assert check(compiled, text.encode()).accepted is allowed, text


def test_many_listed_objects() -> None:
    """An `enum` of objects costs about its size: alternatives of one value each exclude each other."""
    listed = [{"id": n, "name": f"n{n}"} for n in range(400)]
    budget = Budget({"branches": 20_000}, seconds=60)
    accepts = ModuleRecognizer(json_schema_module({"enum": listed}, budget=budget), 20_000).accepts
    assert accepts('{"id":7,"name":"n7"}')
    assert not accepts('{"id":7,"name":"n8"}')
    mixed = {"oneOf": [{"enum": [{"a": n} for n in range(60)]}, {"enum": [{"a": n} for n in range(50, 90)]}]}
    accepts = recognizer(mixed).accepts
    assert [n for n in (0, 49, 50, 59, 60, 89, 90) if accepts(f'{{"a":{n}}}')] == [0, 49, 60, 89]
