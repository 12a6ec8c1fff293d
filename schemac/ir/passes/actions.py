"""Make the actions of guards part of the bytes that come before them.

procedure 0 "array", guard items          procedure 0 "array", guard items
  1: "," -> 2                      =>       1: "," -> 3 next
  2: action next -> 3
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from schemac.ir.graph import ACTION
from schemac.ir.passes.determinize import Alphabet, Deterministic
from schemac_runtime.registers import ACTIONS

Int32 = npt.NDArray[np.int32]


def without_actions(alphabet: Alphabet) -> Alphabet:
    """The alphabet without the labels that stand for actions."""
    return replace(alphabet, labels=tuple(text for text in alphabet.labels if not text.startswith(ACTION)))


def fold_actions(p: Deterministic, alphabet: Alphabet) -> tuple[Deterministic, Int32]:
    """(the procedure without states that only act, int32 [A, 3] rows (state, symbol, index into `ACTIONS`)).

    The symbols of special tokens move down by the labels that are gone; actions stand first, since labels are sorted.
    """
    count = sum(text.startswith(ACTION) for text in alphabet.labels)
    if not count:
        return p, np.zeros((0, 3), dtype=np.int32)
    low, high = alphabet.byte_classes, alphabet.byte_classes + count
    acting, label = np.nonzero(p.next_state[:, low:high] >= 0)
    behind = p.next_state[acting, low + label]
    rest = np.delete(p.next_state, np.s_[low:high], axis=1)
    _check(p, acting, rest, behind)
    states = len(p.accepting)
    action = np.full(states, -1, dtype=np.int32)
    action[acting] = [ACTIONS.index(alphabet.labels[index].removeprefix(ACTION)) for index in label.tolist()]
    skip = np.append(np.arange(states, dtype=np.int32), np.int32(-1))  # the last slot serves next_state == -1
    skip[acting] = behind
    keep = np.ones(states, dtype=np.bool_)
    keep[acting] = False
    number = np.append(np.cumsum(keep, dtype=np.int32) - 1, np.int32(-1))
    source, symbol = np.nonzero(action[rest] >= 0) if len(acting) else (acting, acting)
    live = (rest[source, symbol] >= 0) & keep[source]
    source, symbol = source[live], symbol[live]
    rows = np.stack([number[source], symbol, action[rest[source, symbol]]], axis=1).astype(np.int32)
    calls = p.call_edges
    folded = replace(
        p,
        next_state=number[skip[rest[keep]]],
        accepting=p.accepting[keep],
        call_edges=np.stack([number[calls[:, 0]], calls[:, 1], number[calls[:, 2]]], axis=1).astype(np.int32),
    )
    return folded, rows[np.lexsort((rows[:, 1], rows[:, 0]))]


def _check(p: Deterministic, acting: npt.NDArray[np.intp], rest: Int32, behind: Int32) -> None:
    """A state that acts does nothing else, is entered by bytes only, and leads to one that does not act."""
    alone = not (
        len(np.unique(acting)) < len(acting)
        or (rest[acting] >= 0).any()
        or p.accepting[acting].any()
        or np.isin(p.call_edges[:, 0], acting).any()
    )
    if (p.guard is None and len(acting)) or not alone or 0 in acting or np.isin(behind, acting).any():
        raise AssertionError(f"{p.name} at {p.place}: an action does not stand alone")
    if np.isin(p.call_edges[:, 2], acting).any():
        raise AssertionError(f"{p.name} at {p.place}: an action follows a call")
