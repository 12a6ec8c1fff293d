"""Which form of a kernel is used, and what the driver is asked to do: all but the GPU itself."""

from __future__ import annotations

import ctypes
import logging
from typing import Any

import numpy as np
import pytest

from schemac_runtime import DeviceError
from schemac_runtime.device import calls
from schemac_runtime.device.driver import CUDA, HIP, Driver
from schemac_runtime.device.kernels import BinaryKernels, runs_on
from schemac_runtime.kernels.compiling import Variant, described_variant
from schemac_runtime.kernels.table import KERNELS, NO_KEY, arguments_of, source_digest
from schemac_runtime.targets import TargetArtifact
from tests.device.memory import Memory

IMAGE = b"\x7fELF and more"
ARGUMENTS = list(arguments_of(KERNELS["mask_rows"], "fp16"))


class Library:
    """A driver that writes down what it is asked to do, reading the arguments as the real one would."""

    def __init__(self, refuse: bytes = b"") -> None:
        self.loaded: list[bytes] = []
        self.launched: list[tuple[Any, ...]] = []
        self.refuse = refuse
        self.types: list[str] = []

    def cuModuleLoadData(self, module: Any, image: bytes) -> int:  # noqa: N802
        if self.refuse and self.refuse in image:
            return 209  # CUDA_ERROR_NO_BINARY_FOR_GPU
        self.loaded.append(image)
        module._obj.value = 100 + len(self.loaded)
        return 0

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:  # noqa: N802
        assert module.value == 100 + len(self.loaded)
        function._obj.value = 0x7F00_0000_0000 + len(self.loaded)
        self.types = [kind for _, kind in KERNELS[name.decode()].arguments]
        return 0

    def cuFuncGetAttribute(self, _value: Any, attribute: int, function: Any) -> int:  # noqa: N802
        assert attribute == 3 and function.value
        return 0

    def cuLaunchKernel(self, function: Any, *rest: Any) -> int:  # noqa: N802
        *size, stream, addresses, extra = rest
        values = []
        for index, kind in enumerate(self.types):
            width = {"i32": ctypes.c_int32, "i64": ctypes.c_int64}.get(kind, ctypes.c_uint64)
            values.append(ctypes.cast(addresses[index], ctypes.POINTER(width)).contents.value)
        null = [ctypes.cast(addresses[i], ctypes.POINTER(ctypes.c_uint64)).contents.value
                for i in range(len(self.types), len(addresses))]  # fmt: skip
        assert extra is None
        self.launched.append((function.value, [n.value for n in size], stream.value, values, null))
        return 0

    hipModuleLoadData, hipModuleGetFunction = cuModuleLoadData, cuModuleGetFunction  # noqa: N815
    hipFuncGetAttribute, hipModuleLaunchKernel = cuFuncGetAttribute, cuLaunchKernel  # noqa: N815


def call_of(columns: int = 64, *, first: int = 0, dtype: type = np.float16) -> calls.Call:
    """A call on memory that is aligned or not as the vocabulary size says."""
    memory = np.zeros(1 << 16, np.uint8)
    start = -memory.ctypes.data % 64
    logits = memory[start : start + 2 * columns * np.dtype(dtype).itemsize].view(dtype).reshape(2, columns)
    table = np.zeros(4096, np.uint8)
    start = -table.ctypes.data % 64
    arena = table[start : start + 3 * 16 * 4].view(np.int32).reshape(3, 16)
    ids, alive = (Memory(np.zeros(2, np.int32)) for _ in range(2))
    return calls.mask_rows(Memory(logits), Memory(arena), ids, alive, words=3, first=first)


def artifact(machine: str, names: tuple[str, ...], **changes: Any) -> TargetArtifact:
    entry = {"symbol": "mask_rows", "arguments": ARGUMENTS, "threads": 128, "shared_bytes": 512, "null_arguments": 2}
    manifest = {"machine": machine, "kernels_sha256": source_digest(), "kernels": dict.fromkeys(names, entry)} | changes
    return TargetArtifact(f"triton:{machine}", "f", manifest, {name: IMAGE + name.encode() for name in names})


def no_compiler(*_: Any) -> Variant:
    raise DeviceError("triton is not installed")


BOTH = ("mask_rows.fp16.fast", "mask_rows.fp16.any")


@pytest.mark.parametrize("names", [CUDA, HIP])
def test_a_stored_kernel_is_launched_as_the_table_says(names: Any) -> None:
    library = Library()
    kernels = BinaryKernels("sm_90", [artifact("sm_90", BOTH)], Driver(names, library), lambda: 1 << 40, no_compiler)
    call = call_of(columns=4112)
    kernels.run(call)
    kernels.run(call)
    assert library.loaded == [IMAGE + b"mask_rows.fp16.fast"], "loaded once"
    function, size, stream, values, null = library.launched[1]
    assert (function, size, stream) == (0x7F00_0000_0001, [2, 2, 1, 128, 1, 1, 512], 1 << 40)
    pointers = [call.tensors[name].data_ptr() for name in ("logits", "arena", "row_id", "alive")]
    assert values == [*pointers, 4112, 3, 16, 3, 0, 4112]  # stride, rows, pitch, words, first, vocab
    assert null == [0, 0]
    assert kernels.notes == []


@pytest.mark.parametrize("call", [call_of(100), call_of(64, first=7), call_of(72)])
def test_what_is_not_aligned_gets_the_general_kernel(call: calls.Call) -> None:
    library = Library()
    BinaryKernels("sm_90", [artifact("sm_90", BOTH)], Driver(CUDA, library), lambda: 0, no_compiler).run(call)
    assert library.loaded == [IMAGE + b"mask_rows.fp16.any"]


def test_alignment_of_every_argument_counts() -> None:
    assert call_of(64).fast() and call_of(64, first=64).fast()
    assert not call_of(64, first=48).fast()
    call = call_of(64)
    for name in ("logits", "arena"):
        shifted = Memory(call.tensors[name].array)
        address = shifted.data_ptr() + 4
        shifted.data_ptr = lambda address=address: address  # type: ignore[method-assign]
        assert not calls.Call(call.kernel, call.logits, {**call.tensors, name: shifted}, call.numbers, (1, 1)).fast()
    for name in ("stride", "pitch", "vocab"):
        assert not calls.Call(call.kernel, call.logits, call.tensors, {**call.numbers, name: 40}, (1, 1)).fast()


def test_a_kernel_that_is_not_stored_is_compiled_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    library, asked = Library(), []

    def compiler(machine: str, kernel: Any, logits: str | None, fast: bool) -> Variant:
        asked.append((machine, kernel.name, logits, fast))
        return Variant("mask_rows", tuple(ARGUMENTS), 128, 0, 2, IMAGE + b"now")

    with caplog.at_level(logging.WARNING):
        kernels = BinaryKernels("sm_90", [artifact("sm_80", BOTH)], Driver(CUDA, library), lambda: 0, compiler)
        kernels.run(call_of())
        kernels.run(call_of())
    assert asked == [("sm_90", "mask_rows", "fp16", True)]
    assert library.loaded == [IMAGE + b"now"] and len(library.launched) == 2
    assert kernels.notes == [record.message for record in caplog.records] == [
        "no stored kernel is for sm_90 (there are some for triton:sm_80)",
        "mask_rows.fp16.fast was compiled just in time for sm_90",
    ]


def test_kernels_of_another_version_are_not_used() -> None:
    old = artifact("sm_90", BOTH, kernels_sha256="0" * 64)
    kernels = BinaryKernels("sm_90", [old], Driver(CUDA, Library()), lambda: 0, no_compiler)
    assert "of another version of schemac_runtime" in kernels.notes[0]


@pytest.mark.parametrize("refuse", [b"fast", b"mask"])
def test_what_the_driver_refuses(refuse: bytes) -> None:
    """An older driver refuses a binary: the general one is tried, then the compiler, then torch operations."""
    library = Library(refuse)
    kernels = BinaryKernels("sm_90", [artifact("sm_90", BOTH)], Driver(CUDA, library), lambda: 0, no_compiler)
    if refuse == b"fast":
        kernels.run(call_of())
        assert library.loaded == [IMAGE + b"mask_rows.fp16.any"]
        assert "cuModuleLoadData failed with code 209" in kernels.notes[0]
        return
    torch = pytest.importorskip("torch", reason="not run: needs torch (make test-device)")
    logits = torch.zeros((1, 40), dtype=torch.float16)
    one = torch.ones(1, dtype=torch.int32)
    arena = torch.tensor([[-1, -1], [1, 2]], dtype=torch.int32)
    kernels.run(calls.mask_rows(logits, arena, one, torch.zeros(1, dtype=torch.int32)))
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [0, 33]
    assert "torch operations instead of a kernel: triton is not installed" in kernels.notes[-1]


@pytest.mark.parametrize("damage", [
    {"kernels": None}, {"kernels": {}}, {"kernels": {BOTH[0]: 1}}, {"kernels": {BOTH[0]: {}, "other": {}}},
])  # fmt: skip
def test_a_damaged_artifact_is_not_used(damage: dict[str, Any]) -> None:
    def compiler(*_: Any) -> Variant:
        return Variant("mask_rows", tuple(ARGUMENTS), 128, 0, 2, IMAGE + b"now")

    library = Library()
    kernels = BinaryKernels("sm_90", [artifact("sm_90", BOTH, **damage)], Driver(CUDA, library), lambda: 0, compiler)
    kernels.run(call_of())
    assert library.loaded == [IMAGE + b"now"] and "compiled just in time" in kernels.notes[-1]


def test_a_tensor_elsewhere_is_refused() -> None:
    """The address of a tensor on the host would be read as one on the device."""
    library = Library()
    stored = [artifact("sm_90", BOTH)]
    kernels = BinaryKernels("sm_90", stored, Driver(CUDA, library), lambda: 0, no_compiler, device="gpu:0")
    call = call_of()
    for tensor in call.tensors.values():
        tensor.device = "gpu:0"
    kernels.run(call)
    call.tensors["row_id"].device = "cpu"
    with pytest.raises(DeviceError, match=r"`row_id`: a tensor on cpu, the kernels run on gpu:0"):
        kernels.run(call)
    assert len(library.launched) == 1


def test_nothing_is_launched_for_an_empty_batch() -> None:
    library = Library()
    empty = Memory(np.zeros(0, np.int32))
    kernels = BinaryKernels("sm_90", [artifact("sm_90", BOTH)], Driver(CUDA, library), lambda: 0, no_compiler)
    table = Memory(np.zeros((1, 2), np.int32))
    kernels.run(calls.mask_rows(Memory(np.zeros((0, 40), np.float16)), table, empty, empty))
    assert library.loaded == library.launched == []


def test_everything_can_be_loaded_ahead() -> None:
    library = Library()
    names = tuple(f"{name}.fp16.fast" if kernel.takes_logits else name for name, kernel in KERNELS.items())
    kernels = BinaryKernels("sm_90", [artifact("sm_90", names)], Driver(CUDA, library), lambda: 0, no_compiler)
    kernels.prepare("fp16")
    assert len(library.loaded) == len(KERNELS) and kernels.notes == []


@pytest.mark.parametrize(("binary", "machine", "runs"), [
    ("sm_90", "sm_90", True), ("sm_80", "sm_86", True), ("sm_80", "sm_89", True), ("sm_86", "sm_80", False),
    ("sm_80", "sm_90", False), ("sm_90", "sm_100", False), ("sm_100", "sm_103", False), ("sm_100", "sm_100", True),
    ("gfx942", "gfx942", True), ("gfx942", "gfx950", False), ("gfx942", "sm_90", False), ("None", "sm_90", False),
])  # fmt: skip
def test_which_binary_runs_where(binary: str, machine: str, runs: bool) -> None:
    assert runs_on(binary, machine) == runs


def test_a_stored_description_is_checked() -> None:
    good = {"symbol": "mask_rows", "arguments": ARGUMENTS, "threads": 128, "shared_bytes": 0, "null_arguments": 2}
    assert described_variant(good, IMAGE).description() == good
    for key, values in {"symbol": [None, "x", 3, "step_mask", []], "arguments": [None, [], ARGUMENTS[:-1], 3, "x"],
                        "threads": [0, -1, 2048, True, "1"], "shared_bytes": [1 << 20, None],
                        "null_arguments": [5, -1, 1.0]}.items():  # fmt: skip
        for value in values:
            with pytest.raises(DeviceError, match="as described"):
                described_variant({**good, key: value}, IMAGE)
    with pytest.raises(DeviceError):
        described_variant(good, b"no binary")


def test_without_a_driver() -> None:
    from dataclasses import replace

    with pytest.raises(DeviceError, match="there is no driver"):
        Driver(replace(CUDA, libraries=("no-such-library.so.9",)))


# -- what a call refuses -----------------------------------------------------------------------------------------


def test_tensors_that_do_not_fit_are_refused_by_name() -> None:
    logits, arena = np.zeros((2, 40), np.float32), np.zeros((3, 2), np.int32)
    ids, alive = np.zeros(2, np.int32), np.zeros(2, np.int32)

    def refused(match: str, **changes: Any) -> None:
        given = {"logits": logits, "arena": arena, "row_id": ids, "alive": alive} | changes
        tensors = {name: Memory(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
        with pytest.raises(DeviceError, match=match):
            calls.mask_rows(**tensors)

    refused("`logits`", logits=logits.astype(np.float64))
    refused("`logits`", logits=logits[0])
    refused("`logits`", logits=np.asfortranarray(np.zeros((40, 40), np.float32)))
    refused("`arena`", arena=arena.astype(np.int64))
    refused("`arena`", words=3)
    refused("`row_id`", row_id=np.zeros(3, np.int32))
    refused("`row_id`", row_id=np.zeros(4, np.int32)[::2])
    refused("`alive`", alive=np.zeros(2, np.int64))
    refused("`first`", first=-1)
    many = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (70_000, 2), (0, 4))
    refused("too many", logits=many)


def test_a_row_is_cut_into_parts_only_for_small_batches() -> None:
    def parts(rows: int, columns: int) -> tuple[int, int]:
        one = [Memory(np.zeros(rows, dtype)) for dtype in (np.int32, np.int64, np.int32, np.int64, np.int32)]
        logits = Memory(np.lib.stride_tricks.as_strided(np.zeros(1, np.float16), (rows, columns), (0, 2)))
        call = calls.argmax_rows(logits, Memory(np.zeros((1, 4096), np.int32)), *one)
        return call.grid[0], call.numbers["per"]

    assert parts(1, 131_072) == (64, 64)
    assert parts(64, 131_072) == (8, 512)
    assert parts(512, 131_072) == (1, 4096)
    for rows in (1, 3, 100, 600):
        for columns in (1, 2048, 2049, 100_001):
            count, per = parts(rows, columns)
            assert (count - 1) * per < -(-columns // 32) <= count * per
    assert NO_KEY < -(2**62)
