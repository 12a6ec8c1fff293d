"""How many tokens suffice from a place of a guarded text: what its frames need, and what their registers add.

The need of a place is a bound that can be kept to: while it is more than nothing, some allowed token leads to a place
that needs at least one less. Why that is so, with d the distance of the tables, which knows nothing of registers:

    no key is being read     d, and for each missing required key its cost. The cost is at least what it takes to read
                             comma, key and colon by the longest tokens that fit, and what d is then more than now. So
                             the first of these tokens leaves one less: see the next line. Where none is missing, d
                             shows the way, and more keys or items cost what any that has not been seen would.
    a required key may come  its rest by the longest tokens that fit, d behind the colon, and the other missing keys.
                             The next of these tokens leaves one less to be spelled.
    nothing seen may come    of the text so far: d. Whatever ends the key or item is new, so d shows the way.
    otherwise                the fewest bytes to any end that is new, found by search: the next one leaves one less.

Keeping within a limit is a comparison where all that any token can leave to be done fits: `Needs.most_after`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from schemac_runtime.distinct import becoming, endings_of
from schemac_runtime.follower import Follower, Place, Places, Registers
from schemac_runtime.guards import GuardTables
from schemac_runtime.program import UNREACHABLE, Program
from schemac_runtime.registers import ACTIONS, KEY, NEXT, SPACES, Register
from schemac_runtime.stacks import SEVERAL, Stack

Int64 = npt.NDArray[np.int64]
#: Bytes tried in search of a new key or item; past them, what is nearest is taken to be new.
_TRIED = 4_000
#: A frame of a place that has a register: (index of its guard, register, its state, the stack below it).
_Level = tuple[int, Register, int, Stack]


class Ways:
    """Bytes to the ends of frames, keys and items, by the automaton alone; made once for a program.

    Attributes:
        whole: int64 [N], bytes to the end of the frame.
        item: int64 [N], bytes up to what ends the item that is being read, that included; `UNREACHABLE` for none.
        rest: int64 [N], as `item`, or bytes up to a "key" action, and then the tokens to the end of the frame.
        in_key: [N], whether a key of the frame is being read, or about to be.
        key_spread, spread: the most bytes by which it can be farther to the end of a key, or of anything, after a byte
            that need not have been read.
    """

    def __init__(self, program: Program, tables: GuardTables) -> None:
        t = self._tables = tables
        source, symbol = np.nonzero(t.next_state >= 0)
        target = t.next_state[source, symbol].astype(np.int64)
        caller = np.repeat(np.arange(len(t.owner)), np.diff(t.call_start))
        action = np.full(t.next_state.shape, -1, dtype=np.int32)
        action[t.actions[:, 0], t.actions[:, 1]] = t.actions[:, 2]
        ends = action[source, symbol]
        self.whole = self._shortest(np.where(t.accepting > 0, 0, UNREACHABLE), source, target, caller, None)
        kinds = dict(t.guards)
        of_state = [kinds[procedure].kind if procedure in kinds else "" for procedure in t.owner.tolist()]
        items, members = (np.array([kind == name for kind in of_state]) for name in ("items", "members"))
        going = ends < 0
        of_key = members[source] & (ends == ACTIONS.index(KEY))
        key = np.full(len(t.owner), UNREACHABLE, dtype=np.int64)
        key[source[of_key]] = 1
        key = self._shortest(key, source[going], target[going], caller, self.whole)
        of_item = items[source] & (ends == ACTIONS.index(NEXT))
        start = np.where((t.accepting > 0) & items, 0, UNREACHABLE)
        start[source[of_item]] = 1
        self.item = self._shortest(start, source[going], target[going], caller, self.whole)
        distance = program.tables.distance.astype(np.int64)
        start = np.where((t.accepting > 0) & items, distance, UNREACHABLE)
        again = t.again.astype(np.int64)[np.array(t.guard_of)[source[of_item]]]
        np.minimum.at(start, source[of_item], 1 + distance[target[of_item]] + again)
        np.minimum.at(start, source[of_key], 1 + distance[target[of_key]])
        self.rest = self._shortest(start, source[going], target[going], caller, self.whole)
        in_key = members & (key < UNREACHABLE)
        self.in_key: list[bool] = in_key.tolist()
        deepest = self.whole[self.whole < UNREACHABLE].max(initial=0)
        called = t.call_procedure[in_key[caller] & in_key[t.call_return]]
        inside = self.whole[np.isin(t.owner, called) & (self.whole < UNREACHABLE)].max(initial=0)
        self.key_spread = 2 + int(key[in_key].max(initial=0)) + int(inside)
        self.spread = 2 + 2 * int(deepest)

    def _shortest(self, start: Int64, source: Int64, target: Int64, caller: Int64, whole: Int64 | None) -> Int64:
        t = self._tables
        length = start
        while True:
            after = length.copy()
            np.minimum.at(after, source, length[target] + 1)
            inner = length if whole is None else whole
            np.minimum.at(after, caller, inner[t.entry[t.call_procedure]] + length[t.call_return])
            after = np.minimum(after, UNREACHABLE)
            if np.array_equal(after, length):
                return length
            length = after


_WAYS: WeakKeyDictionary[GuardTables, Ways] = WeakKeyDictionary()


class Needs:
    """The needs of the places of one text.

    Args:
        follower: of the text.
    """

    __slots__ = ("_asked", "_follower", "_searched", "_tables", "program")

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.program: Program = follower.program
        self._tables = follower.tables
        self._searched: dict[tuple[Place, bytes], int] = {}
        self._asked: tuple[Place | None, int, int] = (None, 0, 0)

    # -- what registers add --------------------------------------------------------------------------------------

    def _added(self, level: _Level) -> int:
        """Tokens for what a frame still needs by its guard, beside the shortest way to its end."""
        index, register, _, _ = level
        t, guard = self._tables, self._follower.guards[index]
        number, again = register.number, t.again_of[index]
        if guard.kind == "members":
            total = max(guard.low - number - register.missing, 0) * again
            if register.missing:
                total += sum(cost for key, cost in t.key_costs[index].items() if key not in register.seen)
        elif guard.kind == "items" and guard.distinct:
            first = t.unit_of[index] if guard.low and not number else 0
            total = first + max(guard.low - max(number, 1), 0) * again
        else:
            number += register.mode if guard.kind == "repeats" else 0
            total = max(guard.low - number, 0) * t.unit_of[index]
        return min(total, UNREACHABLE)

    def _credit(self, levels: Sequence[_Level]) -> int:
        """The tokens that distances count for what has been read already."""
        return sum(self._tables.added_at_start[level[0]] - self._added(level) for level in levels)

    def of(self, place: Place) -> int:
        """The tokens that suffice to end the text from a place, the stop token left out."""
        state, stack, registers = place
        levels = self._levels(place)
        plain = self.program.distance[state] + stack.needs - self._credit(levels)
        if registers is None or not self._remembers(registers):
            return plain
        index, register, here, _ = levels[0]
        guard = self._follower.guards[index]
        best = UNREACHABLE * 2
        if guard.kind == "members" and register.start >= 0 and here == state and register.missing:
            best = self._required(place, levels)
        depth = self._contested(levels)
        if depth < 0:
            return min(best, plain)
        return best if best < UNREACHABLE else self._new(place, levels, depth, plain)

    def _remembers(self, registers: Registers) -> bool:
        """Whether items or keys must differ; then there is one stack, not a set of several."""
        while registers is not None:
            index, _, registers = registers
            if self._follower.guards[index].distinct:
                return True
        return False

    def _required(self, place: Place, levels: Sequence[_Level]) -> int:
        """As `of`, where the next key is a required one."""
        state, stack, _ = place
        index, register, _, below = levels[0]
        t = self._tables
        text = self._follower.text_of(register)
        outer = self._credit(levels[1:]) + t.added_at_start[index]
        best = UNREACHABLE * 2
        for key, cost in t.key_costs[index].items():
            if key in register.seen or not key.startswith(text):
                continue
            rest = key[len(text) :] + b":"
            after = self._walked(state, rest)
            if after >= 0:
                others = self._added((index, register, after, below)) - cost - outer
                best = min(best, t.texts.spelled(rest) + self.program.distance[after] + stack.needs + others)
        return best

    def next_of_required(self, place: Place) -> list[int]:
        """The next tokens of the required keys that may come, each the longest that fits."""
        state, _, registers = place
        found: list[int] = []
        if registers is None or self._tables.guard_of[state] < 0:
            return found
        index, register, _ = registers
        if not register.missing:
            return found
        comma = b"," if register.start < 0 else b""
        text = b"" if comma else self._follower.text_of(register)
        for key in self._tables.key_costs[index]:
            if key not in register.seen and key.startswith(text):
                found.append(self._tables.texts.first(comma + key[len(text) :] + b":"))
        return found

    def _walked(self, state: int, text: bytes) -> int:
        flat, width, byte_class = self._tables.flat, self._tables.symbols, self._tables.class_of
        for byte in text:
            state = flat[state * width + byte_class[byte]]
            if state < 0:
                return -1
        return state

    # -- what has been seen --------------------------------------------------------------------------------------

    def _levels(self, place: Place) -> list[_Level]:
        """The guarded frames, innermost first."""
        here, below, registers = place
        guard_of = self._tables.guard_of
        found: list[_Level] = []
        while registers is not None:
            if below.ret != SEVERAL:  # a set of stacks has nothing that must differ: states do not matter
                while guard_of[here] < 0 and below.parent is not None:
                    here, below = below.ret, below.parent
            index, register, registers = registers
            found.append((index, register, here, below))
            if below.parent is not None:
                here, below = below.ret, below.parent
        return found

    def _contested(self, levels: list[_Level]) -> int:
        """The outermost level whose item or key may still become one that has been seen, -1 for none."""
        found = -1
        for depth, (index, register, _, _) in enumerate(levels):
            guard = self._follower.guards[index]
            if register.start < 0 or not register.seen or not guard.distinct:
                continue
            text = self._follower.text_of(register)
            if endings_of(register.seen, text) if guard.kind == "members" else becoming(register.seen, text):
                found = depth
        return found

    def _new(self, place: Place, levels: list[_Level], depth: int, plain: int) -> int:
        """As `of`, by search: the fewest bytes to an end of the item or key at a depth that has not been seen."""
        key = place, bytes(self._follower.text[levels[depth][1].start :])
        found = self._searched.get(key)
        if found is None:
            if len(self._searched) > _TRIED:
                self._searched.clear()
            found = self._searched[key] = self._search(place, levels, depth, plain)
        return found

    def _search(self, place: Place, levels: list[_Level], depth: int, plain: int) -> int:
        follower, ways = self._follower, self.ways
        index, register, _, below = levels[depth]
        guard = follower.guards[index]
        position = len(levels) - depth - 1  # from the outermost one
        outer = below.needs - self._credit(levels[depth + 1 :])
        again = self._tables.again_of[index]
        few = guard.kind == "items" and register.number + 1 < guard.low  # more items must come, whatever states say
        if few:
            behind = outer + (guard.low - register.number - 1) * again - 1
        else:
            counted = register._replace(number=register.number + 1)
            behind = outer - self._tables.added_at_start[index] + self._added((index, counted, levels[depth][2], below))
        ahead = ways.item if few else ways.rest

        def left_at(after: Place) -> int:
            """Tokens behind the item or key if it ends at a place; -1 if it does not."""
            length = chain_length(after[2])
            if length > position:
                own = _skip(after[2], length - position - 1)
                assert own is not None
                if own[1].start == register.start:
                    return -1
                if guard.kind == "items" and not few:  # the next item must differ from this one, too
                    return self._plain(after) + again
            return behind if few else self._plain(after)

        def least(after: Place) -> int:
            """Bytes to the end of the item or key, at least."""
            here, stack, _ = after
            total = 0
            while stack is not below:
                if stack.parent is None:
                    return UNREACHABLE
                total += int(ways.whole[here])
                here, stack = stack.ret, stack.parent
            return total + int(ahead[here])

        length = len(follower.text)
        best = UNREACHABLE * 2
        heap: list[tuple[int, int, int, Place, bytes]] = [(least(place), 0, 0, place, b"")]
        tried = 0
        try:
            while heap and heap[0][0] + behind < best and tried < _TRIED:
                _, _, done, here, text = heappop(heap)
                for byte in follower.readable(here, length + len(text)):
                    follower.text[length:] = text + bytes((byte,))
                    tried += 1
                    at = length + len(text)
                    step = follower.step((here,), byte, self._tables.class_of[byte], at)
                    for after in follower.settled(step, at + 1):
                        left = left_at(after)
                        if left >= 0:
                            best = min(best, done + 1 + left)
                        elif byte not in SPACES or after[:2] != here[:2]:
                            total = done + 1 + least(after)
                            heappush(heap, (total, tried, done + 1, after, text + bytes((byte,))))
        finally:
            del follower.text[length:]
        return best if best < UNREACHABLE else plain + ways.spread

    def _plain(self, place: Place) -> int:
        state, stack, _ = place
        return self.program.distance[state] + stack.needs - self._credit(self._levels(place))

    @property
    def ways(self) -> Ways:
        """See `Ways`."""
        found = _WAYS.get(self._tables)
        if found is None:
            found = _WAYS[self._tables] = Ways(self.program, self._tables)
        return found

    # -- far from a limit ----------------------------------------------------------------------------------------

    def most_after(self, place: Place) -> int:
        """No token leaves more to be done than this."""
        here, below, registers = place
        program, tables = self.program, self._tables
        levels = self._levels(place)
        most = 0
        while True:
            if below.ret == SEVERAL:
                return UNREACHABLE
            own = 0
            if tables.guard_of[here] >= 0 and levels:
                own = self._added(levels.pop(0))
            most = max(most, program.reach[here] + own + below.needs - self._credit(levels))
            if not program.accepting[here] or below.parent is None:
                return most + self.margin(registers)
            here, below = below.ret, below.parent

    @property
    def most_entered(self) -> int:
        """What a token may leave at the most that enters a frame and reads more than the way to an end does."""
        differ = any(guard.distinct for guard in self._follower.guards)
        return self.program.most_reach + (self.ways.spread + self.ways.key_spread if differ else 0)

    def margin(self, registers: Registers) -> int:
        """What the keys and items that have been seen may add at the most, whatever is read next.

        Two ways to the end of a key or item part at some byte, and there the one is at most a spread longer than the
        other. Those that have been seen are shut, and one more may be closed by the next token.
        """
        total = 0
        while registers is not None:
            index, register, registers = registers
            guard = self._follower.guards[index]
            if guard.distinct:
                spread = self.ways.key_spread if guard.kind == "members" else self.ways.spread
                total += (1 + len(register.seen)) * spread
        return total

    def left_after(self, place: Place, frame: int, after: int, reached: Stack) -> tuple[int, int]:
        """The tokens needed where the tables lead to a state above a stack: if nothing seen is in the way, and surely.

        Args:
            frame: the innermost frame that surely has not ended, counted from the inside; those within take along what
                has been counted.
        """
        if self._asked[0] is not place or self._asked[1] != frame:  # for one class of tokens after the other
            self._asked = place, frame, self._credit(self._levels(place)[frame:])
        needs = self.program.distance[after] + reached.needs - self._asked[2]
        return needs, needs + (self.margin(place[2]) if self._matters(place[2], after, reached) else 0)

    def _matters(self, registers: Registers, state: int, stack: Stack) -> bool:
        """Whether what has been seen may stand in the way at a state above a stack."""
        while registers is not None:
            index, _, registers = registers
            if self._follower.guards[index].kind == "items" and self._follower.guards[index].distinct:
                return True
        guard_of, in_key = self._tables.guard_of, self.ways.in_key
        while guard_of[state] < 0 and stack.parent is not None:
            state, stack = stack.ret, stack.parent
        return in_key[state]


def _skip(registers: Registers, count: int) -> Registers:
    for _ in range(count):
        assert registers is not None
        registers = registers[2]
    return registers


def after_tokens(follower: Follower, places: Places, tokens: Sequence[int]) -> Iterator[tuple[int, Places]]:
    """The places after each token that is not refused; the text stands behind the token while it is looked at.

    What several tokens begin with is read once.
    """
    tables, length = follower.tables, len(follower.text)
    trail: list[Sequence[Place]] = [places]  # after each byte of the piece before
    before = b""
    try:
        for piece, symbols, token in sorted((*tables.piece(token), token) for token in tokens):
            shared = 0
            while shared < len(before) and shared < len(piece) and before[shared] == piece[shared]:
                shared += 1
            del trail[shared + 1 :]
            follower.text[length:] = piece
            for position in range(len(trail) - 1, len(piece)):
                here = trail[-1]
                step = follower.step(here, piece[position], symbols[position], length + position) if here else ()
                trail.append(step)
            before = piece
            reached = follower.rested(trail[-1], length + len(piece)) if piece and trail[-1] else ()
            if reached:
                yield token, reached
    finally:
        del follower.text[length:]


def chain_length(registers: Registers) -> int:
    """How many registers there are."""
    count = 0
    while registers is not None:
        registers, count = registers[2], count + 1
    return count
