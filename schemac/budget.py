"""The one budget of a compile. Whatever can blow up reserves here before it builds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from schemac.errors import BudgetExceeded, SourceError

#: Default limits. States, procedures and rows are those of the result; the others are work units of the way there.
DEFAULT_LIMITS: Mapping[str, int] = {
    "states": 2_000_000,  # states made by any construction, intermediate ones included
    "procedures": 50_000,
    "branches": 500_000,  # formulas, alternatives, enumerated candidates
    "regex_states": 500_000,  # states of automata over code points
    "rows": 16_384,  # dense mask rows of one linked program (16 KiB each at 131,072 tokens)
    "outcomes": 40_000_000,  # entries of the transition relation of one linked program
    "source_bytes": 16_000_000,
}
DEFAULT_SECONDS = 60.0


class Budget:
    """Counts what one compile uses. Not shared between compiles.

    Args:
        limits: overrides by budget name; an unknown name is a `SourceError`.
        seconds: wall clock for the whole compile, or None for no deadline.
    """

    def __init__(self, limits: Mapping[str, int] | None = None, seconds: float | None = DEFAULT_SECONDS) -> None:
        self.limits = dict(DEFAULT_LIMITS)
        for name, value in (limits or {}).items():
            if name not in self.limits:
                raise SourceError(f"there is no budget {name!r}", hint="one of " + ", ".join(sorted(self.limits)))
            self.limits[name] = value
        self.used = dict.fromkeys(self.limits, 0)
        self.seconds = seconds
        self._start = time.monotonic()
        self._place: str | None = None

    @contextmanager
    def at(self, place: str | None) -> Iterator[None]:
        """Blame `place` for what is spent inside, unless `spend` names a closer one."""
        before, self._place = self._place, place or self._place
        try:
            yield
        finally:
            self._place = before

    def spend(self, name: str, amount: int = 1, *, place: str | None = None, construct: str | None = None) -> None:
        """Reserve `amount` of budget `name`.

        Raises:
            BudgetExceeded: the budget, or the time, is used up.
        """
        self.used[name] += amount
        if self.used[name] > self.limits[name]:
            needed, allowed = self.used[name], self.limits[name]
            raise BudgetExceeded(name, needed, allowed, place=place or self._place, construct=construct)
        self.check_time(place=place)

    def afford(self, name: str, amount: int, *, place: str | None = None) -> None:
        """Raise now if `amount` of budget `name`, which will be spent bit by bit, is more than what is left."""
        if self.used[name] + amount > self.limits[name]:
            self.spend(name, amount, place=place)

    def check_time(self, *, place: str | None = None) -> None:
        """Raise `BudgetExceeded` once the deadline has passed."""
        if self.seconds is not None:
            elapsed = time.monotonic() - self._start
            if elapsed > self.seconds:
                raise BudgetExceeded("seconds", elapsed, self.seconds, place=place or self._place)
