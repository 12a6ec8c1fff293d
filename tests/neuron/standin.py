"""A stand-in for ``neuronx-cc``: what AWS's command line reference documents, and nothing else.

    neuronx-cc compile <model_files> --framework XLA --target <trn1|trn1n|trn2|inf2> [--auto-cast none|matmult|all]
        [--logfile <filename>] [--output <filename>]
    neuronx-cc list-operators --framework XLA

Exit status 0 is success, any other an error. The log goes to ``log-neuron-cc.txt``, the NEFF to ``file.neff``, unless
the options say otherwise. It reads the HLO as the real one must: a module with ids beyond 32 bits, or operators that it
does not list, fails. `STANDIN` in the environment makes it fail in one of the ways a compiler can.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

from schemac.codegen.neuron.operators import SUPPORTED, check_operators
from schemac.errors import TargetError


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        print("NeuronX Compiler version 0.stand-in\n\nPython version 3")
        return 0
    parser = argparse.ArgumentParser(prog="neuronx-cc", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    compile_ = commands.add_parser("compile", allow_abbrev=False)
    compile_.add_argument("model_files")
    compile_.add_argument("--framework", choices=["XLA"], required=True)
    compile_.add_argument("--target", choices=["trn1", "trn1n", "trn2", "inf2"], required=True)
    compile_.add_argument("--auto-cast", choices=["matmult", "all", "none"], default="matmult")
    compile_.add_argument("--logfile", default="log-neuron-cc.txt")
    compile_.add_argument("--output", default="file.neff")
    operators = commands.add_parser("list-operators", allow_abbrev=False)
    operators.add_argument("--framework", choices=["XLA"], required=True)
    options = parser.parse_args()
    if options.command == "list-operators":
        print(*sorted(set(SUPPORTED.values())), sep="\n")
        return 0
    mode = os.environ.get("STANDIN", "")
    Path(options.logfile).write_text(f"compile {options.model_files}\n", "utf-8")
    if mode == "fails":
        print("INFO one of many lines", file=sys.stderr)
        print("2026-01-01T00:00:00Z ERROR [NCC_EVRF001]: operator gather is too wide", file=sys.stderr)
        print("see the log", file=sys.stderr)
        return 70
    if mode == "crashes":
        Path(options.logfile).write_text("something\nERROR: internal error in the backend\n", "utf-8")
        os.abort()
    if mode == "hangs":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path("child.pid").write_text(str(child.pid), "utf-8")
        print("still scheduling", flush=True)
        time.sleep(600)
    if mode == "writes nothing":
        return 0
    hlo = Path(options.model_files).read_bytes()
    try:
        check_operators(hlo)
    except TargetError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    digest = hashlib.sha256(hlo).hexdigest()
    Path(options.output).write_text(f"NEFF {options.target} {options.auto_cast} {digest}\n", "utf-8")
    Path("left-behind.json").write_text("{}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
