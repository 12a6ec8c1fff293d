"""The passes as readable listings: a change in lowering shows up as a diff of golden/*.txt.

A case is one file of sections, each opened by a line ``== name``: `kind` (``rules``, or a kind of source), `source`,
`accepted` and `rejected` (a text per line, ``<empty>`` for the empty one), then one section per pass of interest with
what it made. For a new case write the first four and the names of the passes, and run pytest with ``--update-golden``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from schemac.budget import Budget
from schemac.ir.graph import Module
from schemac.ir.passes.determinize import determinize, module_alphabet
from schemac.ir.passes.minimize import minimize
from schemac.ir.pipeline import SYMBOLIC_PASSES, assemble, lower
from schemac.ir.printer import print_automaton, print_module
from schemac.ir.recognizer import check
from tests.oracle.grammars import rules
from tests.oracle.masks import module_of
from tests.oracle.slow import SlowRecognizer

FOLDER = Path(__file__).resolve().parent.parent.parent / "golden"
HEAD = ("kind", "source", "accepted", "rejected")


def read_case(path: Path) -> dict[str, str]:
    sections: dict[str, str] = {}
    for part in ("\n" + path.read_text(encoding="utf-8")).split("\n== ")[1:]:
        name, _, body = part.partition("\n")
        sections[name.strip()] = body.strip("\n")
    assert tuple(sections)[:4] == HEAD, path
    return sections


def texts(section: str) -> list[bytes]:
    return [b"" if line == "<empty>" else line.encode() for line in section.splitlines()]


def source_module(sections: dict[str, str]) -> Module:
    kind = sections["kind"]
    return rules(sections["source"]) if kind == "rules" else module_of(sections["source"], kind)


def listings(module: Module) -> dict[str, str]:
    """By pass, what it makes of the passes' result before it."""
    made = {"module": print_module(module)}
    budget = Budget()
    for name, run in SYMBOLIC_PASSES:
        module = run(module, budget)
        made[name] = print_module(module)
    alphabet = module_alphabet(module)
    deterministic = determinize(module, alphabet, budget)
    made["determinize"] = print_automaton(assemble(deterministic, alphabet))
    made["minimize"] = print_automaton(assemble(minimize(deterministic, budget), alphabet))
    return made


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_golden(name: str, request: pytest.FixtureRequest) -> None:
    path = FOLDER / f"{name}.txt"
    sections = read_case(path)
    module = source_module(sections)
    automaton, _ = lower(module, Budget())
    slow = SlowRecognizer(module)
    for accepted, section in ((True, "accepted"), (False, "rejected")):
        assert texts(sections[section]), f"{name} lists no {section} text"
        for text in texts(sections[section]):
            assert check(automaton, text).accepted is accepted, (section, text)
            assert slow.accepts(text) is accepted, (section, text)
    made = listings(module)
    assert made["minimize"] == print_automaton(automaton)
    fresh = sections | {section: made[section].strip("\n") for section in sections if section not in HEAD}
    assert len(fresh) > len(HEAD), f"{name} names no pass"
    if request.config.getoption("--update-golden"):
        body = "\n\n".join(f"== {section}\n{text}" for section, text in fresh.items())
        path.write_text(body + "\n", encoding="utf-8")
    else:
        assert sections == fresh


def test_there_are_cases() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 9
