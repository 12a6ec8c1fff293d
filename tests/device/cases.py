"""Random calls of every kernel: three forms of it get the same bytes and must leave the same bytes.

Run as a program, with TRITON_INTERPRET=1, it compares Triton's interpreter with the NumPy reference:

    python -m tests.device.cases --cases 10000 --seed 1
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from schemac_runtime.device import calls
from schemac_runtime.device.calls import Call
from schemac_runtime.kernels import reference
from schemac_runtime.kernels.table import KERNELS, NEVER, NO_KEY, Kernel
from tests.device.memory import Memory, from_bfloat16, interpret, to_bfloat16

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}
SPECIAL = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.0, -1.0], dtype=np.float32)
#: Makes a call of a kernel from tensors.
Maker = Callable[[Mapping[str, Any], Mapping[str, int]], Call]


def make(name: str, tensors: Mapping[str, Any], numbers: Mapping[str, int]) -> Call:
    """The call of a kernel by name, whatever its tensors are made of."""
    if name.startswith("step_"):
        own = {key: value for key, value in tensors.items() if key != "logits"}
        if name == "step_advance":
            return calls.step_advance(own)
        return {"step_greedy": calls.step_greedy, "step_mask": calls.step_mask}[name](
            tensors["logits"], own, numbers["words"]
        )
    maker = {"mask_rows": calls.mask_rows, "mask_packed": calls.mask_packed, "argmax_rows": calls.argmax_rows}[name]
    return maker(**tensors, **numbers)


class Case:
    """One random call: arrays with room around them, so that a stray access shows.

    Attributes:
        name: of the kernel.
        dtype: of the logits.
        arrays: by argument name; views of `buffers`.
        buffers: the memory around them.
        numbers: `words` and `first`, where the kernel takes them.
    """

    def __init__(self, rng: np.random.Generator, name: str) -> None:
        self.name, self.rng = name, rng
        self.dtype = str(rng.choice(list(DTYPES)))
        self.arrays: dict[str, np.ndarray] = {}
        self.buffers: dict[str, np.ndarray] = {}
        self.numbers: dict[str, int] = {}
        rows, columns = int(rng.integers(0, 4)), int(rng.choice([1, 5, 31, 32, 33, 64, 100, 127, 256, 257, 300]))
        if rng.random() < 0.02:
            columns = 0
        if name.startswith("step_"):
            columns = max(columns, 1)
            self._step(rows, columns)
        else:
            self._masks(rows, columns)

    def _array(self, name: str, shape: tuple[int, ...], values: np.ndarray, pad: int = 0, before: int = 0) -> None:
        """An array whose rows are `pad` longer in memory, `before` elements into its buffer."""
        pitch = (shape[-1] if shape else 1) + pad
        rows = int(np.prod(shape[:-1], dtype=np.int64))
        buffer = np.zeros(before + rows * pitch + 64, dtype=values.dtype)
        buffer[:] = np.asarray(0x55).astype(values.dtype)
        view = buffer[before : before + rows * pitch].reshape((*shape[:-1], pitch))[..., : shape[-1]]
        view[...] = values.reshape(shape)
        self.buffers[name], self.arrays[name] = buffer, view

    def _logits(self, rows: int, columns: int) -> None:
        rng = self.rng
        values = (rng.normal(size=(rows, columns)) * 8).round(int(rng.integers(0, 3))).astype(np.float32)
        if rng.random() < 0.5:
            spots = rng.random((rows, columns)) < rng.choice([0.05, 0.9, 1.0])
            values[spots] = rng.choice(SPECIAL, size=int(spots.sum()))
        stored = to_bfloat16(values).reshape(values.shape) if self.dtype == "bfloat16" else values
        pad, before = (int(rng.choice([0, 0, 1, 16])), int(rng.choice([0, 0, 1, 8])))
        self._array("logits", (rows, columns), stored.astype(DTYPES[self.dtype]), pad, before)

    def _rows(self, name: str, rows: int, words: int) -> None:
        rng = self.rng
        table = rng.integers(0, 1 << 32, size=(rows, words), dtype=np.uint64)
        for row in table:
            kind = rng.integers(0, 5)
            if kind == 0:
                row[:] = 0
            elif kind == 1:
                row[:] = 0xFFFFFFFF
            elif kind == 2:
                row[rng.random(words) < 0.8] = 0
            elif kind == 3:
                row[:] = 0
                if words:
                    row[rng.integers(words)] = 1 << int(rng.integers(32))
        self._array(name, (rows, words), table.astype(np.uint32).view(np.int32), int(rng.choice([0, 3])))

    def _ids(self, name: str, count: int, below: int) -> None:
        """Mostly numbers of rows, some of rows that are not there."""
        rng = self.rng
        ids = rng.integers(0, max(below, 1), size=count)
        strange = rng.random(count) < 0.1
        ids[strange] = rng.choice([-1, below, 1 << 30, -(1 << 31)], size=int(strange.sum()))
        self._array(name, (count,), ids.astype(np.int32))

    def _masks(self, rows: int, columns: int) -> None:
        rng = self.rng
        first = int(rng.choice([0, 0, 32, 64, 7, 45]))
        total = int(rng.integers(1, 5))
        words = max(0, (first + columns + 31) // 32 + int(rng.choice([0, 0, 0, -1, 1])))
        self._logits(rows, columns)
        self._rows("mask" if self.name == "mask_packed" else "arena", total, words + int(rng.integers(0, 2)))
        self.numbers = {"words": words, "first": first}
        if self.name == "mask_packed":
            items = int(rng.integers(0, 4))
            self._ids("logit_row", items, rows)
            self._ids("mask_row", items, total)
            self._array("alive", (items,), np.zeros(items, np.int32))
            return
        self._ids("row_id", rows, total)
        if self.name == "mask_rows":
            self._array("alive", (rows,), np.zeros(rows, np.int32))
        else:
            self._choice(rows)
            self._array("key", (rows,), np.full(rows, 77, np.int64))

    def _choice(self, rows: int) -> None:
        self._array("partial", (rows,), np.full(rows, NO_KEY, np.int64))
        self._array("count", (rows,), np.zeros(rows, np.int32))
        self._array("token", (rows,), np.full(rows, 3, np.int32))

    def _step(self, rows: int, columns: int) -> None:
        """Tables that no program would have, but all indices in range: the forms must agree on any."""
        rng = self.rng
        states, classes, tables = int(rng.integers(1, 6)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
        total = int(rng.integers(1, 5))
        words = (columns + 31) // 32
        info = np.zeros((states, 4), np.int32)
        info[:, 0] = rng.integers(0, total, states)
        info[:, 1] = rng.integers(0, tables, states)
        info[:, 2] = rng.choice([-1, 0, 1, 2, 3, NEVER], states)
        info[:, 3] = rng.choice([-1, 1, 2, 4, NEVER], states)
        if self.name != "step_advance":
            self._logits(rows, columns)
            self._rows("arena", total, words)
            self.numbers = {"words": words}
        self._array("info", (states, 4), info)
        self._array("start", (states,), (np.arange(states) * classes).astype(np.int64))
        self._array("classes", (tables, columns), rng.integers(0, classes, (tables, columns)).astype(np.int32))
        following = rng.integers(0, states, states * classes)
        following[rng.random(len(following)) < 0.2] = -1
        self._array("following", (len(following),), following.astype(np.int32))
        self._ids("state", rows, states)
        self._array("budget", (rows,), rng.choice([0, 1, 2, 3, 5, 1 << 30], rows).astype(np.int32))
        if self.name == "step_mask":
            return
        width = int(rng.integers(0, 4))
        self._choice(rows)
        if self.name == "step_advance":
            self._ids("token", rows, columns)
            del self.arrays["partial"], self.arrays["count"], self.buffers["partial"], self.buffers["count"]
        self._array("flags", (rows,), rng.choice([0, 0, 0, 1, 2, 4], rows).astype(np.int32))
        self._array("position", (rows,), rng.choice([0, 1, width, -1], rows).astype(np.int32))
        self._array("history", (rows, width), np.full((rows, width), -9, np.int32))

    def copies(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Fresh (arrays, buffers) with the same content."""
        arrays, buffers = {}, {}
        for name, buffer in self.buffers.items():
            copy = buffers[name] = buffer.copy()
            old = self.arrays[name]
            start = (old.ctypes.data - buffer.ctypes.data) // buffer.itemsize if old.size else 0
            arrays[name] = np.lib.stride_tricks.as_strided(copy[start:], old.shape, old.strides)
        return arrays, buffers

    def expected(self) -> dict[str, np.ndarray]:
        """The buffers after the NumPy reference."""
        arrays, buffers = self.copies()
        function = getattr(reference, self.name)
        wanted = inspect.signature(function).parameters
        given: dict[str, Any] = {name: value for name, value in {**arrays, **self.numbers}.items() if name in wanted}
        if self.dtype == "bfloat16" and "logits" in given:
            given["logits"] = from_bfloat16(arrays["logits"]).reshape(arrays["logits"].shape)
        function(**given)
        if self.dtype == "bfloat16" and "logits" in given:
            arrays["logits"][...] = to_bfloat16(given["logits"]).reshape(arrays["logits"].shape)
        return buffers

    def compare(self, buffers: Mapping[str, np.ndarray]) -> None:
        """Every byte of every buffer, room around the arrays included."""
        for name, wanted in self.expected().items():
            same = wanted.view(np.uint8) == buffers[name].view(np.uint8)
            at = np.flatnonzero(~same)[:4] // wanted.itemsize
            have = buffers[name]
            assert same.all(), f"{self.name} {self.dtype}: {name}{at.tolist()} is {have[at]}, expected {wanted[at]}"


def small_blocks(words: int) -> Mapping[str, Kernel]:
    """The kernels with blocks of so few words that short rows have many of them."""
    return MappingProxyType({
        name: replace(kernel, constants=dict.fromkeys(kernel.constants, words)) for name, kernel in KERNELS.items()
    })


def interpreted(case: Case) -> dict[str, np.ndarray]:
    """The buffers after Triton's interpreter."""
    arrays, buffers = case.copies()
    tensors = {name: Memory(array, case.dtype if name == "logits" else None) for name, array in arrays.items()}
    call = make(case.name, tensors, case.numbers)
    interpret(call, shifted=None if case.rng.random() < 0.5 or case.numbers.get("first", 0) % 32 else True)
    return buffers


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    names = list(KERNELS)
    for number in range(arguments.cases):
        rng = np.random.default_rng((arguments.seed, number))
        calls.KERNELS = KERNELS if number % 50 == 0 else small_blocks(int(rng.choice([2, 4, 8])))  # type: ignore[misc]
        case = Case(rng, names[number % len(names)])
        case.compare(interpreted(case))
    print(f"{arguments.cases} cases: identical")


if __name__ == "__main__":
    main()
