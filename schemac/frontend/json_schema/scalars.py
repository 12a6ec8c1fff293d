"""What assertions about numbers and strings mean: sets of numbers, languages over code points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schemac.budget import Budget
from schemac.frontend.json_schema import numbers
from schemac.frontend.json_schema.evaluate import SetAlgebra
from schemac.frontend.json_schema.formats import format_complement, format_language
from schemac.frontend.json_schema.formula import Atom, Formulas
from schemac.frontend.json_schema.numbers import NumberSet
from schemac.frontend.json_schema.strings import ALL_STRINGS, NO_STRINGS, StringSet
from schemac.frontend.regex import lower, parse
from schemac.frontend.regex.counted import counted
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


class StringAlgebra(SetAlgebra[StringSet]):
    """Sets of strings."""

    top = ALL_STRINGS
    bottom = NO_STRINGS

    def __init__(self, formulas: Formulas, budget: Budget) -> None:
        self._formulas = formulas
        self._budget = budget
        self._known: dict[Atom, StringSet] = {}
        self._keys: dict[Atom, Dfa] = {}

    def atom(self, atom: Atom, formula: int) -> StringSet:
        """The strings for which an atom holds."""
        found = self._known.get(atom)
        if found is None:
            place = self._formulas.place(formula)
            with self._budget.at(place):
                found = self._known[atom] = self._read(atom, place)
        return found

    def _read(self, atom: Atom, place: str | None) -> StringSet:
        kind, *arguments = atom
        if kind == "length":
            return StringSet.of(self.top.base, arguments[0], arguments[1], self._budget)
        if kind == "words":
            return StringSet(Dfa.literals(arguments[0], CODE_POINTS, budget=self._budget))
        if kind == "pattern":
            return self._pattern(arguments[0], place)
        if kind == "strings":
            return arguments[0]  # type: ignore[no-any-return]
        language = format_language(arguments[0], arguments[1], self._budget)
        others = format_complement(arguments[0], arguments[1], self._budget)
        assert language is not None  # unknown formats assert nothing
        assert others is not None
        return StringSet.between(language, others.complement(budget=self._budget))

    def _pattern(self, pattern: str, place: str | None) -> StringSet:
        node = parse(pattern, dialect="ecma", place=place or "")
        bounded = counted(node)
        tree, low, high = bounded or (node, 0, None)
        base = lower(tree, search=True, budget=self._budget, place=place or "")
        return StringSet.of(base, low, high, self._budget) if bounded else StringSet(base)

    def both(self, one: StringSet, other: StringSet) -> StringSet:
        """The strings in both."""
        return one.intersect(other, self._budget)

    def either(self, one: StringSet, other: StringSet) -> StringSet:
        """The strings in either."""
        return one.union(other, self._budget)

    def complement(self, one: StringSet) -> StringSet:
        """All other strings."""
        return one.complement(self._budget)

    def is_empty(self, one: StringSet) -> bool:
        """Whether there is no such string."""
        return one.is_empty

    def intersection(self, parts: Sequence[StringSet]) -> StringSet:
        """The strings in all parts; a short list among them is filtered."""
        if len(parts) > 1 and all(part.outer is None for part in parts):
            small = min(parts, key=lambda part: (not part.is_plain, part.base.size))
            if small.base.size < 5_000 and small.is_finite:
                words = small.base.words(65)
                if len(words) <= 64:
                    kept = [word for word in words if all(part.accepts(word) for part in parts if part is not small)]
                    if len(kept) == len(words):
                        return small
                    return StringSet(Dfa.literals(kept, CODE_POINTS, budget=self._budget))
        return super().intersection(parts)

    def union(self, parts: Sequence[StringSet]) -> StringSet:
        """The strings in any part."""
        plain = [part.base for part in parts if part.is_plain and part.outer is None]
        bounded = [part for part in parts if not part.is_plain or part.outer is not None]
        return super().union([StringSet(union_all(plain, CODE_POINTS, budget=self._budget)), *bounded])

    def key_language(self, keyset: Atom, strings: Callable[[int], StringSet]) -> Dfa:
        """The keys in a key set.

        Args:
            keyset: see `formula`.
            strings: the strings that satisfy a formula.
        """
        found = self._keys.get(keyset)
        if found is not None:
            return found
        if keyset[0] == "pattern":
            found = self._pattern(keyset[1], None).language(self._budget)
        elif keyset[0] == "failing":
            # All that does not certainly satisfy the formula: keys that are forbidden, see `Residuals` for the dual.
            found = strings(keyset[1]).language(self._budget).complement(budget=self._budget)
        else:
            patterns = [self.key_language(("pattern", pattern), strings) for pattern in keyset[2]]
            names = Dfa.literals(keyset[1], CODE_POINTS, budget=self._budget)
            found = union_all([names, *patterns], CODE_POINTS, budget=self._budget).complement(budget=self._budget)
            if keyset[0] == "class":
                inside = [self.key_language(("pattern", pattern), strings) for pattern in keyset[3]]
                found = intersect_all([found, *inside], CODE_POINTS, budget=self._budget)
        self._keys[keyset] = found
        return found
