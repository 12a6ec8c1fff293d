"""What a caller may choose about the lowering of a JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from schemac.errors import SourceError

WHITESPACE = ("flexible", "compact", "single")
KEY_ORDERS = ("schema", "any")


@dataclass(frozen=True, slots=True)
class JsonSchemaOptions:
    r"""Options of the JSON Schema frontend.

    Attributes:
        whitespace: ``flexible`` allows ``[ \t\n\r]*`` wherever RFC 8259 section 2 allows it inside the value,
            ``single`` one optional space after ``,`` and ``:``, ``compact`` none.
        strict: unknown keywords and unknown formats are errors instead of warnings.
        draft: a draft name of `keywords.DRAFTS` that overrides ``$schema``.
        resources: further documents that references may reach, by URI or relative path.
        openapi_nullable: ``nullable: true`` beside ``type`` allows null too, as OpenAPI 3.0 says; by JSON Schema it
            says nothing.
        key_order: ``schema`` has the keys of an object in canonical order, ``any`` in any order, each at most once.
        whitespace_limit: the most whitespace characters between two tokens of JSON, under ``flexible``.
        digit_limit: the most digits of a number, those of its exponent included.
    """

    whitespace: str = "flexible"
    strict: bool = False
    draft: str | None = None
    resources: Mapping[str, object] = field(default_factory=dict)
    openapi_nullable: bool = False
    key_order: str = "schema"
    whitespace_limit: int | None = None
    digit_limit: int | None = None

    def __post_init__(self) -> None:
        if self.whitespace not in WHITESPACE:
            raise SourceError(
                f"there is no whitespace policy {self.whitespace!r}",
                construct="whitespace",
                hint="one of " + ", ".join(WHITESPACE),
            )
        if self.key_order not in KEY_ORDERS:
            raise SourceError(
                f"there is no key order {self.key_order!r}",
                construct="key_order",
                hint="one of " + ", ".join(KEY_ORDERS),
            )
        limits = (("whitespace_limit", self.whitespace_limit, 0), ("digit_limit", self.digit_limit, 1))
        for name, limit, least in limits:
            if limit is not None and limit < least:
                raise SourceError(f"a limit of {limit}", construct=name, hint=f"give at least {least}, or no limit")


@dataclass(frozen=True, slots=True)
class SchemaWarning:
    """Something in the schema that asserts nothing. `str()` gives one line.

    Attributes:
        reason: what is ignored and why.
        place: JSON pointer of the subschema.
        construct: the keyword or format.
        hint: what to do about it.
    """

    reason: str
    place: str
    construct: str
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.place} `{self.construct}`: {self.reason}"
        return f"{text} ({self.hint})" if self.hint else text


Warn = Callable[[SchemaWarning], None]
