"""XLA on the CPU: load a serialized HLO module and run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def load(proto: bytes) -> Callable[[Sequence[Array]], list[Array]]:
    """An executable of a serialized `HloModuleProto`."""
    import jax
    from jaxlib import _hlo, _jax

    _hlo.HloModule.from_serialized_hlo_module_proto(proto)  # XLA's own verifier
    devices = jax.devices("cpu")[:1]
    client = devices[0].client
    program = _jax.mlir.hlo_to_stablehlo(proto)
    executable = client.compile_and_load(program, _jax.DeviceList(tuple(devices)), _jax.CompileOptions())

    def run(values: Sequence[Array]) -> list[Array]:
        placed = [jax.device_put(value, devices[0]) for value in values]
        outputs = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        return [np.asarray(output[0]) for output in outputs]

    return run


def text(proto: bytes) -> str:
    """The module as XLA prints it."""
    from jaxlib import _hlo

    return _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string().rstrip("\n") + "\n"
