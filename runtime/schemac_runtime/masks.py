"""Packed token masks in vLLM's layout: int32 [rows, ceil(V / 32)], bit t % 32 of word t // 32 = token t is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.errors import MatcherError
from schemac_runtime.program import Int32, Mask, Operation


def allocate_bitmask(rows: int, vocab_size: int) -> Int32:
    """An int32 [rows, ceil(vocab_size / 32)] mask that allows everything."""
    return np.full((rows, (vocab_size + 31) // 32), -1, dtype=np.int32)


def mask_rows(bitmask: Any, words: int, *, writable: bool = True) -> Int32:
    """`bitmask` as an int32 [rows, >= words] NumPy array over the same memory.

    Raises:
        MatcherError: wrong type, device, dtype, shape or width.
    """
    array = bitmask
    if not isinstance(array, np.ndarray):
        try:
            array = bitmask.numpy()  # a CPU torch tensor shares its memory
        except (AttributeError, RuntimeError, TypeError) as error:
            raise MatcherError(f"a mask must be a NumPy array or a CPU tensor, not {type(bitmask).__name__}") from error
    if array.ndim == 1:
        array = array[None]
    if array.dtype != np.int32 or array.ndim != 2 or array.shape[1] < words:
        raise MatcherError(f"a mask must be int32 [rows, >= {words}], not {array.dtype} {list(array.shape)}")
    if writable and not array.flags.writeable:
        raise MatcherError("a mask must be writable")
    rows: Int32 = array
    return rows


def write_mask(out: Int32, mask: Mask) -> None:
    """Write one mask over the row `out`, int32 [>= words]."""
    dense, words, values, more = mask
    if len(out) == len(dense):
        out[:] = dense
    else:
        out[: len(dense)] = dense
        out[len(dense) :] = 0
    if words is not None and values is not None:
        out[words] = values
    for operation in more:
        apply_operation(out, operation)


def apply_operation(out: Int32, operation: Operation) -> None:
    """Do one step on the row `out`."""
    chosen, values, clear = operation
    words = slice(len(values)) if chosen is None else chosen
    if clear:
        out[words] &= values
    else:
        out[words] |= values


def or_mask(out: Int32, mask: Mask) -> None:
    """Allow in the row `out` what `mask` allows besides."""
    extra = np.zeros_like(out)
    write_mask(extra, mask)
    out |= extra


def written(mask: Mask) -> Int32:
    """The whole row of a mask, int32 [words]."""
    row = np.empty_like(mask.dense)
    write_mask(row, mask)
    return row


def composed(dense: Int32, operations: Sequence[Operation]) -> Mask:
    """The mask that starts from `dense` and does the steps in order; the first one is worked out now."""
    if operations:
        words, bits, clear = operations[0]
        if words is not None and not clear:
            return Mask(dense, words, dense[words] | bits, tuple(operations[1:]))
    return Mask(dense, None, None, tuple(operations))


def count_allowed(row: Int32) -> int:
    """How many tokens a packed row allows."""
    return int(np.unpackbits(row.view(np.uint8)).sum())


def unpack(bitmask: Int32, vocab_size: int) -> npt.NDArray[np.bool_]:
    """bool [rows, vocab_size] of a packed mask."""
    bits = np.unpackbits(np.ascontiguousarray(bitmask).view(np.uint8), axis=-1, bitorder="little")
    return bits[..., :vocab_size].astype(np.bool_)


def apply_bitmask(logits: Any, bitmask: Any) -> None:
    """Set the logits of forbidden tokens to -inf in place: the reference that every kernel is compared with.

    Args:
        logits: float [rows, vocab] NumPy array or torch tensor; columns past the mask are forbidden.
        bitmask: int32 [rows, words].

    Raises:
        MatcherError: the row counts differ, or the mask is of another type.
    """
    if isinstance(logits, np.ndarray):
        packed = mask_rows(bitmask, 0, writable=False)
        if len(packed) != len(logits):
            raise MatcherError(f"{len(packed)} mask rows for {len(logits)} rows of logits")
        allowed = np.zeros(logits.shape, dtype=np.bool_)
        width = min(logits.shape[1], packed.shape[1] * 32)
        allowed[:, :width] = unpack(packed, width)
        logits[~allowed] = -np.inf
        return
    import torch

    words = bitmask
    if not isinstance(words, torch.Tensor):
        words = torch.from_numpy(mask_rows(bitmask, 0))
    if words.ndim == 1:
        words = words[None]
    if words.dtype != torch.int32 or words.ndim != 2:
        raise MatcherError(f"a mask must be int32 [rows, words], not {words.dtype} {list(words.shape)}")
    if len(words) != len(logits):
        raise MatcherError(f"{len(words)} mask rows for {len(logits)} rows of logits")
    shifts = torch.arange(32, dtype=torch.int32, device=words.device)
    bits = ((words.unsqueeze(-1) >> shifts) & 1).bool().flatten(1)
    allowed_bits = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
    width = min(logits.shape[1], bits.shape[1])
    allowed_bits[:, :width] = bits[:, :width].to(logits.device)
    logits.masked_fill_(~allowed_bits, float("-inf"))
