"""Facts about repetitions: which bytes begin and end a repeated text, and how many of those a token can begin.

All are sets of bytes by procedure, from the automaton alone: a superset of what can happen, whatever the stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from schemac_runtime.guards import GuardTables

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Repetition:
    """One guard of kind "repeats".

    Attributes:
        later: int32 [V], how many repeated texts can begin in a token behind others that end in it, at most.
        first: bool [V], tokens whose first byte can begin a repeated text.
        leaving: bool [V], tokens that hold a byte that can follow the repetition.
        passing: bool [V], tokens in which the repetition can end and what follows it begin.
        most: how many texts can begin in one token, at most.
        plain: whether a byte that begins a repeated text can only do that.
    """

    later: Int32
    first: Bool
    leaving: Bool
    passing: Bool
    most: int
    plain: bool

    @cached_property
    def begun(self) -> memoryview:
        """By token, how many repeated texts begin in it, at most."""
        return (self.later + self.first).astype(np.int32).data

    @cached_property
    def begun_later(self) -> memoryview:
        """By token, the same where one is being read."""
        return self.later.data

    def count(self, *, starts: bool) -> Int32:
        """int32 [V]: the same; `starts` says whether one can begin with the first byte."""
        return np.frombuffer(self.begun, dtype=np.int32) if starts else self.later


def repetitions(tables: GuardTables) -> dict[int, Repetition]:
    """By the index of the guard."""
    indices = [index for index, (_, guard) in enumerate(tables.guards) if guard.kind == "repeats"]
    if not indices:
        return {}
    sets = _Sets(tables)
    data, start = tables.token_bytes, tables.token_start
    alone = _alone(tables)
    found: dict[int, Repetition] = {}
    for index in indices:
        procedure = tables.guards[index][0]
        bodies = np.unique(sets.callee[sets.owner == procedure])
        first, last = sets.first[bodies].any(axis=0), sets.last[bodies].any(axis=0)
        follow, inner = sets.follow[procedure], sets.inner[bodies].any(axis=0)
        begins, ends, goes_on = (sets.of_bytes(which)[data] for which in (first, last, follow))
        later = tables.texts.counted(_pairs(ends, begins, start))
        at_start = np.zeros(len(start) - 1, dtype=np.bool_)
        some = np.flatnonzero(np.diff(start))
        at_start[some] = begins[start[:-1][some]]
        at_start |= first[alone] & (alone >= 0)
        leaving = (tables.texts.counted(goes_on) > 0) | (follow[alone] & (alone >= 0))
        passing = tables.texts.counted(_pairs(ends, goes_on, start)) > 0
        most = int((later + at_start).max(initial=0))
        found[index] = Repetition(later, at_start, leaving, passing, most, not (first & inner).any())
    return found


def _alone(t: GuardTables) -> npt.NDArray[np.int64]:
    """int64 [V]: the symbol of a special token, or -1."""
    alone = np.full(len(t.token_start) - 1, -1, dtype=np.int64)
    for token, symbol in t.label_symbol.items():
        alone[token] = symbol
    return alone


def _pairs(left: Bool, right: Bool, start: Int32) -> Bool:
    """bool [bytes]: bytes of one set behind one of another in the same token."""
    pairs = np.zeros_like(right)
    pairs[1:] = right[1:] & left[:-1]
    pairs[start[:-1][np.diff(start) > 0]] = False
    return pairs


class _Sets:
    """Sets of symbols: bool [procedures, symbols] each.

    Attributes:
        first, last, follow: what a text of a procedure begins and ends with, and what comes right after one.
        inner: what a text of a procedure can have behind its first symbol.
    """

    def __init__(self, t: GuardTables) -> None:
        self._byte_class = t.byte_class
        procedures = len(t.entry)
        source = np.repeat(np.arange(len(t.owner)), np.diff(t.call_start))
        self.owner = t.owner[source]
        self.callee = t.call_procedure
        ret, accepting = t.call_return, t.accepting > 0
        reads = t.next_state >= 0
        state, symbol = np.nonzero(reads)
        target = t.next_state[state, symbol]
        at_entry = source == t.entry[self.owner]

        self.first = reads[t.entry].copy()
        self._spread(self.first, self.owner[at_entry], self.callee[at_entry])
        self.last = np.zeros((procedures, t.symbols), dtype=np.bool_)
        ends = accepting[target]
        self.last[t.owner[state[ends]], symbol[ends]] = True
        self._spread(self.last, self.owner[accepting[ret]], self.callee[accepting[ret]])
        self.follow = np.zeros((procedures, t.symbols), dtype=np.bool_)
        np.logical_or.at(self.follow, self.callee, reads[ret])
        returned = np.flatnonzero(np.isin(source, ret))
        for edge in returned.tolist():  # what is called where a call has returned to
            self.follow[self.callee[ret == source[edge]]] |= self.first[self.callee[edge]]
        self._spread(self.follow, self.callee[accepting[ret]], self.owner[accepting[ret]])
        anything = np.zeros((procedures, t.symbols), dtype=np.bool_)
        anything[t.owner[state], symbol] = True
        self._spread(anything, self.owner, self.callee)
        again = np.isin(t.entry, np.concatenate([target, ret]))  # entries that are come back to
        later = (state != t.entry[t.owner[state]]) | again[t.owner[state]]
        self.inner = np.zeros((procedures, t.symbols), dtype=np.bool_)
        self.inner[t.owner[state[later]], symbol[later]] = True
        deep = ~at_entry | again[self.owner]
        np.logical_or.at(self.inner, self.owner[deep], anything[self.callee[deep]])
        self._spread(self.inner, self.owner[~deep], self.callee[~deep])

    @staticmethod
    def _spread(sets: Bool, to: npt.NDArray[np.integer], of: npt.NDArray[np.integer]) -> None:
        """Let each of some procedures have what another has, until nothing changes."""
        while len(to):
            before = sets.copy()
            np.logical_or.at(sets, to, before[of])
            if np.array_equal(sets, before):
                return

    def of_bytes(self, symbols: Bool) -> Bool:
        """bool [256]: the bytes of a set of symbols."""
        found: Bool = symbols[self._byte_class]
        return found


def entering_states(t: GuardTables) -> list[bool]:
    """[N]: the states from which a guarded frame can be entered before the frame of the state ends."""
    state, symbol = np.nonzero(t.next_state >= 0)
    caller = np.repeat(np.arange(len(t.owner)), np.diff(t.call_start))
    guarded = np.zeros(len(t.entry), dtype=np.bool_)
    guarded[[procedure for procedure, _ in t.guards]] = True
    source = np.concatenate([state, caller, caller])
    target = np.concatenate([t.next_state[state, symbol], t.call_return, t.entry[t.call_procedure]])
    before: list[list[int]] = [[] for _ in t.owner]
    for one, two in zip(source.tolist(), target.tolist(), strict=True):
        before[two].append(one)
    pending = caller[guarded[t.call_procedure]].tolist()
    found = [False] * len(t.owner)
    for here in pending:  # grows while we walk it
        if not found[here]:
            found[here] = True
            pending += before[here]
    return found


# -- tokens that are spelled alike -----------------------------------------------------------------------------

#: Bytes that mean something of their own in JSON text: mark, backslash, letters of escapes, whitespace.
_LEXICAL = {0x22: 3, 0x5C: 4, 0x75: 5, **dict.fromkeys(b"dD", 6), **dict.fromkeys(b"89abAB", 7)}
_LEXICAL |= dict.fromkeys(b" \t\n\r", 8)
_FACTOR = 0x9E3779B97F4A7C15  # odd: powers of it tell positions apart


def spelled_alike(t: GuardTables, tokens: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Tokens in groups that no guard and no state can tell apart, if no guard compares values."""
    kind = _kinds(t)
    start, length = t.token_start[tokens].astype(np.int64), np.diff(t.token_start)[tokens].astype(np.int64)
    own = np.concatenate([[0], np.cumsum(length)])  # where each token's bytes begin in `data`
    place = np.arange(own[-1]) - np.repeat(own[:-1], length)
    data = kind[t.token_bytes[np.repeat(start, length) + place]]
    weight = np.ones(int(length.max(initial=0)) + 1, dtype=np.uint64)
    np.multiply.accumulate(np.full(len(weight) - 1, _FACTOR, dtype=np.uint64), out=weight[1:])
    sums = np.cumsum((data + np.uint64(1)) * weight[place], dtype=np.uint64)
    total = np.concatenate([np.zeros(1, np.uint64), sums])
    key = (total[own[1:]] - total[own[:-1]]) ^ (length.astype(np.uint64) << np.uint64(48))
    order = np.argsort(key, kind="stable")
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = key[order[1:]] != key[order[:-1]]
    # Equal keys are no proof: each member is compared with the one before it, byte by byte.
    before = order[np.maximum(np.arange(len(order)) - 1, 0)]
    same = (length[order] == length[before]) & (length[order] > 0)  # special tokens are each their own
    lengths = np.where(same, length[order], 0)
    offset = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    mine, theirs = np.repeat(own[order], lengths) + offset, np.repeat(own[before], lengths) + offset
    differs = np.concatenate([[0], np.cumsum(data[mine] != data[theirs])])
    ends = np.cumsum(lengths)
    fresh |= ~same | (differs[ends] != differs[ends - lengths])
    return np.split(tokens[order], np.flatnonzero(fresh)[1:])


def _kinds(t: GuardTables) -> npt.NDArray[np.uint64]:
    """uint64 [256]: equal for bytes that no state tells apart, and that mean the same in JSON text."""
    groups = np.array([_LEXICAL.get(byte, 1 + (byte & 0xC0 == 0x80)) for byte in range(256)], dtype=np.int64)
    _, kind = np.unique(t.byte_class.astype(np.int64) * 16 + groups, return_inverse=True)
    found: npt.NDArray[np.uint64] = kind.reshape(-1).astype(np.uint64)
    return found
