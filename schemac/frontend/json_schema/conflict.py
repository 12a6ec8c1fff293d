"""Why a schema allows no value: the keywords that clash, found by leaving out what is not needed for the clash.

The search works on the schema, not on its formula, so that what it finds has a place. Keywords that apply to one value
together, through `allOf` and references too, are its demands. A least set of demands that no value satisfies is the
conflict (QuickXplain, Junker 2004); if that is due to one required member, the search goes on with its demands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemac.budget import Budget
from schemac.errors import BudgetExceeded, EmptyLanguageError, SchemacError, UnsupportedError
from schemac.frontend.json_schema.formats import FORMATS
from schemac.frontend.json_schema.formula import FALSE, Formulas
from schemac.frontend.json_schema.load import escape
from schemac.frontend.json_schema.references import Node, References
from schemac.frontend.json_schema.translate import Translation
from schemac.frontend.json_schema.typed import Types

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ALTERNATIVES = ("anyOf", "oneOf")
#: Units of all budgets together that a search may use; then the demands that are left are reported.
_EFFORT = 300_000
#: Values of keywords up to this length are quoted.
_QUOTED = 60
#: What to say where one keyword is all of the conflict.
_ALONE = {
    "false": "`false` allows no value",
    "anyOf": "no alternative has a value",
    "oneOf": "no value satisfies exactly one alternative",
    "not": "every value satisfies what is denied here",
    "enum": "no value is listed",
}
#: Members are followed down so many levels.
_DEPTH = 40


@dataclass(frozen=True, slots=True)
class _Demand:
    """One keyword of one schema.

    Attributes:
        keyword: its name; None for a schema that is `false`.
        place: its JSON pointer.
        node: the schema that holds it.
        value: its value.
        formula: what it asserts.
    """

    keyword: str | None
    place: str
    node: Node | None
    value: object
    formula: int

    def __str__(self) -> str:
        if self.keyword is None:
            return f"`false` at {self.place}"
        shown = json.dumps(self.value, ensure_ascii=False, default=str)
        named = f"{self.keyword}: {shown}" if len(shown) <= _QUOTED else self.keyword
        return f"`{named}` at {self.place}"


#: A subschema and where it stands.
_Placed = tuple[object, str]


class Conflicts:
    """Explains one compile.

    Args:
        references: where names lead.
        translation: of all parts of the schema.
        types: splits formulas.
        has_no_value: (formula) -> whether it certainly has none; exact, and expensive.
        budget: the compile's budget.
    """

    def __init__(
        self,
        references: References,
        translation: Translation,
        types: Types,
        has_no_value: Callable[[int], bool],
        budget: Budget,
    ) -> None:
        self._references = references
        self._translation = translation
        self._types = types
        self._formulas: Formulas = types.formulas
        self._has_no_value = has_no_value
        self._budget = budget
        self._known: dict[int, bool] = {}
        self._until = sum(budget.used.values()) + _EFFORT

    def error(self, root: object) -> SchemacError:
        """The error for a schema that was found to have no value."""
        schemas: list[_Placed] = [(root, "#")]
        demands = self._demands(schemas)
        if not self._clash(demands):  # the search would take too long
            formula = self._translation.root(root)
            return self._error("no value satisfies this schema", formula, self._formulas.place(formula))
        wanted: str | None = None
        seen: set[tuple[int, ...]] = set()
        for _ in range(_DEPTH):
            conflict = self._least(demands)
            inner = self._alternative(conflict) or self._member(conflict)
            here = tuple(id(schema) for schema, _ in schemas)
            if inner is None or here in seen:
                break
            seen.add(here)
            schemas, wanted = inner
            demands = self._demands(schemas)
        return self._report(conflict, wanted, endless=inner is not None)

    # -- demands ------------------------------------------------------------------------------------------------

    def _demands(self, schemas: Sequence[_Placed]) -> list[_Demand]:
        """Everything that is asked of one value, in order."""
        found: list[_Demand] = []
        seen: set[int] = set()
        stack = list(reversed(schemas))
        while stack:
            schema, place = stack.pop()
            if schema is False:
                found.append(_Demand(None, place, None, False, FALSE))
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            node = self._references.node(schema)
            inner: list[_Placed] = []
            by_keyword: dict[str, list[int]] = {}
            for keyword, formula in self._translation.assertions(node):
                by_keyword.setdefault(keyword, []).append(formula)
            for keyword, formulas in by_keyword.items():
                value, where = schema[keyword], f"{self._references.place(node)}/{escape(keyword)}"
                if keyword == "allOf":
                    inner += [(part, f"{where}/{index}") for index, part in enumerate(value)]
                elif keyword in _REFERENCES:
                    target, _ = self._references.follow(node, keyword, value)
                    inner.append((target, where))
                else:
                    found.append(_Demand(keyword, where, node, value, self._formulas.conjunction(formulas)))
            stack.extend(reversed(inner))
        return found

    # -- the least conflict -------------------------------------------------------------------------------------

    def _least(self, demands: list[_Demand]) -> list[_Demand]:
        """A part of the demands that no value satisfies and of which nothing can be left out, as far as is known."""
        return self._needed([], demands, False) if len(demands) > 1 else demands

    def _needed(self, given: list[_Demand], demands: list[_Demand], check: bool) -> list[_Demand]:
        """What of the demands is needed for a conflict with those that are given. Halves, so that it nests little."""
        if check and self._clash(given):
            return []
        if len(demands) == 1:
            return demands
        half = len(demands) // 2
        first, second = demands[:half], demands[half:]
        of_second = self._needed([*given, *first], second, bool(first))
        of_first = self._needed([*given, *of_second], first, bool(of_second))
        return of_first + of_second

    def _clash(self, demands: Sequence[_Demand]) -> bool:
        return self._is_empty(self._formulas.conjunction(demand.formula for demand in demands))

    def _is_empty(self, formula: int) -> bool:
        """Whether it can be shown in time that no value satisfies a formula."""
        found = self._known.get(formula)
        if found is None:
            if sum(self._budget.used.values()) > self._until:
                return False
            try:
                found = self._types.is_empty(formula) or self._has_no_value(formula)
            except (BudgetExceeded, UnsupportedError):
                found = False
            self._known[formula] = found
        return found

    # -- going deeper -------------------------------------------------------------------------------------------

    def _alternative(self, conflict: Sequence[_Demand]) -> tuple[list[_Placed], str] | None:
        """The first of alternatives that have no value each, if they are all of the conflict."""
        if len(conflict) != 1 or conflict[0].keyword not in _ALTERNATIVES:
            return None
        demand = conflict[0]
        parts: list[object] = list(demand.value)  # type: ignore[call-overload]
        if not all(self._is_empty(self._translation.root(part)) for part in parts):
            return None
        others = f"the other alternatives of {demand.place} have no value either"
        return [(parts[0], f"{demand.place}/0")], others if len(parts) > 1 else f"{demand.place} has no alternative"

    def _member(self, conflict: Sequence[_Demand]) -> tuple[list[_Placed], str] | None:
        """The schemas of a member that has to be there and can have no value."""
        for name, wanted in self._wanted(conflict):
            schemas = [placed for demand in conflict for placed in self._of_member(demand, name)]
            formulas = [self._translation.root(schema) for schema, _ in schemas]
            if schemas and self._is_empty(self._formulas.conjunction(formulas)):
                kind = f"the property {name!r}" if isinstance(name, str) else f"item {name}"
                return schemas, f"{wanted} asks for {kind}"
        return None

    def _wanted(self, conflict: Sequence[_Demand]) -> Iterator[tuple[str | int, str]]:
        """Members that have to be there, with what asks for them."""
        for demand in conflict:
            if demand.keyword == "required" and isinstance(demand.value, list):
                for name in demand.value:
                    yield name, f"`required` at {demand.place}"
            elif demand.keyword == "minItems" and isinstance(demand.value, int):
                for index in range(min(demand.value, 100)):
                    yield index, f"`minItems` at {demand.place}"

    def _of_member(self, demand: _Demand, name: str | int) -> Iterator[_Placed]:
        """The subschemas that one keyword has for one member."""
        if demand.node is None:
            return
        schema: Mapping[str, Any] = self._references.schema(demand.node)
        place, value = demand.place, demand.value
        if isinstance(name, int):
            prefix = schema.get("prefixItems", schema.get("items"))
            declared = len(prefix) if isinstance(prefix, list) else 0
            if isinstance(value, list) and demand.keyword in ("prefixItems", "items"):
                if name < len(value):
                    yield value[name], f"{place}/{name}"
            elif demand.keyword in ("items", "additionalItems") and name >= declared:
                yield value, place
            return
        matching = [pattern for pattern in schema.get("patternProperties", ()) if self._types.matches(pattern, name)]
        if isinstance(value, dict) and demand.keyword == "properties" and name in value:
            yield value[name], f"{place}/{escape(name)}"
        elif isinstance(value, dict) and demand.keyword == "patternProperties":
            yield from ((value[pattern], f"{place}/{escape(pattern)}") for pattern in matching)
        elif demand.keyword == "additionalProperties" and not matching and name not in schema.get("properties", ()):
            yield value, place

    # -- the message --------------------------------------------------------------------------------------------

    def _report(self, conflict: Sequence[_Demand], wanted: str | None, *, endless: bool) -> SchemacError:
        first = conflict[0]
        alone = len(conflict) == 1
        place = first.place if alone or first.node is None else self._references.place(first.node)
        construct = first.keyword if alone else None
        formula = self._formulas.conjunction(demand.formula for demand in conflict)
        if endless:
            reason, wanted = f"every value would have to hold another one without end, by {_listed(conflict)}", None
        elif alone:
            reason = _ALONE.get(first.keyword or "false", "no value satisfies this keyword")
        else:
            reason = f"no value satisfies {_listed(conflict)} together"
        return self._error(reason, formula, place, construct, wanted)

    def _error(
        self, reason: str, formula: int, place: str | None, construct: str | None = None, hint: str | None = None
    ) -> SchemacError:
        """The error for a formula: not that it is empty, if it is only that nothing certain can be written."""
        unknown = None if self._types.is_empty(formula) else self._inexact_format(formula)
        if unknown is None:
            return EmptyLanguageError(reason, place=place, construct=construct, hint=hint)
        reason = f"no text is known that can be written here and certainly does not conform to the format {unknown!r}"
        return UnsupportedError(
            reason, place=place, construct=construct, hint="use a `pattern` for the texts that you want"
        )

    def _inexact_format(self, formula: int) -> str | None:
        """A format in a formula, or in what it says about members, whose texts are not all known."""
        seen: set[int] = set()
        stack = [formula]
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            kind, *arguments = self._formulas.nodes[current]
            if kind in ("and", "or", "one"):
                stack.extend(arguments[0])
            elif kind == "not":
                stack.append(arguments[0])
            elif kind == "ref":
                stack.append(self._formulas.follow(arguments[0]))
            elif kind in ("lit", "dual"):
                name, *rest = arguments[1]
                if name == "format" and not FORMATS[rest[0]].exact:
                    return str(rest[0])
                if name in ("item", "items", "contains", "property", "keys"):
                    stack.append(rest[-1])
                    if name == "keys" and rest[0][0] == "failing":
                        stack.append(rest[0][1])
        return None


def _listed(demands: Sequence[_Demand]) -> str:
    """Demands in a sentence; many are cut short."""
    shown = [str(demand) for demand in demands[:4]]
    if len(demands) > len(shown):
        shown.append(f"{len(demands) - len(shown)} more")
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
