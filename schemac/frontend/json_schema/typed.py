"""Split a formula by type: what it says about null and booleans, numbers, strings, arrays and objects.

Scalar types become sets and regular languages. For arrays and objects what is left is a formula again, over
assertions of that type only; the frames (`arrays`, `objects`) read those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from schemac.budget import Budget
from schemac.errors import UnsupportedError
from schemac.frontend.json_schema import numbers
from schemac.frontend.json_schema.candidates import OutlineAlgebra, TrialAlgebra
from schemac.frontend.json_schema.clash import Clashes
from schemac.frontend.json_schema.evaluate import Evaluation, SetAlgebra
from schemac.frontend.json_schema.formula import (
    ARRAY,
    FALSE,
    FALSE_VALUE,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
    TRUE_VALUE,
    Atom,
    FormulaNode,
    Formulas,
)
from schemac.frontend.json_schema.numbers import NumberSet
from schemac.frontend.json_schema.scalars import NumberAlgebra, StringAlgebra
from schemac.frontend.json_schema.strings import StringSet
from schemac.ir.dfa import Dfa

#: More values than this are not listed one by one.
_MANY = 1_000
#: So deep are arrays and objects looked into to count values.
_LOOKED_INTO = 6


@dataclass(frozen=True, slots=True)
class Signature:
    """What a formula allows, type by type. Formulas with equal signatures share one procedure.

    Attributes:
        constants: bit mask of `NULL`, `FALSE_VALUE`, `TRUE_VALUE`.
        numbers: the numbers.
        strings: the strings, over code points.
        arrays: formula over array assertions.
        objects: formula over object assertions.
    """

    constants: int
    numbers: NumberSet
    strings: StringSet
    arrays: int
    objects: int

    @property
    def is_empty(self) -> bool:
        """Whether no value is allowed, as far as it shows without looking into arrays and objects."""
        return (
            not self.constants
            and self.arrays == FALSE
            and self.objects == FALSE
            and self.numbers.is_empty
            and self.strings.is_empty
        )


class _Constant(SetAlgebra[bool]):
    """The algebra of one constant: present or not."""

    top = True
    bottom = False

    def both(self, one: bool, other: bool) -> bool:
        """Present in both."""
        return one and other

    def either(self, one: bool, other: bool) -> bool:
        """Present in either."""
        return one or other

    def complement(self, one: bool) -> bool:
        """Not present."""
        return not one


class _Structured:
    """The algebra of formulas about arrays, or about objects.

    `oneOf` is where it pays to look: of two branches that no value satisfies both, neither has to deny the other.
    """

    top = TRUE
    bottom = FALSE
    wants_complements = True

    def __init__(self, formulas: Formulas, bit: int, clashes: Clashes, budget: Budget) -> None:
        self._bit = bit
        self._formulas = formulas
        self._clashes = clashes
        self._budget = budget

    def atom(self, atom: Atom, formula: int) -> int:
        """The assertion itself: references to it are followed."""
        return self._formulas.literal(self._bit, atom)

    def complement_of_atom(self, atom: Atom, formula: int) -> int:
        """Its dual."""
        return self._formulas.negation(self._formulas.literal(self._bit, atom))

    def intersection(self, parts: Sequence[int]) -> int:
        """All of the parts."""
        return self._formulas.conjunction(parts)

    def union(self, parts: Sequence[int]) -> int:
        """Any of the parts."""
        return self._formulas.disjunction(parts)

    def exactly_one(self, parts: Sequence[int], complements: Sequence[int]) -> int:
        """One part and none of the others that it meets."""
        live = [(part, complement) for part, complement in zip(parts, complements, strict=True) if part != FALSE]
        if len(live) < 2:
            return live[0][0] if live else FALSE
        meeting = self._meeting([part for part, _ in live])
        alternatives = []
        for i, (part, _) in enumerate(live):
            others = [live[j][1] for j in meeting[i]]
            self._budget.spend("branches", len(others))
            alternatives.append(self._formulas.conjunction((part, *others)))
        return self._formulas.disjunction(alternatives)

    def not_exactly_one(self, parts: Sequence[int], complements: Sequence[int]) -> int:
        """None, or two that meet."""
        live = [part for part in parts if part != FALSE]
        meeting = self._meeting(live)
        pairs = [self._formulas.conjunction((live[i], live[j])) for i in range(len(live)) for j in meeting[i] if i < j]
        self._budget.spend("branches", len(pairs))
        return self._formulas.disjunction((self._formulas.conjunction(complements), *pairs))

    def _meeting(self, parts: Sequence[int]) -> list[list[int]]:
        """For each part, the others that some value may satisfy together with it."""
        meeting: list[list[int]] = [[] for _ in parts]
        self._budget.spend("branches", len(parts) * (len(parts) - 1) // 2)
        for i, j in combinations(range(len(parts)), 2):
            if not self._clashes.clash(parts[i], parts[j]):
                meeting[i].append(j)
                meeting[j].append(i)
        return meeting


class Types:
    """Splits formulas of one compile.

    Args:
        formulas: the store.
        budget: the compile's budget.
    """

    def __init__(self, formulas: Formulas, budget: Budget) -> None:
        self.formulas = formulas
        self._signatures: dict[int, Signature] = {}
        self._first: dict[Signature, int] = {}
        self._empty: set[Signature] = set()
        self._counted: dict[tuple[int, int, int], int] = {}
        self._listed: dict[int, list[int] | None] = {}
        self.string_algebra = StringAlgebra(formulas, budget)
        self.clashes = Clashes(formulas, self._has_scalars)
        constant = _Constant()
        self._constants = [(bit, Evaluation(formulas, bit, constant)) for bit in (NULL, FALSE_VALUE, TRUE_VALUE)]
        self._budget = budget
        self._outlines = Evaluation(formulas, NUMBER, OutlineAlgebra())
        self._all_numbers = Evaluation(formulas, NUMBER, NumberAlgebra(formulas, budget))
        self.strings = Evaluation(formulas, STRING, self.string_algebra)
        self.arrays = Evaluation(formulas, ARRAY, _Structured(formulas, ARRAY, self.clashes, budget))
        self.objects = Evaluation(formulas, OBJECT, _Structured(formulas, OBJECT, self.clashes, budget))

    def signature(self, formula: int) -> Signature:
        """What a formula allows, type by type."""
        found = self._signatures.get(formula)
        if found is None:
            constants = 0
            for bit, allows in self._constants:
                if allows(formula):
                    constants |= bit
            with self._budget.at(self.formulas.place(formula)):
                found = Signature(
                    constants,
                    self._numbers(formula),
                    self.strings(formula),
                    self.arrays(formula),
                    self.objects(formula),
                )
            self._signatures[formula] = found
            self._first.setdefault(found, formula)
        return found

    def _numbers(self, formula: int) -> NumberSet:
        """The numbers that satisfy a formula: candidates one by one if they are few, else by automata."""
        outline = self._outlines(formula)
        candidates = outline.candidates()
        if candidates is None:
            return self._all_numbers(formula)
        if not candidates:
            return numbers.no_numbers()
        chosen = Evaluation(self.formulas, NUMBER, TrialAlgebra(candidates))(formula)
        members = [number for bit, number in enumerate(candidates) if chosen >> bit & 1]
        if not members:
            return numbers.no_numbers()
        with self._budget.at(self.formulas.place(formula)):
            found = numbers.one_of(members, self._budget)
        return found.intersect(numbers.integers(), self._budget) if outline.integral else found

    def _has_scalars(self, formula: int, bit: int) -> bool:
        """Whether some number, string or constant of the type `bit` satisfies a formula."""
        if bit == NUMBER:
            return not self._numbers(formula).is_empty
        if bit == STRING:
            return not self.strings(formula).is_empty
        return any(allows(formula) for constant, allows in self._constants if constant == bit)

    def canonical(self, formula: int) -> int:
        """The first formula met with the same signature; `FALSE` if it shows at once that no value is left."""
        signature = self.signature(formula)
        if self._is_hopeless(signature):
            return FALSE
        return self._first[signature]

    def declare_empty(self, signatures: Iterable[Signature]) -> None:
        """Remember that no value is allowed by these, which does not show at once."""
        self._empty.update(signatures)

    def is_empty(self, formula: int) -> bool:
        """Whether it shows at once that no value satisfies the formula."""
        return self.canonical(formula) == FALSE

    def _is_hopeless(self, signature: Signature) -> bool:
        return signature in self._empty or (
            not signature.constants
            and signature.numbers.is_empty
            and signature.strings.is_empty
            and self.clashes.is_hopeless(signature.arrays)
            and self.clashes.is_hopeless(signature.objects)
        )

    def listed(self, formula: int) -> list[int] | None:
        """A formula for each value that satisfies `formula`; None if they are not finitely many scalars."""
        if formula not in self._listed:
            self._listed[formula] = self._list(self.signature(formula))
        return self._listed[formula]

    def at_least(self, formula: int, enough: int, depth: int = 0) -> int:
        """How many values satisfy a formula, plainly so many at least; `enough` for that many or more.

        Arrays and objects are looked into up to `_LOOKED_INTO` deep.
        """
        key = formula, enough, depth
        found = self._counted.get(key)
        if found is None:
            found = self._counted[key] = self._at_least(formula, enough, depth)
        return found

    def _at_least(self, formula: int, enough: int, depth: int) -> int:
        signature = self.signature(formula)
        numbers_ = signature.numbers.values(_MANY)
        if numbers_ is None or not signature.strings.is_finite:
            return enough
        found = signature.constants.bit_count() + len(numbers_)
        found += 0 if signature.strings.is_empty else len(signature.strings.base.words(enough))
        if depth < _LOOKED_INTO:
            found += self._structures(signature.arrays, enough, depth) if found < enough else 0
            found += self._structures(signature.objects, enough, depth) if found < enough else 0
        return min(found, enough)

    def _structures(self, formula: int, enough: int, depth: int) -> int:
        """The same of a formula about arrays, or about objects; of alternatives only the largest counts."""
        nodes = self.formulas.nodes
        best = 0
        for alternative in nodes[formula][1] if nodes[formula][0] == "or" else (formula,):
            parts = [nodes[part] for part in nodes[alternative][1]] if nodes[alternative][0] == "and" else None
            parts = [nodes[alternative]] if parts is None else parts
            if alternative == TRUE:
                return enough
            if all(part[0] in ("lit", "dual") for part in parts):
                count = self._arrays if parts[0][1] == ARRAY else self._objects
                best = max(best, count(parts, enough, depth + 1))
        return best

    def _arrays(self, parts: Sequence[FormulaNode], enough: int, depth: int) -> int:
        each, most, least, distinct = enough, enough, 0, False
        for kind, _, atom in parts:
            if atom[0] == "items" and atom[1] == 0 and kind == "lit":
                each = min(each, self.at_least(atom[2], enough, depth))
            elif atom[0] in ("min_items", "max_items"):
                if (atom[0] == "max_items") == (kind == "lit"):
                    most = min(most, atom[1] - (kind == "dual"))
                else:
                    least = max(least, atom[1] + (kind == "dual"))
            elif atom == ("unique",) and kind == "lit":
                distinct = True
            else:  # no simple array
                return 0
        found, ways = 0, 1
        for length in range(most + 1):
            found += ways if length >= least else 0
            ways = min(ways * max(each - length * distinct, 0), enough)
            if found >= enough or not ways:
                break
        return min(found, enough)

    def _objects(self, parts: Sequence[FormulaNode], enough: int, depth: int) -> int:
        values: dict[str, int] = {}
        required: set[str] = set()
        is_open = True
        for kind, _, atom in parts:
            if atom[0] == "property":
                value = atom[2] if kind == "lit" else self.formulas.negation(atom[2])
                values[atom[1]] = min(values.get(atom[1], enough), self.at_least(value, enough, depth))
                if kind == "dual":
                    required.add(atom[1])
            elif atom[0] == "keys" and kind == "lit":
                is_open = is_open and not self.is_empty(atom[2])
            else:  # counts of members, or alternatives
                return 0
        found = 1
        for name, count in values.items():
            found = min(found * (count + (name not in required)), enough)
        return enough if is_open and found else found

    def is_single(self, formula: int) -> bool:
        """Whether exactly one scalar satisfies a canonical formula, so that two such formulas exclude each other."""
        listed = self.listed(formula)
        return listed is not None and len(listed) == 1 and listed[0] == formula

    def _list(self, signature: Signature) -> list[int] | None:
        if not (self.clashes.is_hopeless(signature.arrays) and self.clashes.is_hopeless(signature.objects)):
            return None
        numbers_ = signature.numbers.values(_MANY)
        if numbers_ is None or not signature.strings.is_finite:
            return None
        words = signature.strings.base.words(_MANY + 1)
        if len(words) > _MANY:
            return None
        formulas = self.formulas
        found = [formulas.types(bit) for bit, _ in self._constants if signature.constants & bit]
        for number in numbers_:
            literal = formulas.literal(NUMBER, ("numbers", (number,)))
            found.append(formulas.conjunction((formulas.types(NUMBER), literal)))
        for word in words:
            text = "".join(map(chr, word))
            literal = formulas.literal(STRING, ("words", (text,)))
            found.append(formulas.conjunction((formulas.types(STRING), literal)))
        return [self.canonical(one) for one in found]

    def matches(self, pattern: str, key: str) -> bool:
        """Whether a pattern matches in a key."""
        return self.key_language(("pattern", pattern)).accepts(key)

    def key_language(self, keyset: Atom) -> Dfa:
        """The keys in a key set, over code points."""
        return self.string_algebra.key_language(keyset, self.strings)


__all__ = ["Signature", "Types", "UnsupportedError"]
