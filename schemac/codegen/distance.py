"""How many tokens a text still needs: per state, within its frame, so that a stack's need is a sum.

The numbers are upper bounds that can be kept to: a token that ends a frame and goes on in the one below is not counted
on, though it may save one. So a text that keeps within them never runs out of tokens.
"""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import numpy.typing as npt

from schemac.codegen.costs import Costs, GuardCosts
from schemac.codegen.defaults import Defaults
from schemac.codegen.edges import Edges
from schemac.codegen.frames import Frames
from schemac.ir.automaton import Automaton
from schemac_runtime.guards import GuardTables
from schemac_runtime.program import EXIT, UNREACHABLE

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

#: Guarded frames nest: what an item needs counts for what its array needs. Deeper than this is as good as endless.
_ROUNDS = 30


def distances(
    automaton: Automaton,
    frames: Frames,
    defaults: Defaults,
    edges: Edges,
    token_class: Int32,
    tables: GuardTables | None,
) -> tuple[Int32, Int32, Costs | None]:
    """(distance, reach) int32 [N], and what guards add.

    `distance` is the tokens needed from a state to an end of its frame, `UNREACHABLE` where there is none. In a guarded
    frame it is that of a register that has counted nothing yet; what has been read is subtracted by a matcher. `reach`
    is the most that any one token leaves to be done, beside what the frames below need anyway, and beside what the
    guard of its own frame adds.

    Args:
        tables: what a matcher needs of an automaton with guards.
    """
    if tables is None:
        nothing = np.zeros(automaton.states, dtype=np.int64)
        distance, reach = _distances(automaton, frames, defaults, edges, token_class, nothing, nothing, nothing > 0)
        return distance.astype(np.int32), np.minimum(reach, UNREACHABLE).astype(np.int32), None
    guards = GuardCosts(automaton, tables)
    forks = np.array(tables.forks)  # where no text rests
    edges = edges.chosen(~forks[edges.origin])
    costs = guards.first()
    for _ in range(_ROUNDS):
        needed, more = guards.needed(costs), guards.surcharge(costs)
        distance, reach = _distances(automaton, frames, defaults, edges, token_class, needed, more, forks)
        before, costs = costs, guards.round(distance, needed)
        if all(map(np.array_equal, astuple(before), astuple(costs))):
            break
    else:
        costs = guards.most()
        needed, more = guards.needed(costs), guards.surcharge(costs)
        distance, reach = _distances(automaton, frames, defaults, edges, token_class, needed, more, forks)
    return distance.astype(np.int32), np.minimum(reach, UNREACHABLE).astype(np.int32), costs


def _distances(
    automaton: Automaton,
    frames: Frames,
    defaults: Defaults,
    edges: Edges,
    token_class: Int32,
    needed: Int64,
    more: Int64,
    forks: Bool,
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
    forked = np.flatnonzero(np.repeat(forks, np.diff(automaton.call_start)))
    fork = np.repeat(np.arange(states), np.diff(automaton.call_start))[forked]
    forked_entry, forked_return = automaton.entry[automaton.call_procedure[forked]], automaton.call_return[forked]
    heirs = np.flatnonzero(defaults.state >= 0)
    steps = _inherited_steps(heirs, defaults, edges, has_token)
    levels = _levels(frames)
    # Where the frame of the origin stands after an outcome, and what the commas on the way add.
    bottom = _bottoms(levels)[context]
    inside = np.where(bottom >= 0, bottom, target)
    step = 1 + np.maximum(more[origin] - more[inside], 0)
    # A guard may forbid to end an object or array where its last value ends: the bracket is counted on its own.
    step[_hasty_ends(automaton)[inside] & ~_may_close(automaton)[origin]] = UNREACHABLE
    while True:
        pushed = _pushed(levels, distance)
        after = distance.copy()
        np.minimum.at(after, origin, step + distance[target] + pushed[context])
        after[entering] = np.minimum(
            after[entering], distance[frames.enters[entering]] + distance[frames.enter_return[entering]]
        )
        np.minimum.at(after, fork, distance[forked_entry] + distance[forked_return])
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
    np.maximum.at(reach, origin, distance[target] + pushed[context] - needed[origin])
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


def _hasty_ends(automaton: Automaton) -> Bool:
    """bool [N]: where the frames of objects and arrays with a guard end."""
    mine = np.zeros(len(automaton.entry), dtype=np.bool_)
    mine[[procedure for procedure, guard in automaton.guards if guard.kind in ("items", "members")]] = True
    ends: Bool = automaton.accepting & mine[automaton.owner]
    return ends


def _may_close(automaton: Automaton) -> Bool:
    """bool [N]: where the next byte may end the frame."""
    following = automaton.next_state
    closes: Bool = np.any((following >= 0) & automaton.accepting[following], axis=1)
    return closes


def _bottoms(levels: list[tuple[Int64, Int64, Int64]]) -> Int64:
    """int64 [contexts]: the first return that each context pushes, -1 for none."""
    bottom = np.full(sum(len(contexts) for contexts, _, _ in levels), -1, dtype=np.int64)
    for contexts, parent, top in levels[1:]:
        bottom[contexts] = np.where(bottom[parent] >= 0, bottom[parent], top)
    return bottom


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
