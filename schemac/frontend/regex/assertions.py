r"""Patterns with lookaround and word boundaries at any place, exactly.

Reading a text from left to right, all that an assertion can ask about what has been read is answered by *trackers*:
automata that run over the whole text from its start. What it asks about the rest becomes an *obligation*: the language
in which the rest must be, kept beside the node that the match has reached and stepped along with it. A match in
progress is thus a *configuration*, a node and a set of obligations; a state of the result is the states of all
trackers and a set of configurations, of which one must get through.

    (?<!b)a\b          trackers: "ends in b", "ends in a word character"
    at "a|"            configuration (end, {rest is empty or starts with a non-word character})

Bodies of lookarounds may hold assertions themselves. Then the language of a lookahead depends on the states of the
trackers at its place, and a lookbehind runs as a set of configurations, whose open obligations become a language of
the rest. Alternating automata (Chandra, Kozen and Stockmeyer, JACM 28(1), 1981) do the same with less bookkeeping and
more states.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from schemac.budget import Budget
from schemac.frontend.regex import ast
from schemac.frontend.regex.ast import Alternation, Anchor, Chars, Concat, Look, Node, Repeat
from schemac.frontend.regex.thompson import Facts, Thompson, survey
from schemac.ir.charset import CODE_POINTS, SCALARS, CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.minimize import IntArray, Table
from schemac.ir.nfa import Nfa, symbol_classes

Obligation = tuple[int, int]  # (number of a language, state in it)
Obligations = frozenset[Obligation]
Configuration = tuple[int, Obligations]
Configurations = frozenset[Configuration]
Trackers = tuple["int | Configurations", ...]

_NONE: Obligations = frozenset()
_ANY_TEXT = ast.repeat(Chars(SCALARS), 0, None)


def assertion_language(root: Node, facts: Facts, budget: Budget) -> Dfa:
    """The texts that match a surveyed tree as a whole."""
    return _Assertions(root, facts, budget).language(root)


@dataclass(slots=True)
class _Machine:
    """A tree as an automaton with guards on edges."""

    nfa: Nfa
    edges: list[list[tuple[int, int]]]  # per node: (bits of symbols, target)
    epsilons: list[list[int]]
    guards: dict[int, list[tuple[Guard, int]]]
    end: int
    absorbing: bool  # whether anything may follow a match
    relevant: tuple[int, ...]  # the trackers that the guards ask, ascending
    starts: dict[Trackers, Configurations]


@dataclass(frozen=True, slots=True)
class _Behind:
    """Holds if tracker `index` says so (or, `negative`, does not)."""

    index: int
    negative: bool


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Holds if the rest is in the language of machine `index` (or, `negative`, is not)."""

    index: int
    negative: bool


Guard = _Behind | _Ahead


class _Assertions:
    """All that belongs to one pattern. Symbols are classes of characters that no set of the pattern tells apart."""

    def __init__(self, root: Node, facts: Facts, budget: Budget) -> None:
        self.facts = facts
        self.budget = budget
        sets = _character_sets(root)
        self.starts, self.classes, members = symbol_classes([*sets, SCALARS], CODE_POINTS)
        inside = np.flatnonzero(members[-1])
        self.renumber = np.full(members.shape[1] + 1, -1, np.int32)
        self.renumber[inside] = np.arange(len(inside))
        self.width = len(inside)
        self.encoded = {
            symbols: CharSet.of(*np.flatnonzero(row[inside]).tolist())
            for symbols, row in zip([*sets, SCALARS], members, strict=True)
        }
        # A tracker is a language of prefixes, or a machine whose end is to be reached.
        self.trackers: list[Dfa | _Machine] = []
        self.tracker_rows: list[list[list[int]]] = []
        self.machines: list[_Machine] = []
        self.known_trackers: dict[Dfa, int] = {}
        self.languages: list[Dfa] = []
        self.rows: list[list[list[int]]] = []  # per language and state: next states
        self.accepting: list[list[bool]] = []
        self.whole: list[int] = []  # per language: the state that accepts everything, or -1
        self.numbers: dict[Dfa, int] = {}
        self.ahead_memo: dict[tuple[int, bool, Trackers], int] = {}
        self.behind_memo: dict[tuple[int, bool, Configurations], int] = {}

    def language(self, root: Node) -> Dfa:
        """The texts that match `root` as a whole, over code points."""
        machine = self.machine(root, absorbing=False)
        found = self.determinize(machine, self.initial(machine.relevant))
        dead = np.full(found.size, -1, np.int32)
        table = np.column_stack([found.table[:, found.classes[self._positions(found)]], dead])
        classes = self.renumber[self.classes].copy()
        classes[classes < 0] = self.width
        return Dfa.from_table(CODE_POINTS, Table(self.starts, classes, table.astype(np.int32), found.accepting))

    def _positions(self, dfa: Dfa) -> IntArray:
        """The interval of each symbol."""
        return (np.searchsorted(dfa.starts, np.arange(self.width), "right") - 1).astype(np.int32)

    # -- building -----------------------------------------------------------------------------------------------

    def machine(self, root: Node, absorbing: bool) -> _Machine:
        """Build the automaton of a tree, with its trackers and inner machines."""
        thompson = Thompson(self.width - 1, self.encoded.__getitem__, self.facts, self.budget)
        nfa = thompson.nfa
        end = nfa.node()
        thompson.add(root, nfa.start, end)
        guards: dict[int, list[tuple[Guard, int]]] = {}
        asked: set[int] = set()
        for source, node, target in thompson.guards:
            for path in self.guards(node):
                here = source
                for index, guard in enumerate(path):
                    there = target if index == len(path) - 1 else nfa.node()
                    guards.setdefault(here, []).append((guard, there))
                    here = there
                    asked |= self.asked(guard)
        if absorbing:
            nfa.symbols(end, CharSet(((0, self.width - 1),)), end)
        bits = [sum(((1 << (high - low + 1)) - 1) << low for low, high in label) for label in nfa.labels]
        edges = [[(bits[label], target) for label, target in row] for row in nfa.edges]
        return _Machine(nfa, edges, nfa.epsilons, guards, end, absorbing, tuple(sorted(asked)), {})

    def asked(self, guard: Guard) -> set[int]:
        """The trackers that a guard needs."""
        if isinstance(guard, _Ahead):
            return set(self.machines[guard.index].relevant)
        tracker = self.trackers[guard.index]
        return {guard.index, *(tracker.relevant if isinstance(tracker, _Machine) else ())}

    def guards(self, node: Anchor | Look) -> list[list[Guard]]:
        """An assertion as alternatives of guards that must all hold."""
        if isinstance(node, Look):
            if node.ahead:
                return [[_Ahead(self.ahead(node.body), node.negative)]]
            return [[_Behind(self.behind(node.body), node.negative)]]
        if node.kind == "start":
            return [[_Behind(self.tracker(Dfa.epsilon(self.width - 1)), False)]]
        if node.kind == "end":
            return [[_Ahead(self.ahead(Chars(SCALARS)), True)]]
        chars = Chars(node.symbols)
        after = self.behind(chars)
        if node.kind == "line_start":
            return [[_Behind(self.tracker(Dfa.epsilon(self.width - 1)), False)], [_Behind(after, False)]]
        before = self.ahead(chars)
        if node.kind == "line_end":
            return [[_Ahead(self.ahead(Chars(SCALARS)), True)], [_Ahead(before, False)]]
        same = node.kind == "not_boundary"
        return [
            [_Behind(after, False), _Ahead(before, not same)],
            [_Behind(after, True), _Ahead(before, same)],
        ]

    def ahead(self, body: Node) -> int:
        """The machine of what a lookahead with this body accepts."""
        survey(body, self.facts)
        self.machines.append(self.machine(body, absorbing=True))
        return len(self.machines) - 1

    def behind(self, body: Node) -> int:
        """The tracker of a lookbehind with this body."""
        whole = ast.concat([_ANY_TEXT, body])
        survey(whole, self.facts)
        machine = self.machine(whole, absorbing=False)
        if not machine.guards:
            return self.tracker(self.determinize(machine, ()))
        self.trackers.append(machine)
        self.tracker_rows.append([])
        return len(self.trackers) - 1

    def tracker(self, prefixes: Dfa) -> int:
        """The tracker of a language of prefixes."""
        found = self.known_trackers.get(prefixes)
        if found is None:
            found = self.known_trackers[prefixes] = len(self.trackers)
            self.trackers.append(prefixes)
            self.tracker_rows.append(self._rows(prefixes))
        return found

    def number(self, language: Dfa) -> int:
        """The number of a language for obligations."""
        found = self.numbers.get(language)
        if found is None:
            found = self.numbers[language] = len(self.languages)
            self.languages.append(language)
            rows = self._rows(language)
            self.rows.append(rows)
            self.accepting.append(language.accepting.tolist())
            whole = [
                state for state, row in enumerate(rows) if language.accepting[state] and row == [state] * self.width
            ]
            self.whole.append(whole[0] if whole else -1)
        return found

    def _rows(self, dfa: Dfa) -> list[list[int]]:
        """Next states by state and symbol."""
        rows: list[list[int]] = dfa.table[:, dfa.classes[self._positions(dfa)]].tolist()
        return rows

    # -- running ------------------------------------------------------------------------------------------------

    def initial(self, relevant: tuple[int, ...]) -> Trackers:
        """The trackers at the start of the text."""
        states: dict[int, int | Configurations] = {}
        for index in relevant:
            tracker = self.trackers[index]
            states[index] = self.start(tracker, states) if isinstance(tracker, _Machine) else 0 if tracker.size else -1
        return tuple(states[index] for index in relevant)

    def advance(self, relevant: tuple[int, ...], before: Trackers, symbol: int) -> Trackers:
        """The trackers after one more symbol."""
        states: dict[int, int | Configurations] = {}
        for index, state in zip(relevant, before, strict=True):
            tracker = self.trackers[index]
            if isinstance(state, int):
                states[index] = self.tracker_rows[index][state][symbol] if state >= 0 else -1
            else:
                assert isinstance(tracker, _Machine)
                states[index] = self.closure(tracker, self.move(state, tracker, symbol), states)
        return tuple(states[index] for index in relevant)

    def start(self, machine: _Machine, trackers: dict[int, int | Configurations]) -> Configurations:
        """The configurations of a machine before it has read anything."""
        key = tuple(trackers[index] for index in machine.relevant)
        found = machine.starts.get(key)
        if found is None:
            found = machine.starts[key] = self.closure(machine, [(0, _NONE)], trackers)
        return found

    def move(self, configurations: Configurations, machine: _Machine, symbol: int) -> list[Configuration]:
        """Read one symbol."""
        found: list[Configuration] = []
        bit = 1 << symbol
        stepped: dict[Obligations, Obligations | None] = {}
        for node, obligations in configurations:
            for bits, target in machine.edges[node]:
                if bits & bit:
                    if obligations not in stepped:
                        stepped[obligations] = self.step(obligations, symbol)
                    after = stepped[obligations]
                    if after is not None:
                        found.append((target, after))
        return found

    def step(self, obligations: Obligations, symbol: int) -> Obligations | None:
        """Obligations after one symbol; None if they can no longer be met."""
        if not obligations:
            return obligations
        found = []
        for language, state in obligations:
            after = self.rows[language][state][symbol]
            if after < 0:
                return None
            if after != self.whole[language]:
                found.append((language, after))
        return frozenset(found)

    def closure(
        self, machine: _Machine, configurations: Iterable[Configuration], trackers: dict[int, int | Configurations]
    ) -> Configurations:
        """Follow all edges that read nothing, as far as their guards hold or can become obligations."""
        seen = dict.fromkeys(configurations)
        stack = list(seen)
        answers: dict[Guard, int | bool] = {}
        while stack:
            node, obligations = stack.pop()
            following = [(target, obligations) for target in machine.epsilons[node]]
            for guard, target in machine.guards.get(node, ()):
                answer = answers.get(guard)
                if answer is None:
                    answer = answers[guard] = self.ask(guard, trackers)
                if answer is True:
                    following.append((target, obligations))
                elif answer is not False:
                    following.append((target, obligations | {(answer, 0)}))
            for configuration in following:
                if configuration not in seen:
                    seen[configuration] = None
                    stack.append(configuration)
        self.budget.spend("regex_states", sum([1 + len(some) for _, some in seen]) // 8)
        if machine.absorbing and (machine.end, _NONE) in seen:
            return frozenset(((machine.end, _NONE),))
        kept = [(node, some) for node, some in seen if machine.edges[node] or node == machine.end]
        return _without_stricter(kept, machine.nfa)

    def ask(self, guard: Guard, trackers: dict[int, int | Configurations]) -> int | bool:
        """Whether a guard holds here, or the number of the language in which the rest must be for it to hold."""
        if isinstance(guard, _Behind):
            state = trackers[guard.index]
            if isinstance(state, int):
                tracker = self.trackers[guard.index]
                assert isinstance(tracker, Dfa)
                return (state >= 0 and bool(tracker.accepting[state])) != guard.negative
            key = (guard.index, guard.negative, state)
            if key not in self.behind_memo:
                machine = self.trackers[guard.index]
                assert isinstance(machine, _Machine)
                self.behind_memo[key] = self.number(self._negated(self.rest(machine, state), guard.negative))
            return self._verdict(self.behind_memo[key])
        machine = self.machines[guard.index]
        states = tuple(trackers[index] for index in machine.relevant)
        memo = (guard.index, guard.negative, states)
        if memo not in self.ahead_memo:
            self.ahead_memo[memo] = self.number(self._negated(self.determinize(machine, states), guard.negative))
        return self._verdict(self.ahead_memo[memo])

    def _negated(self, language: Dfa, negative: bool) -> Dfa:
        return language.complement(budget=self.budget) if negative else language

    def _verdict(self, language: int) -> int | bool:
        """A language as a truth value, if it is one."""
        found = self.languages[language]
        return False if found.is_empty else True if found.is_everything else language

    def rest(self, machine: _Machine, configurations: Configurations) -> Dfa:
        """The rests of the text with which a match that has just ended keeps its obligations."""
        result = Dfa.empty(self.width - 1)
        for node, obligations in sorted(configurations, key=lambda item: (item[0], sorted(item[1]))):
            if node == machine.end:
                met = Dfa.everything(self.width - 1)
                for language, state in sorted(obligations):
                    met = met.intersect(self.languages[language].residual(state), budget=self.budget)
                result = result.union(met, budget=self.budget)
        return result

    def determinize(self, machine: _Machine, trackers: Trackers) -> Dfa:
        """The texts that a machine accepts from a place where the trackers it asks are in these states."""
        if not machine.guards:
            machine.nfa.final(machine.end)
            if machine.absorbing:
                machine.nfa.universal.add(machine.end)
            return Dfa.from_nfa(machine.nfa, budget=self.budget)
        relevant = machine.relevant
        first = (trackers, self.start(machine, dict(zip(relevant, trackers, strict=True))))
        number = {first: 0}
        queue = [first]
        rows: list[list[int]] = []
        accepting: list[bool] = []
        for states, configurations in queue:  # grows meanwhile
            self.budget.spend("regex_states", 1)
            accepting.append(
                any(
                    node == machine.end and all(self.accepting[language][state] for language, state in obligations)
                    for node, obligations in configurations
                )
            )
            if configurations == {(machine.end, _NONE)} and machine.absorbing:
                rows.append([len(rows)] * self.width)
                continue
            row = []
            for symbol in range(self.width):
                moved = self.move(configurations, machine, symbol)
                if not moved:
                    row.append(-1)
                    continue
                after = self.advance(relevant, states, symbol)
                closed = self.closure(machine, moved, dict(zip(relevant, after, strict=True)))
                if not closed:
                    row.append(-1)
                    continue
                key = (after, closed)
                value = number.get(key)
                if value is None:
                    value = number[key] = len(queue)
                    queue.append(key)
                row.append(value)
            rows.append(row)
        symbols = np.arange(self.width, dtype=np.int32)
        table = np.array(rows, np.int32).reshape(len(rows), self.width)
        return Dfa.from_table(self.width - 1, Table(symbols, symbols, table, np.array(accepting, np.bool_)))


def _without_stricter(configurations: list[Configuration], nfa: Nfa) -> Configurations:
    """Drop each configuration that another one, with a node that accepts as much and no other obligations, covers."""
    if len(configurations) < 2:
        return frozenset(configurations)
    by_obligations: dict[Obligations, list[int]] = {}
    for node, obligations in configurations:
        by_obligations.setdefault(obligations, []).append(node)
    kept: list[tuple[Obligations, frozenset[int]]] = []
    for obligations in sorted(by_obligations, key=lambda some: (len(some), sorted(some))):
        nodes = nfa.prune(frozenset(by_obligations[obligations]))
        for fewer, others in kept:
            if fewer <= obligations:
                nodes = frozenset(node for node in nodes if not any(nfa.covers(other, node) for other in others))
        if nodes:
            kept.append((obligations, nodes))
    return frozenset((node, obligations) for obligations, nodes in kept for node in nodes)


def _character_sets(root: Node) -> list[CharSet]:
    """All character sets of a tree, in order of appearance."""
    found: dict[CharSet, None] = {}
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (Chars, Anchor)):
            found[node.symbols] = None
        elif isinstance(node, (Concat, Alternation)):
            stack += reversed(node.parts)
        elif isinstance(node, (Repeat, Look)):
            stack.append(node.body)
    return list(found)
