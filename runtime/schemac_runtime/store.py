"""A store: a folder of packages, each named by what it was compiled from.

The name (the *key*) is a SHA-256 over the source in its canonical form, the kind, the options, the fingerprint of the
vocabulary and the version of the package format. Whoever knows these finds the package without reading any other, and
a package under a wrong name is refused. `schemac build` fills a store; see docs/store.md.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from schemac_runtime.errors import PackageError
from schemac_runtime.package import FORMAT, Package, load

#: Kinds whose sources are JSON texts.
JSON_KINDS = ("json-schema", "structural-tag", "tools")
SUFFIX = ".pkg"
#: Options that need not be stated; what is None or False need not be either.
_DEFAULT_OPTIONS = {"whitespace": "flexible", "key_order": "schema"}


def canonical_source(kind: str, source: bytes) -> bytes:
    """The form of a source that a store compiles and names: the same for texts that differ in layout only.

    JSON: no white space, strings with the fewest escapes; keys keep their order, which the masks keep too. Numbers are
    changed only if their value stays the same exactly. A choice becomes a JSON list; a regex loses the line end of its
    file, as it does when it is compiled. What is not such a text stays as it is: the compiler will say what is wrong.
    """
    if kind in JSON_KINDS:
        return _canonical_json(source)
    if kind == "choice":
        return _canonical_choice(source)
    if kind == "regex":
        text = source.removesuffix(b"\n").removesuffix(b"\r")
        return regex_source(text)
    return source


def regex_source(pattern: bytes) -> bytes:
    """The source text of a pattern: the line end that a file may have is added where the pattern ends like one."""
    return pattern + b"\r\n" if pattern.endswith((b"\n", b"\r")) else pattern


def canonical_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those that have their default value, by name."""
    return {
        name: options[name]
        for name in sorted(options)
        if options[name] is not None and options[name] is not False and options[name] != _DEFAULT_OPTIONS.get(name)
    }


def store_key(kind: str, source: bytes, options: Mapping[str, Any], fingerprint: str) -> str:
    """The name of a package in a store, 64 hexadecimal digits.

    Args:
        kind: what the source is, such as ``json-schema``; not ``auto``.
        source: its text, canonical or not.
        options: as the manifest states them.
        fingerprint: of the vocabulary.
    """
    parts = {
        "format": FORMAT,
        "kind": kind,
        "options": canonical_options(options),
        "source": hashlib.sha256(canonical_source(kind, source)).hexdigest(),
        "vocabulary": fingerprint,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def key_of(package: Package, fingerprint: str) -> str:
    """The key that a package should be stored under."""
    manifest = package.manifest
    return store_key(str(manifest["kind"]), package.source, manifest["options"], fingerprint)


class Store:
    """A folder of packages. Reading takes no lock: files appear whole, by renaming, and never change.

    Args:
        path: the folder; it need not exist yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def path_of(self, key: str) -> Path:
        """Where the package of that key is, or would be."""
        return self.path / key[:2] / (key + SUFFIX)

    def load(self, key: str, fingerprint: str) -> Package | None:
        """The package of that key, mapped and verified; None if there is none.

        Raises:
            PackageError: it is damaged, of another format version, or not what its name says.
        """
        path = self.path_of(key)
        if not path.is_file():
            return None
        package = load(path)
        package.program(fingerprint)
        if key_of(package, fingerprint) != key:
            raise PackageError(f"{path}: not what its name says", hint="schemac store verify; then build it again")
        return package

    def entries(self) -> Iterator[Entry]:
        """Every package file, by name. Other files are left out."""
        if not self.path.is_dir():
            return
        for folder in sorted(self.path.iterdir()):
            if len(folder.name) == 2 and folder.is_dir():
                for path in sorted(folder.glob(f"*{SUFFIX}")):
                    key = path.name.removesuffix(SUFFIX)
                    if len(key) == 64 and key.startswith(folder.name):
                        yield Entry(key, path)


class Entry(NamedTuple):
    """A file of a store."""

    key: str
    path: Path


def _canonical_json(source: bytes) -> bytes:
    try:
        value = json.loads(
            source.decode("utf-8-sig"), object_pairs_hook=_distinct, parse_float=_exact, parse_constant=_refuse
        )
        return _dumped(value)
    except (ValueError, RecursionError):
        return source


def _canonical_choice(source: bytes) -> bytes:
    try:
        text = source.decode("utf-8-sig")
        words = json.loads(text) if text.lstrip().startswith("[") else [line for line in text.splitlines() if line]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return source
        return _dumped(words)
    except (ValueError, RecursionError):
        return source


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, separators=(",", ":")).encode()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice")
    return found


def _exact(text: str) -> float:
    value = float(text)
    try:
        equal = Decimal(repr(value)) == Decimal(text)
    except ArithmeticError:  # an exponent beyond what Decimal takes
        equal = False
    if not equal:
        raise ValueError("a number that no float equals")
    return value


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
