"""From rules to a module: every rule becomes a procedure, and so does a large part that is repeated."""

from __future__ import annotations

from collections.abc import Mapping

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.compose import Composer
from schemac.frontend.grammar.expression import (
    Characters,
    Choice,
    Embedded,
    Expression,
    Language,
    Reference,
    Repeat,
    Rule,
    Sequence,
    Text,
    Tokens,
    is_counted,
)
from schemac.frontend.grammar.source import Notes
from schemac.ir.charset import CODE_POINTS, CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Graph, Module
from schemac.ir.passes.repetitions import repetition
from schemac.ir.passes.trim import productive_procedures
from schemac.ir.utf8 import utf8_language

#: A part that takes more nodes than this is repeated by calls, not by copies.
_COPY_SIZE = 12


def grammar_module(rules: Mapping[str, Rule], root: str, budget: Budget, notes: Notes) -> Module:
    """The module of a grammar; `root` is one of its rules.

    Raises:
        SourceError: a rule that nobody defines is referred to.
        BudgetExceeded: `procedures`, `states`, `regex_states`.
    """
    _check_references(rules)
    with budget.at(rules[root].place):
        return _Lowering(rules, budget).module(root, notes)


class _Lowering:
    def __init__(self, rules: Mapping[str, Rule], budget: Budget) -> None:
        self._rules = rules
        self._budget = budget
        self._composer = Composer(budget)
        self._number: dict[str, int] = {}
        self._pending: list[tuple[int, Expression, str, str]] = []  # (procedure, expression, name, place)
        self._repeated: dict[int, int] = {}  # id of an expression -> its procedure
        self._loops: dict[tuple[int, int, int | None], int] = {}  # (procedure, low, high) -> its counted repetition
        self._encoded: dict[CharSet | Dfa, Dfa] = {}  # languages over code points -> over bytes
        self._name = ""

    def module(self, root: str, notes: Notes) -> Module:
        self._rule(root)
        done: list[tuple[int, str, str]] = []  # languages have been looked at by those who made them
        for procedure, expression, name, place in self._pending:  # grows while we walk it
            graph = Graph()
            end = graph.node()
            graph.final(end)
            self._name = name
            self._write(graph, expression, graph.start, end, place)
            self._composer.define(procedure, graph)
            if not isinstance(expression, Language):
                done.append((procedure, name, place))
        for name, rule in self._rules.items():
            if name not in self._number and not rule.used:
                notes.note("this rule is never used", rule.place, name)
        module = self._composer.build()
        productive = productive_procedures(module)
        if productive[0]:
            for procedure, name, place in done:
                if not productive[procedure] and self._number.get(name) == procedure:
                    notes.note("no text satisfies this rule", place, name, "it can only go on forever")
        return module

    def _rule(self, name: str) -> int:
        number = self._number.get(name)
        if number is None:
            rule = self._rules[name]
            number = self._number[name] = self._composer.declare(rule.name, rule.place)
            self._pending.append((number, rule.body, name, rule.place))
        return number

    def _write(self, graph: Graph, expression: Expression, source: int, target: int, place: str) -> None:
        """Let the graph read `expression` between two nodes; adds no edge into `source` or out of `target`."""
        budget = self._budget
        tasks = [(expression, source, target)]
        while tasks:
            expression, source, target = tasks.pop()
            if isinstance(expression, Text):
                data = expression.text.encode()
                budget.spend("states", len(data), place=place)
                graph.literal(source, data, target)
            elif isinstance(expression, Characters):
                self._write_language(graph, expression.symbols, source, target)
            elif isinstance(expression, Language):
                self._write_language(graph, expression.dfa, source, target)
            elif isinstance(expression, Reference):
                rule = self._rules[expression.name]
                if rule.inline:
                    tasks.append((rule.body, source, target))
                else:
                    graph.call(source, self._rule(expression.name), target)
            elif isinstance(expression, Tokens):
                graph.token(source, expression.labels, target)
            elif isinstance(expression, Embedded):
                graph.call(source, self._composer.include(expression.module), target)
            elif isinstance(expression, Sequence):
                budget.spend("states", len(expression.parts), place=place)
                nodes = [source, *(graph.node() for _ in expression.parts[1:]), target]
                tasks += [(part, nodes[i], nodes[i + 1]) for i, part in reversed(list(enumerate(expression.parts)))]
            elif isinstance(expression, Choice):
                budget.spend("branches", len(expression.parts), place=place)
                tasks += [(part, source, target) for part in reversed(expression.parts)]
            else:
                self._write_repeat(graph, expression, source, target, tasks)

    def _write_repeat(
        self,
        graph: Graph,
        repeat: Repeat,
        source: int,
        target: int,
        tasks: list[tuple[Expression, int, int]],
    ) -> None:
        body, low, high = repeat.body, repeat.low, repeat.high
        if is_counted(body, low, high):
            if low == 0:
                graph.epsilon(source, target)
            graph.call(source, self._counted(repeat), target)
            return
        copies = low + 1 if high is None else high
        self._budget.spend("states", 2 * copies, place=repeat.place)
        if isinstance(body, Characters) and high is not None:
            runs = Dfa.runs(body.symbols, low, high, CODE_POINTS, budget=self._budget)
            self._write_language(graph, runs, source, target)
            return
        procedure = None
        if copies > 1 and body.size > _COPY_SIZE:
            procedure = self._procedure(repeat)
        here = graph.node()
        graph.epsilon(source, here)
        for count in range(copies):
            if count >= low and high is not None:
                graph.epsilon(here, target)
            there = here if high is None and count == low else graph.node()
            if procedure is None:
                tasks.append((body, here, there))
            else:
                graph.call(here, procedure, there)
            here = there
        graph.epsilon(here, target)

    def _procedure(self, repeat: Repeat) -> int:
        """The procedure that reads the body of a repetition once."""
        body = repeat.body
        procedure = self._repeated.get(id(body))
        if procedure is None:
            procedure = self._repeated[id(body)] = self._composer.declare(self._name, repeat.place)
            self._pending.append((procedure, body, self._name, repeat.place))
        return procedure

    def _counted(self, repeat: Repeat) -> int:
        """The procedure that reads a repetition, at least once, and whose guard counts."""
        key = self._procedure(repeat), repeat.low, repeat.high
        loop = self._loops.get(key)
        if loop is None:
            loop = self._loops[key] = self._composer.declare(self._name, repeat.place)
            self._composer.define(loop, *repetition(*key))
        return loop

    def _write_language(self, graph: Graph, language: CharSet | Dfa, source: int, target: int) -> None:
        """Read a text of a language over code points, or one character of a set."""
        if isinstance(language, CharSet) and language and language.ranges[-1][1] < 128:
            for low, high in language:
                graph.byte(source, low, high, target)
            return
        encoded = self._encoded.get(language)
        if encoded is None:
            dfa = language if isinstance(language, Dfa) else Dfa.symbols(language, CODE_POINTS)
            encoded = self._encoded[language] = utf8_language(dfa, self._budget)
        self._budget.spend("states", encoded.size)
        graph.language(source, encoded, target)


def _check_references(rules: Mapping[str, Rule]) -> None:
    for rule in rules.values():
        stack: list[Expression] = [rule.body]
        while stack:
            expression = stack.pop()
            if isinstance(expression, Reference):
                if expression.name not in rules:
                    raise SourceError("there is no such rule", place=expression.place, construct=expression.name)
            elif isinstance(expression, (Sequence, Choice)):
                stack += reversed(expression.parts)
            elif isinstance(expression, Repeat):
                stack.append(expression.body)
