"""Objects with their keys in canonical order: the automaton of one frame, from the opening brace to the closing one.

Declared keys come in canonical order, all others after them. A state is (next declared key, residual); the automaton
is explored from the start and written as a graph whose keys are tries shared between states, so that n optional
properties cost about the sum of their lengths.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemac.budget import Budget
from schemac.errors import UnsupportedError
from schemac.frontend.json_schema.demands import Demands, alternatives_of
from schemac.frontend.json_schema.keys import OpenKeys, Trie
from schemac.frontend.json_schema.layout import Layout
from schemac.frontend.json_schema.members import Members, Values, apart
from schemac.frontend.json_schema.partition import Alternative, Partition
from schemac.frontend.json_schema.residuals import Residuals
from schemac.frontend.json_schema.typed import Types
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Graph
from schemac_runtime.registers import Guard

#: (next declared key, residual)
_State = tuple[int, int]
#: An object has few states if they are at most so many and 40 for each declared key. With more, whatever is tried,
#: alternatives are written as procedures of their own, if there are any.
_FEW = 500


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

    Attributes:
        guard: what the frame remembers, known once `graph` is built: undeclared keys that are counted from below must
            be distinct.
        witness: None, for `graph` reads a text if and only if some object satisfies the formula.
    """

    witness: Graph | None = None

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
        self._alternatives = alternatives_of(types.formulas, formula)
        self._values = values
        self._layout = layout
        self._budget = budget
        self._place = place
        demands = Demands(types, formula, partition, budget, place, names)
        self._names = demands.names
        self._keysets = demands.keysets
        self._residuals = demands.residuals
        self._start = demands.start
        self._may_end: dict[_State, bool] = {}
        self.guard: Guard | None = None

    def graph(self) -> Graph:
        """What follows the opening brace, up to and including the closing one."""
        if self._start != Residuals.NEVER:  # reserve for the largest count before anything is counted
            counts = [part[1] for part in self._residuals.nodes[self._start][1] if part[0] in ("min", "max")]
            self._budget.spend("states", max(counts, default=0), place=self._place)
        states = self._reachable_states(give_up=bool(self._alternatives))
        if states is None:
            return apart(self._alternatives, self._names, self._values, self._place)
        members = Members(self._names, self._values, self._layout, guarded=self.guard is not None)
        tries: dict[_State, Trie | None] = {}
        for position, residual in sorted(states, reverse=True):  # a state needs those behind it
            self._budget.check_time(place=self._place)
            tries[position, residual] = self._trie(members, position, residual, tries)
            if position == len(self._names):
                self._may_end[position, residual] = self._residuals.may_end(residual)
            else:
                absent = (position + 1, self._residuals.absent(residual, position))
                self._may_end[position, residual] = absent[1] != Residuals.NEVER and self._may_end[absent]
        for state, trie in tries.items():
            self._budget.check_time(place=self._place)
            members.after(state, trie, may_end=self._may_end[state])
        start = (0, self._start)
        members.begin(tries[start], may_end=self._may_end[start])
        return members.graph

    def _reachable_states(self, *, give_up: bool) -> dict[_State, None] | None:
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

    def _explored(self, limit: int | None) -> dict[_State, None] | None:
        """All states, or None once they are more than `limit`."""
        last = len(self._names)
        states: dict[_State, None] = {(0, self._start): None}
        stack = [(0, self._start)]
        while stack:
            position, residual = stack.pop()
            self._budget.spend("states", place=self._place)
            if limit is not None and len(states) > limit:
                return None
            following: list[_State] = []
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
        result = []
        for language, members in self._keysets.classes(self._residuals.keysets(residual)):
            alternatives = self._residuals.other(residual, members)
            if alternatives:
                self._check_counts(language, alternatives)
                result.append((language, alternatives))
        return result

    def _check_counts(self, language: Dfa | None, alternatives: Sequence[Alternative]) -> None:
        """Have undeclared keys be distinct where they must be counted: of twins only the last one would be there."""
        if not any(self._residuals.counts_from_below(left) for _, left in alternatives):
            return
        if language is not None and language.is_finite:  # they may run out
            raise UnsupportedError(
                "undeclared keys would have to be counted, and of some kind there are only finitely many",
                place=self._place,
                construct="minProperties",
                hint="list these keys in `properties`",
            )
        self.guard = Guard("members", distinct=True)

    def _trie(self, members: Members, position: int, residual: int, tries: dict[_State, Trie | None]) -> Trie | None:
        """The keys that may come at a state, each leading to its value."""
        if position == len(self._names):
            opened = [
                OpenKeys(language, members.member(_at(position, alternatives)))
                for language, alternatives in self._open(residual)
            ]
            return members.tries.undeclared(opened)
        absent = self._residuals.absent(residual, position)
        rest = None if absent == Residuals.NEVER else tries[position + 1, absent]
        alternatives = self._residuals.present(residual, position)
        if not alternatives:
            return rest
        return members.tries.insert(rest, position, members.member(_at(position + 1, alternatives)))


def _at(position: int, alternatives: Sequence[Alternative]) -> tuple[tuple[int, _State], ...]:
    return tuple((value, (position, left)) for value, left in alternatives)
