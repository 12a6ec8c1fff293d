"""Masking logits on a device: by row ids, or by packed masks from the host where there are no row ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.device import calls
from schemac_runtime.device.arena import MaskArena, RowIds
from schemac_runtime.device.kernels import Kernels, open_kernels
from schemac_runtime.device.streams import Slots, StreamOrder, Streams
from schemac_runtime.errors import DeviceError
from schemac_runtime.kernels.table import NO_KEY
from schemac_runtime.targets import TargetArtifact

Int32 = npt.NDArray[np.int32]
Tensor = Any


class DeviceMasks:
    """All that a model runner needs to mask the logits of its batches on one device.

    Args:
        vocab_size: the number of tokens V of the whole vocabulary.
        device: a torch device or its name.
        rows: capacity of the mask arena, row 0 included.
        requests: most rows of logits in a step.
        artifacts: stored kernels, such as `Package.targets`.
        first: the token of column 0 of the logits: where the slice of this rank begins, if the vocabulary is cut into
            shards.
        kernels, streams: other than what `open_kernels` and torch have, for tests.

    Attributes:
        arena: the mask arena.
        row_ids: the row ids on the device.
    """

    def __init__(
        self,
        vocab_size: int,
        device: Any = "cpu",
        *,
        rows: int = 4096,
        requests: int = 1024,
        artifacts: Iterable[TargetArtifact] = (),
        first: int = 0,
        kernels: Kernels | None = None,
        streams: Streams | None = None,
    ) -> None:
        import torch

        self.vocab_size, self.first = vocab_size, first
        self.arena = MaskArena(vocab_size, rows, device, streams)
        self.row_ids = RowIds(requests, device, streams)
        self.kernels = open_kernels(device, artifacts) if kernels is None else kernels
        place, words = self.arena.device, self.arena.words
        self._alive = torch.zeros(requests, dtype=torch.int32, device=place)
        self._partial = torch.full((requests,), NO_KEY, dtype=torch.int64, device=place)
        self._count = torch.zeros(requests, dtype=torch.int32, device=place)
        self._key = torch.zeros(requests, dtype=torch.int64, device=place)
        self._token = torch.zeros(requests, dtype=torch.int32, device=place)
        # Packed masks: one buffer for masks and row numbers, so that a step is one copy. Made on first use.
        self._packed: Tensor = None
        self._packed_slots: Slots | None = None
        self._packed_order = StreamOrder(self.arena.streams)
        self._packed_words = words
        self.packed_bytes_moved = 0

    @property
    def bytes_moved(self) -> int:
        """From host to device so far: row ids, masks, and rows of the arena."""
        return self.row_ids.bytes_moved + self.arena.bytes_moved + self.packed_bytes_moved

    def mask(self, logits: Tensor, row_ids: Tensor | Sequence[int] | Int32) -> None:
        """Write -inf to what the rows forbid.

        Args:
            logits: float [B, columns] on the device; changed in place.
            row_ids: int [B]: from the host, or int32 on the device, where it is used as it is.

        Raises:
            DeviceError: see `schemac_runtime.device.calls`.
        """
        ids = self._on_device(row_ids)
        self.arena.order.before()
        self.kernels.run(
            calls.mask_rows(logits, self.arena.table, ids, self._alive[: len(ids)], self.arena.words, self.first)
        )
        self.arena.order.after()

    def alive(self, count: int) -> Tensor:
        """int32 [count] on the device: 1 for rows of logits in which some mask since `clear_alive` allowed a column.

        A row whose mask allows nothing is all -inf, and its softmax is NaN: this is how to find it. With a vocabulary
        cut into shards a row may be so on one rank; take the maximum over all.
        """
        return self._alive[:count]

    def clear_alive(self) -> None:
        """Set what `alive` returns to 0, on the current stream."""
        self._alive.zero_()

    def choose(self, logits: Tensor, row_ids: Tensor | Sequence[int] | Int32) -> tuple[Tensor, Tensor]:
        """The allowed token with the greatest logit in each row; the logits are read once and not changed.

        Returns:
            (int32 [B], -1 where no token is allowed; int64 [B], keys whose maximum over ranks `token_of` turns into the
            choice among all shards). Both are overwritten by the next call.
        """
        ids = self._on_device(row_ids)
        count = len(ids)
        self.arena.order.before()
        self.kernels.run(calls.argmax_rows(
            logits, self.arena.table, ids, self._partial[:count], self._count[:count], self._key[:count],
            self._token[:count], self.arena.words, self.first,
        ))  # fmt: skip
        self.arena.order.after()
        return self._token[:count], self._key[:count]

    def _on_device(self, row_ids: Any) -> Tensor:
        import torch

        if isinstance(row_ids, torch.Tensor) and row_ids.device == self.arena.table.device:
            return row_ids
        return self.row_ids.send(row_ids)

    def mask_packed(self, logits: Tensor, masks: Any, logit_rows: Sequence[int]) -> None:
        """Mask listed rows of the logits with packed masks from the host: for what has no row in the arena.

        Args:
            logits: float [B, columns] on the device; changed in place.
            masks: int32 [n, >= words] NumPy array or CPU tensor.
            logit_rows: n rows of the logits.

        Raises:
            DeviceError: the numbers differ, or there are more than `requests`.
        """
        import torch

        if isinstance(masks, torch.Tensor):
            masks = masks.numpy()
        count, words = len(logit_rows), self._packed_words
        if masks.ndim != 2 or masks.dtype != np.int32 or len(masks) != count or masks.shape[1] < words:
            raise DeviceError(f"expected int32 [{count}, {words}], not {masks.dtype} {list(masks.shape)}")
        if count > len(self._alive):
            raise DeviceError(f"{count} masks, room for {len(self._alive)}", construct="requests")
        if not count:
            return
        buffer = self._take_packed()
        buffer.numpy()[:count, :words] = masks[:, :words]
        index = buffer.view(-1)[count * buffer.shape[1] :][: 2 * count]  # behind the masks
        index[:count] = torch.tensor(list(logit_rows), dtype=torch.int32)
        index[count:] = torch.arange(count, dtype=torch.int32)
        length = count * buffer.shape[1] + 2 * count
        assert self._packed_slots is not None
        self._packed_order.before()
        flat = self._packed.view(-1)
        flat[:length].copy_(buffer.view(-1)[:length], non_blocking=True)
        self._packed_slots.sent()
        self.packed_bytes_moved += 4 * length
        own = flat[count * buffer.shape[1] :][: 2 * count]
        self.kernels.run(calls.mask_packed(
            logits, self._packed[:count], own[:count], own[count:], self._alive[:count], words, self.first
        ))  # fmt: skip
        self._packed_order.after()

    def _take_packed(self) -> Tensor:
        """A host buffer for packed masks, int32 [requests + 1 or 2, pitch]: the rows at its end are for row numbers."""
        import torch

        if self._packed_slots is None:
            requests, pitch = len(self._alive), self.arena.table.shape[1]
            rows = requests + -(-2 * requests // pitch)
            pinned = self.arena.device.type == "cuda"
            buffers = [torch.zeros((rows, pitch), dtype=torch.int32, pin_memory=pinned) for _ in range(2)]
            self._packed = torch.zeros((rows, pitch), dtype=torch.int32, device=self.arena.device)
            self._packed_slots = Slots(buffers, self.arena.streams)
        return self._packed_slots.take()


def token_of(key: Tensor) -> Tensor:
    """The tokens of keys, int32; -1 for none. With shards: of the maximum of the ranks' keys."""
    import torch

    return torch.where(key == NO_KEY, -1, 0x7FFFFFFF - (key & 0x7FFFFFFF)).to(torch.int32)
