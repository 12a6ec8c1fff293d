"""Terminals that share a text: a lexer would have to choose between them. Worked out exactly, on their automata."""

from __future__ import annotations

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.grammar import Rule
from schemac.ir.dfa import Dfa


def report_collisions(terminals: list[tuple[Rule, Dfa]], budget: Budget) -> None:
    """Compare all pairs, as Lark does with its option strict; single texts are no party to it, for they go first.

    Raises:
        SourceError: the first collision.
    """
    for index, (two, language) in enumerate(terminals):
        for one, other in terminals[:index]:
            shared = language.intersect(other, budget=budget).words(1)
            if shared:
                example = "".join(map(chr, shared[0]))
                raise SourceError(
                    f"this collides with {one.name} ({one.place}): both match {example[:40]!r}",
                    place=two.place,
                    construct=two.name[:40],
                    hint="exclude the texts of one from the other, as in /(?!if$)[a-z]+/",
                )
