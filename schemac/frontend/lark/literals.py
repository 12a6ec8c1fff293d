r"""String and pattern literals of Lark grammars: ``"text"i``, ``/pattern/ims``."""

from __future__ import annotations

from schemac.errors import SchemacError
from schemac.frontend.grammar import Source
from schemac.frontend.regex import ast, parse
from schemac.frontend.regex import unicode_classes as classes
from schemac.ir.charset import CODE_POINTS, SCALARS, CharSet

_FLAGS = frozenset("imslux")
_HEX = frozenset("0123456789abcdefABCDEF")
_WIDTHS = {"x": 2, "u": 4, "U": 8}
_CONTROLS = {"n": "\n", "f": "\f", "t": "\t", "r": "\r"}


def literal_end(source: Source, begin: int) -> int:
    """The position behind the literal at `begin`, its flags included."""
    text, quote, position = source.text, source.text[begin], begin + 1
    while position < len(text) and text[position] != quote:
        if text[position] == "\n" and quote == '"':
            break
        position += 2 if text[position] == "\\" else 1
    if text[position : position + 1] != quote:
        what = "text" if quote == '"' else "pattern"
        raise source.wrong(f"this {what} never ends", begin, position, hint=f"write {quote} at its end")
    position += 1
    flags = frozenset("i") if quote == '"' else _FLAGS
    while text[position : position + 1] in flags:
        position += 1
    following = text[position : position + 1]
    if following.isalnum() or following == "_":
        raise source.wrong("there is no such flag", position, position + 1, hint="or put a space between them")
    return position


def string_value(source: Source, begin: int, literal: str) -> tuple[str, bool]:
    """(text, whether case is ignored) of a string literal that stands at `begin`.

    A backslash before anything but ``n f t r x u U``, a quote or a backslash stands for itself, as in Lark.
    """
    end = literal.rindex('"')
    found: list[str] = []
    position = 1
    while position < end:
        char = literal[position]
        letter = literal[position + 1] if char == "\\" else ""
        if not letter:
            found.append(char)
        elif letter in _CONTROLS:
            found.append(_CONTROLS[letter])
        elif letter in _WIDTHS:
            digits = literal[position + 2 : position + 2 + _WIDTHS[letter]]
            if len(digits) < _WIDTHS[letter] or not _HEX.issuperset(digits):
                raise source.wrong(f"{_WIDTHS[letter]} hexadecimal digits are expected", begin + position, begin + end)
            code = int(digits, 16)
            if code > CODE_POINTS or code not in SCALARS:
                raise source.wrong("there is no such character", begin + position, begin + end)
            found.append(chr(code))
            position += _WIDTHS[letter]
        else:
            found.append(letter if letter in '\\"' else char + letter)
        position += 2 if letter else 1
    return "".join(found), literal[end + 1 :] == "i"


def text_node(text: str, *, ignore_case: bool = False) -> ast.Node:
    """The syntax tree of a text."""
    sets = [CharSet.of(ord(char)) for char in text]
    return ast.concat([ast.Chars(classes.fold(symbols) if ignore_case else symbols) for symbols in sets])


def pattern_node(source: Source, begin: int, literal: str) -> ast.Node:
    """The syntax tree of a pattern literal that stands at `begin`."""
    end = literal.rindex("/")
    pattern, flags = literal[1:end], "".join(sorted(set(literal[end + 1 :])))
    if "l" in flags:
        raise source.unsupported("texts do not depend on a locale", begin, begin + len(literal), hint="leave out the l")
    if "\n" in pattern and "x" not in flags:
        raise source.wrong("a pattern of several lines needs the flag x", begin, begin + len(literal))
    if not pattern:
        raise source.wrong("this pattern is empty", begin, begin + len(literal))
    try:
        return parse(pattern, dialect="python", flags=flags)
    except SchemacError as error:
        line, _, column = (error.place or "1:1").partition(":")
        offset = 0
        for _ in range(int(line) - 1):
            offset = pattern.index("\n", offset) + 1
        error.place = source.place(begin + 1 + offset + int(column) - 1)
        raise


def has_bare_alternatives(literal: str) -> bool:
    """Whether a pattern literal has alternatives outside of all parentheses."""
    depth, position, bracket = 0, 1, False
    while position < len(literal):
        char = literal[position]
        if char == "\\":
            position += 1
        elif bracket:
            bracket = char != "]"
        elif char == "[":
            bracket = True
            position += literal[position + 1 : position + 2] in ("]", "^")
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth == 0:
            return True
        position += 1
    return False


def range_node(source: Source, begin: int, low: str, high: str) -> ast.Node:
    """The syntax tree of ``"a".."z"``; the first literal stands at `begin`."""
    ends = [string_value(source, begin, literal)[0] for literal in (low, high)]
    if len(ends[0]) != 1 or len(ends[1]) != 1 or ends[0] > ends[1]:
        raise source.wrong("a range has one character at each end, the lesser one first", begin, begin + len(low))
    if not low.endswith('"') or not high.endswith('"'):
        raise source.wrong("the ends of a range have no flags", begin, begin + len(low))
    return ast.Chars(CharSet.of((ord(ends[0]), ord(ends[1]))) & SCALARS)
