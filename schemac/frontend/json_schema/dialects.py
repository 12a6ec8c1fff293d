"""Which draft a schema is read under, and which keywords its own meta-schema leaves out (2020-12 core, section 8.1.2).

A `$schema` that is no draft names a meta-schema, which has to be handed over as a resource. What counts of it is its
own `$schema`, for the draft, and its `$vocabulary`: keywords of vocabularies that it does not list assert nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schemac.budget import Budget
from schemac.errors import SourceError, UnsupportedError
from schemac.frontend.json_schema import keywords
from schemac.frontend.json_schema.keywords import DRAFT2019, DRAFT2020
from schemac.frontend.json_schema.load import load

_APPLICATOR = (
    "prefixItems items additionalItems contains additionalProperties properties patternProperties dependentSchemas "
    "propertyNames if then else allOf anyOf oneOf not"
)
_VALIDATION = (
    "type const enum multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems "
    "minItems uniqueItems maxContains minContains maxProperties minProperties required dependentRequired"
)
_UNEVALUATED = "unevaluatedItems unevaluatedProperties"
#: Draft -> vocabulary, as the last part of its URI -> its keywords that assert something.
_VOCABULARIES = {
    DRAFT2019: {
        "core": "",
        "applicator": f"{_APPLICATOR} {_UNEVALUATED}",
        "validation": _VALIDATION,
        "format": "format",
        "content": "",
        "meta-data": "",
    },
    DRAFT2020: {
        "core": "",
        "applicator": _APPLICATOR,
        "unevaluated": _UNEVALUATED,
        "validation": _VALIDATION,
        "format-annotation": "format",
        "format-assertion": "format",
        "content": "",
        "meta-data": "",
    },
}
_PREFIXES = {
    DRAFT2019: "https://json-schema.org/draft/2019-09/vocab/",
    DRAFT2020: "https://json-schema.org/draft/2020-12/vocab/",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a whole schema is read.

    Attributes:
        draft: draft number.
        left_out: keywords of the draft that assert nothing here.
    """

    draft: int
    left_out: frozenset[str] = frozenset()


def read_dialect(
    schema: object, override: str | None, resources: Mapping[str, object], budget: Budget, place: str = "#"
) -> Dialect:
    """The dialect of a whole schema: the override, else `$schema`, else the default.

    Raises:
        SourceError: `$schema` names nothing that is known here.
        UnsupportedError: its meta-schema requires a vocabulary that is not known.
    """
    if override is not None:
        return Dialect(keywords.draft_number(override))
    if not isinstance(schema, dict) or "$schema" not in schema:
        return Dialect(keywords.DEFAULT_DRAFT)
    uri = schema["$schema"]
    draft = keywords.draft_of(uri) if isinstance(uri, str) else None
    if draft is not None:
        return Dialect(draft)
    given = {name.removesuffix("#"): name for name in resources}
    name = given.get(uri.removesuffix("#")) if isinstance(uri, str) else None
    if name is None:
        raise SourceError(
            f"the dialect {uri!r} is not known",
            place=f"{place}/$schema",
            construct="$schema",
            hint="give one of " + ", ".join(keywords.DRAFTS) + " as the draft option, hand the meta-schema over as a "
            "resource, or correct the URI",
        )
    return _own_dialect(load(resources[name], budget), name)


def _own_dialect(meta: object, name: str) -> Dialect:
    """The dialect that a meta-schema stands for."""
    uri = meta.get("$schema") if isinstance(meta, dict) else None
    draft = keywords.draft_of(uri) if isinstance(uri, str) else None
    if not isinstance(meta, dict) or draft is None:
        raise SourceError(
            f"the meta-schema {name!r} does not say which draft it belongs to",
            place=f"{name}#/$schema",
            construct="$schema",
            hint="give one of " + ", ".join(keywords.DRAFTS) + " as the draft option",
        )
    vocabularies = meta.get("$vocabulary")
    if draft not in _VOCABULARIES or not isinstance(vocabularies, dict):
        return Dialect(draft)
    known, prefix = _VOCABULARIES[draft], _PREFIXES[draft]
    kept: set[str] = set()
    for vocabulary, required in vocabularies.items():
        short = vocabulary.removeprefix(prefix)
        if vocabulary.startswith(prefix) and short in known:
            kept.update(known[short].split())
        elif required is True:
            raise UnsupportedError(
                f"the vocabulary {vocabulary!r} is required and not known",
                place=f"{name}#/$vocabulary",
                construct="$vocabulary",
                hint="only the vocabularies of the drafts are known; say false there if it asserts nothing",
            )
    return Dialect(draft, frozenset(word for words in known.values() for word in words.split()) - kept)
