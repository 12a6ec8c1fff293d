"""Evaluate a formula for values of one type, bottom-up with an explicit stack, in any Boolean algebra.

The algebras: sets of `null`/`false`/`true`, number sets, string languages, and, for arrays and objects, formulas that
are left with assertions of that one type (see `typed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from schemac.frontend.json_schema.formula import Atom, Formulas

T = TypeVar("T")


class Algebra(Protocol[T]):
    """What `Evaluation` needs. `top` and `bottom` are compared with ``is``-safe equality."""

    top: T
    bottom: T
    #: Whether `exactly_one` and its dual want the parts' complements handed in.
    wants_complements: bool

    def atom(self, atom: Atom, formula: int) -> T:
        """Values for which an atom holds."""
        ...

    def complement_of_atom(self, atom: Atom, formula: int) -> T:
        """Values for which an atom does not hold."""
        ...

    def intersection(self, parts: Sequence[T]) -> T:
        """Values in all parts."""
        ...

    def union(self, parts: Sequence[T]) -> T:
        """Values in any part."""
        ...

    def exactly_one(self, parts: Sequence[T], complements: Sequence[T]) -> T:
        """Values in one part and in no other."""
        ...

    def not_exactly_one(self, parts: Sequence[T], complements: Sequence[T]) -> T:
        """Values in none, or in two."""
        ...


class SetAlgebra(Generic[T]):
    """An algebra of sets, from their pairwise operations."""

    wants_complements = False
    top: T
    bottom: T

    def atom(self, atom: Atom, formula: int) -> T:
        """Values for which an atom holds."""
        raise NotImplementedError

    def both(self, one: T, other: T) -> T:
        """The intersection of two sets."""
        raise NotImplementedError

    def either(self, one: T, other: T) -> T:
        """The union of two sets."""
        raise NotImplementedError

    def complement(self, one: T) -> T:
        """All values that are not in a set."""
        raise NotImplementedError

    def is_empty(self, one: T) -> bool:
        """Whether a set has no member."""
        return one == self.bottom

    def complement_of_atom(self, atom: Atom, formula: int) -> T:
        """Values for which an atom does not hold."""
        return self.complement(self.atom(atom, formula))

    def intersection(self, parts: Sequence[T]) -> T:
        """Values in all parts."""
        result = self.top
        for part in parts:
            result = part if result is self.top else self.both(result, part)
        return result

    def union(self, parts: Sequence[T]) -> T:
        """Values in any part."""
        result = self.bottom
        for part in parts:
            result = part if result is self.bottom else self.either(result, part)
        return result

    def exactly_one(self, parts: Sequence[T], complements: Sequence[T]) -> T:
        """Values in one part and in no other."""
        once, twice = self.bottom, self.bottom
        for part in parts:
            if self.is_empty(part):
                continue
            if self.is_empty(once):
                once = part
                continue
            twice = self.either(twice, self.both(once, part))
            once = self.either(once, part)
        return once if self.is_empty(twice) else self.both(once, self.complement(twice))

    def not_exactly_one(self, parts: Sequence[T], complements: Sequence[T]) -> T:
        """Values in none, or in two."""
        return self.complement(self.exactly_one(parts, complements))


class Evaluation(Generic[T]):
    """Evaluates formulas for the type `bit`, each once.

    Args:
        formulas: the store.
        bit: one type.
        algebra: where the results live.
    """

    def __init__(self, formulas: Formulas, bit: int, algebra: Algebra[T]) -> None:
        self._formulas = formulas
        self._bit = bit
        self._algebra = algebra
        self._done: dict[int, T] = {}

    def __call__(self, formula: int) -> T:
        """The values of the type for which `formula` holds.

        Raises:
            SourceError: references lead in a circle without reading anything.
        """
        done = self._done
        if formula in done:
            return done[formula]
        stack = [formula]
        # Opened, and waiting for their parts: exactly the formulas above the current one. Local, because algebras
        # may ask for other formulas in the middle of this one.
        waiting: dict[int, tuple[str, tuple[int, ...]]] = {}
        while stack:
            current = stack[-1]
            if current in done:
                stack.pop()
            elif current in waiting:
                kind, parts = waiting.pop(current)
                done[current] = self._combine(kind, [done[part] for part in parts])
                stack.pop()
            else:
                opened = self._open(current)
                if opened is None:
                    continue
                waiting[current] = opened
                for part in reversed(opened[1]):
                    if part not in done:
                        if part in waiting:
                            raise self._formulas.circle(part)
                        stack.append(part)
        return done[formula]

    def _open(self, formula: int) -> tuple[str, tuple[int, ...]] | None:
        """Answer an assertion (None), or say what a junction waits for."""
        node = self._formulas.opened(formula)
        algebra, bit = self._algebra, self._bit
        kind = node[0]
        if kind == "types":
            self._done[formula] = algebra.top if node[1] & bit else algebra.bottom
            return None
        if kind == "lit":
            self._done[formula] = algebra.atom(node[2], formula) if node[1] == bit else algebra.top
            return None
        if kind == "dual":
            self._done[formula] = algebra.complement_of_atom(node[2], formula) if node[1] == bit else algebra.bottom
            return None
        parts: tuple[int, ...] = node[1]
        first = self._formulas.nodes[parts[0]]
        if first[0] == "types" and kind in ("and", "or"):  # masks come first; they often settle it
            allowed = bool(first[1] & bit)
            if allowed is (kind == "or"):
                self._done[formula] = algebra.top if allowed else algebra.bottom
                return None
            parts = parts[1:]
        if kind in ("one", "not one") and algebra.wants_complements:
            parts = (*parts, *map(self._formulas.negation, parts))
        return kind, parts

    def _combine(self, kind: str, values: list[T]) -> T:
        algebra = self._algebra
        if kind == "and":
            return algebra.intersection(values)
        if kind == "or":
            return algebra.union(values)
        half = len(values) // 2 if algebra.wants_complements else len(values)
        if kind == "one":
            return algebra.exactly_one(values[:half], values[half:])
        return algebra.not_exactly_one(values[:half], values[half:])
