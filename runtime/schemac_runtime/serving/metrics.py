"""Counters of a server, and their way to Prometheus.

The engine runs in a process that nobody scrapes. It writes its counters to a file in the session's folder every few
seconds; the process that is scraped adds them to its own. Without the package `prometheus_client` they are only kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Upper ends of the classes of compile times, in seconds.
COMPILE_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: How often the engine's counters are written, in seconds.
WRITE_EVERY = 2.0
_HELP = {
    "schemac_requests_total": "Constrained requests by where their program came from.",
    "schemac_refusals_total": "Refused requests by reason.",
    "schemac_fills_total": "Mask rows filled.",
    "schemac_fill_seconds_total": "Time spent filling mask rows.",
    "schemac_configurations_total": "Configurations that the filled rows were made from; 1 per row nearly always.",
    "schemac_finish_failures_total": "Rows where the token limit no longer allowed the answer to be finished.",
    "schemac_cache_bytes": "Packages held ready, in bytes.",
    "schemac_cache_evictions_total": "Packages dropped from memory.",
}
#: All that is offered.
NAMES = (*_HELP, "schemac_compile_seconds")


class Metrics:
    """The counters of one process. `count` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], float] = {}
        self._compile = [0] * (len(COMPILE_SECONDS) + 1)
        self._compile_sum = 0.0
        #: Written by the thread that fills masks, without a lock: a lost update is no harm.
        self.fills = 0
        self.fill_seconds = 0.0
        self.configurations = 0
        self._path: Path | None = None
        self._written = 0.0

    def count(self, name: str, label: str = "", amount: float = 1) -> None:
        """Add to a counter. `label` is the value of its one label, if it has one."""
        with self._lock:
            self._values[name, label] = self._values.get((name, label), 0) + amount

    def gauge(self, name: str, value: float) -> None:
        """Set a value."""
        with self._lock:
            self._values[name, ""] = value

    def compiled(self, seconds: float) -> None:
        """Count a compile."""
        with self._lock:
            self._compile[sum(seconds > end for end in COMPILE_SECONDS)] += 1
            self._compile_sum += seconds

    def snapshot(self) -> dict[str, Any]:
        """All counters, as JSON can hold them."""
        with self._lock:
            values = [[name, label, value] for (name, label), value in self._values.items()]
            compile_counts, compile_sum = list(self._compile), self._compile_sum
        values += [
            ["schemac_fills_total", "", self.fills],
            ["schemac_fill_seconds_total", "", self.fill_seconds],
            ["schemac_configurations_total", "", self.configurations],
        ]
        return {"values": values, "compile": compile_counts, "compile_sum": compile_sum}

    def write_to(self, path: Path) -> None:
        """Write the counters to a file now and then, when `tick` is called."""
        self._path = path

    def tick(self, *, now: bool = False) -> None:
        """Write the counters if it is time to."""
        if self._path is None:
            return
        clock = time.monotonic()
        if now or clock - self._written > WRITE_EVERY:
            self._written = clock
            temporary = self._path.with_suffix(f".{threading.get_ident()}.tmp")
            with contextlib.suppress(OSError):
                temporary.write_text(json.dumps(self.snapshot()), "utf-8")
                os.replace(temporary, self._path)


def merged(snapshots: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of several processes' counters."""
    values: dict[tuple[str, str], float] = {}
    counts = [0] * (len(COMPILE_SECONDS) + 1)
    total = 0.0
    for snapshot in snapshots:
        for name, label, value in snapshot["values"]:
            values[name, label] = values.get((name, label), 0) + value
        counts = [a + b for a, b in zip(counts, snapshot["compile"], strict=True)]
        total += snapshot["compile_sum"]
    return {"values": [[n, label, v] for (n, label), v in sorted(values.items())], "compile": counts,
            "compile_sum": total}  # fmt: skip


class Collector:
    """What `prometheus_client` asks at every scrape: this process's counters and those of the files in a folder."""

    def __init__(self, metrics: Metrics, folder: Path | None) -> None:
        self._metrics, self._folder = metrics, folder

    def total(self) -> dict[str, Any]:
        """The counters of all processes."""
        snapshots = [self._metrics.snapshot()]
        for path in sorted(self._folder.glob("metrics-*.json")) if self._folder else ():
            with contextlib.suppress(OSError, ValueError):
                snapshots.append(json.loads(path.read_text("utf-8")))
        return merged(snapshots)

    def collect(self) -> Iterator[Any]:
        """The metric families."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        total = self.total()
        labels = {"schemac_requests_total": ["source"], "schemac_refusals_total": ["reason"]}
        for name, text in _HELP.items():
            label = labels.get(name, [])
            family = (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(name, text, labels=label)
            for other, value_label, value in total["values"]:
                if other == name:
                    family.add_metric([value_label] if label else [], value)
            yield family
        buckets, below = [], 0
        for end, number in zip((*map(str, COMPILE_SECONDS), "+Inf"), total["compile"], strict=True):
            below += number
            buckets.append((end, below))
        histogram = HistogramMetricFamily("schemac_compile_seconds", "Time of compiles.")
        histogram.add_metric([], buckets, total["compile_sum"])
        yield histogram


def register(metrics: Metrics, folder: Path | None) -> bool:
    """Offer the counters to `prometheus_client`; False where that is not installed."""
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        return False
    REGISTRY.register(Collector(metrics, folder))
    return True
