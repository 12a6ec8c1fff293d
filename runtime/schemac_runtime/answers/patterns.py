r"""ECMA-262 patterns for RE2, which never backtracks.

JSON Schema's patterns are ECMA-262 with the flag u, and so they are read here, with the leniency of Annex B that the
compiler has too (see `docs/regex.md`): ``{``, ``}`` and ``]`` that stand for themselves, escaped punctuation. What RE2
reads differently is written out: ``.``, ``\s``, ``$``, ``[]``, escapes, ``\p{Script=Greek}``, brackets in classes,
counts above 1,000. RE2 has no lookaround; lookaheads right after a ``^`` are checks of their own, all others are
refused, and so are backreferences, the flag m and the Unicode properties that RE2 does not know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from schemac_runtime.answers.problems import AnswerError

_SPACES = r"\x{9}-\x{d}\x{20}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"
_NO_SPACES = (
    r"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
    r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}"
)
#: Members of a class by escape (ECMA-262, 22.2.2.9).
_CLASSES = {
    "d": "0-9",
    "D": r"\x{0}-\x{2f}\x{3a}-\x{10ffff}",
    "w": "0-9A-Za-z_",
    "W": r"\x{0}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{5e}\x{60}\x{7b}-\x{10ffff}",
    "s": _SPACES,
    "S": _NO_SPACES,
}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_ANY = r"[\x{0}-\x{10ffff}]"
_NOTHING = r"[^\x{0}-\x{10ffff}]"
_DOT = r"[^\n\r\x{2028}\x{2029}]"
#: General categories by long name (UAX #44, table 12).
_CATEGORIES = {
    "letter": "L", "casedletter": "", "uppercaseletter": "Lu", "lowercaseletter": "Ll", "titlecaseletter": "Lt",
    "modifierletter": "Lm", "otherletter": "Lo", "mark": "M", "combiningmark": "M", "nonspacingmark": "Mn",
    "spacingmark": "Mc", "enclosingmark": "Me", "number": "N", "decimalnumber": "Nd", "digit": "Nd",
    "letternumber": "Nl", "othernumber": "No", "punctuation": "P", "punct": "P", "connectorpunctuation": "Pc",
    "dashpunctuation": "Pd", "openpunctuation": "Ps", "closepunctuation": "Pe", "initialpunctuation": "Pi",
    "finalpunctuation": "Pf", "otherpunctuation": "Po", "symbol": "S", "mathsymbol": "Sm", "currencysymbol": "Sc",
    "modifiersymbol": "Sk", "othersymbol": "So", "separator": "Z", "spaceseparator": "Zs", "lineseparator": "Zl",
    "paragraphseparator": "Zp", "control": "Cc", "cntrl": "Cc", "format": "Cf", "privateuse": "Co",
}  # fmt: skip
_SHORT_CATEGORIES = frozenset(
    "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp Cc Cf Co".split()
)
_COUNTS = re.compile(r"\{(\d{1,9})(,?)(\d{0,9})\}")
_HEX = frozenset("0123456789abcdefABCDEF")
#: RE2 counts no further.
_RE2_COUNT = 1_000
#: And this is where counts are given up that are written out as several.
_MAX_COUNT = 20_000
_RE2_BYTES = 256 << 20


class Malformed(AnswerError):
    """The text is no pattern at all."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A pattern: all of `checks` must be found in a text, or not be found.

    Attributes:
        checks: compiled RE2 patterns, and whether they must be found.
    """

    checks: tuple[tuple[Any, bool], ...]

    def search(self, text: str) -> bool:
        """Whether the pattern matches some part of a text, as ECMA-262 searches."""
        return all((check.search(text) is not None) is found for check, found in self.checks)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Matcher:
    """A matcher for an ECMA-262 pattern.

    Raises:
        Malformed: it is no pattern.
        AnswerError: RE2 has no means for it.
    """
    import re2

    options = re2.Options()
    options.max_mem = _RE2_BYTES
    options.log_errors = False
    checks = []
    for text, found in translate(pattern):
        try:
            checks.append((re2.compile(text, options), found))
        except re2.error as error:
            _refuse(pattern, f"RE2 refuses it ({_shown(error)})")
    return Matcher(tuple(checks))


def _shown(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _refuse(pattern: str, reason: str) -> NoReturn:
    raise AnswerError(
        f"the pattern {pattern[:80]!r} cannot be checked: {reason}",
        construct="pattern",
        hint="RE2 has no lookaround and no backreferences; the masks themselves do not need this check",
    )


def translate(pattern: str) -> list[tuple[str, bool]]:
    """RE2 patterns, and whether each must be found, that together say what an ECMA-262 pattern says.

    Raises:
        Malformed: it is no pattern.
        AnswerError: RE2 has no means for it.
    """
    return _Translator(pattern).run()


def is_pattern(text: str) -> bool:
    """Whether a text is an ECMA-262 pattern by its syntax, without what other engines add; RE2 need not know it."""
    try:
        _Translator(text, strict=True).run()
    except Malformed:
        return False
    except AnswerError:
        pass  # what is refused up to there is syntax
    return True


class _Translator:
    """One pass over the pattern; `out` holds RE2 text, one entry per item, so that a quantifier finds its operand."""

    def __init__(self, pattern: str, strict: bool = False) -> None:
        self.pattern = pattern
        self.strict = strict
        self.at = 0
        self.out: list[str] = []
        self.dot_all = False
        self.folding = False
        # Per open group: where it starts in `out`, the flags outside, and whether it is a lookahead (None, or wanted).
        self.groups: list[tuple[int, bool, bool, bool | None]] = []
        self.operand = -1  # where the last item starts in `out`, -1 if nothing can be repeated
        self.checks: list[tuple[str, bool]] = []
        self.leading = False  # nothing but `^` and lookaheads came before
        self.alternatives = False  # a `|` outside of groups

    def run(self) -> list[tuple[str, bool]]:
        """Read all of it."""
        if any("\ud800" <= char <= "\udfff" for char in self.pattern):
            self._wrong("it has a lone surrogate")
        self._inline_flags_for_all()
        prefix = "(?i)" if self.folding else ""
        while self.at < len(self.pattern):
            self._step(self.pattern[self.at])
        if self.groups:
            self._wrong("a group is never closed")
        if self.checks and self.alternatives:
            _refuse(self.pattern, "a lookahead stands beside alternatives")
        return [(prefix + text, found) for text, found in (("".join(self.out), True), *self.checks)]

    def _wrong(self, reason: str) -> NoReturn:
        raise Malformed(f"{self.pattern[:80]!r} is no ECMA-262 pattern: {reason}", construct="pattern")

    def _step(self, char: str) -> None:
        leading, self.leading = self.leading, False
        if char == "\\":
            self._escape()
        elif char == "[":
            self._add(self._brackets())
        elif char == "(":
            self._open(leading)
        elif char == ")":
            self._close()
        elif char in "*+?":
            self.at += 1
            self._repeat(char)
        elif char == "{" and (counts := _COUNTS.match(self.pattern, self.at)):
            self.at = counts.end()
            self._count(int(counts[1]), int(counts[1]) if not counts[2] else int(counts[3]) if counts[3] else None)
        else:
            self.at += 1
            self._plain(char)

    def _plain(self, char: str) -> None:
        if char == "|":
            self.out.append("|")
            self.operand = -1
            self.alternatives |= not self.groups
        elif char == "^":
            self.leading = not self.out
            self._add(r"\A")
        elif char == "$":
            self._add(r"\z")
        elif char == ".":
            self._add(_ANY if self.dot_all else _DOT)
        else:
            self._add(_literal(ord(char)))

    def _add(self, text: str) -> None:
        self.operand = len(self.out)
        self.out.append(text)

    # -- quantifiers --------------------------------------------------------------------------------------------

    def _repeat(self, quantifier: str) -> None:
        if self.operand < 0:
            self._wrong("there is nothing to repeat")
        item = "".join(self.out[self.operand :])
        del self.out[self.operand :]
        # In a group of its own, so that no quantifier is read together with an earlier one.
        self.out.append(f"(?:{item}){quantifier}")
        if self.pattern.startswith("?", self.at):
            self.at += 1  # lazy: other matches of the same texts
        self.operand = -1

    def _count(self, low: int, high: int | None) -> None:
        """``{low,high}``, in pieces where RE2 does not count that far."""
        if high is not None and high < low:
            self._wrong("a quantifier is upside down")
        if max(low, high or 0) > _MAX_COUNT:
            _refuse(self.pattern, f"it counts beyond {_MAX_COUNT:,}")
        pieces = [f"{{{_RE2_COUNT}}}"] * (low // _RE2_COUNT)
        rest = low % _RE2_COUNT
        if high is None:
            pieces.append(f"{{{rest},}}")
        else:
            if rest or not low:
                pieces.append(f"{{{rest}}}")
            more = high - low
            pieces += [f"{{0,{_RE2_COUNT}}}"] * (more // _RE2_COUNT)
            if more % _RE2_COUNT:
                pieces.append(f"{{0,{more % _RE2_COUNT}}}")
        start = self.operand
        if start < 0:
            self._wrong("there is nothing to repeat")
        item = "".join(self.out[start:])
        del self.out[start:]
        self.out.append("(?:" + "".join(f"(?:{item}){piece}" for piece in pieces) + ")")
        if self.pattern.startswith("?", self.at):
            self.at += 1
        self.operand = -1

    # -- groups -------------------------------------------------------------------------------------------------

    def _inline_flags_for_all(self) -> None:
        """``(?i)`` at the very start, as other engines have it."""
        flags = re.match(r"\(\?([a-z]+)\)", self.pattern)
        if flags and not self.strict:
            self.at = flags.end()
            self._set_flags(flags[1], True)

    def _set_flags(self, letters: str, value: bool) -> None:
        for letter in letters:
            if letter == "s":
                self.dot_all = value
            elif letter == "i":
                self.folding = value
            elif letter == "m":
                _refuse(self.pattern, "the flag m ends lines at other characters in RE2")
            else:
                self._wrong(f"there is no flag {letter!r}")

    def _open(self, leading: bool) -> None:
        start = len(self.out)
        outside = (self.dot_all, self.folding)
        wanted: bool | None = None
        rest = self.pattern[self.at :]
        if not rest.startswith("(?"):
            self.at += 1
        elif rest.startswith(("(?=", "(?!")):
            if not leading or self.groups:
                _refuse(self.pattern, "it has a lookahead")
            wanted = rest[2] == "="
            self.at += 3
        elif rest.startswith(("(?<=", "(?<!")):
            _refuse(self.pattern, "it has a lookbehind")
        elif (name := re.match(r"\(\?P?<[\w$.]+>", rest)) and not (self.strict and rest[2] == "P"):
            self.at += name.end()
        elif flags := re.match(r"\(\?([a-z]*)(?:-([a-z]+))?:", rest):
            self.at += flags.end()
            self._set_flags(flags[1], True)
            self._set_flags(flags[2] or "", False)
        else:
            self._wrong("there is no such group")
        self.groups.append((start, *outside, wanted))
        self.out.append("(?i:" if self.folding else "(?-i:")
        self.operand = -1

    def _close(self) -> None:
        self.at += 1
        if not self.groups:
            self._wrong("a parenthesis closes nothing")
        start, self.dot_all, self.folding, wanted = self.groups.pop()
        self.out.append(")")
        self.operand = start
        if wanted is not None:
            self.checks.append((r"\A" + "".join(self.out[start:]), wanted))
            del self.out[start:]
            self.operand = -1
            self.leading = True

    # -- escapes and classes ------------------------------------------------------------------------------------

    def _escape(self) -> None:
        begin = self.at
        letter = self.pattern[begin + 1 : begin + 2]
        if letter in ("b", "B"):
            if self.folding:
                _refuse(self.pattern, "it ignores case at a word boundary")
            self.at += 2
            self._add("\\" + letter)
        elif letter == "k" or (letter.isascii() and letter.isdigit() and letter != "0"):
            _refuse(self.pattern, "it has a backreference")
        else:
            member = self._member()
            self._add(f"[{member}]" if isinstance(member, str) else _literal(member))

    def _member(self) -> int | str:
        """Read a character or an escape: a code point, or members of a class."""
        char = self.pattern[self.at]
        self.at += 1
        if char != "\\":
            return ord(char)
        letter = self.pattern[self.at : self.at + 1]
        self.at += 1
        if not letter:
            self._wrong("a backslash ends it")
        if letter in _CLASSES:
            if letter == "W" and self.folding:  # RE2 folds what is written out, ECMA-262 (22.2.2.9.3) its complement
                _refuse(self.pattern, "it ignores the case of \\W")
            return _CLASSES[letter]
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "xu":
            return self._numeric(letter)
        if letter in "pP":
            return self._property(letter == "P")
        if letter == "0" and not self.pattern[self.at : self.at + 1].isdigit():
            return 0
        if letter == "c" and (control := self.pattern[self.at : self.at + 1]).isascii() and control.isalpha():
            self.at += 1
            return ord(control) % 32
        if letter.isascii() and letter.isalnum():
            self._wrong(f"there is no escape \\{letter}")
        return ord(letter)

    def _numeric(self, letter: str) -> int:
        if letter == "u" and self.pattern.startswith("{", self.at):
            end = self.pattern.find("}", self.at)
            digits = self.pattern[self.at + 1 : end] if end > 0 else ""
            self.at = end + 1
        else:
            width = 2 if letter == "x" else 4
            digits = self.pattern[self.at : self.at + width]
            self.at += width
            if len(digits) < width:
                digits = ""
        if not digits or not _HEX.issuperset(digits) or int(digits, 16) > 0x10FFFF:
            self._wrong(f"hexadecimal digits are expected after \\{letter}")
        code = int(digits, 16)
        low = self.pattern[self.at + 2 : self.at + 6]
        if 0xD800 <= code < 0xDC00 and self.pattern.startswith("\\u", self.at) and _HEX.issuperset(low):
            value = int(low or "0", 16)
            if 0xDC00 <= value < 0xE000:
                self.at += 6
                return 0x10000 + ((code - 0xD800) << 10) + (value - 0xDC00)
        if 0xD800 <= code < 0xE000:
            _refuse(self.pattern, "it has a lone surrogate")
        return code

    def _property(self, negative: bool) -> str:
        named = re.compile(r"\{([\w=. -]+)\}").match(self.pattern, self.at)
        if not named:
            self._wrong("a property in braces is expected")
        self.at = named.end()
        key, separator, value = named[1].partition("=")
        if self.folding:
            _refuse(self.pattern, "it ignores the case of a Unicode property")
        name: str | None
        if not separator:
            name = _category(key)
        elif key.lower() in ("gc", "general_category", "generalcategory"):
            name = _category(value)
        elif key.lower() in ("sc", "script"):
            name = value.strip()
        else:
            name = None
        if named[1] in ("Any", "ASCII"):
            end = "10ffff" if named[1] == "Any" else "7f"
            if negative:
                return r"\x{80}-\x{10ffff}" if named[1] == "ASCII" else _refuse(self.pattern, "it excludes everything")
            return rf"\x{{0}}-\x{{{end}}}"
        if not name:
            _refuse(self.pattern, f"RE2 does not know the property {named[1]}")
        return f"\\{'P' if negative else 'p'}{{{name}}}"

    def _brackets(self) -> str:
        """A class, the cursor being at its opening bracket."""
        self.at += 1
        negative = self.pattern.startswith("^", self.at)
        self.at += negative
        members: list[str] = []
        while not self.pattern.startswith("]", self.at):
            if self.at >= len(self.pattern):
                self._wrong("the closing bracket of a class is missing")
            low = self._class_member()
            hyphen = self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at)
            if not hyphen or self.at + 1 >= len(self.pattern) or isinstance(low, str):
                members.append(low if isinstance(low, str) else _literal(low))
                continue
            self.at += 1
            high = self._class_member()
            if isinstance(high, str):  # a class ends no range, so that the hyphen is one (Annex B.1.2)
                members += [_literal(low), _literal(0x2D), high]
                continue
            if high < low:
                self._wrong("a range is upside down")
            members.append(f"{_literal(low)}-{_literal(high)}")
        self.at += 1
        if not members:
            return _ANY if negative else _NOTHING
        return f"[{'^' * negative}{''.join(members)}]"

    def _class_member(self) -> int | str:
        if self.pattern.startswith("\\b", self.at):
            self.at += 2
            return 8
        return self._member()


def _category(name: str) -> str | None:
    """The short name of a general category that RE2 knows."""
    if name in _SHORT_CATEGORIES:
        return name
    return _CATEGORIES.get(name.replace("_", "").replace(" ", "").lower())


def _literal(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:x}}}"
