"""Terminals: each one a regular language over code points, worked out once.

A terminal is composed from texts, patterns and other terminals as one pattern, as Lark does it, so that assertions
and lazy quantifiers see all of it. What stands around a terminal in a text is not seen.
"""

from __future__ import annotations

import json
from itertools import groupby, islice

from lark import Token, Tree

from schemac.budget import Budget
from schemac.errors import SourceError, UnsupportedError
from schemac.frontend.grammar import Notes
from schemac.frontend.grammar.substrings import substring_language
from schemac.frontend.lark.attributes import Attributes
from schemac.frontend.lark.definitions import Definition, Definitions, Scope, tokens_of
from schemac.frontend.lark.folding import counts, fold
from schemac.frontend.lark.ignored import first_characters
from schemac.frontend.lark.lexer import Inline
from schemac.frontend.lark.literals import has_bare_alternatives, pattern_node, range_node, string_value, text_node
from schemac.frontend.lark.outside import looks_outside
from schemac.frontend.lark.shortest import before_marker, shortest_texts
from schemac.frontend.lark.syntax import Node
from schemac.frontend.regex import ast, counted_module, each_once, lower
from schemac.frontend.regex.ast import Chars, Concat
from schemac.frontend.regex.lazy import without_lazy
from schemac.ir.charset import CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Module


class Terminals:
    """Works out terminals on demand."""

    def __init__(self, definitions: Definitions, budget: Budget, notes: Notes, *, strict: bool = False) -> None:
        self._definitions = definitions.by_name
        attributes = [definition.attributes for definition in definitions.by_name.values()]
        self._counts = not strict and not any(of and (of.lazy or of.marker is not None) for of in attributes)
        self._budget = budget
        self._notes = notes
        self._nodes: dict[str, ast.Node] = {}
        self._languages: dict[str, Dfa] = {}
        #: Terminals that were named in others.
        self.used: set[str] = set()

    def definition(self, name: str, scope: Scope, token: Token) -> Definition:
        """The terminal of that name (as the whole grammar knows it).

        Raises:
            SourceError: there is none.
        """
        found = self._definitions.get(name)
        if found is None:
            raise scope.source.wrong("there is no such terminal", token.start_pos or 0, construct=str(token))
        return found

    def node(self, name: str) -> ast.Node:
        """The pattern of a defined terminal.

        Raises:
            SourceError: it is defined by way of itself, or refers to a rule.
            UnsupportedError: it is declared only.
        """
        pending = [name]
        opened: set[str] = set()
        while pending:
            here = pending[-1]
            definition = self._definitions[here]
            if here in self._nodes:
                pending.pop()
            elif here in opened:  # what it refers to has been worked out
                self._nodes[here] = ast.alternate([self.pattern(*body) for body in definition.bodies])
                opened.remove(here)
                pending.pop()
            else:
                opened.add(here)
                for inner in self._inner_names(definition):
                    if inner in opened:
                        raise SourceError(
                            "this terminal is defined by way of itself",
                            place=definition.place,
                            construct=here,
                            hint="recursion is for rules",
                        )
                    pending.append(inner)
        return self._nodes[name]

    def _inner_names(self, definition: Definition) -> list[str]:
        """The terminals that a terminal refers to."""
        if not definition.bodies:
            raise UnsupportedError(
                "this terminal is declared only, for a lexer callback or postlex to make (as indentation is)",
                place=definition.place,
                construct=definition.name,
            )
        names = []
        for body, scope in definition.bodies:
            for token in tokens_of(body):
                if token.type == "TERMINAL" and str(token) not in scope.inlines:
                    name = scope.name(token)
                    self.definition(name, scope, token)
                    self.used.add(name)
                    names.append(name)
        return names

    def pattern(self, body: Node, scope: Scope) -> ast.Node:
        """The pattern of the right-hand side of a terminal; all terminals in it have been worked out."""

        def leaf(node: Node) -> ast.Node:
            tokens = list(tokens_of(node))
            if node.data == "terminal" and str(tokens[0]) not in scope.inlines:
                return self._nodes[scope.name(tokens[0])]
            return self.literal(node, scope)

        def inner(node: Node, values: list[ast.Node]) -> ast.Node:
            if node.data == "alias":
                raise scope.source.wrong("aliases are for rules", next(tokens_of(node)).start_pos or 0)
            if node.data == "expansions":
                return ast.alternate(values)
            if node.data == "expansion":
                if len(values) > 1:
                    self._note_joined(node, scope)
                return ast.concat(values)
            if node.data == "maybe":
                return ast.repeat(values[0], 0, 1)
            return ast.repeat(values[0], *counts(node, scope.source))

        return fold(body, leaf, inner)

    def _note_joined(self, node: Node, scope: Scope) -> None:
        """Report patterns that Lark would join to their neighbours as they are written: ``/a|b/ "c"`` as ``a|bc``."""
        for child in node.children:
            inside = child.children[0] if isinstance(child, Tree) and child.data == "value" else None
            if not isinstance(inside, Tree) or inside.data != "literal" or scope.prefix:
                continue
            token = next(tokens_of(inside))
            if token.type == "REGEXP" and has_bare_alternatives(str(token)):
                self._notes.note(
                    "these alternatives end where the pattern does; in Lark they would go on",
                    scope.source.place(token.start_pos or 0),
                    str(token)[:40],
                    "put them in parentheses",
                )

    def literal(self, node: Node, scope: Scope) -> ast.Node:
        """The pattern of a text, a pattern literal, a range or an inline expression.

        Raises:
            SourceError: it is a rule.
        """
        token, *more = tokens_of(node)
        begin = token.start_pos or 0
        if node.data == "range":
            return range_node(scope.source, begin, str(token), str(more[0]))
        if node.data == "literal" and token.type == "STRING":
            text, ignore_case = string_value(scope.source, begin, str(token))
            return text_node(text, ignore_case=ignore_case)
        if node.data == "literal":
            return pattern_node(scope.source, begin, str(token))
        if str(token) in scope.inlines:
            raise scope.source.unsupported(
                "this cannot be a part of a terminal", begin, begin + 6, hint="use it in a rule"
            )
        raise scope.source.wrong(
            "a terminal is made of texts, patterns and terminals", begin, construct=str(token), hint="use a rule"
        )

    # -- languages ----------------------------------------------------------------------------------------------

    def language(self, name: str) -> Dfa:
        """The language of a defined terminal."""
        found = self._languages.get(name)
        if found is None:
            definition = self._definitions[name]
            inline = _only_inline(definition)
            if inline is not None:
                found = inline_language(inline, self._budget)
            else:
                found = self.lower(self.node(name), definition.place, name)
            self._languages[name] = found
        return found

    def lower(self, node: ast.Node, place: str, construct: str) -> Dfa:
        """The language of a pattern."""
        if looks_outside(node):
            self._notes.note(
                "this asks what stands around the terminal, and only the terminal itself is looked at",
                place,
                construct[:40],
                "leave out the assertion at its end",
            )
        with self._budget.at(place):
            language = lower(without_lazy(node, place=place), search=False, budget=self._budget, place=place)
        if language.is_empty:
            self._notes.note("no text matches this", place, construct[:40])
        return language

    def counted(self, node: ast.Node, place: str, construct: str) -> tuple[Module, CharSet] | None:
        """(the module of a pattern with large repetitions, what its texts begin with).

        None if nothing is counted, and where languages of terminals are taken apart or compared.
        """
        if not self._counts:
            return None
        tree = without_lazy(node, place=place)
        module = counted_module(tree, construct, budget=self._budget, place=place)
        if module is None:
            return None
        once = lower(each_once(tree), search=False, budget=self._budget, place=place)
        return module, first_characters(once)

    def rule_language(self, definition: Definition, attributes: Attributes) -> Dfa:
        """The language of a rule with the attribute lazy, suffix or stop; its body is like a terminal."""
        source = definition.scope.source
        bodies = []
        for body, scope in definition.bodies:
            self.work_out(body, scope)
            bodies.append(self.pattern(body, scope))
        language = self.lower(ast.alternate(bodies), definition.place, definition.name)
        if attributes.marker is None:
            return shortest_texts(language, self._budget)
        begin, text = attributes.marker
        scope = definition.scope
        if text.startswith('"'):
            value, ignore_case = string_value(source, begin, text)
            marker_node = text_node(value, ignore_case=ignore_case)
        elif text.startswith("/"):
            marker_node = pattern_node(source, begin, text)
        else:
            name = scope.name(text)
            self.definition(name, scope, Token("TERMINAL", text, begin))
            self.used.add(name)
            marker_node = self.node(name)
        marker = self.lower(marker_node, source.place(begin), text)
        whole = shortest_texts(language.concat(marker, budget=self._budget), self._budget)
        return whole if attributes.keeps_marker else before_marker(whole, marker, self._budget)

    def work_out(self, body: Node, scope: Scope) -> None:
        """Work out the terminals that `pattern` will meet in a body."""
        for token in tokens_of(body):
            if token.type == "TERMINAL" and str(token) not in scope.inlines:
                name = scope.name(token)
                self.definition(name, scope, token)
                self.used.add(name)
                self.node(name)


def _only_inline(definition: Definition) -> Inline | None:
    """The ``%regex {...}`` that a terminal consists of, if that is all."""
    if len(definition.bodies) != 1:
        return None
    body, scope = definition.bodies[0]
    tokens = list(islice(tokens_of(body), 2))
    node = body
    while len(node.children) == 1 and isinstance(node.children[0], Tree):
        node = node.children[0]
    plain = len(tokens) == 1 and node.data == "terminal"
    return scope.inlines.get(str(tokens[0])) if plain else None


def literal_text(node: ast.Node) -> str | None:
    """The text that a pattern stands for, if it is one text."""
    parts = node.parts if isinstance(node, Concat) else (node,)
    chars = []
    for part in parts:
        if not isinstance(part, Chars) or len(part.symbols) != 1:
            return None
        chars.append(chr(part.symbols.ranges[0][0]))
    return "".join(chars)


def inline_language(inline: Inline, budget: Budget) -> Dfa:
    """``%regex {"substring_chunks": [...]}`` and its kin: any number of neighbouring chunks."""
    try:
        value = json.loads(inline.text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"not JSON: {error}", place=inline.place, construct="%regex") from None
    kind, given = next(iter(value.items()), ("", None)) if isinstance(value, dict) and len(value) == 1 else ("", None)
    if kind == "substring_chunks" and isinstance(given, list) and all(isinstance(part, str) for part in given):
        return substring_language(given, budget)
    if kind == "substring_chars" and isinstance(given, str):
        return substring_language(list(given), budget)
    if kind == "substring_words" and isinstance(given, str):
        return substring_language(["".join(run) for _, run in groupby(given, _word_class)], budget)
    hint = "substring_chunks, substring_words and substring_chars are"
    raise UnsupportedError("this is not known", place=inline.place, construct="%regex", hint=hint)


def _word_class(char: str) -> int:
    """Words, white space and the rest are chunks of their own."""
    return 0 if char.isalnum() or char == "_" else 1 if char.isspace() else 2
