"""What is still demanded of an object whose members come in any order: the states of its automaton.

The keys of an object are distinct: the guard of its frame remembers them. So a state need not say which keys have
come, and keys that there must be in any case are left to the guard, which asks for them at the closing brace. What
else an object demands is taken apart until no alternatives are nested,

    component     demands on keys that no other component speaks of
      leaf        one alternative of it: a residual without "or" parts, and how many of the keys it needs are missing

A member changes a leaf by what it says about its key and by the counts; the demands on single keys stay as they are,
since a key that has come does not come again. A component's state is the set of its leaves that are still possible,
and the state of the object has one for each component. So only keys that some alternatives need and others do not are
counted, and alternatives are told apart as soon as members do. Leaves that can no longer be finished are dropped: what
a leaf lacks, and whether it may still come, shows from its counts alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from schemac.budget import Budget
from schemac.frontend.json_schema.demands import MAX_FINITE_KEYS, Demands
from schemac.frontend.json_schema.formula import FALSE, TRUE
from schemac.frontend.json_schema.partition import Alternative, Partition
from schemac.frontend.json_schema.residuals import Part, Residuals
from schemac.frontend.json_schema.text import spell
from schemac.ir.dfa import Dfa
from schemac_runtime.registers import Guard

#: (residual without "or" parts, how many of the keys that it needs are missing)
Leaf = tuple[int, int]
#: For each component the number of a set of leaves.
State = tuple[int, ...]
#: (formula of the value, state after it)
Choice = tuple[int, State]
#: Up to so many leaves are compared pair by pair to drop those that others cover.
_COMPARED = 24
#: So many leaves at most are made of one component.
_MOST_LEAVES = 2_000


class TooManyLeaves(Exception):
    """The alternatives multiply beyond what is worth while."""


class Unordered:
    """The states of one frame.

    Args:
        demands: of the frame, for any order.
        partition: makes alternatives exclude each other.
        budget: every leaf and every alternative spends one of "branches".
        place: of the frame, for messages.

    Attributes:
        start: the first state, None if no object satisfies the demands.
        guard: what the frame counts and remembers.
        leaves: for each component the residuals of its leaves at the start, with all counts in them.

    Raises:
        TooManyLeaves: see there.
    """

    def __init__(self, demands: Demands, partition: Partition, budget: Budget, place: str) -> None:
        self._residuals = demands.residuals
        self._keysets = demands.keysets
        self._keys = len(demands.names)
        self._partition = partition
        self._budget = budget
        self._place = place
        self._entries: dict[int, dict[int, tuple[int, bool]]] = {}
        self._fewest: dict[int, int | None] = {}
        self._sets: list[tuple[Leaf, ...]] = []
        self._set_ids: dict[tuple[Leaf, ...], int] = {}
        self._read_others: dict[tuple[int, frozenset[int]], tuple[Alternative, ...]] = {}
        self._read_sets: dict[tuple[int, int], tuple[Alternative, ...]] = {}
        self.guard = Guard("members", distinct=True)
        self.start: State | None = None
        components = self._components(demands.start)
        self._owner = {key: number for number, (keys, _) in enumerate(components) for key in keys}
        self.leaves = [[leaf for leaf in leaves if self._is_supplied(leaf)] for _, leaves in components]
        states = self.leaves
        if len(components) == 1:
            self._owner = dict.fromkeys(range(self._keys), 0)
            states = [self._counted_by_guard(self.leaves[0])]
        states = self._required_by_guard(states, demands.names)
        numbers = [self._set(self._leaf(residual, self._needed(residual)) for residual in part) for part in states]
        if None not in numbers:
            self.start = tuple(number for number in numbers if number is not None)

    # -- taking apart -------------------------------------------------------------------------------------------

    def _components(self, start: int) -> list[tuple[set[int], list[int]]]:
        """(the keys it speaks of, the residuals of its leaves) for each component."""
        if start == Residuals.NEVER:
            return [(set(), [])]
        residuals = self._residuals
        parts = residuals.nodes[start][1]
        choices = [part for part in parts if part[0] == "or"]
        if not choices or residuals.counts(start):
            return [(set(), self._expanded(start))]
        groups: list[tuple[set[int], list[Part]]] = []
        for part in choices:
            keys = set(residuals.keys(residuals.with_parts(-1, [part])))
            meeting = [group for group in groups if not keys.isdisjoint(group[0])]
            groups = [group for group in groups if keys.isdisjoint(group[0])]
            merged = [other for _, others in meeting for other in others]
            groups.append((keys.union(*(group[0] for group in meeting)), [*merged, part]))
        entries = residuals.entries(start)
        components = []
        for keys, others in groups:
            own = {key: ([value], needed) for key, (value, needed) in entries.items() if key in keys}
            components.append((keys, self._expanded(residuals.demand(own, others))))
        taken = set().union(*(keys for keys, _ in groups))
        rest = {key: ([value], needed) for key, (value, needed) in entries.items() if key not in taken}
        plain = residuals.demand(rest, [part for part in parts if part[0] != "or"])
        if plain != Residuals.ALWAYS:
            components.append((set(rest), self._expanded(plain)))
        return components

    def _expanded(self, residual: int) -> list[int]:
        """The residuals without "or" parts whose disjunction it is."""
        if residual == Residuals.NEVER:
            return []
        residuals = self._residuals
        chain, parts = residuals.nodes[residual]
        result = [residuals.with_parts(chain, [part for part in parts if part[0] != "or"])]
        for part in parts:
            if part[0] != "or":
                continue
            options = list(dict.fromkeys(leaf for item in part[1] for leaf in self._expanded(item)))
            self._budget.spend("branches", len(result) * len(options), place=self._place)
            if len(result) * len(options) > 20 * _MOST_LEAVES:
                raise TooManyLeaves
            both = dict.fromkeys(residuals.conjunction((one, other)) for one in result for other in options)
            both.pop(Residuals.NEVER, None)
            result = self._uncovered(list(both))
            if len(result) > _MOST_LEAVES:
                raise TooManyLeaves
        return result

    def _uncovered(self, items: list[int]) -> list[int]:
        """The residuals without those that another one covers."""
        if not 1 < len(items) <= _COMPARED:
            return items
        covers = self._residuals.covers
        return [item for item in items if not any(other != item and covers(other, item) for other in items)]

    # -- counts -------------------------------------------------------------------------------------------------

    def _demanded(self, residual: int) -> dict[int, tuple[int, bool]]:
        """As `Residuals.entries`, remembered by the chain."""
        chain = self._residuals.nodes[residual][0]
        found = self._entries.get(chain)
        if found is None:
            found = self._entries[chain] = self._residuals.entries(residual)
        return found

    def _needed(self, residual: int) -> int:
        return sum(needed for _, needed in self._demanded(residual).values())

    def _optional(self, residual: int) -> int:
        """How many declared keys may come that need not."""
        demanded = self._demanded(residual)
        return self._keys - sum(needed or value == FALSE for value, needed in demanded.values())

    def _bound(self, residual: int, kind: str) -> int | None:
        return next((part[1] for part in self._residuals.nodes[residual][1] if part[0] == kind), None)

    def _is_open(self, residual: int) -> bool:
        """Whether some undeclared key may come; there are always more of them."""
        stripped = self._residuals.with_parts(-1, self._undeclared_parts(residual))
        return any(self._residuals.other(stripped, members) for _, members in self._classes(stripped))

    def _undeclared_parts(self, residual: int) -> list[Part]:
        return [part for part in self._residuals.nodes[residual][1] if part[0] in ("keys", "some")]

    def _is_supplied(self, residual: int) -> bool:
        """Whether there are enough keys for the least count; it stays so, for what is missing was not counted yet."""
        least = self._bound(residual, "min") or 0
        if least <= self._needed(residual):
            return True
        if self._is_open(residual):
            languages = [language for language, _ in self._classes(residual)]
            finite = any(language is not None and language.is_finite for language in languages)
            return not finite or least <= MAX_FINITE_KEYS  # only larger classes were left undeclared
        return least <= self._needed(residual) + self._optional(residual)

    def _counted_by_guard(self, leaves: list[int]) -> list[int]:
        """The leaves without counts that say nothing, or that the guard can check as they are the same in all."""
        leaves = [leaf for leaf in leaves if self._leaf(leaf, self._needed(leaf)) is not None]
        leaves = [self._without_idle_counts(leaf) for leaf in leaves]
        least = max((self._bound(leaf, "min") or 0 for leaf in leaves), default=0)
        if all(self._bound(leaf, "min") == least or self._needed(leaf) >= least for leaf in leaves):
            leaves = [self._without(leaf, "min") for leaf in leaves]
        else:
            least = 0
        most = {self._bound(leaf, "max") for leaf in leaves}
        high = None
        everywhere = len(self._needed_everywhere(leaves))
        if len(most) == 1 and not any(
            self._needed(leaf) > everywhere or self._fewest_others(leaf) for leaf in leaves
        ):  # so that the guard can tell whether there is room for what is missing
            (high,) = most
            leaves = [self._without(leaf, "max") for leaf in leaves]
        self.guard = replace(self.guard, low=least, high=high)
        return list(dict.fromkeys(leaves))

    def _required_by_guard(self, components: list[list[int]], names: Sequence[str]) -> list[list[int]]:
        """The components' leaves without the keys that all leaves of theirs need: the guard asks for those.

        Where states count how many members may still come, they must know of all that are missing.
        """
        if any(self._bound(leaf, "max") is not None for leaves in components for leaf in leaves):
            return components
        required: set[int] = set()
        rest: list[list[int]] = []
        for leaves in components:
            keys = self._needed_everywhere(leaves)
            required |= keys
            rest.append(list(dict.fromkeys(self._not_needing(leaf, keys) for leaf in leaves)))
        self.guard = replace(self.guard, required=frozenset(spell(names[key]) for key in required))
        return rest

    def _needed_everywhere(self, leaves: list[int]) -> set[int]:
        needs = [{key for key, (_, needed) in self._demanded(leaf).items() if needed} for leaf in leaves]
        return set.intersection(*needs) if needs else set()

    def _not_needing(self, residual: int, keys: set[int]) -> int:
        entries = self._demanded(residual).items()
        kept = {key: ([value], needed and key not in keys) for key, (value, needed) in entries}
        return self._residuals.demand(kept, self._residuals.nodes[residual][1])

    def _classes(self, residual: int) -> Iterator[tuple[Dfa | None, frozenset[int]]]:
        return self._keysets.classes(self._residuals.keysets(residual))

    def _without(self, residual: int, kind: str) -> int:
        chain, parts = self._residuals.nodes[residual]
        return self._residuals.with_parts(chain, [part for part in parts if part[0] != kind])

    def _without_idle_counts(self, residual: int) -> int:
        needed, most = self._needed(residual), self._bound(residual, "max")
        if (self._bound(residual, "min") or 0) <= needed:
            residual = self._without(residual, "min")
        if most is not None and most >= needed + self._optional(residual) and not self._is_open(residual):
            residual = self._without(residual, "max")
        return residual

    def _fewest_others(self, residual: int) -> int | None:
        """How many undeclared keys it takes to satisfy all "some" parts; None if none do."""
        start = self._residuals.with_parts(-1, self._undeclared_parts(residual))
        if start not in self._fewest:
            self._fewest[start] = self._search_fewest(start)
        return self._fewest[start]

    def _search_fewest(self, start: int) -> int | None:
        level, seen, count = [start], {start}, 0
        while level:
            following: list[int] = []
            for residual in level:
                if not any(part[0] == "some" for part in self._residuals.nodes[residual][1]):
                    return count
                for _, members in self._classes(residual):
                    for _, left in self._residuals.other(residual, members):
                        if left not in seen:
                            seen.add(left)
                            following.append(left)
            level, count = following, count + 1
        return None

    # -- sets of leaves -----------------------------------------------------------------------------------------

    def _leaf(self, residual: int, missing: int) -> Leaf | None:
        """The leaf, None if it cannot be finished."""
        if residual == Residuals.NEVER:
            return None
        others = self._fewest_others(residual)
        most = self._bound(residual, "max")
        if others is None or (most is not None and missing + others > most):
            return None
        if not missing and self._needed(residual):  # all needed keys have come, and will not come again
            optional = {
                key: ([value], False) for key, (value, needed) in self._demanded(residual).items() if not needed
            }
            residual = self._residuals.demand(optional, self._residuals.nodes[residual][1])
        return residual, missing

    def _set(self, leaves: Iterable[Leaf | None]) -> int | None:
        """The number of a set of leaves, without those that others cover; None for the empty one."""
        missing = {leaf[0]: leaf[1] for leaf in leaves if leaf is not None}
        if not missing:
            return None
        if Residuals.ALWAYS in missing:
            missing = {Residuals.ALWAYS: 0}
        kept = tuple(sorted((residual, missing[residual]) for residual in self._uncovered(list(missing))))
        number = self._set_ids.get(kept)
        if number is None:
            self._budget.spend("branches", len(kept), place=self._place)
            number = self._set_ids[kept] = len(self._sets)
            self._sets.append(kept)
        return number

    def _union(self, numbers: Sequence[int]) -> int:
        """The set of the leaves of several sets."""
        if len(numbers) == 1:
            return numbers[0]
        number = self._set(leaf for number in dict.fromkeys(numbers) for leaf in self._sets[number])
        assert number is not None
        return number

    # -- reading members ----------------------------------------------------------------------------------------

    def present(self, state: State, key: int) -> tuple[Choice, ...]:
        """The ways in which declared key `key` can come, if it has not come yet."""
        component = self._owner.get(key)
        if component is None:
            return ((TRUE, state),)
        number = state[component]
        found = self._read_sets.get((number, key))
        if found is None:
            found = self._grouped(
                choice for residual, missing in self._sets[number] for choice in self._present(residual, missing, key)
            )
            self._read_sets[number, key] = found
        return tuple((value, (*state[:component], left, *state[component + 1 :])) for value, left in found)

    def _present(self, residual: int, missing: int, key: int) -> Iterator[tuple[int, Leaf | None]]:
        value, needed = self._demanded(residual).get(key, (TRUE, False))
        if value == FALSE or (needed and not missing):  # where none is missing this one has come
            return
        left = self._residuals.counted(residual)
        if left != Residuals.NEVER:
            yield value, self._leaf(left, missing - needed)

    def other(self, state: State) -> list[tuple[Dfa | None, tuple[Choice, ...]]]:
        """The classes of undeclared keys that may come, as `KeySets.classes` gives them, and how."""
        residuals = {residual for number in state for residual, _ in self._sets[number]}
        keysets = sorted({keyset for residual in residuals for keyset in self._residuals.keysets(residual)})
        found = []
        for language, members in self._keysets.classes(keysets):
            choices: list[Choice] = [(TRUE, ())]
            for number in state:
                options = self._other(number, members)
                self._budget.spend("branches", len(choices) * len(options), place=self._place)
                both = [
                    (self._residuals.value((value, more)), (*left, after))
                    for value, left in choices
                    for more, after in options
                ]
                choices = [choice for choice in both if choice[0] != FALSE]
            if choices:
                found.append((language, tuple(choices)))
        return found

    def _other(self, number: int, members: frozenset[int]) -> tuple[Alternative, ...]:
        found = self._read_others.get((number, members))
        if found is None:
            found = self._grouped(
                (value, self._leaf(left, missing))
                for residual, missing in self._sets[number]
                for value, left in self._residuals.other(residual, members)
            )
            self._read_others[number, members] = found
        return found

    def _grouped(self, choices: Iterable[tuple[int, Leaf | None]]) -> tuple[Alternative, ...]:
        """One alternative per formula, cut where they overlap."""
        by_value: dict[int, list[Leaf]] = {}
        for value, leaf in choices:
            if leaf is not None:
                by_value.setdefault(value, []).append(leaf)
        grouped = [(value, number) for value, leaves in by_value.items() if (number := self._set(leaves)) is not None]
        if len(grouped) > 1:
            grouped = [choice for choice in self._partition.disjoint(grouped, self._union) if choice[0] != FALSE]
        return tuple(grouped)

    # -- ends ---------------------------------------------------------------------------------------------------

    def may_end(self, state: State) -> bool:
        """Whether the object may end here, as far as the guard agrees."""
        return all(
            any(not missing and self._residuals.may_end(residual) for residual, missing in self._sets[number])
            for number in state
        )
