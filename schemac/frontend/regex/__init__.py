"""Regexes: pattern text to syntax tree (`parse`), to the language it matches (`lower`), to a module of the IR."""

from __future__ import annotations

from schemac.budget import Budget
from schemac.errors import EmptyLanguageError
from schemac.frontend.regex.ast import Node
from schemac.frontend.regex.lower import lower
from schemac.frontend.regex.parser import parse
from schemac.frontend.regex.repetitions import counted_module, each_once
from schemac.frontend.regex.scanner import Dialect
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Graph, Module, ModuleBuilder
from schemac.ir.utf8 import utf8_language

__all__ = ["Dialect", "Node", "counted_module", "each_once", "lower", "parse", "regex_language", "regex_module"]


def regex_language(
    text: str,
    *,
    dialect: Dialect,
    search: bool,
    flags: str = "",
    budget: Budget | None = None,
    place: str = "",
    longest: int | None = None,
) -> Dfa:
    """The language of a pattern over code points (Unicode scalar values).

    Args:
        text: the pattern.
        dialect: ``rust`` or ``ecma``; see `parser`.
        search: whether a match anywhere in the text is enough, as in JSON Schema.
        flags: letters that hold for the whole pattern: i, m, s, and of the rust dialect x.
        budget: what may be used; a default one if None.
        place: where the pattern stands, for errors.
        longest: if given, the caller intersects with a length limit of so many characters; see `lower`.

    Raises:
        SourceError: the pattern is malformed.
        UnsupportedError: the pattern is not regular, or of a kind that is not known.
        BudgetExceeded: it needs too many states or too much time.
    """
    node = parse(text, dialect=dialect, flags=flags, place=place)
    return lower(node, search=search, budget=budget, place=place, longest=longest)


def regex_module(
    text: str, *, dialect: Dialect = "rust", flags: str = "", budget: Budget | None = None, place: str = ""
) -> Module:
    """A module that accepts the UTF-8 texts that match a pattern as a whole; one procedure if nothing is counted.

    Raises:
        EmptyLanguageError: no text matches.
        SchemacError: as `regex_language`.
    """
    budget = budget or Budget()
    node = parse(text, dialect=dialect, flags=flags, place=place)
    counted = counted_module(node, "regex", budget=budget, place=place)
    if counted is not None:
        return counted
    language = lower(node, search=False, budget=budget, place=place)
    if language.is_empty:
        raise EmptyLanguageError("no text matches this pattern", place=place or None)
    return language_module(language, "regex", budget=budget, place=place)


def language_module(language: Dfa, name: str, *, budget: Budget, place: str) -> Module:
    """A module of one procedure that accepts the UTF-8 texts of a language over code points."""
    builder = ModuleBuilder()
    root = builder.declare(name, place)
    graph = Graph()
    graph.final(graph.language(graph.start, utf8_language(language, budget)))
    builder.define(root, graph)
    return builder.build()
