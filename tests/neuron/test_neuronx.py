"""The drivers of AWS's compilers, against stand-ins; neither compiler can be had here."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schemac.codegen.neuron.neuronx import command_line, find_compiler, make_neff
from schemac.codegen.neuron.operators import SUPPORTED
from schemac.errors import TargetError
from schemac_runtime.neuron.modules import NeuronModule, Tensor

ROOT = Path(__file__).parent.parent.parent
LOGITS = Tensor("logits", "float32", (2, 40))
INPUTS = (LOGITS, Tensor("mask_rows", "int32", (2,)), Tensor("arena", "int32", (3, 2)))
MODULE = NeuronModule("mask_b2_float32", "mask", "float32", 2, INPUTS, (LOGITS,), b"")  # no computations, no complaints


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``neuronx-cc`` on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "neuronx-cc"
    paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" -m tests.neuron.standin "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("STANDIN", raising=False)
    return program


def neff(timeout: float = 60, folder: Path | None = None) -> bytes:
    return make_neff(find_compiler(), MODULE, "trn2", timeout=timeout, folder=folder)


def test_the_command_line_is_the_documented_one() -> None:
    assert command_line(Path("/opt/neuronx-cc"), "mask_b2_float32", "inf2") == [
        "/opt/neuronx-cc", "compile", "mask_b2_float32.hlo.pb", "--framework", "XLA", "--target", "inf2",
        "--auto-cast", "none", "--output", "mask_b2_float32.neff", "--logfile", "log-neuron-cc.txt",
    ]  # fmt: skip


def test_the_neff_is_what_the_compiler_wrote(standin: Path, tmp_path: Path) -> None:
    compiler = find_compiler()
    assert (compiler.name, compiler.version) == ("neuronx-cc", "NeuronX Compiler version 0.stand-in")
    expected = f"NEFF trn2 none {hashlib.sha256(MODULE.hlo).hexdigest()}\n".encode()
    before = set(tmp_path.rglob("*"))
    assert neff() == expected
    assert set(tmp_path.rglob("*")) == before  # it worked in a temporary folder
    assert find_compiler("auto", standin).name == "neuronx-cc"


def test_a_folder_keeps_what_the_compiler_left(standin: Path, tmp_path: Path) -> None:
    neff(folder=tmp_path / "work")
    place = tmp_path / "work" / "trn2_mask_b2_float32"
    names = ["left-behind.json", "log-neuron-cc.txt", "mask_b2_float32.hlo.pb", "mask_b2_float32.neff", "output.txt"]
    assert sorted(path.name for path in place.iterdir()) == names
    with pytest.raises(TargetError, match=r"is there already \(give an empty folder"):
        neff(folder=tmp_path / "work")


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("fails", "exit status 70: 2026-01-01T00:00:00Z ERROR [NCC_EVRF001]: operator gather is too wide"),
        ("crashes", "signal 6: ERROR: internal error in the backend"),
        (
            "writes nothing",
            "it reported success and left no mask_b2_float32.neff: compile mask_b2_float32.hlo.pb",
        ),
    ],
)
def test_its_words_are_in_the_error(
    mode: str, message: str, standin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN", mode)
    with pytest.raises(TargetError) as failure:
        neff()
    assert str(failure.value) == f"neuronx-cc for trn2, module mask_b2_float32: {message}"


def test_a_module_with_64_bit_ids_would_fail(standin: Path) -> None:
    identifier = b"\x98\x02\x81\x80\x80\x80\x10"  # field 35 = 2^32 + 1
    shape = b"\x1a\x02\x10\x0b"
    instruction = b"\x0a\x01a\x12\x09parameter" + shape + identifier
    computation = b"\x12" + bytes([len(instruction)]) + instruction
    module = NeuronModule(**{**vars(MODULE), "hlo": b"\x1a" + bytes([len(computation)]) + computation})
    with pytest.raises(TargetError, match="a has the id 4294967297, which needs more than 32 bits"):
        make_neff(find_compiler(), module, "trn1", timeout=60, folder=None)


def test_a_compiler_that_hangs_is_ended_with_its_children(
    standin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN", "hangs")
    start = time.monotonic()
    with pytest.raises(TargetError, match=r"not done after 4 s: still scheduling \(--timeout S allows it more"):
        neff(timeout=4, folder=tmp_path / "work")
    assert time.monotonic() - start < 20
    child = int((tmp_path / "work" / "trn2_mask_b2_float32" / "child.pid").read_text())
    for _ in range(100):
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            break  # gone
        if state == "Z":
            break  # ended, and waiting for somebody to notice
        time.sleep(0.05)
    else:
        pytest.fail("the child of the compiler lives on")


def test_the_operators_used_are_all_listed(standin: Path) -> None:
    import subprocess

    done = subprocess.run(
        [standin, "list-operators", "--framework", "XLA"], capture_output=True, text=True, check=True, timeout=60
    )
    assert set(done.stdout.split()) == set(SUPPORTED.values())


# -- what is missing ---------------------------------------------------------------------------------------------


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No compiler anywhere; a folder for packages."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "torch_neuronx", None)
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    return packages


def distribution(folder: Path, name: str, version: str, text: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n{text}\n", "utf-8")


WRONG = "WRONG PACKAGE. Please install the package from Neuron Repository"


def test_nothing_installed_says_so(nothing: Path) -> None:
    with pytest.raises(TargetError) as failure:
        find_compiler()
    assert str(failure.value) == (
        "no Neuron compiler: neuronx-cc is not installed; torch-neuronx is not installed "
        "(docs/neuron.md has AWS's install command)"
    )
    with pytest.raises(TargetError, match=r"/no/such: there is no such program"):
        find_compiler("auto", Path("/no/such"))


def test_placeholders_are_recognized(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(nothing, "neuronx-cc", "1.0.post1", WRONG)
    distribution(nothing, "torch-neuronx", "1.0", WRONG)
    (nothing / "torch_neuronx").mkdir()
    (nothing / "torch_neuronx" / "__init__.py").write_text(f'raise ImportError("{WRONG}")\n')
    monkeypatch.delitem(sys.modules, "torch_neuronx")
    with pytest.raises(TargetError) as failure:
        find_compiler()
    assert str(failure.value).count("is the placeholder of the public index, not AWS's") == 2


def test_aws_packages_without_a_program_are_no_placeholders(nothing: Path) -> None:
    distribution(nothing, "neuronx-cc", "2.26.6360.0", "The Neuron compiler.")
    with pytest.raises(TargetError, match="neuronx-cc is installed, but no program of that name is on the PATH"):
        find_compiler("neuronx-cc")


# -- torch_neuronx -----------------------------------------------------------------------------------------------


def plugin(monkeypatch: pytest.MonkeyPatch, nothing: Path, files: tuple[str, ...] = ("graph.neff",)) -> list[Any]:
    """A `torch_neuronx` whose `trace` has AWS's signature and leaves these files in its working folder."""
    calls: list[Any] = []

    def trace(func: Any, example_inputs: Any, *_: Any, compiler_workdir: Any = None, compiler_args: Any = None) -> None:
        calls.append((func, example_inputs, compiler_args))
        func(*example_inputs)
        for name in files:
            (Path(compiler_workdir) / name).parent.mkdir(exist_ok=True)
            (Path(compiler_workdir) / name).write_bytes(b"NEFF")
        if files == ("fails",):
            raise RuntimeError("neuronx-cc failed\nwith exit code 70")

    monkeypatch.setitem(sys.modules, "torch_neuronx", SimpleNamespace(trace=trace, __version__="0.stand-in"))
    return calls


def test_tracing_is_the_second_way(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="not run: needs torch (make test-neuron)")
    calls = plugin(monkeypatch, nothing, ("model/graph.hlo", "graph.neff"))
    compiler = find_compiler()
    assert (compiler.name, compiler.version) == ("torch-neuronx", "0.stand-in")
    assert make_neff(compiler, MODULE, "trn1", timeout=60, folder=None) == b"NEFF"
    [(_, inputs, arguments)] = calls
    assert arguments == ["--target", "trn1", "--auto-cast", "none"]
    assert [(tuple(value.shape), value.dtype) for value in inputs] == [
        ((2, 40), torch.float32), ((2,), torch.int32), ((3, 2), torch.int32),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (("fails",), "RuntimeError: neuronx-cc failed | with exit code 70"),
        ((), "left 0 NEFF files in its working folder, expected one"),
        (("a/a.neff", "b/b.neff"), "left 2 NEFF files in its working folder, expected one"),
    ],
)
def test_what_tracing_can_do_wrong(
    files: tuple[str, ...], message: str, nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="not run: needs torch (make test-neuron)")
    plugin(monkeypatch, nothing, files)
    with pytest.raises(TargetError) as failure:
        make_neff(find_compiler("torch-neuronx"), MODULE, "trn1", timeout=60, folder=None)
    assert str(failure.value) == f"torch_neuronx.trace for trn1, module mask_b2_float32: {message}"


def test_a_release_without_trace_is_no_way(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_neuronx", SimpleNamespace(__version__="2.14.3.0"))
    with pytest.raises(TargetError, match="no Neuron compiler"):
        find_compiler("torch-neuronx")
