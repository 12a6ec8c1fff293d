"""Regexes and choices as modules of the IR."""

from __future__ import annotations

import pytest

from schemac.budget import Budget
from schemac.errors import BudgetExceeded, EmptyLanguageError, SourceError
from schemac.frontend.choice import choice_language, choice_module
from schemac.frontend.regex import regex_module
from schemac.ir.charset import BYTES, CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Module
from schemac.ir.nfa import Nfa


def language(module: Module) -> Dfa:
    """The language of a module of one procedure."""
    (procedure,) = module.procedures
    graph = procedure.graph
    nfa = Nfa(BYTES)
    for _ in range(len(graph) - 1):
        nfa.node()
    for node in range(len(graph)):
        for low, high, target in graph.byte_edges[node]:
            nfa.symbols(node, CharSet.of((low, high)), target)
        for target in graph.epsilons[node]:
            nfa.epsilon(node, target)
    nfa.finals |= graph.finals
    return Dfa.from_nfa(nfa)


def test_regex_module() -> None:
    found = language(regex_module("é|[0-9]{2}", place="1:1"))
    assert found.words(200)[0] == (48, 48) and len(found.words(200)) == 101
    assert found.accepts("é".encode())


def test_choice_module() -> None:
    words = ["yes", "no", "", "näin", "yes"]
    module = choice_module(words)
    assert module.procedures[0].name == "choice"
    assert sorted(bytes(word).decode() for word in language(module).words(10)) == sorted(set(words))
    assert choice_language(words).words(10) == sorted(
        {tuple(map(ord, word)) for word in words}, key=lambda w: (len(w), w)
    )


def test_nothing_to_choose_from() -> None:
    for build in (choice_language, choice_module):
        with pytest.raises(EmptyLanguageError, match="no choice"):
            build([])
    with pytest.raises(EmptyLanguageError, match="no text matches"):
        regex_module(r"a\bb")


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(SourceError, match="lone surrogate") as caught:
        choice_module(["a", "\ud800"], place="#/enum")
    assert caught.value.place == "#/enum/1"


def test_many_choices() -> None:
    words = [f"{number * 2654435761 % 2**32:08x}" for number in range(20_000)]
    found = choice_language(words, Budget())
    assert all(found.accepts(word) for word in words[::97]) and not found.accepts("zzz")
    with pytest.raises(BudgetExceeded):
        choice_language(words, Budget({"regex_states": 1000}))
