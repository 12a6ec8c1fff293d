"""What a guarded matcher knows of repetitions, whose frames may end without reading."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemac_runtime.follower import Follower, Place, Places, Registers, chain
from schemac_runtime.masks import or_mask, unpack
from schemac_runtime.matcher import Matcher
from schemac_runtime.program import EXIT, UNREACHABLE
from schemac_runtime.registers import calls_counted
from schemac_runtime.stacks import EMPTY_STACK, Stack
from schemac_runtime.suspects import Suspects

#: Frames below the innermost one that are looked at to see whether they can enter another guarded frame.
_LOOKED_DOWN = 30


class RepeatingMatcher(Matcher):
    """The part of a guarded matcher that deals with repetitions."""

    __slots__ = ("_follower", "_nowhere", "_places", "_suspects")

    _follower: Follower
    _nowhere: Stack
    _places: Places
    _suspects: Suspects

    def _quick_repeated(self, place: Place, token: int) -> Places | None:
        """The place after a token within the innermost frame, a repetition; None where that is not so simple."""
        state, stack, registers = place
        if registers is None:
            return None
        index, register, below = registers
        repetition = self._suspects.repeated.get(index)
        if repetition is None or not repetition.plain or self._suspects.hasty[token]:
            return None
        program, guard, guard_of = self.program, self._follower.guards[index], self._follower.tables.guard_of
        symbol_class = program.token_class[token]
        begun: memoryview = repetition.begun
        outer: Stack | None = stack
        if guard_of[state] < 0:  # within a repeated text
            begun, outer = repetition.begun_later, stack.parent
            if program.accepting[state] or stack.parent is None or guard_of[stack.ret] < 0:
                return None
            outcome = program.only_outcome(state, symbol_class)
            if outcome is not None and outcome[0] == EXIT:
                state, stack, symbol_class = stack.ret, stack.parent, outcome[1]
                outcome = None
        else:
            outcome = None
        if outcome is None:
            if register.number + register.mode >= guard.low and self._readable_below(stack, symbol_class):
                return None
            outcome = program.only_outcome(state, symbol_class)
        if outcome is None or outcome[0] == EXIT:
            return None
        for ret in program.chain(outcome[0]):
            stack = self._pool.push(stack, ret)
        after = self._settled_once(outcome[1], stack)
        counted = calls_counted(guard, register, begun[token])
        if after is None or counted is None or counted.number + counted.mode == guard.high:
            return None
        here, above = after
        while guard_of[here] < 0 and above.parent is not None:
            here, above = above.ret, above.parent
        if guard_of[here] < 0 or above is not outer:  # another guarded frame has been entered
            return None
        reached: Place = (*after, (index, counted, below))
        return (reached,) if self._follower.alive(reached) else None

    def _readable_below(self, stack: Stack, symbol_class: int) -> bool:
        """Whether a text might be read in the frames below one that ends here."""
        program = self.program
        while stack.ret != EMPTY_STACK:
            if stack.parent is None or program.edge(stack.ret, symbol_class) >= 0:
                return True
            if not program.accepting[stack.ret]:
                return False
            stack = stack.parent
        return False

    def _may_enter(self, place: Place) -> bool:
        """Whether another guarded frame can be entered from a place; not looked at closely without repetitions."""
        if not self._suspects.repeated:
            return True
        state, stack, _ = place
        leads_in = self._suspects.leads_in
        for _ in range(_LOOKED_DOWN):
            if leads_in[state]:
                return True
            if stack.parent is None:
                return stack.ret != EMPTY_STACK
            state, stack = stack.ret, stack.parent
        return True

    def _starting(self, state: int, stack: Stack) -> int:
        """How many of the guarded frames, innermost first, can make their next call before another byte is read."""
        guard_of, accepting = self._follower.tables.guard_of, self.program.accepting
        found = 0
        while True:
            found += guard_of[state] >= 0
            if not accepting[state]:
                return found
            if stack.parent is None:  # the end, or several ways: any of the frames
                return found if stack.ret == EMPTY_STACK else UNREACHABLE
            state, stack = stack.ret, stack.parent

    def _unmet(self, registers: Registers) -> int | None:
        """Which guarded frame, counted from the innermost, is the first repetition that needs more calls."""
        for frame, (index, register) in enumerate(chain(registers)):
            guard = self._follower.guards[index]
            if guard.kind == "repeats" and register.number + register.mode < guard.low:
                return frame
        return None

    def _with_unmet(
        self, place: Place, unmet: int, doubtful: npt.NDArray[np.int64], certain: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """With the tokens that cannot be read without ending a repetition that needs more calls, the frame `unmet`.

        Those that cannot begin as many texts as it needs are certainly forbidden.
        """
        program = self.program
        state, stack, registers = place
        index, register = chain(registers)[unmet]
        gone = np.ones(program.vocab_size, dtype=np.bool_)
        above, _ = self._cut(state, stack, unmet)
        if above is not None:
            row = np.zeros(program.words, dtype=np.int32)
            or_mask(row, above.masks.get(state) or self._mask(state, above))
            gone = ~unpack(row, program.vocab_size)
        counts = self._suspects.repeated[index].count(starts=True)
        few = counts < self._follower.guards[index].low - register.number - register.mode
        if above is None:
            return np.union1d(doubtful, np.flatnonzero(gone)), certain
        return np.union1d(doubtful, np.flatnonzero(gone & ~few)), np.union1d(certain, np.flatnonzero(gone & few))

    def _cut(self, state: int, stack: Stack, frame: int) -> tuple[Stack | None, Stack]:
        """(the part of a stack above a guarded frame, counted from the innermost, or None if there are several, what
        lies below that frame).
        """
        guard_of = self._follower.tables.guard_of
        returns: list[int] = []
        here = state
        while True:
            frame -= guard_of[here] >= 0
            if frame < 0:
                break
            if stack.parent is None:
                return None, stack
            returns.append(stack.ret)
            here, stack = stack.ret, stack.parent
        above = self._nowhere
        for ret in reversed(returns):
            above = self._pool.push(above, ret)
        return above, stack

    def _read_in_several_ways(self, keep: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Those of some tokens of which repetitions may forbid one reading and allow another, ids ascending."""
        suspects = self._suspects
        if not suspects.repeated:
            return np.zeros(0, dtype=np.int64)
        doubtful = np.zeros(len(keep), dtype=np.bool_)
        for place in self._places:
            if suspects.entering is not None and self._may_enter(place):
                doubtful |= suspects.entering
            for index, register in chain(place[2]):
                high = self._follower.guards[index].high
                if index in suspects.repeated and high is not None:
                    doubtful |= suspects.repeated[index].count(starts=True) > high - register.number
        return np.flatnonzero(keep & doubtful)
