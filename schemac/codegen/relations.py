"""Relations: what reading a text does to every state at once, interned, so that equal behaviour has one number.

The relation of a text w is a set of entries (origin, outcome). An outcome is one of

    local (context, state)   reading w from `origin` stays in its frame, or in frames pushed above it: afterwards the
                             automaton is in `state`, with the returns of `context` pushed
    exit rho                 some first part of w ends the frame of `origin`; the rest of w is to be read from the
                             return state below, where it behaves as relation `rho`

An exit keeps only how the rest of the text behaves, not which return states exist, so that tokens such as `}}}}` cost
one entry per state instead of one per combination of callers. The relation `rho` is kept for those states only at which
the frame could be continued; a state of those that accepts may also be skipped, in favour of the frame below it.

A state may inherit from a default state (`schemac.codegen.defaults`): where a relation has no entry for it, the entries
of its default hold for it too, above the return that goes with the default. An entry `DEAD` says that it has no outcome
although its default has one.

Reading one more symbol maps a relation to a relation. That map is memoized: the relations form an automaton, and
classifying a vocabulary is one walk over its trie.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.codegen.defaults import Defaults
from schemac.codegen.frames import Frames
from schemac.ir.automaton import Automaton

if TYPE_CHECKING:
    from schemac.vocabulary import TokenTrie

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Number = TypeVar("Number", np.int32, np.int64)
EMPTY = 0
#: The value of an entry without outcome that hides an inherited one.
DEAD = np.int64(-(1 << 62))


def ranges(start: Int64, length: Int64) -> Int64:
    """int64 [sum(length)]: start[0], start[0]+1, ..., then start[1], ...: the CSR gather index."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    index: Int64 = np.arange(total, dtype=np.int64) + np.repeat(start - (ends - length), length)
    return index


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


class Relations:
    """Interns relations over the states of one automaton.

    A relation is a number; relation 0 (`EMPTY`) has no entries. Entries lie in two flat arrays, sorted by (origin,
    value): `origin` int32 and `value` int64, where a local outcome is `context << shift | state` and an exit is
    `-1 - rho`.
    """

    def __init__(self, automaton: Automaton, frames: Frames, defaults: Defaults, budget: Budget) -> None:
        self.automaton = automaton
        self.frames = frames
        self.default = defaults.state
        self._defaults = defaults
        self.budget = budget
        self.states = automaton.states
        self.shift = max(1, (automaton.states - 1).bit_length())
        self.symbols = automaton.symbols
        self.start = np.zeros(1024, dtype=np.int64)
        self.length = np.zeros(1024, dtype=np.int64)
        self.origin = np.zeros(1 << 14, dtype=np.int32)
        self.value = np.zeros(1 << 14, dtype=np.int64)
        self.memo = np.full((1024, self.symbols), -1, dtype=np.int32)
        self.memo[EMPTY] = EMPTY
        self.count = 1
        self.used = 0
        self._by_hash: dict[int, list[int]] = {}
        self._untouched: set[int] = set()  # identities: nothing read yet, so no frame has been ended
        self._identity_of_procedure: dict[int, int] = {}
        self._identities: dict[bytes, int] = {}

    # -- building blocks ---------------------------------------------------------------------------------------

    def identity(self, origins: Int32) -> int:
        """The relation of the empty text, for the given states (sorted, distinct)."""
        if not len(origins):
            return EMPTY
        key = origins.tobytes()
        found = self._identities.get(key)
        if found is None:
            found = self._append(origins, origins.astype(np.int64), np.array([len(origins)], dtype=np.int64))
            self._identities[key] = found
            self._untouched.add(found)
        return found

    def after_exit(self, procedure: int) -> int:
        """The identity on the states at which a frame may go on after `procedure` has ended above it."""
        found = self._identity_of_procedure.get(procedure)
        if found is None:
            found = self._identity_of_procedure[procedure] = self.identity(self.frames.continuations(procedure))
        return found

    def entries(self, relation: int) -> tuple[Int32, Int64]:
        """(origin, value) of one relation, as views."""
        low = int(self.start[relation])
        high = low + int(self.length[relation])
        return self.origin[low:high], self.value[low:high]

    def read(self, relation: Int64, symbol: Int64) -> Int32:
        """int32 [n]: the relations after one more symbol. The memo holds each afterwards."""
        key = relation * self.symbols + symbol
        flat = self.memo.reshape(-1)
        result: Int32 = flat[key]
        missing = result < 0
        if missing.any():
            wanted = np.zeros(self.count * self.symbols, dtype=np.bool_)
            wanted[key[missing]] = True
            todo = np.flatnonzero(wanted)
            computed = self._compose(todo // self.symbols, todo % self.symbols)
            flat = self.memo.reshape(-1)  # may have grown meanwhile
            flat[todo] = computed
            result = flat[key]
        return result

    def classify(self, trie: TokenTrie, start: int) -> Int32:
        """int32 [nodes]: the relation of the text of every trie node, from the relation `start` at its root."""
        result = np.zeros(len(trie.parent), dtype=np.int32)
        result[0] = start
        symbol = self.automaton.byte_class[trie.byte].astype(np.int64)
        bounds = trie.level_start.tolist()
        for low, high in pairwise(bounds[1:]):
            parents = result[trie.parent[low:high]]
            live = np.flatnonzero(parents)
            if not len(live):
                break
            result[low + live] = self.read(parents[live].astype(np.int64), symbol[low + live])
        return result

    # -- one more symbol ---------------------------------------------------------------------------------------

    def _compose(self, relation: Int64, symbol: Int64) -> Int32:
        """The relations of distinct (relation, symbol) pairs that the memo lacks."""
        self.budget.check_time()
        frames, a = self.frames, self.automaton
        untouched = np.isin(relation, np.fromiter(self._untouched, dtype=np.int64, count=len(self._untouched)))
        length = self.length[relation]
        index = ranges(self.start[relation], length)
        pair = np.repeat(np.arange(len(relation), dtype=np.int64), length)
        origin, value = self.origin[index], self.value[index]
        inherits = self.default[origin] >= 0
        if inherits.any() and untouched.any():  # the first byte decides who inherits
            heirs = np.flatnonzero(inherits & untouched[pair])
            dropped = heirs[self._defaults.same[origin[heirs], symbol[pair[heirs]]]]
            kept = np.delete(np.arange(len(pair)), dropped)
            pair, origin, value, inherits = pair[kept], origin[kept], value[kept], inherits[kept]
        own = pair[inherits], origin[inherits]  # must not fall back on their defaults, whatever becomes of them

        outcomes: list[tuple[Int64, Int32, Int64]] = []  # (pair, origin, value)
        exits: list[tuple[Int64, Int32, Int64]] = []  # (pair, origin, relation of the rest so far)
        leaving = value < 0
        if leaving.any():
            out = leaving & (value != DEAD)
            exits.append((pair[out], origin[out], -1 - value[out]))
            staying = ~leaving
            pair, origin, value = pair[staying], origin[staying], value[staying]
        context, state = value >> self.shift, value & ((1 << self.shift) - 1)
        first = True
        while len(pair):
            target = a.next_state[state, symbol[pair]]
            ok = np.flatnonzero(target >= 0)
            outcomes.append((pair[ok], origin[ok], self._settled(context[ok], target[ok].astype(np.int64))))
            special = np.flatnonzero(frames.special[state])
            if not len(special):
                break
            pair, origin, context, state = pair[special], origin[special], context[special], state[special]
            self._enter_calls(pair, origin, context, state, symbol, outcomes)
            ending = a.accepting[state]
            out = ending & (context == 0)
            if first:
                out &= ~untouched[pair]
            for procedure in np.unique(a.owner[state[out]]).tolist():
                those = np.flatnonzero(out & (a.owner[state] == procedure))
                rest = np.full(len(those), self.after_exit(procedure), dtype=np.int64)
                exits.append((pair[those], origin[those], rest))
            inner = np.flatnonzero(ending & (context > 0))
            pair, origin, context = pair[inner], origin[inner], context[inner]
            context, state = frames.pop(context)
            first = False
        if exits:
            pairs, origins, rests = (np.concatenate(parts) for parts in zip(*exits, strict=True))
            rests = self.read(rests, symbol[pairs]).astype(np.int64)
            ok = np.flatnonzero(rests != EMPTY)
            outcomes.append((pairs[ok], origins[ok], -1 - rests[ok]))
        return self._intern(len(relation), outcomes, own)

    def _enter_calls(
        self, pair: Int64, origin: Int32, context: Int64, state: Int64, symbol: Int64,
        outcomes: list[tuple[Int64, Int32, Int64]],
    ) -> None:
        frames = self.frames
        length = frames.call_start[state + 1] - frames.call_start[state]
        if not length.any():
            return
        index = ranges(frames.call_start[state], length)
        source = np.repeat(np.arange(len(state)), length)
        target = self.automaton.next_state[frames.call_state[index], symbol[pair[source]]]
        ok = np.flatnonzero(target >= 0)
        source = source[ok]
        pushed = frames.push(context[source], frames.call_chain[index[ok]])
        outcomes.append((pair[source], origin[source], self._settled(pushed, target[ok].astype(np.int64))))

    def _settled(self, context: Int64, state: Int64) -> Int64:
        context, state = self.frames.settle(context, state)
        packed: Int64 = context << self.shift | state
        return packed

    # -- interning ---------------------------------------------------------------------------------------------

    def _intern(
        self, count: int, outcomes: list[tuple[Int64, Int32, Int64]], own: tuple[Int64, Int32]
    ) -> Int32:
        result = np.zeros(count, dtype=np.int32)
        if not outcomes:
            return result
        pair, origin, value = (np.concatenate(parts) for parts in zip(*outcomes, strict=True))
        if not len(pair):
            return result
        key, value = _sorted_distinct(pair * self.states + origin, value)
        if len(own[0]):
            needed = self._needed(key, value)
            hidden = self._hidden(key, own)
            key = np.concatenate([key[needed], hidden])
            value = np.concatenate([value[needed], np.full(len(hidden), DEAD)])
            key, value = _sorted_distinct(key, value)
        pair, origin = key // self.states, (key % self.states).astype(np.int32)
        length = np.bincount(pair, minlength=count)
        present = np.flatnonzero(length)
        length = length[present]
        start = np.cumsum(length) - length
        mixed = _mix(origin.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + value.astype(np.uint64))
        digest = np.add.reduceat(_mix(mixed), start)
        result[present] = self._numbers(digest, start, length, origin, value)
        return result

    def _hidden(self, key: Int64, own: tuple[Int64, Int32]) -> Int64:
        """Of the origins that must not inherit: keys of those that died although their default lives."""
        mine = own[0] * self.states + own[1]  # ascending: entries are sorted
        mine = mine[np.append(True, mine[1:] != mine[:-1])]
        mine = mine[~among(mine, key)]
        inherited = mine - mine % self.states + self.default[mine % self.states]
        hidden: Int64 = mine[among(inherited, key)]
        return hidden

    def _needed(self, key: Int64, value: Int64) -> npt.NDArray[np.bool_]:
        """bool [entries]: which say something that the default of their origin does not say anyway."""
        first = np.ones(len(key), dtype=np.bool_)
        first[1:] = key[1:] != key[:-1]
        single = first & np.append(first[1:], True)
        default = self.default[key % self.states]
        mine = np.flatnonzero(single & (default >= 0))
        inherited = key[mine] - key[mine] % self.states + default[mine]
        position = np.minimum(np.searchsorted(key, inherited), len(key) - 1)
        same = (key[position] == inherited) & single[position] & (value[mine] >= 0) & (value[position] >= 0)
        mine, position = mine[same], position[same]
        above = self._above(value[position], self._defaults.ret[key[mine] % self.states])
        same = above == value[mine]
        needed = np.ones(len(key), dtype=np.bool_)
        needed[mine[same]] = False
        return needed

    def _above(self, value: Int64, ret: Int32) -> Int64:
        """Local outcomes as they are with one return pushed below everything they push; -1 in `ret` pushes nothing."""
        pushed = np.flatnonzero(ret >= 0)
        if not len(pushed):
            return value
        context, state = value[pushed] >> self.shift, value[pushed] & ((1 << self.shift) - 1)
        result: Int64 = value.copy()
        result[pushed] = self.frames.put_below(context, ret[pushed].astype(np.int64)) << self.shift | state
        return result

    def _numbers(
        self, digest: npt.NDArray[np.uint64], start: Int64, length: Int64, origin: Int32, value: Int64
    ) -> Int32:
        """The number of each given relation: an old one where its entries are equal, else a new one."""
        _, first, inverse = np.unique(digest, return_index=True, return_inverse=True)
        inverse = inverse.reshape(-1)
        order = np.argsort(first)  # new numbers in order of appearance
        number = np.empty(len(first), dtype=np.int32)
        fresh: list[int] = []
        for group in order.tolist():
            index = int(first[group])
            low, high = int(start[index]), int(start[index] + length[index])
            known = self._find(int(digest[index]), origin[low:high], value[low:high])
            if known < 0:
                known = self.count + len(fresh)
                self._by_hash.setdefault(int(digest[index]), []).append(known)
                fresh.append(index)
            number[group] = known
        if fresh:
            chosen = np.array(fresh, dtype=np.int64)
            gather = ranges(start[chosen], length[chosen])
            self._append(origin[gather], value[gather], length[chosen])
        result = number[inverse]
        self._compare_with_representative(result, start, length, origin, value)
        return result

    def _find(self, digest: int, origin: Int32, value: Int64) -> int:
        for candidate in self._by_hash.get(digest, ()):
            if candidate >= self.count:
                continue  # made in this round; `_compare_with_representative` looks at those
            other_origin, other_value = self.entries(candidate)
            if np.array_equal(origin, other_origin) and np.array_equal(value, other_value):
                return candidate
        return -1

    def _compare_with_representative(
        self, number: Int32, start: Int64, length: Int64, origin: Int32, value: Int64
    ) -> None:
        """Two relations of one hash must be equal; if ever they are not, the later one gets its own number."""
        same = self.length[number] == length
        mine = np.flatnonzero(same)
        left = ranges(start[mine], length[mine])
        right = ranges(self.start[number[mine]], length[mine])
        differs = (origin[left] != self.origin[right]) | (value[left] != self.value[right])
        if differs.any():
            same[mine[np.repeat(np.arange(len(mine)), length[mine])[differs]]] = False
        for index in np.flatnonzero(~same).tolist():
            low, high = int(start[index]), int(start[index] + length[index])
            number[index] = self._append(origin[low:high], value[low:high], length[index : index + 1])

    def _append(self, origin: Int32, value: Int64, lengths: Int64) -> int:
        """Store new relations; returns the number of the first one."""
        self.budget.spend("outcomes", len(origin))
        first, end = self.count, self.count + len(lengths)
        if end > len(self.start):
            grown = max(end, 2 * len(self.start))
            self.start = _grow(self.start, grown)
            self.length = _grow(self.length, grown)
            memo = np.full((grown, self.symbols), -1, dtype=np.int32)
            memo[: len(self.memo)] = self.memo
            self.memo = memo
        if self.used + len(origin) > len(self.origin):
            grown = max(self.used + len(origin), 2 * len(self.origin))
            self.origin = _grow(self.origin, grown)
            self.value = _grow(self.value, grown)
        self.origin[self.used : self.used + len(origin)] = origin
        self.value[self.used : self.used + len(origin)] = value
        self.length[first:end] = lengths
        self.start[first:end] = self.used + np.cumsum(lengths) - lengths
        self.used += len(origin)
        self.count = end
        return first


def among(values: Int64, ordered: Int64) -> npt.NDArray[np.bool_]:
    """bool [values]: which of them occur in the sorted array `ordered`."""
    if not len(ordered):
        return np.zeros(len(values), dtype=np.bool_)
    index = np.searchsorted(ordered, values)
    index[index == len(ordered)] = 0
    found: npt.NDArray[np.bool_] = ordered[index] == values
    return found


def _sorted_distinct(key: Int64, value: Int64) -> tuple[Int64, Int64]:
    """The distinct (key, value) pairs in order. The input is a few sorted runs, which a stable sort merges fast."""
    rising = key[1:] > key[:-1]
    if rising.all():
        return key, value
    order = np.argsort(key, kind="stable")
    key, value = key[order], value[order]
    equal = np.flatnonzero(key[1:] == key[:-1])
    if not len(equal):
        return key, value
    several = np.zeros(len(key), dtype=np.bool_)
    several[equal] = several[equal + 1] = True
    where = np.flatnonzero(several)
    inner = np.lexsort((value[where], key[where]))
    value[where] = value[where[inner]]
    fresh = np.ones(len(key), dtype=np.bool_)
    fresh[1:] = (key[1:] != key[:-1]) | (value[1:] != value[:-1])
    return key[fresh], value[fresh]


def _grow(array: npt.NDArray[Number], size: int) -> npt.NDArray[Number]:
    grown = np.zeros(size, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
