"""The outcomes of a linked program, by state and class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemac.codegen.relations import DEAD, Relations, ranges
from schemac_runtime.program import EXIT, NO_EDGE

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

#: `context` of an entry that hides an inherited one.
HIDDEN = -2


@dataclass(frozen=True, eq=False)
class Edges:
    """All outcomes as parallel arrays, sorted by (origin, class, outcome).

    Attributes:
        origin: int64 [n]; symbol_class: int64 [n]; context, target: int64 [n], context `EXIT` for an exit, whose target
            is the class of the rest, or `HIDDEN` for no outcome where the default state has one.
    """

    origin: Int64
    symbol_class: Int64
    context: Int64
    target: Int64

    @staticmethod
    def of(relations: Relations, number: Int32) -> Edges:
        """The entries of all numbered relations."""
        chosen = np.flatnonzero(number)
        length = relations.length[chosen]
        index = ranges(relations.start[chosen], length)
        origin, value = relations.origin[index], relations.value[index]
        symbol_class = np.repeat(number[chosen].astype(np.int64), length)
        narrow = origin.astype(np.uint16) if relations.states <= 1 << 16 else origin  # radix sort for 16 bits
        order = np.argsort(narrow, kind="stable")
        value = value[order]
        context, target = value >> relations.shift, value & ((1 << relations.shift) - 1)
        dead, exits = value == DEAD, (value < 0) & (value != DEAD)
        context[exits], target[exits] = EXIT, number[-1 - value[exits]]
        context[dead], target[dead] = HIDDEN, 0
        return Edges(origin[order].astype(np.int64), symbol_class[order], context, target)

    @property
    def local(self) -> npt.NDArray[np.bool_]:
        """bool [n]: outcomes that do not depend on the stack."""
        return self.context >= 0

    def chosen(self, mask: npt.NDArray[np.bool_]) -> Edges:
        """The edges that `mask`, bool [n], chooses."""
        return Edges(self.origin[mask], self.symbol_class[mask], self.context[mask], self.target[mask])

    def arrays(self, states: int) -> dict[str, Int32]:
        """The edge and multi arrays of `Tables`."""
        first = np.ones(len(self.origin), dtype=np.bool_)
        first[1:] = (self.origin[1:] != self.origin[:-1]) | (self.symbol_class[1:] != self.symbol_class[:-1])
        start = np.flatnonzero(first)
        length = np.diff(np.append(start, len(first)))
        plain = (length == 1) & (self.context[start] == 0)
        value = self.target[start].copy()
        hidden = self.context[start] == HIDDEN
        plain |= hidden
        value[~plain] = -1 - np.arange(int((~plain).sum()))
        value[hidden] = NO_EDGE
        members = ranges(start[~plain], length[~plain])
        origin = self.origin[start]
        return {
            "edge_start": np.searchsorted(origin, np.arange(states + 1)).astype(np.int32),
            "edge_class": self.symbol_class[start].astype(np.int32),
            "edge_value": value.astype(np.int32),
            "multi_start": np.concatenate([[0], np.cumsum(length[~plain])]).astype(np.int32),
            "multi_context": self.context[members].astype(np.int32),
            "multi_target": self.target[members].astype(np.int32),
        }
