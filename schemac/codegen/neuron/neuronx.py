"""From HLO to NEFF: the Neuron compiler as AWS documents it, and `torch_neuronx.trace` as the second way.

    neuronx-cc compile MODULE.hlo.pb --framework XLA --target trn1 --auto-cast none --output MODULE.neff
        --logfile log-neuron-cc.txt

Casting is off, since a mask that is rounded is another mask. Exit status 0 is success, any other an error. Each module
is compiled in a folder of its own, so that compilers that leave files behind do not meet.

Neither compiler can be had on the machines that this project is developed on. What is said here of them is what AWS's
command line reference says; the tests run a stand-in that keeps to it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemac.codegen.neuron.placeholders import why_missing
from schemac.errors import TargetError
from schemac_runtime.neuron.modules import NeuronModule

PROGRAM, LIBRARY = "neuronx-cc", "torch-neuronx"
WAYS = ("auto", PROGRAM, LIBRARY)
LOG = "log-neuron-cc.txt"
#: Seconds that one module may take. AWS's figures for whole models are minutes; these are a dozen operators.
DEFAULT_TIMEOUT = 1800.0
#: Lines of the compiler's output that an error quotes.
_QUOTED = 6
_LACKS = {PROGRAM: "no program of that name is on the PATH", LIBRARY: "it has no trace function that can be imported"}
_INSTALL = "docs/neuron.md has AWS's install command"

#: (module, machine, folder to work in, seconds) to the NEFF.
Compile = Callable[[NeuronModule, str, Path, float], bytes]


@dataclass(frozen=True)
class NeffCompiler:
    """One way to a NEFF.

    Attributes:
        name: ``neuronx-cc`` or ``torch-neuronx``.
        version: what it says of itself; empty if it says nothing.
        compile: runs it.
    """

    name: str
    version: str
    compile: Compile


def find_compiler(way: str = "auto", program: Path | None = None) -> NeffCompiler:
    """The compiler that is there: `program`, or ``neuronx-cc`` on the PATH, or else torch-neuronx.

    Args:
        way: one of `WAYS`.
        program: the compiler's executable, in place of the one on the PATH.

    Raises:
        TargetError: there is none; it says what there is instead.
    """
    if way in {"auto", PROGRAM}:
        path = shutil.which(str(program) if program is not None else PROGRAM)
        if path is not None:
            executable = Path(path).absolute()
            return NeffCompiler(PROGRAM, _version(executable), lambda *job: run_neuronx_cc(executable, *job))
        if program is not None:
            raise TargetError(f"{program}: there is no such program", construct="--compiler")
    if way in {"auto", LIBRARY}:
        trace = _trace()
        if trace is not None:
            return NeffCompiler(LIBRARY, _library_version(), lambda *job: run_trace(trace, *job))
    reasons = [why_missing(name, lacks) for name, lacks in _LACKS.items() if way in {"auto", name}]
    raise TargetError(f"no Neuron compiler: {'; '.join(reasons)}", hint=_INSTALL)


def make_neff(
    compiler: NeffCompiler, module: NeuronModule, machine: str, *, timeout: float, folder: Path | None
) -> bytes:
    """The NEFF of one module.

    Args:
        compiler: see `find_compiler`.
        module: what to compile.
        machine: ``trn1``, ``trn2`` or ``inf2``.
        timeout: seconds that it may take.
        folder: where to work, and to leave what the compiler left, in a folder named for the machine and module; None
            for a temporary one.

    Raises:
        TargetError: it failed, took too long, or left no NEFF.
    """
    with _work_folder(folder, f"{machine}_{module.name}") as place:
        return compiler.compile(module, machine, place, timeout)


def command_line(program: Path, name: str, machine: str) -> list[str]:
    """How the compiler is called, in the folder that holds ``name.hlo.pb``."""
    return [
        str(program), "compile", f"{name}.hlo.pb", "--framework", "XLA", "--target", machine, "--auto-cast", "none",
        "--output", f"{name}.neff", "--logfile", LOG,
    ]  # fmt: skip


def run_neuronx_cc(program: Path, module: NeuronModule, machine: str, folder: Path, timeout: float) -> bytes:
    """Run the compiler; see `make_neff`."""
    (folder / f"{module.name}.hlo.pb").write_bytes(module.hlo)
    output = folder / "output.txt"
    where = f"{PROGRAM} for {machine}, module {module.name}"
    with output.open("wb") as sink:
        try:
            process = subprocess.Popen(
                command_line(program, module.name, machine),
                cwd=folder, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise TargetError(f"{program}: {error.strerror or error}", construct="--compiler") from error
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TargetError(
                f"{where}: not done after {timeout:g} s{_quoted(folder, output)}", hint="--timeout S allows it more"
            ) from None
        finally:
            if process.poll() is None:
                _end(process)
    if status:
        how = f"exit status {status}" if status > 0 else f"signal {-status}"
        raise TargetError(f"{where}: {how}{_quoted(folder, output)}")
    return _result(folder / f"{module.name}.neff", where, _quoted(folder, output))


def run_trace(trace: Any, module: NeuronModule, machine: str, folder: Path, timeout: float) -> bytes:
    """`torch_neuronx.trace` of the same computation in torch; see `make_neff`. It cannot be given a time limit."""
    del timeout
    import torch

    from schemac_runtime.neuron.traced import TRACED

    examples = tuple(torch.zeros(tensor.shape, dtype=getattr(torch, tensor.dtype)) for tensor in module.inputs)
    arguments = ["--target", machine, "--auto-cast", "none"]
    where = f"torch_neuronx.trace for {machine}, module {module.name}"
    try:
        trace(TRACED[module.kind](), examples, compiler_workdir=str(folder), compiler_args=arguments)
    except Exception as error:  # whatever the plugin raises
        lines = str(error).strip().splitlines() or [""]
        text = f": {type(error).__name__}: {' | '.join(lines[-_QUOTED:])}"
        raise TargetError(f"{where}{text}{_quoted(folder, folder / LOG)}") from error
    found = sorted(folder.rglob("*.neff"))
    if len(found) != 1:
        raise TargetError(f"{where}: left {len(found)} NEFF files in its working folder, expected one")
    return _result(found[0], where, "")


def _result(path: Path, where: str, quoted: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    if not data:
        raise TargetError(f"{where}: it reported success and left no {path.name}{quoted}")
    return data


def _trace() -> Any | None:
    """`torch_neuronx.trace`, or None: not installed, a placeholder, or a release without it."""
    try:
        import torch_neuronx
    except ImportError:
        return None
    return getattr(torch_neuronx, "trace", None)


def _library_version() -> str:
    import torch_neuronx

    return str(getattr(torch_neuronx, "__version__", ""))


def _version(program: Path) -> str:
    """The first line of ``--version``, which all releases seen print; it is only recorded, so none is no error."""
    try:
        done = subprocess.run(
            [str(program), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
            check=False, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.strip().splitlines()
    return lines[0].strip()[:100] if lines and done.returncode == 0 else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the compiler and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _quoted(folder: Path, output: Path) -> str:
    """The last lines that the compiler wrote, errors first, to its output or else to its log."""
    for path in (output, folder / LOG):
        try:
            lines = [line.strip() for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
        except OSError:
            continue
        if lines:
            errors = [line for line in lines if "error" in line.lower()]
            return ": " + " | ".join((errors or lines)[-_QUOTED:])
    return ""


@contextlib.contextmanager
def _work_folder(folder: Path | None, name: str) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="schemac-neff-") as temporary:
            yield Path(temporary)
        return
    place = folder / name
    if place.exists():
        raise TargetError(f"{place}: is there already", construct="--work-dir", hint="give an empty folder")
    place.mkdir(parents=True)
    yield place
