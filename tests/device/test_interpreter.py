"""Triton's interpreter against the NumPy reference, in processes of their own: it must be chosen before any import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="not run: needs triton (make test-device)")

ROOT = Path(__file__).resolve().parent.parent.parent


def run_cases(cases: int, seeds: list[int]) -> None:
    """`cases` random calls for each seed, all seeds at once."""
    environment = os.environ | {
        "TRITON_INTERPRET": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime"))),
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.device.cases", "--cases", str(cases), "--seed", str(seed)],
            cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for seed in seeds
    ]  # fmt: skip
    for process in running:
        output, _ = process.communicate(timeout=1500)
        assert process.returncode == 0, output[-3000:]
        assert output.endswith(f"{cases} cases: identical\n")


def test_random_calls_of_every_kernel() -> None:
    run_cases(240, [1])


@pytest.mark.slow
def test_ten_thousand_random_calls() -> None:
    run_cases(5000, [2, 3])


@pytest.mark.slow
def test_the_device_runtime_with_interpreted_kernels() -> None:
    """Batches, shards, steps and decoding as in their own tests, with the kernels in the place of torch operations."""
    pytest.importorskip("torch", reason="not run: needs torch (make test-device)")
    path = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path}
    chosen = [f"tests/device/test_{name}.py" for name in ("masks", "stepper")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen],
        cwd=ROOT, env=environment, text=True, capture_output=True, timeout=1500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
