"""What came of each case, and the figures over all cases."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PERCENTILES = (25, 50, 75, 90, 95, 99, 100)


class Verdict(enum.IntEnum):
    """From harmless to worst; a case counts by its worst instance."""

    PASS = 0
    COMPILE_ERROR = 1
    TIMEOUT = 2
    CRASH = 3
    UNDER_ACCEPT = 4  # a valid instance cannot be written
    OVER_ACCEPT = 5  # an invalid instance can be written

    @property
    def key(self) -> str:
        """As in the JSON report."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance: the verdict, why, and per token read the nanoseconds of fill + accept (int64)."""

    verdict: Verdict
    reason: str
    times_ns: np.ndarray


@dataclass(slots=True)
class CaseResult:
    """One case of one engine.

    Attributes:
        first_mask_ns: compile, link, first matcher and first fill; None if it did not come that far.
        times_ns: fill + accept, per token of every instance.
        reason: why, short; detail: why, in full.
        where: index of the worst instance, or None.
    """

    name: str
    engine: str
    verdict: Verdict = Verdict.PASS
    reason: str = ""
    detail: str = ""
    where: int | None = None
    first_mask_ns: int | None = None
    times_ns: list[np.ndarray] = field(default_factory=list)

    def add(self, instance: Instance) -> None:
        """Count one instance."""
        self.times_ns.append(instance.times_ns)
        if instance.verdict > self.verdict:
            self.verdict, self.reason, self.detail = instance.verdict, instance.reason, instance.reason
            self.where = len(self.times_ns) - 1

    def conclude(self, verdict: Verdict, reason: str, detail: str = "") -> None:
        """The case ended early."""
        if verdict > self.verdict:
            self.verdict, self.reason, self.detail = verdict, reason, detail or reason
            self.where = None


def percentiles(values: Sequence[float] | np.ndarray) -> dict[str, float]:
    """``p25`` .. ``p100`` by linear interpolation, rounded to 3 digits after the point; empty without values."""
    if len(values) == 0:
        return {}
    found = np.percentile(np.asarray(values, dtype=np.float64), PERCENTILES)
    return {f"p{rank}": round(float(value), 3) for rank, value in zip(PERCENTILES, found, strict=True)}


def first_mask_ms(results: Iterable[CaseResult], limit_seconds: float) -> list[float]:
    """Milliseconds per case. One that ran into the time limit before its first mask counts with the limit."""
    values = []
    for result in results:
        if result.first_mask_ns is not None:
            values.append(result.first_mask_ns / 1e6)
        elif result.verdict is Verdict.TIMEOUT:
            values.append(limit_seconds * 1e3)
    return values


def per_token_us(results: Iterable[CaseResult]) -> np.ndarray:
    """Microseconds of fill + accept, over all tokens of all instances."""
    times = [part for result in results for part in result.times_ns]
    return np.concatenate(times) / 1e3 if times else np.zeros(0)


def summarize(results: Sequence[CaseResult], limit_seconds: float) -> dict[str, Any]:
    """One engine's entry of the JSON report."""
    verdicts = Counter(result.verdict for result in results)
    reasons = Counter(result.reason for result in results if result.verdict is Verdict.COMPILE_ERROR)
    summary: dict[str, Any] = {"cases": len(results)}
    summary.update({verdict.key: verdicts[verdict] for verdict in Verdict})
    summary["reasons"] = dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))
    summary["first_mask_ms"] = percentiles(first_mask_ms(results, limit_seconds))
    summary["per_token_us"] = percentiles(per_token_us(results))
    summary["tokens"] = sum(len(part) for result in results for part in result.times_ns)
    return summary


def on_common_cases(results: dict[str, list[CaseResult]]) -> dict[str, Any]:
    """Both times over only those cases for which every engine made a first mask."""
    compiled = [{result.name for result in of if result.first_mask_ns is not None} for of in results.values()]
    common = set.intersection(*compiled) if compiled else set()
    report: dict[str, Any] = {"cases": len(common)}
    for engine, of in results.items():
        chosen = [result for result in of if result.name in common]
        report[engine] = {
            "first_mask_ms": percentiles(first_mask_ms(chosen, 0.0)),
            "per_token_us": percentiles(per_token_us(chosen)),
        }
    return report
