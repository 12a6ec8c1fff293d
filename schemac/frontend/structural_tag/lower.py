"""From formats to the texts they allow: one graph, with a procedure for each schema, pattern and grammar in it.

A tag's content that ends in free text is ended by the tag's own end, the first time that it is complete. So the ends
are handed down to what stands directly before them, and whoever writes the content writes them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.compose import Composer, Part, compose, repetition, write_literal
from schemac.frontend.free_text import FreeText, Marker, Shortcut
from schemac.frontend.json_schema import JsonSchemaOptions, SchemaWarning, json_schema_module
from schemac.frontend.located import located, moved
from schemac.frontend.markers import special_spans
from schemac.frontend.regex import regex_module
from schemac.frontend.structural_tag import formats as f
from schemac.frontend.structural_tag.xml_styles import STYLES, write_parameters
from schemac.ir.graph import Graph, Module

#: Lowers a grammar in its own notation, found by its content.
GrammarFrontend = Callable[[str], Module]


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a format.

    Attributes:
        ends: what the format has to be followed by, and has to read itself; empty if nothing.
        enclosing: the ends of the nearest tag around it, which free text anywhere inside must not contain.
    """

    ends: tuple[f.Edge, ...] = ()
    enclosing: tuple[str, ...] = ()

    def inner(self) -> Around:
        """For a part that does not come last."""
        return Around((), self.enclosing)


class Lowering:
    """Writes formats into graphs.

    Args:
        schemas: options for all schemas.
        grammar: reads grammars.
        budget: of the compile.
        warn: told about what asserts nothing.
    """

    def __init__(
        self,
        schemas: JsonSchemaOptions,
        grammar: GrammarFrontend,
        budget: Budget,
        warn: Callable[[SchemaWarning], None],
    ) -> None:
        self._schemas = schemas
        self._grammar = grammar
        self._budget = budget
        self._warn = warn
        self._known: dict[tuple[str, str, str], int] = {}  # schema text, style, whitespace -> procedure

    def module(self, format_: f.Format, name: str = "structural tag") -> Module:
        """The module of a format."""
        return compose(self.part(format_), name, "#", self._budget)

    def part(self, format_: f.Format) -> Part:
        """A format as a part of something else."""
        return lambda composer, graph, source, target: self._write(
            format_, composer, graph, source, target, Around()
        )

    def _write(
        self, format_: f.Format, composer: Composer, graph: Graph, source: int, target: int, around: Around
    ) -> None:
        """Read a text of a format between two nodes, and then its ends."""
        if isinstance(format_, f.AnyText):
            self._any_text(format_, graph, source, target, around)
        elif isinstance(format_, f.TriggeredTags):
            self._triggered_tags(format_, composer, graph, source, target, around)
        elif isinstance(format_, f.Dispatch):
            self._dispatch(format_, composer, graph, source, target, around)
        elif isinstance(format_, f.Or):
            for element in format_.elements:
                self._write(element, composer, graph, source, target, around)
        elif isinstance(format_, f.Sequence):
            self._sequence(format_.elements, composer, graph, source, target, around)
        elif isinstance(format_, f.Repeat) and (format_.low, format_.high) == (0, 1):
            write_ends(graph, source, around.ends, target)
            self._write(format_.content, composer, graph, source, target, around)
        else:
            closing = graph.node() if around.ends else target
            self._write_closed(format_, composer, graph, source, closing, around.inner())
            if around.ends:
                write_ends(graph, closing, around.ends, target)

    def _write_closed(
        self, format_: f.Format, composer: Composer, graph: Graph, source: int, target: int, around: Around
    ) -> None:
        """Formats that are not free text at their end."""
        if isinstance(format_, f.ConstString):
            self._budget.spend("states", len(format_.value))
            write_literal(graph, source, format_.value, target)
        elif isinstance(format_, f.Token):
            graph.token(source, [format_.token.name], target)
        elif isinstance(format_, f.JsonSchema):
            graph.call(source, self._schema(format_, composer), target)
        elif isinstance(format_, f.Regex):
            with located(format_.place):
                pattern = regex_module(format_.pattern, dialect="ecma", budget=self._budget)
            graph.call(source, composer.include(pattern), target)
        elif isinstance(format_, f.Grammar):
            with located(format_.place):
                grammar = self._grammar(format_.grammar)
            graph.call(source, composer.include(grammar), target)
        elif isinstance(format_, f.Tag):
            self._tag(format_, composer, graph, source, target)
        elif isinstance(format_, f.SeparatedTags):
            self._separated_tags(format_, composer, graph, source, target)
        else:
            assert isinstance(format_, f.Repeat)
            content = format_.content

            def write(composer: Composer, graph: Graph, source: int, target: int) -> None:
                self._write(content, composer, graph, source, target, around)

            repetition(write, format_.low, format_.high)(composer, graph, source, target)

    # -- one after the other -----------------------------------------------------------------------------------------

    def _sequence(
        self,
        elements: Sequence[f.Format],
        composer: Composer,
        graph: Graph,
        source: int,
        target: int,
        around: Around,
    ) -> None:
        here = source
        for element in elements[:-1]:
            there = graph.node()
            self._write(element, composer, graph, here, there, around.inner())
            here = there
        if elements:
            self._write(elements[-1], composer, graph, here, target, around)
        else:
            write_ends(graph, here, around.ends, target)

    def _tag(self, tag: f.Tag, composer: Composer, graph: Graph, source: int, target: int) -> None:
        opened = graph.node()
        if isinstance(tag.begin, str):
            write_literal(graph, source, tag.begin, opened)
        else:
            graph.token(source, [tag.begin.name], opened)
        self._content(tag, composer, graph, opened, target)

    def _content(self, tag: f.Tag, composer: Composer, graph: Graph, opened: int, target: int) -> None:
        """The content of a tag and its end."""
        around = Around(tag.ends, tuple(end for end in tag.ends if isinstance(end, str) and end))
        self._write(tag.content, composer, graph, opened, target, around)

    def _separated_tags(
        self, tags: f.SeparatedTags, composer: Composer, graph: Graph, source: int, target: int
    ) -> None:
        first, after = graph.node(), graph.node()
        graph.epsilon(source, first)
        begins = _Begins(graph, first, self._budget)
        for tag in tags.tags:
            self._content(tag, composer, graph, begins.add(tag.begin), after)
        if not tags.at_least_one:
            graph.epsilon(source, target)
        graph.epsilon(after, target)
        if not tags.stop_after_first:
            write_literal(graph, after, tags.separator, first)

    # -- free text -----------------------------------------------------------------------------------------------------

    def _any_text(self, text: f.AnyText, graph: Graph, source: int, target: int, around: Around) -> None:
        self._free_text(graph, source, target, around, text.excludes, longest=text.longest)

    def _triggered_tags(
        self, tags: f.TriggeredTags, composer: Composer, graph: Graph, source: int, target: int, around: Around
    ) -> None:
        free, first, after = graph.node(), graph.node(), graph.node()
        begins = _Begins(graph, first, self._budget)
        for tag in tags.tags:
            begun = [trigger for trigger in tags.triggers if _begins_with(tag.begin, trigger)]
            if not begun:
                raise SourceError(
                    "the tag begins with none of the triggers", place=f"{tag.place}/begin", construct="begin",
                    hint="give a trigger that is a prefix of it",
                )  # fmt: skip
            if isinstance(tag.begin, str) and not (tags.at_least_one and tags.stop_after_first):
                texts = [trigger for trigger in begun if isinstance(trigger, str)]
                _check_reachable(min(texts, key=len), (*tags.triggers, *around.ends), f"{tag.place}/begin")
            self._content(tag, composer, graph, begins.add(tag.begin), after)
        markers, shortcuts = [], []
        for trigger in dict.fromkeys(tags.triggers):
            if isinstance(trigger, f.TokenName):
                if trigger in begins.tokens:
                    shortcuts.append(Shortcut(b"", trigger.name, begins.tokens[trigger], optional=False))
            else:
                # A trigger that no tag begins with leads nowhere: the text can't contain it.
                markers.append(begins.marker(trigger))
                shortcuts += begins.shortcuts(trigger)
        if not tags.at_least_one:
            graph.epsilon(source, free)
        else:
            graph.epsilon(source, first)
        if not (tags.at_least_one and tags.stop_after_first):
            self._free_text(graph, free, target, around, tags.excludes, markers, shortcuts)
        if tags.stop_after_first:
            write_ends(graph, after, around.ends, target)
        else:
            graph.epsilon(after, free)

    def _dispatch(
        self, dispatch: f.Dispatch, composer: Composer, graph: Graph, source: int, target: int, around: Around
    ) -> None:
        free, after = graph.node(), graph.node()
        graph.epsilon(source, free)
        patterns = tuple(pattern for pattern, _ in dispatch.rules)
        begins = _Begins(graph, graph.node(), self._budget)
        for index, (pattern, content) in enumerate(dispatch.rules):
            if isinstance(pattern, str):
                _check_reachable(pattern, (*patterns, *around.ends), f"{dispatch.place}/rules/{index}/0")
            self._write(content, composer, graph, begins.add(pattern), after, around.inner())
        texts = [pattern for pattern in dict.fromkeys(patterns) if isinstance(pattern, str)]
        markers = [begins.marker(text) for text in texts]
        shortcuts = [Shortcut(b"", name.name, node, optional=False) for name, node in begins.tokens.items()]
        for text in texts:
            shortcuts += begins.shortcuts(text)
        self._free_text(graph, free, target, around, dispatch.excludes, markers, shortcuts)
        if dispatch.loop:
            graph.epsilon(after, free)
        else:
            write_ends(graph, after, around.ends, target)

    def _free_text(
        self,
        graph: Graph,
        source: int,
        target: int,
        around: Around,
        excludes: Sequence[str],
        markers: Sequence[Marker] = (),
        shortcuts: Sequence[Shortcut] = (),
        longest: int | None = None,
    ) -> None:
        """Free text, to `target` through one of the ends, if there are any."""
        all_markers, all_shortcuts = list(markers), list(shortcuts)
        for end in around.ends:
            if isinstance(end, f.TokenName):
                all_shortcuts.append(Shortcut(b"", end.name, target, optional=False))
            elif end:
                data = end.encode()
                all_markers.append(Marker(data, target))
                if special_spans(end):
                    path = _Begins(graph, graph.node(), self._budget)
                    graph.epsilon(path.add(end), target)
                    all_shortcuts += path.shortcuts(end)
        excluded = list(excludes) if around.ends else [*excludes, *around.enclosing]
        text = FreeText(all_markers, all_shortcuts, [one.encode() for one in excluded], longest)
        text.write(graph, source, target if not around.ends or "" in around.ends else None, self._budget)

    # -- schemas -------------------------------------------------------------------------------------------------------

    def _schema(self, format_: f.JsonSchema, composer: Composer) -> int:
        """The procedure that reads the values of a schema."""
        whitespace = self._schemas.whitespace
        if format_.whitespace is not None and whitespace != "compact":
            whitespace = format_.whitespace
        key = (repr(format_.schema), format_.style, whitespace)
        found = self._known.get(key)
        if found is None:
            options = replace(self._schemas, whitespace=whitespace)
            with located(format_.place):
                module = self._schema_module(format_, options)
            found = self._known[key] = composer.include(module)
        return found

    def _schema_module(self, format_: f.JsonSchema, options: JsonSchemaOptions) -> Module:
        def warn(warning: SchemaWarning) -> None:
            self._warn(replace(warning, place=moved(format_.place, warning.place)))

        if format_.style == "json":
            return json_schema_module(format_.schema, options=options, budget=self._budget, warn=warn)
        return write_parameters(format_.schema, STYLES[format_.style], options, self._budget, warn)


def write_ends(graph: Graph, source: int, ends: Sequence[f.Edge], target: int) -> None:
    """Read one of the ends, or nothing if there are none."""
    if not ends:
        graph.epsilon(source, target)
    for end in ends:
        if isinstance(end, str):
            write_literal(graph, source, end, target)
        else:
            graph.token(source, [end.name], target)


def _begins_with(begin: f.Edge, trigger: f.Edge) -> bool:
    if isinstance(begin, str) and isinstance(trigger, str):
        return begin.startswith(trigger)
    return begin == trigger


def _check_reachable(text: str, markers: Sequence[f.Edge], place: str) -> None:
    """Refuse a marker that free text never gets to, as another one is complete within it.

    Raises:
        SourceError: names both.
    """
    for other in markers:
        if isinstance(other, str) and other and text.find(other) >= 0 and text.find(other) + len(other) < len(text):
            raise SourceError(
                f"{text!r} is never read in free text: {other!r} is read in it first", place=place,
                hint="give markers of which none is within another",
            )  # fmt: skip


class _Begins:
    """The trie of what tags begin with, as nodes of a graph: what several have in common is written once."""

    def __init__(self, graph: Graph, root: int, budget: Budget) -> None:
        self._graph = graph
        self._root = root
        self._budget = budget
        self._children: dict[tuple[int, int], int] = {}
        self._special: dict[int, dict[str, int]] = {}  # per node, the special tokens that may be read there
        self.tokens: dict[f.TokenName, int] = {}

    def add(self, begin: f.Edge) -> int:
        """The node behind a text or token."""
        if isinstance(begin, f.TokenName):
            if begin not in self.tokens:
                self.tokens[begin] = self._graph.node()
                self._graph.token(self._root, [begin.name], self.tokens[begin])
            return self.tokens[begin]
        data = begin.encode()
        self._budget.spend("states", len(data))
        nodes = [self._root]
        for byte in data:
            there = self._children.get((nodes[-1], byte))
            if there is None:
                there = self._children[nodes[-1], byte] = self._graph.node()
                self._graph.byte(nodes[-1], byte, byte, there)
            nodes.append(there)
        for first, last, name in special_spans(begin):
            known = self._special.setdefault(nodes[first], {})
            if name not in known:
                known[name] = nodes[last]
                self._graph.token(nodes[first], [name], nodes[last], optional=True)
        return nodes[-1]

    def marker(self, text: str) -> Marker:
        """The beginning of tags that is a trigger. If no tag begins so, it leads nowhere."""
        here = self._root
        for byte in text.encode():
            there = self._children.get((here, byte))
            here = self._graph.node() if there is None else there
        return Marker(text.encode(), here)

    def shortcuts(self, trigger: str) -> Iterator[Shortcut]:
        """The special tokens that may be read where part of a trigger has been read."""
        data = trigger.encode()
        here = self._root
        for length, byte in enumerate(data):
            for name, target in self._special.get(here, {}).items():
                yield Shortcut(data[:length], name, target)
            if (here, byte) not in self._children:
                return
            here = self._children[here, byte]
