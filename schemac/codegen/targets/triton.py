"""``triton:sm_90`` and its like: the kernels of `schemac_runtime.kernels` compiled to binaries, without a GPU.

Triton's compiler is run on the same source that a runtime compiles just in time. Which variants are made depends only
on the vocabulary size: the fast ones, with 16-byte accesses, where every row of logits is aligned, else the general
ones.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from schemac.codegen.targets.family import Family
from schemac.errors import PackageError, TargetError
from schemac_runtime.kernels.table import ALIGNED, KERNELS, LOGITS, Kernel, source_digest, variant_name
from schemac_runtime.program import Program
from schemac_runtime.targets import TargetArtifact

#: Machines that the kernels are compiled for in the tests; others of the same makers may work.
MACHINES = ("sm_80", "sm_90", "sm_100", "gfx942")
_INSTALL = "pip install 'schemac[triton]'"
#: Threads in a warp of AMD's data-centre GPUs, which `gfx9` names.
_AMD_WAVE = 64


def build(target: str, program: Program) -> TargetArtifact:
    """All kernels for one machine."""
    machine = target.partition(":")[2]
    manifest, blobs = _compiled(machine, program.vocab_size % 16 == 0)
    return TargetArtifact(target, program.fingerprint, manifest, blobs)


@functools.cache
def _compiled(machine: str, fast: bool) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the binaries; compiled once per process."""
    try:
        import triton
    except ImportError as error:
        raise TargetError(f"triton is not installed ({error})", construct="--target", hint=_INSTALL) from error
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise TargetError("Triton compiles nothing while it interprets", hint="unset TRITON_INTERPRET")
    entries, blobs = {}, {}
    with _quiet_triton():
        for kernel in KERNELS.values():
            for logits in LOGITS if kernel.takes_logits else (None,):
                name = variant_name(kernel.name, logits, fast)
                made = compile_variant(machine, kernel, logits, fast)
                entries[name] = describe_variant(machine, kernel, made)
                blobs[name] = bytes(made.asm["hsaco" if _is_amd(machine) else "cubin"])
    manifest = {
        "triton": triton.__version__,
        "kernels_sha256": source_digest(),
        "machine": machine,
        "warp_size": _AMD_WAVE if _is_amd(machine) else 32,
        "kernels": entries,
    }
    return manifest, blobs


def _known() -> str:
    return f"known to work: {', '.join(MACHINES)}"


def _is_amd(machine: str) -> bool:
    return machine.startswith("gfx")


@contextmanager
def _quiet_triton() -> Iterator[None]:
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


def compile_variant(machine: str, kernel: Kernel, logits: str | None, fast: bool) -> Any:
    """Triton's compiled kernel: `asm` holds every stage, `metadata` how to launch it.

    Args:
        machine: such as ``sm_90``.
        kernel: what to compile.
        logits: dtype of the logits by Triton's name, or None for a kernel that takes none.
        fast: every argument in `ALIGNED` is a multiple of 16 and a shard begins at a multiple of 32.

    Raises:
        TargetError: the machine is unknown to Triton, or it fails.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from schemac_runtime.kernels import source

    number = re.fullmatch(r"sm_(\d+)", machine)
    if number is None and re.fullmatch(r"gfx9[0-9a-f]+", machine) is None:
        raise TargetError(f"there is no machine {machine!r}", construct="--target", hint=_known())
    gpu = GPUTarget("cuda", int(number[1]), 32) if number else GPUTarget("hip", machine, _AMD_WAVE)
    constants: dict[str, int | bool] = dict(kernel.constants)
    if kernel.sliced:
        constants["SHIFTED"] = not fast
    signature = {name: kind.replace("?", logits or "") for name, kind in kernel.arguments}
    signature |= dict.fromkeys(constants, "constexpr")
    places = {name: index for index, name in enumerate(signature)}
    aligned = {(places[name],): [["tt.divisibility", 16]] for name in ALIGNED if fast and name in places}
    options = {"num_warps": kernel.warps, "enable_fp_fusion": False}
    try:
        function = getattr(source, kernel.name)
        return triton.compile(ASTSource(function, signature, constants, aligned), target=gpu, options=options)
    except Exception as error:  # whatever the compiler's passes raise
        text = (str(error).strip().splitlines() or [""])[0]
        raise TargetError(
            f"triton {triton.__version__} cannot compile {kernel.name} for {machine}: {type(error).__name__}: {text}",
            construct="--target",
            hint=_known(),
        ) from error


def describe_variant(machine: str, kernel: Kernel, made: Any) -> dict[str, Any]:
    """How to launch a compiled kernel, as the manifest states it.

    Raises:
        TargetError: it needs scratch memory or takes arguments that no caller knows of.
    """
    metadata = made.metadata
    if metadata.global_scratch_size or metadata.profile_scratch_size or metadata.num_ctas != 1:
        raise TargetError(f"{kernel.name} needs scratch memory on {machine}")
    # Behind the declared arguments Triton passes pointers to scratch memory, which are null here.
    hidden = _parameters(machine, made, metadata.name) - len(kernel.arguments)
    if not 0 <= hidden <= 4:
        raise TargetError(f"{kernel.name} takes {hidden} unknown arguments on {machine}")
    return {
        "symbol": metadata.name,
        "threads": metadata.num_warps * metadata.warp_size,
        "shared_bytes": metadata.shared,
        "null_arguments": hidden,
        "constants": dict(kernel.constants),
    }


def _parameters(machine: str, made: Any, symbol: str) -> int:
    """How many arguments the binary takes, from its assembly text."""
    if _is_amd(machine):
        text = made.asm["amdgcn"]
        return len(re.findall(r"\.value_kind: +(?:global_buffer|by_value)", text))
    entry = re.search(rf"\.entry {re.escape(symbol)}\((.*?)\)", made.asm["ptx"], re.DOTALL)
    return entry[1].count(".param") if entry else -1


def check(artifact: TargetArtifact) -> None:
    """Refuse an artifact that is not made as `build` makes it."""
    manifest = artifact.manifest
    entries = manifest.get("kernels")
    if not isinstance(entries, dict) or set(entries) != set(artifact.blobs):
        raise PackageError(f"{artifact.target}: kernels and binaries do not agree", construct="targets")
    for name, entry in entries.items():
        _check_entry(artifact, name, entry)


def _check_entry(artifact: TargetArtifact, name: str, entry: Mapping[str, Any]) -> None:
    kernel = KERNELS.get(name.partition(".")[0])
    numbers = [entry.get(key) for key in ("threads", "shared_bytes", "null_arguments")]
    if kernel is None or not all(isinstance(n, int) and 0 <= n < 1 << 18 for n in numbers):
        raise PackageError(f"{artifact.target}: {name} cannot be launched as described", construct="targets")
    if not artifact.blob(name).startswith(b"\x7fELF"):
        raise PackageError(f"{artifact.target}: {name} is no binary", construct="targets")


def describe(artifact: TargetArtifact) -> str:
    """What `schemac inspect` says."""
    return f"{len(artifact.blobs)} kernels by triton {artifact.manifest.get('triton')}"


TRITON = Family("triton", MACHINES, build, check, describe)
