"""Many requests at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.errors import MatcherError
from schemac_runtime.masks import mask_rows
from schemac_runtime.matcher import Matcher


class BatchMatcher:
    """Matchers of one or more programs, filled and advanced together.

    Args:
        matchers: one per row, or None for a row without constraint.
    """

    def __init__(self, matchers: Sequence[Matcher | None]) -> None:
        self.matchers = list(matchers)

    def fill_bitmask(self, bitmask: Any, budgets: Sequence[int | None] | None = None) -> None:
        """Write all rows.

        Args:
            bitmask: int32 [>= len(matchers), words], as for `Matcher.fill_bitmask`; a row without constraint allows
                everything (-1).
            budgets: the tokens that each row has left, None for no limit.
        """
        width = max((m.program.words for m in self.matchers if m is not None), default=1)
        rows = mask_rows(bitmask, width)
        if len(rows) < len(self.matchers):
            raise MatcherError(f"a mask of {len(rows)} rows for {len(self.matchers)} requests")
        free = [index for index, matcher in enumerate(self.matchers) if matcher is None]
        if free:
            rows[free] = -1
        for index, matcher in enumerate(self.matchers):
            if matcher is not None:
                matcher.fill_bitmask(rows, index, None if budgets is None else budgets[index])

    def accept(self, tokens: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """One token per row, int [len(matchers)]; bool [len(matchers)]: which were accepted."""
        ids = np.asarray(tokens, dtype=np.int64).tolist()
        if len(ids) != len(self.matchers):
            raise MatcherError(f"{len(ids)} tokens for {len(self.matchers)} requests")
        return np.array([m is None or m.accept(t) for m, t in zip(self.matchers, ids, strict=True)], dtype=np.bool_)

    def rollback(self, counts: npt.ArrayLike) -> None:
        """Undo `counts[i]` tokens of row i, int [len(matchers)]; what a row without constraint gets does not matter.

        Raises:
            MatcherError: a row has accepted fewer tokens; no row has changed then.
        """
        numbers = np.asarray(counts, dtype=np.int64).tolist()
        if len(numbers) != len(self.matchers):
            raise MatcherError(f"{len(numbers)} counts for {len(self.matchers)} requests")
        rows = [(m, count) for m, count in zip(self.matchers, numbers, strict=True) if m is not None]
        for matcher, count in rows:
            if not 0 <= count <= matcher.accepted:
                raise MatcherError(f"cannot roll back {count} of {matcher.accepted} tokens")
        for matcher, count in rows:
            matcher.rollback(count)

    def is_terminated(self) -> npt.NDArray[np.bool_]:
        """bool [len(matchers)]."""
        return np.array([m is not None and m.is_terminated() for m in self.matchers], dtype=np.bool_)
