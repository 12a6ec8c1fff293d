"""docs/neuron.md names what the code has."""

from __future__ import annotations

import re
from pathlib import Path

from schemac.codegen.neuron.lowering import KINDS, Shape, signature
from schemac.codegen.neuron.neuronx import DEFAULT_TIMEOUT, command_line
from schemac.codegen.neuron.operators import SUPPORTED
from schemac.codegen.targets.neuron import BATCHES, FEWEST_ROWS, MACHINES, OPTIONS

TEXT = (Path(__file__).parent.parent.parent / "docs" / "neuron.md").read_text("utf-8")


def rows_after(heading: str) -> list[list[str]]:
    """The rows of the first table behind some text."""
    found = re.search(r"(?:^\|.*\n)+", TEXT.partition(heading)[2], re.MULTILINE)
    assert found
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found.group().splitlines()[2:]]


def test_options_and_defaults() -> None:
    rows = rows_after("## Targets")
    assert sorted(row[0].strip("`") for row in rows) == sorted(OPTIONS)
    assert "`" + "+".join(map(str, BATCHES)) + "`" in {row[2] for row in rows}
    assert f"at least {FEWEST_ROWS}" in TEXT
    assert ", ".join(f"`{machine}`" for machine in MACHINES[:-1]) + f" and `{MACHINES[-1]}`" in TEXT
    assert f"default {DEFAULT_TIMEOUT:g}" in TEXT


def test_inputs_and_outputs() -> None:
    rows = rows_after("## Computations")
    assert tuple(row[0].strip("`") for row in rows) == KINDS
    for kind, inputs, outputs in rows:
        takes, gives = signature(kind.strip("`"), "float32", Shape(1, 32, 1, 1, 1, 1))
        assert re.findall(r"`(\w+)`", outputs) == [tensor.name for tensor in gives]
        assert inputs == "the same" or re.findall(r"`(\w+)`", inputs) == [tensor.name for tensor in takes]


def test_operators() -> None:
    listed = TEXT.partition("64-bit types:\n")[2].partition(". ")[0]
    assert re.findall(r"`([\w-]+)`", listed) == sorted(SUPPORTED)


def test_the_command_line() -> None:
    assert "\n    " + " ".join(command_line(Path("neuronx-cc"), "NAME", "trn2")) + "\n" in TEXT
