"""Which tokens could meet a guard: a superset, from the registers and from facts about every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from schemac_runtime.guards import GuardTables
from schemac_runtime.program import Operation, tokens_operation
from schemac_runtime.registers import Guard, Register

if TYPE_CHECKING:
    from schemac_runtime.program import Program

Bool = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]
#: Sets of suspects remembered by a program.
_REMEMBERED = 2_000
_MANY = (1 << 31) - 1
#: A number that is far from both bounds, and one that is far below the lower one.
FAR, _FAR_BELOW = -1, -2
#: One frame: the index of its guard, its register, what has been read of its item or key, whether few texts lead on.
Level = tuple[int, Register, "bytes | None", bool]


@dataclass(frozen=True, eq=False)
class Suspects:
    """The facts, worked out once for a program.

    Attributes:
        tables: of the program.
        guards: in their order.
        longest: the most characters that begin in one token.
        no_pairs: whether no token can end one string and hold another.
        longest_pair: the most bytes of a token that can end one string and hold another.
        needed: by guard, the most characters that some state needs to end its string.
        characters: by token, how many characters begin in it.
        closed: by guard, whether its keys are finitely many somewhere.
        entering: bool [V], tokens that could enter a guarded frame and break its guard at once; None if there are none.
    """

    tables: GuardTables
    guards: tuple[Guard, ...]
    longest: int
    no_pairs: bool
    longest_pair: int
    needed: tuple[int, ...]
    characters: memoryview
    closed: tuple[bool, ...]
    entering: Bool | None
    _narrowing: dict[int, Ids] = field(default_factory=dict, repr=False)
    _known: dict[object, tuple[Ids, Ids]] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(tables: GuardTables) -> Suspects:
        """The facts of a program's tables; made once."""
        found = _KNOWN.get(tables)
        if found is None:
            guards = tuple(guard for _, guard in tables.guards)
            closed, needed = [], []
            pairs = np.diff(tables.token_start)[(tables.texts.having(0x22) > 2) & (tables.texts.having(0x2C) > 0)]
            for procedure, _ in tables.guards:
                rest = tables.rest[tables.owner == procedure]
                needed.append(int(tables.needed[tables.owner == procedure].max(initial=0)))
                closed.append(bool(((rest > 0) & (rest < _MANY)).any()))
            found = _KNOWN[tables] = Suspects(
                tables,
                guards,
                int(tables.texts.characters.max(initial=0)),
                not len(pairs),
                int(pairs.max(initial=0)),
                tuple(needed),
                tables.texts.characters.data,
                tuple(closed),
                _entering(tables, guards),
            )
        return found

    def may_enter(self, out: npt.NDArray[np.int32]) -> bool:
        """Whether a mask allows a token of `entering`."""
        if self.entering is None:
            return False
        words, bits, _ = self._entering_bits
        return bool((out[words] & bits).any())

    @cached_property
    def entering_ids(self) -> Ids:
        """The tokens of `entering`, ascending."""
        return np.zeros(0, dtype=np.int64) if self.entering is None else np.flatnonzero(self.entering)

    @cached_property
    def _entering_bits(self) -> Operation:
        return tokens_operation(self.entering_ids)

    def near(self, index: int, register: Register) -> object:
        """The number of a register, or one value for all that are equally far from the bounds of its guard."""
        number = register.number
        if register.missing:
            return self._near(index, number), self._near(index, number + register.missing)
        return self._near(index, number)

    def _near(self, index: int, number: int) -> int:
        guard = self.guards[index]
        if number < guard.low:
            return _FAR_BELOW if number + self.longest + 1 < guard.low else number
        if guard.high is None or number + self.longest + self.needed[index] < guard.high:
            return FAR
        return number

    def at(self, levels: Sequence[Level], *, in_string: bool) -> tuple[Ids, Ids]:
        """(tokens that may be forbidden, tokens that certainly are), ids ascending; the latter may be among the former.

        Args:
            levels: the guarded frames, innermost first.
            in_string: whether all begins with a quotation mark.
        """
        key = (in_string, *(self._alike(level) for level in levels))
        found = self._known.get(key)
        if found is None:
            doubtful, certain = self._at(levels, in_string=in_string)
            found = np.flatnonzero(doubtful & ~certain), np.flatnonzero(certain)
            if len(self._known) < _REMEMBERED:
                self._known[key] = found
        doubtful_ids, certain_ids = found
        if levels and len(doubtful_ids) < len(self.tables.token_start) - 1:
            index, register, text, _ = levels[0]
            if self.guards[index].kind == "members" and text:  # a key that has been seen may end here
                by_end = self.tables.texts.by_key_end
                ends = [by_end.get(s[len(text) : -1], []) for s in register.seen if s.startswith(text)]
                if any(ends):
                    doubtful_ids = np.union1d(doubtful_ids, [token for tokens in ends for token in tokens])
        return doubtful_ids, certain_ids

    def _alike(self, level: Level) -> object:
        """What the suspects depend on in a level."""
        index, register, text, few = level
        guard = self.guards[index]
        number = self.near(index, register)
        if guard.kind == "characters":
            return index, number, bool(register.mode)
        return index, number, not register.number, bool(register.seen), text is None, not text, few

    def _at(self, levels: Sequence[Level], *, in_string: bool) -> tuple[Bool, Bool]:
        t = self.tables
        doubtful = np.zeros(len(t.token_start) - 1, dtype=np.bool_)
        certain = doubtful.copy()
        if self.entering is not None:
            doubtful |= self.entering
        #: Tokens that can end all frames so far.
        reaching: Bool | None = self.tables.texts.having(0x22) > 0 if in_string else None
        for index, register, text, few in levels:
            guard = self.guards[index]
            if guard.kind == "characters":  # always the innermost one, and counts without a quotation mark too
                mine, surely = self._characters(index, register)
                certain |= surely
                doubtful |= mine
                leaving = t.texts.having(0x22) > 0
            elif guard.kind == "items":
                mine = self._items(guard, register)
                leaving = t.texts.having(0x5D) > 0
            else:
                mine = self._members(index, register, text)
                leaving = t.texts.having(0x7D) > 0
            full = guard.kind == "members" and text is not None and _is_full(guard, register)
            if full or (few and register.seen):
                mine = reaching = np.ones_like(doubtful)
            doubtful |= mine if reaching is None else mine & reaching
            reaching = leaving if reaching is None else reaching & leaving
        return doubtful, certain

    def narrows(self, program: Program, state: int) -> bool:
        """Whether `narrowing` holds anything."""
        return len(self.narrowing(program, state)) > 0

    def narrowing(self, program: Program, state: int) -> Ids:
        """Tokens after which only few texts lead to the end of what is being read at a state."""
        found = self._narrowing.get(state)
        if found is None:
            rest, whole = self.tables.rest_of, self.tables.whole_of
            classes = np.zeros(program.classes, dtype=np.bool_)
            for here in (state, program.default_state[state]):
                if here < 0:
                    continue
                for edge in range(program.edge_start[here], program.edge_start[here + 1]):
                    for context, target in program.outcomes(edge):
                        if context >= 0:
                            pushed = program.chain(context)
                            counts = [rest[pushed[0]], *(whole[ret] for ret in (*pushed[1:], target))] if pushed else []
                            few = max(counts) < _MANY if counts else rest[target] < _MANY
                            classes[program.edge_class[edge]] |= few
            found = self._narrowing[state] = np.flatnonzero(classes[program.tables.token_class])
        return found

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

    def _items(self, guard: Guard, register: Register) -> Bool:
        t = self.tables
        commas = t.texts.having(0x2C)
        mine: Bool = np.zeros(len(commas), dtype=np.bool_)
        if guard.high is not None:
            mine = commas >= guard.high - register.number
            mine &= commas > 0
        if register.number + 1 < guard.low:
            mine = mine | (t.texts.having(0x5D) > 0)
        if guard.low and not register.number:  # the array may still be empty
            mine = mine | (t.texts.having(0x5D) > 0)
        if guard.distinct:
            mine = mine | (commas > 0)
            if register.seen:
                for byte in b']}" \t\n\r':
                    mine = mine | (t.texts.having(byte) > 0)
        return mine

    def _members(self, index: int, register: Register, text: bytes | None) -> Bool:
        t = self.tables
        mine: Bool = t.texts.whole_keys.copy()
        guard = self.guards[index]
        if register.number < guard.low or register.missing:
            mine |= t.texts.having(0x7D) > 0
        if guard.high is not None:
            mine |= t.texts.having(0x2C) > 0
        if not register.seen:
            return mine
        if text is None:
            if self.closed[index]:
                mine |= t.texts.having(0x2C) > 0
        elif not text:
            mine |= t.texts.having(0x22) > 0
        return mine


def _is_full(guard: Guard, register: Register) -> bool:
    """Whether only required keys may come."""
    return guard.high is not None and register.number + register.missing >= guard.high


def _entering(t: GuardTables, guards: Sequence[Guard]) -> Bool | None:
    found = np.zeros(len(t.token_start) - 1, dtype=np.bool_)
    commas = t.texts.having(0x2C)
    for guard in guards:
        if guard.kind == "characters":
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
            found |= t.texts.whole_keys
            if guard.low or guard.required:
                found |= (t.texts.having(0x7B) > 0) & (t.texts.having(0x7D) > 0)
            if guard.high is not None and len(guard.required) >= guard.high:
                found |= (t.texts.having(0x7B) > 0) & (t.texts.having(0x22) > 0)
    return found if found.any() else None


_KNOWN: WeakKeyDictionary[GuardTables, Suspects] = WeakKeyDictionary()
