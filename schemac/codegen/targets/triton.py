"""``triton:sm_90`` and its like: the kernels of `schemac_runtime.kernels` compiled to binaries, without a GPU.

Which variants are made depends only on the vocabulary size: the fast ones, with 16-byte accesses, where every row of
logits is aligned, else the general ones.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from schemac.codegen.targets.family import Family
from schemac.errors import PackageError, TargetError
from schemac_runtime.errors import DeviceError
from schemac_runtime.kernels.compiling import (
    MACHINES,
    compile_variant,
    described_variant,
    triton_version,
    warp_size,
)
from schemac_runtime.kernels.table import KERNELS, LOGITS, source_digest, variant_name
from schemac_runtime.program import Program
from schemac_runtime.targets import TargetArtifact


def build(target: str, program: Program) -> TargetArtifact:
    """All kernels for one machine."""
    machine = target.partition(":")[2]
    try:
        manifest, blobs = _compiled(machine, program.vocab_size % 16 == 0)
    except DeviceError as error:
        raise TargetError(error.reason, construct=f"--target {target}", hint=error.hint) from error
    return TargetArtifact(target, program.fingerprint, manifest, blobs)


@functools.cache
def _compiled(machine: str, fast: bool) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the binaries; compiled once per process."""
    version = triton_version()
    entries, blobs = {}, {}
    with quiet_triton():
        for kernel in KERNELS.values():
            for logits in LOGITS if kernel.takes_logits else (None,):
                name = variant_name(kernel.name, logits, fast)
                made = compile_variant(machine, kernel, logits, fast)
                entries[name] = made.description()
                blobs[name] = made.image
    manifest = {
        "triton": version,
        "kernels_sha256": source_digest(),
        "machine": machine,
        "warp_size": warp_size(machine),
        "kernels": entries,
    }
    return manifest, blobs


@contextmanager
def quiet_triton() -> Iterator[None]:
    """Triton without a cache of its own and without line numbers, which hold the paths of this machine."""
    from triton import knobs

    with (
        tempfile.TemporaryDirectory(prefix="schemac-triton-") as folder,
        knobs.cache.scope(),
        knobs.compilation.scope(),
    ):
        knobs.cache.dir = folder
        knobs.compilation.disable_line_info = True
        yield


def check(artifact: TargetArtifact) -> None:
    """Refuse an artifact that is not made as `build` makes it."""
    entries = artifact.manifest.get("kernels")
    if not isinstance(entries, dict) or set(entries) != set(artifact.blobs):
        raise PackageError(f"{artifact.target}: kernels and binaries do not agree", construct="targets")
    for name, entry in entries.items():
        try:
            described_variant(entry, artifact.blob(name))
        except DeviceError as error:
            raise PackageError(f"{artifact.target}: {name}: {error.reason}", construct="targets") from None


def describe(artifact: TargetArtifact) -> str:
    """What `schemac inspect` says."""
    return f"{len(artifact.blobs)} kernels by triton {artifact.manifest.get('triton')}"


TRITON = Family("triton", MACHINES, build, check, describe)
