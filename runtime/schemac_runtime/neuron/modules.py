"""What a package holds for ``neuron:`` targets: HLO modules, their inputs and outputs, and NEFF files if it has them.

Needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemac_runtime.errors import PackageError
from schemac_runtime.targets import TargetArtifact


@dataclass(frozen=True)
class Tensor:
    """An input or output: its name, NumPy dtype (``bfloat16`` beside NumPy's own) and sizes."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class NeuronModule:
    """One computation for one batch size.

    Attributes:
        name: such as ``greedy_b4_bfloat16``.
        kind: ``mask``, ``greedy`` or ``step``, see `docs/neuron.md`.
        dtype: of the logits.
        batch: rows of logits.
        inputs, outputs: in order.
        hlo: the serialized `HloModuleProto`.
        neff: the NEFF file, or None until `schemac neff` made it.
    """

    name: str
    kind: str
    dtype: str
    batch: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    hlo: bytes
    neff: bytes | None = None


def hlo_blob(name: str) -> str:
    """The blob that holds a module's HLO."""
    return f"{name}.hlo.pb"


def neff_blob(name: str) -> str:
    """The blob that holds its NEFF."""
    return f"{name}.neff"


def describe_module(module: NeuronModule) -> dict[str, Any]:
    """The entry of a module in the manifest."""
    return {
        "kind": module.kind,
        "dtype": module.dtype,
        "batch": module.batch,
        "inputs": [[tensor.name, tensor.dtype, list(tensor.shape)] for tensor in module.inputs],
        "outputs": [[tensor.name, tensor.dtype, list(tensor.shape)] for tensor in module.outputs],
    }


def neuron_modules(artifact: TargetArtifact) -> dict[str, NeuronModule]:
    """The modules of a ``neuron:`` target by name, in the order they were made.

    Raises:
        PackageError: the target is of another family, or its description is damaged.
    """
    if artifact.family != "neuron":
        raise PackageError(f"{artifact.target} holds no Neuron modules", construct="targets")
    try:
        entries: Mapping[str, Any] = artifact.manifest["modules"]
        return {name: _module(artifact, name, entry) for name, entry in entries.items()}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise PackageError(
            f"{artifact.target}: the description of its modules is damaged ({type(error).__name__})",
            construct="targets", hint="compile it again",
        ) from error  # fmt: skip


def _module(artifact: TargetArtifact, name: str, entry: Mapping[str, Any]) -> NeuronModule:
    inputs, outputs = (
        tuple(Tensor(str(n), str(dtype), tuple(int(size) for size in shape)) for n, dtype, shape in entry[key])
        for key in ("inputs", "outputs")
    )
    neff = artifact.blobs.get(neff_blob(name))
    return NeuronModule(
        name, str(entry["kind"]), str(entry["dtype"]), int(entry["batch"]), inputs, outputs,
        artifact.blob(hlo_blob(name)), neff,
    )  # fmt: skip


def module_for(artifact: TargetArtifact, kind: str, dtype: str, rows: int) -> NeuronModule:
    """The module for the smallest batch that takes `rows` rows of logits.

    Raises:
        PackageError: there is none.
    """
    modules = [m for m in neuron_modules(artifact).values() if m.kind == kind and m.dtype == dtype]
    fitting = [module for module in modules if module.batch >= rows]
    if not fitting:
        held = ", ".join(str(module.batch) for module in modules) or "none"
        raise PackageError(
            f"{artifact.target}: no module {kind} for {rows} rows of {dtype} logits (batches held: {held})",
            hint=f"schemac link grammar.pkg --target {artifact.target},batch={rows},dtype={dtype}",
        )
    return min(fitting, key=lambda module: module.batch)
