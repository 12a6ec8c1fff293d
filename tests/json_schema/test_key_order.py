"""Keys in any order, each once: compared with `jsonschema` on values whose keys are shuffled.

Every text of a value must be accepted if and only if the value is valid, whatever the order of its keys.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import schemac
from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.errors import BudgetExceeded, EmptyLanguageError, SourceError, UnsupportedError
from schemac.frontend.json_schema import JsonSchemaOptions, anyorder, json_schema_module
from schemac.ir.automaton import Automaton
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import Places, Recognizer
from schemac.vocabulary import Vocabulary
from schemac_runtime.masks import unpack
from tests.json_schema.test_against_jsonschema import KEYWORDS, POOL
from tests.oracle.random_schemas import schema as random_schema

NAMES = ("a", "b", "ab", "c", "k")
OTHERS = ("d", "é", "", "e")
#: Types of few and short texts, so that walks end.
MEMBERS: list[Any] = [{"type": "null"}, {"const": 1}, {"enum": [0, 1]}, {"type": "boolean"}, True]


def compiled(schema: object, key_order: str = "any", **options: Any) -> Automaton:
    """The automaton of a schema."""
    budget = Budget(seconds=30)
    module = json_schema_module(schema, options=JsonSchemaOptions(key_order=key_order, **options), budget=budget)
    return lower(module, budget)[0]


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
    return [text for text, valid in texts if is_read(recognizer, text) != valid]


def object_schema(generator: random.Random) -> dict[str, Any]:
    """A random schema of objects, with the keywords whose meaning depends on which keys there are."""

    def some(least: int = 1) -> list[str]:
        return generator.sample(NAMES, generator.randrange(least, 4))

    def members() -> dict[str, Any]:
        return {name: generator.choice(MEMBERS) for name in some()}

    def branch(number: int) -> dict[str, Any]:
        return {"properties": {**members(), "k": {"const": number}}, "required": ["k", *some(0)]}

    keywords: dict[str, Any] = {
        "properties": members,
        "required": some,
        "additionalProperties": lambda: generator.choice([False, False, {"type": "null"}]),
        "patternProperties": lambda: {generator.choice(["^a", "b$", "^[ck]$"]): generator.choice(MEMBERS)},
        "propertyNames": lambda: generator.choice([{"enum": ["a", "b", "c", "d"]}, {"maxLength": 1}]),
        "minProperties": lambda: generator.randrange(1, 4),
        "maxProperties": lambda: generator.randrange(1, 4),
        "dependentRequired": lambda: {name: some() for name in some()},
        "dependentSchemas": lambda: {generator.choice(NAMES): {"properties": members(), "maxProperties": 3}},
        "oneOf": lambda: [branch(0), branch(1), branch(2)],
        "anyOf": lambda: [{"required": some()}, {"properties": members()}, {"minProperties": 3}],
        "not": lambda: {generator.choice(["required", "properties"]): {"required": some, "properties": members}},
        "if": lambda: {"properties": {"k": {"const": 1}}, "required": ["k"]},
        "then": lambda: {"required": some()},
    }
    chosen = generator.sample(sorted(keywords), generator.randrange(2, 6))
    schema: dict[str, Any] = {"type": "object"}
    for name in chosen:
        schema[name] = keywords[name]()
    if "not" in schema:
        name = next(iter(schema["not"]))
        schema["not"] = {name: schema["not"][name][name]()}
    return schema


def objects(generator: random.Random, count: int) -> list[dict[str, Any]]:
    """Random objects with the keys that `object_schema` speaks of, and others."""
    names = (*NAMES, *OTHERS)
    found = []
    for _ in range(count):
        chosen = generator.sample(names, min(generator.randrange(6), len(names)))
        found.append({name: generator.choice([None, 0, 1, 2, True, "x", {"a": 1}]) for name in chosen})
    return found


def read(recognizer: Recognizer, places: Places, text: str) -> Places:
    """The places after a text."""
    for byte in text.encode():
        places = recognizer.step(places, byte)
        if not places:
            break
    return places


def is_read(recognizer: Recognizer, text: str) -> bool:
    """Whether a text is read to its end."""
    return recognizer.ended(read(recognizer, recognizer.start(), text))


def can_finish(recognizer: Recognizer, places: Places, separator: str, left: int = 8) -> bool:
    """Whether an object can be closed, now or after some more members."""
    if recognizer.ended(read(recognizer, places, "}")):
        return True
    for name in (*NAMES, *OTHERS, "a1", "a2", "1b", "2b") if left else ():
        named = read(recognizer, places, f'{separator}"{name}":')
        for value in ("null", "1", "0", "2", "true", '"x"') if named else ():
            after = read(recognizer, named, value)
            if after and can_finish(recognizer, after, ",", left - 1):
                return True
    return False


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


@pytest.mark.parametrize("seed", range(30))
def test_random_schema(seed: int) -> None:
    """Random schemas, three levels deep."""
    schema = random_schema(random.Random(seed))
    assert disagreements(schema) == [], json.dumps(schema)


@pytest.mark.parametrize("seed", range(50))
def test_random_objects(seed: int) -> None:
    """Objects whose keywords depend on each other."""
    generator = random.Random(seed)
    schema = object_schema(generator)
    assert disagreements(schema, objects(generator, 150), seed) == [], json.dumps(schema)


@pytest.mark.parametrize("seed", range(400, 420))
def test_alternatives_apart(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects whose alternatives are procedures of their own, as where there are too many states, allow the same."""
    monkeypatch.setattr(anyorder, "_FEW_STATES", -1)
    monkeypatch.setattr(anyorder, "_FEW_BYTES", -1)
    generator = random.Random(seed)
    schema = object_schema(generator)
    assert disagreements(schema, objects(generator, 100), seed) == [], json.dumps(schema)


def test_late_discriminator_does_not_multiply() -> None:
    """Branches that a late key tells apart, each with required keys of its own."""
    branches = [
        {"properties": {"type": {"const": f"t{n}"}}, "required": ["type", *(f"p{n}{m}" for m in range(3))]}
        for n in range(12)
    ]
    recognizer = Recognizer(compiled({"type": "object", "oneOf": branches}))
    assert recognizer.automaton.states < 5_000
    assert is_read(recognizer, '{"p70": 1, "p10": 1, "p71": 1, "other": 1, "p72": 1, "type": "t7"}')
    assert not is_read(recognizer, '{"p70": 1, "p10": 1, "p71": 1, "other": 1, "p72": 1, "type": "t1"}')


def test_size_grows_with_the_keys_not_with_their_subsets() -> None:
    """50 keys, 20 of them required."""
    names = [f"name{n}" for n in range(50)]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names[:20]}
    recognizer = Recognizer(compiled(schema, whitespace="compact"))
    assert recognizer.automaton.states < 8_000
    generator = random.Random(1)
    for _ in range(5):
        members = [f'"{name}":1' for name in generator.sample(names, 50)]
        assert is_read(recognizer, "{" + ",".join(members) + "}")
        assert not is_read(recognizer, "{" + ",".join([*members, generator.choice(members)]) + "}")
        assert not is_read(recognizer, "{" + ",".join(member for member in members if '"name7"' not in member) + "}")


def test_escaped_spellings_are_no_other_keys() -> None:
    """A key is the same however it is spelled; declared ones have their shortest spelling only."""
    recognizer = Recognizer(compiled({"properties": {"a": {}}, "type": "object"}, whitespace="compact"))
    assert is_read(recognizer, '{"b\\n":1,"a":2}')
    for text in ('{"a":1,"\\u0061":2}', '{"\\u0061":1}', '{"b\\n":1,"b\\n":2}', '{"b\\n":1,"b\\u000a":2}'):
        assert not is_read(recognizer, text)


def test_too_many_alternatives_are_refused_by_name() -> None:
    """Pairs of keys that depend on each other, each on its own."""
    schema = {"dependentRequired": {f"a{n}": [f"b{n}"] for n in range(14)}}
    with pytest.raises((UnsupportedError, BudgetExceeded)) as caught:
        compiled({"type": "object", "properties": {"x": {**schema, "type": "object"}}})
    assert caught.value.construct == "--key-order any"
    assert caught.value.place == "#/properties/x"


def test_packages_remember_the_option() -> None:
    """The manifest has what was asked for, where it is not the default."""
    assert schemac.compile({"type": "object"}, key_order="any").options["key_order"] == "any"
    assert "key_order" not in schemac.compile({"type": "object"}).options
    with pytest.raises(SourceError):
        schemac.compile({"type": "object"}, key_order="alphabetical")


@pytest.mark.parametrize(
    "schema", [{"minProperties": 2}, {"minProperties": 3, "required": ["b"], "properties": {"a": {}}}]
)
def test_counted_keys_are_distinct_in_schema_order(schema: Any) -> None:
    """Undeclared keys that `minProperties` counts are not the same key twice."""
    recognizer = Recognizer(compiled({"type": "object", **schema}, "schema", whitespace="compact"))
    assert is_read(recognizer, '{"b":1,"c":2,"d":3}')
    assert not is_read(recognizer, '{"b":1,"c":2,"c":3}')
    assert not is_read(recognizer, '{"b":1}')


@pytest.mark.parametrize("seed", range(25))
def test_no_key_comes_twice_and_no_walk_gets_stuck(seed: int) -> None:
    """Walks in which every byte is random: behind each value the object can be finished."""
    generator = random.Random(seed)
    schema = object_schema(generator)
    try:
        recognizer = Recognizer(compiled(schema, whitespace="compact"))
    except EmptyLanguageError:
        return
    validator = Draft202012Validator(schema)
    assert can_finish(recognizer, read(recognizer, recognizer.start(), "{"), "")
    for _ in range(6):
        text, places = b"", recognizer.start()
        while allowed := [byte for byte in recognizer.allowed(places) if byte < 0x80]:
            closing = [byte for byte in allowed if byte in b'"}],']
            byte = generator.choice(closing if closing and generator.random() < 0.5 else allowed)
            text, places = text + bytes([byte]), recognizer.step(places, byte)
            if recognizer.ended(places):
                pairs = json.loads(text, object_pairs_hook=list)
                assert len(pairs) == len(dict(pairs))
                assert validator.is_valid(json.loads(text)), (text, json.dumps(schema))
            elif len(text) > 80:
                break
            elif is_json(text + b"}"):  # behind a member of the outermost object
                assert can_finish(recognizer, places, "," if len(text) > 1 else ""), (text, json.dumps(schema))


def is_json(text: bytes) -> bool:
    """Whether a text is whole."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


PIECES = [
    *(bytes((byte,)) for byte in range(256)),
    *(b'"a', b'":', b'","', b'{"', b'"}', b'b"', b'ab"', b'{"a":', b',"k":', b'"b":1', b"null", b"true", b"1,", b"1}"),
    *(b'1,"', b'"k":0,"', b'null,"', "é".encode(), b'":null}', b'"c":true,"k"', b'{"k":1,"a":', b'a":1,"a'),
]
STOP = len(PIECES)
VOCABULARY = Vocabulary((*PIECES, None), special={"<end>": STOP}, stop_ids=(STOP,))


@pytest.mark.parametrize("seed", range(200, 218))
def test_masks(seed: int) -> None:
    """Walks through the masks: each has a token, allows just what is accepted, and leads to valid texts."""
    generator = random.Random(seed)
    schema = object_schema(generator)
    try:
        automaton = compiled(schema, whitespace="compact")
    except EmptyLanguageError:
        return
    program = link(automaton, VOCABULARY, Budget(seconds=60))
    validator = Draft202012Validator(schema)
    mask = np.zeros((1, program.words), dtype=np.int32)
    for _ in range(5):
        matcher, text = program.matcher(), b""
        while True:
            matcher.fill_bitmask(mask)
            allowed = np.flatnonzero(unpack(mask, program.vocab_size)[0]).tolist()
            assert allowed, (text, json.dumps(schema))
            if len(text) % 4 == 0:
                accepted = [token for token in range(program.vocab_size) if matcher.fork().accept(token)]
                assert accepted == allowed, (text, json.dumps(schema))
            if STOP in allowed:
                pairs = json.loads(text, object_pairs_hook=list)
                assert len(pairs) == len(dict(pairs))
                assert validator.is_valid(json.loads(text)), (text, json.dumps(schema))
                break
            likely = [token for token in allowed if PIECES[token] in (b'"', b"}", b",", b":", b"]") or token >= 256]
            token = generator.choice(likely if likely and generator.random() < 0.7 else allowed)
            if len(text) > 60 or not matcher.accept(token):
                break
            text += PIECES[token]
