"""What a package holds for ``neuron:`` targets: HLO modules, their inputs and outputs, and NEFF files if it has them.

Needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.device.tables import StepTables
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


def step_inputs(module: NeuronModule, tables: StepTables) -> dict[str, npt.NDArray[np.int32]]:
    """The table inputs of a ``step`` module by name, padded to its sizes; the rest change with every step.

    Args:
        module: of kind ``step``, from a package.
        tables: `schemac_runtime.device.step_tables` of the package's program.

    Raises:
        PackageError: the module is too small for the tables.
    """
    start = tables.start.astype(np.int32)
    filled = {
        "arena": (tables.rows, 0), "state_info": (tables.info, 0), "state_start": (start, 0),
        "token_class": (tables.classes.reshape(-1), 0), "following": (tables.following, -1),
    }  # fmt: skip
    inputs = {}
    for tensor in module.inputs:
        if tensor.name not in filled:
            continue
        table, fill = filled[tensor.name]
        if table.shape[1:] != tensor.shape[1:] or len(table) > tensor.shape[0]:
            raise PackageError(
                f"{module.name}: {tensor.name} is {list(table.shape)}, the module takes {list(tensor.shape)}",
                hint="compile the target again, for this program",
            )
        whole = np.full(tensor.shape, fill, dtype=np.int32)
        whole[: len(table)] = table
        inputs[tensor.name] = whole
    return inputs
