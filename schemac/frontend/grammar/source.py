"""A grammar's text with places in it, and what is reported about it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar

from schemac.errors import SchemacError, SourceError, UnsupportedError

_Error = TypeVar("_Error", bound=SchemacError)
_EXCERPT = 40


class Source:
    """The text of one grammar file.

    Args:
        text: all of it.
        name: what stands in front of ``line:column`` in places; empty for the grammar itself.
    """

    def __init__(self, text: str, name: str = "") -> None:
        self.text = text
        self.name = name
        self._lines = [0]
        self._lines += [index + 1 for index, char in enumerate(text) if char == "\n"]
        for index, char in enumerate(text):
            if "\ud800" <= char <= "\udfff":
                raise self.wrong("the grammar has a lone surrogate", index)

    def place(self, position: int) -> str:
        """``line:column`` of a position, both from 1, the column in characters."""
        line = bisect_right(self._lines, position)
        place = f"{line}:{position - self._lines[line - 1] + 1}"
        return f"{self.name}:{place}" if self.name else place

    def wrong(
        self, reason: str, begin: int, end: int | None = None, *, construct: str | None = None, hint: str | None = None
    ) -> SourceError:
        """An error about the text from `begin` to `end`."""
        return self._error(SourceError, reason, begin, end, construct, hint)

    def unsupported(
        self, reason: str, begin: int, end: int | None = None, *, construct: str | None = None, hint: str | None = None
    ) -> UnsupportedError:
        """A refusal of the construct from `begin` to `end`."""
        return self._error(UnsupportedError, reason, begin, end, construct, hint)

    def _error(
        self, kind: type[_Error], reason: str, begin: int, end: int | None, construct: str | None, hint: str | None
    ) -> _Error:
        if construct is None and end is not None and end > begin:
            construct = self.text[begin : min(end, begin + _EXCERPT + 1)].partition("\n")[0]
        if construct and len(construct) > _EXCERPT:
            construct = construct[:_EXCERPT] + "..."
        return kind(reason, place=self.place(begin), construct=construct or None, hint=hint)


class Notes:
    """Warnings, or with `strict` errors, about what a grammar contains that constrains nothing."""

    def __init__(self, warn: Callable[[str], None] | None, *, strict: bool) -> None:
        self._warn = warn
        self._strict = strict

    def note(self, reason: str, place: str, construct: str, hint: str | None = None) -> None:
        """Report one thing.

        Raises:
            SourceError: notes are errors.
        """
        error = SourceError(reason, place=place, construct=construct, hint=hint)
        if self._strict:
            raise error
        if self._warn is not None:
            self._warn(str(error))
