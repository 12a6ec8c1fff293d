"""The parts of a text: any number of neighbouring chunks."""

from __future__ import annotations

from schemac.budget import Budget
from schemac.ir.charset import CODE_POINTS
from schemac.ir.dfa import Dfa
from schemac.ir.nfa import Nfa


def substring_language(chunks: list[str], budget: Budget) -> Dfa:
    """The texts of neighbouring chunks, the empty one included."""
    nfa = Nfa(CODE_POINTS)
    end = nfa.node()
    nfa.final(end)
    nfa.epsilon(nfa.start, end)
    budget.spend("regex_states", sum(map(len, chunks)) + len(chunks))
    here = nfa.node()
    for chunk in chunks:
        nfa.epsilon(nfa.start, here)
        here = nfa.literal(here, map(ord, chunk))
        nfa.epsilon(here, end)
    return Dfa.from_nfa(nfa, budget=budget)
