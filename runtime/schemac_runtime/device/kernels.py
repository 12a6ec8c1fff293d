"""Carrying out calls of kernels: by a stored binary, one compiled now, Triton's interpreter, or torch operations."""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from schemac_runtime.device.calls import Call
from schemac_runtime.device.driver import CUDA, HIP, Driver
from schemac_runtime.errors import DeviceError
from schemac_runtime.kernels.compiling import (
    Variant,
    compile_variant,
    described_variant,
    is_amd,
)
from schemac_runtime.kernels.table import KERNELS, source_digest, variant_name
from schemac_runtime.targets import TargetArtifact

_log = logging.getLogger(__name__)


class Kernels(Protocol):
    """Something that carries out calls."""

    def run(self, call: Call) -> None:
        """Do it, or enqueue it on the current stream of the tensors' device.

        Raises:
            DeviceError: it cannot be done.
        """
        ...


class TorchKernels:
    """Torch operations, on any device: right, and slow."""

    def run(self, call: Call) -> None:
        """Do it, or enqueue its operations on the current stream."""
        from schemac_runtime.kernels import torch_reference

        if call.empty:
            return
        function = getattr(torch_reference, call.kernel)
        values = {**call.tensors, **call.numbers}
        function(**{name: values[name] for name in inspect.signature(function).parameters})


class InterpretedKernels:
    """Triton's interpreter, on the CPU: for tests. TRITON_INTERPRET=1 must be set before triton is first imported."""

    def run(self, call: Call) -> None:
        """Do it."""
        from schemac_runtime.kernels import source

        if call.empty:
            return
        constants: dict[str, Any] = dict(KERNELS[call.kernel].constants)
        if KERNELS[call.kernel].sliced:
            constants["SHIFTED"] = not call.fast()
        getattr(source, call.kernel)[call.grid](*call.values(), **constants)


class BinaryKernels:
    """Binaries for one GPU: those of packages where they fit, else compiled just in time, else torch operations.

    Each variant is looked for once, when it is first needed or by `prepare`; `notes` says what was found for those that
    no package holds. Loading is not possible while a CUDA graph is captured: call `prepare`, or run a step, before.

    Args:
        machine: what the GPU is, such as ``sm_90``.
        artifacts: of packages, for any machines.
        driver: loads and launches.
        stream: the handle of the current stream of the device.
        compile_now: what compiles a variant just in time.
        device: where all tensors must be, as a torch device with its index; None to take the caller's word.
    """

    def __init__(
        self,
        machine: str,
        artifacts: Iterable[TargetArtifact],
        driver: Driver,
        stream: Callable[[], int],
        compile_now: Callable[..., Variant] = compile_variant,
        device: Any = None,
    ) -> None:
        self.device = device
        self.machine = machine
        self.notes: list[str] = []
        self._driver, self._stream, self._compile = driver, stream, compile_now
        self._stored = self._usable(artifacts)
        self._loaded: dict[str, tuple[Variant, Any] | None] = {}
        self._fallback = TorchKernels()

    def run(self, call: Call) -> None:
        """Launch on the current stream."""
        if call.empty:
            return
        for name, tensor in call.tensors.items() if self.device is not None else ():
            if tensor.device != self.device:  # its address would mean something else there
                raise DeviceError(f"a tensor on {tensor.device}, the kernels run on {self.device}", construct=name)
        found = self._find(call.kernel, call.logits, call.fast())
        if found is None:
            self._fallback.run(call)
            return
        variant, function = found
        arguments = [
            (kind, value.data_ptr() if kind.startswith("*") else value)
            for (_, kind), value in zip(KERNELS[call.kernel].arguments, call.values(), strict=True)
        ]
        self._driver.launch(function, call.grid, variant, self._stream(), arguments)

    def prepare(self, logits: str, *, fast: bool = True) -> None:
        """Load every kernel for one dtype of logits (``fp32``, ``fp16``, ``bf16``)."""
        for kernel in KERNELS.values():
            self._find(kernel.name, logits if kernel.takes_logits else None, fast)

    def _note(self, text: str) -> None:
        self.notes.append(text)
        _log.warning("%s", text)

    def _usable(self, artifacts: Iterable[TargetArtifact]) -> dict[str, tuple[dict[str, Any], bytes]]:
        """Descriptions and binaries by variant that this machine runs and this runtime knows how to call."""
        found: dict[str, tuple[dict[str, Any], bytes]] = {}
        held = [artifact for artifact in artifacts if artifact.family == "triton"]
        for artifact in held:
            manifest = artifact.manifest
            if not runs_on(str(manifest.get("machine")), self.machine):
                continue
            if manifest.get("kernels_sha256") != source_digest():
                self._note(f"the package's kernels for {artifact.target} are of another version of schemac_runtime")
                continue
            kernels = manifest.get("kernels")
            for name, description in kernels.items() if isinstance(kernels, dict) else ():
                if name in artifact.blobs:
                    found.setdefault(name, (description, artifact.blob(name)))
        if held and not found:
            targets = ", ".join(dict.fromkeys(artifact.target for artifact in held))
            self._note(f"no stored kernel is for {self.machine} (there are some for {targets})")
        return found

    def _find(self, kernel: str, logits: str | None, fast: bool) -> tuple[Variant, Any] | None:
        name = variant_name(kernel, logits, fast)
        if name not in self._loaded:
            self._loaded[name] = self._load(kernel, logits, fast)
        return self._loaded[name]

    def _load(self, kernel: str, logits: str | None, fast: bool) -> tuple[Variant, Any] | None:
        """A stored binary, the general one if there is no fast one; one compiled now; None for torch operations."""
        name = variant_name(kernel, logits, fast)
        for stored in dict.fromkeys((name, variant_name(kernel, logits, False))):
            if stored in self._stored:
                try:
                    variant = described_variant(*self._stored[stored])
                    return variant, self._driver.load(variant)
                except DeviceError as error:
                    self._note(f"the stored kernel {stored} for {self.machine} cannot be used: {error}")
        try:
            variant = self._compile(self.machine, KERNELS[kernel], logits, fast)
            function = self._driver.load(variant)
        except DeviceError as error:
            self._note(f"{name}: torch operations instead of a kernel: {error}")
            return None
        self._note(f"{name} was compiled just in time for {self.machine}")
        return variant, function


def runs_on(binary: str, machine: str) -> bool:
    """Whether a binary for one machine runs on another.

    A cubin runs on later machines of the same major compute capability, up to 8; from 9.0 on Triton compiles for one
    machine exactly. (NVIDIA, CUDA C++ Programming Guide, "Binary Compatibility"; Triton's `sm_arch_from_capability`.)
    """
    if binary == machine:
        return True
    numbers = [re.fullmatch(r"sm_(\d+)(\d)", name) for name in (binary, machine)]
    if not all(numbers):
        return False
    (major, minor), (here, here_minor) = ((int(n[1]), int(n[2])) for n in numbers if n)
    return major == here <= 8 and minor <= here_minor


def machine_of(device: Any) -> str:
    """What a torch device is, such as ``sm_90`` or ``gfx942``."""
    import torch

    if torch.version.hip:
        return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def open_kernels(device: Any, artifacts: Iterable[TargetArtifact] = ()) -> Kernels:
    """What carries out calls on a device.

    Args:
        device: a torch device or its name. On the CPU these are torch operations, or Triton's interpreter if
            TRITON_INTERPRET=1 is set.
        artifacts: stored kernels, such as `Package.targets`.

    Raises:
        DeviceError: the device is of a kind that there are no kernels for.
    """
    import torch

    place = torch.device(device)
    if place.type == "cpu":
        return InterpretedKernels() if os.environ.get("TRITON_INTERPRET") == "1" else TorchKernels()
    if place.type != "cuda":
        raise DeviceError(f"there are no kernels for {place.type} devices", hint="masks from the host work on any")
    torch.cuda.init()
    place = torch.zeros(1, device=place).device  # with its index; and its context is current in this thread now
    machine = machine_of(place)
    driver = Driver(HIP if is_amd(machine) else CUDA)

    def stream() -> int:
        return int(torch.cuda.current_stream(place).cuda_stream)

    return BinaryKernels(machine, artifacts, driver, stream, device=place)

