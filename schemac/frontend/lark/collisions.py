"""Terminals that share a text: a lexer would have to choose between them. Worked out exactly, on their automata."""

from __future__ import annotations

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.lark.lexemes import Lexemes


def report_collisions(lexemes: Lexemes, budget: Budget) -> None:
    """Compare all pairs, as Lark does with its option strict; single texts are no party to it, for they go first.

    Raises:
        SourceError: the first collision.
    """
    terminals = list(lexemes.ignored)
    terminals += [(lexeme.name, lexeme.place, lexeme.language) for lexeme in lexemes.all().values() if lexeme.language]
    for index, (name, place, language) in enumerate(terminals):
        for other_name, other_place, other in terminals[:index]:
            shared = language.intersect(other, budget=budget).words(1)
            if shared:
                example = "".join(map(chr, shared[0]))
                raise SourceError(
                    f"this collides with {other_name} ({other_place}): both match {example[:40]!r}",
                    place=place,
                    construct=name[:40],
                    hint="exclude the texts of one from the other, as in /(?!if$)[a-z]+/",
                )
