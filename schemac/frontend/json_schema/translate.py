"""From schema objects to formulas: what each keyword asserts (2020-12 core section 10, validation section 6).

Subschemas are translated bottom-up with an explicit stack, so that equal ones become one formula wherever they stand;
references stay references until somebody looks inside, which is how recursion closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.json_schema.constants import values_formula
from schemac.frontend.json_schema.contents import content_pattern
from schemac.frontend.json_schema.evaluated import Evaluated
from schemac.frontend.json_schema.formula import (
    ARRAY,
    FALSE,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
    TYPE_MASKS,
    Formulas,
)
from schemac.frontend.json_schema.keywords import DRAFT2019, DRAFTS, known
from schemac.frontend.json_schema.load import escape, integer
from schemac.frontend.json_schema.options import SchemaWarning, Warn
from schemac.frontend.json_schema.references import Node, References
from schemac.frontend.json_schema.shape import subschemas

Schema = Mapping[str, Any]


class Translation:
    """Translates schema objects of one compile, each node once.

    Args:
        references: the index of documents.
        formulas: the store; its `follow` is set to this translation.
        budget: the compile's budget.
        warn: told of formats that are not known.
        strict: refuse those instead.
        knows_format: whether a format is known under a draft.
        matches: whether a pattern matches in a key.
    """

    def __init__(
        self,
        references: References,
        formulas: Formulas,
        budget: Budget,
        warn: Warn,
        strict: bool,
        knows_format: Callable[[str, str], bool],
        matches: Callable[[str, str], bool],
    ) -> None:
        self._references = references
        self.openapi_nullable = references.openapi_nullable
        self._formulas = formulas
        self._budget = budget
        self._warn = warn
        self._strict = strict
        self._knows_format = knows_format
        self._done: dict[Node, int] = {}
        self._unknown_formats: set[str] = set()
        self._evaluated = Evaluated(references, formulas, self._value, matches, budget)
        formulas.follow = self.node

    def root(self, schema: object) -> int:
        """The formula of the whole schema."""
        return self._value(schema, ())

    def _value(self, schema: object, scope: tuple[str, ...]) -> int:
        """The formula of any schema: an object met under a dynamic scope, or a boolean."""
        if isinstance(schema, bool):
            return TRUE if schema else FALSE
        assert isinstance(schema, dict)  # shapes are checked when a document is indexed
        return self.node(self._references.node(schema, scope))

    def node(self, node: Node) -> int:
        """The formula of a schema object, its subschemas first."""
        done = self._done
        if node in done:
            return done[node]
        stack: list[tuple[Node, bool]] = [(node, False)]
        while stack:
            current, ready = stack.pop()
            if current in done:
                continue
            if ready:
                done[current] = self._translate(current)
                continue
            stack.append((current, True))
            schema = self._references.schema(current)
            stack.extend((child, False) for child in self._children(schema, current))
        return done[node]

    def _children(self, schema: Schema, node: Node) -> Iterator[Node]:
        draft = self._references.draft(node)
        if "$ref" in schema and draft < DRAFT2019:
            return
        for name, value in schema.items():
            keyword = known(name, draft)
            if keyword is not None and keyword.role == "assert":
                for child, _ in subschemas(name, keyword, value):
                    if isinstance(child, dict):
                        yield self._references.node(child, node.scope)

    def _translate(self, node: Node) -> int:
        place = self._references.place(node)
        with self._budget.at(place):
            parts = [formula for _, formula in self.assertions(node)]
            return self._formulas.at(self._formulas.conjunction(parts), place)

    def assertions(self, node: Node) -> Iterator[tuple[str, int]]:
        """What each keyword of a schema object asserts: its name with a formula, several times if there are several."""
        schema = self._references.schema(node)
        place = self._references.place(node)
        draft = self._references.draft(node)
        if "$ref" in schema and draft < DRAFT2019:
            yield "$ref", self._reference("$ref", schema, node)
            return
        for name in schema:
            rule = _RULES.get(name)
            if rule is not None and known(name, draft) is not None:
                reader = _Reader(self, schema, node, place, draft, name)
                for part in rule(reader):
                    yield name, self._formulas.at(part, f"{place}/{escape(name)}")

    def _reference(self, keyword: str, schema: Schema, node: Node) -> int:
        target, scope = self._references.follow(node, keyword, schema[keyword])
        if isinstance(target, bool):
            return TRUE if target else FALSE
        assert isinstance(target, dict)
        formula = self._formulas.reference(self._references.node(target, scope))
        return self._formulas.at(formula, f"{self._references.place(node)}/{keyword}")

    def _format(self, name: str, draft: int, place: str) -> Iterator[int]:
        if self._knows_format(name, DRAFTS[draft]):
            yield self._formulas.literal(STRING, ("format", name, DRAFTS[draft]))
            return
        reason = f"the format {name!r} is not known; it asserts nothing"
        if self._strict:
            raise SourceError(reason, place=place, construct="format", hint="remove it, or compile without --strict")
        if name not in self._unknown_formats:
            self._unknown_formats.add(name)
            self._warn(SchemaWarning(reason, place, "format"))


class _Reader:
    """One keyword of one schema object, as the rules below see it."""

    def __init__(self, translation: Translation, schema: Schema, node: Node, place: str, draft: int, name: str) -> None:
        self.translation = translation
        self.formulas = translation._formulas
        self.schema = schema
        self.node = node
        self.place = place
        self.draft = draft
        self.name = name
        self.value: Any = schema[name]

    def sub(self, schema: object) -> int:
        """The formula of a subschema."""
        return self.translation._value(schema, self.node.scope)

    def get(self, name: str, default: object = None) -> Any:
        """Another keyword of the same schema, if the draft knows it."""
        return self.schema.get(name, default) if known(name, self.draft) else default

    def lit(self, bit: int, *atom: object) -> int:
        """A typed assertion."""
        return self.formulas.literal(bit, atom)

    def dual(self, bit: int, *atom: object) -> int:
        """The value is of the type and the assertion fails."""
        return self.formulas.negation(self.formulas.literal(bit, atom))

    def required(self, name: str) -> int:
        """If the value is an object, it has a key."""
        absent = self.formulas.literal(OBJECT, ("property", name, FALSE))
        return self.formulas.disjunction((self.not_an_object(), self.formulas.negation(absent)))

    def not_an_object(self) -> int:
        """The value is of another type."""
        return self.formulas.negation(self.formulas.types(OBJECT))


def _type(r: _Reader) -> Iterator[int]:
    names = r.value if isinstance(r.value, list) else [r.value]
    mask = 0
    for name in names:
        mask |= TYPE_MASKS[name]
    if r.translation.openapi_nullable and r.schema.get("nullable") is True:
        mask |= NULL
    yield r.formulas.types(mask)
    if "integer" in names and "number" not in names:
        yield r.lit(NUMBER, "integer")


def _enum(r: _Reader) -> Iterator[int]:
    yield values_formula(r.formulas, r.value)


def _const(r: _Reader) -> Iterator[int]:
    yield values_formula(r.formulas, [r.value])


def _number(value: object) -> Fraction:
    assert isinstance(value, (int, Decimal))
    return Fraction(value)


def _multiple_of(r: _Reader) -> Iterator[int]:
    yield r.lit(NUMBER, "multiple", _number(r.value))


def _minimum(r: _Reader) -> Iterator[int]:
    yield r.lit(NUMBER, "minimum", _number(r.value), r.get("exclusiveMinimum") is True)


def _maximum(r: _Reader) -> Iterator[int]:
    yield r.lit(NUMBER, "maximum", _number(r.value), r.get("exclusiveMaximum") is True)


def _exclusive_minimum(r: _Reader) -> Iterator[int]:
    if not isinstance(r.value, bool):
        yield r.lit(NUMBER, "minimum", _number(r.value), True)


def _exclusive_maximum(r: _Reader) -> Iterator[int]:
    if not isinstance(r.value, bool):
        yield r.lit(NUMBER, "maximum", _number(r.value), True)


def _min_length(r: _Reader) -> Iterator[int]:
    if r.value > 0:
        yield r.lit(STRING, "length", integer(r.value), None)


def _max_length(r: _Reader) -> Iterator[int]:
    yield r.lit(STRING, "length", 0, integer(r.value))


def _pattern(r: _Reader) -> Iterator[int]:
    yield r.lit(STRING, "pattern", r.value)


def _format(r: _Reader) -> Iterator[int]:
    yield from r.translation._format(r.value, r.draft, r.place)


def _content(r: _Reader) -> Iterator[int]:
    pattern = content_pattern(r.name, r.value, r.draft, r.place)
    if pattern is not None:
        yield r.lit(STRING, "pattern", pattern)


def _items(r: _Reader) -> Iterator[int]:
    if isinstance(r.value, list):  # the tuple form, `prefixItems` since 2020-12; read wherever people write it
        yield from (r.lit(ARRAY, "item", index, r.sub(item)) for index, item in enumerate(r.value))
        return
    start = len(r.get("prefixItems", ()))
    rest = r.sub(r.value)
    if rest != TRUE:
        yield r.lit(ARRAY, "items", start, rest)


def _additional_items(r: _Reader) -> Iterator[int]:
    items = r.get("items")
    if isinstance(items, list):  # without it, or with one schema for all, the keyword says nothing
        rest = r.sub(r.value)
        if rest != TRUE:
            yield r.lit(ARRAY, "items", len(items), rest)


def _prefix_items(r: _Reader) -> Iterator[int]:
    yield from (r.lit(ARRAY, "item", index, r.sub(item)) for index, item in enumerate(r.value))


def _contains(r: _Reader) -> Iterator[int]:
    low = integer(r.get("minContains", 1))
    high = integer(r.get("maxContains"))
    formula = r.sub(r.value)
    if low:
        yield r.lit(ARRAY, "contains", low, formula)
    if high is not None:
        yield r.formulas.disjunction(
            (r.formulas.negation(r.formulas.types(ARRAY)), r.dual(ARRAY, "contains", high + 1, formula))
        )


def _min_items(r: _Reader) -> Iterator[int]:
    if r.value > 0:
        yield r.lit(ARRAY, "min_items", integer(r.value))


def _max_items(r: _Reader) -> Iterator[int]:
    yield r.lit(ARRAY, "max_items", integer(r.value))


def _unique_items(r: _Reader) -> Iterator[int]:
    if r.value:
        yield r.lit(ARRAY, "unique")


def _properties(r: _Reader) -> Iterator[int]:
    yield from (r.lit(OBJECT, "property", name, r.sub(schema)) for name, schema in r.value.items())


def _pattern_properties(r: _Reader) -> Iterator[int]:
    for pattern, schema in r.value.items():
        formula = r.sub(schema)
        if formula != TRUE:
            yield r.lit(OBJECT, "keys", ("pattern", pattern), formula)


def _additional_properties(r: _Reader) -> Iterator[int]:
    formula = r.sub(r.value)
    if formula != TRUE:
        names = tuple(r.get("properties", ()))
        yield r.lit(OBJECT, "keys", ("other", names, tuple(r.get("patternProperties", ()))), formula)


def _property_names(r: _Reader) -> Iterator[int]:
    formula = r.sub(r.value)
    if formula != TRUE:
        yield r.lit(OBJECT, "keys", ("failing", formula), FALSE)


def _required(r: _Reader) -> Iterator[int]:
    yield from (r.required(name) for name in r.value)


def _min_properties(r: _Reader) -> Iterator[int]:
    if r.value > 0:
        yield r.lit(OBJECT, "min_properties", integer(r.value))


def _max_properties(r: _Reader) -> Iterator[int]:
    yield r.lit(OBJECT, "max_properties", integer(r.value))


def _dependencies(r: _Reader) -> Iterator[int]:
    for name, dependency in r.value.items():
        absent = r.lit(OBJECT, "property", name, FALSE)
        if isinstance(dependency, list):
            consequence = r.formulas.conjunction(r.required(other) for other in dependency)
        else:
            consequence = r.sub(dependency)
        yield r.formulas.disjunction((absent, consequence))


def _all_of(r: _Reader) -> Iterator[int]:
    yield from map(r.sub, r.value)


def _any_of(r: _Reader) -> Iterator[int]:
    yield r.formulas.disjunction(map(r.sub, r.value))


def _one_of(r: _Reader) -> Iterator[int]:
    yield r.formulas.exactly_one(map(r.sub, r.value))


def _not(r: _Reader) -> Iterator[int]:
    yield r.formulas.negation(r.sub(r.value))


def _if(r: _Reader) -> Iterator[int]:
    condition = r.sub(r.value)
    then, otherwise = r.sub(r.get("then", True)), r.sub(r.get("else", True))
    if then == otherwise == TRUE:
        return
    formulas = r.formulas
    yield formulas.disjunction(
        (
            formulas.conjunction((condition, then)),
            formulas.conjunction((formulas.negation(condition), otherwise)),
        )
    )


def _reference(r: _Reader) -> Iterator[int]:
    yield r.translation._reference(r.name, r.schema, r.node)


def _unevaluated_items(r: _Reader) -> Iterator[int]:
    yield from r.translation._evaluated.items(r.node, r.sub(r.value))


def _unevaluated_properties(r: _Reader) -> Iterator[int]:
    yield from r.translation._evaluated.properties(r.node, r.sub(r.value))


_RULES: dict[str, Callable[[_Reader], Iterator[int]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "multipleOf": _multiple_of,
    "minimum": _minimum,
    "maximum": _maximum,
    "exclusiveMinimum": _exclusive_minimum,
    "exclusiveMaximum": _exclusive_maximum,
    "minLength": _min_length,
    "maxLength": _max_length,
    "pattern": _pattern,
    "format": _format,
    "contentEncoding": _content,
    "contentMediaType": _content,
    "items": _items,
    "additionalItems": _additional_items,
    "prefixItems": _prefix_items,
    "contains": _contains,
    "minItems": _min_items,
    "maxItems": _max_items,
    "uniqueItems": _unique_items,
    "unevaluatedItems": _unevaluated_items,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "required": _required,
    "minProperties": _min_properties,
    "maxProperties": _max_properties,
    "dependencies": _dependencies,
    "dependentRequired": _dependencies,
    "dependentSchemas": _dependencies,
    "unevaluatedProperties": _unevaluated_properties,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "$ref": _reference,
    "$dynamicRef": _reference,
    "$recursiveRef": _reference,
}
