"""What all parts of the regex parser share: the text, the position in it, the flags, and errors with their place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from schemac.errors import SourceError, UnsupportedError

Dialect = Literal["rust", "ecma", "python"]


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags in force at a position."""

    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    extended: bool = False

    def with_letter(self, letter: str, value: bool) -> Flags:
        """These flags with one of i, m, s, x set or cleared."""
        if letter == "i":
            return replace(self, ignore_case=value)
        if letter == "m":
            return replace(self, multi_line=value)
        if letter == "s":
            return replace(self, dot_all=value)
        return replace(self, extended=value)


class Scanner:
    """A cursor over a pattern.

    Args:
        text: the pattern.
        dialect: ``rust``, ``ecma`` or ``python``.
        place: where the pattern is in its source, as a prefix of the places in errors.
    """

    def __init__(self, text: str, dialect: Dialect, place: str) -> None:
        self.text = text
        self.position = 0
        self.dialect: Dialect = dialect
        self.flags = Flags()
        self._place = place

    @property
    def ecma(self) -> bool:
        """Whether ECMA-262 is read."""
        return self.dialect == "ecma"

    @property
    def rust(self) -> bool:
        """Whether the syntax of RE2 and Rust is read."""
        return self.dialect == "rust"

    @property
    def python(self) -> bool:
        """Whether the syntax of Python's `re` is read."""
        return self.dialect == "python"

    def place(self, position: int) -> str:
        """The line and column (from 1, in characters) of a position."""
        line = self.text.count("\n", 0, position) + 1
        column = position - (self.text.rfind("\n", 0, position) + 1) + 1
        return f"{self._place}:{line}:{column}" if self._place else f"{line}:{column}"

    def wrong(self, reason: str, begin: int, *, hint: str | None = None) -> SourceError:
        """An error about the text from `begin` to the cursor."""
        return SourceError(reason, place=self.place(begin), construct=self.excerpt(begin), hint=hint)

    def unsupported(self, reason: str, begin: int, *, hint: str | None = None) -> UnsupportedError:
        """A refusal of the construct from `begin` to the cursor."""
        return UnsupportedError(reason, place=self.place(begin), construct=self.excerpt(begin), hint=hint)

    def excerpt(self, begin: int) -> str | None:
        """The text from `begin` to the cursor, shortened."""
        part = self.text[begin : max(self.position, begin + 1)]
        return (part if len(part) <= 40 else part[:37] + "...") or None

    def done(self) -> bool:
        """Whether all has been read."""
        return self.position >= len(self.text)

    def peek(self, ahead: int = 0) -> str:
        """The character at the cursor (or further on); empty at the end."""
        index = self.position + ahead
        return self.text[index] if index < len(self.text) else ""

    def take(self, expected: str) -> bool:
        """Step over `expected` if it is next."""
        if self.text.startswith(expected, self.position):
            self.position += len(expected)
            return True
        return False

    def until(self, end: str) -> str | None:
        """Step over the text before `end` and over `end` itself; None, without a step, if it never comes."""
        index = self.text.find(end, self.position)
        if index < 0:
            return None
        found = self.text[self.position : index]
        self.position = index + len(end)
        return found

    def skip_space(self) -> None:
        """Under the flag x, step over white space and comments."""
        if not self.flags.extended:
            return
        while not self.done():
            if self.peek().isspace():
                self.position += 1
            elif self.peek() == "#":
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end + 1
            else:
                return
