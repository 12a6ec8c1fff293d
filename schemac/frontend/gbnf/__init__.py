"""GBNF as llama.cpp documents it, and EBNF as xgrammar does: one notation with a few more words in the second."""

from __future__ import annotations

from collections.abc import Callable

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.gbnf.parser import parse
from schemac.frontend.grammar import Notes, Source, grammar_module
from schemac.ir.graph import Module

__all__ = ["gbnf_module"]


def gbnf_module(
    text: str,
    *,
    budget: Budget | None = None,
    warn: Callable[[str], None] | None = None,
    strict: bool = False,
    root: str = "root",
) -> Module:
    """Lower a grammar exactly.

    Args:
        text: the grammar.
        budget: limits; a default one if None.
        warn: called for each thing that constrains nothing.
        strict: make those errors.
        root: the rule that the whole text must match.

    Raises:
        SourceError: the grammar is malformed, or a rule is missing or defined twice.
        UnsupportedError: something that cannot be lowered exactly, such as a limit on tokens.
        BudgetExceeded: the grammar needs more than the budget allows.
    """
    budget = budget or Budget()
    notes = Notes(warn, strict=strict)
    rules = parse(Source(text), budget, notes)
    if root not in rules:
        hint = f"the first rule is {next(iter(rules))!r}" if rules else "write root ::= ..."
        raise SourceError(f"there is no rule {root!r} to start from", place="1:1", construct=root, hint=hint)
    return grammar_module(rules, root, budget, notes)
