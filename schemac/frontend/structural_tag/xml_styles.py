r"""Arguments of a call as a list of parameters between markers, as some models write them.

    <parameter=city>                   {"city": "Oslo", "days": 3}
    Oslo
    </parameter>
    <parameter=days>
    3
    </parameter>

Strings stand there as they are, without quotes and escapes, up to the closing marker; all other values as JSON.
Declared parameters come in the order of the schema, others after them. What is checked is what a text is read back as.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from schemac.budget import Budget
from schemac.errors import EmptyLanguageError, SourceError, UnsupportedError
from schemac.frontend.compose import Composer, Part, alternatives, compose, embedded, language, literal, sequence
from schemac.frontend.json_schema import JsonSchemaOptions, SchemaWarning
from schemac.frontend.json_schema.formula import ALL_TYPES, STRING
from schemac.frontend.json_schema.frontend import Prepared, prepare
from schemac.frontend.json_schema.keywords import DRAFT2019, known
from schemac.frontend.json_schema.layout import Layout
from schemac.frontend.json_schema.load import escape
from schemac.frontend.json_schema.lower import Lowering
from schemac.ir.charset import CODE_POINTS, SCALARS, CharSet
from schemac.ir.dfa import Dfa, union_all
from schemac.ir.graph import Graph, Module
from schemac.ir.utf8 import utf8_language


@dataclass(frozen=True, slots=True)
class XmlStyle:
    """What stands around the name and the value of one parameter.

    Attributes:
        before_name, after_name: around the name; the first character of `after_name` is in no name.
        closing: behind the value.
        string, other: between name and value, for strings and for all other values.
        newlines: one line feed at each end of a value is not part of it, and is always written.
    """

    before_name: str
    after_name: str
    closing: str
    string: str = ""
    other: str = ""
    newlines: bool = False


#: By the names that xgrammar's structural tags give them.
STYLES: Mapping[str, XmlStyle] = {
    "qwen_xml": XmlStyle("<parameter=", ">", "</parameter>", newlines=True),
    "minimax_xml": XmlStyle('<parameter name="', '">', "</parameter>"),
    "glm_xml": XmlStyle("<arg_key>", "</arg_key>", "</arg_value>", "\n<arg_value>", "\n<arg_value>"),
    "deepseek_xml": XmlStyle(
        '<｜DSML｜parameter name="', '"', "</｜DSML｜parameter>", ' string="true">', ' string="false">'
    ),
    "deepseek_v4_1_xml": XmlStyle(
        '<｜DSML｜ parameter name="', '"', "</｜DSML｜ parameter>", ' string="true">', ' string="false">'
    ),
}

#: Keywords that the list of parameters has a place for.
_READ = {"type", "properties", "required", "additionalProperties"}
#: Undeclared names: no blanks, no control characters, nothing that a marker might be made of.
_NAME = SCALARS - CharSet.of((0x00, 0x20), 0x22, 0x27, 0x3C, 0x3D, 0x3E, (0x7F, 0xA0), (0x2028, 0x2029))
_LINE = Dfa.literal("\n", CODE_POINTS)
_BLANKS = Dfa.runs(CharSet.of(0x09, 0x0A, 0x0D, 0x20), 0, None, 255)


def write_parameters(
    schema: object,
    style: XmlStyle,
    options: JsonSchemaOptions,
    budget: Budget,
    warn: Callable[[SchemaWarning], None],
) -> Module:
    """The module of the parameters that a schema of objects allows.

    Raises:
        UnsupportedError: a keyword beside ``properties``, ``required`` and ``additionalProperties`` at the top, or a
            name that cannot stand between the markers.
        SchemacError: as `json_schema_module`.
    """
    return _Parameters(schema, style, options, budget, warn).module()


class _Parameters:
    def __init__(
        self,
        schema: object,
        style: XmlStyle,
        options: JsonSchemaOptions,
        budget: Budget,
        warn: Callable[[SchemaWarning], None],
    ) -> None:
        self._style = style
        self._flexible = options.whitespace == "flexible"
        self._layout = Layout(options.whitespace)
        self._budget = budget
        self._prepared: Prepared = prepare(schema, options, budget, warn)
        anything = Dfa.everything(CODE_POINTS)
        around = anything.concat(Dfa.literal(style.closing, CODE_POINTS), budget=budget).concat(anything, budget=budget)
        self._open = around.complement(budget=budget)  # texts without the closing marker
        self._begins_with_line = _LINE.concat(anything)
        self._ends_with_line = anything.concat(_LINE)
        self._object, self._place = self._top()

    def _top(self) -> tuple[dict[str, object], str]:
        """The schema of the whole object, and its place."""
        schema: object = self._prepared.root
        references = self._prepared.references
        place = "#"
        seen: set[int] = set()
        while isinstance(schema, dict):
            node = references.node(schema)
            place = references.place(node)
            if "$ref" not in schema or id(schema) in seen:
                break
            seen.add(id(schema))
            self._check_keywords(schema, place, {"$ref"})
            schema, _ = references.follow(node, "$ref", str(schema["$ref"]))
        if schema is True:
            return {}, place
        if schema is False:
            raise EmptyLanguageError("no value satisfies this schema", place=place)
        assert isinstance(schema, dict)
        self._check_keywords(schema, place, _READ)
        types = schema.get("type", "object")
        if "object" not in (types if isinstance(types, list) else [types]):
            raise SourceError("parameters are an object", place=f"{place}/type", construct="type")
        return schema, place

    def _check_keywords(self, schema: Mapping[str, object], place: str, allowed: set[str]) -> None:
        draft = self._prepared.references.draft(self._prepared.references.node(schema))
        for name in schema:
            keyword = known(name, draft)
            ignored = "$ref" in schema and draft < DRAFT2019
            if keyword is not None and keyword.role == "assert" and name not in allowed and not ignored:
                raise UnsupportedError(
                    "a list of parameters cannot have this at the top", place=f"{place}/{escape(name)}", construct=name,
                    hint="use `properties`, `required` and `additionalProperties` only",
                )  # fmt: skip

    def module(self) -> Module:
        """The parameters in order, each at most once, with blanks between them."""
        return compose(self._write, "parameters", self._place, self._budget)

    def _write(self, composer: Composer, graph: Graph, source: int, target: int) -> None:
        properties, required = self._object.get("properties", {}), self._object.get("required", [])
        assert isinstance(properties, dict)
        assert isinstance(required, list)
        names = list(dict.fromkeys([*properties, *required]))
        extra = self._object.get("additionalProperties", True)
        # Before the parameter `index` or a later one, what is between them having been read; and behind one before it.
        before = [graph.node() for _ in range(len(names) + 1)]
        behind = [graph.node() for _ in range(len(names) + 1)]
        self._gap(graph, source, before[0], first=True)
        for index, name in enumerate(names):
            place = f"{self._place}/properties/{escape(name)}"
            value = self._value(properties.get(name, extra), place)
            if value is not None:
                self._check_name(name, place)
                marked = literal(self._style.before_name + name + self._style.after_name)
                sequence(marked, value)(composer, graph, before[index], behind[index + 1])
            elif name in required:
                raise EmptyLanguageError("no value satisfies this required parameter", place=place)
            if name not in required:
                graph.epsilon(before[index], before[index + 1])
                graph.epsilon(behind[index], behind[index + 1])
            self._gap(graph, behind[index], before[index])
        self._gap(graph, behind[-1], before[-1])
        value = self._value(extra, f"{self._place}/additionalProperties")
        if value is not None:
            undeclared = Dfa.runs(_NAME, 1, None, CODE_POINTS).difference(Dfa.literals(names, CODE_POINTS))
            name_part = language(utf8_language(undeclared, self._budget))
            marked = sequence(literal(self._style.before_name), name_part, literal(self._style.after_name))
            sequence(marked, value)(composer, graph, before[-1], behind[-1])
        if not required:
            graph.epsilon(source, target)
        self._gap(graph, behind[-1], target, first=True)

    def _gap(self, graph: Graph, source: int, target: int, *, first: bool = False) -> None:
        """What stands between two parameters, or before the first one or behind the last one."""
        if self._flexible:
            graph.language(source, _BLANKS, target)
        elif first:
            graph.epsilon(source, target)
        else:
            graph.byte(source, 0x0A, 0x0A, target)

    def _value(self, schema: object, place: str) -> Part | None:
        """What may stand behind a name, with the closing marker; None if no value satisfies the schema."""
        formula = self._prepared.translation.root(schema)
        types = self._prepared.types
        with self._budget.at(place):
            strings = self._spellings(types.signature(formula).strings.language(self._budget))
            parts = []
            if not strings.is_empty:
                parts.append(sequence(literal(self._style.string), language(utf8_language(strings, self._budget))))
            others = types.formulas.conjunction((formula, types.formulas.types(ALL_TYPES & ~STRING)))
            try:
                module = Lowering(types, self._layout, self._budget).module(others)
            except EmptyLanguageError:
                pass
            else:
                parts.append(sequence(literal(self._style.other), self._padded(embedded(module))))
        if not parts:
            return None
        return sequence(alternatives(*parts), literal(self._style.closing))

    def _padded(self, value: Part) -> Part:
        if self._flexible:
            return sequence(language(_BLANKS), value, language(_BLANKS))
        return sequence(literal("\n"), value, literal("\n")) if self._style.newlines else value

    def _spellings(self, strings: Dfa) -> Dfa:
        """The texts that are read back as one of these strings."""
        budget = self._budget
        if self._style.newlines:
            framed = _LINE.concat(strings, budget=budget).concat(_LINE, budget=budget)
            if self._flexible:  # without one of the line feeds, or both, where that cannot be mistaken
                no_first = strings.difference(self._begins_with_line, budget=budget)
                no_last = strings.difference(self._ends_with_line, budget=budget)
                texts = (
                    framed,
                    no_first.concat(_LINE, budget=budget),
                    _LINE.concat(no_last, budget=budget),
                    no_first.intersect(no_last, budget=budget),
                )
                framed = union_all(texts, CODE_POINTS, budget=budget)
            strings = framed
        return strings.intersect(self._open, budget=budget)

    def _check_name(self, name: str, place: str) -> None:
        if self._style.after_name[0] in name or not name:
            raise UnsupportedError(
                f"the name {name!r} cannot be written as a parameter", place=place, construct="properties",
                hint="rename it",
            )  # fmt: skip
