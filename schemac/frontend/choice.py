"""Choices: a list of texts, one of which is to be produced."""

from __future__ import annotations

from collections.abc import Sequence

from schemac.budget import Budget
from schemac.errors import EmptyLanguageError, SourceError
from schemac.ir.dfa import CODE_POINTS, Dfa
from schemac.ir.graph import Graph, Module, ModuleBuilder
from schemac.ir.utf8 import utf8_words


def choice_language(words: Sequence[str], budget: Budget | None = None, *, place: str = "") -> Dfa:
    """The language of some texts, over code points; repetitions are fine.

    Raises:
        EmptyLanguageError: there is no text.
        SourceError: a text has a lone surrogate.
    """
    _check(words, place)
    return Dfa.literals(words, CODE_POINTS, budget=budget)


def choice_module(words: Sequence[str], budget: Budget | None = None, *, place: str = "") -> Module:
    """A module of one procedure that accepts some texts in UTF-8; errors as `choice_language`."""
    _check(words, place)
    builder = ModuleBuilder()
    root = builder.declare("choice", place)
    graph = Graph()
    graph.final(graph.language(graph.start, utf8_words(words, budget or Budget())))
    builder.define(root, graph)
    return builder.build()


def _check(words: Sequence[str], place: str) -> None:
    if not words:
        raise EmptyLanguageError("there is no choice", place=place or None, hint="list at least one text")
    for index, word in enumerate(words):
        if not word.isascii() and any("\ud800" <= char <= "\udfff" for char in word):
            raise SourceError("this text has a lone surrogate", place=f"{place}/{index}" if place else f"/{index}")
