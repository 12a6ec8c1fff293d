"""The mask arena: rows of packed masks on a device, shared by all programs of one vocabulary.

A row is kept under a key. Requests hold rows; a row that nobody holds stays until its place is needed, the one that was
let go longest ago first. Row 0 allows everything, is never given away, and is the row of requests without constraint.

`RowBook` keeps the books and lives where the requests do. `MaskArena` is the memory. A scheduler in another process
than the device sends new rows with the row ids, see `schemac_runtime.device.steps`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.device.streams import Slots, StreamOrder, Streams, streams_of
from schemac_runtime.errors import DeviceError

Int32 = npt.NDArray[np.int32]

#: The row that allows everything.
FREE_ROW = 0
#: Words that the rows of an arena are padded to, so that each starts at a multiple of 64 bytes.
_PITCH = 16
#: Rows that a staging buffer holds: late rows come in ones and twos, a program's first rows in dozens.
_STAGED = 32


class ArenaFull(DeviceError):
    """Every row is held by some request."""


class RowBook:
    """Which row holds what, and who holds it.

    Args:
        rows: of the arena, row 0 included.
    """

    def __init__(self, rows: int) -> None:
        if rows < 2:
            raise DeviceError(f"an arena of {rows} rows has none to give", construct="rows")
        self.rows = rows
        self._row_of: dict[Hashable, int] = {}
        self._key_of: dict[int, Hashable] = {}
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # rows that nobody holds, the longest first
        self._unused = 1
        self.evictions = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._row_of

    @property
    def held(self) -> int:
        """How many rows somebody holds."""
        return len(self._holders)

    def acquire(self, key: Hashable) -> tuple[int, bool]:
        """Hold the row of a key: (row, whether its mask must be written first).

        Raises:
            ArenaFull: every row is held.
        """
        row = self._row_of.get(key)
        if row is not None:
            self._holders[row] = self._holders.get(row, 0) + 1
            self._idle.pop(row, None)
            return row, False
        if self._unused < self.rows:
            row = self._unused
            self._unused += 1
        elif self._idle:
            row = self._idle.popitem(last=False)[0]
            del self._row_of[self._key_of[row]]
            self.evictions += 1
        else:
            raise ArenaFull(
                f"all {self.rows - 1} rows of the mask arena are held", construct="rows", hint="make the arena larger"
            )
        self._row_of[key], self._key_of[row], self._holders[row] = row, key, 1
        return row, True

    def release(self, row: int) -> None:
        """Let go of a row; it stays as it is until its place is needed.

        Raises:
            DeviceError: nobody holds it.
        """
        if row == FREE_ROW:
            return
        count = self._holders.get(row, 0)
        if not count:
            raise DeviceError(f"row {row} is held by nobody")
        if count > 1:
            self._holders[row] = count - 1
        else:
            del self._holders[row]
            self._idle[row] = None


class MaskArena:
    """Rows of masks on a device, at an address that never changes, so that CUDA graphs may hold it.

    Rows are written on the current stream, so kernels that are enqueued there later see them; on another stream the
    write waits for the last use that `using` was told of.

    Args:
        vocab_size: the number of tokens V.
        rows: the capacity R, row 0 included; a row takes 16 KiB for 131,072 tokens.
        device: a torch device or its name.
        streams: of the device; torch's own unless a test hands over others.

    Attributes:
        table: int32 [R, pitch] on the device; the first `words` words of a row are its mask.
        bytes_moved: from host to device so far.
    """

    def __init__(self, vocab_size: int, rows: int, device: Any = "cpu", streams: Streams | None = None) -> None:
        import torch

        self.vocab_size, self.words = vocab_size, (vocab_size + 31) // 32
        self.book = RowBook(rows)
        self.device = torch.device(device)
        self.streams = streams_of(self.device) if streams is None else streams
        pitch = -(-self.words // _PITCH) * _PITCH
        self.table = torch.zeros((rows, pitch), dtype=torch.int32, device=self.device)
        self.table[FREE_ROW] = -1
        self.order = StreamOrder(self.streams)
        pinned = self.device.type == "cuda"
        staging = [torch.zeros((_STAGED, pitch), dtype=torch.int32, pin_memory=pinned) for _ in range(2)]
        self._slots = Slots(staging, self.streams)
        self.bytes_moved = 0

    def acquire(self, key: Hashable, make: Callable[[], Int32]) -> int:
        """Hold the row of a key, written from ``make()`` (int32 [words]) if it is not there yet.

        Raises:
            ArenaFull: every row is held.
            DeviceError: the mask allows nothing, so that no token could be chosen, or has another shape.
        """
        if key in self.book:
            return self.book.acquire(key)[0]
        mask = make()
        self.check(mask)
        row, _ = self.book.acquire(key)
        self.write([row], mask[None])
        return row

    def release(self, row: int) -> None:
        """Let go of a row."""
        self.book.release(row)

    def check(self, mask: Int32) -> None:
        """Refuse a mask, int32 [words], that allows nothing.

        Raises:
            DeviceError: it does, or is no such mask.
        """
        if mask.dtype != np.int32 or mask.shape != (self.words,):
            raise DeviceError(f"a mask must be int32 [{self.words}], not {mask.dtype} {list(mask.shape)}")
        if not mask.any():
            raise DeviceError("this mask allows no token at all", hint="the text cannot go on from here")

    def write(self, rows: list[int], masks: Int32) -> None:
        """Write rows on the current stream, int32 [n, words].

        Raises:
            DeviceError: a row is not one of the arena's, or is row 0.
        """
        if masks.shape != (len(rows), self.words) or masks.dtype != np.int32:
            raise DeviceError(f"{len(rows)} rows need int32 [{len(rows)}, {self.words}], not {list(masks.shape)}")
        if any(not FREE_ROW < row < len(self.table) for row in rows):
            raise DeviceError(f"rows {rows} of an arena of {len(self.table)}: row 0 is fixed", construct="rows")
        self.order.before()
        for start in range(0, len(rows), _STAGED):
            chunk = rows[start : start + _STAGED]
            staging = self._slots.take()
            staging.numpy()[: len(chunk), : self.words] = masks[start : start + len(chunk)]
            for index, row in enumerate(chunk):
                self.table[row].copy_(staging[index], non_blocking=True)
            self._slots.sent()
            self.bytes_moved += len(chunk) * self.table.shape[1] * 4
        self.order.after()


class RowIds:
    """Row ids on a device at a fixed address, sent from pinned buffers in turn: 4 bytes per request and step.

    Args:
        requests: most requests in a step.
        device, streams: as for `MaskArena`.

    Attributes:
        tensor: int32 [requests] on the device; 0 behind what was sent last.
        bytes_moved: from host to device so far.
    """

    def __init__(self, requests: int, device: Any = "cpu", streams: Streams | None = None) -> None:
        import torch

        self.device = torch.device(device)
        self.streams = streams_of(self.device) if streams is None else streams
        self.tensor = torch.zeros(requests, dtype=torch.int32, device=self.device)
        pinned = self.device.type == "cuda"
        buffers = [torch.zeros(requests, dtype=torch.int32, pin_memory=pinned) for _ in range(2)]
        self._slots, self.order = Slots(buffers, self.streams), StreamOrder(self.streams)
        self._sent = 0
        self.bytes_moved = 0

    def send(self, ids: Any) -> Any:
        """Send row ids, int [n]; their tensor, int32 [n], on the device.

        Raises:
            DeviceError: more than there is room for, or a CUDA graph is being captured.
        """
        import torch

        count = len(ids)
        if count > len(self.tensor):
            raise DeviceError(f"{count} row ids, room for {len(self.tensor)}", construct="requests")
        buffer = self._slots.take()
        # A graph that was captured for more requests reads on: what is behind must be row 0.
        length = max(count, self._sent)
        buffer[:count] = torch.as_tensor(ids, dtype=torch.int32)
        buffer[count:length] = FREE_ROW
        self.order.before()
        self.tensor[:length].copy_(buffer[:length], non_blocking=True)
        self.order.after()
        self._slots.sent()
        self._sent = count
        self.bytes_moved += length * 4
        return self.tensor[:count]
