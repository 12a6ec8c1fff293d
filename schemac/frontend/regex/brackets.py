r"""Character classes in brackets.

``[a-z\d]``, and of the rust dialect nested classes, ``&&``, ``--``, ``~~`` and ``[:alpha:]``.
"""

from __future__ import annotations

from schemac.frontend.regex import unicode_classes as classes
from schemac.frontend.regex.escapes import read_escape
from schemac.frontend.regex.scanner import Scanner
from schemac.ir.charset import SCALARS, CharSet

#: POSIX classes; ASCII only, as in RE2 and Rust.
_POSIX = {
    "alnum": CharSet.of((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": CharSet.of((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": CharSet.of((0, 0x7F)),
    "blank": CharSet.of(9, 32),
    "cntrl": CharSet.of((0, 0x1F), 0x7F),
    "digit": CharSet.of((0x30, 0x39)),
    "graph": CharSet.of((0x21, 0x7E)),
    "lower": CharSet.of((0x61, 0x7A)),
    "print": CharSet.of((0x20, 0x7E)),
    "punct": CharSet.of((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": CharSet.of((9, 13), 32),
    "upper": CharSet.of((0x41, 0x5A)),
    "word": classes.ASCII_WORD,
    "xdigit": CharSet.of((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_OPERATORS = ("&&", "--", "~~")


class _Level:
    """One open bracket."""

    __slots__ = ("begin", "items", "left", "negative", "operator")

    def __init__(self, begin: int, negative: bool) -> None:
        self.begin = begin
        self.negative = negative
        self.items: list[tuple[int, int]] = []  # what has been listed since the last operator
        self.left = CharSet()
        self.operator = ""

    def value(self) -> CharSet:
        """The set so far."""
        listed = CharSet.merged(self.items)
        if self.operator == "&&":
            return self.left & listed
        if self.operator == "--":
            return self.left - listed
        return self.left ^ listed if self.operator == "~~" else listed


def read_class(scanner: Scanner) -> CharSet:
    """Read a class, the cursor being at its opening bracket; the result has scalar values only."""
    levels: list[_Level] = []
    _open(scanner, levels)
    while True:
        _skip_space(scanner)
        level = levels[-1]
        if scanner.done():
            hint = r"write \[ for a bracket" if len(levels) > 1 or scanner.position - level.begin == 1 else None
            raise scanner.wrong("the closing bracket of this class is missing", level.begin, hint=hint)
        char = scanner.peek()
        if char == "]":
            scanner.position += 1
            result = _close(scanner, levels.pop())
            if not levels:
                return result
            levels[-1].items += result.ranges
        elif char == "[" and scanner.rust:
            posix = _posix(scanner)
            if posix is None:
                _open(scanner, levels)
            else:
                level.items += _folded(scanner, posix).ranges
        elif scanner.rust and scanner.text[scanner.position : scanner.position + 2] in _OPERATORS:
            operator = scanner.text[scanner.position : scanner.position + 2]
            level.left, level.items, level.operator = level.value(), [], operator
            scanner.position += 2
        else:
            level.items += _folded(scanner, _item(scanner)).ranges


def _skip_space(scanner: Scanner) -> None:
    """Step over white space under the flag x; in Python, that in a class is meant."""
    if not scanner.python:
        scanner.skip_space()


def _open(scanner: Scanner, levels: list[_Level]) -> None:
    """Read an opening bracket."""
    begin = scanner.position
    scanner.position += 1
    level = _Level(begin, scanner.take("^"))
    levels.append(level)
    # A bracket that comes first is meant, except in ECMA-262, where [] matches nothing and [^] everything.
    if not scanner.ecma and scanner.take("]"):
        level.items.append((0x5D, 0x5D))


def _close(scanner: Scanner, level: _Level) -> CharSet:
    """The set of a class that has been read."""
    found = level.value()
    if scanner.ecma and found and not level.negative and not found & SCALARS:
        raise scanner.unsupported(
            "this class has surrogates only, and no text has one",
            level.begin,
            hint=r"write characters beyond U+FFFF as \u{...}",
        )
    return SCALARS - found if level.negative else found & SCALARS


def _folded(scanner: Scanner, symbols: CharSet) -> CharSet:
    """The set, closed under case if the flag i is on."""
    return classes.fold(symbols) if scanner.flags.ignore_case else symbols


def _posix(scanner: Scanner) -> CharSet | None:
    """Read ``[:name:]`` or ``[:^name:]``; None, without a step, if this is none."""
    begin = scanner.position
    if not scanner.text.startswith("[:", begin):
        return None
    end = scanner.text.find(":]", begin + 2)
    name = scanner.text[begin + 2 : end] if end >= 0 else ""
    negative = name.startswith("^")
    if name[negative:] not in _POSIX:
        if name[negative:].isalpha():
            scanner.position = end + 2
            raise scanner.wrong("there is no such POSIX class", begin, hint="one of " + ", ".join(_POSIX))
        return None
    scanner.position = end + 2
    found = _folded(scanner, _POSIX[name[negative:]])
    return SCALARS - found if negative else found


def _item(scanner: Scanner) -> CharSet:
    """Read a character, a range or an escaped class."""
    begin = scanner.position
    low = _member(scanner)
    _skip_space(scanner)
    if scanner.peek() != "-" or scanner.peek(1) in ("]", ""):
        return _as_set(low)
    if scanner.rust and scanner.peek(1) == "-":
        return _as_set(low)  # the operator --
    if not isinstance(low, int):
        # A class cannot start a range, so that the hyphen is one (ECMA-262, Annex B.1.2; RE2 agrees).
        return low
    scanner.position += 1
    _skip_space(scanner)
    if scanner.rust and scanner.peek() == "[":
        return CharSet.of(low, 0x2D)
    high = _member(scanner)
    if not isinstance(high, int):
        return CharSet.of(low, 0x2D) | high
    if high < low:
        raise scanner.wrong("this range is upside down", begin)
    return CharSet.of((low, high))


def _as_set(member: int | CharSet) -> CharSet:
    return CharSet.of(member) if isinstance(member, int) else member


def _member(scanner: Scanner) -> int | CharSet:
    """Read one character or escape of a class."""
    if scanner.peek() == "\\":
        found = read_escape(scanner, in_class=True)
        assert isinstance(found, (int, CharSet))
        return found
    scanner.position += 1
    return ord(scanner.text[scanner.position - 1])
