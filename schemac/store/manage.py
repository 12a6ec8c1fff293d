"""Looking after a store: what is in it, whether it is whole, and what can go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from schemac.errors import PackageError
from schemac_runtime.package import load
from schemac_runtime.store import Store, key_of

#: A writer that has not renamed its file for so long (seconds) is gone.
ABANDONED = 3600.0


@dataclass(frozen=True)
class Listed:
    """A package of a store.

    Attributes:
        key, path, size: of the file; size in bytes.
        built: when it was built, or was last found up to date by a build, in seconds since the epoch.
        kind, tokenizer, fingerprint, states, version: what it holds; version is that of the compiler.
        problem: why it cannot be used, or None.
    """

    key: str
    path: Path
    size: int
    built: float
    kind: str = ""
    tokenizer: str = ""
    fingerprint: str = ""
    states: int = 0
    version: str = ""
    problem: str | None = None


def listed(store: Store) -> Iterator[Listed]:
    """Every package of a store, by key, each read and verified."""
    for key, path in store.entries():
        try:
            status = path.stat()
        except FileNotFoundError:  # removed meanwhile
            continue
        try:
            package = load(path)
            fingerprints = [program.fingerprint for program in package.programs]
            match = [name for name in fingerprints if key_of(package, name) == key]
            if not match:
                raise PackageError("not what its name says")
            program = package.program(match[0])
        except PackageError as error:
            yield Listed(key, path, status.st_size, status.st_mtime, problem=str(error))
            continue
        yield Listed(
            key, path, status.st_size, status.st_mtime, str(package.manifest["kind"]), program.tokenizer,
            program.fingerprint, len(package.arrays["automaton/owner"]), str(package.manifest["schemac"]),
        )  # fmt: skip


def collect(
    store: Store, *, days: float | None = None, max_bytes: int | None = None, dry_run: bool = False
) -> Iterator[tuple[Path, int, str]]:
    """Remove what is of no use, and yield (path, bytes, why) of each file.

    Removed are files that a writer left half done more than an hour ago, packages that cannot be read, those that no
    build has made or found up to date for `days` days, and then the oldest until at most `max_bytes` are left.
    """
    now = time.time()
    for path in sorted(store.path.glob("*/.schemac-*.tmp")):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if now - status.st_mtime > ABANDONED:
            yield from _remove(path, status.st_size, "left by a writer", dry_run)
    kept = []
    for item in listed(store):
        if item.problem is not None:
            yield from _remove(item.path, item.size, "cannot be read", dry_run)
        elif days is not None and now - item.built > days * 86400:
            yield from _remove(item.path, item.size, f"not asked for in {days:g} days", dry_run)
        else:
            kept.append(item)
    if max_bytes is None:
        return
    total = sum(item.size for item in kept)
    for item in sorted(kept, key=lambda item: (item.built, item.key)):
        if total <= max_bytes:
            return
        total -= item.size
        yield from _remove(item.path, item.size, "the oldest", dry_run)


def _remove(path: Path, size: int, why: str, dry_run: bool) -> Iterator[tuple[Path, int, str]]:
    if not dry_run:
        path.unlink(missing_ok=True)
    yield path, size, why
