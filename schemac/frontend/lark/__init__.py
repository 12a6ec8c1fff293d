"""Lark grammars, with the additions of llguidance.

The language is the context-free one over characters, the `dynamic_complete` reading of Lark's Earley parser: every way
to split a text into terminals counts, and priorities do not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from schemac.budget import Budget
from schemac.frontend.grammar import Notes, Source, grammar_module
from schemac.frontend.json_schema import JsonSchemaOptions
from schemac.frontend.lark.collisions import report_collisions
from schemac.frontend.lark.commit import commit_lazy
from schemac.frontend.lark.definitions import read_definitions
from schemac.frontend.lark.rules import ROOT, Rules, check_start
from schemac.frontend.lark.terminals import Terminals
from schemac.ir.graph import Module

__all__ = ["lark_module"]


def lark_module(
    text: str,
    *,
    budget: Budget | None = None,
    warn: Callable[[str], None] | None = None,
    strict: bool = False,
    base_dir: Path | None = None,
    start: str = "start",
    json_options: JsonSchemaOptions | None = None,
    on_file: Callable[[str, bytes], None] | None = None,
) -> Module:
    """Lower a grammar exactly.

    Args:
        text: the grammar.
        budget: limits; a default one if None.
        warn: called for each thing that constrains nothing.
        strict: make those errors, and terminals that collide too.
        base_dir: the folder of the grammar, for ``%import .file.NAME``.
        start: the rule that the whole text must match.
        json_options: for JSON Schemas in the grammar.
        on_file: called for each file that is imported, with its path from `base_dir` and its contents.

    Raises:
        SourceError: the grammar is malformed, or a name is missing or defined twice.
        UnsupportedError: something that cannot be lowered exactly, such as terminals that need a lexer callback.
        BudgetExceeded: the grammar needs more than the budget allows.
    """
    budget = budget or Budget()
    notes = Notes(warn, strict=strict)
    definitions = read_definitions(Source(text), base_dir, budget, notes, on_file)
    check_start(definitions, start)
    terminals = Terminals(definitions, budget, notes, strict=strict)
    rules = Rules(definitions, terminals, budget, notes, json_options or JsonSchemaOptions(strict=strict))
    rules.make(start)
    if strict:
        report_collisions(rules.lexemes, budget)
    module = grammar_module(rules.rules, ROOT, budget, notes)
    return commit_lazy(module, rules.lexemes.all(), budget)
