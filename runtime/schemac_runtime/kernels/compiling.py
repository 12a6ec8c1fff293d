"""Triton's compiler, run on `schemac_runtime.kernels.source`: for a package ahead of time, or for a machine at hand."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemac_runtime.errors import DeviceError
from schemac_runtime.kernels.table import ALIGNED, KERNELS, LOGITS, Kernel, arguments_of, variant_name

#: Machines that all kernels are compiled for in the tests, and others that one is. No number beside these is handed to
#: the compiler: it ends the process for what it does not know.
MACHINES = ("sm_80", "sm_90", "sm_100", "gfx942")
OTHERS = ("sm_75", "sm_86", "sm_87", "sm_89", "sm_103", "sm_110", "sm_120", "sm_121", "gfx90a", "gfx950")
_INSTALL = "pip install triton, or 'schemac[triton]' for the version that packages are compiled with"
#: Threads in a warp of AMD's data-centre GPUs, whose names begin with gfx9.
_AMD_WARP = 64
#: Bytes of dynamic shared memory that a launch may ask for without asking the driver first.
SHARED_LIMIT = 48 * 1024


@dataclass(frozen=True)
class Variant:
    """A kernel compiled for one machine, one dtype of logits and one alignment.

    Attributes:
        symbol: its name in the binary.
        arguments: the types of its arguments in order, such as ``*fp16`` or ``i32``.
        threads: in a block.
        shared_bytes: of dynamic shared memory.
        null_arguments: how many null pointers follow the declared arguments: Triton's scratch memory, which no kernel
            here uses.
        image: the binary, a cubin or hsaco.
        assembly: by stage of the compiler, such as ``ptx``; empty for one that was read from a package.
    """

    symbol: str
    arguments: tuple[str, ...]
    threads: int
    shared_bytes: int
    null_arguments: int
    image: bytes
    assembly: Mapping[str, str] = field(default_factory=dict)

    def description(self) -> dict[str, Any]:
        """How it is launched, as a package states it."""
        return {
            "symbol": self.symbol,
            "arguments": list(self.arguments),
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
            "null_arguments": self.null_arguments,
        }


def described_variant(description: object, image: bytes) -> Variant:
    """The inverse of `Variant.description`.

    Raises:
        DeviceError: it cannot be launched as described.
    """
    stated: Mapping[str, Any] = description if isinstance(description, dict) else {}
    symbol, arguments = str(stated.get("symbol")), stated.get("arguments")
    numbers = [stated.get(key) for key in ("threads", "shared_bytes", "null_arguments")]
    limits = (1024, SHARED_LIMIT, 4)
    good = all(type(n) is int and 0 <= n <= limit for n, limit in zip(numbers, limits, strict=True))
    kernel = KERNELS.get(symbol)
    known = kernel is not None and any(arguments == list(arguments_of(kernel, dtype)) for dtype in LOGITS)
    if not known or not good or not numbers[0] or not image.startswith(b"\x7fELF"):
        raise DeviceError("a stored kernel cannot be launched as described", hint="compile the package again")
    threads, shared, null = (int(n) for n in numbers if n is not None)
    return Variant(symbol, tuple(arguments or ()), threads, shared, null, image)


def is_amd(machine: str) -> bool:
    """Whether a machine is AMD's."""
    return machine.startswith("gfx")


def warp_size(machine: str) -> int:
    """Threads in a warp."""
    return _AMD_WARP if is_amd(machine) else 32


def triton_version() -> str:
    """The version of the installed triton.

    Raises:
        DeviceError: it is not installed, or only interprets in this process.
    """
    try:
        import triton
    except ImportError as error:
        raise DeviceError(f"triton is not installed ({error})", hint=_INSTALL) from error
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise DeviceError("Triton compiles nothing while it interprets", hint="unset TRITON_INTERPRET")
    return str(triton.__version__)


def compile_variant(machine: str, kernel: Kernel, logits: str | None, fast: bool) -> Variant:
    """Compile one kernel.

    Args:
        machine: such as ``sm_90`` or ``gfx942``; it need not be here.
        kernel: what to compile.
        logits: dtype of the logits by Triton's name, or None for a kernel that takes none.
        fast: every argument in `ALIGNED` is a multiple of 16 and a shard begins at a multiple of 32.

    Raises:
        DeviceError: triton is not installed, the machine is unknown to it, or it fails.
    """
    version = triton_version()
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from schemac_runtime.kernels import source

    known = f"known are {', '.join((*MACHINES, *OTHERS))}"
    if machine not in MACHINES + OTHERS:
        raise DeviceError(f"there are no kernels for a machine {machine!r}", hint=known)
    amd = is_amd(machine)
    gpu = GPUTarget("hip", machine, _AMD_WARP) if amd else GPUTarget("cuda", int(machine.removeprefix("sm_")), 32)
    constants: dict[str, int | bool] = dict(kernel.constants)
    if kernel.sliced:
        constants["SHIFTED"] = not fast
    signature = dict(zip((name for name, _ in kernel.arguments), arguments_of(kernel, logits), strict=True))
    signature |= dict.fromkeys(constants, "constexpr")
    places = {name: index for index, name in enumerate(signature)}
    aligned = {(places[name],): [["tt.divisibility", 16]] for name in ALIGNED if fast and name in places}
    options = {"num_warps": kernel.warps, "enable_fp_fusion": False}
    what = f"{variant_name(kernel.name, logits, fast)} for {machine}"
    try:
        function = getattr(source, kernel.name)
        made = triton.compile(ASTSource(function, signature, constants, aligned), target=gpu, options=options)
    except Exception as error:
        text = (str(error).strip().splitlines() or [""])[0]
        reason = f"triton {version} cannot compile {what}: {type(error).__name__}: {text}"
        raise DeviceError(reason, hint=known) from error
    return _variant(machine, kernel, logits, made, what)


def _variant(machine: str, kernel: Kernel, logits: str | None, made: Any, what: str) -> Variant:
    metadata = made.metadata
    null = _parameters(machine, made, metadata.name) - len(kernel.arguments)
    scratch = metadata.global_scratch_size or metadata.profile_scratch_size
    if scratch or metadata.num_ctas != 1 or metadata.shared > SHARED_LIMIT or not 0 <= null <= 4:
        raise DeviceError(f"{what} asks for what no launch here gives it")
    image = bytes(made.asm["hsaco" if is_amd(machine) else "cubin"])
    text = {stage: content for stage, content in made.asm.items() if isinstance(content, str)}
    threads = metadata.num_warps * metadata.warp_size
    arguments = arguments_of(kernel, logits)
    return Variant(metadata.name, arguments, threads, metadata.shared, null, image, text)


def _parameters(machine: str, made: Any, symbol: str) -> int:
    """How many arguments the binary takes, from its assembly text."""
    if is_amd(machine):
        return len(re.findall(r"\.value_kind: +(?:global_buffer|by_value)", made.asm["amdgcn"]))
    entry = re.search(rf"\.entry {re.escape(symbol)}\((.*?)\)", made.asm["ptx"], re.DOTALL)
    return entry[1].count(".param") if entry else -1
