"""Objects: the automaton of one object frame, from the opening brace to the closing one.

Declared keys come in canonical order, all others after them. A state is (next declared key, residual); the automaton
is explored from the start and written as a graph whose keys are tries shared between states, so that n optional
properties cost about the sum of their lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from schemac.budget import Budget
from schemac.errors import UnsupportedError
from schemac.frontend.json_schema.formula import FALSE, TRUE, Atom, Formulas
from schemac.frontend.json_schema.keyorder import key_order
from schemac.frontend.json_schema.keys import KeyTries, OpenKeys, Trie
from schemac.frontend.json_schema.layout import Layout
from schemac.frontend.json_schema.partition import Alternative, Partition
from schemac.frontend.json_schema.residuals import MAX_NESTING, Part, Residuals
from schemac.frontend.json_schema.typed import Types
from schemac.ir.dfa import CODE_POINTS, Dfa
from schemac.ir.graph import Graph

#: An object has few states if they are at most so many and 40 for each declared key. With more, whatever is tried,
#: alternatives are written as procedures of their own, if there are any.
_FEW = 500
#: A key language with at most so many words is declared word by word.
_MAX_FINITE_KEYS = 500


class Values(Protocol):
    """What a frame needs from the lowering that it is part of."""

    def value(self, graph: Graph, source: int, formula: int, target: int) -> None:
        """Read a value that satisfies the formula."""
        ...

    def object_alternative(self, formula: int, names: tuple[str, ...], place: str) -> int:
        """The procedure that reads what follows the opening brace by `formula`, with the key order `names`."""
        ...

    def any_key_rest(self) -> int:
        """The procedure that reads the rest of any key in its shortest spelling, and the closing quotation mark."""
        ...


class _KeySets:
    """The key sets of one frame, restricted to its undeclared keys, and the classes they cut them into."""

    def __init__(self, types: Types, declared: Sequence[str], budget: Budget) -> None:
        self._types = types
        self._budget = budget
        self._numbers: dict[Atom, int] = {}
        self._atoms: list[Atom] = []
        self._declared = declared
        self._undeclared: Dfa | None = None
        self._languages: dict[int, Dfa] = {}

    def number(self, keyset: Atom) -> int:
        """A number for a key set; sets that hold all undeclared keys share number 0."""
        if keyset[0] == "other" and not keyset[2]:
            keyset = ("other", (), ())
        if not self._atoms:
            self._numbers["other", (), ()] = 0
            self._atoms.append(("other", (), ()))
        number = self._numbers.get(keyset)
        if number is None:
            number = len(self._atoms)
            self._numbers[keyset] = number
            self._atoms.append(keyset)
        return number

    def holds(self, keyset: Atom, name: str) -> bool:
        """Whether a key is in a key set."""
        if keyset[0] == "other":
            if name in keyset[1]:
                return False
            return not any(self._types.matches(pattern, name) for pattern in keyset[2])
        return self._types.key_language(keyset).accepts(name)

    @property
    def undeclared(self) -> Dfa:
        """All keys but the declared ones."""
        if self._undeclared is None:
            declared = Dfa.literals(self._declared, CODE_POINTS, budget=self._budget)
            self._undeclared = declared.complement(budget=self._budget)
        return self._undeclared

    def _language(self, number: int) -> Dfa:
        found = self._languages.get(number)
        if found is None:
            found = self._types.key_language(self._atoms[number])
            self._languages[number] = found
        return found

    def classes(self, numbers: Sequence[int]) -> Iterator[tuple[Dfa | None, frozenset[int]]]:
        """Cut the undeclared keys by key sets.

        Yields:
            (language, members): None stands for all undeclared keys; `members` are the sets that hold the class.
        """
        cutting = [number for number in numbers if number]
        whole = frozenset({0})
        if not cutting:
            yield None, whole
            return
        classes = [(self.undeclared, whole)]
        for number in cutting:
            language = self._language(number)
            split: list[tuple[Dfa, frozenset[int]]] = []
            for part, members in classes:
                inside = part.intersect(language, budget=self._budget)
                if inside.is_empty:
                    split.append((part, members))
                    continue
                split.append((inside, members | {number}))
                outside = part.difference(language, budget=self._budget)
                if not outside.is_empty:
                    split.append((outside, members))
            classes = split
            self._budget.spend("branches", len(classes))
        yield from classes


class ObjectFrame:
    """Builds the graph of one object formula.

    Args:
        types: splits formulas.
        formula: about objects only.
        values: reads member values.
        partition: makes alternatives exclude each other.
        layout: whitespace.
        budget: states and branches.
        place: of the schema that the formula comes from, for messages.
        names: declared keys in order; None takes those of the formula.
    """

    def __init__(
        self,
        types: Types,
        formula: int,
        values: Values,
        partition: Partition,
        layout: Layout,
        budget: Budget,
        place: str,
        names: Sequence[str] | None = None,
    ) -> None:
        self._formula = formula
        self._types = types
        self._formulas: Formulas = types.formulas
        self._values = values
        self._layout = layout
        self._budget = budget
        self._place = place
        names = key_order(self._formulas, formula) if names is None else names
        extra = self._finite_keys(formula, names)
        self._names = (*names, *extra)
        self._index = {name: number for number, name in enumerate(self._names)}
        self._keysets = _KeySets(types, self._names, budget)
        self._residuals = Residuals(self._formulas, types.canonical, partition, budget, self._place)
        self._built: dict[int, int] = {}
        self._start = self._build(formula, 0)
        self._graph = Graph()
        self._tries = KeyTries(self._graph, layout, self._names, values.any_key_rest)
        self._after: dict[tuple[int, int], int] = {}
        self._may_end: dict[tuple[int, int], bool] = {}
        self._members: dict[tuple[int, tuple[Alternative, ...]], int] = {}
        self._end = self._graph.node()
        self._graph.final(self._end)

    # -- the residual of the whole formula ----------------------------------------------------------------------

    def _finite_keys(self, formula: int, names: Sequence[str]) -> list[str]:
        """Undeclared keys, if only finitely many are allowed: they are better declared, and then never come twice."""
        node = self._formulas.nodes[formula]
        allowed: Dfa | None = None
        for part in node[1] if node[0] == "and" else (formula,):
            literal = self._formulas.nodes[part]
            if literal[0] != "lit" or literal[2][0] != "keys" or not self._types.is_empty(literal[2][2]):
                continue
            keyset = literal[2][1]
            if keyset[0] == "other" and not keyset[2]:
                return []
            outside = self._types.key_language(keyset).complement(budget=self._budget)
            allowed = outside if allowed is None else allowed.intersect(outside, budget=self._budget)
        if allowed is None or not allowed.is_finite:
            return []
        words = allowed.words(_MAX_FINITE_KEYS + 1)
        if len(words) > _MAX_FINITE_KEYS:
            return []
        found = ["".join(map(chr, word)) for word in words]
        known = set(names)
        return [word for word in found if word not in known and not any("\ud800" <= char <= "\udfff" for char in word)]

    def _build(self, formula: int, depth: int) -> int:
        """The residual of a split formula. Recursion is bounded by `MAX_NESTING`."""
        found = self._built.get(formula)
        if found is not None:
            return found
        if depth > MAX_NESTING:
            raise self._residuals.too_deep()
        if formula in (TRUE, FALSE):
            return Residuals.ALWAYS if formula == TRUE else Residuals.NEVER
        node = self._formulas.nodes[formula]
        if node[0] == "or":
            result = self._residuals.disjunction(self._build(part, depth + 1) for part in node[1])
        else:
            result = self._build_conjunction(node[1] if node[0] == "and" else (formula,), depth)
        self._built[formula] = result
        return result

    def _build_conjunction(self, formulas: Sequence[int], depth: int) -> int:
        entries: dict[int, tuple[list[int], bool]] = {}
        parts: list[Part] = []
        inner: list[int] = []
        for formula in formulas:
            kind, *rest = self._formulas.nodes[formula]
            if kind in ("or", "and"):
                inner.append(self._build(formula, depth + 1))
                continue
            name, *arguments = rest[1]
            positive = kind == "lit"
            if name == "property":
                values, needed = entries.get(self._index[arguments[0]], ([], False))
                value = arguments[1] if positive else self._formulas.negation(arguments[1])
                entries[self._index[arguments[0]]] = ([*values, value], needed or not positive)
            elif name == "keys" and positive:
                for key in self._keys_in(arguments[0]):
                    values, needed = entries.get(key, ([], False))
                    entries[key] = ([*values, arguments[1]], needed)
                parts.append(("keys", self._keysets.number(arguments[0]), self._types.canonical(arguments[1])))
            elif name == "keys":
                inner.append(self._some(arguments[0], self._formulas.negation(arguments[1])))
            elif name == "min_properties":
                parts.append(("min", arguments[0]) if positive else ("max", arguments[0] - 1))
            else:
                parts.append(("max", arguments[0]) if positive else ("min", arguments[0] + 1))
        if ("max", -1) in parts:
            return Residuals.NEVER
        return self._residuals.conjunction((self._residuals.demand(entries, parts), *inner))

    def _keys_in(self, keyset: Atom) -> list[int]:
        return [key for key, name in enumerate(self._names) if self._keysets.holds(keyset, name)]

    def _some(self, keyset: Atom, value: int) -> int:
        """One key of a set has a value: a declared one, or one of the others."""
        if keyset[0] == "failing" and self._types.strings(keyset[1]).outer is not None:
            raise UnsupportedError(
                "which keys break a format that is written more narrowly than it is defined is not known exactly",
                place=self._formulas.place(keyset[1]),
                construct="propertyNames",
                hint="do not negate propertyNames with this format",
            )
        value = self._types.canonical(value)
        options = [self._residuals.demand({key: ([value], True)}, ()) for key in self._keys_in(keyset)]
        options.append(self._residuals.demand({}, [("some", self._keysets.number(keyset), value)]))
        return self._residuals.disjunction(options)

    # -- the graph ----------------------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """What follows the opening brace, up to and including the closing one."""
        if self._start != Residuals.NEVER:  # reserve for the largest count before anything is counted
            counts = [part[1] for part in self._residuals.nodes[self._start][1] if part[0] in ("min", "max")]
            self._budget.spend("states", max(counts, default=0), place=self._place)
        alternatives = self._alternatives()
        states = self._reachable_states(give_up=bool(alternatives))
        if states is None:
            for alternative in alternatives:
                procedure = self._values.object_alternative(alternative, self._names, self._place)
                self._graph.call(self._graph.start, procedure, self._end)
            return self._graph
        tries: dict[tuple[int, int], Trie | None] = {}
        for position, residual in sorted(states, reverse=True):  # a state needs those behind it
            self._budget.check_time(place=self._place)
            tries[position, residual] = self._trie(position, residual, tries)
            if position == len(self._names):
                self._may_end[position, residual] = self._residuals.may_end(residual)
            else:
                absent = (position + 1, self._residuals.absent(residual, position))
                self._may_end[position, residual] = absent[1] != Residuals.NEVER and self._may_end[absent]
        for (position, residual), node in self._after.items():
            self._budget.check_time(place=self._place)
            self._continue(node, position, residual, tries[position, residual])
        start = self._layout.gap(self._graph, self._graph.start)
        self._begin(start, 0, self._start, tries[0, self._start])
        return self._graph

    def _alternatives(self) -> list[int]:
        """The formula as its largest choice, with all else that holds in each alternative; empty if there is none."""
        nodes = self._formulas.nodes
        node = nodes[self._formula]
        parts = node[1] if node[0] == "and" else (self._formula,)
        choices = [part for part in parts if nodes[part][0] == "or"]
        if not choices:
            return []
        choice = max(choices, key=lambda part: len(nodes[part][1]))
        return [
            self._formulas.conjunction(alternative if part == choice else part for part in parts)
            for alternative in nodes[choice][1]
        ]

    def _reachable_states(self, *, give_up: bool) -> dict[tuple[int, int], None] | None:
        """All states, with alternatives cut so that they exclude each other, unless guessing needs far fewer.

        Cutting decides a `oneOf` as early as can be; where many open alternatives have little in common, it goes
        through the sets of those that are left, and following each alternative on its own is better.

        Returns:
            None if there are many, and `give_up`.
        """
        few = _FEW + 40 * len(self._names)
        for cut, limit in ((True, few), (False, few), (True, None)):
            if limit is None and give_up:
                break
            self._residuals.cut(cut)
            states = self._explored(limit)
            if states is not None:
                return states
        return None

    def _explored(self, limit: int | None) -> dict[tuple[int, int], None] | None:
        """All states, or None once they are more than `limit`."""
        last = len(self._names)
        states: dict[tuple[int, int], None] = {(0, self._start): None}
        stack = [(0, self._start)]
        while stack:
            position, residual = stack.pop()
            self._budget.spend("states", place=self._place)
            if limit is not None and len(states) > limit:
                return None
            following: list[tuple[int, int]] = []
            if position < last:
                following.append((position + 1, self._residuals.absent(residual, position)))
                following += [(position + 1, left) for _, left in self._residuals.present(residual, position)]
            else:
                for _, alternatives in self._open(residual):
                    following += [(last, left) for _, left in alternatives]
            for state in following:
                if state[1] != Residuals.NEVER and state not in states:
                    states[state] = None
                    stack.append(state)
        return states

    def _open(self, residual: int) -> list[tuple[Dfa | None, tuple[Alternative, ...]]]:
        """The classes of undeclared keys that may come, and how."""
        keysets: dict[int, None] = {}
        stack = [residual]
        while stack:
            for part in self._residuals.nodes[stack.pop()][1]:
                if part[0] in ("keys", "some"):
                    keysets[part[1]] = None
                elif part[0] == "or":
                    stack.extend(part[1])
        result = []
        for language, members in self._keysets.classes(sorted(keysets)):
            alternatives = self._residuals.other(residual, members)
            if alternatives:
                self._check_counts(residual, alternatives)
                result.append((language, alternatives))
        return result

    def _check_counts(self, residual: int, alternatives: Sequence[Alternative]) -> None:
        """Refuse to count undeclared keys that could be twins: only the last of them would be there."""
        for _, left in alternatives:
            if any(part[0] == "min" for part in self._residuals.nodes[left][1]):
                raise UnsupportedError(
                    "two or more undeclared keys would have to be counted, and they could be the same key twice",
                    place=self._place,
                    construct="minProperties",
                    hint="list the keys in `properties`, or limit them to finitely many with `propertyNames`",
                )

    def _trie(self, position: int, residual: int, tries: dict[tuple[int, int], Trie | None]) -> Trie | None:
        """The keys that may come at a state, each leading to its value."""
        if position == len(self._names):
            opened = [
                OpenKeys(language, self._member(position, alternatives))
                for language, alternatives in self._open(residual)
            ]
            return self._tries.undeclared(opened)
        absent = self._residuals.absent(residual, position)
        rest = None if absent == Residuals.NEVER else tries[position + 1, absent]
        alternatives = self._residuals.present(residual, position)
        if not alternatives:
            return rest
        return self._tries.insert(rest, position, self._member(position + 1, alternatives))

    def _member(self, position: int, alternatives: tuple[Alternative, ...]) -> int:
        """The node after the key's quotation mark: colon, value, and on to what is left."""
        node = self._members.get((position, alternatives))
        if node is None:
            node = self._graph.node()
            self._members[position, alternatives] = node
            value = self._layout.colon(self._graph, node)
            for formula, left in alternatives:
                self._values.value(self._graph, value, formula, self._state(position, left))
        return node

    def _state(self, position: int, residual: int) -> int:
        """The node after a member's value."""
        node = self._after.get((position, residual))
        if node is None:
            node = self._graph.node()
            self._after[position, residual] = node
        return node

    def _begin(self, node: int, position: int, residual: int, trie: Trie | None) -> None:
        if self._may_end[position, residual]:
            self._graph.byte(node, 0x7D, 0x7D, self._end)
        if trie is not None:
            self._graph.byte(node, 0x22, 0x22, self._tries.node(trie))

    def _continue(self, node: int, position: int, residual: int, trie: Trie | None) -> None:
        after = self._layout.gap(self._graph, node)
        if self._may_end[position, residual]:
            self._graph.byte(after, 0x7D, 0x7D, self._end)
        if trie is not None:
            quote = self._layout.comma(self._graph, after)
            self._graph.byte(quote, 0x22, 0x22, self._tries.node(trie))
