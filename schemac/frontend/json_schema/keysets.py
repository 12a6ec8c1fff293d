"""The key sets that an object formula speaks of, and the classes into which they cut the undeclared keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemac.budget import Budget
from schemac.frontend.json_schema.formula import Atom, Formulas
from schemac.frontend.json_schema.typed import Types
from schemac.ir.dfa import CODE_POINTS, Dfa


class KeySets:
    """The key sets of one frame, restricted to its undeclared keys, and the classes they cut them into."""

    def __init__(self, types: Types, declared: Sequence[str], budget: Budget) -> None:
        self._types = types
        self._budget = budget
        self._numbers: dict[Atom, int] = {}
        self._atoms: list[Atom] = []
        self._declared = declared
        self._undeclared: Dfa | None = None
        self._languages: dict[int, Dfa] = {}

    def number(self, keyset: Atom) -> int:
        """A number for a key set; sets that hold all undeclared keys share number 0."""
        if keyset[0] == "other" and not keyset[2]:
            keyset = ("other", (), ())
        if not self._atoms:
            self._numbers["other", (), ()] = 0
            self._atoms.append(("other", (), ()))
        number = self._numbers.get(keyset)
        if number is None:
            number = len(self._atoms)
            self._numbers[keyset] = number
            self._atoms.append(keyset)
        return number

    def holds(self, keyset: Atom, name: str) -> bool:
        """Whether a key is in a key set."""
        if keyset[0] == "other":
            if name in keyset[1]:
                return False
            return not any(self._types.matches(pattern, name) for pattern in keyset[2])
        return self._types.key_language(keyset).accepts(name)

    @property
    def undeclared(self) -> Dfa:
        """All keys but the declared ones."""
        if self._undeclared is None:
            declared = Dfa.literals(self._declared, CODE_POINTS, budget=self._budget)
            self._undeclared = declared.complement(budget=self._budget)
        return self._undeclared

    def _language(self, number: int) -> Dfa:
        found = self._languages.get(number)
        if found is None:
            found = self._types.key_language(self._atoms[number])
            self._languages[number] = found
        return found

    def classes(self, numbers: Sequence[int]) -> Iterator[tuple[Dfa | None, frozenset[int]]]:
        """Cut the undeclared keys by key sets.

        Yields:
            (language, members): None stands for all undeclared keys; `members` are the sets that hold the class.
        """
        cutting = [number for number in numbers if number]
        whole = frozenset({0})
        if not cutting:
            yield None, whole
            return
        classes = [(self.undeclared, whole)]
        for number in cutting:
            language = self._language(number)
            split: list[tuple[Dfa, frozenset[int]]] = []
            for part, members in classes:
                inside = part.intersect(language, budget=self._budget)
                if inside.is_empty:
                    split.append((part, members))
                    continue
                split.append((inside, members | {number}))
                outside = part.difference(language, budget=self._budget)
                if not outside.is_empty:
                    split.append((outside, members))
            classes = split
            self._budget.spend("branches", len(classes))
        yield from classes


def key_sets(formulas: Formulas, formula: int) -> Iterator[Atom]:
    """The key sets that a formula about objects speaks of, split for objects."""
    seen = {formula}
    stack = [formula]
    while stack:
        node = formulas.nodes[stack.pop()]
        if node[0] in ("and", "or"):
            fresh = [part for part in reversed(node[1]) if part not in seen]
            seen.update(fresh)
            stack.extend(fresh)
        elif node[0] in ("lit", "dual") and node[2][0] == "keys":
            yield node[2][1]
