"""From syntax tree to nondeterministic automaton (Thompson, 1968), with assertions left as guards on edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from schemac.budget import Budget
from schemac.frontend.regex import ast
from schemac.frontend.regex.ast import MANY, Alternation, Anchor, Chars, Concat, Look, Node, Repeat
from schemac.ir.charset import CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.nfa import Nfa

_DETERMINIZE_FROM = 4  # copies of a body from which it pays to minimize the body first
_WORD_LIST_FROM = 8  # alternatives from which it pays to put the literal ones into one automaton first

Encode = Callable[[CharSet], CharSet]


@dataclass(slots=True)
class Facts:
    """What is known of each node of a tree, by identity."""

    roots: list[Node] = field(default_factory=list)  # kept alive, so that identities stay theirs
    size: dict[int, int] = field(default_factory=dict)  # characters and assertions, repetitions written out
    asserts: dict[int, int] = field(default_factory=dict)  # 0 nothing, 1 anchors only, 2 lookarounds
    shortest: dict[int, int] = field(default_factory=dict)  # at most the length of the shortest match


def survey(root: Node, facts: Facts) -> None:
    """Work out the facts about a tree, bottom-up."""
    if id(root) in facts.size:
        return
    facts.roots.append(root)
    stack: list[tuple[Node, bool]] = [(root, False)]
    size, asserts = facts.size, facts.asserts
    while stack:
        node, ready = stack.pop()
        key = id(node)
        if key in size:
            continue
        parts: tuple[Node, ...] = ()
        if isinstance(node, (Concat, Alternation)):
            parts = node.parts
        elif isinstance(node, (Repeat, Look)):
            parts = (node.body,)
        if parts and not ready:
            stack.append((node, True))
            stack += [(part, False) for part in parts if id(part) not in size]
            continue
        total = sum([size[id(part)] for part in parts])
        worst = max([asserts[id(part)] for part in parts], default=0)
        lengths = [facts.shortest[id(part)] for part in parts]
        length = min(lengths, default=0) if isinstance(node, Alternation) else sum(lengths)
        if isinstance(node, Repeat):
            total *= max(node.low, 1) if node.high is None else node.high
            length *= node.low
        elif isinstance(node, (Chars, Anchor, Look)):
            total += 1
            length = int(isinstance(node, Chars))
            if not isinstance(node, Chars):
                worst = 1 if isinstance(node, Anchor) else 2
        size[key] = min(total, MANY)
        asserts[key] = worst
        facts.shortest[key] = min(length, MANY)


def without_idle_counts(root: Node, longest: int, facts: Facts) -> Node:
    r"""Drop greatest counts that no text of up to `longest` characters can exceed; the same within that length.

    Counts are what makes ambiguous patterns large: ``(.{1,63}\.){1,127}`` has a quarter of a million states, and no
    more than a hundred once a text may have 255 characters only.
    """
    rebuilt: dict[int, Node] = {}
    for node in ast.bottom_up(root, rebuilt):
        found = ast.with_parts(node, [rebuilt[id(part)] for part in ast.parts_of(node)])
        if isinstance(node, Repeat) and node.high is not None:
            idle = (node.high + 1) * facts.shortest[id(node.body)] > longest
            found = Repeat(rebuilt[id(node.body)], node.low, None) if idle else found
        rebuilt[id(node)] = found
    return rebuilt[id(root)]


class Thompson:
    """Builds one automaton from any number of trees.

    Args:
        limit: greatest symbol of the alphabet.
        encode: maps a set of characters to one of symbols.
    """

    def __init__(self, limit: int, encode: Encode, facts: Facts, budget: Budget) -> None:
        self.nfa = Nfa(limit)
        #: Edges that read nothing and need an assertion to hold.
        self.guards: list[tuple[int, Anchor | Look, int]] = []
        self._encode = encode
        self._facts = facts
        self._budget = budget
        self._labels: dict[int, int] = {}

    def label(self, node: Chars) -> int:
        """The label of a set of characters."""
        found = self._labels.get(id(node))
        if found is None:
            found = self._labels[id(node)] = self.nfa.label(self._encode(node.symbols))
        return found

    def add(self, root: Node, source: int, target: int) -> None:
        """Read a text of `root` from `source` to `target`."""
        nfa = self.nfa
        stack: list[tuple[Node, int, int]] = [(root, source, target)]
        while stack:
            node, source, target = stack.pop()
            if isinstance(node, Chars):
                if node.symbols:
                    nfa.labelled(source, self.label(node), target)
            elif isinstance(node, Concat):
                last = len(node.parts) - 1
                if last < 0:
                    nfa.epsilon(source, target)
                for index, part in enumerate(node.parts):
                    there = target if index == last else nfa.node()
                    stack.append((part, source, there))
                    source = there
            elif isinstance(node, Alternation):
                parts = node.parts
                if len(parts) >= _WORD_LIST_FROM:
                    parts = self._word_list(parts, source, target)
                stack += [(part, source, target) for part in parts]
            elif isinstance(node, Repeat):
                self._repeat(node, source, target, stack)
            else:
                self.guards.append((source, node, target))

    def _word_list(self, parts: tuple[Node, ...], source: int, target: int) -> tuple[Node, ...]:
        """Read one of the literal texts among the parts, through the automaton of all of them; returns the others."""
        words: list[list[int]] = []
        others: list[Node] = []
        for part in parts:
            word: list[int] = []
            for char in part.parts if isinstance(part, Concat) else (part,):
                if not isinstance(char, Chars) or len(char.symbols) != 1:
                    others.append(part)
                    break
                word.append(self._encode(char.symbols).ranges[0][0])
            else:
                words.append(word)
        if words:
            self.nfa.language(source, Dfa.literals(words, self.nfa.limit, budget=self._budget), target)
        return tuple(others)

    def _repeat(self, node: Repeat, source: int, target: int, stack: list[tuple[Node, int, int]]) -> None:
        nfa, body, low, high = self.nfa, node.body, node.low, node.high
        count = max(low, 1) if high is None else high
        if count >= _DETERMINIZE_FROM and not isinstance(body, Chars) and not self._facts.asserts[id(body)]:
            whole = self._minimal(body)
            if whole.size:
                nullable = bool(whole.accepting[0])
                if nullable:
                    # Without the empty text, copies keep apart; fewer of them are among more.
                    whole, low = whole.difference(Dfa.epsilon(nfa.limit), budget=self._budget), 0
                if nullable or whole.size <= 2 * self._facts.size[id(body)] + 2:
                    self._copies(whole, source, target, low, high)
                    return
        if high is None:
            for _ in range(low - 1):
                there = nfa.node()
                stack.append((body, source, there))
                source = there
            loop = nfa.node()
            nfa.epsilon(source, loop)
            if low == 0:
                stack.append((body, loop, loop))
                nfa.epsilon(loop, target)
            else:
                end = nfa.node()
                stack.append((body, loop, end))
                nfa.epsilon(end, loop)
                nfa.epsilon(end, target)
            return
        if isinstance(body, Chars):
            if body.symbols:
                nfa.run(source, self.label(body), target, low, high)
            elif low == 0:
                nfa.epsilon(source, target)
            return
        for index in range(high):
            if index >= low:
                nfa.epsilon(source, target)
            there = target if index == high - 1 else nfa.node()
            stack.append((body, source, there))
            source = there

    def _copies(self, body: Dfa, source: int, target: int, low: int, high: int | None) -> None:
        """Repeat a determinized body."""
        nfa = self.nfa
        if not body.size:
            if low == 0:
                nfa.epsilon(source, target)
            return
        self._budget.spend("regex_states", body.size * (low + 1 if high is None else high))
        if high is not None:
            nfa.copies(source, body, target, low, high)
            return
        loop = nfa.node()
        nfa.copies(source, body, loop, low, low)
        nfa.language(loop, body, loop)
        nfa.epsilon(loop, target)

    def _minimal(self, body: Node) -> Dfa:
        """The language of a body without assertions, over the same alphabet.

        Calls nest as counted repetitions do, at least `_DETERMINIZE_FROM` each: the size of the whole, which has been
        reserved, bounds the depth by its logarithm.
        """
        inner = Thompson(self.nfa.limit, self._encode, self._facts, self._budget)
        end = inner.nfa.node()
        inner.add(body, inner.nfa.start, end)
        inner.nfa.final(end)
        return Dfa.from_nfa(inner.nfa, budget=self._budget)
