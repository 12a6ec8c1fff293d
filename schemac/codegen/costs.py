"""What guards add to the tokens that a frame needs: one more item, one more key, each required key.

    unit      one more character, item or key, whichever is shortest
    again     one more item or key that must differ from all before it, however many those are
    key_cost  a required key with its comma, colon and value

All are upper bounds on what `schemac_runtime.needs` can keep to. A required key is spelled by the longest tokens that
fit, so that each of them leaves one less to be read. What must differ from others is spelled byte by byte: of as many
distinct witnesses as the frame needs, one is always left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from schemac.ir.automaton import Automaton, call_sources
from schemac.ir.recognizer import Place, Places, Recognizer, Registers
from schemac_runtime.guards import GuardTables
from schemac_runtime.program import UNREACHABLE
from schemac_runtime.registers import ACTIONS, KEY, NEXT, Guard, Register, canonical_value

Int64 = npt.NDArray[np.int64]
#: Steps in search of witnesses, from one state.
_TRIED = 10_000
#: More distinct witnesses than this are not sought: those beyond are taken to cost as much again.
_WITNESSES = 200


@dataclass(frozen=True, eq=False)
class Costs:
    """One round of the costs of all guards; they depend on the distances, which depend on them.

    Attributes:
        unit, again: int64 [guards].
        key_cost: int64 [required keys of all guards], by guard, then by key.
    """

    unit: Int64
    again: Int64
    key_cost: Int64


class GuardCosts:
    """Works out the costs of an automaton's guards from distances.

    Args:
        automaton: with guards.
        tables: what a matcher needs of it.
    """

    def __init__(self, automaton: Automaton, tables: GuardTables) -> None:
        self._automaton = automaton
        self._texts = tables.texts
        self.more = commas_needed(automaton)
        self._callers = call_sources(automaton)
        self._keys = [sorted(guard.required) for _, guard in automaton.guards]
        self._key_start = np.cumsum([0, *map(len, self._keys)])
        self._paths = [self._key_paths(index) for index in range(len(automaton.guards))]

    def first(self) -> Costs:
        """Where the rounds begin: one token for everything."""
        ones = np.ones(len(self._keys), dtype=np.int64)
        return Costs(ones, ones.copy(), np.ones(int(self._key_start[-1]), dtype=np.int64))

    def most(self) -> Costs:
        """No end can be reached in time."""
        far = np.full(len(self._keys), UNREACHABLE, dtype=np.int64)
        return Costs(far, far, np.full(int(self._key_start[-1]), UNREACHABLE, dtype=np.int64))

    def needed(self, costs: Costs) -> Int64:
        """int64 [N]: what the guard of a state's frame adds where nothing has been read yet."""
        of_procedure = np.zeros(len(self._automaton.entry), dtype=np.int64)
        for index, (procedure, guard) in enumerate(self._automaton.guards):
            low, high = self._key_start[index], self._key_start[index + 1]
            unit, again = int(costs.unit[index]), int(costs.again[index])
            if guard.kind == "members":
                whole = int(costs.key_cost[low:high].sum()) + max(guard.low - len(guard.required), 0) * again
            elif guard.distinct:
                whole = min(guard.low, 1) * unit + max(guard.low - 1, 0) * again
            else:  # the first call of a repetition is made before any of its states is returned to
                whole = (guard.low - (guard.kind == "repeats")) * unit
            of_procedure[procedure] = min(whole, UNREACHABLE)
        needed: Int64 = of_procedure[self._automaton.owner]
        return needed

    def surcharge(self, costs: Costs) -> Int64:
        """int64 [N]: what the items or keys add that states count and that must differ; a comma takes its share off."""
        again = np.zeros(len(self._automaton.entry), dtype=np.int64)
        for (procedure, _), cost in zip(self._automaton.guards, costs.again.tolist(), strict=True):
            again[procedure] = cost
        total: Int64 = np.minimum(self.more * again[self._automaton.owner], UNREACHABLE)
        return total

    def round(self, distance: Int64, needed: Int64) -> Costs:
        """The costs by the distances, int64 [N], that include `needed`."""
        costs = self.first()
        net = distance - needed
        for index, (procedure, guard) in enumerate(self._automaton.guards):
            behind = self._commas(procedure)[:, 1]
            if guard.kind == "repeats":
                callees = self._automaton.call_procedure[self._automaton.owner[self._callers] == procedure]
                costs.unit[index] = min(int(distance[self._automaton.entry[callees]].max(initial=1)), UNREACHABLE)
            if guard.kind == "items" and guard.low and len(behind):
                costs.unit[index] = min(1 + int(net[behind].max()), UNREACHABLE)
            if guard.distinct:
                costs.again[index] = min(max(int(costs.unit[index]), self._again(index, behind, net)), UNREACHABLE)
            for number, (spelled, before, after) in enumerate(self._paths[index], int(self._key_start[index])):
                more = net[after] - net[before] + spelled
                costs.key_cost[number] = min(int(more.max(initial=1)) if len(more) else UNREACHABLE, UNREACHABLE)
        return costs

    def _commas(self, procedure: int) -> Int64:
        """int64 [n, 2]: the states before and behind the commas of a frame."""
        a = self._automaton
        mine = (a.owner[a.actions[:, 0]] == procedure) & (a.actions[:, 2] == ACTIONS.index(NEXT))
        state, symbol = a.actions[mine, 0], a.actions[mine, 1]
        found: Int64 = np.stack([state, a.next_state[state, symbol]], axis=1).astype(np.int64)
        return found

    # -- required keys -------------------------------------------------------------------------------------------

    def _key_paths(self, index: int) -> list[tuple[Int64, Int64, Int64]]:
        """For each required key, where it can be read: (tokens up to its colon, states before, states behind that)."""
        a = self._automaton
        procedure = a.guards[index][0]
        entry = int(a.entry[procedure])
        next_of = (a.actions[:, 2] == ACTIONS.index(NEXT)) & (a.owner[a.actions[:, 0]] == procedure)
        starts = [(b"", entry, entry)]
        for state, symbol in a.actions[next_of, :2].tolist():
            starts.append((b",", state, int(a.next_state[state, symbol])))
        found = []
        for key in self._keys[index]:
            rows = []
            for comma, before, state in starts:
                after = self._walked(state, key + b":")
                if after >= 0:
                    rows.append((self._texts.spelled(comma + key + b":"), before, after))
            table = np.array(rows, dtype=np.int64).reshape(-1, 3)
            found.append((table[:, 0], table[:, 1], table[:, 2]))
        return found

    def _walked(self, state: int, text: bytes) -> int:
        """The state of the same frame after a key and more, -1 if there is none."""
        acted = False
        for byte in text:
            symbol = int(self._automaton.byte_class[byte])
            acted = acted or (state, symbol) in self._acting
            state = int(self._automaton.next_state[state, symbol])
            if state < 0:
                return -1
        return state if acted else -1

    @cached_property
    def _acting(self) -> set[tuple[int, int]]:
        return {(s, symbol) for s, symbol, action in self._automaton.actions.tolist() if ACTIONS[action] == KEY}

    # -- what must differ ----------------------------------------------------------------------------------------

    def _free(self, index: int) -> Recognizer:
        """The automaton with a guard that only remembers."""
        guards = list(self._automaton.guards)
        procedure, guard = guards[index]
        guards[index] = procedure, Guard(guard.kind, distinct=True)
        return Recognizer(replace(self._automaton, guards=tuple(guards)))

    @cached_property
    def _ranks(self) -> dict[tuple[int, int], list[tuple[int, tuple[int, ...]]]]:
        return {}

    def _again(self, index: int, behind: Int64, net: Int64) -> int:
        """What one more item or key may cost that must differ from those before it.

        If the guard counts them, all of it; if states do, what it may cost more than the shortest.
        """
        procedure, guard = self._automaton.guards[index]
        forced = int(self.more[self._automaton.entry[procedure]])
        counted = guard.low > max(len(guard.required), guard.kind == "items")
        most = 1
        if not counted and not self.more[self._automaton.owner == procedure].any():
            return most
        for state in np.unique(behind).tolist():
            cost = self._rank(index, state, guard.low + forced + 1, net)
            if guard.kind == "members":
                cost = max(cost, self._longest(state, net))
            known = 1 if guard.kind == "items" else int(net[state])  # what distances have for it at least
            most = max(most, 1 + cost - (0 if counted else known))
        return most

    def _rank(self, index: int, state: int, rank: int, net: Int64) -> int:
        """The bytes of an item and its bracket, or of a key and the tokens behind it, whatever else has been seen."""
        wanted = min(rank, _WITNESSES)
        if (index, state) not in self._ranks:
            self._ranks[index, state] = self._witnesses(index, state, wanted)
        counted = self._automaton.guards[index][1].low
        costs = [
            length + (min(int(net[after]) for after in behind) if behind else 0)
            for length, behind in self._ranks[index, state]
            if counted or not behind or min(self.more[list(behind)]) <= self.more[state]
        ]
        return max(costs, default=0) * -(-rank // wanted)

    def _longest(self, start: int, net: Int64) -> int:
        """The longest of the keys that states count, and the tokens behind it: it may be the one that has not come yet.

        Keys that are not written out in the frame are left to `_rank`.
        """
        longest: dict[int, int] = {}
        pending = [(start, False)]
        while pending:
            state, done = pending.pop()
            edges = [(c, t) for c, t in enumerate(self._automaton.next_state[state].tolist()) if t >= 0]
            if not done:
                if state not in longest:
                    longest[state] = -1
                    pending.append((state, True))
                    pending += [(t, False) for c, t in edges if (state, c) not in self._acting and t not in longest]
                continue
            for symbol, target in edges:
                if (state, symbol) not in self._acting:
                    ahead = longest.get(target, -1)
                else:
                    ahead = int(net[target]) if self.more[target] <= self.more[start] else -1
                longest[state] = max(longest[state], 1 + ahead if ahead >= 0 else -1)
        return longest[start]

    def _witnesses(self, index: int, state: int, wanted: int) -> list[tuple[int, tuple[int, ...]]]:
        """Distinct items or keys, by shortest ways first: (bytes, states behind a key).

        An item is read up to the bracket behind it. Fewer are found only if there are no more, or very long ones.
        """
        procedure, guard = self._automaton.guards[index]
        recognizer = self._free(index)
        place: Place = (state, recognizer.bottom, (procedure, Register(start=0), None))
        heap: list[tuple[float, int, int, Places]] = []
        known: dict[bytes, None] = {}
        found: list[tuple[int, tuple[int, ...]]] = []
        tried = 0
        heappush(heap, (0.0, 0, 0, recognizer.closure([place], b"")))
        while heap and tried < _TRIED and len(found) < wanted:
            _, _, length, places = heappop(heap)
            for byte in recognizer.allowed(places):
                after = recognizer.step(places, byte)
                tried += 1
                if not after or (byte in b" \t\n\r" and len(after) == len(places)):
                    continue
                text = after.text
                behind: tuple[int, ...] = ()
                if guard.kind == "items":
                    ended = recognizer.ended(after)
                    value = canonical_value(text[:-1]) if ended else b""
                else:
                    done = [s for s, _, registers in after if registers is not None and registers[1].start < 0]
                    ended, behind = bool(done), tuple(done)
                    value = canonical_value(text) if ended else b""
                if ended:
                    if value not in known:
                        known[value] = None
                        found.append((len(text), behind))
                    continue
                if any(_outermost(registers).number for _, _, registers in after):
                    continue  # on to the next item
                least = min(recognizer.remaining(s, stack) for s, stack, _ in after)
                heappush(heap, (length + 1 + least, tried, length + 1, after))
        return found


def _outermost(registers: Registers) -> Register:
    assert registers is not None
    while registers[2] is not None:
        registers = registers[2]
    return registers[1]


def commas_needed(automaton: Automaton) -> Int64:
    """int64 [N]: how many commas there are at least before a frame ends whose items or keys must differ; else 0."""
    a = automaton
    mine = np.zeros(len(a.entry), dtype=np.bool_)
    mine[[procedure for procedure, guard in a.guards if guard.distinct]] = True
    inside = mine[a.owner]
    source, symbol = np.nonzero((a.next_state >= 0) & inside[:, None])
    target = a.next_state[source, symbol]
    comma = np.zeros(a.next_state.shape, dtype=np.int64)
    commas = a.actions[a.actions[:, 2] == ACTIONS.index(NEXT)]
    comma[commas[:, 0], commas[:, 1]] = 1
    count = np.where(a.accepting | ~inside, 0, UNREACHABLE).astype(np.int64)
    while True:
        after = count.copy()
        np.minimum.at(after, source, count[target] + comma[source, symbol])
        np.minimum.at(after, call_sources(a), count[a.call_return])
        if np.array_equal(after, count):
            return count
        count = after
