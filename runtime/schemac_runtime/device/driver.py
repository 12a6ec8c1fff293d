"""Loading and launching binaries with the driver of the GPU, so that a stored kernel needs no compiler to run.

CUDA and HIP have the same calls under other names. Not run on a GPU yet: the tests check every call up to the driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemac_runtime.errors import DeviceError
from schemac_runtime.kernels.compiling import Variant

#: A null pointer, or an integer, by the type that `schemac_runtime.kernels.table` gives an argument.
_INTEGERS: dict[str, type[ctypes.c_int32 | ctypes.c_int64]] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64}
#: Asking for the bytes of local memory makes a driver that loads lazily load the kernel now: not in a graph capture.
_LOCAL_BYTES = 3


@dataclass(frozen=True)
class Names:
    """What the calls are called.

    Attributes:
        libraries: files to look for, the first found is used.
        load, function, attribute, launch: as `cuModuleLoadData` and so on.
    """

    libraries: tuple[str, ...]
    load: str
    function: str
    attribute: str
    launch: str


CUDA = Names(
    ("libcuda.so.1", "libcuda.so"), "cuModuleLoadData", "cuModuleGetFunction", "cuFuncGetAttribute", "cuLaunchKernel"
)
HIP = Names(
    ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"), "hipModuleLoadData", "hipModuleGetFunction",
    "hipFuncGetAttribute", "hipModuleLaunchKernel",
)  # fmt: skip


class Driver:
    """The calls of one driver. The device's context must be current, which it is once torch has used the device.

    Args:
        names: `CUDA` or `HIP`.
        library: the loaded library, for tests; found by name otherwise.

    Raises:
        DeviceError: the library is not there.
    """

    def __init__(self, names: Names, library: Any = None) -> None:
        self.names = names
        self._library = _open(names) if library is None else library
        self._modules: list[Any] = []  # kept loaded as long as this object

    def load(self, variant: Variant) -> Any:
        """A handle for `launch`.

        Raises:
            DeviceError: the driver refuses the binary, as an older driver does.
        """
        module, function, used = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        self._call(self.names.load, ctypes.byref(module), variant.image)
        self._modules.append(module)
        self._call(self.names.function, ctypes.byref(function), module, variant.symbol.encode())
        self._call(self.names.attribute, ctypes.byref(used), _LOCAL_BYTES, function)
        return function

    def launch(
        self, function: Any, grid: tuple[int, int], variant: Variant, stream: int, arguments: Sequence[tuple[str, int]]
    ) -> None:
        """Launch on a stream; returns at once.

        Args:
            function: from `load`.
            grid: blocks along x and y.
            variant: threads, shared memory, and how many null pointers follow the arguments.
            stream: the handle of the stream, 0 for the default one.
            arguments: (type, value): ``i32`` or ``i64``, or ``*...`` and an address.

        Raises:
            DeviceError: the driver refuses.
        """
        values: list[Any] = [_INTEGERS.get(kind, ctypes.c_void_p)(value) for kind, value in arguments]
        values += [ctypes.c_void_p(0)] * variant.null_arguments
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        size = (*grid, 1, variant.threads, 1, 1, variant.shared_bytes)
        # A handle has the width of a pointer; a bare Python integer would be cut to 32 bits.
        self._call(self.names.launch, function, *map(ctypes.c_uint, size), ctypes.c_void_p(stream), addresses, None)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise DeviceError(f"the driver's {name} failed with code {code}", construct=self.names.libraries[0])


def _open(names: Names) -> Any:
    for name in names.libraries:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise DeviceError(f"there is no driver: none of {', '.join(names.libraries)} can be loaded")
