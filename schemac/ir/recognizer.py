"""Running an automaton on bytes, as its docstring defines it: for `schemac check`, for sampling, and for tests.

Stacks are linked frames that are shared, so that a step costs what it changes. Nothing here knows of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from schemac.ir.automaton import Automaton
from schemac_runtime.registers import ACTIONS, Register, acted, called, character, may_close, opened


class Stack:
    """One return state and what lies below; equal stacks are one object within a recognizer."""

    __slots__ = ("children", "depth", "parent", "ret")

    def __init__(self, ret: int, parent: Stack | None) -> None:
        self.ret = ret
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[int, Stack] = {}

    def push(self, ret: int) -> Stack:
        """This stack with `ret` on top."""
        child = self.children.get(ret)
        if child is None:
            child = self.children[ret] = Stack(ret, self)
        return child


#: More bytes than a detour through a member takes.
_MUCH = 1 << 20
#: Registers of the guarded frames: (procedure, register, those of the frames below), None at the bottom.
Registers = tuple[int, Register, "Registers"] | None
Place = tuple[int, Stack, Registers]


class Places(list[Place]):
    """Places, and the text that led to them if a register needs it."""

    text: bytes = b""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What `check` found.

    Attributes:
        accepted: whether the text is in the language.
        position: the byte offset of the first byte that cannot be read; the length of the text if it ends too early or
            is accepted.
        read: what stands at `position`, printable.
        expected: the bytes that could stand there, printable, and ``end of text`` if it could end.
    """

    accepted: bool
    position: int
    read: str
    expected: str


class Recognizer:
    """Sets of places (state, stack, registers) of one automaton."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.bottom = Stack(-1, None)
        self._entry = automaton.entry.tolist()
        self._accepting = automaton.accepting.tolist()
        self._byte_class = automaton.byte_class.tolist()
        self._calls = [list(automaton.calls(state)) for state in range(automaton.states)]
        self._label = {text: automaton.byte_classes + index for index, text in enumerate(automaton.labels)}
        self._guards = dict(automaton.guards)
        self._keeps_text = any(guard.kind in ("items", "members") for guard in self._guards.values())
        self._owner = automaton.owner.tolist()
        self._goes_on = ((automaton.next_state >= 0).any(axis=1) | (np.diff(automaton.call_start) > 0)).tolist()
        self._actions = {(state, symbol): ACTIONS[action] for state, symbol, action in automaton.actions.tolist()}

    def start(self) -> Places:
        """Where every text starts."""
        return self.closure([(self._entry[0], self.bottom, self._entered(0, None, 0))], b"")

    def _entered(self, procedure: int, registers: Registers, position: int) -> Registers:
        guard = self._guards.get(procedure)
        return registers if guard is None else (procedure, opened(guard, position), registers)

    def _calling(self, state: int, registers: Registers) -> tuple[Registers, bool]:
        """(the registers for a call from a state, whether its guard allows one)."""
        guard = self._guards.get(self._owner[state])
        if guard is None or guard.kind != "repeats":
            return registers, True
        assert registers is not None
        counted = called(guard, registers[1])
        return (registers, False) if counted is None else ((registers[0], counted, registers[2]), True)

    def closure(self, places: list[Place], text: bytes) -> Places:
        """All places reached without reading, the given ones included, behind a text."""
        found = dict.fromkeys(places)
        pending = list(found)
        while pending:
            state, stack, registers = pending.pop()
            calling, allowed = self._calling(state, registers) if self._calls[state] else (None, False)
            after: list[Place] = [
                (self._entry[procedure], stack.push(ret), self._entered(procedure, calling, len(text)))
                for procedure, ret in (self._calls[state] if allowed else ())
            ]
            if self._accepting[state] and stack.parent is not None:
                ends = True
                if self._owner[state] in self._guards:
                    assert registers is not None
                    procedure, register, registers = registers
                    ends = may_close(self._guards[procedure], register, text, len(text))
                    if not ends and not self._goes_on[state]:
                        del found[state, stack, (procedure, register, registers)]
                if ends:
                    after.append((stack.ret, stack.parent, registers))
            for place in after:
                if place not in found:
                    found[place] = None
                    pending.append(place)
        reached = Places(found)
        reached.text = text
        return reached

    def step(self, places: Places, read: int | str) -> Places:
        """The places after one byte, or after the special token of a text; empty if none can read it."""
        text = places.text
        if self._keeps_text and isinstance(read, int):
            text += bytes((read,))
        symbol = self._label[read] if isinstance(read, str) else self._byte_class[read]
        next_state = self.automaton.next_state
        after: list[Place] = []
        for state, stack, registers in places:
            target = int(next_state[state, symbol])
            if target < 0:
                continue
            if self._owner[state] in self._guards:
                assert isinstance(read, int)
                changed = self._changed(registers, self._actions.get((state, symbol)), read, text)
                if changed is not None:
                    after.append((target, stack, changed))
            else:
                after.append((target, stack, registers))
        return self.closure(after, text)

    def _changed(self, registers: Registers, action: str | None, byte: int, text: bytes) -> Registers:
        """The registers after a byte of the topmost guarded frame; None if that forbids it."""
        assert registers is not None
        procedure, before, below = registers
        guard, register = self._guards[procedure], before
        changed: Register | None = register
        if guard.kind == "characters":
            changed = character(guard, register, byte)
        elif action is not None:
            changed = acted(guard, register, action, text, len(text))
        return None if changed is None else (procedure, changed, below)

    def ended(self, places: Places) -> bool:
        """Whether a text that led to these places is a whole one."""
        return any(self._accepting[state] and stack.parent is None for state, stack, _ in places)

    def allowed(self, places: Places) -> list[int]:
        """The bytes that can be read next, ascending."""
        symbols = np.zeros(self.automaton.symbols, dtype=np.bool_)
        for state, *_ in places:
            symbols |= self.automaton.next_state[state] >= 0
        found: list[int] = np.flatnonzero(symbols[self.automaton.byte_class]).tolist()
        if self._guards:
            found = [byte for byte in found if self.step(places, byte)]
        return found

    def allowed_tokens(self, places: Places) -> list[str]:
        """The special tokens that can be read next, without those that a vocabulary need not have."""
        return [
            text
            for text, symbol in self._label.items()
            if text not in self.automaton.optional_labels
            and any(self.automaton.next_state[state, symbol] >= 0 for state, *_ in places)
        ]

    def nearest(self, places: Places) -> int | str | None:
        """What to read next on a shortest way to the end, a byte or a token; None where the text can end (or must)."""
        if self.ended(places):
            return None
        best: tuple[float, int | str] | None = None
        choices: list[int | str] = [*self.allowed(places), *self.allowed_tokens(places)]
        for read in choices:
            after = self.step(places, read)
            if not after:  # a guard forbids it
                continue
            length = min(
                self.remaining(state, stack) + self._ahead(registers, after.text) for state, stack, registers in after
            )
            if best is None or length < best[0]:
                best = length, read
        return None if best is None else best[1]

    def remaining(self, state: int, stack: Stack) -> float:
        """The fewest bytes from a place to the end of the text."""
        total = float(self.distance[state])
        while stack.parent is not None:
            total += float(self.distance[stack.ret])
            stack = stack.parent
        return total

    def _ahead(self, registers: Registers, text: bytes) -> int:
        """What the required keys that have not come add to a length: more than any detour, so that they come first."""
        total = 0
        while registers is not None:
            procedure, register, registers = registers
            if register.missing:
                required = self._guards[procedure].required - register.seen
                key = text[register.start :].lstrip() if register.start >= 0 else None
                rests = [] if key is None else [len(of) - len(key) for of in required if of.startswith(key)]
                total += _MUCH * register.missing - (_MUCH - min(rests) if rests else 0)
        return total

    @cached_property
    def distance(self) -> npt.NDArray[np.float64]:
        """float64 [N]: the fewest bytes from each state to an end of its procedure.

        Special tokens count as one byte; those that a vocabulary need not have are left out.
        """
        a = self.automaton
        source, symbol = np.nonzero(a.next_state >= 0)
        needed = ~np.isin(symbol, [self._label[text] for text in a.optional_labels])
        source, symbol = source[needed], symbol[needed]
        target = a.next_state[source, symbol]
        caller = np.repeat(np.arange(a.states), np.diff(a.call_start))
        distance = np.where(a.accepting, 0.0, np.inf)
        while True:
            after = distance.copy()
            np.minimum.at(after, source, distance[target] + 1)
            np.minimum.at(after, caller, distance[a.entry[a.call_procedure]] + distance[a.call_return])
            if np.array_equal(after, distance):
                return distance
            distance = after


def check(automaton: Automaton, text: bytes) -> CheckResult:
    """Read `text`, and say where and why it is refused if it is."""
    recognizer = Recognizer(automaton)
    places = recognizer.start()
    for position, byte in enumerate(text):
        after = recognizer.step(places, byte)
        if not after:
            return CheckResult(False, position, _show_text(text, position), _show_expected(recognizer, places))
        places = after
    if recognizer.ended(places):
        return CheckResult(True, len(text), "end of text", "end of text")
    return CheckResult(False, len(text), "end of text", _show_expected(recognizer, places))


def _show_text(text: bytes, position: int) -> str:
    start = max(0, position - 20)
    before = text[start:position].decode("utf-8", "backslashreplace")
    here = text[position : position + 12].decode("utf-8", "backslashreplace")
    return f"{_quoted(here)} after {_quoted(before)}" if before else _quoted(here)


def _quoted(text: str) -> str:
    return "'" + text.encode("unicode_escape").decode("ascii") + "'"


def _show_expected(recognizer: Recognizer, places: Places) -> str:
    """The allowed bytes as ranges, longer forced texts spelled out."""
    allowed = recognizer.allowed(places)
    shown: list[str] = []
    if len(allowed) == 1:
        forced = bytearray()
        here = places
        while len(allowed) == 1 and len(forced) < 40 and not (forced and recognizer.ended(here)):
            forced.append(allowed[0])
            here = recognizer.step(here, allowed[0])
            allowed = recognizer.allowed(here)
        shown.append(_quoted(forced.decode("utf-8", "backslashreplace")))
    else:
        start = 0
        for index in range(1, len(allowed) + 1):
            if index == len(allowed) or allowed[index] != allowed[index - 1] + 1:
                low, high = allowed[start], allowed[index - 1]
                ends = [_quoted(bytes([b]).decode("latin-1")) if b < 0x80 else f"0x{b:02X}" for b in (low, high)]
                shown.append(ends[0] if low == high else f"{ends[0]}..{ends[1]}" if high > low + 1 else ", ".join(ends))
                start = index
    if recognizer.ended(places):
        shown.append("end of text")
    return ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "")
