"""Ahead-of-time kernels: what is compiled for every machine, without a GPU."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import schemac
from schemac.codegen.package import automaton_arrays
from schemac.codegen.targets.triton import quiet_triton
from schemac.errors import TargetError
from schemac_runtime import DeviceError, PackageError, load
from schemac_runtime.kernels.compiling import MACHINES, OTHERS, compile_variant
from schemac_runtime.kernels.table import KERNELS, LOGITS, source_digest
from schemac_runtime.package import Package
from schemac_runtime.targets import TargetArtifact
from tests.runtime.programs import SMALL

pytest.importorskip("triton", reason="not run: needs triton (make test-device)")

ROOT = Path(__file__).resolve().parent.parent.parent
MADE = schemac.link(schemac.compile("[a-c]{2,5}", kind="regex"), SMALL)


@pytest.mark.slow
def test_a_package_for_all_four_machines(tmp_path: Path) -> None:
    made = MADE
    for machine in MACHINES:
        made = schemac.add_target(made, f"triton:{machine}")
    schemac.save(made, tmp_path / "grammar.pkg")
    package = load(tmp_path / "grammar.pkg")
    schemac.open_package(package)
    variants = sum(len(LOGITS) if kernel.takes_logits else 1 for kernel in KERNELS.values())
    for machine in MACHINES:
        artifact = package.target(f"triton:{machine}")
        assert len(artifact.blobs) == variants
        assert artifact.manifest["kernels_sha256"] == source_digest()
        for name, blob in artifact.blobs.items():
            assert blob.startswith(b"\x7fELF")
            assert b"schemac_runtime" not in blob and b"source.py" not in blob, f"{name} holds a path"
            assert artifact.manifest["kernels"][name]["null_arguments"] == 2


MAKE = """
import hashlib, sys
import schemac
from tests.runtime.programs import SMALL
made = schemac.link(schemac.compile("[a-c]{2,5}", kind="regex"), SMALL)
schemac.save(schemac.add_target(made, "triton:sm_90"), sys.argv[1])
"""


@pytest.mark.slow
def test_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    schemac.save(schemac.add_target(MADE, "triton:sm_90"), tmp_path / "here.pkg")
    environment = os.environ | {"PYTHONHASHSEED": "7", "TRITON_CACHE_DIR": str(tmp_path / "cache"),
                                "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime")))}
    subprocess.run([sys.executable, "-c", MAKE, tmp_path / "there.pkg"], check=True, env=environment, cwd=tmp_path)
    digests = {hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("here.pkg", "there.pkg")}
    assert len(digests) == 1


def test_what_cannot_be_compiled_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine in ("sm_x", "sm_42", "sm_900", "gfx1100x", "rtx", ""):
        with pytest.raises(DeviceError, match="no kernels for a machine"):
            compile_variant(machine, KERNELS["step_advance"], None, True)
    with pytest.raises(TargetError, match="no kernels for a machine"):
        schemac.add_target(MADE, "triton:rtx4090")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(TargetError, match="unset TRITON_INTERPRET"):
        schemac.add_target(MADE, "triton:sm_75")


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(TargetError, match=r"triton is not installed .*schemac\[triton\]"):
        schemac.add_target(MADE, "triton:sm_86")


@pytest.mark.parametrize("damage", [
    {"kernels": {}}, {"kernels": None}, {"kernels": {"a": 1}}, {"kernels": {"a": {}}},
    {"kernels": {"a": {"threads": -1, "shared_bytes": 0, "null_arguments": 0}}},
    {"kernels": {"a": {"threads": 32, "shared_bytes": 0, "null_arguments": 0}}},
    {"kernels": {"a": {"symbol": "other", "threads": 32, "shared_bytes": 0, "null_arguments": 0}}},
    {"kernels": {"a": {"symbol": "mask_rows", "threads": 32, "shared_bytes": 0, "null_arguments": 0}}},
    {"kernels": {"a": {"symbol": "mask_rows", "threads": 0, "shared_bytes": 0, "null_arguments": 0}}},
    {"kernels": {"a": {"symbol": "mask_rows", "threads": 32, "shared_bytes": 1 << 20, "null_arguments": 0}}},
])  # fmt: skip
def test_a_damaged_entry_is_refused(damage: dict[str, Any]) -> None:
    automaton = schemac.compile("a", kind="regex").automaton
    manifest = json.loads(json.dumps({
        "automaton": {"symbols": automaton.symbols, "labels": [], "procedures": list(automaton.names),
                      "places": list(automaton.places)},
        "kind": "regex", "warnings": [], "options": {},
    }))  # fmt: skip
    artifact = TargetArtifact("triton:sm_90", SMALL.fingerprint, damage, {"a": b"\x7fELF"})
    package = Package(Path("x.pkg"), manifest, automaton_arrays(automaton), (), b"a", (artifact,))
    with pytest.raises(PackageError):
        schemac.open_package(package)


# -- what the compiler made of the source ------------------------------------------------------------------------

#: What must be done 16 bytes at a time: -inf for words that allow nothing, logits to choose from.
VECTORS = {
    "mask_rows": ("st.global.v4.b32", "global_store_dwordx4"),
    "mask_packed": ("st.global.v4.b32", "global_store_dwordx4"),
    "argmax_rows": ("ld.global.v4.b32", "global_load_dwordx4"),
    "step_greedy": ("ld.global.v4.b32", "global_load_dwordx4"),
    "step_mask": ("st.global.v4.b32", "global_store_dwordx4"),
}


@pytest.mark.slow
@pytest.mark.parametrize("machine", OTHERS)
def test_other_machines(machine: str) -> None:
    with quiet_triton():
        assert compile_variant(machine, KERNELS["step_greedy"], "bf16", True).image.startswith(b"\x7fELF")


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_vector_accesses_and_no_spills(machine: str, tmp_path: Path) -> None:
    amd = machine.startswith("gfx")
    for name, wanted in VECTORS.items():
        for logits in ("fp32", "bf16"):
            with quiet_triton():
                made = compile_variant(machine, KERNELS[name], logits, True)
            text = made.assembly["amdgcn" if amd else "ptx"]
            assert wanted[amd] in text, (name, logits)
            if amd:
                assert re.search(r"\.private_segment_fixed_size: 0\b", text), f"{name} {logits}: local memory"
                assert re.search(r"\.[sv]gpr_spill_count: +0\b", text), f"{name} {logits} spills"
                assert not re.search(r"\.[sv]gpr_spill_count: +[1-9]", text), f"{name} {logits} spills"
            else:
                assert not re.search(r"\.local\b|(?:ld|st)\.local", text), f"{name} {logits}: local memory"
                assert spills(text, machine, tmp_path) == (0, 0, 0), f"{name} {logits} spills"


def spills(ptx: str, machine: str, folder: Path) -> tuple[int, ...]:
    """(bytes of stack, of spill stores, of spill loads), as the assembler reports them."""
    from triton.backends.nvidia.compiler import get_ptxas

    target = re.search(r"^\.target (\S+)", ptx, re.MULTILINE)
    assert target
    assembler = get_ptxas(int(machine.removeprefix("sm_")))
    (folder / "kernel.ptx").write_text(ptx)
    command = [assembler.path, "-v", f"--gpu-name={target[1].rstrip(',')}", "kernel.ptx", "-o", "kernel.cubin"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
    assert found, done.stderr
    return tuple(int(number) for number in found.groups())
