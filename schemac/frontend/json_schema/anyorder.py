"""Objects with their keys in any order: the automaton of one frame, from the opening brace to the closing one.

The states are those of `unordered`; each has a trie of all keys that may come. The guard of the frame remembers the
keys and keeps them distinct. Where the alternatives make too many states, the frame is taken apart into one for each
alternative; those are followed side by side when a text is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemac.budget import Budget
from schemac.errors import UnsupportedError
from schemac.frontend.json_schema.demands import Demands, alternatives_of
from schemac.frontend.json_schema.formula import FALSE, TRUE
from schemac.frontend.json_schema.keys import OpenKeys
from schemac.frontend.json_schema.layout import Layout
from schemac.frontend.json_schema.members import Members, Values, apart
from schemac.frontend.json_schema.partition import Partition
from schemac.frontend.json_schema.residuals import Residuals
from schemac.frontend.json_schema.typed import Types
from schemac.frontend.json_schema.unordered import Choice, State, TooManyLeaves, Unordered
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Graph
from schemac_runtime.registers import Guard

_CONSTRUCT = "--key-order any"
#: At a state: the choices for each declared key, and for each class of undeclared ones.
_Reading = tuple[dict[int, tuple[Choice, ...]], list[tuple[Dfa | None, tuple[Choice, ...]]]]
#: A frame with alternatives may have so many states, or so many bytes of keys in all states together.
_FEW_STATES, _FEW_BYTES = 100, 60_000


class AnyOrderFrame:
    """Builds the graph of one object formula, keys in any order. Arguments as for `ObjectFrame`.

    Attributes:
        guard: what the frame counts and remembers, known once `graph` is built.
        witness: a graph that reads a text if and only if some object satisfies the formula; None where `graph` does.
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
        self._alternatives = alternatives_of(types.formulas, formula)
        self._names = names
        self._types = types
        self._formula = formula
        self._values = values
        self._partition = partition
        self._layout = layout
        self._budget = budget
        self._place = place
        self.guard: Guard | None = None
        self.witness: Graph | None = None

    def graph(self) -> Graph:
        """What follows the opening brace, up to and including the closing one."""
        demands = Demands(
            self._types, self._formula, self._partition, self._budget, self._place, self._names, any_order=True
        )
        try:
            unordered = Unordered(demands, self._partition, self._budget, self._place)
            states = self._explored(unordered, demands)
        except TooManyLeaves:
            states = None
        if states is None:
            if not self._alternatives:
                raise too_many(self._place)
            return apart(self._alternatives, demands.names, self._values, self._place)
        self.guard = unordered.guard
        self.witness = _Witness(unordered, demands, self._values).graph
        members = Members(demands.names, self._values, self._layout, guarded=True)
        for state, (declared, opened) in states.items():
            self._budget.check_time(place=self._place)
            trie = members.tries.any_order(
                {key: members.member(choices) for key, choices in declared.items()},
                [
                    OpenKeys(demands.keysets.undeclared if language is None else language, members.member(choices))
                    for language, choices in opened
                ],
            )
            if state == unordered.start:
                members.begin(trie, may_end=unordered.may_end(state))
            members.after(state, trie, may_end=unordered.may_end(state))
        return members.graph

    def _explored(self, unordered: Unordered, demands: Demands) -> dict[State, _Reading] | None:
        """What can be read at each state; None if they are so many that the frame is better taken apart."""
        few = None
        if self._alternatives:
            few = max(_FEW_STATES, _FEW_BYTES // (1 + sum(len(name) + 1 for name in demands.names)))
        states: dict[State, _Reading] = {}
        pending = [] if unordered.start is None else [unordered.start]
        reached = set(pending)
        while pending:
            state = pending.pop()
            self._budget.spend("states", place=self._place)
            if few is not None and len(reached) > few:
                # Where one thing after another is taken apart, what was tried in vain adds up.
                tried = len(states) * len(demands.names)
                self._budget.spend("branches", tried, place=self._place, construct=_CONSTRUCT)
                return None
            declared = {key: unordered.present(state, key) for key in range(len(demands.names))}
            declared = {key: choices for key, choices in declared.items() if choices}
            opened = unordered.other(state)
            states[state] = declared, opened
            for choices in (*declared.values(), *(choices for _, choices in opened)):
                fresh = [left for _, left in choices if left not in reached]
                reached.update(fresh)
                pending.extend(fresh)
        return states


def too_many(place: str) -> UnsupportedError:
    """The error for alternatives that cannot be told apart."""
    return UnsupportedError(
        "there are too many alternatives to follow while the keys come in any order",
        place=place,
        construct=_CONSTRUCT,
        hint="compile with the keys in schema order, or say less with oneOf, anyOf, if and dependent keywords here",
    )


class _Witness:
    """A graph that reads a text if and only if some object satisfies the demands of a frame.

    The graph of the frame itself does not tell: there a key may come twice in place of another one.
    """

    def __init__(self, unordered: Unordered, demands: Demands, values: Values) -> None:
        self._residuals = demands.residuals
        self._keysets = demands.keysets
        self._keys = len(demands.names)
        self._values = values
        self.graph = Graph()
        here = self.graph.start
        for leaves in unordered.leaves:
            there = self.graph.node()
            for leaf in leaves:
                self._leaf(here, leaf, there)
            here = there
        self.graph.final(here)

    def _leaf(self, node: int, residual: int, end: int) -> None:
        """All keys that a leaf needs, then what else it demands."""
        entries = self._residuals.entries(residual)
        for value, needed in entries.values():
            if needed:
                node = self._value(node, value)
                residual = self._residuals.counted(residual)
                if residual == Residuals.NEVER:
                    return
        optional = [entries.get(key, (TRUE, False)) for key in range(self._keys)]
        values = [value for value, needed in optional if not needed and value != FALSE]
        self._undeclared(node, self._residuals.with_parts(-1, self._residuals.nodes[residual][1]), values, end)

    def _undeclared(self, start: int, residual: int, optional: list[int], end: int) -> None:
        """Undeclared keys until none is demanded, then as many more as the least count asks for."""
        nodes = {residual: start}
        pending = [residual]
        while pending:
            current = pending.pop()
            node, parts = nodes[current], self._residuals.nodes[current][1]
            demanded = any(part[0] == "some" for part in parts)
            least = next((part[1] for part in parts if part[0] == "min"), 0)
            if not demanded:
                self._some_of(node, least, optional, end)
            if not demanded and not least:
                continue
            for _, members in self._keysets.classes(self._residuals.keysets(current)):
                for value, left in self._residuals.other(current, members):
                    target = end  # another key of the same kind can always follow
                    if demanded:
                        target = nodes.get(left, -1)
                        if target < 0:
                            target = nodes[left] = self.graph.node()
                            pending.append(left)
                    self.graph.epsilon(self._value(node, value), target)

    def _some_of(self, node: int, least: int, optional: list[int], end: int) -> None:
        """At least so many of the optional values."""
        unsure = [value for value in optional if not self._values.is_sure(value)]
        least -= len(optional) - len(unsure)
        if least <= 0:
            self.graph.epsilon(node, end)
        elif least <= len(unsure):
            row = [node]  # nodes by how many values have been read; values may be skipped
            for value in unsure:
                following = [self.graph.node() for _ in range(min(len(row), least) + 1)]
                for taken, here in enumerate(row):
                    self.graph.epsilon(here, following[taken])
                    self._values.value(self.graph, here, value, following[min(taken + 1, least)])
                row = following
            self.graph.epsilon(row[least], end)

    def _value(self, node: int, value: int) -> int:
        if self._values.is_sure(value):
            return node
        target = self.graph.node()
        self._values.value(self.graph, node, value, target)
        return target
