"""From format patterns to automata."""

from __future__ import annotations

from functools import cache

import numpy as np

from schemac.frontend.regex import regex_language
from schemac.ir.charset import CODE_POINTS
from schemac.ir.dfa import Dfa
from schemac.ir.minimize import Table


@cache
def full_match(pattern: str) -> Dfa:
    """The texts that match a pattern of this package as a whole, over code points."""
    return regex_language(pattern, dialect="rust", search=False)


def joined(left: Dfa, separator: str, right: Dfa) -> Dfa:
    """The texts ``left separator right``, where no text of `left` goes on with the separator; faster than `concat`.

    Raises:
        ValueError: some text of `left` does go on with the separator, so that the place to split is not known.
    """
    symbol = ord(separator)
    starts = np.unique(np.concatenate((left.starts, right.starts, [symbol, symbol + 1])))
    columns = [dfa.classes[np.searchsorted(dfa.starts, starts, "right") - 1] for dfa in (left, right)]
    middle = int(np.searchsorted(starts, symbol))
    before, after = left.table[:, columns[0]], right.table[:, columns[1]]
    if (before[left.accepting, middle] >= 0).any():
        raise ValueError(f"{separator!r} does not separate")
    before[left.accepting, middle] = left.size
    table = np.concatenate((before, np.where(after < 0, -1, after + left.size)))
    accepting = np.concatenate((np.zeros(left.size, np.bool_), right.accepting))
    classes = np.arange(len(starts), dtype=np.int32)
    return Dfa.from_table(CODE_POINTS, Table(starts.astype(np.int32), classes, table.astype(np.int32), accepting))
