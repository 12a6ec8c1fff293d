"""`unevaluatedProperties` and `unevaluatedItems` (2020-12 core, section 11).

The keywords beside them, and those of subschemas that apply in place, evaluate members; each such contribution is a
*cover*: "if this condition holds, these members are evaluated". A member may break the unevaluated schema only if the
condition of some cover of it holds. Said member by member that is a plain formula,

    for each name x:        value of x satisfies U, or one of the conditions that cover x holds
    for each key class c:   all values of keys in c satisfy U, or one of the conditions that cover c holds

of size (names + classes) x covers, without going through the sets of branches that may hold together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from schemac.budget import Budget
from schemac.frontend.json_schema.formula import ARRAY, FALSE, OBJECT, TRUE, Formulas
from schemac.frontend.json_schema.keywords import DRAFT2020, known
from schemac.frontend.json_schema.references import Node, References

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True)
class _Cover:
    """Members that are evaluated if `condition` holds.

    Attributes:
        condition: formula about the whole instance.
        names: keys.
        patterns: patterns of keys.
        prefix: so many items from the start.
        everything: all members of the kind asked for.
        contained: items that satisfy this formula; `FALSE` for none.
    """

    condition: int
    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    prefix: int = 0
    everything: bool = False
    contained: int = FALSE


class Evaluated:
    """Works out what the other keywords of a schema evaluate.

    Args:
        references: the index of documents.
        formulas: the store.
        value: translates a subschema met in a dynamic scope.
        matches: whether a pattern matches in a key.
        budget: every cover and class spends one of "branches".
    """

    def __init__(
        self,
        references: References,
        formulas: Formulas,
        value: Callable[[object, tuple[str, ...]], int],
        matches: Callable[[str, str], bool],
        budget: Budget,
    ) -> None:
        self._references = references
        self._formulas = formulas
        self._value = value
        self._matches = matches
        self._budget = budget

    def properties(self, node: Node, rest: int) -> Iterator[int]:
        """Properties that nothing else evaluates satisfy `rest`."""
        if rest == TRUE:
            return
        formulas = self._formulas
        covers = list(self._covers(node, self._own_properties))
        everywhere = [cover.condition for cover in covers if cover.everything]
        if TRUE in everywhere:
            return
        names = tuple(dict.fromkeys(name for cover in covers for name in cover.names))
        always = [cover for cover in covers if cover.condition == TRUE]
        for name in names:
            conditions = [cover.condition for cover in covers if self._covers_name(cover, name)]
            if TRUE not in conditions:
                literal = formulas.literal(OBJECT, ("property", name, rest))
                yield formulas.disjunction((literal, *conditions, *everywhere))
        fixed = tuple(dict.fromkeys(pattern for cover in always for pattern in cover.patterns))
        loose = tuple(
            pattern
            for pattern in dict.fromkeys(pattern for cover in covers for pattern in cover.patterns)
            if pattern not in fixed
        )
        self._budget.spend("branches", 2 ** min(len(loose), 40), place=self._references.place(node))
        for chosen in product((True, False), repeat=len(loose)):
            inside = tuple(pattern for pattern, is_in in zip(loose, chosen, strict=True) if is_in)
            outside = tuple(pattern for pattern, is_in in zip(loose, chosen, strict=True) if not is_in)
            conditions = [cover.condition for cover in covers if any(pattern in inside for pattern in cover.patterns)]
            keyset = ("class", names, (*fixed, *outside), inside) if inside else ("other", names, (*fixed, *outside))
            literal = formulas.literal(OBJECT, ("keys", keyset, rest))
            yield formulas.disjunction((literal, *conditions, *everywhere))

    def items(self, node: Node, rest: int) -> Iterator[int]:
        """Items that nothing else evaluates satisfy `rest`."""
        if rest == TRUE:
            return
        formulas = self._formulas
        covers = list(self._covers(node, self._own_items))
        if any(cover.everything and cover.condition == TRUE for cover in covers):
            return
        always = formulas.disjunction(cover.contained for cover in covers if cover.condition == TRUE)
        loose = [cover for cover in covers if cover.contained != FALSE and cover.condition != TRUE]
        self._budget.spend("branches", 2 ** min(len(loose), 40), place=self._references.place(node))
        alternatives = []
        # What a conditional `contains` evaluates depends on the item; go through the sets of conditions that hold.
        for chosen in product((True, False), repeat=len(loose)):
            used = [cover for cover, is_used in zip(loose, chosen, strict=True) if is_used]
            allowed = formulas.disjunction((rest, always, *(cover.contained for cover in used)))
            parts = [cover.condition for cover in used]
            parts += self._item_parts(covers, allowed)
            alternatives.append(formulas.conjunction(parts))
        yield formulas.disjunction(alternatives)

    def _item_parts(self, covers: Sequence[_Cover], allowed: int) -> Iterator[int]:
        formulas = self._formulas
        everywhere = [cover.condition for cover in covers if cover.everything]
        fixed = max((cover.prefix for cover in covers if cover.condition == TRUE), default=0)
        longest = max((cover.prefix for cover in covers), default=0)
        self._budget.spend("branches", longest + 1)
        for index in range(fixed, longest):
            conditions = [cover.condition for cover in covers if cover.prefix > index]
            yield formulas.disjunction((formulas.literal(ARRAY, ("item", index, allowed)), *conditions, *everywhere))
        yield formulas.disjunction((formulas.literal(ARRAY, ("items", longest, allowed)), *everywhere))

    # -- covers -------------------------------------------------------------------------------------------------

    def _covers_name(self, cover: _Cover, name: str) -> bool:
        return name in cover.names or any(self._matches(pattern, name) for pattern in cover.patterns)

    def _covers(self, node: Node, own: Callable[[Mapping[str, Any], Node, bool], _Cover | None]) -> Iterator[_Cover]:
        """The covers of a schema and of all that applies in place in it."""
        seen: set[tuple[Node, int]] = set()
        stack: list[tuple[Node, int]] = [(node, TRUE)]
        first = True
        while stack:
            current, condition = stack.pop()
            if (current, condition) in seen or condition == FALSE:
                continue
            seen.add((current, condition))
            self._budget.spend("branches", place=self._references.place(current))
            schema = self._references.schema(current)
            cover = own(schema, current, first)
            first = False
            if cover is not None:
                contained = cover.contained
                yield _Cover(condition, cover.names, cover.patterns, cover.prefix, cover.everything, contained)
            stack.extend(reversed(list(self._in_place(schema, current, condition))))

    def _in_place(self, schema: Mapping[str, Any], node: Node, condition: int) -> Iterator[tuple[Node, int]]:
        """Subschemas that apply to the same instance, with the conditions under which they count."""
        draft, formulas = self._references.draft(node), self._formulas

        def follow(child: object, extra: int) -> Iterator[tuple[Node, int]]:
            if isinstance(child, dict):  # booleans evaluate nothing
                yield self._references.node(child, node.scope), formulas.conjunction((condition, extra))

        for name, value in schema.items():
            if known(name, draft) is None:
                continue
            if name in _REFERENCES:
                target, scope = self._references.follow(node, name, value)
                if isinstance(target, dict):
                    yield self._references.node(target, scope), condition
            elif name == "allOf":
                for child in value:
                    yield from follow(child, TRUE)
            elif name in ("anyOf", "oneOf"):
                for child in value:
                    yield from follow(child, self._value(child, node.scope))
            elif name == "if":
                holds = self._value(value, node.scope)
                yield from follow(value, holds)
                yield from follow(schema.get("then"), holds)
                yield from follow(schema.get("else"), formulas.negation(holds))
            elif name in ("dependentSchemas", "dependencies"):
                for key, child in value.items():
                    absent = formulas.literal(OBJECT, ("property", key, FALSE))
                    yield from follow(child, formulas.negation(absent))

    def _own_properties(self, schema: Mapping[str, Any], node: Node, first: bool) -> _Cover | None:
        if "additionalProperties" in schema or ("unevaluatedProperties" in schema and not first):
            return _Cover(TRUE, everything=True)
        names, patterns = tuple(schema.get("properties", ())), tuple(schema.get("patternProperties", ()))
        return _Cover(TRUE, names, patterns) if names or patterns else None

    def _own_items(self, schema: Mapping[str, Any], node: Node, first: bool) -> _Cover | None:
        draft = self._references.draft(node)
        items = schema.get("items")
        if "unevaluatedItems" in schema and not first:
            return _Cover(TRUE, everything=True)
        if (items is not None and not isinstance(items, list)) or (
            isinstance(items, list) and "additionalItems" in schema
        ):
            return _Cover(TRUE, everything=True)
        prefix = len(items) if isinstance(items, list) else len(schema.get("prefixItems", ()))
        contained = FALSE
        if draft >= DRAFT2020 and "contains" in schema:  # since 2020-12, section 10.3.1.3
            contained = self._value(schema["contains"], node.scope)
        return _Cover(TRUE, prefix=prefix, contained=contained) if prefix or contained != FALSE else None
