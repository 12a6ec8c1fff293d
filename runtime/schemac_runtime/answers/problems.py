"""What can be wrong with an answer, and with checking it."""

from __future__ import annotations

from dataclasses import dataclass

from schemac_runtime.errors import SchemacError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an answer. `str()` gives one line.

    Attributes:
        reason: what is wrong.
        place: JSON pointer into the answer (``#/items/0``), or ``line:column`` where it is not JSON.
        construct: the keyword that objects, if it is one.
        schema_place: JSON pointer of that keyword in the schema, references followed; None if no keyword objects.
    """

    reason: str
    place: str
    construct: str | None = None
    schema_place: str | None = None

    def __str__(self) -> str:
        where = f"{self.place} `{self.construct}`" if self.construct else self.place
        return f"{where}: {self.reason}"


class AnswerError(SchemacError):
    """The answer cannot be checked: the schema needs something that is not at hand, or is no JSON Schema."""


def pointer(*parts: str | int) -> str:
    """A JSON pointer in its URI fragment form (RFC 6901), without percent-encoding."""
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
