"""The error hierarchy, shared by compiler and runtime.

Every error names the place in the source, the construct, the reason and a way out, as far as they are known.
The text is built from these parts, so that tools can read the parts instead of parsing the text.
"""

from __future__ import annotations


class SchemacError(Exception):
    """Base of every error that a user of schemac is meant to see.

    Attributes:
        reason: what is wrong, in one clause.
        place: JSON pointer (``#/properties/a``) or ``line:column`` in the source, if known.
        construct: the keyword, operator or option concerned, if any.
        hint: what to do about it, if something helps.
    """

    def __init__(
        self,
        reason: str,
        *,
        place: str | None = None,
        construct: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place
        self.construct = construct
        self.hint = hint

    def __str__(self) -> str:
        where = " ".join(part for part in (self.place, self.construct and f"`{self.construct}`") if part)
        text = f"{where}: {self.reason}" if where else self.reason
        return f"{text} ({self.hint})" if self.hint else text


class PackageError(SchemacError):
    """A package is damaged, of another format version, or does not hold what was asked of it."""


class MatcherError(SchemacError):
    """A matcher was called in a way that its contract forbids, such as with a mask of the wrong shape."""


class DeviceError(SchemacError):
    """A program cannot run on a device, or a device, kernel or buffer was used against its contract."""
