"""Make the alternatives for one member exclude each other, as far as scalars go.

Alternatives say "the value satisfies G, and then R is left". Where a `oneOf` or a `not` leaves many of them open, they
overlap: ("anything", pending) beside ("not 'a'", done). Cut into disjoint pieces, each with all that may be left after
it, they need no guessing: ("'a'", pending), ("anything else", done). Scalars are cut exactly; arrays and objects are
only told apart by the formula left of them. Pieces with the same future are put together again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schemac.budget import Budget
from schemac.frontend.json_schema.formula import ARRAY, FALSE, NUMBER, OBJECT, STRING, TRUE, Formulas
from schemac.frontend.json_schema.numbers import NumberSet
from schemac.frontend.json_schema.strings import StringSet
from schemac.frontend.json_schema.typed import Signature, Types

#: (value formula, what is left)
Alternative = tuple[int, int]
#: More pieces than this are not worth it; guessing stays possible.
_MAX_PIECES = 64


@dataclass(frozen=True, slots=True)
class _Scalars:
    """A set of constants, numbers and strings."""

    constants: int
    numbers: NumberSet
    strings: StringSet

    @property
    def is_empty(self) -> bool:
        return not self.constants and self.numbers.is_empty and self.strings.is_empty


class Partition:
    """Cuts alternatives, for one compile."""

    def __init__(self, types: Types, budget: Budget) -> None:
        self._types = types
        self._formulas: Formulas = types.formulas
        self._budget = budget
        self._memo: dict[tuple[str, _Scalars, _Scalars], _Scalars] = {}

    def disjoint(
        self, alternatives: Sequence[Alternative], union: Callable[[Sequence[int]], int]
    ) -> tuple[Alternative, ...]:
        """The alternatives, cut where they overlap.

        Args:
            alternatives: value formulas, canonical, with what is left after each.
            union: of what is left.
        """
        if all(self._types.is_single(value) for value, _ in alternatives):
            by_left: dict[int, list[int]] = {}
            for value, left in alternatives:
                by_left.setdefault(left, []).append(value)
            return tuple(
                (self._types.canonical(self._formulas.disjunction(values)), left) for left, values in by_left.items()
            )
        signatures = [self._types.signature(value) for value, _ in alternatives]
        pieces = self._scalar_pieces(alternatives, signatures)
        if pieces is None:
            return tuple(alternatives)
        futures: dict[int, list[int]] = {}
        for scalars, lefts in pieces:
            futures.setdefault(union(lefts), []).append(self._formula(scalars))
        for bit in (ARRAY, OBJECT):
            by_rest: dict[int, list[int]] = {}
            for signature, (_, left) in zip(signatures, alternatives, strict=True):
                rest = signature.arrays if bit == ARRAY else signature.objects
                if rest != FALSE:
                    by_rest.setdefault(rest, []).append(left)
            for rest, lefts in self._undominated(by_rest, union):
                piece = self._formulas.conjunction((self._formulas.types(bit), rest))
                futures.setdefault(union(lefts), []).append(piece)
        return tuple(
            (self._types.canonical(self._formulas.disjunction(values)), left) for left, values in futures.items()
        )

    def _undominated(
        self, by_rest: dict[int, list[int]], union: Callable[[Sequence[int]], int]
    ) -> list[tuple[int, list[int]]]:
        """Drop what demands more, as far as the parts show it, and leaves no more open."""
        if not 1 < len(by_rest) <= _MAX_PIECES:
            return list(by_rest.items())
        parts = {rest: frozenset(self._parts(rest)) for rest in by_rest}
        return [
            (rest, lefts)
            for rest, lefts in by_rest.items()
            if not any(
                parts[other] < parts[rest] and union([*lefts, *more]) == union(more) for other, more in by_rest.items()
            )
        ]

    def _parts(self, rest: int) -> Sequence[int]:
        node = self._formulas.nodes[rest]
        if rest == TRUE:
            return ()
        return node[1] if node[0] == "and" else (rest,)

    def _scalar_pieces(
        self, alternatives: Sequence[Alternative], signatures: Sequence[Signature]
    ) -> list[tuple[_Scalars, list[int]]] | None:
        """Disjoint sets of scalars, each with what may be left after it; None if they are too many."""
        pieces: list[tuple[_Scalars, list[int]]] = []
        seen: _Scalars | None = None
        for signature, (_, left) in zip(signatures, alternatives, strict=True):
            rest = _Scalars(signature.constants, signature.numbers, signature.strings)
            if rest.is_empty:
                continue
            if seen is None or self._both(seen, rest).is_empty:
                pieces.append((rest, [left]))
            else:
                cut: list[tuple[_Scalars, list[int]]] = []
                for piece, lefts in pieces:
                    both = self._both(piece, rest)
                    if both.is_empty:
                        cut.append((piece, lefts))
                        continue
                    cut.append((both, [*lefts, left]))
                    outside = self._minus(piece, rest)
                    if not outside.is_empty:
                        cut.append((outside, lefts))
                fresh = self._minus(rest, seen)
                if not fresh.is_empty:
                    cut.append((fresh, [left]))
                pieces = cut
            seen = rest if seen is None else self._either(seen, rest)
            self._budget.spend("branches", len(pieces))
            if len(pieces) > max(_MAX_PIECES, len(alternatives)):
                return None
        return pieces

    def _both(self, one: _Scalars, other: _Scalars) -> _Scalars:
        return self._remembered("both", one, other, self._intersect)

    def _minus(self, one: _Scalars, other: _Scalars) -> _Scalars:
        return self._remembered("minus", one, other, self._subtract)

    def _either(self, one: _Scalars, other: _Scalars) -> _Scalars:
        return self._remembered("either", one, other, self._unite)

    def _remembered(
        self, name: str, one: _Scalars, other: _Scalars, operation: Callable[[_Scalars, _Scalars], _Scalars]
    ) -> _Scalars:
        key = (name, one, other)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = operation(one, other)
        return found

    def _intersect(self, one: _Scalars, other: _Scalars) -> _Scalars:
        return _Scalars(
            one.constants & other.constants,
            one.numbers.intersect(other.numbers, self._budget) if not one.numbers.is_empty else one.numbers,
            one.strings.intersect(other.strings, self._budget),
        )

    def _subtract(self, one: _Scalars, other: _Scalars) -> _Scalars:
        numbers = one.numbers
        if not numbers.is_empty and not other.numbers.is_empty:
            numbers = numbers.intersect(other.numbers.complement(self._budget), self._budget)
        return _Scalars(one.constants & ~other.constants, numbers, one.strings.difference(other.strings, self._budget))

    def _unite(self, one: _Scalars, other: _Scalars) -> _Scalars:
        numbers = one.numbers if other.numbers.is_empty else other.numbers
        if not one.numbers.is_empty and not other.numbers.is_empty:
            numbers = one.numbers.union(other.numbers, self._budget)
        return _Scalars(one.constants | other.constants, numbers, one.strings.union(other.strings, self._budget))

    def _formula(self, scalars: _Scalars) -> int:
        """A formula for the set."""
        formulas = self._formulas
        mask = scalars.constants
        parts = []
        if not scalars.numbers.is_empty:
            mask |= NUMBER
            parts.append(formulas.literal(NUMBER, ("set", scalars.numbers)))
        if not scalars.strings.is_empty:
            mask |= STRING
            parts.append(formulas.literal(STRING, ("strings", scalars.strings)))
        return formulas.conjunction((formulas.types(mask), *parts))
