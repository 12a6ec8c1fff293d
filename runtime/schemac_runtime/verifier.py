"""Checks the arrays of a linked program, as a bytecode verifier does, so that no mask or step can go astray.

What is checked is what a matcher relies on: after it, no index is out of range and no walk goes on for ever. Whether
the tables mean what their source says, only the compiler knows.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from schemac_runtime.errors import PackageError
from schemac_runtime.program import EXIT, NO_EDGE, NO_ROW, TABLE_DTYPES, UNREACHABLE, Tables

Array = npt.NDArray[Any]


def verify_tables(t: Tables) -> None:
    """Check every dtype, shape, order and index range.

    Raises:
        PackageError: names the array.
    """
    for name in Tables.names():
        array = getattr(t, name)
        dtype = TABLE_DTYPES.get(name, "int32")
        if array.dtype != dtype or array.ndim != (2 if name == "dense" else 1) or not array.flags.c_contiguous:
            _fail(name, f"expected a contiguous {dtype} array")
    checks = _Checks(t)
    checks.edges()
    checks.contexts()
    checks.states()
    checks.rows()
    checks.rows_below()


def _fail(name: str, what: str) -> NoReturn:
    raise PackageError(f"{name}: {what}", construct=name, hint="the package is damaged: compile it again")


class _Checks:
    """The checks by topic. Those of one topic may index with what earlier topics have checked."""

    def __init__(self, tables: Tables) -> None:
        self.t = t = tables
        self.n, self.vocab = len(t.accepting), len(t.token_class)
        if not self.n or not self.vocab or {len(t.start), len(t.start_context), len(t.below_on_use)} != {1}:
            _fail("start", "an empty program")
        self.classes = 1 + max(int(t.token_class.max()), int(t.edge_class.max(initial=0)))
        # A class has tokens, or is what is left of a token: a matcher may make a table of all classes.
        if self.classes > 1 + self.vocab + len(t.multi_target):
            _fail("token_class" if t.token_class.max() >= self.classes - 1 else "edge_class", "too high a number")

    # -- one array ---------------------------------------------------------------------------------------------

    def of(self, name: str) -> Array:
        array: Array = getattr(self.t, name)
        return array

    def within(self, name: str, low: int, high: int) -> None:
        array = self.of(name)
        if array.size and (int(array.min()) < low or int(array.max()) >= high):
            _fail(name, f"values must lie in {low}..{high - 1}")

    def length(self, name: str, expected: int) -> None:
        if len(self.of(name)) != expected:
            _fail(name, f"{len(self.of(name))} values, expected {expected}")

    def offsets(self, name: str, count: int, total: int) -> None:
        self.length(name, count + 1)
        array = self.of(name)
        if not len(array) or array[0] != 0 or array[-1] != total or (array[1:] < array[:-1]).any():
            _fail(name, "not the offsets of its list")

    def ascending(self, name: str, start: str) -> None:
        """Each list of `name` ascends; `start` holds its offsets, already checked."""
        array, offsets = self.of(name), self.of(start)
        falls = np.flatnonzero(array[1:] <= array[:-1]) + 1  # where a new list must begin
        if len(falls) and (offsets[np.minimum(np.searchsorted(offsets, falls), len(offsets) - 1)] != falls).any():
            _fail(name, "not in ascending order")

    def row_codes(self, name: str) -> None:
        array = self.of(name)
        array = array[array != NO_ROW]
        if array.size and (int(array.max()) >= len(self.t.dense) or int(array.min()) < 1 - len(self.t.sparse_start)):
            _fail(name, "names a row that is not there")

    # -- by topic ----------------------------------------------------------------------------------------------

    def edges(self) -> None:
        """Tokens to classes, and (state, class) to outcomes."""
        t = self.t
        self.within("token_class", 0, self.classes)
        self.offsets("edge_start", self.n, len(t.edge_class))
        self.length("edge_value", len(t.edge_class))
        self.within("edge_class", 1, self.classes)
        self.ascending("edge_class", "edge_start")
        self.offsets("multi_start", len(t.multi_start) - 1, len(t.multi_context))
        values = t.edge_value[t.edge_value != NO_EDGE]
        if values.size and (int(values.min()) <= -len(t.multi_start) or int(values.max()) >= self.n):
            _fail("edge_value", "names a state or list that is not there")
        self.length("multi_target", len(t.multi_context))
        self.within("multi_context", EXIT, len(t.context_parent))
        limit = np.where(t.multi_context == EXIT, self.classes, self.n)
        if (t.multi_target < 0).any() or (t.multi_target >= limit).any():
            _fail("multi_target", "names a state or class that is not there")

    def contexts(self) -> None:
        """Stacks of return states; a context comes after its parent, so that every chain ends."""
        t = self.t
        self.length("context_top", len(t.context_parent))
        if not len(t.context_parent) or (t.context_parent[1:] >= np.arange(1, len(t.context_parent))).any():
            _fail("context_parent", "a context must come after its parent")
        self.within("context_parent", 0, len(t.context_parent))
        self.within("context_top", -1, self.n)
        if (t.context_top[1:] < 0).any():
            _fail("context_top", "a context pushes no state")
        self.within("start", 0, self.n)
        self.within("start_context", 0, len(t.context_parent))

    def states(self) -> None:
        """What a state does beside its edges: inherit, enter, return, end the text."""
        t = self.t
        for name in ("default_state", "default_return", "enter_state", "enter_return"):
            self.length(name, self.n)
            self.within(name, -1, self.n)
        if (t.default_state[t.default_state[t.default_state >= 0]] >= 0).any():
            _fail("default_state", "a default state has no default itself")
        if ((t.enter_state >= 0) != (t.enter_return >= 0)).any():
            _fail("enter_return", "does not go with enter_state")
        self.length("returns_only", self.n)
        for name in ("distance", "reach"):
            self.length(name, self.n)
            self.within(name, 0, UNREACHABLE + 1)
        # A matcher enters until it rests, so that must end: no way leads round, or to a state that returns at once.
        if t.returns_only[t.enter_state[t.enter_state >= 0]].any():
            _fail("enter_state", "enters a state that can only return")
        ahead = t.enter_state
        for _ in range(self.n.bit_length() + 1):  # the state 1, 2, 4, ... steps ahead
            if int(ahead.max()) < 0:
                break
            ahead = np.where(ahead >= 0, ahead[ahead], -1)
        else:
            _fail("enter_state", "enters itself")
        self.within("stop_ids", 0, self.vocab)
        if not len(t.stop_ids):
            _fail("stop_ids", "no token ends a text")

    def rows(self) -> None:
        """Masks; none has a bit past the vocabulary."""
        t = self.t
        words = (self.vocab + 31) // 32
        if t.dense.shape[1:] != (words,):
            _fail("dense", f"rows of {t.dense.shape[1]} words, expected {words}")
        self.offsets("sparse_start", len(t.sparse_start) - 1, len(t.sparse_word))
        self.length("sparse_bits", len(t.sparse_word))
        self.within("sparse_word", 0, words)
        self.ascending("sparse_word", "sparse_start")
        past = np.int32(-1 << self.vocab % 32) if self.vocab % 32 else np.int32(0)
        if (t.dense[:, -1] & past).any():
            _fail("dense", "allows a token past the vocabulary")
        if past and (t.sparse_bits[t.sparse_word == words - 1] & past).any():
            _fail("sparse_bits", "allows a token past the vocabulary")
        for name in ("state_row", "clear_row"):
            self.length(name, self.n)
            self.row_codes(name)

    def rows_below(self) -> None:
        """Masks that depend on the return state below."""
        t = self.t
        self.offsets("below_start", self.n, len(t.below_return))
        self.length("below_row", len(t.below_return))
        self.within("below_return", 0, self.n)
        self.ascending("below_return", "below_start")
        self.row_codes("below_row")
        self.offsets("deep_start", len(t.below_return), len(t.deep_rest))
        self.length("deep_row", len(t.deep_rest))
        self.row_codes("deep_row")
        self.within("deep_rest", 1, self.classes)
