"""What xgrammar writes like function calls: ``Regex("...")``, ``Substring("...", ...)``, ``Token(id, ...)``."""

from __future__ import annotations

from schemac.budget import Budget
from schemac.frontend.gbnf.characters import read_string
from schemac.frontend.grammar import Notes, Source
from schemac.frontend.grammar import expression as ex
from schemac.frontend.grammar.substrings import substring_language
from schemac.frontend.grammar.tokens import id_label
from schemac.frontend.regex import counted_module, lower, parse

_REFUSED = {
    "TagDispatch": "write a structural tag with triggered tags instead",
    "TokenTagDispatch": "write a structural tag with triggered tags instead",
    "ExcludeToken": "which tokens there are depends on the vocabulary; name those that may come",
}
#: Names that are macros when a parenthesis follows at once.
MACROS = frozenset({"Regex", "Substring", "Token", *_REFUSED})
_QUIET = Notes(None, strict=False)
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


def read_macro(source: Source, begin: int, name: str, budget: Budget) -> tuple[ex.Expression, int]:
    """The expression that a macro call stands for, and the position behind it."""
    if name in _REFUSED:
        raise source.unsupported("this macro is not known", begin, construct=name, hint=_REFUSED[name])
    values, named, end = _arguments(source, begin, begin + len(name) + 1)
    place = source.place(begin)
    if name == "Regex":
        flags = named.pop("flags", "")
        if len(values) != 1 or not isinstance(values[0], str) or not isinstance(flags, str) or named:
            hint = "for JSON strings use a JSON Schema" if "json_string" in named else 'as in Regex("[a-z]+")'
            raise source.unsupported("a pattern and perhaps flags are expected", begin, end, hint=hint)
        node = parse(values[0], dialect="rust", flags=flags, place=place)
        module = counted_module(node, "regex", budget=budget, place=place)
        if module is not None:
            return ex.Embedded(module), end
        return ex.language(lower(node, search=False, budget=budget, place=place)), end
    if named:
        raise source.wrong("there is no such argument", begin, construct=next(iter(named)))
    if name == "Token":
        if not values or not all(isinstance(value, int) for value in values):
            raise source.wrong("ids of tokens are expected", begin, end, hint="as in Token(128010)")
        return ex.Tokens(tuple(id_label(int(value)) for value in values)), end
    chunks = [value for value in values if isinstance(value, str)]
    if len(chunks) != len(values):
        raise source.wrong("texts are expected", begin, end, hint='as in Substring("a", "b")')
    return ex.language(substring_language(chunks, budget)), end


def _arguments(source: Source, begin: int, position: int) -> tuple[list[str | int], dict[str, str | int], int]:
    """(values, named values, position behind the closing parenthesis)."""
    text = source.text
    values: list[str | int] = []
    named: dict[str, str | int] = {}
    position = _space(text, position)
    while not text.startswith(")", position):
        key, after = _word(text, position)
        equals = _space(text, after)
        name = key if key and text.startswith("=", equals) else None
        value, position = _value(source, begin, position if name is None else _space(text, equals + 1))
        if name is not None:
            named[name] = value
        elif named:
            raise source.wrong("values come before named ones", begin, position)
        else:
            values.append(value)
        position = _space(text, position)
        if text.startswith(",", position):
            position = _space(text, position + 1)
        elif not text.startswith(")", position):
            raise source.wrong("a comma or a closing parenthesis is missing", begin, position)
    return values, named, position + 1


def _value(source: Source, begin: int, position: int) -> tuple[str | int, int]:
    if source.text.startswith('"', position):
        return read_string(source, position, _QUIET)
    word, after = _word(source.text, position)
    if word.isdigit() and len(word) < 19:
        return int(word), after
    if word in ("true", "false"):
        return int(word == "true"), after
    raise source.wrong("a text, a number, true or false is expected", begin, position + 1)


def _word(text: str, position: int) -> tuple[str, int]:
    end = position
    while end < len(text) and text[end] in _WORD:
        end += 1
    return text[position:end], end


def _space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
