"""Who may import whom: the runtime nobody but NumPy, the IR nothing above it, frontends nothing of the backend."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

#: Folder -> what no module in it imports, not even inside a function.
FORBIDDEN = {
    "runtime/schemac_runtime": ("schemac",),
    "schemac/ir": ("schemac.frontend", "schemac.codegen", "schemac.vocabulary", "schemac.api", "schemac.cli"),
    "schemac/frontend": ("schemac.codegen", "schemac.vocabulary", "schemac.api", "schemac.cli"),
    "schemac/codegen": ("schemac.frontend", "schemac.api", "schemac.cli"),
    "schemac/vocabulary": ("schemac.frontend", "schemac.codegen", "schemac.ir", "schemac.api", "schemac.cli"),
}


def modules(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"{folder} holds no modules"
    return found


def imports_of(path: Path, folder: str) -> list[str]:
    """Every module named in an import of `path`; ``from a import b`` names both a and a.b."""
    names: list[str] = []
    package = ".".join(path.relative_to(ROOT / folder).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer ({package})"
            module = node.module or ""
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return names


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_layers_import_downwards_only(folder: str) -> None:
    for path in modules(folder):
        for name in imports_of(path, folder):
            for layer in FORBIDDEN[folder]:
                inside = name == layer or name.startswith(layer + ".")
                assert not inside, f"{path.relative_to(ROOT)} imports {name}"


def test_runtime_imports_only_numpy_and_the_standard_library() -> None:
    program = """
import sys
import numpy
before = set(sys.modules)
import pkgutil, importlib
import schemac_runtime
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "runtime"), "PATH": ""},
    )
    loaded = set(result.stdout.split())
    allowed = set(sys.stdlib_module_names) | {"numpy", "schemac_runtime"}
    assert "schemac_runtime" in loaded
    assert loaded <= allowed
