"""What the grammar notations have in common: expressions, rules, and their lowering to a module."""

from __future__ import annotations

from schemac.frontend.grammar.expression import Rule
from schemac.frontend.grammar.lower import grammar_module
from schemac.frontend.grammar.source import Notes, Source

__all__ = ["Notes", "Rule", "Source", "grammar_module"]
