"""The file format `grammar.pkg`: reading and verifying. `docs/package-format.md` specifies it.

A package is a ZIP archive of uncompressed members: `manifest.json` first, then NumPy `.npy` arrays, each array's data
aligned to 64 bytes, so that the whole file is mapped and used in place. `unzip -l` and `numpy.load` read it. The
manifest states offset, dtype and shape of every array and one SHA-256 over everything between itself and the directory;
its own checksum is the CRC-32 of its ZIP header.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from schemac_runtime.errors import PackageError
from schemac_runtime.guards import GuardTables
from schemac_runtime.program import Program, Tables
from schemac_runtime.targets import TargetArtifact, read_targets
from schemac_runtime.verifier import verify_tables

#: Version of the format; a reader refuses any other.
FORMAT = 2
MANIFEST = "manifest.json"
ALIGNMENT = 64
DTYPES = ("uint8", "int32", "int64")
#: ZIP local file header: signature, version, flags, method, time, date, CRC-32, sizes, name and extra lengths.
LOCAL_HEADER = struct.Struct("<IHHHHHIIIHH")
LOCAL_SIGNATURE = 0x04034B50
_TRY_AGAIN = "compile it again"

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Package:
    """A loaded package.

    Attributes:
        path: the file.
        manifest: the parsed manifest.
        arrays: every array of the file by member name without `.npy`, such as ``automaton/next_state``; read-only.
        programs: the linked programs, in the order they were linked.
        source: the text it was compiled from.
        targets: what it holds for particular machines, in the order it was made; nothing of it has been run.
    """

    path: Path
    manifest: Mapping[str, Any]
    arrays: Mapping[str, Array]
    programs: tuple[Program, ...]
    source: bytes
    targets: tuple[TargetArtifact, ...] = ()

    def target(self, name: str, fingerprint: str | None = None) -> TargetArtifact:
        """What the package holds for the target `name`, such as ``triton:sm_90``, and the program of that fingerprint.

        Raises:
            PackageError: nothing, or several programs and no fingerprint was given.
        """
        wanted = self.program(fingerprint).fingerprint
        for artifact in self.targets:
            if artifact.target == name and artifact.fingerprint == wanted:
                return artifact
        held = ", ".join(a.target for a in self.targets if a.fingerprint == wanted) or "none"
        raise PackageError(
            f"{self.path}: nothing for the target {name} (targets held: {held})",
            hint=f"schemac link grammar.pkg --target {name}",
        )

    def program(self, fingerprint: str | None = None) -> Program:
        """The program for the vocabulary of that fingerprint, or the only one.

        Raises:
            PackageError: there is none, or several and no fingerprint was given.
        """
        if fingerprint is None:
            if len(self.programs) == 1:
                return self.programs[0]
            what = "no linked program" if not self.programs else f"{len(self.programs)} linked programs"
            raise PackageError(f"{self.path}: {what}", hint="link it for a tokenizer, or name a vocabulary fingerprint")
        for program in self.programs:
            if program.fingerprint == fingerprint:
                return program
        linked = ", ".join(p.tokenizer or p.fingerprint[:12] for p in self.programs) or "none"
        raise PackageError(
            f"{self.path}: not linked for the vocabulary {fingerprint[:12]} (linked for: {linked})",
            hint="schemac link grammar.pkg --tokenizer T",
        )


def load(path: str | os.PathLike[str]) -> Package:
    """Map a package and verify it: digest, shapes, and every index range.

    Raises:
        PackageError: the file is missing, damaged, hostile, or of another format version.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise PackageError(f"{path}: an empty file", hint=_TRY_AGAIN)
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PackageError(f"{path}: {reason}") from error
    try:
        manifest, end = _read_manifest(data)
        arrays = _read_arrays(data, manifest, end)

        def read(offset: int, length: int) -> bytes:
            if not end <= offset <= offset + length <= manifest["data_end"]:
                _fail("a member lies outside the file")
            return bytes(data[offset : offset + length])

        source = read(*manifest["source"])
        programs = tuple(_read_program(arrays, entry, manifest["automaton"]) for entry in manifest["programs"])
        targets = read_targets(manifest, programs, read)
    except PackageError as error:
        raise PackageError(
            f"{path}: {error.reason}", place=error.place, construct=error.construct, hint=error.hint or _TRY_AGAIN
        ) from error
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError, struct.error) as error:
        raise PackageError(f"{path}: the manifest is damaged ({type(error).__name__})", hint=_TRY_AGAIN) from error
    return Package(path, manifest, arrays, programs, source, targets)


def _fail(reason: str) -> NoReturn:
    raise PackageError(reason, hint=_TRY_AGAIN)


def _read_manifest(data: mmap.mmap) -> tuple[dict[str, Any], int]:
    """The manifest and the offset of the byte behind it."""
    size = len(data)
    if size < LOCAL_HEADER.size:
        _fail("too short to be a package")
    header = LOCAL_HEADER.unpack_from(data, 0)
    signature, _, _, method, _, _, checksum, packed, length, name_length, extra_length = header
    start = LOCAL_HEADER.size + name_length + extra_length
    end = start + length
    if signature != LOCAL_SIGNATURE or data[LOCAL_HEADER.size : LOCAL_HEADER.size + name_length] != MANIFEST.encode():
        _fail("not a package")
    if method != 0 or packed != length or end > size:
        _fail("truncated, or the manifest is compressed")
    if zlib.crc32(data[start:end]) != checksum:
        _fail("the manifest was changed or damaged")
    manifest = json.loads(data[start:end].decode("utf-8"))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise PackageError(
            f"package format {found}, this runtime reads {FORMAT}", hint="compile it with the version in use"
        )
    return manifest, end


def _read_arrays(data: mmap.mmap, manifest: Mapping[str, Any], end: int) -> dict[str, Array]:
    if manifest["size"] != len(data):
        _fail(f"{len(data)} bytes, expected {manifest['size']}: truncated or changed")
    view = memoryview(data)
    data_end = manifest["data_end"]
    if not isinstance(data_end, int) or not end <= data_end <= len(data):
        _fail("the manifest does not fit the file")
    if hashlib.sha256(view[end:data_end]).hexdigest() != manifest["digest"]:
        _fail("the digest does not match: the file was changed or damaged")
    arrays: dict[str, Array] = {}
    for name, (offset, dtype, shape) in manifest["arrays"].items():
        if dtype not in DTYPES or not all(isinstance(n, int) and 0 <= n < 1 << 40 for n in shape):
            _fail(f"{name}: dtype {dtype!r}, shape {shape!r}")
        count = 1
        for dimension in shape:
            count *= dimension
        size = count * np.dtype(dtype).itemsize
        if not isinstance(offset, int) or offset % ALIGNMENT or not end <= offset <= data_end - size:
            _fail(f"{name}: lies outside the file")
        arrays[name] = np.frombuffer(view, dtype=dtype, count=count, offset=offset).reshape(shape)
    return arrays


def _read_program(arrays: Mapping[str, Array], entry: Mapping[str, Any], automaton: Mapping[str, Any]) -> Program:
    prefix = entry["path"]
    missing = [name for name in Tables.names() if f"{prefix}/{name}" not in arrays]
    if missing:
        _fail(f"{prefix}: lacks {missing[0]}")
    tables = Tables(**{name: arrays[f"{prefix}/{name}"] for name in Tables.names()})
    verify_tables(tables)
    if len(tables.token_class) != entry["vocab_size"]:
        _fail(f"{prefix}: a table for {len(tables.token_class)} tokens, expected {entry['vocab_size']}")
    guards = None
    if automaton.get("guards"):
        guards = GuardTables.read(arrays, automaton, prefix, len(tables.token_class))
        if len(guards.owner) != len(tables.accepting):
            _fail(f"{prefix}: tables for {len(tables.accepting)} states, guards for {len(guards.owner)}")
    return Program(tables, str(entry["fingerprint"]), str(entry["tokenizer"]), guards)
