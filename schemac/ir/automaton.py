"""The numeric level of the IR: a pushdown automaton over bytes as flat arrays.

Semantics of a configuration (state, stack of return states):

    read symbol b:  state' = next_state[state, symbol_of(b)], if it is not -1
    call:           for each call edge (p, r) of state: push r, go to entry[p]   (reads nothing)
    return:         accepting[state] and a stack [r, ...]: pop r, go to r        (reads nothing)
    accept:         accepting[state] and an empty stack

A frame of a procedure with a guard has a register besides, see `schemac.ir.graph.Guard`; a symbol with an action
changes it, and cannot be read where the guard forbids.

Symbols 0..K-1 are classes of bytes; symbols K..K+T-1 are special tokens, by `labels`. Within a procedure the automaton
over symbols and call edges is deterministic and minimal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from schemac_runtime.registers import ACTIONS, Guard

Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Automaton:
    """A trimmed pushdown automaton; `verify` lists its invariants.

    Attributes:
        byte_class: uint8 [256], the symbol of each byte.
        labels: texts of the special tokens that symbols K, K+1, ... stand for.
        next_state: int32 [N, K + T], -1 = no edge. Edges stay within a procedure.
        accepting: bool [N], where a procedure may end.
        owner: int32 [N], the procedure of each state; the states of a procedure are consecutive.
        entry: int32 [P], the first state of each procedure; procedure 0 is the root.
        call_start: int32 [N + 1], CSR offsets of each state's call edges.
        call_procedure, call_return: int32 [E], callee and the state to continue at.
        names, places: per procedure, for printing and for messages.
        optional_labels: those of `labels` that a vocabulary need not have; without the token, no text has it.
        guards: per procedure with a guard (procedure, guard), ascending.
        actions: int32 [A, 3], rows (state, symbol, index into `ACTIONS`), ascending.
    """

    byte_class: npt.NDArray[np.uint8]
    labels: tuple[str, ...]
    next_state: Int32
    accepting: Bool
    owner: Int32
    entry: Int32
    call_start: Int32
    call_procedure: Int32
    call_return: Int32
    names: tuple[str, ...]
    places: tuple[str, ...]
    optional_labels: tuple[str, ...] = ()
    guards: tuple[tuple[int, Guard], ...] = ()
    actions: Int32 = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int32))

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.next_state)

    @property
    def symbols(self) -> int:
        """The number of symbols, byte classes and special tokens together."""
        return int(self.next_state.shape[1])

    @property
    def byte_classes(self) -> int:
        """The number of byte classes."""
        return self.symbols - len(self.labels)

    def calls(self, state: int) -> Iterator[tuple[int, int]]:
        """The call edges of a state as (procedure, return state)."""
        for edge in range(self.call_start[state], self.call_start[state + 1]):
            yield int(self.call_procedure[edge]), int(self.call_return[edge])

    def bytes_of_symbol(self) -> list[list[tuple[int, int]]]:
        """Per byte class, its bytes as inclusive intervals."""
        intervals: list[list[tuple[int, int]]] = [[] for _ in range(self.byte_classes)]
        for byte, symbol in enumerate(self.byte_class.tolist()):
            ranges = intervals[symbol]
            if ranges and ranges[-1][1] == byte - 1:
                ranges[-1] = (ranges[-1][0], byte)
            else:
                ranges.append((byte, byte))
        return intervals


def verify(automaton: Automaton) -> list[str]:
    """All violations of the invariants, each naming its state or procedure; empty for a good automaton.

    Checked: shapes and index ranges; the states of a procedure are consecutive, its entry first; edges stay in their
    procedure; a state calls a procedure at most once; every state is reachable from its entry and reaches an end of its
    procedure; every procedure is reachable from the root; no procedure accepts the empty text (the root may); no cycle
    of calls reads nothing (left recursion). That states are minimal is for the passes to see to.
    """
    problems = _verify_shapes(automaton)
    return problems or [
        *_verify_structure(automaton),
        *_verify_left_recursion(automaton),
        *_verify_guards(automaton),
    ]


def _verify_shapes(a: Automaton) -> list[str]:
    n, procedures = a.states, len(a.entry)
    problems = []
    shapes: dict[str, tuple[npt.NDArray[np.integer], tuple[int, ...], int, int]] = {
        "byte_class": (a.byte_class, (256,), 0, a.byte_classes - 1),
        "next_state": (a.next_state, (n, a.symbols), -1, n - 1),
        "owner": (a.owner, (n,), 0, procedures - 1),
        "entry": (a.entry, (procedures,), 0, n - 1),
        "call_start": (a.call_start, (n + 1,), 0, len(a.call_procedure)),
        "call_procedure": (a.call_procedure, a.call_return.shape, 0, procedures - 1),
        "call_return": (a.call_return, a.call_procedure.shape, 0, n - 1),
    }
    for name, (array, shape, low, high) in shapes.items():
        if array.shape != shape:
            problems.append(f"{name}: shape {array.shape}, expected {shape}")
        elif array.size and (int(array.min()) < low or int(array.max()) > high):
            problems.append(f"{name}: values outside {low}..{high}")
    if a.accepting.shape != (n,):
        problems.append(f"accepting: shape {a.accepting.shape}, expected {(n,)}")
    if not problems and (np.any(np.diff(a.call_start) < 0) or a.call_start[-1] != len(a.call_procedure)):
        problems.append("call_start: not a CSR offset array")
    if not set(a.optional_labels) <= set(a.labels):
        problems.append("optional_labels: not all of them are labels")
    if len(a.names) != procedures or len(a.places) != procedures:
        problems.append("names and places: one per procedure expected")
    if not procedures:
        problems.append("entry: no procedure")
    if not problems and np.any(np.diff(a.owner) < 0):
        problems.append("owner: the states of a procedure are not consecutive")
    first = np.searchsorted(a.owner, np.arange(procedures + 1))
    if not problems and (not np.array_equal(a.entry, first[:-1]) or np.any(np.diff(first) == 0)):
        problems.append("entry: not the first state of each procedure")
    return problems


def call_sources(a: Automaton) -> Int32:
    """int32 [E]: the state that each call edge leaves."""
    return np.repeat(np.arange(a.states, dtype=np.int32), np.diff(a.call_start))


def _verify_structure(a: Automaton) -> list[str]:
    problems = []
    n_states = np.int64(a.states)
    source, symbol = np.nonzero(a.next_state >= 0)
    target = a.next_state[source, symbol]
    call_source = call_sources(a)
    for state in np.unique(source[a.owner[source] != a.owner[target]]).tolist():
        problems.append(f"state {state}: an edge leaves its procedure")
    for state in np.unique(call_source[a.owner[call_source] != a.owner[a.call_return]]).tolist():
        problems.append(f"state {state}: a call returns into another procedure")
    called = call_source * np.int64(len(a.entry)) + a.call_procedure
    twice = np.flatnonzero(np.diff(np.sort(called)) == 0)
    for state in np.unique(np.sort(called)[twice] // len(a.entry)).tolist():
        problems.append(f"state {state}: calls a procedure twice")
    joined = np.unique(source * n_states + target)
    forward = (np.concatenate([joined // n_states, call_source]), np.concatenate([joined % n_states, a.call_return]))
    reachable = _closure(a.entry, *forward, a.states)
    productive = _closure(np.flatnonzero(a.accepting), forward[1], forward[0], a.states)
    problems += [f"state {s}: not reachable from its entry" for s in np.flatnonzero(~reachable).tolist()]
    problems += [f"state {s}: cannot reach an end of its procedure" for s in np.flatnonzero(~productive).tolist()]
    used = _closure(np.zeros(1, np.int32), a.owner[call_source], a.call_procedure, len(a.entry))
    problems += [f"procedure {p}: never called" for p in np.flatnonzero(~used).tolist()]
    callees = set(a.call_procedure.tolist())
    empty = [p for p in np.flatnonzero(a.accepting[a.entry]).tolist() if p in callees]
    problems += [f"procedure {p}: is called and accepts the empty text" for p in empty]
    return problems


def _closure(
    seeds: npt.NDArray[np.integer], source: npt.NDArray[np.integer], target: npt.NDArray[np.integer], size: int
) -> Bool:
    """bool [size]: what can be reached from the seeds along source -> target edges."""
    order = np.argsort(source, kind="stable")
    start = np.searchsorted(source[order], np.arange(size + 1)).tolist()
    targets = target[order].tolist()
    reached = bytearray(size)
    stack = np.unique(seeds).tolist()
    for node in stack:
        reached[node] = 1
    while stack:
        node = stack.pop()
        for successor in targets[start[node] : start[node + 1]]:
            if not reached[successor]:
                reached[successor] = 1
                stack.append(successor)
    return np.frombuffer(reached, dtype=np.bool_)


def _verify_guards(a: Automaton) -> list[str]:
    """Guarded frames end by reading a byte, those of kind "repeats" after a call; actions belong to byte edges."""
    problems = []
    guarded = np.array([procedure for procedure, _ in a.guards], dtype=np.int64)
    if (np.diff(guarded) <= 0).any() or (guarded < 0).any() or (guarded >= len(a.entry)).any():
        return ["guards: not ascending procedures"]
    if any(guard.required and not (guard.kind == "members" and guard.distinct) for _, guard in a.guards):
        problems.append("guards: required keys that are not remembered")
    if a.actions.ndim != 2 or a.actions.shape[1] != 3:
        return [f"actions: shape {a.actions.shape}"]
    state, symbol, action = a.actions.T
    inside = (state >= 0) & (state < a.states) & (symbol >= 0) & (symbol < a.byte_classes)
    if not inside.all() or not ((action >= 0) & (action < len(ACTIONS))).all():
        return ["actions: out of range"]
    key = state.astype(np.int64) * a.symbols + symbol
    if (np.diff(key) <= 0).any():
        problems.append("actions: not ascending")
    if (a.next_state[state, symbol] < 0).any() or not np.isin(a.owner[state], guarded).all():
        problems.append("actions: on no edge of a guarded procedure")
    repeating = np.isin(a.owner, [procedure for procedure, guard in a.guards if guard.kind == "repeats"])
    ends_by_return = a.accepting[a.call_return] & np.isin(a.owner[a.call_return], guarded) & ~repeating[a.call_return]
    if ends_by_return.any() or a.accepting[a.entry[guarded]].any():
        problems.append("guards: a guarded frame ends without reading a byte")
    if repeating[a.entry[0]]:
        problems.append("guards: the root is a repetition")
    if (a.next_state[repeating] >= 0).any() or (np.diff(a.call_start)[repeating] == 0).any():
        problems.append("guards: a repetition does something else than call")
    return problems


def _verify_left_recursion(a: Automaton) -> list[str]:
    """A cycle in the relation `entry of p can call q before reading` is left recursion."""
    first_calls: list[list[int]] = []
    for entry in a.entry.tolist():
        first_calls.append([callee for callee, _ in a.calls(entry)])  # callees read something: no need to look past
    remaining = [len(callees) for callees in first_calls]
    callers: list[list[int]] = [[] for _ in first_calls]
    for procedure, callees in enumerate(first_calls):
        for callee in callees:
            callers[callee].append(procedure)
    ready = [p for p, count in enumerate(remaining) if count == 0]
    while ready:
        for caller in callers[ready.pop()]:
            remaining[caller] -= 1
            if remaining[caller] == 0:
                ready.append(caller)
    return [f"procedure {p}: left recursion" for p, count in enumerate(remaining) if count]
