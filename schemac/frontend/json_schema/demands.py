"""What an object formula demands at the start: its declared keys, its key sets, and the residual of the whole."""

from __future__ import annotations

from collections.abc import Sequence

from schemac.budget import Budget
from schemac.errors import UnsupportedError
from schemac.frontend.json_schema.formula import FALSE, TRUE, Atom, Formulas
from schemac.frontend.json_schema.keyorder import key_order
from schemac.frontend.json_schema.keysets import KeySets, key_sets
from schemac.frontend.json_schema.partition import Partition
from schemac.frontend.json_schema.residuals import MAX_NESTING, Part, Residuals
from schemac.frontend.json_schema.typed import Types
from schemac.ir.dfa import Dfa

#: A key language with at most so many words is declared word by word.
MAX_FINITE_KEYS = 500


class Demands:
    """The residual of one object formula, and what it speaks of.

    Args:
        types: splits formulas.
        formula: about objects only.
        partition: makes alternatives exclude each other.
        budget: states and branches.
        place: of the schema that the formula comes from, for messages.
        names: declared keys in order; None takes those of the formula.
        any_order: keys come in any order: each class of undeclared keys that is finite is declared key by key.

    Attributes:
        names: the declared keys, in canonical order.
        keysets: the key sets by number.
        residuals: what the residuals mean.
        start: the residual of the formula.
    """

    def __init__(
        self,
        types: Types,
        formula: int,
        partition: Partition,
        budget: Budget,
        place: str,
        names: Sequence[str] | None = None,
        *,
        any_order: bool = False,
    ) -> None:
        self._types = types
        self._formulas: Formulas = types.formulas
        self._budget = budget
        self._place = place
        names = key_order(self._formulas, formula) if names is None else names
        extra = self._finite_classes(formula, names) if any_order else self._finite_keys(formula, names)
        self.names = (*names, *extra)
        self._index = {name: number for number, name in enumerate(self.names)}
        self.keysets = KeySets(types, self.names, budget)
        self.residuals = Residuals(self._formulas, types.canonical, partition, budget, place, distinct=any_order)
        self._built: dict[int, int] = {}
        self.start = self._build(formula, 0)

    # -- undeclared keys that are better declared ---------------------------------------------------------------

    def _finite_keys(self, formula: int, names: Sequence[str]) -> list[str]:
        """Undeclared keys, if only finitely many are allowed: they are better declared, and then never come twice."""
        node = self._formulas.nodes[formula]
        allowed: Dfa | None = None
        for part in node[1] if node[0] == "and" else (formula,):
            literal = self._formulas.nodes[part]
            if literal[0] != "lit" or literal[2][0] != "keys" or not self._types.is_empty(literal[2][2]):
                continue
            keyset = literal[2][1]
            if keyset[0] == "other" and not keyset[2]:
                return []
            outside = self._types.key_language(keyset).complement(budget=self._budget)
            allowed = outside if allowed is None else allowed.intersect(outside, budget=self._budget)
        if allowed is None or not allowed.is_finite:
            return []
        return self._words(allowed, names)

    def _finite_classes(self, formula: int, names: Sequence[str]) -> list[str]:
        """The keys of those classes of undeclared keys that are finite: once all have come, there is no other."""
        keysets = KeySets(self._types, names, self._budget)
        numbers = sorted({keysets.number(keyset) for keyset in key_sets(self._formulas, formula)})
        found: list[str] = []
        for language, _ in keysets.classes(numbers):
            if language is not None and language.is_finite:
                found += self._words(language, names)
        return found

    def _words(self, language: Dfa, names: Sequence[str]) -> list[str]:
        """The keys of a finite language that are not declared; none if they are too many."""
        words = language.words(MAX_FINITE_KEYS + 1)
        if len(words) > MAX_FINITE_KEYS:
            return []
        found = ["".join(map(chr, word)) for word in words]
        known = set(names)
        return [word for word in found if word not in known and not any("\ud800" <= char <= "\udfff" for char in word)]

    # -- the residual of the whole formula ----------------------------------------------------------------------

    def _build(self, formula: int, depth: int) -> int:
        """The residual of a split formula. Recursion is bounded by `MAX_NESTING`."""
        found = self._built.get(formula)
        if found is not None:
            return found
        if depth > MAX_NESTING:
            raise self.residuals.too_deep()
        if formula in (TRUE, FALSE):
            return Residuals.ALWAYS if formula == TRUE else Residuals.NEVER
        node = self._formulas.nodes[formula]
        if node[0] == "or":
            result = self.residuals.disjunction(self._build(part, depth + 1) for part in node[1])
        else:
            result = self._build_conjunction(node[1] if node[0] == "and" else (formula,), depth)
        self._built[formula] = result
        return result

    def _build_conjunction(self, formulas: Sequence[int], depth: int) -> int:
        entries: dict[int, tuple[list[int], bool]] = {}
        parts: list[Part] = []
        inner: list[int] = []
        for formula in formulas:
            kind, *rest = self._formulas.nodes[formula]
            if kind in ("or", "and"):
                inner.append(self._build(formula, depth + 1))
                continue
            name, *arguments = rest[1]
            positive = kind == "lit"
            if name == "property":
                values, needed = entries.get(self._index[arguments[0]], ([], False))
                value = arguments[1] if positive else self._formulas.negation(arguments[1])
                entries[self._index[arguments[0]]] = ([*values, value], needed or not positive)
            elif name == "keys" and positive:
                for key in self._keys_in(arguments[0]):
                    values, needed = entries.get(key, ([], False))
                    entries[key] = ([*values, arguments[1]], needed)
                parts.append(("keys", self.keysets.number(arguments[0]), self._types.canonical(arguments[1])))
            elif name == "keys":
                inner.append(self._some(arguments[0], self._formulas.negation(arguments[1])))
            elif name == "min_properties":
                parts.append(("min", arguments[0]) if positive else ("max", arguments[0] - 1))
            else:
                parts.append(("max", arguments[0]) if positive else ("min", arguments[0] + 1))
        if ("max", -1) in parts:
            return Residuals.NEVER
        return self.residuals.conjunction((self.residuals.demand(entries, parts), *inner))

    def _keys_in(self, keyset: Atom) -> list[int]:
        return [key for key, name in enumerate(self.names) if self.keysets.holds(keyset, name)]

    def _some(self, keyset: Atom, value: int) -> int:
        """One key of a set has a value: a declared one, or one of the others."""
        if keyset[0] == "failing" and self._types.strings(keyset[1]).outer is not None:
            raise UnsupportedError(
                "which keys break a format that is written more narrowly than it is defined is not known exactly",
                place=self._formulas.place(keyset[1]),
                construct="propertyNames",
                hint="do not negate propertyNames with this format",
            )
        value = self._types.canonical(value)
        options = [self.residuals.demand({key: ([value], True)}, ()) for key in self._keys_in(keyset)]
        options.append(self.residuals.demand({}, [("some", self.keysets.number(keyset), value)]))
        return self.residuals.disjunction(options)


def alternatives_of(formulas: Formulas, formula: int) -> list[int]:
    """The formula as its largest choice, with all else that holds in each alternative; empty if there is none."""
    node = formulas.nodes[formula]
    parts = node[1] if node[0] == "and" else (formula,)
    choices = [part for part in parts if formulas.nodes[part][0] == "or"]
    if not choices:
        return []
    choice = max(choices, key=lambda part: len(formulas.nodes[part][1]))
    return [
        formulas.conjunction(alternative if part == choice else part for part in parts)
        for alternative in formulas.nodes[choice][1]
    ]
