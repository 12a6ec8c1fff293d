r"""Patterns with large counts: the repeated part becomes a procedure, and a guard counts how often it is called.

    (item[0-9],){0,9999}end       root: call 1 -> s, "e" ..;   s: "e" ..
                                  1, guard repeats 1..9999: calls 2 again and again
                                  2: item[0-9],

A large repetition is a letter of its own in the automaton of what stands around it, and that automaton is made as any
other. The result is exact whatever the pattern. It is cheap only if the counts of a text are certain, so a repetition
is counted only then (`_uncertain`): wherever a text may have led, with all repetitions taken as endless, those of its
readings that are within the repetition entered it at the same place and have begun equally many of the repeated texts.
So `x*x{1,9000}` and `(a|aa){1,9000}` are written out, and `(\w+ ){1,9000}\w+` is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemac.budget import Budget
from schemac.frontend.regex import ast
from schemac.frontend.regex.ast import Alternation, Chars, Node, Repeat
from schemac.frontend.regex.lower import anchored_branches
from schemac.frontend.regex.thompson import Facts, Thompson, survey
from schemac.ir.charset import CODE_POINTS, CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Graph, Module, ModuleBuilder
from schemac.ir.passes.repetitions import repetition
from schemac.ir.utf8 import utf8_language

#: Repetitions of up to this many states over bytes are written out. See docs/regex.md.
WRITTEN_OUT = 1_000
#: So few copies are written out whatever their size.
FEW_COPIES = 4
#: A text that may stand in more places than this at once is followed on an automaton without repetitions.
_PLACES = 8
#: Steps taken to find out, at the most; about a second.
_STEPS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Counted:
    """One large repetition: its node, and the language of what is repeated, without the empty text."""

    node: Repeat
    body: Dfa
    low: int


def counted_module(node: Node, name: str, *, budget: Budget, place: str) -> Module | None:
    """The module of the UTF-8 texts that match a pattern as a whole, with large repetitions counted.

    Returns:
        None if there are none that can be, or the pattern has assertions other than `^` and `$` at its ends.
    """
    facts = Facts()
    branches = anchored_branches(node)
    tree = branches[0] if len(branches) == 1 else Alternation(tuple(branches))
    survey(tree, facts)
    if facts.asserts[id(tree)] or facts.size[id(tree)] <= FEW_COPIES:
        return None
    written_out: set[int] = set()
    with budget.at(place or None):
        while True:
            large = _large(tree, written_out)
            if not large:
                return None
            attempt = _Attempt(tree, facts, large, budget)
            if not attempt.counted or attempt.root.is_empty:
                return None
            uncertain = _uncertain(attempt.root, attempt.counted)
            if uncertain is None:
                return None
            if not uncertain:
                return _module(attempt.root, attempt.counted, name, budget, place)
            written_out |= {id(attempt.counted[index].node) for index in uncertain}


def each_once(root: Node) -> Node:
    """The pattern with no repeated part more than once: its words begin with the same characters."""
    rebuilt: dict[int, Node] = {}
    for node in ast.bottom_up(root, rebuilt):
        found = ast.with_parts(node, [rebuilt[id(part)] for part in ast.parts_of(node)])
        rebuilt[id(node)] = Repeat(found.body, min(found.low, 1), 1) if isinstance(found, Repeat) else found
    return rebuilt[id(root)]


class _Attempt:
    """The automata of a pattern in which some repetitions are letters."""

    def __init__(self, tree: Node, facts: Facts, large: list[Repeat], budget: Budget) -> None:
        self._facts = facts
        self._budget = budget
        self.counted: list[_Counted] = []
        self._limit = CODE_POINTS + len(large)
        self._rebuilt: dict[int, Node] = {}
        self._rebuild(tree, large)
        self.root = self._language(self._rebuilt[id(tree)])

    def _rebuild(self, root: Node, large: list[Repeat]) -> None:
        chosen = {id(node) for node in large}
        for node in ast.bottom_up(root, self._rebuilt):
            fresh = [self._rebuilt[id(part)] for part in ast.parts_of(node)]
            if isinstance(node, Repeat) and id(node) in chosen:
                self._rebuilt[id(node)] = self._letter(node, fresh[0])
            else:
                self._rebuilt[id(node)] = ast.with_parts(node, fresh)

    def _letter(self, node: Repeat, body: Node) -> Node:
        """What stands for a repetition."""
        language, low = self._language(body), node.low
        if language.is_empty:
            return ast.EMPTY if low == 0 else ast.NOTHING
        if language.accepts(()):
            language, low = language.difference(Dfa.epsilon(self._limit), budget=self._budget), 0
        if language.is_empty:
            return ast.EMPTY
        letter = Chars(CharSet.of(CODE_POINTS + 1 + len(self.counted)))
        self.counted.append(_Counted(node, language, max(low, 1)))
        return letter if low else Repeat(letter, 0, 1)

    def _language(self, node: Node) -> Dfa:
        survey(node, self._facts)
        self._budget.spend("regex_states", self._facts.size[id(node)])
        thompson = Thompson(self._limit, lambda symbols: symbols, self._facts, self._budget)
        end = thompson.nfa.node()
        thompson.nfa.final(end)
        thompson.add(node, thompson.nfa.start, end)
        return Dfa.from_nfa(thompson.nfa, budget=self._budget)


def _large(root: Node, written_out: set[int]) -> list[Repeat]:
    """The repetitions to be counted: those that are too large to be written out, inner ones first."""
    sizes: dict[int, int] = {}  # states over bytes, with large repetitions inside counted
    of_set: dict[CharSet, int] = {}
    found: list[Repeat] = []
    for node in ast.bottom_up(root, sizes):
        size = sum(sizes[id(part)] for part in ast.parts_of(node))
        if isinstance(node, Chars):
            known = of_set.get(node.symbols)
            if known is None:
                known = of_set[node.symbols] = _states(node.symbols)
            size = known
        elif isinstance(node, Repeat):
            copies = max(node.low, 1) if node.high is None else node.high
            if copies > FEW_COPIES and copies * size > WRITTEN_OUT and id(node) not in written_out:
                found.append(node)
                size += 2
            else:
                size = min(copies * size, ast.MANY)
        sizes[id(node)] = size
    return found


def _states(symbols: CharSet) -> int:
    """How many states over bytes one character of a set adds."""
    if not symbols or symbols.ranges[-1][1] < 0x80:
        return 1
    return max(1, utf8_language(Dfa.symbols(symbols, CODE_POINTS)).size - 1)


# -- whether counts are certain --------------------------------------------------------------------------------

#: A place: a state, and the repetitions around it, innermost first: (index, state to go on at, those around it).
_Around = tuple[int, int, "_Around"] | None
_Place = tuple[int, _Around]
_NEW, _MORE, _KEPT = "new", "more", "kept"


def _uncertain(root: Dfa, counted: list[_Counted]) -> set[int] | None:
    """The repetitions whose count is not certain after some text; None if texts stand in too many places."""
    automata = [*(one.body for one in counted), root]  # -1 is the root
    columns = _columns(automata)
    tables: list[list[list[int]]] = [dfa.table.tolist() for dfa in automata]
    calls = [_calls(dfa) for dfa in automata]
    closures: dict[_Place, list[tuple[_Place, dict[int, str]]]] = {}

    def closure(start: _Place) -> list[tuple[_Place, dict[int, str]]]:
        known = closures.get(start)
        if known is not None:
            return known
        pending: list[tuple[_Place, dict[int, str]]] = [(start, {})]
        for (state, around), events in pending:  # grows while we walk it
            here = -1 if around is None else around[0]
            for index, after in calls[here].get(state, ()):
                pending.append(((0, (index, after, around)), {**events, index: _NEW}))
            if around is not None and automata[here].accepting[state]:
                pending.append(((0, around), {**events, here: _MORE}))
                pending.append(((around[1], around[2]), {i: e for i, e in events.items() if i != here}))
        closures[start] = pending
        return pending

    start: _Place = (0, None)
    first = frozenset([start])
    seen: set[frozenset[_Place]] = {first}
    queue: list[frozenset[_Place]] = [first]
    uncertain: set[int] = set()
    steps = 0
    for places in queue:  # grows while we walk it
        before = [item for place in places for item in closure(place)]
        steps += len(before) * len(columns)
        if steps > _STEPS:
            return uncertain or None
        for column in columns:
            after: set[_Place] = set()
            happened: dict[int, str] = {}
            for (state, around), events in before:
                reading = -1 if around is None else around[0]
                target = tables[reading][state][column[reading]]
                if target < 0:
                    continue
                after.add((target, around))
                here = around
                while here is not None:
                    event = events.get(here[0], _KEPT)
                    if happened.setdefault(here[0], event) != event:
                        uncertain.add(here[0])
                    here = here[2]
            if len(after) > _PLACES:
                return uncertain or None
            found = frozenset(after)
            if found and found not in seen:
                seen.add(found)
                queue.append(found)
    return uncertain


def _columns(automata: list[Dfa]) -> list[list[int]]:
    """For each set of code points that no automaton tells apart, its column in the table of each of them."""
    points = np.unique(np.concatenate([dfa.starts for dfa in automata]))
    points = points[points <= CODE_POINTS]
    columns = np.stack([dfa.classes[np.searchsorted(dfa.starts, points, "right") - 1] for dfa in automata])
    found: list[list[int]] = np.unique(columns, axis=1).T.tolist()
    return found


def _calls(dfa: Dfa) -> dict[int, list[tuple[int, int]]]:
    """State -> (index of a repetition, state behind it)."""
    found: dict[int, list[tuple[int, int]]] = {}
    for state, low, high, target in dfa.edges():
        for letter in range(max(low, CODE_POINTS + 1), high + 1):
            found.setdefault(state, []).append((letter - CODE_POINTS - 1, target))
    return found


# -- the module ------------------------------------------------------------------------------------------------


def _module(root: Dfa, counted: list[_Counted], name: str, budget: Budget, place: str) -> Module:
    builder = ModuleBuilder()
    top = builder.declare(name, place)
    numbers = [(builder.declare(name, place), builder.declare(name, place)) for _ in counted]
    loops = [loop for loop, _ in numbers]
    encoded: dict[CharSet, Dfa] = {}
    builder.define(top, _graph(root, loops, encoded, budget))
    for one, (loop, body) in zip(counted, numbers, strict=True):
        builder.define(loop, *repetition(body, one.low, one.node.high))
        builder.define(body, _graph(one.body, loops, encoded, budget))
    return builder.build()


def _graph(dfa: Dfa, loops: list[int], encoded: dict[CharSet, Dfa], budget: Budget) -> Graph:
    """The graph of an automaton over code points and letters."""
    graph = Graph()
    nodes = [graph.start, *(graph.node() for _ in range(dfa.size - 1))]
    ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for state, low, high, target in dfa.edges():
        if low <= CODE_POINTS:
            ranges.setdefault((state, target), []).append((low, min(high, CODE_POINTS)))
    for (state, target), of in ranges.items():
        symbols = CharSet.merged(of)
        text = encoded.get(symbols)
        if text is None:
            text = encoded[symbols] = utf8_language(Dfa.symbols(symbols, CODE_POINTS), budget)
        budget.spend("states", text.size)
        graph.language(nodes[state], text, nodes[target])
    for state, calls in _calls(dfa).items():
        for index, target in calls:
            graph.call(nodes[state], loops[index], nodes[target])
    for state in dfa.accepting_states():
        graph.final(nodes[state])
    return graph
