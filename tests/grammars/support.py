"""Compiling and checking in one call each."""

from __future__ import annotations

from collections.abc import Callable

from schemac.budget import Budget
from schemac.frontend.gbnf import gbnf_module
from schemac.frontend.lark import lark_module
from schemac.ir.automaton import Automaton
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import check


def lark(text: str, warn: Callable[[str], None] | None = None, **options: object) -> Automaton:
    budget = Budget(seconds=20)
    return lower(lark_module(text, budget=budget, warn=warn, **options), budget)[0]  # type: ignore[arg-type]


def gbnf(text: str, warn: Callable[[str], None] | None = None, **options: object) -> Automaton:
    budget = Budget(seconds=20)
    return lower(gbnf_module(text, budget=budget, warn=warn, **options), budget)[0]  # type: ignore[arg-type]


def accepts(automaton: Automaton, text: str | bytes) -> bool:
    return check(automaton, text.encode() if isinstance(text, str) else text).accepted


def warnings_of(compile_: Callable[..., Automaton], text: str) -> list[str]:
    found: list[str] = []
    compile_(text, found.append)
    return found
