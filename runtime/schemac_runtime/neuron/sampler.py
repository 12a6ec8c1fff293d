"""The on-device sampler as a torch module: logits and row ids in, tokens out, one traced graph for every batch.

Shapes are static: B rows of logits (a batch bucket, padding rows included), V logits in each, an arena of R mask rows
of W = ceil(V / 32) words. Row ids are always a tensor. Row 0 of the arena allows everything, so a row without
constraint, a padding row and a warm-up step take the same path as a constrained one, and nothing is traced twice.

Only operators that lower to simple HLO are used, the same as in `schemac.codegen.neuron`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from schemac_runtime.errors import MatcherError

Int32 = npt.NDArray[np.int32]

#: Puts what each rank holds of a row, [B], together: [ranks, B], by rank.
Gather = Callable[[torch.Tensor], torch.Tensor]


def expand_rows(arena: torch.Tensor, mask_rows: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """bool [B, V]: whether token t is allowed in row b, from int32 [R, W] mask rows and int32 [B] row ids.

    A row id outside the arena allows nothing.
    """
    inside = torch.logical_and(mask_rows >= 0, mask_rows < len(arena))
    words = arena.index_select(0, mask_rows.clamp(0, len(arena) - 1))
    words = torch.where(inside.unsqueeze(1), words, 0).unsqueeze(-1)
    shifts = torch.arange(32, dtype=torch.int32, device=arena.device)
    bits = torch.bitwise_and(torch.bitwise_right_shift(words, shifts), 1)
    return bits.flatten(1)[:, :vocab_size].ne(0)


def select_greedy(logits: torch.Tensor, allowed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The allowed token with the largest logit, the first of equals.

    Args:
        logits: float [B, V].
        allowed: bool [B, V].

    Returns:
        int32 [B], the tokens, -1 where none is allowed; float [B], their logits, NaN counted as -inf.
    """
    size = logits.shape[1]
    known = torch.logical_and(torch.eq(logits, logits), allowed)
    values = torch.where(known, logits, float("-inf"))
    most = values.amax(1)
    chosen = torch.logical_and(torch.eq(values, most.unsqueeze(1)), allowed)
    position = torch.arange(size, dtype=torch.int32, device=logits.device)
    first = torch.where(chosen, position, size).amin(1)
    return torch.where(first < size, first, -1).to(torch.int32), most


class MaskedSampler(torch.nn.Module):
    """Masks logits on the device, then calls a sampler, or takes the largest logit itself.

    Args:
        vocab_size: the number of logits V.
        rows: the capacity R of the arena, row 0 included.
        sampler: called as ``sampler(logits, sampling_params, logit_mask=bool [B, V])``, as vLLM Neuron's is; None to
            return the greedy token ids, int32 [B].
    """

    arena: torch.Tensor

    def __init__(self, vocab_size: int, rows: int, sampler: torch.nn.Module | None = None) -> None:
        super().__init__()
        if rows < 1 or vocab_size < 1:
            raise MatcherError(f"an arena of {rows} rows of {vocab_size} tokens holds nothing")
        self.vocab_size = vocab_size
        self.sampler = sampler
        arena = torch.zeros((rows, (vocab_size + 31) // 32), dtype=torch.int32)
        arena[0] = -1
        self.register_buffer("arena", arena, persistent=False)

    def load_rows(self, first: int, rows: Int32) -> int:
        """Copy mask rows, int32 [n, W], to the arena's rows `first` to `first + n - 1`; returns the bytes moved.

        The buffer is written in place, so a compiled or exported graph goes on with it.

        Raises:
            MatcherError: they do not fit, or would overwrite row 0.
        """
        if first < 1 or first + len(rows) > len(self.arena):
            raise MatcherError(f"rows {first} to {first + len(rows) - 1} are outside 1..{len(self.arena) - 1}")
        if rows.dtype != np.int32 or rows.ndim != 2 or rows.shape[1] != self.arena.shape[1]:
            raise MatcherError(f"mask rows must be int32 [n, {self.arena.shape[1]}], not {rows.dtype} {rows.shape}")
        with torch.no_grad():
            self.arena[first : first + len(rows)].copy_(torch.from_numpy(np.ascontiguousarray(rows)))
        return int(rows.nbytes)

    def forward(self, logits: torch.Tensor, mask_rows: torch.Tensor, sampling_params: Any = None) -> Any:
        """Sample one token per row.

        Args:
            logits: float [B, V].
            mask_rows: int32 [B], the arena row of each row of logits; 0 allows everything. Never None.
            sampling_params: handed to the wrapped sampler.

        Raises:
            MatcherError: there are no row ids; the graph would then be another one.
        """
        if mask_rows is None:
            raise MatcherError("the sampler was given no row ids", hint="pass zeros where nothing is constrained")
        allowed = expand_rows(self.arena, mask_rows, self.vocab_size)
        if self.sampler is not None:
            return self.sampler(logits, sampling_params, logit_mask=allowed)
        return select_greedy(logits, allowed)[0]


def shard_columns(size: int, rank: int, ranks: int) -> tuple[int, int]:
    """The first column and the number of columns of a rank's share of an ``lm_head`` of `size` rows.

    The head is padded to a multiple of the number of ranks, and every rank holds equally many rows, as vLLM's
    ``ParallelLMHead`` does.
    """
    if not 0 <= rank < ranks:
        raise MatcherError(f"there is no rank {rank} of {ranks}")
    width = -(-size // ranks)
    return rank * width, width


def shard_rows(rows: Int32, vocab_size: int, first: int, width: int) -> Int32:
    """The bits of columns `first` to `first + width - 1` of mask rows, moved to bit 0; columns past V are forbidden.

    Args:
        rows: int32 [n, ceil(V / 32)].
        vocab_size: V.
        first, width: the columns of a shard; `width` includes padding.

    Returns:
        int32 [n, ceil(width / 32)].
    """
    bits = np.unpackbits(np.ascontiguousarray(rows).view(np.uint8), axis=1, bitorder="little")
    own = np.zeros((len(rows), (width + 31) // 32 * 32), dtype=np.uint8)
    last = max(min(first + width, vocab_size), first)
    own[:, : last - first] = bits[:, first:last]
    return np.packbits(own, axis=1, bitorder="little").view(np.int32)


class ShardedMaskedSampler(torch.nn.Module):
    """The greedy sampler of one rank whose logits are a shard of the vocabulary; all ranks return the same tokens.

    Each rank masks and searches its own columns. Two numbers per row travel between ranks: the best logit and its
    token. Among equal logits the lowest token wins, so the result is that of the whole vocabulary on one device.

    Args:
        vocab_size: the number of logits V over all ranks, without the padding of the head.
        rows: the capacity R of the arena.
        rank, ranks: which shard this is.
        gather: the collective; see `gather_over`.
        padded_size: the rows of the whole head where it is padded further, such as to a multiple of 64.
    """

    def __init__(
        self, vocab_size: int, rows: int, rank: int, ranks: int, gather: Gather, padded_size: int | None = None
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.first, self.width = shard_columns(max(padded_size or 0, vocab_size), rank, ranks)
        self.gather = gather
        self.local = MaskedSampler(self.width, rows)
        everything = np.full((1, (vocab_size + 31) // 32), -1, dtype=np.int32)
        own = shard_rows(everything, vocab_size, self.first, self.width)
        self.local.arena[0] = torch.from_numpy(own[0])  # padding columns are no tokens, whatever a row says

    def load_rows(self, first: int, rows: Int32) -> int:
        """As `MaskedSampler.load_rows`, of rows of the whole vocabulary; returns the bytes moved to this rank."""
        if rows.dtype != np.int32 or rows.ndim != 2 or rows.shape[1] != (self.vocab_size + 31) // 32:
            wanted = (self.vocab_size + 31) // 32
            raise MatcherError(f"mask rows must be int32 [n, {wanted}], not {rows.dtype} {rows.shape}")
        return self.local.load_rows(first, shard_rows(rows, self.vocab_size, self.first, self.width))

    def forward(self, logits: torch.Tensor, mask_rows: torch.Tensor) -> torch.Tensor:
        """int32 [B] tokens, numbered over the whole vocabulary, from float [B, width] logits and int32 [B] row ids."""
        allowed = expand_rows(self.local.arena, mask_rows, self.width)
        token, value = select_greedy(logits, allowed)
        token = torch.where(token >= 0, token + self.first, -1)
        return combine_shards(self.gather(value.to(torch.float32)), self.gather(token))


def combine_shards(values: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """int32 [B]: the best of what each rank found, float32 [ranks, B] logits and int32 [ranks, B] tokens or -1."""
    found = tokens >= 0
    known = torch.where(found, values, float("-inf"))
    best = torch.logical_and(torch.eq(known, known.amax(0, keepdim=True)), found)
    limit = torch.iinfo(torch.int32).max
    first = torch.where(best, tokens, limit).amin(0)
    return torch.where(first < limit, first, -1).to(torch.int32)


def gather_over(group: Any = None) -> Gather:
    """The collective of `torch.distributed` as `ShardedMaskedSampler` takes it; `group` is a process group."""
    import torch.distributed as dist
    from torch.distributed._functional_collectives import all_gather_tensor

    chosen = dist.group.WORLD if group is None else group

    def gather(value: torch.Tensor) -> torch.Tensor:
        parts: torch.Tensor = all_gather_tensor(value.unsqueeze(0), 0, chosen)
        return parts

    return gather
