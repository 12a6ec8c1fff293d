"""What assertions about numbers and strings mean: sets of numbers, languages over code points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schemac.budget import Budget
from schemac.frontend.json_schema import numbers
from schemac.frontend.json_schema.evaluate import SetAlgebra
from schemac.frontend.json_schema.formats import format_language
from schemac.frontend.json_schema.formula import Atom, Formulas
from schemac.frontend.json_schema.numbers import NumberSet
from schemac.frontend.json_schema.text import length_language
from schemac.frontend.regex import regex_language
from schemac.ir.dfa import CODE_POINTS, Dfa, intersect_all, union_all


class NumberAlgebra(SetAlgebra[NumberSet]):
    """Number sets."""

    def __init__(self, formulas: Formulas, budget: Budget) -> None:
        self._formulas = formulas
        self._budget = budget
        self.top = numbers.numbers()
        self.bottom = numbers.no_numbers()
        self._known: dict[Atom, NumberSet] = {}

    def atom(self, atom: Atom, formula: int) -> NumberSet:
        """The numbers for which an atom holds."""
        found = self._known.get(atom)
        if found is None:
            with self._budget.at(self._formulas.place(formula)):
                found = self._known[atom] = self._read(atom)
        return found

    def _read(self, atom: Atom) -> NumberSet:
        kind, *arguments = atom
        if kind == "integer":
            return numbers.integers()
        if kind == "minimum":
            return numbers.bounds(arguments[0], exclusive_minimum=arguments[1], budget=self._budget)
        if kind == "maximum":
            return numbers.bounds(None, arguments[0], exclusive_maximum=arguments[1], budget=self._budget)
        if kind == "set":
            return arguments[0]  # type: ignore[no-any-return]
        if kind == "multiple":
            return numbers.multiple_of(arguments[0], self._budget)
        return numbers.one_of(arguments[0], self._budget)

    def both(self, one: NumberSet, other: NumberSet) -> NumberSet:
        """The numbers in both."""
        return one.intersect(other, self._budget)

    def either(self, one: NumberSet, other: NumberSet) -> NumberSet:
        """The numbers in either."""
        return one.union(other, self._budget)

    def complement(self, one: NumberSet) -> NumberSet:
        """All other numbers."""
        return one.complement(self._budget)

    def is_empty(self, one: NumberSet) -> bool:
        """Whether there is no such number."""
        return one.is_empty


class StringAlgebra(SetAlgebra[Dfa]):
    """Languages over code points."""

    top = Dfa.everything(CODE_POINTS)
    bottom = Dfa.empty(CODE_POINTS)

    def __init__(self, formulas: Formulas, budget: Budget) -> None:
        self._formulas = formulas
        self._budget = budget
        self._known: dict[Atom, Dfa] = {}
        self._lengths: dict[Dfa, tuple[int, int | None]] = {}

    def atom(self, atom: Atom, formula: int) -> Dfa:
        """The strings for which an atom holds."""
        found = self._known.get(atom)
        if found is None:
            place = self._formulas.place(formula)
            with self._budget.at(place):
                found = self._known[atom] = self._read(atom, place)
        return found

    def _read(self, atom: Atom, place: str | None) -> Dfa:
        kind, *arguments = atom
        if kind == "length":
            return self._length(arguments[0], arguments[1])
        if kind == "words":
            return Dfa.literals(arguments[0], CODE_POINTS, budget=self._budget)
        if kind == "pattern":
            return regex_language(arguments[0], dialect="ecma", search=True, budget=self._budget, place=place or "")
        if kind == "language":
            return arguments[0]  # type: ignore[no-any-return]
        language = format_language(arguments[0], arguments[1])
        assert language is not None  # unknown formats are warned about and make no assertion
        return language

    def _length(self, low: int, high: int | None) -> Dfa:
        if high is not None and high < low:
            return self.bottom
        found = length_language(low, high, self._budget)
        self._lengths[found] = (low, high)
        return found

    def both(self, one: Dfa, other: Dfa) -> Dfa:
        """The strings in both."""
        return one.intersect(other, budget=self._budget)

    def either(self, one: Dfa, other: Dfa) -> Dfa:
        """The strings in either."""
        return one.union(other, budget=self._budget)

    def complement(self, one: Dfa) -> Dfa:
        """All other strings."""
        return one.complement(budget=self._budget)

    def is_empty(self, one: Dfa) -> bool:
        """Whether there is no such string."""
        return one.is_empty

    def intersection(self, parts: Sequence[Dfa]) -> Dfa:
        """The strings in all parts; finite ones are filtered, bounds on the length become one."""
        if len(parts) < 2:
            return parts[0] if parts else self.top
        ranges = [self._lengths[part] for part in parts if part in self._lengths]
        if len(ranges) > 1:  # one automaton for all bounds on the length
            highs = [high for _, high in ranges if high is not None]
            bounds = self._length(max(low for low, _ in ranges), min(highs, default=None))
            parts = [bounds, *(part for part in parts if part not in self._lengths)]
        finite = [part for part in parts if part.size < 5_000 and part.is_finite]
        if finite and len(parts) > 1:
            return self._filtered(min(finite, key=lambda part: part.size), parts)
        return intersect_all(parts, CODE_POINTS, budget=self._budget)

    def _filtered(self, small: Dfa, parts: Sequence[Dfa]) -> Dfa:
        """The intersection of a finite language with others, word by word if it has few words."""
        words = small.words(65)
        others = [part for part in parts if part is not small]
        if len(words) > 64:
            return intersect_all([small, *others], CODE_POINTS, budget=self._budget)
        kept = [word for word in words if all(part.accepts(word) for part in others)]
        return small if len(kept) == len(words) else Dfa.literals(kept, CODE_POINTS, budget=self._budget)

    def union(self, parts: Sequence[Dfa]) -> Dfa:
        """The strings in any part."""
        return union_all(parts, CODE_POINTS, budget=self._budget)

    def key_language(self, keyset: Atom, strings: Callable[[int], Dfa]) -> Dfa:
        """The keys in a key set.

        Args:
            keyset: see `formula`.
            strings: the strings that satisfy a formula.
        """
        found = self._known.get(keyset)
        if found is not None:
            return found
        if keyset[0] == "pattern":
            found = self._read(keyset, None)
        elif keyset[0] == "failing":
            found = strings(keyset[1]).complement(budget=self._budget)
        else:
            patterns = [self.key_language(("pattern", pattern), strings) for pattern in keyset[2]]
            names = Dfa.literals(keyset[1], CODE_POINTS, budget=self._budget)
            found = self.union([names, *patterns]).complement(budget=self._budget)
            if keyset[0] == "class":
                inside = [self.key_language(("pattern", pattern), strings) for pattern in keyset[3]]
                found = self.intersection([found, *inside])
        self._known[keyset] = found
        return found
