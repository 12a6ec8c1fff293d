r"""String literals and character classes, with their escapes.

``\xHH``, ``\uHHHH``, ``\UHHHHHHHH``; ``\n \r \t``, and of xgrammar ``\b \f \a \v \0 \e``; any other escaped character
that is neither letter nor digit stands for itself.
"""

from __future__ import annotations

from schemac.frontend.grammar import Notes, Source
from schemac.ir.charset import CODE_POINTS, SCALARS, CharSet

_CONTROLS = {"n": 10, "r": 13, "t": 9, "b": 8, "f": 12, "a": 7, "v": 11, "0": 0, "e": 27}
_HEX = frozenset("0123456789abcdefABCDEF")
_WIDTHS = {"x": 2, "u": 4, "U": 8}


def read_string(source: Source, begin: int, notes: Notes) -> tuple[str, int]:
    """The text of the literal at a position, and the position behind it."""
    text, position = source.text, begin + 1
    found: list[str] = []
    while True:
        char = text[position : position + 1]
        if not char or char in "\r\n":
            hint = r'write " at its end, and \n for a new line'
            raise source.wrong("this text never ends", begin, position, hint=hint)
        if char == '"':
            return "".join(found), position + 1
        if char == "\\":
            code, position = _escape(source, position, notes)
            found.append(chr(code))
        else:
            found.append(char)
            position += 1


def read_class(source: Source, begin: int, notes: Notes) -> tuple[CharSet, int]:
    """The set of the character class at a position, and the position behind it."""
    text, position = source.text, begin + 1
    negative = text.startswith("^", position)
    position += negative
    ranges: list[tuple[int, int]] = []
    while not text.startswith("]", position):
        low, after = _member(source, begin, position, notes)
        high = low
        if text.startswith("-", after) and not text.startswith("]", after + 1):
            high, after = _member(source, begin, after + 1, notes)
            if high < low:
                raise source.wrong("this range is upside down", position, after)
        ranges.append((low, high))
        position = after
    if not ranges and not negative:
        raise source.wrong("this class has no characters", begin, position + 1, hint="write [^] for any character")
    symbols = CharSet.merged(ranges) & SCALARS
    return SCALARS - symbols if negative else symbols, position + 1


def _member(source: Source, begin: int, position: int, notes: Notes) -> tuple[int, int]:
    char = source.text[position : position + 1]
    if not char or char in "\r\n":
        raise source.wrong("this class never ends", begin, position, hint=r"write ] at its end, and \n for a new line")
    if char == "\\":
        return _escape(source, position, notes)
    return ord(char), position + 1


def _escape(source: Source, begin: int, notes: Notes) -> tuple[int, int]:
    """The character that an escape stands for, and the position behind it."""
    text = source.text
    letter = text[begin + 1 : begin + 2]
    width = _WIDTHS.get(letter)
    if width is not None:
        end = begin + 2 + width
        digits = text[begin + 2 : end]
        if len(digits) < width or not _HEX.issuperset(digits):
            raise source.wrong(f"{width} hexadecimal digits are expected", begin, begin + 2)
        code = int(digits, 16)
        if code > CODE_POINTS or code not in SCALARS:
            raise source.wrong("there is no such character", begin, end, hint="the last one is 10FFFF; no surrogates")
        if letter == "x" and text[end : end + 1] in _HEX and end < len(text):
            notes.note(
                "two digits are read; xgrammar would read more", source.place(begin), text[begin:end], r"write \uHHHH"
            )
        return code, end
    if letter in _CONTROLS:
        return _CONTROLS[letter], begin + 2
    if not letter or letter in "\r\n" or (letter.isascii() and letter.isalnum()):
        hint = "write the ranges, as in [0-9] or [a-zA-Z0-9_]" if letter and letter in "dDwWsS" else None
        raise source.wrong("there is no such escape", begin, begin + 2, hint=hint)
    return ord(letter), begin + 2
