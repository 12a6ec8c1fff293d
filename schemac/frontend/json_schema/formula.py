"""Hash-consed Boolean formulas over typed assertions.

A formula is an integer; equal formulas have equal integers. `TRUE` and `FALSE` are 0 and 1. The node of a formula is
a tuple whose first element names its kind:

    ("types", mask)              the value's type is in the bit mask
    ("lit", bit, atom)           if the value is of the type of `bit`, the atom holds
    ("dual", bit, atom)          the value is of that type and the atom does not hold
    ("and", ids) ("or", ids)     in order of appearance: key order depends on it, so and(a, b) is not and(b, a)
    ("one", ids)                 exactly one of them holds
    ("not", id)                  only of "and", "or", "one" and "ref"; pushed inwards when somebody looks inside
    ("ref", node)                what a reference leads to; translated when somebody looks inside

An atom is a tuple, its first element the name of an assertion of one type:

    number   ("minimum", bound, open) ("maximum", bound, open) ("multiple", step) ("integer",) ("numbers", values)
             ("set", number set)
    string   ("length", low, high) ("pattern", text) ("format", name, draft) ("words", texts)
             ("strings", string set)
    array    ("item", index, formula)      the item at `index`, if there, satisfies the formula
             ("items", start, formula)     so does every item from `start` on
             ("contains", count, formula)  at least `count` items do
             ("min_items", n) ("max_items", n) ("unique",)
    object   ("property", name, formula)   the value of `name`, if there, satisfies the formula
             ("keys", keyset, formula)     so does the value of every key in the key set
             ("min_properties", n) ("max_properties", n)

    key sets ("pattern", text)             keys in which the pattern matches
             ("other", names, patterns)    keys that are no such name and match no such pattern
             ("class", names, patterns, more)  such keys that match all of `more` besides
             ("failing", formula)          keys that, as strings, do not satisfy the formula

`required: [a]` is the dual of ("property", a, FALSE); every keyword has a dual in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.json_schema.references import Node

NULL, FALSE_VALUE, TRUE_VALUE, NUMBER, STRING, ARRAY, OBJECT = (1 << i for i in range(7))
ALL_TYPES = 127
TYPE_MASKS = {
    "null": NULL,
    "boolean": FALSE_VALUE | TRUE_VALUE,
    "integer": NUMBER,
    "number": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
}
TRUE, FALSE = 0, 1

Atom = tuple[Any, ...]
FormulaNode = tuple[Any, ...]


class Formulas:
    """The store of one compile.

    Args:
        budget: every new formula spends one of "branches".
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.nodes: list[FormulaNode] = [("types", ALL_TYPES), ("types", 0)]
        self._ids: dict[FormulaNode, int] = {node: number for number, node in enumerate(self.nodes)}
        self._places: dict[int, str] = {}
        self._negations: dict[int, int] = {TRUE: FALSE, FALSE: TRUE}
        #: Translates what a reference leads to; set by the translation.
        self.follow: Callable[[Node], int] = _unset

    def _intern(self, node: FormulaNode) -> int:
        number = self._ids.get(node)
        if number is None:
            self._budget.spend("branches")
            number = len(self.nodes)
            self._ids[node] = number
            self.nodes.append(node)
        return number

    # -- places, for messages -----------------------------------------------------------------------------------

    def at(self, formula: int, place: str) -> int:
        """Remember where a formula was first met; returns the formula."""
        if formula > FALSE:
            self._places.setdefault(formula, place)
        return formula

    def place(self, formula: int) -> str | None:
        """JSON pointer at which a formula, or the first known part of it, was met."""
        pending = [formula]
        for _ in range(64):
            if not pending:
                break
            current = pending.pop()
            if current in self._places:
                return self._places[current]
            denied = self._negations.get(current)  # what a `not`, or a branch that `oneOf` excludes, is about
            if denied in self._places:
                return self._places[denied]
            node = self.nodes[current]
            if node[0] == "not":
                pending.append(node[1])
            elif node[0] in ("and", "or", "one"):
                pending.extend(reversed(node[1]))
        return None

    # -- building -----------------------------------------------------------------------------------------------

    def types(self, mask: int) -> int:
        """The value's type is one of the mask's."""
        return TRUE if mask == ALL_TYPES else FALSE if not mask else self._intern(("types", mask))

    def literal(self, bit: int, atom: Atom) -> int:
        """If the value is of the type `bit`, `atom` holds."""
        return self._intern(("lit", bit, atom))

    def reference(self, node: Node) -> int:
        """Whatever the schema at `node` says."""
        return self._intern(("ref", node))

    def conjunction(self, parts: Iterable[int]) -> int:
        """All of the parts, in order; flat, each once, type masks merged."""
        return self._junction("and", parts, TRUE, FALSE)

    def disjunction(self, parts: Iterable[int]) -> int:
        """Any of the parts."""
        return self._junction("or", parts, FALSE, TRUE)

    def _junction(self, kind: str, parts: Iterable[int], neutral: int, absorbing: int) -> int:
        nodes = self.nodes
        seen: dict[int, None] = {}
        mask = 0 if kind == "or" else ALL_TYPES
        for part in parts:
            node = nodes[part]
            for item in node[1] if node[0] == kind else (part,):
                inner = nodes[item]
                if inner[0] == "types":
                    mask = mask | inner[1] if kind == "or" else mask & inner[1]
                else:
                    seen[item] = None
        types = self.types(mask)
        if types == absorbing:
            return absorbing
        items = tuple(seen) if types == neutral else (types, *seen)
        if not items:
            return neutral
        return items[0] if len(items) == 1 else self._intern((kind, items))

    def exactly_one(self, parts: Iterable[int]) -> int:
        """`oneOf`. Parts are not merged: one that is there twice can never be the only one."""
        items = [part for part in parts if part != FALSE]
        if len(items) < 2:
            return items[0] if items else FALSE
        return self._intern(("one", tuple(items)))

    def negation(self, formula: int) -> int:
        """The formula's complement."""
        found = self._negations.get(formula)
        if found is not None:
            return found
        node = self.nodes[formula]
        if node[0] == "types":
            result = self.types(ALL_TYPES & ~node[1])
        elif node[0] == "lit":
            result = self._intern(("dual", node[1], node[2]))
        elif node[0] == "dual":
            result = self._intern(("lit", node[1], node[2]))
        elif node[0] == "not":
            result = node[1]
        else:
            result = self._intern(("not", formula))
        self._negations[formula] = result
        self._negations[result] = formula
        return result

    # -- looking inside -----------------------------------------------------------------------------------------

    def opened(self, formula: int) -> FormulaNode:
        """The node with references followed and a negation pushed one level in: never "ref", never "not".

        Raises:
            SourceError: references that lead in a circle without reading anything.
        """
        negative = False
        seen: set[int] = set()
        while True:
            node = self.nodes[formula]
            if node[0] == "not":
                negative = not negative
                formula = node[1]
            elif node[0] == "ref":
                if formula in seen:
                    raise self.circle(formula)
                seen.add(formula)
                formula = self.follow(node[1])
            else:
                break
        if not negative:
            return node
        if node[0] == "and":
            return self.nodes[self.disjunction(map(self.negation, node[1]))]
        if node[0] == "or":
            return self.nodes[self.conjunction(map(self.negation, node[1]))]
        if node[0] == "one":
            return ("not one", node[1])
        return self.nodes[self.negation(formula)]

    def circle(self, formula: int) -> SourceError:
        """The error for a reference that needs its own answer."""
        return SourceError(
            "this reference leads back to itself without reading anything",
            place=self.place(formula),
            construct="$ref",
            hint="a schema may refer to itself only from inside an item or a property",
        )


def _unset(node: Node) -> int:  # noqa: ARG001 - stands in for a translation
    raise RuntimeError("no translation is attached to this store")
