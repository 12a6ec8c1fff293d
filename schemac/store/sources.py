"""What a store is built from: a folder of sources, or a manifest that lists them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schemac.errors import SchemacError, SourceError
from schemac.frontend import KEY_ORDERS, KINDS, WHITESPACE, detect_kind
from schemac.frontend.reasoning import ReasoningPrefix

#: What the kind of a file is by its name; None leaves it to the content.
SUFFIXES = {".json": None, ".lark": "lark", ".gbnf": "gbnf", ".ebnf": "gbnf", ".regex": "regex"}
_LIMITS = ("whitespace_limit", "digit_limit")
_OPTIONS = ("whitespace", "strict", "draft", "openapi_nullable", "key_order", *_LIMITS)
_ENTRY = ("file", "kind", *_OPTIONS, "reasoning_end")


@dataclass(frozen=True)
class Source:
    """One file to compile, or what is wrong with it.

    Attributes:
        name: the file as reports name it.
        kind, text: of the source; meaningless with a problem.
        options: as the manifest of a package states them.
        problem: why it cannot be compiled, or None.
    """

    name: str
    kind: str
    text: bytes
    options: Mapping[str, Any]
    problem: SchemacError | None = None


def read_sources(where: Path, options: Mapping[str, Any]) -> list[Source]:
    """The sources of a folder (every file with a suffix of `SUFFIXES`, at any depth, by name) or of a manifest.

    A manifest is a JSON object with a list ``sources``. An entry is the path of a file, from the manifest's folder,
    or an object with ``file`` and any of ``kind``, ``whitespace``, ``strict``, ``draft``,
    ``openapi_nullable``, ``key_order``, ``whitespace_limit``, ``digit_limit``, ``reasoning_end``, which count before
    `options`.

    Raises:
        SourceError: there is no such folder or manifest, or the manifest is not one.
    """
    if where.is_dir():
        files = sorted(path for path in where.rglob("*") if path.suffix in SUFFIXES and path.is_file())
        return [_source(path, path.relative_to(where).as_posix(), {}, options) for path in files]
    try:
        manifest = json.loads(where.read_bytes())
    except OSError as error:
        raise SourceError(error.strerror or str(error), place=str(where)) from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"not a manifest: {error}", place=str(where), hint="give a folder, or a JSON file") from None
    listed = manifest.get("sources") if isinstance(manifest, dict) else None
    if not isinstance(listed, list):
        raise SourceError("not a manifest: it has no list `sources`", place=str(where))
    found = []
    for index, item in enumerate(listed):
        entry = {"file": item} if isinstance(item, str) else item
        place = f"{where}#/sources/{index}"
        if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
            raise SourceError("expected a path, or an object with `file`", place=place)
        unknown = sorted(set(entry) - set(_ENTRY))
        if unknown:
            hint = "known are " + ", ".join(_ENTRY)
            raise SourceError("there is no such entry", place=place, construct=unknown[0], hint=hint)
        for name, allowed in (("kind", KINDS), ("whitespace", WHITESPACE), ("key_order", KEY_ORDERS)):
            if name in entry and entry[name] not in allowed:
                hint = "one of " + ", ".join(allowed)
                raise SourceError(f"there is no {name} {entry[name]!r}", place=place, construct=name, hint=hint)
        for name in _LIMITS:
            if not isinstance(entry.get(name), (int, type(None))) or isinstance(entry.get(name), bool):
                raise SourceError("a limit is a whole number", place=place, construct=name)
        found.append(_source(where.parent / entry["file"], entry["file"], entry, options))
    return found


def _source(path: Path, name: str, entry: Mapping[str, Any], options: Mapping[str, Any]) -> Source:
    own = {key: entry[key] for key in _OPTIONS if key in entry}
    if "reasoning_end" in entry:
        own["reasoning"] = reasoning_option(entry["reasoning_end"])
    own = {**options, **own}
    try:
        text = path.read_bytes()
        kind = entry.get("kind") or SUFFIXES.get(path.suffix) or detect_kind(text)
    except OSError as error:
        return Source(name, "", b"", own, SourceError(error.strerror or str(error)))
    except SchemacError as error:
        return Source(name, "", b"", own, error)
    return Source(name, kind, text, own)


def reasoning_option(end: str | None) -> dict[str, Any] | None:
    """The option `reasoning` for an end marker, as a package's manifest states it."""
    return None if end is None else asdict(ReasoningPrefix(end))
