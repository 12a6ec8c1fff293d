"""Errors and warnings of a source within another source: where they are in the outer one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schemac.errors import SchemacError


@contextmanager
def located(place: str) -> Iterator[None]:
    """Put `place`, that of the inner source, before the places of errors raised inside."""
    try:
        yield
    except SchemacError as error:
        error.place = moved(place, error.place)
        raise


def moved(place: str, inner: str | None) -> str:
    """The place in the outer source of a place in an inner one, which may be a JSON pointer or line:column."""
    if inner is None or inner == "#":
        return place
    if inner.startswith("#/"):
        return place + inner[1:]
    return inner if "#" in inner else f"{place}:{inner}"
