"""What a package holds for one kind of machine: compiled kernels or modules as named blobs, and a JSON description.

Nothing here looks into a blob: `schemac_runtime.device` and others do, when a caller asks for them. Loading a package
reads these bytes and checks their digests; it runs none of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemac_runtime.errors import PackageError
from schemac_runtime.program import Program

#: ``family:machine``, such as ``triton:sm_90``.
TARGET_NAME = re.compile(r"[a-z][a-z0-9]*:[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
#: Most blobs that one package may name, so that a hostile manifest is refused early.
MOST_BLOBS = 65_536


@dataclass(frozen=True, eq=False)
class TargetArtifact:
    """What was made for one target and one linked program.

    Attributes:
        target: such as ``triton:sm_90``; the part before the colon is the family.
        fingerprint: of the vocabulary whose program it belongs to.
        manifest: what the family needs to use the blobs; JSON.
        blobs: bytes by name.
    """

    target: str
    fingerprint: str
    manifest: Mapping[str, Any]
    blobs: Mapping[str, bytes]

    @property
    def family(self) -> str:
        """The part of the target before the colon."""
        return self.target.partition(":")[0]

    def blob(self, name: str) -> bytes:
        """The bytes of one blob.

        Raises:
            PackageError: there is no such blob.
        """
        try:
            return self.blobs[name]
        except KeyError:
            held = ", ".join(self.blobs) or "none"
            raise PackageError(f"{self.target}: there is no blob {name!r} (held: {held})") from None


def digest_of(data: bytes) -> str:
    """The name that a blob is stored under: its SHA-256, hex."""
    return hashlib.sha256(data).hexdigest()


def read_targets(
    manifest: Mapping[str, Any], programs: Sequence[Program], read: Callable[[int, int], bytes]
) -> tuple[TargetArtifact, ...]:
    """The artifacts that a package's manifest describes; every digest is checked.

    Args:
        manifest: that of the package.
        programs: the linked programs in it.
        read: the bytes of (offset, length); refuses what lies outside the file.

    Raises:
        PackageError: an entry is malformed, names a program or blob that is not there, or a blob is damaged.
    """
    table = manifest.get("blobs", {})
    if not isinstance(table, dict) or len(table) > MOST_BLOBS:
        raise PackageError("the list of blobs is damaged", construct="blobs")
    blobs: dict[str, bytes] = {}
    for digest, (offset, length) in table.items():
        data = blobs[digest] = read(offset, length)
        if digest_of(data) != digest:
            raise PackageError(f"the blob {digest[:12]} is not what its digest says", construct="blobs")
    fingerprints = {program.fingerprint for program in programs}
    found: dict[tuple[str, str], TargetArtifact] = {}
    entries = manifest.get("targets", [])
    if not isinstance(entries, list):
        raise PackageError("the list of targets is damaged", construct="targets")
    for entry in entries:
        name, fingerprint, description, names = (entry[key] for key in ("target", "fingerprint", "manifest", "blobs"))
        if not isinstance(name, str) or not TARGET_NAME.match(name):
            raise PackageError(f"no target is called {name!r}", construct="targets")
        if fingerprint not in fingerprints or (name, fingerprint) in found:
            raise PackageError(f"{name}: for a program that is not here, or twice for one", construct="targets")
        if not isinstance(description, dict) or not isinstance(names, dict):
            raise PackageError(f"{name}: the description is damaged", construct="targets")
        lacking = [blob for blob, digest in names.items() if digest not in blobs]
        if lacking:
            raise PackageError(f"{name}: the blob {lacking[0]!r} is not in the file", construct="targets")
        own = {blob: blobs[digest] for blob, digest in names.items()}
        found[name, fingerprint] = TargetArtifact(name, fingerprint, description, own)
    return tuple(found.values())
