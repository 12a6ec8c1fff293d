r"""Ignored terminals: what may stand before, between and after terminals, each match as long as it can be.

That a match is as long as it can be matters for ``#[^\n]*``: what follows a comment begins on a new line. So an ignored
text is told apart by what could have gone on with its last match. Where no terminal begins with that, nothing need be
done, and such *safe* texts may follow every terminal. The others come before the terminals that can follow them.

    %ignore " " | /#[^\n]*/         safe: blanks, and comments that end in a line end that is ignored too
                                    [^\n]: ends in a comment; only terminals that begin with \n, or the end, can follow
"""

from __future__ import annotations

from dataclasses import dataclass

from schemac.budget import Budget
from schemac.ir.charset import CODE_POINTS, SCALARS, CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.nfa import Nfa

_NOTHING = CharSet()


@dataclass(frozen=True, slots=True)
class Ignored:
    """Languages over code points.

    Attributes:
        safe: the empty text, and ignored texts that any terminal can follow.
        open: other ignored texts, by the characters that would go on with them.
    """

    safe: Dfa
    open: tuple[tuple[CharSet, Dfa], ...]


def ignored_texts(languages: list[Dfa], first: CharSet, budget: Budget) -> Ignored:
    """Sequences of texts of some languages.

    Args:
        languages: of the ignored terminals.
        first: what terminals begin with.
        budget: limits.
    """
    sequences = _Sequences(languages, budget)
    endings: dict[CharSet, list[int]] = {_NOTHING: [sequences.nfa.start]}
    for node, more in sequences.more.items():
        endings.setdefault(more if more & first else _NOTHING, []).append(node)
    safe = sequences.ending_in(endings.pop(_NOTHING))
    kinds = sorted(endings.items(), key=lambda item: item[0].ranges)
    return Ignored(safe, tuple((more, sequences.ending_in(nodes)) for more, nodes in kinds))


class _Sequences:
    """One automaton for all sequences; a match is followed only by what would not have gone on with it."""

    def __init__(self, languages: list[Dfa], budget: Budget) -> None:
        self._budget = budget
        self.nfa = Nfa(CODE_POINTS)
        self.more: dict[int, CharSet] = {}  # per node at the end of a match: what goes on with it at once
        starts: list[tuple[CharSet, int]] = []
        budget.spend("regex_states", sum(language.size for language in languages))
        for language in languages:
            nodes = [self.nfa.node() for _ in range(language.size)]
            further: dict[int, list[tuple[int, int]]] = {}
            for state, low, high, target in language.edges():
                self.nfa.symbols(nodes[state], CharSet(((low, high),)), nodes[target])
                if state == 0:
                    starts.append((CharSet(((low, high),)), nodes[target]))
                if language.accepting[target]:
                    further.setdefault(state, []).append((low, high))
            for state in language.accepting_states():
                self.more[nodes[state]] = CharSet.merged(further.get(state, ()))
        for node, more in [(self.nfa.start, _NOTHING), *self.more.items()]:
            for symbols, target in starts:
                self.nfa.symbols(node, symbols - more, target)

    def ending_in(self, nodes: list[int]) -> Dfa:
        """The texts that lead to some nodes."""
        self.nfa.finals = set(nodes)
        return Dfa.from_nfa(self.nfa, budget=self._budget)


def first_characters(language: Dfa) -> CharSet:
    """What the texts of a language begin with."""
    return CharSet.merged((low, high) for state, low, high, _ in language.edges() if state == 0)


def beginning_otherwise(language: Dfa, symbols: CharSet, budget: Budget) -> Dfa:
    """The texts of a language that do not begin with one of some characters."""
    anything = Dfa.runs(SCALARS, 0, None, CODE_POINTS)
    return language.difference(Dfa.symbols(symbols, CODE_POINTS).concat(anything, budget=budget), budget=budget)
