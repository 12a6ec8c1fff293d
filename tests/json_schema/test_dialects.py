"""Meta-schemas of one's own: their draft, and the vocabularies that they list."""

from __future__ import annotations

from typing import Any

import pytest

from schemac.errors import SchemacError, SourceError, UnsupportedError
from schemac.frontend.json_schema import SchemaWarning
from schemac.frontend.json_schema.dialects import _VOCABULARIES
from schemac.frontend.json_schema.keywords import DRAFT2019, DRAFT2020, KEYWORDS, known
from tests.json_schema.checking import recognizer, texts

MINE = "http://example.com/mine"
DRAFT = "https://json-schema.org/draft/2020-12/"


def mine(*vocabularies: str, **more: Any) -> dict[str, Any]:
    """A meta-schema with these vocabularies, required ones."""
    named = {f"{DRAFT}vocab/{name}": True for name in ("core", *vocabularies)}
    return {MINE: {"$id": MINE, "$schema": f"{DRAFT}schema", "$vocabulary": {**named, **more}}}


def test_keywords_of_vocabularies_that_are_not_listed_assert_nothing() -> None:
    schema = {"$schema": MINE, "type": "object", "properties": {"a": {"minimum": 3, "format": "date"}, "b": False}}
    candidates = ["1", '{"a":1}', '{"a":"x"}', '{"b":1}']
    warnings: list[SchemaWarning] = []
    accepts = recognizer(schema, warnings.append, resources=mine("applicator")).accepts
    assert [text for text in candidates if accepts(text)] == candidates[:3]
    assert sorted(warning.construct for warning in warnings) == ["format", "minimum", "type"]
    assert texts(schema, *candidates, resources=mine("applicator", "validation")) == ['{"a":"x"}']
    assert texts(schema, *candidates, resources=mine("applicator", "validation", "format-assertion")) == []
    assert texts(schema, *candidates, resources=mine("validation")) == ['{"a":1}', '{"a":"x"}', '{"b":1}']
    with pytest.raises(SourceError) as caught:
        recognizer(schema, resources=mine("applicator"), strict=True)
    assert (caught.value.place, caught.value.construct) == ("#", "type")


def test_a_part_in_a_dialect_of_its_own_has_all_its_keywords() -> None:
    part = {"$id": "part", "$schema": f"{DRAFT}schema", "minimum": 3}
    schema = {"$schema": MINE, "$id": "http://example.com/", "maximum": 5, "allOf": [part]}
    assert texts(schema, "2", "4", "6", resources=mine("applicator")) == ["4", "6"]


@pytest.mark.parametrize(("schema", "resources", "kind", "place"), [
    ({"$schema": MINE}, {}, SourceError, "#/$schema"),
    ({"$schema": MINE}, {MINE: {"$id": MINE}}, SourceError, f"{MINE}#/$schema"),
    ({"$schema": MINE}, {MINE: {"$id": MINE, "$schema": MINE}}, SourceError, f"{MINE}#/$schema"),
    ({"$schema": MINE}, mine(**{"http://example.com/vocab": True}), UnsupportedError, f"{MINE}#/$vocabulary"),
])  # fmt: skip
def test_refused(schema: Any, resources: dict[str, Any], kind: type[SchemacError], place: str) -> None:
    with pytest.raises(kind) as caught:
        recognizer(schema, resources=resources)
    assert caught.value.place == place


def test_optional_vocabularies_and_old_drafts() -> None:
    optional = mine("validation", **{"http://example.com/vocab": False})
    assert texts({"$schema": MINE, "type": "string"}, "1", '"a"', resources=optional) == ['"a"']
    old = {MINE: {"$schema": "http://json-schema.org/draft-07/schema#"}}
    schema = {"$schema": MINE, "definitions": {"a": {"type": "string"}}, "$ref": "#/definitions/a", "maxLength": 0}
    assert texts(schema, "1", '"a"', resources=old) == ['"a"']


@pytest.mark.parametrize("draft", [DRAFT2019, DRAFT2020])
def test_every_keyword_of_the_draft_is_in_a_vocabulary(draft: int) -> None:
    listed = {word for words in _VOCABULARIES[draft].values() for word in words.split()}
    legacy = {"dependencies", "additionalItems"} if draft == DRAFT2020 else {"dependencies"}
    core = {name for name in KEYWORDS if name.startswith("$")}
    asserting = {name for name, keyword in KEYWORDS.items() if keyword.role == "assert" and known(name, draft)}
    assert asserting - core - legacy <= listed
