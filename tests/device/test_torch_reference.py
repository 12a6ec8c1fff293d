"""The torch form of every kernel against the NumPy one."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-device)")

from schemac_runtime.kernels import torch_reference  # noqa: E402
from schemac_runtime.kernels.table import KERNELS  # noqa: E402
from tests.device.cases import Case  # noqa: E402


def tensor_of(array: np.ndarray, dtype: str | None) -> Any:
    """A tensor over the same memory."""
    made = torch.from_numpy(array.view(np.int16) if dtype == "bfloat16" else array)
    return made.view(torch.bfloat16) if dtype == "bfloat16" else made


@pytest.mark.parametrize("name", list(KERNELS))
def test_random_calls(name: str) -> None:
    function = getattr(torch_reference, name)
    wanted = inspect.signature(function).parameters
    for seed in range(400):
        case = Case(np.random.default_rng((9, seed)), name)
        arrays, buffers = case.copies()
        given: dict[str, Any] = {
            key: tensor_of(array, case.dtype if key == "logits" else None)
            for key, array in arrays.items() if key in wanted
        }  # fmt: skip
        function(**given, **{key: number for key, number in case.numbers.items() if key in wanted})
        case.compare(buffers)


def test_all_forms_take_the_same_arguments() -> None:
    from schemac_runtime.kernels import reference

    for name in KERNELS:
        one, other = (list(inspect.signature(getattr(m, name)).parameters) for m in (reference, torch_reference))
        assert one == other
