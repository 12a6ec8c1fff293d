"""From the scheduler's order to that of the logits.

The scheduler makes one mask (or one row id) per position of each *constrained* request, in the order in which it names
those requests. The model runner has rows of logits for *all* requests, in the order of its batch: one for each request,
and one more for each of its draft tokens. Rows without constraint allow everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from schemac_runtime.device.arena import FREE_ROW
from schemac_runtime.errors import MatcherError

Int32 = npt.NDArray[np.int32]
__all__ = ["ALL_ALLOWED", "FREE_ROW", "expand", "logit_rows", "positions", "unpack_bitmask"]

_Rows = TypeVar("_Rows", bound=npt.NDArray[np.int32])

#: The mask words of a row without constraint; its row id is `FREE_ROW`.
ALL_ALLOWED = -1


def logit_rows(req_ids: Sequence[str], drafts: Mapping[str, Sequence[int]]) -> int:
    """How many rows of logits a batch has: one per request, one more per draft token."""
    return len(req_ids) + sum(len(drafts.get(request, ())) for request in req_ids)


def positions(
    constrained: Sequence[str], req_ids: Sequence[str], drafts: Mapping[str, Sequence[int]]
) -> tuple[list[int], list[int], int]:
    """Which compact row goes to which row of the logits.

    Args:
        constrained: the constrained requests in the scheduler's order; some may have left the batch.
        req_ids: the batch, in the order of the logits.
        drafts: the draft tokens scheduled for each request; requests without may be left out.

    Returns:
        The compact rows, the rows of logits they go to, and the number of compact rows that there must be.
    """
    starts: dict[str, int] = {}
    start = 0
    for request in req_ids:
        starts[request] = start
        start += 1 + len(drafts.get(request, ()))
    sources: list[int] = []
    targets: list[int] = []
    source = 0
    for request in constrained:
        count = 1 + len(drafts.get(request, ()))
        if request in starts:
            sources += range(source, source + count)
            targets += range(starts[request], starts[request] + count)
        source += count
    return sources, targets, source


def expand(
    compact: _Rows,
    constrained: Sequence[str],
    req_ids: Sequence[str],
    drafts: Mapping[str, Sequence[int]],
    rows: int,
    fill: int,
) -> _Rows:
    """Compact masks, int32 [n, W], or row ids, int32 [n], in the layout of the logits, [rows, ...].

    Args:
        compact, constrained: as the scheduler attached them.
        req_ids, drafts: the batch, see `positions`.
        rows: rows of logits, padding to the batch bucket included.
        fill: what rows without constraint hold, `ALL_ALLOWED` or `FREE_ROW`.

    Raises:
        MatcherError: the numbers of rows do not agree, so that some row would get the mask of another.
    """
    sources, targets, needed = positions(constrained, req_ids, drafts)
    if len(compact) < needed:
        raise MatcherError(f"{len(compact)} mask rows for {len(constrained)} requests that need {needed}")
    if logit_rows(req_ids, drafts) > rows:
        raise MatcherError(f"a batch of {logit_rows(req_ids, drafts)} rows of logits in a bucket of {rows}")
    full = cast("_Rows", np.full((rows, *compact.shape[1:]), fill, dtype=np.int32))
    full[targets] = compact[sources]
    return full


def unpack_bitmask(packed: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """bool [rows, vocab_size] of packed masks, int32 [rows, W]: what the classic path sends to the device."""
    shifts = torch.arange(32, dtype=torch.int32, device=packed.device)
    bits = torch.bitwise_and(torch.bitwise_right_shift(packed.unsqueeze(-1), shifts), 1)
    return bits.flatten(1)[:, :vocab_size].bool()
