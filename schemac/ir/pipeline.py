"""The one pipeline from a symbolic `Module` to a numeric `Automaton`, as data.

The command line, the library and the tests all run `lower`; `schemac compile --stats` prints its statistics.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.ir.automaton import Automaton, verify
from schemac.ir.graph import Module
from schemac.ir.passes.actions import fold_actions, without_actions
from schemac.ir.passes.determinize import Alphabet, Deterministic, determinize, module_alphabet
from schemac.ir.passes.inline import inline_calls
from schemac.ir.passes.left_recursion import eliminate_left_recursion
from schemac.ir.passes.minimize import minimize
from schemac.ir.passes.repetitions import write_out_recursive
from schemac.ir.passes.tail_calls import loop_tail_calls
from schemac.ir.passes.trim import drop_unproductive, remove_nullable


@dataclass(frozen=True, slots=True)
class PassStatistics:
    """What one pass did: nodes or states before and after, and its time in seconds."""

    name: str
    seconds: float
    states_before: int
    states_after: int


#: So many byte edges take about the memory of a state on the way through the passes.
EDGES_PER_STATE = 8

#: Module -> Module, in order.
SYMBOLIC_PASSES: tuple[tuple[str, Callable[[Module, Budget], Module]], ...] = (
    ("drop-unproductive", lambda module, _: drop_unproductive(module)),
    ("remove-nullable", lambda module, _: remove_nullable(module)),
    ("write-out-recursive", write_out_recursive),
    ("eliminate-left-recursion", eliminate_left_recursion),
    ("loop-tail-calls", loop_tail_calls),
    ("inline-calls", inline_calls),
    ("loop-inlined-calls", loop_tail_calls),
    ("drop-uncalled", lambda module, _: drop_unproductive(module)),
)


def lower(module: Module, budget: Budget) -> tuple[Automaton, tuple[PassStatistics, ...]]:
    """Run every pass; the result meets `verify`.

    Raises:
        EmptyLanguageError, UnsupportedError, BudgetExceeded: see the passes.
    """
    statistics: list[PassStatistics] = []
    with budget.at(module.procedures[0].place or None):
        return _lower(module, budget, statistics), tuple(statistics)


def _lower(module: Module, budget: Budget, statistics: list[PassStatistics]) -> Automaton:
    def record(name: str, started: float, before: int, after: int) -> None:
        statistics.append(PassStatistics(name, time.perf_counter() - started, before, after))

    for procedure in module.procedures:
        if procedure.graph.exact is None:
            edges = sum(map(len, procedure.graph.byte_edges))
            budget.spend("states", edges // EDGES_PER_STATE, place=procedure.place or None)
    for name, run in SYMBOLIC_PASSES:
        started, before = time.perf_counter(), _nodes(module)
        module = run(module, budget)
        record(name, started, before, _nodes(module))
        budget.check_time()
    budget.spend("procedures", len(module.procedures))

    started, before = time.perf_counter(), _nodes(module)
    alphabet = module_alphabet(module)
    deterministic = determinize(module, alphabet, budget)
    record("determinize", started, before, _states(deterministic))

    started, before = time.perf_counter(), _states(deterministic)
    minimal = minimize(deterministic, budget)
    record("minimize", started, before, _states(minimal))

    started, before = time.perf_counter(), _states(minimal)
    automaton = assemble(minimal, alphabet)
    record("assemble", started, before, automaton.states)

    started = time.perf_counter()
    problems = verify(automaton)
    if problems:
        raise AssertionError("the pipeline broke an invariant: " + "; ".join(problems[:5]))
    record("verify", started, automaton.states, automaton.states)
    return automaton


def _nodes(module: Module) -> int:
    return sum(len(procedure.graph) for procedure in module.procedures)


def _states(procedures: list[Deterministic]) -> int:
    return sum(len(procedure.accepting) for procedure in procedures)


def assemble(procedures: list[Deterministic], alphabet: Alphabet) -> Automaton:
    """Concatenate the procedures, make actions part of the bytes before them, and merge byte classes that no state
    tells apart.
    """
    folded = [fold_actions(p, alphabet) for p in procedures]
    procedures = [p for p, _ in folded]
    alphabet = without_actions(alphabet)
    sizes = [len(p.accepting) for p in procedures]
    base = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    next_state = np.concatenate([p.next_state for p in procedures]).astype(np.int32, copy=False)
    for i, shift in enumerate(base[:-1].tolist()):
        part = next_state[shift : base[i + 1]]
        np.add(part, shift, out=part, where=part >= 0)
    calls = np.concatenate(
        [p.call_edges + np.array([base[i], 0, base[i]], dtype=np.int32) for i, p in enumerate(procedures)]
    )
    reads, labels = next_state[:, : alphabet.byte_classes], next_state[:, alphabet.byte_classes :]
    actions = np.concatenate([of + np.array([base[i], 0, 0], dtype=np.int32) for i, (_, of) in enumerate(folded)])
    acting = np.full(reads.shape if len(actions) else (0, reads.shape[1]), -1, dtype=np.int32)
    if len(actions):
        acting[actions[:, 0], actions[:, 1]] = actions[:, 2]
    columns = np.ascontiguousarray(np.concatenate([reads, acting]).T)
    groups: dict[bytes, int] = {}
    merged = [groups.setdefault(hashlib.sha256(column.tobytes()).digest(), len(groups)) for column in columns]
    first = [merged.index(group) for group in range(len(groups))]
    total = int(base[-1])
    return Automaton(
        byte_class=np.array(merged, dtype=np.uint8)[alphabet.byte_class],
        labels=alphabet.labels,
        next_state=np.ascontiguousarray(np.concatenate([reads[:, first], labels], axis=1)),
        accepting=np.concatenate([p.accepting for p in procedures]),
        owner=np.repeat(np.arange(len(procedures), dtype=np.int32), sizes),
        entry=base[:-1].copy(),
        call_start=np.searchsorted(calls[:, 0], np.arange(total + 1)).astype(np.int32),
        call_procedure=np.ascontiguousarray(calls[:, 1]),
        call_return=np.ascontiguousarray(calls[:, 2]),
        names=tuple(p.name for p in procedures),
        places=tuple(p.place for p in procedures),
        optional_labels=alphabet.optional,
        guards=tuple((i, p.guard) for i, p in enumerate(procedures) if p.guard is not None),
        actions=_merged_actions(actions, np.array(merged, dtype=np.int32)),
    )


def _merged_actions(actions: npt.NDArray[np.int32], merged: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The rows of actions by merged byte class."""
    if not len(actions):
        return actions
    rows: npt.NDArray[np.int32] = np.unique(
        np.stack([actions[:, 0], merged[actions[:, 1]], actions[:, 2]], axis=1), axis=0
    )
    return rows
