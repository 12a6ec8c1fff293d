"""The benchmark of kernels runs without a GPU, and says so when something differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="not run: needs torch (make test-device)")

ROOT = Path(__file__).resolve().parent.parent.parent


def run(tmp_path: Path, **environment: str) -> list[dict]:
    path = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    sizes = ["--vocab", "300,333", "--batch", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.device", *sizes, "--json", tmp_path / "o.json"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": path} | environment, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines: list[dict] = json.loads((tmp_path / "o.json").read_text())
    return lines


def test_with_torch_operations(tmp_path: Path) -> None:
    lines = run(tmp_path)
    assert {line["kernel"] for line in lines} == {"mask_rows", "mask_packed", "argmax_rows", "64 steps"}
    assert all(line["identical"] and line["micros"] is None for line in lines)


@pytest.mark.slow
def test_with_interpreted_kernels(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="not run: needs triton (make test-device)")
    assert all(line["identical"] for line in run(tmp_path, TRITON_INTERPRET="1"))
