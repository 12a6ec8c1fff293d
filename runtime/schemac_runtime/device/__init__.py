"""Masks on devices: the mask arena, row ids, device stepping. `docs/device.md` explains it. Needs torch.

Importing this package imports neither torch nor triton; using it does.
"""

from __future__ import annotations

from schemac_runtime.device.arena import FREE_ROW, ArenaFull, MaskArena, RowBook, RowIds
from schemac_runtime.device.kernels import BinaryKernels, InterpretedKernels, Kernels, TorchKernels, open_kernels
from schemac_runtime.device.masks import DeviceMasks, token_of
from schemac_runtime.device.serving import StepMasks, StepReceiver, fill_row, logit_rows
from schemac_runtime.device.stepper import Answer, DeviceStepper
from schemac_runtime.device.steps import RowSource, Step, StepBuilder, apply_step, decode
from schemac_runtime.device.tables import StepTables, step_tables
from schemac_runtime.errors import DeviceError

__all__ = [
    "FREE_ROW",
    "Answer",
    "ArenaFull",
    "BinaryKernels",
    "DeviceError",
    "DeviceMasks",
    "DeviceStepper",
    "InterpretedKernels",
    "Kernels",
    "MaskArena",
    "RowBook",
    "RowIds",
    "RowSource",
    "Step",
    "StepBuilder",
    "StepMasks",
    "StepReceiver",
    "StepTables",
    "TorchKernels",
    "apply_step",
    "decode",
    "fill_row",
    "logit_rows",
    "open_kernels",
    "step_tables",
    "token_of",
]
