"""The formats of a structural tag, as plain values. `read` makes them from JSON, `lower` gives them their texts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenName:
    """One special token, by its text, or by its id as ``<[128010]>``."""

    name: str


#: What begins or ends a tag: a text, or one special token.
Edge = str | TokenName


@dataclass(frozen=True, slots=True)
class ConstString:
    """One text."""

    value: str


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A value that satisfies a schema.

    Attributes:
        schema: JSON data.
        style: ``json``, or a key of `xml_styles.STYLES`.
        whitespace: a policy in place of the one asked for, or None.
        place: where the schema stands.
    """

    schema: object
    style: str
    whitespace: str | None
    place: str


@dataclass(frozen=True, slots=True)
class Regex:
    """A text that a pattern (ECMA-262) matches as a whole."""

    pattern: str
    place: str


@dataclass(frozen=True, slots=True)
class Grammar:
    """A text of a grammar."""

    grammar: str
    place: str


@dataclass(frozen=True, slots=True)
class AnyText:
    """Free text without `excludes`, of at most `longest` characters; up to the end of the tag around it."""

    excludes: tuple[str, ...]
    longest: int | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    elements: tuple[Format, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any one of them."""

    elements: tuple[Format, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`low` to `high` times; None: any number of times."""

    content: Format
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Token:
    """One special token."""

    token: TokenName


@dataclass(frozen=True, slots=True)
class Tag:
    """`begin`, content, and any one of `ends`."""

    begin: Edge
    content: Format
    ends: tuple[Edge, ...]
    place: str


@dataclass(frozen=True, slots=True)
class TriggeredTags:
    """Free text in which a trigger must go on as one of the tags that begin with it.

    Attributes:
        at_least_one: the text begins with a tag.
        stop_after_first: nothing comes after a tag.
        excludes: what the free text must not contain.
    """

    triggers: tuple[Edge, ...]
    tags: tuple[Tag, ...]
    at_least_one: bool
    stop_after_first: bool
    excludes: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Free text in which a pattern must be followed by its format; then free text again, if `loop`."""

    rules: tuple[tuple[Edge, Format], ...]
    loop: bool
    excludes: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class SeparatedTags:
    """Tags with a separator between two of them, and nothing else."""

    tags: tuple[Tag, ...]
    separator: str
    at_least_one: bool
    stop_after_first: bool
    place: str


Format = (
    ConstString | JsonSchema | Regex | Grammar | AnyText | Sequence | Or | Repeat | Token | Tag | TriggeredTags
    | Dispatch | SeparatedTags
)
