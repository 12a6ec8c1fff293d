"""What the model runner adds to the model's inputs in each step, and at warm-up.

With structured outputs enabled it is always a tensor: the boolean mask of the classic path, or the row ids that replace
it. With structured outputs disabled it is None in every step, so that a server without them pays nothing, and a
constrained request is refused at admission. Either way one graph is traced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from schemac_runtime.device.steps import Step
from schemac_runtime.errors import MatcherError, SchemacError
from schemac_runtime.neuron.layout import ALL_ALLOWED, FREE_ROW, expand, unpack_bitmask
from schemac_runtime.neuron.sampler import MaskedSampler, ShardedMaskedSampler
from schemac_runtime.neuron.scheduler import BITMASK, REQUEST_IDS, ROWS


class StructuredOutputsDisabled(SchemacError, ValueError):
    """A request asks for a constraint on a server that was started without structured outputs."""


@dataclass(frozen=True)
class NeuronConfig:
    """The part of vLLM Neuron's configuration that decides about structured outputs.

    Attributes:
        enable_structured_outputs: whether the graph takes a mask.
        on_device_sampling: whether tokens are chosen on the device. Without it the model returns logits before any
            mask is applied.
    """

    enable_structured_outputs: bool = False
    on_device_sampling: bool = True

    @classmethod
    def read(cls, additional_config: Mapping[str, Any] | None, *, on_device_sampling: bool = True) -> NeuronConfig:
        """From vLLM's ``additional_config``: ``{"neuron_config": {"enable_structured_outputs": true}}``."""
        own = (additional_config or {}).get("neuron_config") or {}
        enabled = own.get("enable_structured_outputs", False)
        if not isinstance(enabled, bool):
            raise SchemacError(f"expected true or false, not {enabled!r}", construct="enable_structured_outputs")
        return cls(enabled, on_device_sampling)

    def check_request(self, request_id: str, *, constrained: bool) -> None:
        """Refuse a constrained request that would run unconstrained.

        Raises:
            NotImplementedError: tokens are sampled on the CPU.
            StructuredOutputsDisabled: the server does not take such requests.
        """
        if not constrained:
            return
        if not self.on_device_sampling:
            raise NotImplementedError(
                f"request {request_id}: structured outputs need on-device sampling; with CPU sampling the model "
                "returns its logits before any mask is applied (enable on-device sampling)"
            )
        if not self.enable_structured_outputs:
            raise StructuredOutputsDisabled(
                f"request {request_id}: this server was started without structured outputs",
                construct="enable_structured_outputs",
                hint='restart it with {"neuron_config": {"enable_structured_outputs": true}}',
            )


class ClassicMasks:
    """The path that vLLM Neuron documents: a boolean mask of all tokens for every row of logits.

    Args:
        config: see `NeuronConfig`.
        vocab_size: the number of logits V.
        device: where the model runs.
    """

    def __init__(self, config: NeuronConfig, vocab_size: int, device: Any = "cpu") -> None:
        self.config, self.vocab_size, self.device = config, vocab_size, device
        self.bytes_moved = 0

    def warmup_input(self, rows: int) -> torch.Tensor | None:
        """A mask that allows everything, bool [rows, V], or None if structured outputs are disabled."""
        if not self.config.enable_structured_outputs:
            return None
        return torch.ones((rows, self.vocab_size), dtype=torch.bool, device=self.device)

    def step_input(self, scheduler_output: Any, req_ids: Sequence[str], rows: int) -> torch.Tensor | None:
        """The mask of a step, bool [rows, V] on the device, padding rows all True.

        Args:
            scheduler_output: vLLM's, with what `schemac_runtime.neuron.scheduler` attached.
            req_ids: the batch in the order of the logits.
            rows: rows of logits, padding included.
        """
        compact = getattr(scheduler_output, BITMASK, None)
        constrained = getattr(scheduler_output, REQUEST_IDS, None) or ()
        if not _masks_wanted(self.config, constrained):
            return None
        if compact is None:
            mask = self.warmup_input(rows)
            assert mask is not None
        elif np.ndim(compact) != 2:
            raise MatcherError("the backend sent row ids, not masks", hint="unset device_rows, or use RowIdMasks")
        else:
            drafts = scheduler_output.scheduled_spec_decode_tokens
            packed = expand(np.asarray(compact), constrained, req_ids, drafts, rows, ALL_ALLOWED)
            mask = unpack_bitmask(torch.from_numpy(packed), self.vocab_size).to(device=self.device)
        self.bytes_moved += mask.numel() * mask.element_size()
        return mask


class RowIdMasks:
    """The same with row ids: four bytes per row of logits, and each mask row once.

    Args:
        config: see `NeuronConfig`.
        sampler: the module that the model calls; its arena is written here.
        device: where the model runs.
    """

    def __init__(
        self, config: NeuronConfig, sampler: MaskedSampler | ShardedMaskedSampler, device: Any = "cpu"
    ) -> None:
        self.config, self.sampler, self.device = config, sampler, device
        self.bytes_moved = 0
        self._steps = 0

    def warmup_input(self, rows: int) -> torch.Tensor | None:
        """Row ids that allow everything, int32 [rows], or None if structured outputs are disabled."""
        if not self.config.enable_structured_outputs:
            return None
        return torch.full((rows,), FREE_ROW, dtype=torch.int32, device=self.device)

    def step_input(self, scheduler_output: Any, req_ids: Sequence[str], rows: int) -> torch.Tensor | None:
        """The row ids of a step, int32 [rows] on the device; the arena's new rows are written first."""
        attached: Step | None = getattr(scheduler_output, ROWS, None)
        constrained = getattr(scheduler_output, REQUEST_IDS, None) or ()
        if not _masks_wanted(self.config, constrained):
            return None
        if attached is None:
            if getattr(scheduler_output, BITMASK, None) is not None:
                raise MatcherError("the scheduler attached masks, not row ids", hint="use the mixin SendsRowIds")
            ids = np.full(rows, FREE_ROW, dtype=np.int32)
        else:
            if attached.number != self._steps:
                raise MatcherError(
                    f"step {attached.number} came where {self._steps} was due",
                    hint="every output of the scheduler must reach the runner, in order, from its start on",
                )
            self._steps += 1
            if len(attached.packed_at):
                raise MatcherError(
                    f"{len(attached.packed_at)} masks found no row in the arena", hint="make the arena larger"
                )
            for first, last in _runs(attached.new_ids.tolist()):
                self.bytes_moved += self.sampler.load_rows(int(attached.new_ids[first]), attached.new_rows[first:last])
            drafts = scheduler_output.scheduled_spec_decode_tokens
            ids = expand(attached.row_ids, constrained, req_ids, drafts, rows, FREE_ROW)
        self.bytes_moved += ids.nbytes
        return torch.from_numpy(ids).to(device=self.device)


def _masks_wanted(config: NeuronConfig, constrained: Sequence[str]) -> bool:
    """Whether the graph takes masks; refuses a constrained request in a step that would not apply them."""
    for request in constrained:
        config.check_request(request, constrained=True)
    return config.enable_structured_outputs


def _runs(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Begin and end of each stretch of consecutive ids."""
    breaks = [index for index in range(1, len(ids)) if ids[index] != ids[index - 1] + 1]
    edges = [0, *breaks, len(ids)] if ids else [0]
    return list(pairwise(edges))
