"""Attributes of rules, as llguidance has them: ``head[lazy]: TEXT "<tool>"``, ``field[suffix="</end>"]: TEXT``."""

from __future__ import annotations

from dataclasses import dataclass

from schemac.frontend.grammar import Source
from schemac.frontend.lark.literals import literal_end

_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
#: Attributes that concern what is reported or how tokens are drawn, and no texts.
QUIET = ("capture", "stop_capture", "temperature")
_KNOWN = ("lazy", "suffix", "stop", *QUIET)


@dataclass(frozen=True, slots=True)
class Attributes:
    """What stands between the brackets.

    Attributes:
        begin: its position.
        lazy: a text ends as soon as it can.
        marker: (position, source text) of what ends a text: a string, a pattern or the name of a terminal; or None.
        keeps_marker: whether the marker belongs to the text (`suffix`), or comes after it (`stop`).
        quiet: names of attributes that constrain nothing.
    """

    begin: int
    lazy: bool
    marker: tuple[int, str] | None
    keeps_marker: bool
    quiet: tuple[str, ...]


def read_attributes(source: Source, begin: int) -> tuple[Attributes, int]:
    """The attributes at a position, and the position behind them."""
    text, position = source.text, begin + 1
    found: dict[str, tuple[int, str] | None] = {}
    while True:
        position = _space(text, position)
        name, after = _word(text, position)
        if name in ("max_tokens", "max_chars"):
            what = "tokens" if name == "max_tokens" else "characters of whole rules"
            raise source.unsupported(
                f"limits on {what} are not known", position, after, hint="write a pattern with counts, as in /.{0,100}/"
            )
        if name not in _KNOWN or name in found:
            raise source.wrong("an attribute is expected here", position, after, hint="one of " + ", ".join(_KNOWN))
        value = None
        equals = _space(text, after)
        if text.startswith("=", equals):
            first = _space(text, equals + 1)
            after = _value_end(source, first)
            value = first, text[first:after]
        elif name not in ("lazy", "capture"):
            raise source.wrong("this attribute needs a value", position, after)
        found[name] = value
        position = _space(text, after)
        if text.startswith("]", position):
            break
        if not text.startswith(",", position):
            raise source.wrong("these attributes never end", begin, position, hint="write ] at their end")
        position += 1
    if "suffix" in found and "stop" in found:
        raise source.wrong("a rule has a suffix or a stop, not both", begin, position)
    marker = found.get("suffix") or found.get("stop")
    if marker is not None and marker[1] == '""':
        raise source.unsupported(
            "the end of the text as a marker is not known", marker[0], construct='""', hint="leave it out"
        )
    quiet = tuple(name for name in found if name in QUIET)
    return Attributes(begin, "lazy" in found, marker, "suffix" in found, quiet), position + 1


def _value_end(source: Source, begin: int) -> int:
    text = source.text
    if text[begin : begin + 1] in ('"', "/") and begin < len(text):
        return literal_end(source, begin)
    _, end = _word(text, begin)
    while text[end : end + 1] in (".", "-", "+") or (text[end : end + 1] in _NAME and end < len(text)):
        end += 1
    if end == begin:
        raise source.wrong("a value is expected here", begin, begin + 1)
    return end


def _word(text: str, position: int) -> tuple[str, int]:
    end = position
    while end < len(text) and text[end] in _NAME:
        end += 1
    return text[position:end], end


def _space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
