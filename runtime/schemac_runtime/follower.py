"""Following a text byte by byte, with the registers of the guarded frames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from schemac_runtime.endings import endings, item_endings
from schemac_runtime.guards import MANY, GuardTables
from schemac_runtime.program import Program
from schemac_runtime.registers import (
    SPACES,
    Guard,
    Register,
    acted,
    begun_value,
    calls_counted,
    canonical_value,
    character,
    has_room,
    is_full,
    may_close,
    opened,
)
from schemac_runtime.stacks import Stack, StackPool

#: The registers of the guarded frames, innermost first: (index of the guard, register, those below).
Registers = tuple[int, Register, "Registers"] | None
#: A configuration with its registers. Its stack is one stack, or a set of several if none of the registers remembers
#: values.
Place = tuple[int, Stack, Registers]
Places = tuple[Place, ...]
#: What places have in common that differ in one count.
_Group = tuple[int, Stack, tuple[object, ...]]
#: More places than this after a byte are merged where that is the same.
_FEW = 4
#: Texts for one value, at the most: `1` and `1.0`, each before a comma or a bracket.
_TEXTS = 16
#: With so many characters, items or keys to come there are many texts.
_ROOM = 8
#: Bytes tried in search of one text that a guard lets through; past them there is taken to be one.
_TRIED = 50_000
_DELIMITERS = b" \t\n\r,]"
_COMMA = 0x2C
_ENDS_LAST = b',]}"'
_DIGITS = b"0123456789"
#: A zero with an exponent, as far as it has been read, and how long one is at the most that is looked for.
_ZERO = re.compile(rb"(?<![0-9.])0(?:\.0*)?[eE][+-]?[0-9]*\Z")
_LONG = 64


class Follower:
    """The text that has been read, and the steps that can be taken from it.

    Attributes:
        program: what is followed.
        tables: its guards.
        guards: in their order; `counting`: those of repetitions.
        pool: makes the stacks.
        text: all bytes so far; `position` counts in it. A step reads bytes that stand there already.
    """

    __slots__ = ("counting", "guards", "pool", "program", "tables", "text")

    def __init__(self, program: Program, tables: GuardTables, pool: StackPool) -> None:
        self.program = program
        self.tables = tables
        self.guards: list[Guard] = [guard for _, guard in tables.guards]
        self.counting = frozenset(index for index, guard in enumerate(self.guards) if guard.kind == "repeats")
        self.pool = pool
        self.text = bytearray()

    def start(self) -> Places:
        """Where every text starts."""
        return self.settled([(int(self.tables.entry[0]), self.pool.bottom, None)], 0)

    def copy(self) -> Follower:
        """One with the same text, which goes its own way from here."""
        other = Follower(self.program, self.tables, self.pool)
        other.text = bytearray(self.text)
        return other

    def text_of(self, register: Register) -> bytes:
        """The text of the item or key that is being read, without whitespace before it."""
        return bytes(self.text[register.start :]).lstrip(SPACES)

    def read(self, places: Places, piece: bytes, symbols: Sequence[int], position: int) -> Places:
        """The places after some bytes of the text, which `position` bytes come before."""
        current: Sequence[Place] = places
        for byte, symbol in zip(piece, symbols, strict=True):
            current = self.step(current, byte, symbol, position)
            if not current:
                return ()
            position += 1
        return self.rested(current, position)

    def rested(self, places: Sequence[Place], position: int) -> Places:
        """The places where a token may end."""
        return tuple(place for place in self.settled(places, position) if self.alive(place))

    def step(self, places: Sequence[Place], byte: int, symbol: int, position: int) -> Sequence[Place]:
        """The places right after one byte, not settled."""
        tables = self.tables
        flat, width, guard_of, special = tables.flat, tables.symbols, tables.guard_of, tables.special
        after: list[Place] = []
        pending = list(places)
        for state, stack, registers in pending:  # grows while we walk it
            key = state * width + symbol
            target = flat[key]
            if target >= 0:
                if guard_of[state] < 0:
                    after.append((target, stack, registers))
                else:
                    changed = self._changed(registers, tables.acts.get(key), byte, target, position + 1)
                    if changed is not None:
                        after.append((target, stack, changed))
            if special[state]:
                pending += _new(self._without_reading(state, stack, registers, position), pending)
        return after if len(after) < 2 else self._merged(after)

    def _merged(self, places: Iterable[Place]) -> Sequence[Place]:
        """The same places, each once; many are one place above a set of stacks if their registers are equal, and
        places that differ in one count are one place with several.
        """
        found = dict.fromkeys(places)
        if self.counting and len({place[0] for place in found}) < len(found):
            found = self._joined(found)
        if len(found) <= _FEW:
            return list(found)
        together: dict[tuple[int, Registers], list[Stack]] = {}
        kept: list[Place] = []
        for place in found:
            if any(self.guards[index].distinct for index, _ in chain(place[2])):
                kept.append(place)  # what is left for its values depends on the stack, see `alive`
            else:
                together.setdefault((place[0], place[2]), []).append(place[1])
        return [*kept, *((state, self.pool.union(of), registers) for (state, registers), of in together.items())]

    def _joined(self, places: Iterable[Place]) -> dict[Place, None]:
        """Places that differ in the counts of one repetition, and those without a gap, are one place."""
        current, depth = list(places), 0
        while True:
            groups: dict[_Group, list[Place]] = {}
            for place in current:
                frames = chain(place[2])
                frame = frames[depth] if depth < len(frames) else None
                if frame is None or frame[0] not in self.counting:
                    groups[place[0], place[1], (place[2],)] = [place]
                else:
                    others = (*frames[:depth], frame[0], *frames[depth + 1 :])
                    groups.setdefault((place[0], place[1], others), []).append(place)
            if len(groups) < len(current):
                current = [place for group in groups.values() for place in _with_counts(group, depth)]
            depth += 1
            if all(depth >= len(chain(place[2])) for place in current):
                return dict.fromkeys(current)

    def _without_reading(self, state: int, stack: Stack, registers: Registers, position: int) -> list[Place]:
        """Where a frame returns to, and what it calls."""
        places: list[Place] = []
        if self.program.accepting[state] and stack.tops:
            places = self._returned(state, stack, registers, position)
            if stack.empty:
                del places[:1]
        calls = self.tables.calls.get(state, ())
        if calls and self.tables.guard_of[state] in self.counting:
            for counted, last in self._called(registers):
                for entry, guard, ret in calls:
                    below = stack if last else self.pool.push(stack, ret)
                    places.append((entry, below, self._entered(guard, counted, position)))
            return places
        for entry, guard, ret in calls:
            below = stack if self.program.returns_only[ret] else self.pool.push(stack, ret)
            places.append((entry, below, self._entered(guard, registers, position)))
        return places

    def _called(self, registers: Registers) -> list[tuple[Registers, bool]]:
        """(the registers for a call from the innermost frame, a repetition, whether that is its last call).

        Nothing is left to do in the frame behind its last call: the callee returns to where the frame would. With
        several counts, the call may be the last one for one of them and not for the others.
        """
        assert registers is not None
        index, register, below = registers
        guard = self.guards[index]
        counted = calls_counted(guard, register, 1)
        assert counted is not None
        if counted.number + counted.mode != guard.high:
            return [((index, counted, below), False)]
        if not counted.mode:
            return [(below, True)]
        return [(below, True), ((index, counted._replace(mode=counted.mode - 1), below), False)]

    def _entered(self, guard: int, registers: Registers, position: int) -> Registers:
        return registers if guard < 0 else (guard, opened(self.guards[guard], position), registers)

    def _changed(self, registers: Registers, action: str | None, byte: int, target: int, position: int) -> Registers:
        """The registers after a byte that leads to `target` in the innermost guarded frame; None if it is forbidden."""
        assert registers is not None
        index, register, below = registers
        guard = self.guards[index]
        changed: Register | None = register
        if guard.kind == "characters":
            changed = self.within(guard, character(guard, register, byte), target)
        elif action is not None:
            changed = acted(guard, register, action, self.text, position)
        return None if changed is None else (index, changed, below)

    def within(self, guard: Guard, register: Register | None, state: int) -> Register | None:
        """The register, unless the string could not end in time from a state."""
        if register is None or guard.high is None or register.number + self.tables.needed_of[state] <= guard.high:
            return register
        return None

    def _returned(self, state: int, stack: Stack, registers: Registers, position: int) -> list[Place]:
        """Where the text goes on if the frame ends here; first its end, if the frame is the last one."""
        if registers is not None and self.tables.guard_of[state] >= 0:
            index, register, registers = registers
            if not may_close(self.guards[index], register, self.text, position):
                return []
        places: list[Place] = [(state, self.pool.bottom, None)] if stack.empty else []  # the text ends too
        return places + [(ret, parent, registers) for ret, parent in stack.tops]

    def settled(self, places: Sequence[Place], position: int) -> Places:
        """As `_settled`, with registers: return where there is nothing else to do, enter where there is only a call."""
        program = self.program
        settled: dict[Place, None] = {}
        pending = list(reversed(places))
        while pending:
            state, stack, registers = place = pending.pop()
            if program.returns_only[state]:
                returned = self._returned(*place, position)
                if stack.empty:
                    settled.update(dict.fromkeys(returned[:1]))
                    del returned[:1]
                pending += _new(returned, pending)
            elif program.enter_state[state] >= 0:
                entry = program.enter_state[state]
                counts = self.tables.guard_of[state] in self.counting
                for counted, last in self._called(registers) if counts else [(registers, False)]:
                    entered = self._entered(self.tables.guard_of[entry], counted, position)
                    below = stack if last else self.pool.push(stack, program.enter_return[state])
                    pending.append((entry, below, entered))
            elif self.tables.forks[state]:
                pending += self._without_reading(*place, position)
            else:
                settled[place] = None
        return tuple(settled) if len(settled) <= _FEW else tuple(self._merged(settled))

    def ends(self, places: Places) -> bool:
        """Whether the text may end at one of the places."""
        pending = [place for place in places if self.program.accepting[place[0]]]
        for place in pending:  # grows while we walk it
            returned = self._returned(*place, len(self.text))
            if place[1].empty:
                if returned:
                    return True
            else:
                pending += _new([after for after in returned if self.program.accepting[after[0]]], pending)
        return False

    # -- what is left for items and keys -------------------------------------------------------------------------

    def alive(self, place: Place) -> bool:
        """Whether every item and key that is being read can still become one that has not been seen."""
        registers = place[2]
        remembers = any(register.seen and self.guards[index].kind == "items" for index, register in chain(registers))
        if remembers and _ZERO.search(self.text, max(len(self.text) - _LONG, 0)):
            return self._alive_as_zero(place)
        return self._alive(place)

    def _alive_as_zero(self, place: Place) -> bool:
        """The same where the text ends with a zero that has an exponent: whatever digits follow, it stays one."""
        length = position = len(self.text)
        reads = self.readable(place, position)
        try:
            if self.text[-1] not in _DIGITS and (digit := next((byte for byte in reads if byte in _DIGITS), None)):
                self.text.append(digit)
                after = self.settled(self._byte(place, digit, position), position + 1)
                if len(after) != 1:
                    return self._alive(place)  # no number after all
                place, position = after[0], position + 1
                reads = self.readable(place, position)
            for byte in reads:
                if byte not in _DIGITS:
                    self.text[position:] = bytes((byte,))
                    if any(map(self._alive, self.settled(self._byte(place, byte, position), position + 1))):
                        return True
            return False
        finally:
            del self.text[length:]

    def _byte(self, place: Place, byte: int, position: int) -> Sequence[Place]:
        return self.step((place,), byte, int(self.tables.byte_class[byte]), position)

    def _alive(self, place: Place) -> bool:
        state, stack, registers = place
        tables = self.tables
        if registers is not None and registers[1].start >= 0:  # keys hold no guarded frames
            guard, register = self.guards[registers[0]], registers[1]
            full = guard.kind == "members" and is_full(guard, register)
            if full and not has_room(guard, register, self.text_of(register)):
                return False
        many = 1
        here, below = state, stack
        depth = 0
        # The frames up to the last one whose item or key could become one that has been seen.
        frames = max((d for d, (_, r) in enumerate(chain(registers), 1) if r.start >= 0 and r.seen), default=0)
        while depth < frames and registers is not None and many < MANY:
            while tables.guard_of[here] < 0:  # the frames within the guarded one
                many = min(many * tables.whole_of[here], MANY)
                here, below = below.ret, below.parent or below
            index, register, registers = registers
            if register.start >= 0 and register.seen and self.guards[index].distinct:
                texts = min(many * tables.rest_of[here], MANY)
                if texts <= _TEXTS * (len(register.seen) + 1):
                    new = self._new_value(state, index, register) if here == state and not depth else None
                    if not (self._completes(place, depth) if new is None else new):
                        return False
            if self._is_near_end(index, register):
                pass
            elif not self.guards[index].distinct or self.guards[index].kind != "members":
                many = min(many * tables.whole_of[here], MANY)
            elif depth + 1 < frames and self._leads_to_many(index, register, here, called=below is not stack):
                many = MANY
            here, below = below.ret, below.parent or below
            depth += 1
        return True

    def _is_near_end(self, index: int, register: Register) -> bool:
        """Whether a guard leaves so little room that the automaton's number of texts means nothing."""
        high = self.guards[index].high
        return high is not None and register.number + register.missing + _ROOM > high

    def _leads_to_many(self, index: int, register: Register, state: int, *, called: bool) -> bool:
        """Whether an object may still get a member of which there are very many; only its ways to the end are few.

        Tables count what comes after a comma however many keys have come.

        Args:
            state: of the object's frame.
            called: whether the text is in a frame that it called, and will be there only later.
        """
        if register.start < 0:
            return self._may_get_many(index, register.seen, state)
        if called:  # characters of a key that may be any
            return True
        text = self.text_of(register)
        known = endings(self.tables, state, opened=bool(text))
        if not known.complete:
            return True
        for ending in known.texts:
            key, after = canonical_value(text + ending), self._walked(state, ending)
            if key not in register.seen and self._may_get_many(index, register.seen | {key}, after):
                return True
        return False

    def _may_get_many(self, index: int, seen: frozenset[bytes], state: int) -> bool:
        tables = self.tables
        for root in tables.commas_ahead(index, state):
            known = endings(tables, root, opened=False) if tables.rest_of[root] < MANY else None
            if known is None or not known.complete:
                return True
            for key in known.texts:
                if canonical_value(key) in seen:
                    continue
                after = self._walked(root, key + b":")
                if any(tables.whole_of[entry] >= MANY for entry, _, _ in tables.calls.get(after, ())):
                    return True
        return False

    def _walked(self, state: int, text: bytes) -> int:
        """The state after some bytes within a frame; state 0 if they lead nowhere."""
        tables = self.tables
        for byte in text:
            state = max(tables.flat[state * tables.symbols + tables.class_of[byte]], 0)
        return state

    def _new_value(self, state: int, index: int, register: Register) -> bool | None:
        """Whether the key or item can become one that has not been seen; None where that takes a search."""
        text = self.text_of(register)
        if self.guards[index].kind == "members":
            known = endings(self.tables, state, opened=bool(text))
        else:
            known = item_endings(self.tables, state, text)
        if any(canonical_value(text + ending) not in register.seen for ending in known.texts):
            return True
        return False if known.complete else None

    def _completes(self, place: Place, depth: int) -> bool:
        """Whether some text ends the item or key of the register at that depth, and is let through."""

        def done(after: Place) -> bool:
            mine = chain(after[2])
            return len(mine) < len(before) - depth or mine[len(mine) - len(before) + depth][1].start != start

        before = chain(place[2])
        start = before[depth][1].start
        length = len(self.text)
        if not depth and all(byte in _DELIMITERS for byte in self.readable(place, length)):  # it is whole already
            text = bytes(self.text[start:]).strip(SPACES)
            if text and text[0] not in b"[{" and self.guards[before[0][0]].kind == "items":
                return canonical_value(text) not in before[0][1].seen
        pending: list[tuple[Place, bytes]] = [(place, b"")]
        met: set[tuple[object, ...]] = set()
        tried = 0
        try:
            while pending and tried < _TRIED:
                here, text = pending.pop()
                readable = self.readable(here, length + len(text))
                spaces = [byte for byte in readable if byte in SPACES]  # one is as good as another
                # What is tried first comes last: it is what ends something, so that no search is lost in a string.
                others = sorted((byte for byte in readable if byte not in spaces), key=_ENDS_LAST.find)
                for byte in (*spaces[:1], *others):
                    self.text[length:] = text + bytes((byte,))
                    tried += 1
                    position = length + len(text)
                    for after in self.settled(self._byte(here, byte, position), position + 1):
                        if done(after):
                            return True
                        if byte in SPACES and after[:2] == here[:2]:
                            continue
                        if byte == _COMMA and (value := begun_value(bytes(self.text[start:]))) is not None:
                            counts = ((index, register._replace(start=0)) for index, register in chain(after[2]))
                            if (met_here := (*after[:2], *counts, value)) in met:
                                continue  # another spelling, or order, of what has been tried
                            met.add(met_here)
                        pending.append((after, text + bytes((byte,))))
        finally:
            del self.text[length:]
        return bool(pending)

    def readable(self, place: Place, position: int) -> list[int]:
        """The bytes that the automaton can read at a place."""
        bytes_of = self.tables.bytes_of
        found: dict[int, None] = {}
        pending = [place]
        for state, stack, registers in pending:  # grows while we walk it
            found.update(dict.fromkeys(bytes_of(state)))
            pending += self._without_reading(state, stack, registers, position)
        return list(found)


def _new(places: list[Place], known: list[Place]) -> list[Place]:
    """Those that are not known; few are not worth the look."""
    return places if len(known) <= _FEW else [place for place in places if place not in known]


def _with_counts(places: list[Place], depth: int) -> list[Place]:
    """Places that differ in the counts of the frame at a depth only, as few as possible."""
    if len(places) == 1:
        return places
    state, stack, registers = places[0]
    frames = chain(registers)
    counts = sorted((of[depth][1].number, of[depth][1].mode) for of in (chain(place[2]) for place in places))
    spans: list[list[int]] = []
    for number, more in counts:
        if spans and number <= spans[-1][1] + 1:
            spans[-1][1] = max(spans[-1][1], number + more)
        else:
            spans.append([number, number + more])
    found: list[Place] = []
    for first, last in spans:
        frames[depth] = (frames[depth][0], Register(first, last - first))
        fresh: Registers = None
        for index, register in reversed(frames):
            fresh = (index, register, fresh)
        found.append((state, stack, fresh))
    return found


def chain(registers: Registers) -> list[tuple[int, Register]]:
    """Registers as a list, innermost first."""
    found: list[tuple[int, Register]] = []
    while registers is not None:
        index, register, registers = registers
        found.append((index, register))
    return found
