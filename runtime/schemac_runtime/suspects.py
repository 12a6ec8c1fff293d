"""Which tokens could meet a guard: a superset, from the registers and from facts about every token."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from schemac_runtime.distinct import Distinct
from schemac_runtime.guards import MANY, GuardTables
from schemac_runtime.program import EXIT, NO_EDGE, Operation, tokens_operation
from schemac_runtime.registers import Guard, Register
from schemac_runtime.repetitions import Repetition, entering_states, repetitions, spelled_alike

if TYPE_CHECKING:
    from schemac_runtime.program import Program

Bool = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]
#: Sets of suspects remembered by a program.
_REMEMBERED = 2_000
#: A number that is far from both bounds, and one that is far below the lower one.
FAR, FAR_BELOW = -1, -2
#: One frame: the index of its guard, its register, what has been read of its item or key, whether few texts lead on
#: (of a repetition: whether the next byte can be the first one of a repeated text).
Level = tuple[int, Register, "bytes | None", bool]


@dataclass(frozen=True, eq=False)
class Suspects:
    """The facts, worked out once for a program.

    Attributes:
        tables: of the program.
        guards: in their order.
        longest: the most characters that begin in one token.
        needed: by guard, the most characters that some state needs to end its string.
        characters: by token, how many characters begin in it.
        distinct: what items and keys that must differ forbid.
        repeated: facts about repetitions, by guard.
        forbidden: what matchers of the program have found, by circumstances.
        entering: bool [V], tokens that could enter a guarded frame and break its guard at once; None if there are none.
    """

    tables: GuardTables
    guards: tuple[Guard, ...]
    longest: int
    needed: tuple[int, ...]
    characters: memoryview
    distinct: Distinct
    repeated: dict[int, Repetition]
    entering: Bool | None
    forbidden: dict[Hashable, Operation | None] = field(default_factory=dict, repr=False)
    _narrowing: dict[int, Ids] = field(default_factory=dict, repr=False)
    _known: dict[object, tuple[Ids, Ids]] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(tables: GuardTables) -> Suspects:
        """The facts of a program's tables; made once."""
        found = _KNOWN.get(tables)
        if found is None:
            guards = tuple(guard for _, guard in tables.guards)
            needed = []
            for procedure, _ in tables.guards:
                needed.append(int(tables.needed[tables.owner == procedure].max(initial=0)))
            found = _KNOWN[tables] = Suspects(
                tables,
                guards,
                int(tables.texts.characters.max(initial=0)),
                tuple(needed),
                tables.texts.characters.data,
                Distinct(tables),
                repeated := repetitions(tables),
                _entering(tables, guards, repeated),
            )
        return found

    def may_enter(self, out: npt.NDArray[np.int32]) -> bool:
        """Whether a mask allows a token of `entering`."""
        return self.entering is not None and _meet(out, self._entering_bits)

    def may_hold_key(self, out: npt.NDArray[np.int32]) -> bool:
        """Whether a mask allows a token in which a member may begin and its key end. Few vocabularies have any."""
        return self.most_keys > 1 and _meet(out, self._whole_key_bits)

    def may_begin_item(self, out: npt.NDArray[np.int32], *, in_string: bool) -> bool:
        """Whether a mask allows a token in which another item may begin behind a comma.

        Args:
            in_string: whether a quotation mark must come first.
        """
        return _meet(out, self._next_item_bits[in_string])

    @cached_property
    def _next_item_bits(self) -> tuple[Operation, Operation]:
        every, quoted = self.tables.texts.next_items
        return tokens_operation(every), tokens_operation(quoted)

    @cached_property
    def remembers_items(self) -> bool:
        """Whether the items of an array must differ."""
        return any(guard.kind == "items" and guard.distinct for guard in self.guards)

    @cached_property
    def _whole_key_bits(self) -> Operation:
        return tokens_operation(np.flatnonzero(self.tables.texts.members[0]))

    @cached_property
    def hasty(self) -> bytes:
        """[V]: 1 for the tokens of `entering`."""
        flags: bytes = (np.zeros(len(self.characters), np.uint8) if self.entering is None else self.entering).tobytes()
        return flags

    @cached_property
    def entering_ids(self) -> Ids:
        """The tokens of `entering`, ascending."""
        return np.zeros(0, dtype=np.int64) if self.entering is None else np.flatnonzero(self.entering)

    @cached_property
    def most_keys(self) -> int:
        """The most keys that end in one token."""
        return 1 + int(self.tables.texts.members[0].max(initial=0))

    @cached_property
    def _entering_bits(self) -> Operation:
        return tokens_operation(self.entering_ids)

    def near(self, index: int, register: Register) -> Hashable:
        """The number of a register, or one value for all that are equally far from the bounds of its guard."""
        number = register.number
        if register.missing:
            return self._near(index, number), self._near(index, number + register.missing)
        if register.mode and index in self.repeated:  # several counts: the last matters below, the first above
            guard, last = self.guards[index], number + register.mode
            below = self._near(index, last) if last < guard.low else FAR
            above = self._near(index, max(number, guard.low))
            return below if above == FAR else (below, number)
        return self._near(index, number)

    def _near(self, index: int, number: int) -> int:
        guard = self.guards[index]
        longest = self.most_keys if guard.kind == "members" else self.longest
        if index in self.repeated:
            longest = self.repeated[index].most
        if number < guard.low:
            return FAR_BELOW if number + longest + 1 < guard.low else number
        if guard.high is None or number + longest + self.needed[index] < guard.high:
            return FAR
        return number

    @cached_property
    def leads_in(self) -> list[bool]:
        """[N]: see `entering_states`."""
        return entering_states(self.tables)

    @cached_property
    def by_spelling(self) -> bool:
        """Whether `alike` is of use."""
        return bool(self.repeated) and not any(guard.distinct or guard.kind == "members" for guard in self.guards)

    def alike(self, tokens: Ids) -> list[Ids]:
        """Groups of tokens that fare alike everywhere."""
        return spelled_alike(self.tables, tokens)

    def at(self, levels: Sequence[Level], *, in_string: bool, enters: bool) -> tuple[Ids, Ids]:
        """(tokens that may be forbidden, tokens that certainly are), ids ascending; the latter may be among the former.

        Args:
            levels: the guarded frames, innermost first.
            in_string: whether all begins with a quotation mark.
            enters: whether another guarded frame can be entered.
        """
        key = (in_string, enters, *(self._alike(level) for level in levels))
        found = self._known.get(key)
        if found is None:
            doubtful, certain = self._at(levels, in_string=in_string, enters=enters)
            found = np.flatnonzero(doubtful & ~certain), np.flatnonzero(certain)
            if len(self._known) < _REMEMBERED:
                self._known[key] = found
        return found

    def _alike(self, level: Level) -> Hashable:
        """What the suspects depend on in a level."""
        index, register, text, few = level
        guard = self.guards[index]
        number = self.near(index, register)
        if guard.kind == "characters":
            return index, number, bool(register.mode)
        if guard.kind == "repeats":
            return index, number, few
        exhausted = self.distinct.exhausted(index, register)
        return index, number, not register.number, bool(register.seen), text is None, not text, few, exhausted

    def _at(self, levels: Sequence[Level], *, in_string: bool, enters: bool) -> tuple[Bool, Bool]:
        t = self.tables
        doubtful = np.zeros(len(t.token_start) - 1, dtype=np.bool_)
        certain = doubtful.copy()
        if enters and self.entering is not None:
            doubtful |= self.entering & (t.texts.having(0x22) > 0) if in_string else self.entering
        #: Tokens that can end all frames so far.
        reaching: Bool | None = t.texts.having(0x22) > 0 if in_string else None
        for index, register, text, few in levels:
            guard = self.guards[index]
            if guard.kind == "characters":  # always the innermost one, and counts without a quotation mark too
                mine, surely = self._characters(index, register)
                certain |= surely
                doubtful |= mine
                leaving = t.texts.having(0x22) > 0
                in_string = True
            elif guard.kind == "repeats":  # the lower bound depends on the stack: the matcher sees to that
                mine = np.zeros_like(doubtful)
                repetition = self.repeated[index]
                leaving = repetition.leaving
                if guard.high is not None:
                    mine = repetition.count(starts=few) > guard.high - register.number
                    if repetition.plain:  # a token that cannot leave the frame begins just so many
                        certain |= mine & ~leaving
            elif guard.kind == "items":
                mine = self._items(index, register)
                leaving = t.texts.having(0x5D) > 0
            else:
                mine = self._members(index, register, text)
                leaving = t.texts.having(0x7D) > 0
                mine = mine & t.texts.ending_strings if in_string else mine  # a key that ends is not in question here
            if few and register.seen:
                mine = reaching = np.ones_like(doubtful)
            doubtful |= mine if reaching is None else mine & reaching
            reaching = leaving if reaching is None else reaching & leaving
        return doubtful, certain

    def narrowing(self, program: Program, state: int) -> Ids:
        """Tokens after which only few texts lead to the end of what is being read at a state, in every reading."""
        found = self._narrowing.get(state)
        if found is None:
            classes = np.zeros(program.classes, dtype=np.bool_)
            for here in (program.default_state[state], state):
                if here >= 0:
                    self._narrow(program, slice(program.edge_start[here], program.edge_start[here + 1]), classes)
            found = self._narrowing[state] = np.flatnonzero(classes[program.tables.token_class])
        return found

    def _narrow(self, program: Program, edges: slice, classes: Bool) -> None:
        """Note for the classes of some edges whether only few texts lead on after each of their outcomes."""
        values, of = program.tables.edge_value[edges], program.tables.edge_class[edges]
        classes[of] = (values >= 0) & (self.tables.rest[np.maximum(values, 0)] < MANY)
        for edge in (edges.start + np.flatnonzero((values < 0) & (values != NO_EDGE))).tolist():
            inside = [outcome for outcome in program.outcomes(edge) if outcome[0] != EXIT]
            few = all(self._leads_to_few(program.chain(context), target) for context, target in inside)
            classes[program.edge_class[edge]] = bool(inside) and few

    def _leads_to_few(self, pushed: Sequence[int], state: int) -> bool:
        """Whether few texts lead on from a state above some return states."""
        if not pushed:
            return self.tables.rest_of[state] < MANY
        whole = self.tables.whole_of
        return max(self.tables.rest_of[pushed[0]], *(whole[ret] for ret in (*pushed[1:], state))) < MANY

    def _characters(self, index: int, register: Register) -> tuple[Bool, Bool]:
        t, guard = self.tables, self.guards[index]
        nothing = np.zeros(len(t.token_start) - 1, dtype=np.bool_)
        mine, surely = nothing, nothing
        if guard.high is not None and register.number + self.longest + self.needed[index] > guard.high:
            left = guard.high - register.number
            mine = t.texts.characters > left - self.needed[index]
            if not register.mode:
                surely = (t.texts.characters > left) & ~t.texts.quoted
        if register.number < guard.low:
            mine = mine | (t.texts.having(0x22) > 0)
        return mine, surely

    def _items(self, index: int, register: Register) -> Bool:
        t, guard = self.tables, self.guards[index]
        commas = t.texts.having(0x2C)
        mine: Bool = np.zeros(len(commas), dtype=np.bool_)
        if guard.high is not None:
            mine = commas >= guard.high - register.number
            mine &= commas > 0
        if register.number + 1 < guard.low:
            mine = mine | (t.texts.having(0x5D) > 0)
        if guard.low and not register.number:  # the array may still be empty
            mine = mine | (t.texts.having(0x5D) > 0)
        if guard.distinct:  # tokens that begin another item; those that end this one are looked up by its text
            begin = np.zeros(len(commas), dtype=np.bool_)
            begin[t.texts.next_items[0]] = True
            mine = mine | begin | (commas > 0 if self.distinct.exhausted(index, register) else False)
        return mine

    def _members(self, index: int, register: Register, text: bytes | None) -> Bool:
        t = self.tables
        whole_keys, starts = t.texts.members
        mine: Bool = whole_keys > 0
        guard = self.guards[index]
        if register.number < guard.low or register.missing:
            mine |= t.texts.having(0x7D) > 0
        if guard.high is not None:
            mine |= t.texts.having(0x2C) > 0
        if self.distinct.exhausted(index, register) or (starts and text is None and register.seen):
            mine |= t.texts.having(0x2C) > 0
        return mine


def _meet(out: npt.NDArray[np.int32], tokens: Operation) -> bool:
    """Whether a row allows some of the tokens that a step would allow."""
    words, bits, _ = tokens
    return bool((out[words] & bits).any())


def _entering(t: GuardTables, guards: Sequence[Guard], repeated: dict[int, Repetition]) -> Bool | None:
    found = np.zeros(len(t.token_start) - 1, dtype=np.bool_)
    commas = t.texts.having(0x2C)
    for index, guard in enumerate(guards):
        if guard.kind == "repeats":
            if guard.low > 1:
                found |= repeated[index].passing
            if guard.high is not None:  # the first one may begin anywhere
                found |= repeated[index].later + 1 > guard.high
        elif guard.kind == "characters":
            quotes = t.texts.having(0x22)
            if guard.low:
                found |= quotes >= 2
            if guard.high is not None:
                found |= (quotes >= 1) & (t.texts.characters > guard.high)
        elif guard.kind == "items":
            opens = t.texts.having(0x5B) > 0
            if guard.low:
                found |= opens & (t.texts.having(0x5D) > 0)
            if guard.high is not None:
                found |= opens & (commas >= guard.high)
            if guard.distinct:
                found |= opens & (commas > 0)
        else:
            found |= t.texts.members[0] > 1
            if guard.low or guard.required:
                found |= t.texts.whole_objects
            if guard.high is not None and len(guard.required) >= guard.high:
                found |= (t.texts.having(0x7B) > 0) & (t.texts.having(0x22) > 0)
    return found if found.any() else None


_KNOWN: WeakKeyDictionary[GuardTables, Suspects] = WeakKeyDictionary()
