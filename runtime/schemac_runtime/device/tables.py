"""Linked programs as tables for stepping on a device: mask by state, select, advance, with no host in the loop.

That is for programs that are deterministic and need no stack: wherever a text may stand is one state. Most schemas
without recursion are so after inlining. `step_tables` says why another is not.

Device states are numbered over all programs: state 0 is a request without constraint, and each program has an end state
in which only its stop ids are allowed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from schemac_runtime.errors import DeviceError
from schemac_runtime.kernels.table import CLASSES, INFO, MOST, NEED, NEVER, ROW
from schemac_runtime.matcher import Matcher
from schemac_runtime.program import EXIT, NO_EDGE, Program

Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

#: The device state of a request without constraint.
FREE = 0
#: Bytes that the table of next states of all programs may take.
MOST_BYTES = 256 << 20


@dataclass(frozen=True, eq=False)
class StepTables:
    """Programs as `schemac_runtime.kernels` steps them. S states, P class tables, V tokens, W words.

    Attributes:
        vocab_size: V, the same for all programs.
        info: int32 [S, 4]: row, class table, tokens that suffice to the end, most that any one token leaves.
        start: int64 [S], where a state's next states begin in `following`.
        classes: int32 [P, V].
        following: int32, the next state by class; -1 for none.
        rows: int32 [R, W], the distinct masks; row 0 is for state 0 and allows everything.
        entry: for each program, the state in which a text starts.
    """

    vocab_size: int
    info: Int32
    start: npt.NDArray[np.int64]
    classes: Int32
    following: Int32
    rows: Int32
    entry: tuple[int, ...]

    def min_tokens(self, program: int) -> int:
        """The tokens that the shortest text of a program takes, the one that ends it included."""
        return int(self.info[self.entry[program], NEED])


def step_tables(
    programs: Sequence[Program], stop_ids: Sequence[Sequence[int]] | None = None, *, most_bytes: int = MOST_BYTES
) -> StepTables:
    """Tables for programs of one vocabulary.

    Args:
        programs: deterministic and without a stack.
        stop_ids: for each, ids that end a text beside those of the vocabulary, as `Program.matcher` takes them.
        most_bytes: what the next states of all may take.

    Raises:
        DeviceError: a program is not so, and why; the vocabularies differ; or the tables would be too large.
    """
    if not programs:
        raise DeviceError("no program to step")
    vocab = programs[0].vocab_size
    if any(program.vocab_size != vocab for program in programs):
        raise DeviceError("the programs are for vocabularies of different sizes", hint="step them apart")
    words = (vocab + 31) // 32
    info = [np.array([[0, 0, -1, -1]], np.int32)]
    classes, rows, entry = [], [np.full((1, words), -1, np.int32)], []
    following, starts = [], []
    states, length, row_count = 1, 0, 1
    for number, program in enumerate(programs):
        extra = tuple(stop_ids[number]) if stop_ids is not None else ()
        part = _Export(program, extra, (most_bytes - 4 * length) // 4).result()
        if number == 0:  # a request without constraint reads any class of the first program and stays
            following.append(np.zeros(part.next.shape[1], np.int32))
            starts.append(np.zeros(1, np.int64))
            length = part.next.shape[1]
        count, width = part.next.shape
        table = np.empty((count, INFO), np.int32)
        table[:, ROW] = part.row_of + row_count
        table[:, CLASSES] = number
        table[:, NEED], table[:, MOST] = part.need, part.most
        info.append(table)
        classes.append(part.classes)
        starts.append(length + np.arange(count, dtype=np.int64) * width)
        following.append(np.where(part.next >= 0, part.next + states, -1).astype(np.int32).reshape(-1))
        rows.append(part.rows)
        entry.append(states + 1)
        states, length, row_count = states + count, length + count * width, row_count + len(part.rows)
    made = StepTables(
        vocab, np.concatenate(info), np.concatenate(starts), np.stack(classes), np.concatenate(following),
        np.concatenate(rows), tuple(entry),
    )  # fmt: skip
    for array in (made.info, made.start, made.classes, made.following, made.rows):
        array.flags.writeable = False
    return made


@dataclass(frozen=True, eq=False)
class _Part:
    """One program; its state 0 is the end, state 1 the start.

    Attributes:
        next: int32 [S, C], -1 for none.
        classes: int32 [V].
        need, most: int32 [S].
        rows: int32 [R, W]; row_of: int32 [S].
    """

    next: Int32
    classes: Int32
    need: Int32
    most: Int32
    rows: Int32
    row_of: Int32


class _Export:
    """Walks the states that a text can reach, breadth first, and writes down where each class of tokens leads."""

    def __init__(self, program: Program, stop_ids: tuple[int, ...], room: int) -> None:
        self.program, self.room = program, room
        self.tables: Any = program.tables
        matcher = program.matcher(stop_ids)
        if type(matcher) is not Matcher:
            raise DeviceError(
                "the program cannot be stepped on a device: it counts or remembers more than a state",
                hint="masks by row id work for every program",
            )
        stops = np.array(sorted(matcher.stop_ids), dtype=np.int64)
        token_class = self.tables.token_class
        plain = np.ones(program.vocab_size, dtype=np.bool_)
        plain[stops] = False
        # A stop id ends the text where it may end and is a token like others elsewhere: a class of its own.
        self.used, number = np.unique(token_class[plain], return_inverse=True)
        self.stop_used, stop_number = np.unique(token_class[stops], return_inverse=True)
        self.classes = np.empty(program.vocab_size, np.int32)
        self.classes[plain] = number.reshape(-1)
        self.classes[stops] = len(self.used) + stop_number.reshape(-1)
        self.place = {int(c): i for i, c in enumerate(self.used)}

    def _refuse(self, state: int, why: str) -> NoReturn:
        raise DeviceError(
            f"the program cannot be stepped on a device: state {state} {why}",
            hint="masks by row id work for every program",
        )

    def _target(self, state: int, target: int) -> int:
        if self.program.enter_state[target] >= 0:
            self._refuse(state, f"leads to a call of another procedure (state {target}), which needs a stack")
        return target

    def _edges(self, state: int) -> dict[int, int]:
        """Next state by class, own edges only; -1 where an edge takes away what the default has."""
        program, found = self.program, {}
        for edge in range(program.edge_start[state], program.edge_start[state + 1]):
            value = program.edge_value[edge]
            if value == NO_EDGE:
                found[program.edge_class[edge]] = -1
                continue
            targets = set()
            for context, target in program.outcomes(edge):
                if context == EXIT:
                    continue  # the text would have to go on below an empty stack
                if program.chain(context):
                    self._refuse(state, "pushes a return state, which needs a stack")
                targets.add(self._target(state, target))
            if len(targets) > 1:
                self._refuse(state, "leads to several states at once: the source is ambiguous")
            found[program.edge_class[edge]] = targets.pop() if targets else -1
        return found

    def _row(self, state: int) -> Int32:
        """The next states by class of the program, int32 [classes]."""
        program = self.program
        row = np.full(program.classes, -1, np.int32)
        default = program.default_state[state]
        layers = [state]
        if default >= 0:
            if program.default_return[state] >= 0:
                self._refuse(state, "inherits what a called procedure does, which needs a stack")
            layers = [default, state]
        for layer in layers:
            edges = self._edges(layer)
            row[list(edges)] = list(edges.values())
        return row

    def result(self) -> _Part:
        program, tables = self.program, self.tables
        if program.chain(int(tables.start_context[0])):
            self._refuse(int(tables.start[0]), "is the start, and has return states below it")
        first = int(tables.start[0])
        number, order, rows = {first: 1}, deque([first]), []
        columns = len(self.used) + len(self.stop_used)
        reached: list[int] = []
        while order:
            state = order.popleft()
            reached.append(state)
            row = self._row(state)
            for target in np.unique(row[self.used]).tolist():
                if target >= 0 and target not in number:
                    number[target] = len(number) + 1
                    order.append(target)
            for target in np.unique(row[self.stop_used]).tolist():
                if target >= 0 and target not in number and not program.accepting[state]:
                    number[target] = len(number) + 1
                    order.append(target)
            if (len(number) + 1) * columns > self.room:
                raise DeviceError(
                    f"the next states by class of {len(number):,} states and {columns:,} classes need more than "
                    f"{self.room * 4:,} bytes", hint="masks by row id need no such table",
                )  # fmt: skip
            rows.append(np.concatenate((row[self.used], row[self.stop_used])))
        following = np.full((len(reached) + 1, columns), -1, np.int32)
        renumber = np.full(program.states + 1, -1, np.int32)  # the last entry is where -1 leads
        renumber[list(number)] = list(number.values())
        for index, (state, row) in enumerate(zip(reached, rows, strict=True), 1):
            following[index] = renumber[row]
            if program.accepting[state]:
                following[index, len(self.used) :] = 0
        following[0, len(self.used) :] = 0
        need = _needs(following)
        after = np.where(following >= 0, need[following], -1)
        patterns, row_of = np.unique(np.packbits(following >= 0, axis=1), axis=0, return_inverse=True)
        packed = np.stack([self._packed(np.unpackbits(p)[:columns] > 0) for p in patterns])
        return _Part(following, self.classes, need, after.max(axis=1).astype(np.int32), packed,
                     row_of.reshape(-1).astype(np.int32))  # fmt: skip

    def _packed(self, allowed: Bool) -> Int32:
        """The packed mask of the tokens of some classes."""
        padded = np.zeros(self.program.words * 32, dtype=np.bool_)
        padded[: self.program.vocab_size] = allowed[self.classes]
        mask: Int32 = np.packbits(padded, bitorder="little").view(np.int32)
        return mask


def _needs(following: Int32) -> Int32:
    """int32 [S]: the fewest tokens from each state to state 0, breadth first from there."""
    states = len(following)
    source, column = np.nonzero(following >= 0)
    pairs = np.unique(following[source, column].astype(np.int64) * states + source)
    target, origin = pairs // states, pairs % states
    first = np.searchsorted(target, np.arange(states + 1))
    need = np.full(states, NEVER, np.int32)
    need[0] = 0
    layer, distance = np.array([0]), 0
    while len(layer):
        distance += 1
        before = np.unique(np.concatenate([origin[first[s] : first[s + 1]] for s in layer.tolist()]))
        layer = before[need[before] == NEVER]
        need[layer] = distance
    return need
