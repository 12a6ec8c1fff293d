"""From formulas to procedures: one for each distinct thing that a value may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from schemac.budget import Budget
from schemac.errors import EmptyLanguageError
from schemac.frontend.json_schema.anyorder import AnyOrderFrame, too_many
from schemac.frontend.json_schema.arrays import ArrayFrame
from schemac.frontend.json_schema.formula import (
    ARRAY,
    FALSE,
    FALSE_VALUE,
    NULL,
    OBJECT,
    TRUE_VALUE,
)
from schemac.frontend.json_schema.layout import Layout
from schemac.frontend.json_schema.numbers import digits_language
from schemac.frontend.json_schema.objects import ObjectFrame
from schemac.frontend.json_schema.partition import Partition
from schemac.frontend.json_schema.productive import callees, productive_part, productive_procedures
from schemac.frontend.json_schema.strings import Band
from schemac.frontend.json_schema.text import any_string_body, closed, length_language, string_body
from schemac.frontend.json_schema.typed import Signature, Types
from schemac.ir.dfa import CODE_POINTS, Dfa
from schemac.ir.graph import Graph, Module, ModuleBuilder
from schemac_runtime.registers import Guard

_CONSTANTS = ((NULL, b"null"), (FALSE_VALUE, b"false"), (TRUE_VALUE, b"true"))
#: String languages up to this size are written in place; larger ones become procedures that may be shared.
_SMALL = 40
_QUOTE = 0x22
#: An object in any order is read by at most so many frames side by side.
_MOST_ALTERNATIVES = 200

#: `ARRAY` or `OBJECT`, a formula about those, and the order of keys if it is given.
_Frame = tuple[int, int, tuple[str, ...] | None]


class Lowering:
    """Turns formulas into procedures until no new one turns up.

    Args:
        types: splits formulas.
        layout: whitespace.
        budget: the compile's budget.
        key_order: of objects, see `JsonSchemaOptions`.
    """

    def __init__(
        self,
        types: Types,
        layout: Layout,
        budget: Budget,
        key_order: str = "schema",
        digit_limit: int | None = None,
    ) -> None:
        self._types = types
        self._layout = layout
        self._budget = budget
        self._partition = Partition(types, budget)
        self._builder = ModuleBuilder()
        self._values: dict[Signature, int] = {}
        self._frames: dict[_Frame, int] = {}
        self._bodies: dict[Band, int] = {}
        self._any_key_rest: int | None = None
        self._key_texts: dict[Dfa | None, int] = {}
        self._pending: list[tuple[int, Signature | _Frame, str]] = []
        self._languages: set[int] = set()
        self._any_order = key_order == "any"
        self._digit_limit = digit_limit
        self._witnesses: dict[int, Graph] = {}
        self._alternatives: Counter[str] = Counter()

    def module(self, formula: int) -> Module:
        """The module whose root reads the values that satisfy `formula`.

        Raises:
            EmptyLanguageError: there are none.
        """
        if self._types.signature(formula).is_empty:
            raise EmptyLanguageError("no value satisfies this schema", place=self._types.formulas.place(formula))
        self._procedure(formula)
        while self._pending:
            number, subject, place = self._pending.pop()
            with self._budget.at(place):
                if isinstance(subject, Signature):
                    self._builder.define(number, self._value_graph(subject, place))
                else:
                    self._define_frame(number, subject, place)
        module = self._builder.build()
        productive = productive_procedures(module, self._languages, self._witnesses)
        if productive[0] and (empty := self._found_empty(module, productive)):
            self._types.declare_empty(empty)
            return Lowering(self._types, self._layout, self._budget, "any", self._digit_limit).module(formula)
        return productive_part(module, productive)

    def _found_empty(self, module: Module, productive: Sequence[bool]) -> list[Signature]:
        """What members of objects in any order may be by their formulas, though no such value exists.

        Only the formulas of such a frame say which of its states can be finished, so that it must be made anew.
        """
        called = {callee for number in self._witnesses for callee in callees(module.procedures[number].graph)}
        return [signature for signature, number in self._values.items() if number in called and not productive[number]]

    # -- what the frames ask ------------------------------------------------------------------------------------

    def value(self, graph: Graph, source: int, formula: int, target: int) -> None:
        """Read a value that satisfies `formula`."""
        if not self._types.signature(formula).is_empty:
            graph.call(source, self._procedure(formula), target)

    def is_sure(self, formula: int) -> bool:
        """Whether it is plain to see that some value satisfies `formula`."""
        signature = self._types.signature(formula)
        return bool(signature.constants) or not (signature.numbers.is_empty and signature.strings.is_empty)

    def object_alternative(self, formula: int, names: tuple[str, ...], place: str) -> int:
        """The procedure that reads what follows the opening brace by `formula`, with the key order `names`.

        Raises:
            UnsupportedError: there are too many at this place to follow them side by side, keys in any order.
        """
        frame = (OBJECT, formula, names)
        if self._any_order and frame not in self._frames:
            self._alternatives[place] += 1
            if self._alternatives[place] > _MOST_ALTERNATIVES:
                raise too_many(place)
        return self._frame(frame, place)

    def any_key_rest(self) -> int:
        """The procedure that reads the rest of any key in its shortest spelling, and the closing quotation mark."""
        if self._any_key_rest is None:
            rest = string_body(Dfa.everything(CODE_POINTS))
            self._any_key_rest = self._language_procedure("key", rest, "#", quoted=True)
        return self._any_key_rest

    def key_texts(self, language: Dfa | None) -> int:
        """The procedure that reads the keys of a language, None for all, in their shortest spelling: the text between
        the quotation marks, the empty one left out.
        """
        number = self._key_texts.get(language)
        if number is None:
            keys = length_language(1, None)
            if language is not None:
                keys = language.intersect(keys, budget=self._budget)
            number = self._language_procedure("key", string_body(keys, self._budget), "#")
            self._key_texts[language] = number
        return number

    # -- procedures ---------------------------------------------------------------------------------------------

    def _declare(self, name: str, place: str) -> int:
        self._budget.spend("procedures", place=place)
        return self._builder.declare(name, place)

    def _procedure(self, formula: int) -> int:
        signature = self._types.signature(formula)
        number = self._values.get(signature)
        if number is None:
            place = self._types.formulas.place(formula) or "#"
            number = self._declare(_name(signature), place)
            self._values[signature] = number
            self._pending.append((number, signature, place))
        return number

    def _frame(self, frame: _Frame, place: str) -> int:
        number = self._frames.get(frame)
        if number is None:
            number = self._declare("array" if frame[0] == ARRAY else "object", place)
            self._frames[frame] = number
            self._pending.append((number, frame, place))
        return number

    def _define_frame(self, number: int, frame: _Frame, place: str) -> None:
        bit, formula, names = frame
        context = (self._types, formula, self, self._partition, self._layout, self._budget, place)
        if bit == ARRAY:
            array = ArrayFrame(*context)
            graph, guard = array.graph(), array.guard
        else:
            built = (AnyOrderFrame if self._any_order else ObjectFrame)(*context, names)
            graph, guard = built.graph(), built.guard
            if built.witness is not None:
                self._witnesses[number] = built.witness
        graph.apart = names is not None
        self._builder.define(number, graph, guard)

    def _body(self, strings: Band, place: str) -> int:
        """The procedure that reads a string behind its opening quotation mark, the closing one included."""
        number = self._bodies.get(strings)
        if number is None:
            if strings.is_plain and strings.base.is_everything:
                number = self._language_procedure("string", any_string_body(), "#", quoted=True)
            elif not strings.is_plain and strings.is_countable:
                number = self._counted_string(strings, place)
            else:
                body = string_body(strings.language(self._budget), self._budget)
                self._budget.spend("states", body.size, place=place)
                number = self._language_procedure("string", body, place, quoted=True)
            self._bodies[strings] = number
        return number

    def _counted_string(self, strings: Band, place: str) -> int:
        """The procedure for a string whose length is counted in a register, whatever its bounds."""
        number = self._declare("string", place)
        everything = strings.base.is_everything
        body = any_string_body() if everything else string_body(strings.base, self._budget)
        self._budget.spend("states", body.size, place=place)
        guard = Guard("characters", strings.low, strings.high)
        self._builder.define(number, Graph.of_language(closed(body)), guard)
        self._languages.add(number)
        return number

    def _language_procedure(self, name: str, language: Dfa, place: str, *, quoted: bool = False) -> int:
        """A procedure for a language over bytes; `quoted` adds a closing quotation mark, so that it is never empty."""
        number = self._declare(name, place)
        graph = Graph.of_language(closed(language) if quoted and not language.is_empty else language)
        self._define(number, graph, known=not language.is_empty)
        return number

    def _define(self, number: int, graph: Graph, known: bool) -> None:
        """Give a procedure its graph; `known` says that it surely reads some text."""
        self._builder.define(number, graph)
        if known:
            self._languages.add(number)

    def _value_graph(self, signature: Signature, place: str) -> Graph:
        graph = Graph()
        end = graph.node()
        graph.final(end)
        for bit, text in _CONSTANTS:
            if signature.constants & bit:
                graph.literal(graph.start, text, end)
        if not signature.numbers.is_empty:
            texts = signature.numbers.texts(self._budget)
            if self._digit_limit is not None:
                texts = texts.intersect(digits_language(self._digit_limit, self._budget), budget=self._budget)
            graph.language(graph.start, texts, end)
        strings = signature.strings
        if not strings.is_empty:
            opened = graph.node()
            graph.byte(graph.start, _QUOTE, _QUOTE, opened)
            if strings.base.size <= _SMALL and strings.is_finite:
                closing = graph.language(opened, string_body(strings.base, self._budget))
                graph.byte(closing, _QUOTE, _QUOTE, end)
            else:
                for band in strings.parts:
                    graph.call(opened, self._body(band, place), end)
        for bit, formula, bracket in ((ARRAY, signature.arrays, 0x5B), (OBJECT, signature.objects, 0x7B)):
            if formula != FALSE:
                opened = graph.node()
                graph.byte(graph.start, bracket, bracket, opened)
                graph.call(opened, self._frame((bit, formula, None), place), end)
        return graph


def _closed(graph: Graph) -> Graph:
    """The graph with a closing quotation mark at its end."""
    end = graph.node()
    for final in sorted(graph.finals):
        graph.byte(final, _QUOTE, _QUOTE, end)
    graph.finals = {end}
    return graph


def _name(signature: Signature) -> str:
    """A word for listings."""
    kinds = []
    if signature.constants:
        kinds.append("constant")
    if not signature.numbers.is_empty:
        kinds.append("number")
    if not signature.strings.is_empty:
        kinds.append("string")
    if signature.arrays != FALSE:
        kinds.append("array")
    if signature.objects != FALSE:
        kinds.append("object")
    return kinds[0] if len(kinds) == 1 else "value"
