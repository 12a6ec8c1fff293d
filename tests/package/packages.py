"""Packages for the tests of the format, and ways to damage them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import random
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import schemac
from schemac_runtime import MatcherError, allocate_bitmask, unpack
from schemac_runtime.package import LOCAL_HEADER, MANIFEST
from schemac_runtime.program import Program
from tests.runtime.programs import SMALL, byte_vocabulary

SCHEMA = """{"type": "object", "properties": {"alpha": {"type": "integer"}, "beta": {"$ref": "#"}, "b": {}},
  "additionalProperties": {"type": "array", "items": {"type": "string"}}}"""


@functools.cache
def compiled() -> schemac.Compiled:
    """Linked for two vocabularies; the tables have defaults, pushes, exits, and rows of every kind."""
    return schemac.link(schemac.link(schemac.compile(SCHEMA), byte_vocabulary()), SMALL)


@functools.cache
def package_bytes(folder: Path) -> bytes:
    path = folder / "made.pkg"
    schemac.save(compiled(), path)
    return path.read_bytes()


def manifest_span(data: bytes) -> tuple[int, int]:
    return LOCAL_HEADER.size + len(MANIFEST), LOCAL_HEADER.size + len(MANIFEST) + LOCAL_HEADER.unpack_from(data)[8]


def manifest_of(data: bytes) -> dict[str, Any]:
    start, end = manifest_span(data)
    manifest: dict[str, Any] = json.loads(data[start:end])
    return manifest


def rewritten(
    data: bytes,
    arrays: Mapping[str, np.ndarray] | None = None,
    edit: Callable[[dict[str, Any]], object] | None = None,
    *,
    text: bytes | None = None,
) -> bytes:
    """The package with other values in its arrays and another manifest, and every digest right again.

    Args:
        arrays: by member name, new values of the same size in bytes.
        edit: changes the manifest in place.
        text: the whole new manifest instead.
    """
    start, end = manifest_span(data)
    manifest = manifest_of(data)
    new = bytearray(data)
    for name, values in (arrays or {}).items():
        offset, dtype, _ = manifest["arrays"][name]
        raw = values.astype(dtype).tobytes()
        new[offset : offset + len(raw)] = raw
    manifest["digest"] = hashlib.sha256(new[end : manifest["data_end"]]).hexdigest()
    if edit is not None:
        edit(manifest)
    body = json.dumps(manifest, indent=1).encode() if text is None else text
    if len(body) > end - start:
        body = json.dumps(manifest, separators=(",", ":")).encode()
    assert len(body) <= end - start
    new[start:end] = body.ljust(end - start)
    return bytes(with_header(new, crc=zlib.crc32(new[start:end])))


def with_header(data: bytearray, *, crc: int) -> bytearray:
    fields = list(LOCAL_HEADER.unpack_from(data))
    fields[6] = crc
    data[: LOCAL_HEADER.size] = LOCAL_HEADER.pack(*fields)
    return data


def exercise(program: Program, seed: int, steps: int = 12) -> None:
    """All that a sampler does, on tables that may be wrong: whatever is answered, nothing may fail or hang."""
    generator = random.Random(seed)
    mask = allocate_bitmask(2, program.vocab_size)
    matcher = program.matcher()
    for _ in range(steps):
        matcher.fill_bitmask(mask, 1)
        assert matcher.configurations < 1000
        matcher.is_complete()
        matcher.forced_tokens(3)
        choices = np.flatnonzero(unpack(mask, program.vocab_size)[1])
        token = int(generator.choice(choices)) if len(choices) else generator.randrange(program.vocab_size)
        matcher.validate([token, generator.randrange(program.vocab_size)])
        if not matcher.accept(token):
            matcher.accept(generator.randrange(program.vocab_size))
        if matcher.is_terminated():
            matcher.reset()
    with contextlib.suppress(MatcherError):
        matcher.fill_bitmask(mask, 0, budget=5)
