"""Every keyword of JSON Schema drafts 4 to 2020-12: where it is known, what shape it has, what becomes of it.

Nothing is ignored in silence: a keyword is asserted (``assert``), is one of the listed annotations (``note``), only
names or structures schemas (``name``), or is refused by name (``refuse``). All others are unknown and warned about.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemac.errors import SourceError

#: Draft names, oldest first; the index is the draft's number everywhere in this package.
DRAFTS = ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12")
DRAFT4, DRAFT6, DRAFT7, DRAFT2019, DRAFT2020 = range(5)
DEFAULT_DRAFT = DRAFT2020

#: ``$schema`` without scheme, ``www.``, fragment and final slash -> draft number.
_SCHEMA_URIS = {
    "json-schema.org/draft-04/schema": DRAFT4,
    "json-schema.org/draft-05/schema": DRAFT4,
    "json-schema.org/draft-06/schema": DRAFT6,
    "json-schema.org/draft-07/schema": DRAFT7,
    "json-schema.org/draft/2019-09/schema": DRAFT2019,
    "json-schema.org/draft/2020-12/schema": DRAFT2020,
    # No version means "the latest"; in the files that write it, it was draft 4, and draft 7 reads those the same way
    # save for boolean `exclusiveMinimum`, which every draft takes here.
    "json-schema.org/schema": DRAFT2020,
    "json-schema.org/draft/schema": DRAFT2020,
}


@dataclass(frozen=True, slots=True)
class Keyword:
    """One keyword.

    Attributes:
        shape: what its value looks like; `shape.SHAPES` checks it.
        role: ``assert``, ``note``, ``name`` or ``refuse``.
        first: the first draft that knows it.
        last: the last draft that knows it.
    """

    shape: str
    role: str = "assert"
    first: int = DRAFT4
    last: int = DRAFT2020


def _table() -> dict[str, Keyword]:
    table = {
        # any instance (2020-12 validation section 6.1)
        "type": Keyword("types"),
        "enum": Keyword("values"),
        "const": Keyword("any", first=DRAFT6),
        # numbers (6.2)
        "multipleOf": Keyword("positive"),
        "minimum": Keyword("number"),
        "maximum": Keyword("number"),
        "exclusiveMinimum": Keyword("bound"),
        "exclusiveMaximum": Keyword("bound"),
        # strings (6.3, 7)
        "minLength": Keyword("count"),
        "maxLength": Keyword("count"),
        "pattern": Keyword("text"),
        "format": Keyword("text"),
        # arrays (6.4, core 10.3.1)
        "items": Keyword("items"),
        "additionalItems": Keyword("schema"),  # beside array-form `items`, in whatever draft people write those
        "prefixItems": Keyword("schemas", first=DRAFT2020),
        "contains": Keyword("schema", first=DRAFT6),
        "minContains": Keyword("count", first=DRAFT2019),
        "maxContains": Keyword("count", first=DRAFT2019),
        "minItems": Keyword("count"),
        "maxItems": Keyword("count"),
        "uniqueItems": Keyword("flag"),
        "unevaluatedItems": Keyword("schema", first=DRAFT2019),
        # objects (6.5, core 10.3.2)
        "properties": Keyword("schema_map"),
        "patternProperties": Keyword("schema_map"),
        "additionalProperties": Keyword("schema"),
        "propertyNames": Keyword("schema", first=DRAFT6),
        "required": Keyword("names"),
        "minProperties": Keyword("count"),
        "maxProperties": Keyword("count"),
        "dependencies": Keyword("dependencies"),
        "dependentRequired": Keyword("names_map", first=DRAFT2019),
        "dependentSchemas": Keyword("schema_map", first=DRAFT2019),
        "unevaluatedProperties": Keyword("schema", first=DRAFT2019),
        # in place (core 10.2)
        "allOf": Keyword("schemas"),
        "anyOf": Keyword("schemas"),
        "oneOf": Keyword("schemas"),
        "not": Keyword("schema"),
        "if": Keyword("schema", first=DRAFT7),
        "then": Keyword("schema", first=DRAFT7),
        "else": Keyword("schema", first=DRAFT7),
        # references (core 8)
        "$ref": Keyword("text"),
        "$dynamicRef": Keyword("text", first=DRAFT2020),
        "$recursiveRef": Keyword("text", first=DRAFT2019, last=DRAFT2019),
        "$id": Keyword("text", "name", first=DRAFT6),
        "id": Keyword("text", "name", last=DRAFT4),
        "$anchor": Keyword("text", "name", first=DRAFT2019),
        "$dynamicAnchor": Keyword("text", "name", first=DRAFT2020),
        "$recursiveAnchor": Keyword("flag", "name", first=DRAFT2019, last=DRAFT2019),
        "$schema": Keyword("text", "name"),
        "$vocabulary": Keyword("any", "name", first=DRAFT2019),
        "$defs": Keyword("schema_map", "name"),
        "definitions": Keyword("schema_map", "name"),
    }
    # Annotations of validation section 9 and 8, of older drafts' section 10, and `$comment` (core 8.3).
    for name in ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"):
        table[name] = Keyword("any", "note")
    for name in ("contentEncoding", "contentMediaType", "contentSchema"):
        table[name] = Keyword("any", "note")
    return table


KEYWORDS: dict[str, Keyword] = _table()
ANNOTATIONS = tuple(sorted(name for name, keyword in KEYWORDS.items() if keyword.role == "note"))


def known(name: str, draft: int) -> Keyword | None:
    """The keyword called `name` if draft number `draft` gives it a meaning, else None.

    ``dependencies`` stays known after draft 7: the later drafts keep it for compatibility, and people write it.
    """
    keyword = KEYWORDS.get(name)
    if keyword is None or not keyword.first <= draft <= keyword.last:
        return None
    return keyword


def draft_number(name: str) -> int:
    """The number of a draft given by the user, such as ``draft7``, ``7`` or ``2020-12``.

    Raises:
        SourceError: there is no such draft.
    """
    for number, draft in enumerate(DRAFTS):
        if name in (draft, draft.removeprefix("draft")):
            return number
    raise SourceError(f"there is no draft {name!r}", construct="draft", hint="one of " + ", ".join(DRAFTS))


def draft_of(uri: str) -> int | None:
    """The draft that a ``$schema`` URI stands for, or None."""
    bare = uri.strip().removesuffix("#").rstrip("/")
    for prefix in ("http://", "https://"):
        bare = bare.removeprefix(prefix)
    return _SCHEMA_URIS.get(bare.removeprefix("www."))
