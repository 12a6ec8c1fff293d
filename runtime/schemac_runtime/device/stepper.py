"""Decoding with the host out of the loop: each step masks, selects and advances every request on the device.

    tables = step_tables([program])                     # why not, if the program needs a stack
    stepper = DeviceStepper(tables, requests=64, history=256)
    stepper.start(0, program=0, budget=200)             # request 0; the others are without constraint
    for _ in range(64):
        stepper.greedy(logits())                        # or: mask, a sampler of your own, advance
    answers = stepper.read()                            # the one time that the host waits

Nothing in a step depends on a value on the host, so a CUDA graph of one step, or of many, can be replayed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemac_runtime.device import calls
from schemac_runtime.device.arena import FREE_ROW
from schemac_runtime.device.kernels import Kernels, open_kernels
from schemac_runtime.device.tables import FREE, StepTables
from schemac_runtime.errors import DeviceError
from schemac_runtime.kernels.table import ENDED, FAILED, MAY_END, NEED, NO_KEY, ROW
from schemac_runtime.targets import TargetArtifact

Tensor = Any

#: A budget that never matters.
UNLIMITED = 1 << 30


@dataclass(frozen=True)
class Answer:
    """What a request has come to.

    Attributes:
        tokens: those read so far, the one that ended the text included; at most `history` of them.
        count: how many were read.
        may_end: the text may end here.
        ended: a stop id was read. Later steps changed nothing.
        failed: a token was refused, or none was allowed.
    """

    tokens: tuple[int, ...]
    count: int
    may_end: bool
    ended: bool
    failed: bool


class DeviceStepper:
    """The state of a batch on one device.

    Args:
        tables: of the programs.
        requests: in the batch, B.
        history: how many tokens of each request are kept.
        device: a torch device or its name.
        artifacts: stored kernels, such as `Package.targets`.
        kernels: other than what `open_kernels` has, for tests.

    Attributes:
        token: int32 [B] on the device: what `greedy` chose last, which is the model's next input.
    """

    def __init__(
        self,
        tables: StepTables,
        requests: int,
        history: int,
        device: Any = "cpu",
        *,
        artifacts: Iterable[TargetArtifact] = (),
        kernels: Kernels | None = None,
    ) -> None:
        import torch

        self.tables = tables
        self.kernels = open_kernels(device, artifacts) if kernels is None else kernels
        self._words = (tables.vocab_size + 31) // 32
        place = torch.device(device)

        def on_device(array: Any) -> Tensor:
            return torch.from_numpy(np.array(array)).to(place)

        pitch = -(-self._words // 16) * 16
        rows = np.zeros((len(tables.rows), pitch), np.int32)
        rows[:, : self._words] = tables.rows
        self._tensors: dict[str, Tensor] = {
            "arena": on_device(rows),
            "info": on_device(tables.info),
            "start": on_device(tables.start),
            "classes": on_device(tables.classes),
            "following": on_device(tables.following),
            "partial": torch.full((requests,), NO_KEY, dtype=torch.int64, device=place),
            "history": torch.zeros((requests, history), dtype=torch.int32, device=place),
        }
        for name in ("state", "budget", "count", "token", "flags", "position"):
            self._tensors[name] = torch.zeros(requests, dtype=torch.int32, device=place)
        self._tensors["budget"].fill_(UNLIMITED)
        self.token = self._tensors["token"]
        assert tables.info[FREE, ROW] == FREE_ROW

    def start(self, request: int, program: int | None, budget: int | None = None) -> None:
        """Begin a text in a place of the batch; None for a request without constraint.

        Args:
            request: its place.
            program: index among the programs of the tables.
            budget: the tokens that it may take, the one that ends it included.

        Raises:
            DeviceError: there is no such place, or the shortest text takes more tokens.
        """
        if not 0 <= request < len(self.token):
            raise DeviceError(f"there is no request {request} in a batch of {len(self.token)}", construct="request")
        if program is not None and not 0 <= program < len(self.tables.entry):
            raise DeviceError(f"there is no program {program}", construct="program")
        state = FREE if program is None else self.tables.entry[program]
        if program is not None and budget is not None and budget < self.tables.min_tokens(program):
            needed = self.tables.min_tokens(program)
            raise DeviceError(f"{budget} tokens are not enough: the shortest text takes {needed}", construct="budget")
        tensors = self._tensors
        tensors["state"][request] = state
        tensors["budget"][request] = UNLIMITED if budget is None or program is None else budget
        tensors["position"][request] = 0
        tensors["flags"][request] = MAY_END if int(self.tables.info[state, NEED]) == 1 else 0

    def greedy(self, logits: Tensor) -> Tensor:
        """Mask, take the greatest logit, advance; `token`. The logits, float [B, V], are not changed."""
        self.kernels.run(calls.step_greedy(logits, self._tensors, self._words))
        return self.token

    def mask(self, logits: Tensor) -> None:
        """Write -inf to what may not come next, for a sampler of the caller's."""
        self.kernels.run(calls.step_mask(logits, self._tensors, self._words))

    def advance(self, tokens: Tensor) -> None:
        """Read what the sampler chose, int32 [B] on the device; a token that is not allowed sets `failed`."""
        self.kernels.run(calls.step_advance({**self._tensors, "token": tokens}))

    def read(self) -> list[Answer]:
        """What has become of each request. Waits for the device: the only call that does."""
        tensors = self._tensors
        flags, position = tensors["flags"].cpu().tolist(), tensors["position"].cpu().tolist()
        history = tensors["history"].cpu()
        return [
            Answer(
                tuple(row[: min(count, len(row))].tolist()), count, bool(bits & MAY_END), bool(bits & ENDED),
                bool(bits & FAILED),
            )
            for bits, count, row in zip(flags, position, history, strict=True)
        ]  # fmt: skip
