"""NumPy arrays in the place of tensors, and Triton's interpreter run on them: no torch is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemac_runtime.device import calls
from schemac_runtime.device.calls import Call


class Memory:
    """An array that looks like a tensor to `schemac_runtime.device.calls` and to Triton's interpreter.

    bfloat16, which NumPy lacks, is its bits as uint16.
    """

    def __init__(self, array: np.ndarray, dtype: str | None = None) -> None:
        self.array, self.dtype, self.shape = array, dtype or str(array.dtype), array.shape
        self.device = "cpu"

    def stride(self, axis: int | None = None) -> Any:
        strides = tuple(n // self.array.itemsize for n in self.array.strides)
        return strides if axis is None else strides[axis]

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    # What the interpreter asks of a tensor: to lie on the host, which it does.

    def untyped_storage(self) -> Memory:
        return self

    def cpu(self) -> Memory:
        return self

    def copy_(self, other: Memory) -> None:
        assert other.array is self.array

    def new_empty(self, _size: int, device: str) -> Memory:
        assert device == "cpu"
        return Memory(self.array, self.dtype)

    def set_(self, *_: Any) -> None:
        pass

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.shape


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """uint16 bits of float32 values, the lower half cut off."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32)


def interpret(call: Call, shifted: bool | None = None) -> None:
    """Run a call in Triton's interpreter; TRITON_INTERPRET=1 must have been set before triton was imported."""
    from schemac_runtime.kernels import source

    if call.empty:
        return
    kernel = calls.KERNELS[call.kernel]
    constants: dict[str, Any] = dict(kernel.constants)
    if kernel.sliced:
        constants["SHIFTED"] = not call.fast() if shifted is None else shifted
    getattr(source, call.kernel)[call.grid](*call.values(), **constants)
