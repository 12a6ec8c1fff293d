r"""Escapes: what may follow a backslash.

ECMA-262 patterns are read as with the flag u (clause 22.2.1), and also where Annex B.1.2 lets any character that is
no letter or digit be escaped (``\-``, ``\@``). Letters without a meaning are refused, as other engines give them one.
"""

from __future__ import annotations

from schemac.frontend.regex import unicode_classes as classes
from schemac.frontend.regex.ast import Anchor, Node
from schemac.frontend.regex.scanner import Scanner
from schemac.ir.charset import CODE_POINTS, SCALARS, CharSet

_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_HEX = frozenset("0123456789abcdefABCDEF")
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
#: Escapes of other engines, with what to write instead.
_ELSEWHERE = {
    "Z": r"write $ or \z",
    "e": r"write \x1B",
    "G": "there is no previous match",
    "K": "match the whole text",
    "R": r"write (?:\r\n|\n|\r)",
    "h": r"write [ \t]",
    "X": r"write \PM\pM*",
    "C": "texts are sequences of characters, not bytes",
    "N": r"write \u{...} with the number of the character",
}
BACKREFERENCE = "backreferences are not regular"
BACKREFERENCE_HINT = "spell out the alternatives that the group can repeat"


def read_escape(scanner: Scanner, in_class: bool) -> int | CharSet | Node:
    """Read an escape, the cursor being at its backslash: a character, a set of characters, or an assertion."""
    begin = scanner.position
    scanner.position += 1
    if scanner.done():
        raise scanner.wrong("a backslash ends the pattern", begin, hint=r"write \\ for a backslash")
    letter = scanner.peek()
    scanner.position += 1
    if letter in "dDwWsS":
        return _perl_class(scanner, letter)
    if letter in _CONTROLS:
        return _CONTROLS[letter]
    if letter in "xuU":
        return _numeric(scanner, letter, begin)
    if letter in "pP":
        return _property(scanner, letter == "P", begin)
    if letter in "bB":
        return _boundary(scanner, letter, in_class, begin)
    if letter.isascii() and letter.isdigit():
        return _digits(scanner, letter, in_class, begin)
    if letter == "k" or (letter == "g" and not in_class):
        if scanner.peek() in "<{'" and scanner.peek():
            scanner.until({"<": ">", "{": "}", "'": "'"}[scanner.peek()])
        raise scanner.unsupported(BACKREFERENCE, begin, hint=BACKREFERENCE_HINT)
    if scanner.ecma:
        if letter == "c" and scanner.peek() in _LETTERS:
            scanner.position += 1
            return ord(scanner.text[scanner.position - 1]) % 32
    elif letter == "a":
        return 7
    elif not in_class and letter in ("AzZ" if scanner.python else "Az"):
        return Anchor("start" if letter == "A" else "end")
    elif letter in "<>" and scanner.rust:
        raise scanner.unsupported("engines differ on this escape", begin, hint=rf"write {letter} or \b")
    if letter in _LETTERS:
        hint = _ELSEWHERE.get(letter, f"write {letter} or, for a backslash, \\\\{letter}")
        if scanner.ecma and letter in "AzZ":
            hint = "write ^ for the start and $ for the end of the text"
        raise scanner.wrong("there is no such escape", begin, hint=hint)
    return ord(letter)


def _perl_class(scanner: Scanner, letter: str) -> CharSet:
    r"""``\d \w \s`` and their complements."""
    if scanner.ecma:
        ascii_word = classes.ASCII_WORD
        if letter in "wW" and scanner.flags.ignore_case:
            ascii_word = classes.fold(ascii_word)  # WordCharacters, clause 22.2.2.9.3
        found = {"d": classes.ASCII_DIGIT, "w": ascii_word}.get(letter.lower()) or classes.ecma_white_space()
    else:
        word, space = (
            (classes.python_word, classes.python_white_space)
            if scanner.python
            else (classes.word, classes.white_space)
        )
        found = {"d": classes.digit, "w": word, "s": space}[letter.lower()]()
    return SCALARS - found if letter.isupper() else found


def _boundary(scanner: Scanner, letter: str, in_class: bool, begin: int) -> int | Node:
    r"""``\b`` and ``\B``; in a class of ECMA-262 and Python, ``\b`` is a backspace."""
    if in_class:
        if letter == "b" and not scanner.rust:
            return 8
        raise scanner.wrong("a word boundary is no character", begin, hint=r"write \x08 for a backspace")
    if scanner.rust and scanner.peek() == "{":
        scanner.until("}")
        raise scanner.unsupported("only plain word boundaries are known", begin, hint=r"write \b with a lookaround")
    return Anchor("boundary" if letter == "b" else "not_boundary", _perl_class(scanner, "w"))


def _digits(scanner: Scanner, letter: str, in_class: bool, begin: int) -> int:
    """Null characters and backreferences; octal numbers are refused, for every engine reads them in its own way."""
    if letter == "0" and not (scanner.peek().isascii() and scanner.peek().isdigit()):
        return 0
    while scanner.peek().isascii() and scanner.peek().isdigit():
        scanner.position += 1
    if letter == "0" or in_class:
        raise scanner.wrong("octal numbers are ambiguous", begin, hint=r"write \xHH with two hexadecimal digits")
    raise scanner.unsupported(BACKREFERENCE, begin, hint=BACKREFERENCE_HINT)


def _numeric(scanner: Scanner, letter: str, begin: int) -> int | CharSet:
    r"""``\xHH``, ``\uHHHH`` (also as a surrogate pair), ``\UHHHHHHHH`` and all of them with braces."""
    width = {"x": 2, "u": 4, "U": 8}[letter]
    allowed = letter == "u" if scanner.ecma else True
    if scanner.ecma and letter == "U":
        raise scanner.wrong("there is no such escape", begin, hint=r"write \u{...}")
    if allowed and scanner.take("{"):
        digits = scanner.until("}")
        if not digits or not _HEX.issuperset(digits):
            raise scanner.wrong("hexadecimal digits are expected between the braces", begin)
        code = int(digits.lstrip("0")[:9] or "0", 16)
    else:
        code = _hex(scanner, width, begin)
    if code > CODE_POINTS:
        raise scanner.wrong("there is no such character", begin, hint="the last one is 10FFFF")
    if 0xD800 <= code <= 0xDBFF and letter == "u" and scanner.text.startswith("\\u", scanner.position):
        back = scanner.position
        scanner.position += 2
        if scanner.peek() != "{":
            low = _hex(scanner, 4, back)
            if 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        scanner.position = back
    return code


def _hex(scanner: Scanner, width: int, begin: int) -> int:
    """Exactly `width` hexadecimal digits."""
    digits = scanner.text[scanner.position : scanner.position + width]
    if len(digits) < width or not _HEX.issuperset(digits):
        raise scanner.wrong(f"{width} hexadecimal digits are expected", begin)
    scanner.position += width
    return int(digits, 16)


def _property(scanner: Scanner, negative: bool, begin: int) -> CharSet:
    r"""``\p{Name}``, ``\p{Name=Value}``, and of the rust dialect ``\pL``, ``\p{^Name}``, ``\p{Name!=Value}``."""
    if scanner.take("{"):
        text = scanner.until("}")
        if text is None:
            raise scanner.wrong("the closing brace is missing", begin)
    elif scanner.ecma or scanner.done():
        raise scanner.wrong("a property in braces is expected", begin, hint=r"such as \p{L}")
    else:
        text = scanner.peek()
        scanner.position += 1
    if not scanner.ecma:
        if text.startswith("^"):
            negative, text = not negative, text[1:]
        if "!=" in text:
            negative, text = not negative, text.replace("!=", "=", 1)
        text = text.replace(":", "=", 1)
    found = _named_property(scanner, text, begin)
    if not scanner.flags.ignore_case:
        return SCALARS - found if negative else found
    # Rust closes under case, then negates; ECMA-262 (flag u) the other way round.
    if scanner.ecma:
        return classes.fold(SCALARS - found if negative else found)
    return SCALARS - classes.fold(found) if negative else classes.fold(found)


def _named_property(scanner: Scanner, text: str, begin: int) -> CharSet:
    """The characters of a property."""
    key, separator, value = text.partition("=")
    found: CharSet | None = None
    if separator:
        short = classes.loose(key)
        if short in ("gc", "generalcategory"):
            found = classes.category(value)
        elif short in ("sc", "script", "scx", "scriptextensions"):
            found = classes.script(value, extensions=short in ("scx", "scriptextensions"))
        else:
            raise scanner.unsupported(
                "this property is not known", begin, hint="General_Category, Script and Script_Extensions are"
            )
    else:
        found = classes.category(text)
        if found is None:
            found = classes.binary(text)
        script = classes.script(text, extensions=False) if found is None else None
        if script is not None and scanner.ecma:
            raise scanner.wrong("a script needs its property", begin, hint=rf"write \p{{Script={text}}}")
        found = script if found is None else found
    if found is None:
        raise scanner.wrong("there is no such Unicode property", begin)
    return found
