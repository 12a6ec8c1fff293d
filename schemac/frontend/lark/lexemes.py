"""What rules are made of: terminals, lazy rules, inline expressions, with ignored texts around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from schemac.budget import Budget
from schemac.frontend.grammar import Rule
from schemac.frontend.grammar import expression as ex
from schemac.frontend.lark.definitions import Scope, tokens_of
from schemac.frontend.lark.ignored import Ignored, beginning_otherwise, ignored_texts
from schemac.frontend.lark.syntax import Node
from schemac.frontend.lark.terminals import Terminals
from schemac.ir.charset import CharSet
from schemac.ir.dfa import Dfa

#: Of the names that no rule of a Lark grammar has: ignored texts, and lexemes with what stands around them.
IGNORED, _USE = "%ignore", "%use "


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One of them.

    Attributes:
        name: of its procedure, if it is one.
        first: what its texts begin with; nothing for special tokens.
        language: over code points, if it is one.
        lazy: whether it ends as soon as it can.
        written_out: makes the language of one whose repetitions are counted.
    """

    name: str
    place: str
    expression: ex.Expression
    first: CharSet
    language: Dfa | None = None
    lazy: bool = False
    written_out: Callable[[], Dfa] | None = None


class Lexemes:
    """Collects lexemes, then writes the rules for them."""

    def __init__(self, ignored: list[tuple[Node, Scope]], terminals: Terminals, budget: Budget) -> None:
        self._budget = budget
        self._known: dict[str, Lexeme] = {}
        self._shortened: dict[str, Lexeme] = {}
        #: The ignored terminals, with their places.
        self.ignored: list[tuple[str, str, Dfa]] = []
        for body, scope in ignored:
            place = scope.source.place(next((token.start_pos or 0 for token in tokens_of(body)), 0))
            terminals.work_out(body, scope)
            language = terminals.lower(terminals.pattern(body, scope), place, IGNORED)
            self.ignored.append((IGNORED, place, language))

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def all(self) -> dict[str, Lexeme]:
        """All lexemes by name, those that `rules` made included."""
        return {**self._known, **self._shortened}

    def add(self, lexeme: Lexeme) -> ex.Reference:
        """A use of a lexeme; one of that name that is known already is the same."""
        self._known.setdefault(lexeme.name, lexeme)
        return self.use(lexeme.name, lexeme.place)

    @staticmethod
    def use(name: str, place: str) -> ex.Reference:
        """A use of a known lexeme."""
        return ex.Reference(_USE + name, place)

    def rules(self, root: str, start: ex.Reference) -> dict[str, Rule]:
        """The rules for all lexemes, and `root`, which is `start` with ignored texts around it."""
        place = start.place
        rules: dict[str, Rule] = {}
        for name, lexeme in self._known.items():
            plain = not isinstance(lexeme.expression, ex.Language)
            rules[name] = Rule(name, lexeme.place, lexeme.expression, used=True, inline=plain)
        if not self.ignored:
            for name, lexeme in self._known.items():
                body = ex.Reference(name, lexeme.place)
                rules[_USE + name] = Rule(name, lexeme.place, body, used=True, inline=True)
            return {root: Rule(start.name, place, start, used=True), **rules}
        first = CharSet.merged(pair for lexeme in self._known.values() for pair in lexeme.first)
        texts = ignored_texts([language for _, _, language in self.ignored], first, self._budget)
        safe, openings = self._ignored_rules(texts, rules)
        for name, lexeme in self._known.items():
            if lexeme.written_out is not None and any(more & lexeme.first for more, _ in openings):  # taken apart
                language = lexeme.written_out()
                self._known[name] = replace(lexeme, expression=ex.language(language), language=language)
                rules[name] = Rule(name, lexeme.place, self._known[name].expression, used=True)
        for name, lexeme in self._known.items():
            before = self._before(lexeme, openings, rules)
            rules[_USE + name] = Rule(name, lexeme.place, ex.sequence([before, safe]), used=True, inline=True)
        endings = [reference for _, reference in openings]
        ending = ex.repeat(ex.choice(endings), 0, 1, place) if endings else ex.NOTHING
        return {root: Rule(start.name, place, ex.sequence([safe, start, ending]), used=True), **rules}

    def _ignored_rules(
        self, texts: Ignored, rules: dict[str, Rule]
    ) -> tuple[ex.Expression, list[tuple[CharSet, ex.Reference]]]:
        """(what may follow every lexeme, what else may come before some, with what must not follow it)."""
        place = self.ignored[0][1]
        rules[IGNORED] = Rule(IGNORED, place, ex.language(texts.safe), used=True)
        safe = ex.NOTHING if texts.safe.max_length == 0 else ex.Reference(IGNORED, place)
        openings = []
        for number, (more, language) in enumerate(texts.open, 1):
            name = f"{IGNORED} {number}"
            rules[name] = Rule(name, place, ex.language(language), used=True)
            openings.append((more, ex.Reference(name, place)))
        return safe, openings

    def _before(
        self, lexeme: Lexeme, openings: list[tuple[CharSet, ex.Reference]], rules: dict[str, Rule]
    ) -> ex.Expression:
        """A lexeme, with the ignored texts that no safe one is."""
        body = ex.Reference(lexeme.name, lexeme.place)
        any_of: list[ex.Expression] = []  # before all texts of the lexeme
        ways: list[ex.Expression] = []
        for number, (more, reference) in enumerate(openings, 1):
            if not more & lexeme.first or lexeme.language is None:
                if lexeme.first - more or not lexeme.first:
                    any_of.append(reference)
                continue
            rest = beginning_otherwise(lexeme.language, more, self._budget)
            if not rest.is_empty:
                name = f"{lexeme.name} after {IGNORED} {number}"
                rules[name] = Rule(name, lexeme.place, ex.language(rest), used=True)
                self._shortened[name] = Lexeme(name, lexeme.place, ex.NOTHING, more, rest, lexeme.lazy)
                ways.append(ex.sequence([reference, ex.Reference(name, lexeme.place)]))
        optional = ex.repeat(ex.choice(any_of), 0, 1, lexeme.place) if any_of else ex.NOTHING
        return ex.choice([ex.sequence([optional, body]), *ways])
