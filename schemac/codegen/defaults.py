"""Default states: most of what a state does, said once.

In an object with open keys, every prefix of a declared key is a state of its own, and each of them allows nearly every
token: a key that leaves the declared ones goes on as any other key does. Such a state q behaves as a state f does, but
for a few next bytes. Where the first byte of a token is none of those, q and f go to the same place, so q needs
outcomes of its own only for the others, and inherits the rest of f's. (The idea of default transitions in D2FA, Kumar et
al., SIGCOMM 2006, one byte deep.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemac.ir.automaton import Automaton

Int32 = npt.NDArray[np.int32]

#: A state that reads fewer bytes than this has few outcomes anyway.
DENSE_BYTES = 64
#: A state inherits if at most this share of what its default reads, in bytes, goes elsewhere.
EXCEPTIONS = 0.25


def default_states(automaton: Automaton) -> Int32:
    """int32 [N]: the state that each state inherits from, or -1. A default has no default itself.

    Neither end of an inheritance calls, may end its procedure, or is a return state: relations that are restricted to
    return states need no inheritance then.
    """
    a = automaton
    default = np.full(a.states, -1, dtype=np.int32)
    excluded = a.accepting | (np.diff(a.call_start) > 0)
    excluded[a.call_return] = True
    reads = a.next_state[:, : a.byte_classes]
    weight = np.bincount(a.byte_class, minlength=a.byte_classes)
    dense = np.flatnonzero(~excluded & (((reads >= 0) @ weight) >= DENSE_BYTES))
    if not len(dense):
        return default
    rows = reads[dense]
    # The most common target, by bytes: sort each row's targets and sum the weights of equal ones.
    order = np.argsort(rows, axis=1, kind="stable")
    targets = np.take_along_axis(rows, order, axis=1)
    weights = weight[order]
    fresh = np.ones(targets.shape, dtype=np.bool_)
    fresh[:, 1:] = targets[:, 1:] != targets[:, :-1]
    group = np.cumsum(fresh.ravel()) - 1
    sums = np.bincount(group, weights=weights.ravel()).astype(np.int64)
    sums[targets.ravel()[fresh.ravel()] < 0] = 0
    row_of_group = np.repeat(np.arange(len(dense)), fresh.sum(axis=1))
    best = np.lexsort((-sums, row_of_group))
    first = np.searchsorted(row_of_group[best], np.arange(len(dense)))
    mode = targets.ravel()[np.flatnonzero(fresh.ravel())[best[first]]]

    usable = (mode >= 0) & (mode != dense) & ~excluded[mode]
    candidate, parent = dense[usable], mode[usable]
    differs = (reads[candidate] != reads[parent]) @ weight
    total = (reads[parent] >= 0) @ weight
    close = differs <= EXCEPTIONS * total
    default[candidate[close]] = parent[close]
    labels = a.next_state[:, a.byte_classes :]
    if labels.shape[1]:
        with_labels = (labels >= 0).any(axis=1)
        default[with_labels] = -1
        default[with_labels[default] & (default >= 0)] = -1
    roots = np.zeros(a.states, dtype=np.bool_)
    roots[default[default >= 0]] = True
    default[roots] = -1  # a default inherits nothing, so that one look-up more is all it takes
    return default
