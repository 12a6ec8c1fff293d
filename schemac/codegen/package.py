"""Writing `grammar.pkg`, to the byte the same for the same input. See `schemac_runtime.package` for the format."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.codegen.guards import characters_needed, rest_counts, states_in_strings
from schemac.errors import PackageError, SchemacError
from schemac.ir.automaton import Automaton, verify
from schemac_runtime.guards import guard_arrays
from schemac_runtime.package import ALIGNMENT, FORMAT, LOCAL_HEADER, LOCAL_SIGNATURE, MANIFEST
from schemac_runtime.program import Program, Tables
from schemac_runtime.registers import Guard
from schemac_runtime.targets import TargetArtifact, digest_of

Array = npt.NDArray[Any]
_DOS_EPOCH = 0x21  # 1980-01-01, the first date that ZIP knows
_CENTRAL_SIGNATURE = 0x02014B50
_END_SIGNATURE = 0x06054B50
_AUTOMATON_DTYPES = {"byte_class": "uint8", "accepting": "uint8", "in_string": "uint8"}
_PADDING_ID = 0xD935  # the extra field that aligns data, as Android's zipalign writes it


def automaton_arrays(automaton: Automaton) -> dict[str, Array]:
    """The arrays of an automaton by member name. Edges are stored sparsely: most states have one or two."""
    source, symbol = np.nonzero(automaton.next_state >= 0)
    return {
        "automaton/byte_class": automaton.byte_class,
        "automaton/edge_start": np.searchsorted(source, np.arange(automaton.states + 1)).astype(np.int32),
        "automaton/edge_symbol": symbol.astype(np.int32),
        "automaton/edge_target": automaton.next_state[source, symbol],
        "automaton/accepting": automaton.accepting.astype(np.uint8),
        "automaton/owner": automaton.owner,
        "automaton/entry": automaton.entry,
        "automaton/call_start": automaton.call_start,
        "automaton/call_procedure": automaton.call_procedure,
        "automaton/call_return": automaton.call_return,
        **_guard_arrays(automaton),
    }


def _guard_arrays(automaton: Automaton) -> dict[str, Array]:
    if not automaton.guards:
        return {}
    rest, whole = rest_counts(automaton, Budget())
    return {
        "automaton/actions": automaton.actions.reshape(-1),
        "automaton/rest": rest,
        "automaton/whole": whole,
        "automaton/needed": characters_needed(automaton),
        "automaton/in_string": states_in_strings(automaton),
    }


def automaton_from_arrays(arrays: Mapping[str, Array], manifest: Mapping[str, Any]) -> Automaton:
    """The inverse of `automaton_arrays`.

    Raises:
        PackageError: what the arrays describe breaks an invariant.
    """
    a = {name.removeprefix("automaton/"): array for name, array in arrays.items() if name.startswith("automaton/")}
    for name, array in a.items():
        if array.ndim != 1 or array.dtype != _AUTOMATON_DTYPES.get(name, "int32"):
            raise PackageError(f"{name} is {array.dtype} {list(array.shape)}", construct="automaton")
    states = len(a["accepting"])
    start, symbol, target = a["edge_start"], a["edge_symbol"], a["edge_target"]
    symbols, optional = manifest["symbols"], tuple(manifest.get("optional_labels", ()))
    texts = (*manifest["labels"], *optional, *manifest["procedures"], *manifest["places"])
    if (
        not isinstance(symbols, int) or not 0 < symbols <= 256 + len(manifest["labels"])
        or not all(isinstance(text, str) for text in texts)
        or len(start) != states + 1 or start[0] != 0 or start[-1] != len(symbol) or len(symbol) != len(target)
        or (np.diff(start) < 0).any() or (symbol < 0).any() or (symbol >= symbols).any()
    ):
        raise PackageError("the automaton's edges are damaged", construct="automaton")
    next_state = np.full((states, symbols), -1, dtype=np.int32)
    next_state[np.repeat(np.arange(states), np.diff(start)), symbol] = target
    automaton = Automaton(
        byte_class=a["byte_class"],
        labels=tuple(manifest["labels"]),
        next_state=next_state,
        accepting=a["accepting"].astype(np.bool_),
        owner=a["owner"],
        entry=a["entry"],
        call_start=a["call_start"],
        call_procedure=a["call_procedure"],
        call_return=a["call_return"],
        names=tuple(manifest["procedures"]),
        places=tuple(manifest["places"]),
        optional_labels=optional,
        guards=tuple((procedure, Guard.read(guard)) for procedure, *guard in manifest.get("guards", ())),
        actions=a.get("actions", np.zeros(0, dtype=np.int32)).reshape(-1, 3),
    )
    problems = verify(automaton)
    if problems:
        raise PackageError(f"the automaton is damaged: {problems[0]}", construct="automaton")
    return automaton


def write_package(
    path: Path,
    source: bytes,
    description: Mapping[str, Any],
    automaton: Automaton,
    programs: Iterable[Program],
    targets: Sequence[TargetArtifact] = (),
) -> None:
    """Write a package: to a temporary file beside `path`, then renamed, so that nothing half-written stays.

    Args:
        source: the source text, kept as member ``source``.
        description: what the manifest says of source, options and compiler.
        targets: for particular machines, each for one of `programs`; equal blobs are stored once.

    Raises:
        SchemacError: the file cannot be written.
    """
    data = package_bytes(source, description, automaton, programs, targets)
    try:
        write_whole(path, data)
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SchemacError(f"cannot write {path}: {reason}") from error


def package_bytes(
    source: bytes,
    description: Mapping[str, Any],
    automaton: Automaton,
    programs: Iterable[Program],
    targets: Sequence[TargetArtifact] = (),
) -> bytes:
    """The bytes of the file that `write_package` writes."""
    arrays = automaton_arrays(automaton)
    linked = []
    for program in programs:
        prefix = f"programs/{program.fingerprint[:16]}"
        arrays.update({f"{prefix}/{name}": getattr(program.tables, name) for name in Tables.names()})
        if program.guards is not None:
            arrays.update({f"{prefix}/{name}": array for name, array in guard_arrays(program.guards).items()})
        linked.append({
            "path": prefix,
            "fingerprint": program.fingerprint,
            "tokenizer": program.tokenizer,
            "vocab_size": program.vocab_size,
        })
    manifest = {
        "format": FORMAT,
        **description,
        "automaton": {
            "symbols": automaton.symbols,
            "labels": list(automaton.labels),
            **({"optional_labels": list(automaton.optional_labels)} if automaton.optional_labels else {}),
            "procedures": list(automaton.names),
            "places": list(automaton.places),
            **({"guards": [[number, *g.described()] for number, g in automaton.guards]} if automaton.guards else {}),
        },
        "programs": linked,
    }
    blobs: dict[str, bytes] = {}
    if targets:
        entries = []
        for artifact in targets:
            names = {name: digest_of(blob) for name, blob in artifact.blobs.items()}
            blobs.update(zip(names.values(), artifact.blobs.values(), strict=True))
            entries.append({
                "target": artifact.target,
                "fingerprint": artifact.fingerprint,
                "manifest": dict(artifact.manifest),
                "blobs": names,
            })
        manifest["targets"] = entries
    return _archive(manifest, source, arrays, blobs)


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path`, or leave nothing behind, whatever happens meanwhile."""
    handle, temporary = tempfile.mkstemp(prefix=".schemac-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _npy_header(array: Array) -> bytes:
    """The header of NumPy's `.npy` format, version 1.0."""
    shape = "(" + "".join(f"{n}, " for n in array.shape).rstrip() + ")" if array.ndim != 1 else f"({array.shape[0]},)"
    kind = {1: "|u1", 4: "<i4", 8: "<i8"}[array.dtype.itemsize]
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    body = text.encode("ascii")
    body += b" " * (-(10 + len(body) + 1) % ALIGNMENT) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


def _archive(
    manifest: dict[str, Any], source: bytes, arrays: Mapping[str, Array], blobs: Mapping[str, bytes]
) -> bytes:
    """The bytes of the archive. The manifest's length is fixed first, since it states offsets behind itself."""
    little = {name: np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    unknown = 10**15
    placeholder = {
        "size": unknown,
        "data_end": unknown,
        "digest": "0" * 64,
        "source": [unknown, unknown],
        "arrays": {name: [unknown, array.dtype.name, list(array.shape)] for name, array in little.items()},
        **({"blobs": {digest: [unknown, unknown] for digest in blobs}} if blobs else {}),
    }
    room = len(json.dumps({**manifest, **placeholder}, indent=1)) + 64
    bodies = {"source": source} | {f"{name}.npy": _npy_header(a) + a.tobytes() for name, a in little.items()}
    bodies |= {f"blobs/{digest}": blob for digest, blob in blobs.items()}
    offset = LOCAL_HEADER.size + len(MANIFEST) + room
    total = offset + sum(len(body) + 2 * (len(name) + 128) for name, body in bodies.items())
    if total >= 1 << 32 or len(bodies) >= 1 << 16:
        raise SchemacError("the package would exceed 4 GiB", hint="link fewer vocabularies into one package")
    parts: list[bytes] = []
    members = []
    data_at: dict[str, int] = {}
    for name, body in bodies.items():
        start = offset + LOCAL_HEADER.size + len(name)
        padding = (-(start + 4)) % ALIGNMENT  # the extra field has a header of 4 bytes
        extra = _PADDING_ID.to_bytes(2, "little") + padding.to_bytes(2, "little") + bytes(padding)
        parts += [_local_header(name, body, len(extra)), name.encode(), extra, body]
        members.append((name, body, offset))
        data_at[name] = start + len(extra)
        offset = start + len(extra) + len(body)
    table = {}
    for name, array in little.items():
        at = data_at[f"{name}.npy"] + len(bodies[f"{name}.npy"]) - array.nbytes
        table[name] = [at, array.dtype.name, list(array.shape)]
    names = [MANIFEST, *bodies]
    total = offset + sum(46 + len(name) for name in names) + 22
    # The directory states the manifest's checksum, so the digest in the manifest ends where the directory begins.
    tail = b"".join(parts)
    digest = hashlib.sha256(tail).hexdigest()
    content = {**manifest, "size": total, "data_end": offset, "digest": digest}
    content |= {"source": [data_at["source"], len(source)], "arrays": table}
    if blobs:
        content["blobs"] = {digest: [data_at[f"blobs/{digest}"], len(blob)] for digest, blob in blobs.items()}
    text = json.dumps(content, indent=1).encode()
    text += b" " * (room - len(text))
    members.insert(0, (MANIFEST, text, 0))
    directory = b"".join(_central_entry(name, body, at) for name, body, at in members)
    end = _END_SIGNATURE.to_bytes(4, "little") + bytes(4) + len(members).to_bytes(2, "little") * 2
    end += len(directory).to_bytes(4, "little") + offset.to_bytes(4, "little") + bytes(2)
    return _local_header(MANIFEST, text, 0) + MANIFEST.encode() + text + tail + directory + end


def _local_header(name: str, body: bytes, extra: int) -> bytes:
    return LOCAL_HEADER.pack(
        LOCAL_SIGNATURE, 20, 0, 0, 0, _DOS_EPOCH, zlib.crc32(body), len(body), len(body), len(name), extra
    )


def _central_entry(name: str, body: bytes, offset: int) -> bytes:
    head = _CENTRAL_SIGNATURE.to_bytes(4, "little") + (20).to_bytes(2, "little")
    local = _local_header(name, body, 0)[4:-4]  # version .. sizes
    return head + local + len(name).to_bytes(2, "little") + bytes(12) + offset.to_bytes(4, "little") + name.encode()
