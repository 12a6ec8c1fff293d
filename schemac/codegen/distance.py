"""How many tokens a text still needs: per state, within its frame, so that a stack's need is a sum.

The numbers are upper bounds that can be kept to: a token that ends a frame and goes on in the one below is not counted
on, though it may save one. So a text that keeps within them never runs out of tokens.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemac.codegen.defaults import Defaults
from schemac.codegen.edges import Edges
from schemac.codegen.frames import Frames
from schemac.ir.automaton import Automaton, call_sources
from schemac_runtime.program import EXIT, UNREACHABLE
from schemac_runtime.registers import ACTIONS, NEXT

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

#: Guarded frames nest: what an item needs counts for what its array needs. Deeper than this is as good as endless.
_ROUNDS = 30


def distances(
    automaton: Automaton, frames: Frames, defaults: Defaults, edges: Edges, token_class: Int32
) -> tuple[Int32, Int32, Int32]:
    """(distance, reach) int32 [N], and unit int32 [guards].

    In a guarded frame the distance is that of a register that has counted nothing yet: `unit` tokens are added for each
    of the characters, items or keys that are needed at least, and a matcher subtracts what has been counted.

    `distance` is the tokens needed from a state to an end of its frame, `UNREACHABLE` where there is none. `reach` is
    the most that any one token leaves to be done, beside what the frames below need anyway.
    """
    unit = np.ones(len(automaton.guards), dtype=np.int64)
    for _ in range(_ROUNDS):
        distance, reach = _distances(automaton, frames, defaults, edges, token_class, _needed(automaton, unit))
        before, unit = unit, _units(automaton, distance, _needed(automaton, unit))
        if np.array_equal(before, unit):
            break
    else:
        unit[:] = UNREACHABLE
        distance, reach = _distances(automaton, frames, defaults, edges, token_class, _needed(automaton, unit))
    return distance.astype(np.int32), np.minimum(reach, UNREACHABLE).astype(np.int32), unit.astype(np.int32)


def _needed(automaton: Automaton, unit: Int64) -> Int64:
    """int64 [N]: the tokens for what the guard of a state's frame needs at least."""
    of_procedure = np.zeros(len(automaton.entry), dtype=np.int64)
    for (procedure, guard), each in zip(automaton.guards, unit.tolist(), strict=True):
        # The first call of a repetition is made before any of its states is returned to.
        least = max(guard.low, len(guard.required)) - (guard.kind == "repeats")
        of_procedure[procedure] = min(least * each, UNREACHABLE)
    needed: Int64 = of_procedure[automaton.owner]
    return needed


def _units(automaton: Automaton, distance: Int64, needed: Int64) -> Int64:
    """int64 [guards]: the tokens that one more item or key needs: the comma, and what follows it; or one more call."""
    a = automaton
    unit = np.ones(len(a.guards), dtype=np.int64)
    state, symbol = a.actions[:, 0], a.actions[:, 1]
    behind = a.next_state[state, symbol]
    for index, (procedure, guard) in enumerate(a.guards):
        mine = behind[(a.owner[state] == procedure) & (a.actions[:, 2] == ACTIONS.index(NEXT))]
        if guard.kind == "repeats":
            callees = a.call_procedure[a.owner[call_sources(a)] == procedure]
            unit[index] = min(int(distance[a.entry[callees]].max(initial=1)), UNREACHABLE)
        elif (guard.low or guard.required) and len(mine):
            unit[index] = min(1 + int((distance[mine] - needed[mine]).max()), UNREACHABLE)
    return unit


def _distances(
    automaton: Automaton, frames: Frames, defaults: Defaults, edges: Edges, token_class: Int32, needed: Int64
) -> tuple[Int64, Int64]:
    states = automaton.states
    has_token = np.zeros(1 + int(max(edges.symbol_class.max(initial=0), token_class.max(initial=0))), dtype=np.bool_)
    has_token[token_class] = True
    usable = edges.local & has_token[edges.symbol_class]
    contexts = len(frames.parent)
    key = np.unique((edges.origin[usable] * contexts + edges.context[usable]) * states + edges.target[usable])
    target, context, origin = key % states, key // states % contexts, key // states // contexts

    distance = np.where(automaton.accepting, needed, UNREACHABLE).astype(np.int64)
    entering = np.flatnonzero(frames.enters >= 0)
    heirs = np.flatnonzero(defaults.state >= 0)
    steps = _inherited_steps(heirs, defaults, edges, has_token)
    levels = _levels(frames)
    while True:
        pushed = _pushed(levels, distance)
        after = distance.copy()
        np.minimum.at(after, origin, 1 + distance[target] + pushed[context])
        after[entering] = np.minimum(
            after[entering], distance[frames.enters[entering]] + distance[frames.enter_return[entering]]
        )
        if len(heirs):
            below = np.where(defaults.ret[heirs] >= 0, distance[defaults.ret[heirs]], 0)
            first, there, over = steps
            best = np.full(len(heirs), UNREACHABLE, dtype=np.int64)
            np.minimum.at(best, first, 1 + distance[there] + pushed[over])
            after[heirs] = np.minimum(after[heirs], best + below)
        after = np.minimum(after, UNREACHABLE)
        if np.array_equal(after, distance):
            break
        distance = after
    pushed = _pushed(levels, distance)
    reach = np.zeros(states, dtype=np.int64)
    np.maximum.at(reach, origin, distance[target] + pushed[context])
    np.maximum.at(reach, *_exit_reach(edges, distance, pushed))
    if len(heirs):
        below = np.where(defaults.ret[heirs] >= 0, distance[defaults.ret[heirs]], 0)
        reach[heirs] = np.maximum(reach[heirs], reach[defaults.state[heirs]] + below)
    return distance, reach


def _levels(frames: Frames) -> list[tuple[Int64, Int64, Int64]]:
    """(context, parent, top) arrays of the contexts, by how many returns they push; context 0 pushes none."""
    parent, top = np.array(frames.parent, dtype=np.int64), np.array(frames.top, dtype=np.int64)
    depth = np.zeros(len(parent), dtype=np.int64)
    for context in range(1, len(parent)):  # parents come first
        depth[context] = depth[parent[context]] + 1
    numbers = [np.flatnonzero(depth == level) for level in range(int(depth.max()) + 1)]
    return [(contexts, parent[contexts], top[contexts]) for contexts in numbers]


def _pushed(levels: list[tuple[Int64, Int64, Int64]], distance: Int64) -> Int64:
    """int64 [contexts]: the sum of the distances of the returns that each context pushes."""
    total = np.zeros(sum(len(contexts) for contexts, _, _ in levels), dtype=np.int64)
    for contexts, parent, top in levels[1:]:
        total[contexts] = np.minimum(total[parent] + distance[top], UNREACHABLE)
    return total


def _exit_reach(edges: Edges, distance: Int64, pushed: Int64) -> tuple[Int64, Int64]:
    """(origin, tokens left at most, beside those of the frames below) of outcomes that end the frame."""
    local, exits = edges.local, edges.context == EXIT
    left = np.zeros(1 + int(edges.symbol_class.max(initial=0)), dtype=np.int64)
    np.maximum.at(left, edges.symbol_class[local], distance[edges.target[local]] + pushed[edges.context[local]])
    while True:
        after = left.copy()
        np.maximum.at(after, edges.symbol_class[exits], left[edges.target[exits]])
        if np.array_equal(after, left):
            return edges.origin[exits], left[edges.target[exits]]
        left = after


def _inherited_steps(
    heirs: npt.NDArray[np.intp], defaults: Defaults, edges: Edges, has_token: npt.NDArray[np.bool_]
) -> tuple[Int64, Int64, Int64]:
    """(index of the heir, target, context) of a few outcomes that each heir inherits and does not hide."""
    rows: list[tuple[int, int, int]] = []
    start = np.searchsorted(edges.origin, np.arange(len(defaults.state) + 1)).tolist()
    offers: dict[int, list[tuple[int, int, int]]] = {}
    classes = edges.symbol_class
    for index, heir in enumerate(heirs.tolist()):
        parent = int(defaults.state[heir])
        if parent not in offers:
            seen: dict[tuple[int, int], list[int]] = {}
            for edge in range(start[parent], start[parent + 1]):
                if edges.context[edge] >= 0 and has_token[classes[edge]]:
                    outcome = int(edges.target[edge]), int(edges.context[edge])
                    seen.setdefault(outcome, []).append(int(classes[edge]))
            offers[parent] = [(*outcome, c) for outcome, list_ in seen.items() for c in list_[:4]]
        own = set(classes[start[heir] : start[heir + 1]].tolist())
        rows += [(index, target, context) for target, context, c in offers[parent] if c not in own]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]
