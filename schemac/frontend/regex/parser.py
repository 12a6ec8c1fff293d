r"""From pattern text to syntax tree, without recursion.

Three dialects:

- ``rust``: the syntax of RE2 and Rust's `regex`, plus lookaround. ``\d \w \s \b`` know all of Unicode, as in Rust.
- ``ecma``: ECMA-262 with the flag u, as JSON Schema recommends, and where Annex B lets ``{``, ``}``, ``]`` and
  escaped punctuation stand for themselves. ``\d \w \b`` are ASCII. Inline flags come as ``(?i:...)`` (ECMA-262, 2025
  edition) or, as other engines have it, once at the start of the pattern.
- ``python``: the syntax of Python's `re`, plus ``\p``, as Lark's terminals have it. ``\d \w \s \b`` know all of Unicode
  in Python's way.

Lazy quantifiers match the same texts as greedy ones; in the python dialect, the tree tells them apart. Possessive
quantifiers, atomic groups, backreferences, conditionals and recursion are refused.
"""

from __future__ import annotations

from schemac.errors import SourceError
from schemac.frontend.regex import ast
from schemac.frontend.regex import unicode_classes as classes
from schemac.frontend.regex.ast import Anchor, Chars, Node
from schemac.frontend.regex.brackets import read_class
from schemac.frontend.regex.escapes import BACKREFERENCE, BACKREFERENCE_HINT, read_escape
from schemac.frontend.regex.scanner import Dialect, Flags, Scanner
from schemac.ir.charset import SCALARS, CharSet

_LINE_FEED = CharSet.of(10)
_ECMA_LINE_TERMINATORS = CharSet.of(10, 13, 0x2028, 0x2029)  # ECMA-262, clause 12.3
_LOOKS = {"=": (True, False), "!": (True, True), "<=": (False, False), "<!": (False, True)}
_MAX_LOOKS = 50
_DIGITS = frozenset("0123456789")


class _Group:
    """One open group, or the whole pattern."""

    __slots__ = ("alternatives", "begin", "flags", "items", "look")

    def __init__(self, begin: int, flags: Flags, look: tuple[bool, bool] | None) -> None:
        self.begin = begin
        self.flags = flags  # to be restored at its end
        self.look = look  # (ahead, negative)
        self.alternatives: list[Node] = []
        self.items: list[Node] = []

    def finish(self) -> Node:
        """The tree of what the group holds."""
        self.alternatives.append(ast.concat(self.items))
        whole = ast.alternate(self.alternatives)
        return whole if self.look is None else ast.Look(whole, *self.look)


def parse(text: str, *, dialect: Dialect, flags: str = "", place: str = "") -> Node:
    """Parse a pattern.

    Args:
        text: the pattern, without delimiters.
        dialect: ``rust``, ``ecma`` or ``python``.
        flags: letters that hold for the whole pattern: i, m, s, and of the rust dialect x.
        place: where the pattern stands, for errors; ``line:column`` within it is appended.

    Raises:
        SourceError: the pattern is malformed.
        UnsupportedError: the pattern is fine and not regular, or of a kind that is not known.
    """
    return _Parser(text, dialect, flags, place).parse()


class _Parser(Scanner):
    def __init__(self, text: str, dialect: Dialect, flags: str, place: str) -> None:
        super().__init__(text, dialect, place)
        for letter in flags:
            if letter not in ("imsu" if self.ecma else "imsxuU"):
                raise SourceError(f"there is no regex flag {letter!r} in the {dialect} dialect", place=place or None)
            if letter not in "uU":
                self.flags = self.flags.with_letter(letter, True)
        self._groups = [_Group(0, self.flags, None)]
        self._looks = 0  # open lookarounds
        self._repeatable = False  # whether a quantifier may follow
        self._singles: dict[tuple[str, bool], Node] = {}

    def parse(self) -> Node:
        """Read all of it."""
        for index, char in enumerate(self.text):
            if "\ud800" <= char <= "\udfff":
                self.position = index
                raise self.wrong("the pattern has a lone surrogate", index)
        while True:
            self.skip_space()
            if self.done():
                break
            self._step(self.peek())
        if len(self._groups) > 1:
            raise self.wrong("this group is never closed", self._groups[-1].begin, hint=r"write \( for a parenthesis")
        return self._groups[0].finish()

    def _step(self, char: str) -> None:
        """Read one construct."""
        begin = self.position
        if char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char == "|":
            self.position += 1
            group = self._groups[-1]
            group.alternatives.append(ast.concat(group.items))
            group.items = []
            self._repeatable = False
        elif char in "*+?":
            self.position += 1
            self._quantify(0 if char != "+" else 1, 1 if char == "?" else None, begin)
        elif char == "{" and (counts := self._counts()) is not None:
            self._quantify(*counts, begin)
        elif char == "[":
            self._add(Chars(read_class(self)))
        elif char == "\\":
            self._escape()
        elif char == ".":
            self.position += 1
            line_ends = _ECMA_LINE_TERMINATORS if self.ecma else _LINE_FEED
            self._add(Chars(SCALARS if self.flags.dot_all else SCALARS - line_ends))
        elif char in "^$":
            self.position += 1
            if self.flags.multi_line:
                line_ends = _ECMA_LINE_TERMINATORS if self.ecma else _LINE_FEED
                self._add(Anchor("line_end" if char == "$" else "line_start", line_ends))
            else:
                self._add(Anchor("end" if char == "$" else "start"))
        else:
            self.position += 1
            self._add(self._single(char))

    def _add(self, node: Node) -> None:
        self._groups[-1].items.append(node)
        self._repeatable = True

    def _single(self, char: str) -> Node:
        """One character, in all its cases under the flag i."""
        key = (char, self.flags.ignore_case)
        node = self._singles.get(key)
        if node is None:
            symbols = CharSet.of(ord(char))
            node = self._singles[key] = Chars(classes.fold(symbols) if key[1] else symbols)
        return node

    def _escape(self) -> None:
        begin = self.position
        if self.rust and self.take("\\Q"):
            quoted = self.until("\\E")
            if quoted is None:
                quoted, self.position = self.text[self.position :], len(self.text)
            for char in quoted:
                self._add(self._single(char))
            return
        found = read_escape(self, in_class=False)
        if isinstance(found, int):
            if 0xD800 <= found <= 0xDFFF:
                raise self.unsupported(
                    "this is a lone surrogate, and no text has one",
                    begin,
                    hint=r"write characters beyond U+FFFF as \u{...}",
                )
            self._add(self._single(chr(found)))
        elif isinstance(found, CharSet):
            self._add(Chars(found))
        else:
            self._add(found)

    # -- quantifiers --------------------------------------------------------------------------------------------

    def _counts(self) -> tuple[int, int | None] | None:
        """Read ``{n}``, ``{n,}`` or ``{n,m}``; None, without a step, where the brace stands for itself."""
        begin = self.position
        end = begin + 1
        inside = "0123456789, " if self.flags.extended else "0123456789,"
        while end < len(self.text) and self.text[end] in inside:
            end += 1
        low, comma, high = self.text[begin + 1 : end].replace(" ", "").partition(",")
        if self.text[end : end + 1] != "}" or "," in high or not (low or high):
            return None
        self.position = end + 1
        if not low and not self.python:
            raise self.unsupported("engines differ on this quantifier", begin, hint=f"write {{0,{high}}}")
        least = _number(low or "0")
        most = least if not comma else _number(high) if high else None
        if most is not None and most < least:
            raise self.wrong("this quantifier is upside down", begin)
        return least, most

    def _quantify(self, low: int, high: int | None, begin: int) -> None:
        """Apply a quantifier to the last item."""
        if not self._repeatable:
            raise self.wrong("there is nothing to repeat here", begin, hint="escape it with a backslash")
        self.skip_space()
        lazy = False
        if self.take("?"):
            lazy = self.python  # another match, the same texts
        elif self.take("+"):
            raise self.unsupported(
                "possessive quantifiers are not known", begin, hint="leave out the +, or use a lookahead"
            )
        items = self._groups[-1].items
        items[-1] = ast.repeat(items[-1], low, high, lazy=lazy)
        self._repeatable = False

    # -- groups -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        begin = self.position
        self.position += 1
        before = self.flags
        look: tuple[bool, bool] | None = None
        if self.take("?"):
            for opening in ("=", "!", "<=", "<!"):
                if self.take(opening):
                    look = _LOOKS[opening]
                    break
            else:
                if self._special(begin):
                    return
        if look is not None:
            self._looks += 1
            if self._looks > _MAX_LOOKS:
                raise self.unsupported(f"lookarounds are nested more than {_MAX_LOOKS} deep", begin)
        self._groups.append(_Group(begin, before, look))
        self._repeatable = False

    def _special(self, begin: int) -> bool:
        """Read what follows ``(?``; True if that was all of it, as in ``(?i)``."""
        if self.take(":"):
            return False
        if self.take("<") or self.take("P<"):
            name = self.until(">")
            if not name or not name.replace("$", "_").replace(".", "_").isidentifier():
                raise self.wrong("this group has no proper name", begin)
            return False
        if self.take("P=") or self.take("P>") or self.take("&") or self.take("R") or self.peek() in _DIGITS:
            reference = self.text.startswith("P=", begin + 2)
            self.until(")")
            if reference:
                raise self.unsupported(BACKREFERENCE, begin, hint=BACKREFERENCE_HINT)
            raise self.unsupported("recursion is not regular", begin, hint="use a grammar (Lark or GBNF) instead")
        if self.take(">"):
            raise self.unsupported("atomic groups are not known", begin, hint="write (?:...) or use a lookahead")
        if self.take("("):
            raise self.unsupported("conditionals are not known", begin, hint="write out both alternatives")
        if self.python and self.take("#"):
            if self.until(")") is None:
                raise self.wrong("this comment never ends", begin)
            return True
        if self.take("#"):
            raise self.unsupported("comment groups are not known", begin, hint="leave it out")
        return self._inline_flags(begin)

    def _inline_flags(self, begin: int) -> bool:
        value = True
        seen = False
        flags = self.flags
        while self.peek() not in (":", ")", ""):
            letter = self.peek()
            self.position += 1
            if letter == "-" and value:
                value = False
            elif letter in {"ecma": "ims", "rust": "imsxU", "python": "imsx"}[self.dialect]:
                seen = True
                if letter != "U":  # swaps greedy and lazy: the same texts
                    flags = flags.with_letter(letter, value)
            elif letter in "uR" and not self.ecma:
                if letter == "R" or not value:
                    raise self.unsupported("this flag is not known", begin, hint="patterns are always Unicode")
                seen = True
            else:
                raise self.wrong("there is no such group", begin, hint=r"write \( for a parenthesis")
        if self.done() or not seen:
            raise self.wrong("there is no such group", begin, hint=r"write \( for a parenthesis")
        whole = self.take(")")
        if whole and self.ecma and begin > 0:
            raise self.wrong("flags for the rest are only known at the start", begin, hint="write (?i:...)")
        self.flags = flags
        if not whole:
            self.position += 1
            return False
        self._repeatable = False
        return True

    def _close(self) -> None:
        begin = self.position
        self.position += 1
        if len(self._groups) == 1:
            raise self.wrong("this parenthesis closes nothing", begin, hint=r"write \) for a parenthesis")
        group = self._groups.pop()
        self._looks -= group.look is not None
        self.flags = group.flags
        self._add(group.finish())
        # ECMA-262 lets no quantifier follow a lookbehind; with Annex B a lookahead may have one.
        self._repeatable = not (self.ecma and group.look is not None and not group.look[0])


def _number(digits: str) -> int:
    """A count, saturating."""
    digits = digits.lstrip("0")
    return ast.MANY if len(digits) > 18 else int(digits or "0")
