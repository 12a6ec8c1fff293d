"""Contexts: the stacks of return states that reading one text can push, interned and handled as arrays.

Context 0 pushes nothing; every other context is (parent, top). What lies below context 0 is unknown here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.ir.automaton import Automaton

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Frames:
    """Pushing, popping and settling, for one automaton.

    A state settles: one that can do nothing but return pops, one that can do nothing but call enters the callee. So a
    matcher rests only where there is something to read, or at an end.

    Attributes:
        special: bool [N], states that a step must look at twice: they may end their procedure, or call.
        call_start, call_chain, call_state: CSR per state of (chain of pushed returns, state reached) over one or more
            calls; chains are numbers, see `push`.
        returns_only: bool [N]; enters: int64 [N], the entry to go to, or -1; enter_return: int64 [N].
    """

    def __init__(self, automaton: Automaton, budget: Budget) -> None:
        a = automaton
        self._automaton = a
        self._budget = budget
        reads = (a.next_state >= 0).any(axis=1)
        calls = np.diff(a.call_start)
        self.returns_only = a.accepting & ~reads & (calls == 0)
        single = np.flatnonzero(~a.accepting & ~reads & (calls == 1))
        self.enters = np.full(a.states, -1, dtype=np.int64)
        self.enter_return = np.full(a.states, -1, dtype=np.int64)
        self.enters[single] = a.entry[a.call_procedure[a.call_start[single]]]
        self.enter_return[single] = a.call_return[a.call_start[single]]
        self.special = a.accepting | (calls > 0)
        self.parent: list[int] = [0]
        self.top: list[int] = [-1]
        self._child: dict[tuple[int, int], int] = {}
        self._arrays: tuple[Int64, Int64] = (np.zeros(1, dtype=np.int64), np.full(1, -1, dtype=np.int64))
        self._chains: list[tuple[int, ...]] = []
        self._pushed: dict[tuple[int, int], int] = {}
        self._below: dict[int, int] = {}
        self._close_calls()

    def _close_calls(self) -> None:
        a = self._automaton
        chain_number: dict[tuple[int, ...], int] = {}
        counts = np.zeros(a.states, dtype=np.int64)
        chains: list[int] = []
        states: list[int] = []
        entries, starts = a.entry.tolist(), a.call_start.tolist()
        procedures, returns = a.call_procedure.tolist(), a.call_return.tolist()
        for state in np.flatnonzero(np.diff(a.call_start)).tolist():
            seen: set[tuple[tuple[int, ...], int]] = set()
            stack: list[tuple[tuple[int, ...], int]] = [((), state)]
            while stack:
                chain, here = stack.pop()
                for edge in range(starts[here], starts[here + 1]):
                    item = ((*chain, returns[edge]), entries[procedures[edge]])
                    if item not in seen:
                        seen.add(item)
                        stack.append(item)
            self._budget.spend("branches", len(seen), place=a.places[a.owner[state]])
            counts[state] = len(seen)
            for chain, reached in sorted(seen):
                chains.append(chain_number.setdefault(chain, len(chain_number)))
                states.append(reached)
        self._chains = list(chain_number)
        self.call_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.call_chain = np.array(chains, dtype=np.int64)
        self.call_state = np.array(states, dtype=np.int64)

    def continuations(self, procedure: int) -> Int32:
        """The states at which a frame may go on once `procedure` has ended above it, sorted.

        These are the return states of its calls and, through those that may themselves end their procedure, the return
        states of their callers.
        """
        a = self._automaton
        callee_order = a.call_procedure
        found: set[int] = set()
        procedures, pending = {procedure}, [procedure]
        while pending:
            for state in np.unique(a.call_return[callee_order == pending.pop()]).tolist():
                found.add(state)
                owner = int(a.owner[state])
                if a.accepting[state] and owner not in procedures:
                    procedures.add(owner)
                    pending.append(owner)
        return np.array(sorted(found), dtype=np.int32)

    def push_one(self, context: int, state: int) -> int:
        """The context with `state` pushed on `context`."""
        child = self._child.get((context, state))
        if child is None:
            child = self._child[context, state] = len(self.parent)
            self.parent.append(context)
            self.top.append(state)
            if child & 255 == 0:
                self._budget.spend("branches", 256)
        return child

    def push(self, context: Int64, chain: Int64) -> Int64:
        """Push each chain of return states on each context."""
        keys = context * (len(self._chains) or 1) + chain
        unique, inverse = np.unique(keys, return_inverse=True)
        made = np.empty(len(unique), dtype=np.int64)
        for index, key in enumerate(unique.tolist()):
            here, number = divmod(key, len(self._chains))
            known = self._pushed.get((here, number))
            if known is None:
                known = here
                for state in self._chains[number]:
                    known = self.push_one(known, state)
                self._pushed[here, number] = known
            made[index] = known
        pushed: Int64 = made[inverse.reshape(-1)]
        return pushed

    def put_below(self, context: Int64, state: Int64) -> Int64:
        """The contexts with one return state below all that they push."""
        keys = context * self._automaton.states + state
        unique, inverse = np.unique(keys, return_inverse=True)
        made = np.empty(len(unique), dtype=np.int64)
        for index, key in enumerate(unique.tolist()):
            known = self._below.get(key)
            if known is None:
                here, bottom = divmod(key, self._automaton.states)
                chain = []
                while here:
                    chain.append(self.top[here])
                    here = self.parent[here]
                known = self.push_one(0, bottom)
                for pushed in reversed(chain):
                    known = self.push_one(known, pushed)
                self._below[key] = known
            made[index] = known
        below: Int64 = made[inverse.reshape(-1)]
        return below

    def pop(self, context: Int64) -> tuple[Int64, Int64]:
        """(context below, return state) of contexts other than 0."""
        if len(self._arrays[0]) < len(self.parent):
            self._arrays = np.array(self.parent, dtype=np.int64), np.array(self.top, dtype=np.int64)
        parent, top = self._arrays
        return parent[context], top[context]

    def settle(self, context: Int64, state: Int64) -> tuple[Int64, Int64]:
        """Pop where there is only a return and the frame below is known; enter where there is only a call."""
        context, state = context.copy(), state.copy()
        moving = np.flatnonzero((self.returns_only[state] & (context > 0)) | (self.enters[state] >= 0))
        while len(moving):
            back = moving[self.returns_only[state[moving]]]
            context[back], state[back] = self.pop(context[back])
            into = moving[self.enters[state[moving]] >= 0]
            for index in into.tolist():
                context[index] = self.push_one(int(context[index]), int(self.enter_return[state[index]]))
            state[into] = self.enters[state[into]]
            again = (self.returns_only[state[moving]] & (context[moving] > 0)) | (self.enters[state[moving]] >= 0)
            moving = moving[again]
        return context, state

