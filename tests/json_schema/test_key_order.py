"""Keys in any order, each once: compared with `jsonschema` on values whose keys are shuffled.

Every text of a value must be accepted if and only if the value is valid, whatever the order of its keys.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from schemac.budget import Budget
from schemac.errors import EmptyLanguageError
from schemac.frontend.json_schema import JsonSchemaOptions, json_schema_module
from schemac.ir.automaton import Automaton
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import Recognizer
from tests.json_schema.test_against_jsonschema import KEYWORDS, POOL
from tests.oracle.random_schemas import schema as random_schema

INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def compiled(schema: object, key_order: str = "any", **options: Any) -> Automaton:
    """The automaton of a schema."""
    budget = Budget(seconds=30)
    module = json_schema_module(schema, options=JsonSchemaOptions(key_order=key_order, **options), budget=budget)
    return lower(module, budget)[0]


def accepts(recognizer: Recognizer, text: str) -> bool:
    """Whether a text is read to its end."""
    places = recognizer.start()
    for byte in text.encode():
        places = recognizer.step(places, byte)
        if not places:
            return False
    return recognizer.ended(places)


def shuffled(value: Any, generator: random.Random) -> str:
    """The text of a value with the keys of all objects in some order."""
    if isinstance(value, dict):
        members = [f"{json.dumps(key, ensure_ascii=False)}:{shuffled(of, generator)}" for key, of in value.items()]
        generator.shuffle(members)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(shuffled(item, generator) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def disagreements(schema: Any, pool: list[Any] = POOL, seed: int = 1) -> list[str]:
    """The texts of values of the pool that are decided otherwise than by `jsonschema`."""
    expected = Draft202012Validator(schema)
    generator = random.Random(seed)
    try:
        recognizer = Recognizer(compiled(schema, whitespace="compact"))
    except EmptyLanguageError:
        return [json.dumps(value) for value in pool if expected.is_valid(value)]
    texts = [(shuffled(value, generator), expected.is_valid(value)) for value in pool for _ in range(2)]
    return [text for text, valid in texts if accepts(recognizer, text) != valid]


@pytest.mark.parametrize("name", KEYWORDS)
def test_keyword(name: str) -> None:
    """Each keyword alone, and under `not` and `oneOf`."""
    schema = KEYWORDS[name]
    assert disagreements(schema) == []
    if name != "recursion":
        assert disagreements({"not": schema}) == []
        assert disagreements({"oneOf": [schema, {"type": ["object", "string"]}, {"minItems": 1}]}) == []


@pytest.mark.parametrize("name", [name for name in KEYWORDS if name != "recursion"])
def test_with_two_others(name: str) -> None:
    """Each keyword together with two others, once affirmed and once denied."""
    names = sorted(set(KEYWORDS) - {name, "recursion"})
    generator = random.Random(name)
    one, other = (KEYWORDS[chosen] for chosen in generator.sample(names, 2))
    assert disagreements({"allOf": [KEYWORDS[name], one, {"not": other}]}) == []
    assert disagreements({"anyOf": [{"allOf": [KEYWORDS[name], one]}, {"not": {"anyOf": [one, other]}}]}) == []


@pytest.mark.parametrize("seed", range(60))
def test_random_schema(seed: int) -> None:
    """Random schemas, three levels deep."""
    schema = random_schema(random.Random(seed))
    assert disagreements(schema) == [], json.dumps(schema)
