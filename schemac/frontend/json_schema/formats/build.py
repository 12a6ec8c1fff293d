"""From format patterns to automata."""

from __future__ import annotations

from functools import cache

import numpy as np

from schemac.frontend.regex import regex_language
from schemac.ir.charset import CODE_POINTS
from schemac.ir.dfa import Dfa
from schemac.ir.minimize import Table, canonical


@cache
def full_match(pattern: str) -> Dfa:
    """The texts that match a pattern of this package as a whole, over code points."""
    return regex_language(pattern, dialect="rust", search=False)


def joined(left: Dfa, separator: str, right: Dfa) -> Dfa:
    """The texts ``left separator right``, where the last separator splits them; much faster than `concat`.

    Raises:
        ValueError: `right` has separators, or some text of `left` goes on with one.
    """
    symbol = ord(separator)
    starts = np.unique(np.concatenate((left.starts, right.starts, [symbol, symbol + 1])))
    columns = [dfa.classes[np.searchsorted(dfa.starts, starts, "right") - 1] for dfa in (left, right)]
    middle = int(np.searchsorted(starts, symbol))
    before, after = left.table[:, columns[0]], right.table[:, columns[1]]
    if (before[left.accepting, middle] >= 0).any() or (after[:, middle] >= 0).any():
        raise ValueError(f"{separator!r} does not separate")
    before[left.accepting, middle] = left.size
    table = np.concatenate((before, np.where(after < 0, -1, after + left.size))).astype(np.int32)
    accepting = np.concatenate((np.zeros(left.size, np.bool_), right.accepting))
    classes = np.arange(len(starts), dtype=np.int32)
    # States of `left` stay different, as the last separator tells where their part ends; those of `right` read none.
    return Dfa.from_minimal(CODE_POINTS, canonical(Table(starts.astype(np.int32), classes, table, accepting)))
