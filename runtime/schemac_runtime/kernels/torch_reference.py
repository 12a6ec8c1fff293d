"""What each kernel does, in torch operations on whole batches, on any device: used where no kernel can be.

The functions take the arguments of `schemac_runtime.kernels.reference`, as tensors on one device. They neither wait for
the device nor depend on its values in Python, so that they also work in CUDA graphs; but they read and write whole rows
of logits, several times.
"""

from __future__ import annotations

from typing import Any

import torch

from schemac_runtime.kernels.table import CLASSES, ENDED, FAILED, MAY_END, MOST, NEED, NEVER, NO_KEY, ROW

Tensor = Any


def allowed_columns(table: Tensor, row: Tensor, words: int, first: int, vocab: int) -> Tensor:
    """bool [B, vocab]: the columns that rows of a packed table allow; a row that is not there allows nothing."""
    inside = (row >= 0) & (row < len(table))
    chosen = table[row.clamp(0, max(len(table) - 1, 0)).long(), :words] if len(table) else row.new_zeros(len(row), 0)
    token = torch.arange(first, first + vocab, device=row.device)
    word = (token >> 5).clamp(max=max(chosen.shape[1] - 1, 0))
    if not chosen.shape[1]:
        return torch.zeros((len(row), vocab), dtype=torch.bool, device=row.device)
    bits = (chosen[:, word] >> (token & 31).to(torch.int32)) & 1
    return (bits > 0) & (token < words * 32) & inside[:, None]


def mask_rows(logits: Tensor, arena: Tensor, row_id: Tensor, alive: Tensor, words: int, first: int) -> None:
    """See `schemac_runtime.kernels.reference.mask_rows`."""
    allowed = allowed_columns(arena, row_id, words, first, logits.shape[1]) | (row_id == 0)[:, None]
    logits.masked_fill_(~allowed, float("-inf"))
    alive.masked_fill_(allowed.any(1), 1)


def mask_packed(
    logits: Tensor, mask: Tensor, logit_row: Tensor, mask_row: Tensor, alive: Tensor, words: int, first: int
) -> None:
    """See `schemac_runtime.kernels.reference.mask_packed`."""
    if not len(logits):
        return
    allowed = allowed_columns(mask, mask_row, words, first, logits.shape[1])
    inside = (logit_row >= 0) & (logit_row < len(logits))
    forbidden = torch.zeros((len(logits) + 1, logits.shape[1]), dtype=torch.int32, device=logits.device)
    forbidden.index_add_(0, torch.where(inside, logit_row, len(logits)).long(), (~allowed).to(torch.int32))
    logits.masked_fill_(forbidden[:-1] > 0, float("-inf"))
    alive.masked_fill_(allowed.any(1) & inside, 1)


def _greatest(logits: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """(column int64 [B], -1 for none; its value float32 [B]) of the greatest allowed logit."""
    values = logits.float()
    values = torch.where(values.isnan(), float("-inf"), values)
    values = torch.where(allowed, values, float("-inf"))
    best = values.amax(1, keepdim=True) if logits.shape[1] else values.new_full((len(logits), 1), float("-inf"))
    columns = torch.arange(logits.shape[1], device=logits.device)
    lowest = torch.where(allowed & (values == best), columns, logits.shape[1])
    column = lowest.amin(1) if logits.shape[1] else columns.new_zeros(len(logits))
    return torch.where(column < logits.shape[1], column, -1), best[:, 0]


def argmax_rows(
    logits: Tensor, arena: Tensor, row_id: Tensor, key: Tensor, token: Tensor, words: int, first: int
) -> None:
    """See `schemac_runtime.kernels.reference.argmax_rows`."""
    allowed = allowed_columns(arena, row_id, words, first, logits.shape[1]) | (row_id == 0)[:, None]
    column, value = _greatest(logits, allowed)
    chosen = torch.where(column >= 0, column + first, -1)
    token.copy_(chosen)
    bits = torch.where(value == 0, 0.0, value).view(torch.int32)
    order = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
    key.copy_(torch.where(column >= 0, (order << 32) | (0x7FFFFFFF - chosen), NO_KEY))


def _after(info: Tensor, start: Tensor, classes: Tensor, following: Tensor, state: Tensor, token: Tensor) -> Tensor:
    """The states after tokens [B, n] in states [B], -1 for none."""
    inside = (state >= 0) & (state < len(info))
    here = torch.where(inside, state, 0).long()
    within = (token >= 0) & (token < classes.shape[1]) & inside[:, None]
    kind = classes[info[here, CLASSES].long()[:, None], torch.where(within, token, 0).long()]
    return torch.where(within, following[start[here][:, None] + kind], -1)


def _need(info: Tensor, state: Tensor) -> Tensor:
    return torch.where(state >= 0, info[state.clamp(min=0).long(), NEED], NEVER)


def allowed_in(
    arena: Tensor, info: Tensor, start: Tensor, classes: Tensor, following: Tensor, state: Tensor, budget: Tensor,
    words: int,
) -> Tensor:  # fmt: skip
    """bool [B, V]: the tokens after which the text can be finished in ``budget - 1`` tokens."""
    inside = (state >= 0) & (state < len(info))
    here = torch.where(inside, state, 0).long()
    row = torch.where(inside, info[here, ROW], -1)
    allowed = allowed_columns(arena, row, words, 0, classes.shape[1]) | (row == 0)[:, None]
    near = inside & (budget > 0) & (info[here, MOST] >= budget)
    tokens = torch.arange(classes.shape[1], device=state.device).expand(len(state), -1)
    fits = _need(info, _after(info, start, classes, following, state, tokens)) < budget[:, None]
    return allowed & (fits | ~near[:, None])


def step_mask(
    logits: Tensor, arena: Tensor, info: Tensor, start: Tensor, classes: Tensor, following: Tensor, state: Tensor,
    budget: Tensor, words: int,
) -> None:  # fmt: skip
    """See `schemac_runtime.kernels.reference.step_mask`."""
    allowed = allowed_in(arena, info, start, classes, following, state, budget, words)
    logits.masked_fill_(~allowed, float("-inf"))


def step_advance(
    token: Tensor, info: Tensor, start: Tensor, classes: Tensor, following: Tensor, state: Tensor, budget: Tensor,
    flags: Tensor, position: Tensor, history: Tensor,
) -> None:  # fmt: skip
    """See `schemac_runtime.kernels.reference.step_advance`."""
    ended = (flags & ENDED) != 0
    after = _after(info, start, classes, following, state, token[:, None])[:, 0]
    need = _need(info, after)
    goes = ~ended & (after >= 0) & (need < budget)
    if history.shape[1]:
        written = goes & (position >= 0) & (position < history.shape[1])
        place = position.clamp(0, history.shape[1] - 1).long()[:, None]
        old = history.gather(1, place)
        history.scatter_(1, place, torch.where(written[:, None], token[:, None].to(torch.int32), old))
    position.add_(goes)
    budget.sub_(goes.to(torch.int32))
    state.copy_(torch.where(goes, after, state))
    ends = torch.where(need == 1, MAY_END, 0) | torch.where(need == 0, ENDED, 0)
    now = torch.where(goes, (flags & FAILED) | ends, flags | FAILED)
    flags.copy_(torch.where(ended, flags, now))


def step_greedy(
    logits: Tensor, arena: Tensor, info: Tensor, start: Tensor, classes: Tensor, following: Tensor, state: Tensor,
    budget: Tensor, token: Tensor, flags: Tensor, position: Tensor, history: Tensor, words: int,
) -> None:  # fmt: skip
    """See `schemac_runtime.kernels.reference.step_greedy`."""
    allowed = allowed_in(arena, info, start, classes, following, state, budget, words)
    chosen = _greatest(logits, allowed)[0].to(torch.int32)
    token.copy_(torch.where(chosen >= 0, chosen, token))
    step_advance(chosen, info, start, classes, following, state, budget, flags, position, history)
