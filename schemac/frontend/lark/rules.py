"""Rules: from Lark's syntax trees to expressions, with ignored terminals woven in and templates filled in."""

from __future__ import annotations

from dataclasses import dataclass

from lark import Token

from schemac.budget import Budget
from schemac.errors import SourceError, UnsupportedError
from schemac.frontend.grammar import Notes, Rule
from schemac.frontend.grammar import expression as ex
from schemac.frontend.json_schema import JsonSchemaOptions, json_schema_module
from schemac.frontend.lark.definitions import Definition, Definitions, Scope, tokens_of
from schemac.frontend.lark.folding import counts, fold
from schemac.frontend.lark.ignored import first_characters
from schemac.frontend.lark.lexemes import Lexeme, Lexemes
from schemac.frontend.lark.lexer import Inline
from schemac.frontend.lark.syntax import Node
from schemac.frontend.lark.terminals import Terminals, inline_language, literal_text
from schemac.frontend.located import located
from schemac.frontend.regex import ast
from schemac.ir.charset import CharSet
from schemac.ir.dfa import Dfa

#: The name of the rule that the whole text matches; no rule of a Lark grammar has such a name.
ROOT = "%start"
_JSON_STARTS = CharSet.of(*b'{["-tfn', (0x30, 0x39))
_MAX_TEMPLATE_NAME = 1_000


@dataclass(frozen=True, slots=True)
class _Instance:
    """A rule to be made: a definition, with the arguments of its parameters."""

    name: str
    definition: Definition
    arguments: dict[str, tuple[str, ex.Expression]]  # parameter -> (how it is written, what it is)


class Rules:
    """Makes the rules that a start rule needs.

    Args:
        definitions: all there are.
        options: for JSON Schemas in the grammar.
    """

    def __init__(
        self,
        definitions: Definitions,
        terminals: Terminals,
        budget: Budget,
        notes: Notes,
        options: JsonSchemaOptions,
    ) -> None:
        self._definitions = definitions.by_name
        self._terminals = terminals
        self._budget = budget
        self._notes = notes
        self._options = options
        self._pending: list[_Instance] = []
        self._made: set[str] = set()
        self._embedded: dict[str, ex.Expression] = {}
        self.rules: dict[str, Rule] = {}
        self.lexemes = Lexemes(definitions.ignored, terminals, budget)

    def make(self, start: str) -> dict[str, Rule]:
        """All rules that are needed, and those of the grammar itself that are not; the root is `ROOT`.

        Raises:
            SourceError, UnsupportedError, BudgetExceeded: see `lark_module`.
        """
        place = self._definitions[start].place
        self._need(start, self._definitions[start], {})
        self._finish()
        needed = set(self._made) | self._terminals.used
        for name, definition in self._definitions.items():
            if definition.scope.prefix or definition.scope.source.name or name in needed:
                continue
            what = "terminal" if definition.terminal else "rule"
            self._notes.note(f"this {what} is never used", definition.place, name)
            if definition.terminal:
                if definition.bodies:
                    self._terminals.language(name)
            elif not definition.parameters:
                self._need(name, definition, {})  # so that what is wrong with it is found
        self._finish()
        self.rules |= self.lexemes.rules(ROOT, ex.Reference(start, place))
        return self.rules

    def _finish(self) -> None:
        for instance in self._pending:  # grows while we walk it
            self._budget.spend("procedures", place=instance.definition.place)
            self._define(instance)
        self._pending = []

    # -- definitions --------------------------------------------------------------------------------------------

    def _need(self, name: str, definition: Definition, arguments: dict[str, tuple[str, ex.Expression]]) -> None:
        if name not in self._made:
            self._made.add(name)
            self._pending.append(_Instance(name, definition, arguments))

    def _define(self, instance: _Instance) -> None:
        definition = instance.definition
        attributes = definition.attributes
        for name in attributes.quiet if attributes else ():
            self._notes.note("this attribute constrains nothing", definition.place, name)
        if attributes is not None and (attributes.lazy or attributes.marker is not None):
            language = self._terminals.rule_language(definition, attributes)
            commits = attributes.marker is None or attributes.keeps_marker
            body: ex.Expression = self._lexeme(f"{instance.name} as a lexeme", definition.place, language, lazy=commits)
        else:
            body = self._body(instance)
        self.rules[instance.name] = Rule(instance.name, definition.place, body, used=True)

    def _lexeme(self, name: str, place: str, language: Dfa, *, lazy: bool = False) -> ex.Expression:
        first = first_characters(language)
        return self.lexemes.add(Lexeme(name, place, ex.language(language), first, language, lazy))

    def _text(self, name: str, place: str, text: str) -> ex.Expression:
        return self.lexemes.add(Lexeme(name, place, ex.text(text), CharSet.of(*map(ord, text[:1]))))

    def _terminal(self, name: str, definition: Definition) -> ex.Expression:
        """A use of a named terminal."""
        self._made.add(name)
        if name in self.lexemes:
            return self.lexemes.use(name, definition.place)
        text = literal_text(self._terminals.node(name)) if self._is_pattern(definition) else None
        if text is not None:
            return self._text(name, definition.place, text)
        if self._is_pattern(definition):
            return self._pattern(name, definition.place, self._terminals.node(name), name)
        return self._lexeme(name, definition.place, self._terminals.language(name))

    def _pattern(self, name: str, place: str, node: ast.Node, terminal: str | None = None) -> ex.Expression:
        """A use of a pattern; `terminal` is its name if it has one."""

        def language() -> Dfa:
            return self._terminals.lower(node, place, name) if terminal is None else self._terminals.language(terminal)

        counted = self._terminals.counted(node, place, name)
        if counted is None:
            return self._lexeme(name, place, language())
        module, first = counted
        return self.lexemes.add(Lexeme(name, place, ex.Embedded(module), first, written_out=language))

    @staticmethod
    def _is_pattern(definition: Definition) -> bool:
        return not any(str(token) in scope.inlines for body, scope in definition.bodies for token in tokens_of(body))

    def _body(self, instance: _Instance) -> ex.Expression:
        definition = instance.definition
        if not definition.bodies:
            raise UnsupportedError("this rule is declared only", place=definition.place, construct=instance.name)
        return ex.choice([self._expression(body, scope, instance) for body, scope in definition.bodies])

    def _expression(self, body: Node, scope: Scope, instance: _Instance) -> ex.Expression:
        def leaf(node: Node) -> ex.Expression:
            return self._leaf(node, scope, instance)[1]

        def inner(node: Node, values: list[ex.Expression]) -> ex.Expression:
            if node.data == "alias":
                return values[0]
            if node.data == "expansions":
                return ex.choice(values)
            if node.data == "expansion":
                return ex.sequence(values)
            if node.data == "maybe":
                return ex.repeat(values[0], 0, 1, instance.definition.place)
            operator = next(child for child in node.children if isinstance(child, Token))
            place = scope.source.place(operator.start_pos or 0)
            return ex.repeat(values[0], *counts(node, scope.source), place)

        return fold(body, leaf, inner)

    @staticmethod
    def _place(node: Node, scope: Scope) -> str:
        return scope.source.place(next((token.start_pos or 0 for token in tokens_of(node)), 0))

    # -- values -------------------------------------------------------------------------------------------------

    def _leaf(self, node: Node, scope: Scope, instance: _Instance) -> tuple[str, ex.Expression]:
        """(how it is written, what it is) of a name, a literal, a range, a use of a template."""
        if node.data == "template_usage":
            return self._template(node, scope, instance)
        token = next(tokens_of(node))
        written = str(token)
        inline = scope.inlines.get(written)
        if inline is not None:
            return written, self._inline(inline)
        place = scope.source.place(token.start_pos or 0)
        if node.data == "nonterminal":
            if written in instance.arguments:
                return instance.arguments[written]
            name = scope.name(token)
            definition = self._definitions.get(name)
            if definition is None:
                raise scope.source.wrong("there is no such rule", token.start_pos or 0, construct=written)
            if definition.parameters:
                raise scope.source.wrong("this template needs arguments", token.start_pos or 0, construct=written)
            self._need(name, definition, {})
            return name, ex.Reference(name, place)
        if node.data == "terminal":
            name = scope.name(token)
            return name, self._terminal(name, self._terminals.definition(name, scope, token))
        return self._literal(node, scope)

    def _literal(self, node: Node, scope: Scope) -> tuple[str, ex.Expression]:
        """A use of a literal."""
        written = "..".join(map(str, tokens_of(node)))
        place = self._place(node, scope)
        if written in self.lexemes:
            return written, self.lexemes.use(written, place)
        pattern = self._terminals.literal(node, scope)
        text = literal_text(pattern)
        if text is not None:
            return written, self._text(written, place, text)
        return written, self._pattern(written, place, pattern)

    def _inline(self, inline: Inline) -> ex.Expression:
        found = self._embedded.get(inline.place)
        if found is None:
            name = f"%{inline.kind} at {inline.place}"
            if inline.tokens is not None:
                found = self.lexemes.add(Lexeme(name, inline.place, inline.tokens, CharSet()))
            elif inline.kind == "json":
                found = self.lexemes.add(Lexeme(name, inline.place, self._json(inline), _JSON_STARTS))
            else:
                found = self._lexeme(name, inline.place, inline_language(inline, self._budget))
            self._embedded[inline.place] = found
        return found

    def _json(self, inline: Inline) -> ex.Expression:
        def warn(warning: object) -> None:
            self._notes.note("in this JSON Schema: " + str(warning), inline.place, "%json")

        with located(inline.place):
            module = json_schema_module(inline.text, options=self._options, budget=self._budget, warn=warn)
        return ex.Embedded(module)

    def _template(self, root: Node, scope: Scope, instance: _Instance) -> tuple[str, ex.Expression]:
        """A use of a template, whose arguments may be uses of templates themselves."""
        tasks: list[tuple[Node, bool]] = [(root, False)]
        done: list[tuple[str, ex.Expression]] = []
        while tasks:
            node, ready = tasks.pop()
            if node.data == "value":
                node = _child(node)
            if node.data != "template_usage":
                done.append(self._leaf(node, scope, instance))
                continue
            arguments = [_child_at(node, index) for index in range(1, len(node.children))]
            if not ready:
                tasks.append((node, True))
                tasks += [(argument, False) for argument in reversed(arguments)]
                continue
            first = len(done) - len(arguments)
            values = done[first:]
            del done[first:]
            done.append(self._instance(next(tokens_of(_child(node))), values, scope, instance))
        return done[0]

    def _instance(
        self, token: Token, values: list[tuple[str, ex.Expression]], scope: Scope, instance: _Instance
    ) -> tuple[str, ex.Expression]:
        begin = token.start_pos or 0
        local = str(token)
        # A template may be given as an argument.
        name = instance.arguments[local][0] if local in instance.arguments else scope.name(local)
        definition = self._definitions.get(name)
        if definition is None or not definition.parameters:
            raise scope.source.wrong("there is no such template", begin, construct=local)
        if len(definition.parameters) != len(values):
            reason = f"this template takes {len(definition.parameters)} arguments, not {len(values)}"
            raise scope.source.wrong(reason, begin, construct=local)
        whole = f"{name}{{{','.join(written for written, _ in values)}}}"
        if len(whole) > _MAX_TEMPLATE_NAME:
            raise scope.source.unsupported("these templates use each other without end", begin, construct=local)
        self._made.add(name)
        self._need(whole, definition, dict(zip(definition.parameters, values, strict=True)))
        return whole, ex.Reference(whole, scope.source.place(begin))


def _child(node: Node) -> Node:
    return _child_at(node, 0)


def _child_at(node: Node, index: int) -> Node:
    child = node.children[index]
    assert not isinstance(child, Token)
    return child


def check_start(definitions: Definitions, start: str) -> None:
    """Raise `SourceError` unless there is a rule to start from."""
    found = definitions.by_name.get(start)
    if found is None or found.terminal or found.parameters:
        names = [name for name, d in definitions.by_name.items() if not d.terminal and not d.scope.prefix]
        hint = f"the first rule is {names[0]!r}" if names else f"write {start}: ..."
        raise SourceError(f"there is no rule {start!r} to start from", place="1:1", construct=start, hint=hint)
