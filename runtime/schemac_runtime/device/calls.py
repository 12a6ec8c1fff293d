"""Calls of kernels: what is passed to each, checked, with the grid that it is launched on.

A `Call` is carried out by any of the forms of a kernel: a binary, Triton's interpreter, or the reference. Tensors are
torch tensors, or anything else with `shape`, `stride(axis)` in elements, `dtype` and `data_ptr()`. The checks look at
nothing but these, so they cost a few microseconds and never wait for a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemac_runtime.errors import DeviceError
from schemac_runtime.kernels.table import ALIGNED, INFO, KERNELS

Tensor = Any

#: Triton's names of the dtypes that logits may have.
LOGITS_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
#: Most requests in a call: the second axis of a grid.
MOST_REQUESTS = 65_535
#: Most columns of logits: a token id has 31 bits.
MOST_COLUMNS = (1 << 31) - 1 - (1 << 17)
#: Blocks that keep every multiprocessor busy; one request's row is cut into so many parts at most.
_BUSY_BLOCKS = 528


@dataclass(frozen=True, eq=False)
class Call:
    """One launch.

    Attributes:
        kernel: its name in `schemac_runtime.kernels.table.KERNELS`.
        logits: dtype of the logits by Triton's name, None for a kernel that takes none.
        tensors: by argument name.
        numbers: the other arguments by name.
        grid: blocks along the rows of logits, and requests.
    """

    kernel: str
    logits: str | None
    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, int]
    grid: tuple[int, int]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return 0 in self.grid

    def values(self) -> list[Any]:
        """All arguments in the kernel's order."""
        both = {**self.tensors, **self.numbers}
        return [both[name] for name, _ in KERNELS[self.kernel].arguments]

    def fast(self) -> bool:
        """Whether the variant with 16-byte accesses may be launched."""
        if self.numbers.get("first", 0) % 32:
            return False
        for name in ALIGNED:
            tensor, number = self.tensors.get(name), self.numbers.get(name, 0)
            if number % 16 or (tensor is not None and tensor.data_ptr() % 16):
                return False
        return True


def dtype_name(tensor: Tensor) -> str:
    """Such as ``int32``, whatever library the tensor is of."""
    return str(tensor.dtype).rpartition(".")[2]


def check(name: str, tensor: Tensor, dtype: str, shape: tuple[int | None, ...]) -> None:
    """Refuse a tensor that is not contiguous, of this dtype and shape (None: any length).

    Raises:
        DeviceError: names the argument.
    """
    have = tuple(tensor.shape)
    fits = len(have) == len(shape) and all(want in (None, n) for n, want in zip(have, shape, strict=True))
    if dtype_name(tensor) != dtype or not fits or not _contiguous(tensor):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise DeviceError(
            f"expected a contiguous {dtype} tensor [{wanted}], not {dtype_name(tensor)} {list(have)}", construct=name
        )


def _contiguous(tensor: Tensor) -> bool:
    expected = 1
    for axis in reversed(range(len(tensor.shape))):
        if tensor.shape[axis] != 1 and tensor.stride(axis) != expected:
            return 0 in tensor.shape
        expected *= tensor.shape[axis]
    return True


def _logits(logits: Tensor) -> tuple[str, int, int, int]:
    """(dtype, rows, columns, stride of a row); the columns of a row must lie side by side."""
    kind = LOGITS_DTYPES.get(dtype_name(logits))
    shape = tuple(logits.shape)
    if kind is None or len(shape) != 2 or (shape[0] > 0 and shape[1] > 1 and logits.stride(1) != 1):
        raise DeviceError(
            f"expected float32, float16 or bfloat16 [requests, columns] with columns side by side, not "
            f"{dtype_name(logits)} {list(logits.shape)}", construct="logits",
        )  # fmt: skip
    rows, columns = int(logits.shape[0]), int(logits.shape[1])
    if rows > MOST_REQUESTS or columns > MOST_COLUMNS:
        raise DeviceError(f"{rows} rows of {columns} logits are too many for one call", construct="logits")
    return kind, rows, columns, int(logits.stride(0)) if rows > 1 else -(-columns // 16) * 16


def _table(name: str, table: Tensor, words: int | None) -> tuple[int, int, int]:
    """(rows, pitch, words) of a table of packed masks; its rows may be longer than `words`."""
    if dtype_name(table) != "int32" or len(table.shape) != 2 or (table.shape[1] > 1 and table.stride(1) != 1):
        raise DeviceError(f"expected int32 [rows, words], not {dtype_name(table)} {list(table.shape)}", construct=name)
    width = int(table.shape[1])
    if words is not None and not 0 <= words <= width:
        raise DeviceError(f"{words} words of rows that have {width}", construct=name)
    pitch = int(table.stride(0)) if table.shape[0] > 1 else width
    return int(table.shape[0]), pitch, width if words is None else words


def _blocks(columns: int, words: int) -> int:
    return -(-columns // (32 * words))


def _parts(rows: int, columns: int, words: int) -> tuple[int, int]:
    """(parts that a row is cut into, words in each), enough of them to keep a device busy."""
    blocks = _blocks(columns, words)
    parts = max(1, min(blocks, _BUSY_BLOCKS // max(rows, 1)))
    per = -(-blocks // parts)
    return -(-blocks // per) if blocks else 1, per * words


def mask_rows(
    logits: Tensor, arena: Tensor, row_id: Tensor, alive: Tensor, words: int | None = None, first: int = 0
) -> Call:
    """Mask row b of the logits with row ``row_id[b]`` of an arena.

    Args:
        logits: float [B, V].
        arena: int32 [R, >= words].
        row_id: int32 [B]; 0 leaves a row alone.
        alive: int32 [B]; becomes 1 where any column is allowed, is left alone elsewhere.
        words: of an arena row that are mask.
        first: the token of column 0, for a shard of the vocabulary.

    Raises:
        DeviceError: a tensor does not fit.
    """
    kind, rows, columns, stride = _logits(logits)
    total, pitch, words = _table("arena", arena, words)
    check("row_id", row_id, "int32", (rows,))
    check("alive", alive, "int32", (rows,))
    _check_first(first)
    tensors = {"logits": logits, "arena": arena, "row_id": row_id, "alive": alive}
    numbers = {"stride": stride, "rows": total, "pitch": pitch, "words": words, "first": first, "vocab": columns}
    return Call("mask_rows", kind, tensors, numbers, (_blocks(columns, KERNELS["mask_rows"].constants["BLOCK"]), rows))


def mask_packed(
    logits: Tensor, mask: Tensor, logit_row: Tensor, mask_row: Tensor, alive: Tensor, words: int | None = None,
    first: int = 0,
) -> Call:  # fmt: skip
    """Mask row ``logit_row[i]`` of the logits with row ``mask_row[i]`` of a packed mask.

    vLLM's newer runner lists the logits row of each mask row: ``mask_row`` counts up. xgrammar's `indices` names both:
    pass it twice.

    Args:
        logits: float [B, V].
        mask: int32 [M, >= words].
        logit_row, mask_row: int32 [I]; a row of logits that is not there is left out.
        alive: int32 [I]; becomes 1 where any column is allowed.
        words, first: as for `mask_rows`.

    Raises:
        DeviceError: a tensor does not fit.
    """
    kind, rows, columns, stride = _logits(logits)
    total, pitch, words = _table("mask", mask, words)
    items = int(logit_row.shape[0])
    if items > MOST_REQUESTS:
        raise DeviceError(f"{items} rows are too many for one call", construct="logit_row")
    for name, tensor in (("logit_row", logit_row), ("mask_row", mask_row), ("alive", alive)):
        check(name, tensor, "int32", (items,))
    _check_first(first)
    tensors = {"logits": logits, "mask": mask, "logit_row": logit_row, "mask_row": mask_row, "alive": alive}
    numbers = {
        "stride": stride, "batch": rows, "rows": total, "pitch": pitch, "words": words, "first": first,
        "vocab": columns,
    }  # fmt: skip
    blocks = _blocks(columns, KERNELS["mask_packed"].constants["BLOCK"]) if rows else 0
    return Call("mask_packed", kind, tensors, numbers, (blocks, items))


def argmax_rows(
    logits: Tensor, arena: Tensor, row_id: Tensor, partial: Tensor, count: Tensor, key: Tensor, token: Tensor,
    words: int | None = None, first: int = 0,
) -> Call:  # fmt: skip
    """The greedy choice among the allowed tokens of each row, in one read of the logits.

    Args:
        logits, arena, row_id, words, first: as for `mask_rows`; the logits are not changed.
        partial: int64 [B], all `NO_KEY`; count: int32 [B], all 0; both are so again afterwards.
        key: int64 [B]; its maximum over ranks is the choice among all shards.
        token: int32 [B]; -1 where no token is allowed.

    Raises:
        DeviceError: a tensor does not fit.
    """
    kind, rows, columns, stride = _logits(logits)
    total, pitch, words = _table("arena", arena, words)
    check("row_id", row_id, "int32", (rows,))
    _check_first(first)
    for name, tensor, dtype in (("partial", partial, "int64"), ("count", count, "int32"), ("key", key, "int64"),
                                ("token", token, "int32")):  # fmt: skip
        check(name, tensor, dtype, (rows,))
    parts, per = _parts(rows, columns, KERNELS["argmax_rows"].constants["BLOCK"])
    tensors = {"logits": logits, "arena": arena, "row_id": row_id, "partial": partial, "count": count, "key": key,
               "token": token}  # fmt: skip
    numbers = {"stride": stride, "rows": total, "pitch": pitch, "words": words, "first": first, "vocab": columns,
               "per": per}  # fmt: skip
    return Call("argmax_rows", kind, tensors, numbers, (parts, rows))


def _check_first(first: int) -> None:
    if not 0 <= first <= MOST_COLUMNS:
        raise DeviceError(f"a shard cannot begin at token {first}", construct="first")


def _check_tables(tables: Mapping[str, Tensor], rows: int, columns: int | None) -> tuple[int, int]:
    """(states, vocabulary size) of the tables and request state of a device step."""
    info, classes = tables["info"], tables["classes"]
    check("info", info, "int32", (None, INFO))
    check("start", tables["start"], "int64", (int(info.shape[0]),))
    check("classes", classes, "int32", (None, columns))
    check("following", tables["following"], "int32", (None,))
    for name in ("state", "budget"):
        check(name, tables[name], "int32", (rows,))
    return int(info.shape[0]), int(classes.shape[1])


def step_greedy(logits: Tensor, tables: Mapping[str, Tensor], words: int | None = None) -> Call:
    """One step of every request on the device.

    Args:
        logits: float [B, V].
        tables: by name, what `schemac_runtime.kernels.reference` lists: arena, info, start, classes, following, state,
            budget, flags, position, history, and token, partial, count as for `argmax_rows`.
        words: as for `mask_rows`.

    Raises:
        DeviceError: a tensor does not fit.
    """
    kind, rows, columns, stride = _logits(logits)
    total, pitch, words = _table("arena", tables["arena"], words)
    states, _ = _check_tables(tables, rows, columns)
    width = _check_requests(tables, rows)
    check("partial", tables["partial"], "int64", (rows,))
    check("count", tables["count"], "int32", (rows,))
    parts, per = _parts(rows, columns, KERNELS["step_greedy"].constants["BLOCK"])
    names = ("arena", "info", "start", "classes", "following", "state", "budget", "partial", "count", "token", "flags",
             "position", "history")  # fmt: skip
    numbers = {"stride": stride, "rows": total, "pitch": pitch, "words": words, "vocab": columns, "states": states,
               "width": width, "per": per}  # fmt: skip
    return Call("step_greedy", kind, {"logits": logits, **{n: tables[n] for n in names}}, numbers, (parts, rows))


def step_mask(logits: Tensor, tables: Mapping[str, Tensor], words: int | None = None) -> Call:
    """The first half of `step_greedy`: write -inf to what may not come next.

    Raises:
        DeviceError: a tensor does not fit.
    """
    kind, rows, columns, stride = _logits(logits)
    total, pitch, words = _table("arena", tables["arena"], words)
    states, _ = _check_tables(tables, rows, columns)
    names = ("arena", "info", "start", "classes", "following", "state", "budget")
    numbers = {"stride": stride, "rows": total, "pitch": pitch, "words": words, "vocab": columns, "states": states}
    blocks = _blocks(columns, KERNELS["step_mask"].constants["BLOCK"])
    return Call("step_mask", kind, {"logits": logits, **{n: tables[n] for n in names}}, numbers, (blocks, rows))


def step_advance(tables: Mapping[str, Tensor]) -> Call:
    """The second half of `step_greedy`: read ``token[b]`` in every request.

    Raises:
        DeviceError: a tensor does not fit.
    """
    rows = int(tables["token"].shape[0])
    states, vocab = _check_tables(tables, rows, None)
    width = _check_requests(tables, rows)
    names = ("token", "info", "start", "classes", "following", "state", "budget", "flags", "position", "history")
    numbers = {"vocab": vocab, "states": states, "width": width}
    return Call("step_advance", None, {n: tables[n] for n in names}, numbers, (rows, 1))


def _check_requests(tables: Mapping[str, Tensor], rows: int) -> int:
    for name in ("token", "flags", "position"):
        check(name, tables[name], "int32", (rows,))
    check("history", tables["history"], "int32", (rows, None))
    return int(tables["history"].shape[1])
