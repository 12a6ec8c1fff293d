"""The computations of a package's HLO modules in torch, with the same inputs in the same order: for tracers.

A tracer makes constants of buffers, so here the arena is an input. `schemac.codegen.neuron.lowering` says what each
computation does; the tests run both on the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from schemac_runtime.kernels.table import CLASSES, ENDED, FAILED, MAY_END, NEED, ROW
from schemac_runtime.neuron.sampler import expand_rows, select_greedy


class Mask(torch.nn.Module):
    """``masked_logits``, float [B, V]."""

    def forward(self, logits: torch.Tensor, mask_rows: torch.Tensor, arena: torch.Tensor) -> torch.Tensor:
        """From float [B, V] logits, int32 [B] row ids and an int32 [R, W] arena."""
        return torch.where(expand_rows(arena, mask_rows, logits.shape[1]), logits, float("-inf"))


class Greedy(torch.nn.Module):
    """``token_ids``, int32 [B]."""

    def forward(self, logits: torch.Tensor, mask_rows: torch.Tensor, arena: torch.Tensor) -> torch.Tensor:
        """From float [B, V] logits, int32 [B] row ids and an int32 [R, W] arena."""
        return select_greedy(logits, expand_rows(arena, mask_rows, logits.shape[1]))[0]


class Step(torch.nn.Module):
    """``token_ids, states, tokens_left, flags``, int32 [B] each."""

    def forward(
        self, logits: torch.Tensor, states: torch.Tensor, tokens_left: torch.Tensor, flags: torch.Tensor,
        arena: torch.Tensor, state_info: torch.Tensor, state_start: torch.Tensor, token_class: torch.Tensor,
        following: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        """One greedy step of every row."""
        states_there = (states >= 0) & (states < len(state_info))
        inside = states.clamp(0, len(state_info) - 1)
        here = state_info.index_select(0, inside)
        size = logits.shape[1]
        token = select_greedy(logits, expand_rows(arena, here[:, ROW], size))[0]
        symbol = token_class.index_select(0, here[:, CLASSES] * size + token.clamp(min=0))
        after = following.index_select(0, state_start.index_select(0, inside) + symbol)
        need = state_info.index_select(0, after.clamp(min=0))[:, NEED]
        going = torch.bitwise_and(flags, ENDED) == 0
        good = (token >= 0) & (after >= 0) & (need < tokens_left)
        live = going & good & states_there
        failed = torch.bitwise_and(flags, FAILED)
        ends = torch.where(need == 0, ENDED, torch.where(need == 1, MAY_END, 0)).to(torch.int32)
        unfit = torch.where(going, flags - failed + FAILED, flags)
        return (
            torch.where(live, token, -1),
            torch.where(live, after, states),
            torch.where(live, tokens_left - 1, tokens_left),
            torch.where(live, failed + ends, unfit),
        )


#: By kind of module.
TRACED: Mapping[str, type[torch.nn.Module]] = MappingProxyType({"mask": Mask, "greedy": Greedy, "step": Step})
