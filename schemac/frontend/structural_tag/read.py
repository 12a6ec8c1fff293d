"""From the JSON of a structural tag to its formats.

Both forms that vLLM passes on are read: ``structures`` with ``triggers``, and the tree of formats that xgrammar defines
(its documentation, "Structural Tag Usage"). Every field is checked; what cannot be honoured exactly is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable

from schemac.budget import Budget
from schemac.errors import SourceError, UnsupportedError
from schemac.frontend.json_schema.load import escape, integer, load
from schemac.frontend.structural_tag.formats import (
    AnyText,
    ConstString,
    Dispatch,
    Edge,
    Format,
    Grammar,
    JsonSchema,
    Or,
    Regex,
    Repeat,
    SeparatedTags,
    Sequence,
    Tag,
    Token,
    TokenName,
    TriggeredTags,
)
from schemac.frontend.structural_tag.xml_styles import STYLES

Json = dict[str, object]

#: Deepest nesting of formats, in parts of their JSON pointer; the stages after this one nest as they do.
MAX_PARTS = 120


def read_structural_tag(source: object, budget: Budget) -> Format:
    """The format that JSON text, or the data it stands for, describes.

    Raises:
        SourceError: not JSON, or not a structural tag.
        UnsupportedError: a format or an option that has no exact automaton.
    """
    root = load(source, budget)
    if not isinstance(root, dict) or root.get("type") != "structural_tag":
        raise SourceError(
            "not a structural tag", place="#", hint='expected an object with "type": "structural_tag"'
        )
    if "structures" in root:
        _known(root, "#", ("structures", "triggers"))
        tags = tuple(_structure(item, place) for item, place in _items(root, "structures", "#"))
        triggers = tuple(_texts(root, "triggers", "#", empty=False, required=True))
        return TriggeredTags(triggers, tags, False, False, (), "#")
    _known(root, "#", ("format",))
    if "format" not in root:
        raise SourceError("there is no format", place="#", hint="give `format`, or `structures` and `triggers`")
    return _format(root["format"], "#/format")


def _structure(value: object, place: str) -> Tag:
    item = _object(value, place)
    _known(item, place, ("begin", "schema", "end"))
    schema_place = f"{place}/schema"
    schema = _field(item, "schema", place)
    if isinstance(schema, str):  # the schema as JSON text
        schema = load(schema, Budget())
    content = JsonSchema(_schema(schema, schema_place), "json", None, schema_place)
    return Tag(_text(item, "begin", place), content, (_text(item, "end", place),), place)


def _format(value: object, place: str) -> Format:
    item = _object(value, place)
    if place.count("/") > MAX_PARTS:
        raise SourceError("formats are nested too deep", place=place, hint="flatten sequences and alternatives")
    kind = item.get("type")
    if kind is None and {"begin", "content", "end"} <= item.keys():
        kind = "tag"
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        if isinstance(kind, str) and kind in _REFUSED:
            raise UnsupportedError(_REFUSED[kind], place=place, construct=kind, hint="use any_text")
        hint = "one of " + ", ".join(sorted({*_READERS, *_REFUSED}))
        raise SourceError(f"there is no format {kind!r}", place=f"{place}/type", hint=hint)
    return reader(item, place)


def _const_string(item: Json, place: str) -> Format:
    _known(item, place, ("value",))
    return ConstString(_text(item, "value", place))


def _json_schema(item: Json, place: str) -> Format:
    _known(item, place, ("json_schema", "style", "any_order", "max_whitespace_cnt", "excludes"))
    style = item.get("style", "json")
    if style != "json" and style not in STYLES:
        known = ("json", *STYLES)
        raise UnsupportedError(
            f"the style {style!r} is not supported", place=f"{place}/style", construct="style",
            hint="one of " + ", ".join(known),
        )  # fmt: skip
    if _flag(item, "any_order", place):
        raise UnsupportedError(
            "keys in any order would leave required keys unchecked", place=f"{place}/any_order",
            construct="any_order", hint="leave it out: keys come in the order of the schema",
        )  # fmt: skip
    if _texts(item, "excludes", place):
        raise UnsupportedError(
            "strings with excluded texts are not supported", place=f"{place}/excludes", construct="excludes",
            hint="exclude them by `pattern` in the schema",
        )  # fmt: skip
    whitespace = None
    if item.get("max_whitespace_cnt") is not None:
        whitespace = "single" if _count(item, "max_whitespace_cnt", place) else "compact"
    return _schema_format(item, str(style), whitespace, place)


def _qwen_xml_parameter(item: Json, place: str) -> Format:
    _known(item, place, ("json_schema",))
    return _schema_format(item, "qwen_xml", None, place)


def _schema_format(item: Json, style: str, whitespace: str | None, place: str) -> JsonSchema:
    schema_place = f"{place}/json_schema"
    return JsonSchema(_schema(_field(item, "json_schema", place), schema_place), style, whitespace, schema_place)


def _schema(value: object, place: str) -> object:
    if not isinstance(value, (dict, bool)):
        raise SourceError("not a schema: expected an object, true or false", place=place)
    return value


def _any_text(item: Json, place: str) -> Format:
    _known(item, place, ("excludes", "max_tokens", "max_chars"))
    _no_token_limit(item, place)
    longest = None if item.get("max_chars") is None else _count(item, "max_chars", place)
    return AnyText(_excludes(item, place), longest)


def _any_tokens(item: Json, place: str) -> Format:
    _known(item, place, ("exclude_tokens", "max_tokens"))
    _no_token_limit(item, place)
    _no_excluded_tokens(item, place)
    return AnyText((), None)


def _grammar(item: Json, place: str) -> Format:
    _known(item, place, ("grammar",))
    return Grammar(_text(item, "grammar", place), f"{place}/grammar")


def _regex(item: Json, place: str) -> Format:
    _known(item, place, ("pattern",))
    return Regex(_text(item, "pattern", place), f"{place}/pattern")


def _sequence(item: Json, place: str) -> Format:
    _known(item, place, ("elements",))
    return Sequence(tuple(_format(element, at) for element, at in _items(item, "elements", place)))


def _or(item: Json, place: str) -> Format:
    _known(item, place, ("elements",))
    elements = _items(item, "elements", place)
    if not elements:
        raise SourceError("there is nothing to choose from", place=f"{place}/elements", construct="or")
    return Or(tuple(_format(element, at) for element, at in elements))


def _repeated(low: int, high: int | None) -> Callable[[Json, str], Format]:
    def read(item: Json, place: str) -> Format:
        _known(item, place, ("content",))
        return Repeat(_content(item, place), low, high)

    return read


def _repeat(item: Json, place: str) -> Format:
    _known(item, place, ("content", "min", "max"))
    low = _count(item, "min", place)
    high = None if integer(item.get("max")) == -1 else _count(item, "max", place)
    if high is not None and high < low:
        raise SourceError(f"`max` is less than `min` ({high} < {low})", place=place, construct="repeat")
    return Repeat(_content(item, place), low, high)


def _token(item: Json, place: str) -> Format:
    return Token(_token_name(item, place))


def _tag(item: Json, place: str) -> Tag:
    _known(item, place, ("begin", "content", "end"))
    end = _field(item, "end", place)
    ends: tuple[Edge, ...]
    if isinstance(end, list):
        ends = tuple(_texts(item, "end", place))
        if not ends:
            raise SourceError("there is no end", place=f"{place}/end", hint="give a string, or a list of strings")
    else:
        ends = (_edge(end, f"{place}/end"),)
    return Tag(_edge(_field(item, "begin", place), f"{place}/begin"), _content(item, place), ends, place)


def _triggered_tags(item: Json, place: str) -> Format:
    _known(item, place, ("triggers", "tags", "at_least_one", "stop_after_first", "excludes"))
    triggers = tuple(_texts(item, "triggers", place, empty=False, required=True))
    tags = _tags(item, place)
    for tag in tags:
        if not isinstance(tag.begin, str):
            raise SourceError("expected a string", place=f"{tag.place}/begin", hint="or use token_triggered_tags")
    return TriggeredTags(triggers, tags, *_tag_flags(item, place), _excludes(item, place), place)


def _token_triggered_tags(item: Json, place: str) -> Format:
    _known(item, place, ("trigger_tokens", "tags", "at_least_one", "stop_after_first", "exclude_tokens"))
    _no_excluded_tokens(item, place)
    triggers = tuple(_token_named(value, at) for value, at in _items(item, "trigger_tokens", place))
    tags = _tags(item, place)
    for tag in tags:
        if isinstance(tag.begin, str):
            raise SourceError("expected a token", place=f"{tag.place}/begin", hint="or use triggered_tags")
    return TriggeredTags(triggers, tags, *_tag_flags(item, place), (), place)


def _tags_with_separator(item: Json, place: str) -> Format:
    _known(item, place, ("tags", "separator", "at_least_one", "stop_after_first"))
    return SeparatedTags(_tags(item, place), _text(item, "separator", place), *_tag_flags(item, place), place)


def _dispatch(item: Json, place: str) -> Format:
    _known(item, place, ("rules", "loop", "excludes"))
    rules = tuple(_rule(rule, at, token=False) for rule, at in _items(item, "rules", place))
    return Dispatch(rules, _flag(item, "loop", place, default=True), _excludes(item, place), place)


def _token_dispatch(item: Json, place: str) -> Format:
    _known(item, place, ("rules", "loop", "exclude_tokens"))
    _no_excluded_tokens(item, place)
    rules = tuple(_rule(rule, at, token=True) for rule, at in _items(item, "rules", place))
    return Dispatch(rules, _flag(item, "loop", place, default=True), (), place)


def _rule(value: object, place: str, *, token: bool) -> tuple[Edge, Format]:
    if not isinstance(value, list) or len(value) != 2:
        raise SourceError("expected a list of a pattern and a format", place=place)
    pattern, content = value
    if token:
        return _token_named(pattern, f"{place}/0"), _format(content, f"{place}/1")
    if not isinstance(pattern, str) or not pattern:
        raise SourceError("expected a string that is not empty", place=f"{place}/0")
    return _checked(pattern, f"{place}/0"), _format(content, f"{place}/1")


# -- fields --------------------------------------------------------------------------------------------------------


def _object(value: object, place: str) -> Json:
    if not isinstance(value, dict):
        raise SourceError("expected an object", place=place)
    return value


def _known(item: Json, place: str, fields: tuple[str, ...]) -> None:
    """Refuse fields that nobody has heard of: they might have been meant to constrain something."""
    for name in item:
        if name != "type" and name not in fields:
            hint = "known here: " + ", ".join(fields)
            raise SourceError(f"there is no field {name!r} here", place=f"{place}/{escape(name)}", hint=hint)


def _field(item: Json, name: str, place: str) -> object:
    if name not in item:
        raise SourceError(f"`{name}` is missing", place=place)
    return item[name]


def _content(item: Json, place: str) -> Format:
    return _format(_field(item, "content", place), f"{place}/content")


def _text(item: Json, name: str, place: str) -> str:
    value = _field(item, name, place)
    if not isinstance(value, str):
        raise SourceError("expected a string", place=f"{place}/{name}")
    return _checked(value, f"{place}/{name}")


def _checked(text: str, place: str) -> str:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise SourceError("this text has a lone surrogate", place=place)
    return text


def _items(item: Json, name: str, place: str) -> list[tuple[object, str]]:
    """(value, place) of the members of a list that must be there."""
    values = _field(item, name, place)
    if not isinstance(values, list):
        raise SourceError("expected a list", place=f"{place}/{name}")
    return [(value, f"{place}/{name}/{index}") for index, value in enumerate(values)]


def _texts(item: Json, name: str, place: str, *, empty: bool = True, required: bool = False) -> list[str]:
    if name not in item and not required:
        return []
    texts = []
    for value, at in _items(item, name, place):
        if not isinstance(value, str):
            raise SourceError("expected a string", place=at)
        if not value and not empty:
            raise SourceError("expected a string that is not empty", place=at)
        texts.append(_checked(value, at))
    return texts


def _excludes(item: Json, place: str) -> tuple[str, ...]:
    return tuple(_texts(item, "excludes", place, empty=False))


def _tags(item: Json, place: str) -> tuple[Tag, ...]:
    tags = []
    for value, at in _items(item, "tags", place):
        tag = _format(value, at)
        if not isinstance(tag, Tag):
            raise SourceError("expected a tag", place=at)
        tags.append(tag)
    return tuple(tags)


def _tag_flags(item: Json, place: str) -> tuple[bool, bool]:
    return _flag(item, "at_least_one", place), _flag(item, "stop_after_first", place)


def _flag(item: Json, name: str, place: str, *, default: bool = False) -> bool:
    value = item.get(name, default)
    if not isinstance(value, bool):
        raise SourceError("expected true or false", place=f"{place}/{name}")
    return value


def _count(item: Json, name: str, place: str) -> int:
    value = integer(_field(item, name, place))
    if value is None or value < 0:
        raise SourceError("expected a whole number that is not negative", place=f"{place}/{name}")
    return value


def _edge(value: object, place: str) -> Edge:
    if isinstance(value, str):
        return _checked(value, place)
    item = _object(value, place)
    if item.get("type", "token") != "token":
        raise SourceError("expected a string or a token", place=place)
    return _token_name(item, place)


def _token_name(item: Json, place: str) -> TokenName:
    _known(item, place, ("token",))
    return _token_named(_field(item, "token", place), f"{place}/token")


def _token_named(value: object, place: str) -> TokenName:
    number = integer(value)
    if number is not None and number >= 0:
        return TokenName(f"<[{number}]>")  # how a label names an id
    if not isinstance(value, str) or not value:
        raise SourceError("expected the text of a token, or its id", place=place)
    return TokenName(_checked(value, place))


def _no_token_limit(item: Json, place: str) -> None:
    if item.get("max_tokens") is not None:
        raise UnsupportedError(
            "how many tokens a text takes depends on the vocabulary", place=f"{place}/max_tokens",
            construct="max_tokens", hint="use max_chars",
        )  # fmt: skip


def _no_excluded_tokens(item: Json, place: str) -> None:
    if item.get("exclude_tokens", []) != []:
        raise UnsupportedError(
            "excluding tokens depends on the vocabulary", place=f"{place}/exclude_tokens", construct="exclude_tokens",
            hint="leave it out: special tokens are never part of free text; use any_text to exclude texts",
        )  # fmt: skip


_READERS: dict[str, Callable[[Json, str], Format]] = {
    "const_string": _const_string,
    "json_schema": _json_schema,
    "qwen_xml_parameter": _qwen_xml_parameter,
    "any_text": _any_text,
    "any_tokens": _any_tokens,
    "grammar": _grammar,
    "regex": _regex,
    "sequence": _sequence,
    "or": _or,
    "optional": _repeated(0, 1),
    "star": _repeated(0, None),
    "plus": _repeated(1, None),
    "repeat": _repeat,
    "token": _token,
    "tag": _tag,
    "triggered_tags": _triggered_tags,
    "token_triggered_tags": _token_triggered_tags,
    "tags_with_separator": _tags_with_separator,
    "dispatch": _dispatch,
    "token_dispatch": _token_dispatch,
}
_REFUSED = {"exclude_token": "one token of any kind cannot be told by its bytes"}
