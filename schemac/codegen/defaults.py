"""Default states: most of what a state does, said once.

In an object with open keys, every prefix of a declared key is a state of its own, and each of them allows nearly every
token: a key that leaves the declared ones goes on as any other key does. Such a state q behaves, but for a few next
bytes, as (f, r) does: state f, the inside of any key, with return r pushed. Where the first byte of a token is none of
those few, q and (f, r) go to the same place; so q needs outcomes of its own only for the others, and inherits the rest
of f's, above r. (The idea of default transitions in D2FA, Kumar et al., SIGCOMM 2006, one byte deep, with a stack.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemac.codegen.frames import Frames
from schemac.ir.automaton import Automaton

Int32 = npt.NDArray[np.int32]

#: A state that reads fewer bytes than this has few outcomes anyway.
DENSE_BYTES = 64
#: A state inherits if at most this share of what its default reads, in bytes, goes elsewhere. First bytes of longer
#: characters, a third of what a string reads, may: whole characters lead back to the same place.
EXCEPTIONS = 0.5


class Defaults(NamedTuple):
    """What each state inherits.

    Attributes:
        state: int32 [N], the state f that a state inherits from, or -1. It has no default itself.
        ret: int32 [N], the return r that is pushed below f, or -1 for none.
        same: bool [N, symbols], for states with a default: the symbols after which the two are in the same place.
    """

    state: Int32
    ret: Int32
    same: npt.NDArray[np.bool_]


def no_defaults(automaton: Automaton) -> Defaults:
    """Nothing is inherited."""
    none = np.full(automaton.states, -1, dtype=np.int32)
    return Defaults(none, none, np.zeros((automaton.states, 0), dtype=np.bool_))


def default_states(automaton: Automaton, frames: Frames) -> Defaults:
    """Find a default for every state that has a good one.

    Neither end of an inheritance calls, may end its procedure, or is a return state: relations that are restricted to
    return states need no inheritance then.
    """
    a = automaton
    excluded = frames.special.copy()
    excluded[a.call_return] = True
    excluded |= (a.next_state[:, a.byte_classes :] >= 0).any(axis=1)
    reads = a.next_state[:, : a.byte_classes]
    weight = np.bincount(a.byte_class, minlength=a.byte_classes)
    dense = np.flatnonzero(~excluded & (((reads >= 0) @ weight) >= DENSE_BYTES))
    if not len(dense):
        return no_defaults(a)
    target = _most_common_target(reads[dense], weight)
    usable = (target >= 0) & (target != dense)
    heir, target = dense[usable], target[usable]
    # Where the target does nothing but call, the default is the callee's entry, above the return.
    ret = np.where(frames.enters[target] >= 0, frames.enter_return[target], -1)
    parent = np.where(frames.enters[target] >= 0, frames.enters[target], target)
    usable = ~excluded[parent] & (frames.enters[parent] < 0)
    heir, parent, ret = heir[usable], parent[usable], ret[usable]

    context = np.zeros(len(heir), dtype=np.int64)
    pushed = np.flatnonzero(ret >= 0)
    context[pushed] = [frames.push_one(0, r) for r in ret[pushed].tolist()]
    same = np.zeros((len(heir), a.symbols), dtype=np.bool_)
    for symbol in range(a.byte_classes):
        mine, theirs = reads[heir, symbol].astype(np.int64), reads[parent, symbol].astype(np.int64)
        same[:, symbol] = (mine < 0) & (theirs < 0)
        both = np.flatnonzero((mine >= 0) & (theirs >= 0))
        my_context, my_state = frames.settle(np.zeros(len(both), np.int64), mine[both])
        their_context, their_state = frames.settle(context[both], theirs[both])
        same[both, symbol] = (my_context == their_context) & (my_state == their_state)
    differs = ~same[:, : a.byte_classes] @ weight
    total = (reads[parent] >= 0) @ weight
    close = differs <= EXCEPTIONS * total
    close &= ~np.isin(heir, parent[close])  # a default inherits nothing, so that one look-up more is all it takes
    result = Defaults(
        np.full(a.states, -1, dtype=np.int32),
        np.full(a.states, -1, dtype=np.int32),
        np.zeros((a.states, a.symbols), dtype=np.bool_),
    )
    result.state[heir[close]] = parent[close]
    result.ret[heir[close]] = ret[close]
    result.same[heir[close]] = same[close]
    return result


def _most_common_target(rows: Int32, weight: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """int64 [n]: per row of next states, the one with the most bytes; -1 if none is read."""
    order = np.argsort(rows, axis=1, kind="stable")
    targets = np.take_along_axis(rows, order, axis=1)
    fresh = np.ones(targets.shape, dtype=np.bool_)
    fresh[:, 1:] = targets[:, 1:] != targets[:, :-1]
    group = np.cumsum(fresh.ravel()) - 1
    sums = np.bincount(group, weights=weight[order].ravel()).astype(np.int64)
    starts = targets.ravel()[fresh.ravel()].astype(np.int64)
    sums[starts < 0] = 0
    row = np.repeat(np.arange(len(rows)), fresh.sum(axis=1))
    best = np.lexsort((-sums, row))
    common: npt.NDArray[np.int64] = starts[best[np.searchsorted(row[best], np.arange(len(rows)))]]
    return common
