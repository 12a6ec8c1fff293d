"""Texts that end as soon as they can, and texts up to a marker."""

from __future__ import annotations

from schemac.budget import Budget
from schemac.ir.charset import CODE_POINTS, SCALARS, CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.nfa import Nfa


def shortest_texts(language: Dfa, budget: Budget) -> Dfa:
    """The texts of a language that do not begin with a shorter one of it."""
    more = Dfa.runs(SCALARS, 1, None, CODE_POINTS)
    return language.difference(language.concat(more, budget=budget), budget=budget)


def before_marker(language: Dfa, marker: Dfa, budget: Budget) -> Dfa:
    """The texts that, with some text of `marker` after them, are in a language."""
    pairs = _pairs_to_the_end(language, marker, budget)
    nfa = Nfa(language.limit)
    nodes = [nfa.start, *(nfa.node() for _ in range(language.size - 1))]
    for state, low, high, target in language.edges():
        nfa.symbols(nodes[state], CharSet.of((low, high)), nodes[target])
    for state in range(language.size):
        if (state, 0) in pairs:
            nfa.final(nodes[state])
    return Dfa.from_nfa(nfa, budget=budget)


def _pairs_to_the_end(language: Dfa, marker: Dfa, budget: Budget) -> set[tuple[int, int]]:
    """The pairs of states from which both can read one text to their ends."""
    edges = [_edges_by_state(language), _edges_by_state(marker)]
    before: dict[tuple[int, int], list[tuple[int, int]]] = {}
    budget.spend("regex_states", language.size * marker.size)
    for one in range(language.size):
        for two in range(marker.size):
            for low, high, target in edges[0][one]:
                for begin, end, goal in edges[1][two]:
                    if low <= end and begin <= high:
                        before.setdefault((target, goal), []).append((one, two))
    found = {(one, two) for one in language.accepting_states() for two in marker.accepting_states()}
    stack = list(found)
    while stack:
        for pair in before.get(stack.pop(), ()):
            if pair not in found:
                found.add(pair)
                stack.append(pair)
    return found


def _edges_by_state(dfa: Dfa) -> list[list[tuple[int, int, int]]]:
    edges: list[list[tuple[int, int, int]]] = [[] for _ in range(dfa.size)]
    for state, low, high, target in dfa.edges():
        edges[state].append((low, high, target))
    return edges
