"""Workers: one process per engine, so that a crash or a hang costs one case of one engine.

The parent sends a case and reads messages until ``done``; each part of a case is reported as soon as it is known, so
that what was learnt before a crash is kept. All engines run the same loop here, around their own two calls.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import WARM_UP, Engine, Grammar, Refused, engine_factory, message_head
from benchmarks.outcome import CaseResult, Instance, Verdict
from benchmarks.vocabulary import load_table

#: Address space of a worker in bytes. An engine that wants more gets a MemoryError of its own, not the machine.
MEMORY_LIMIT = 16 << 30

#: How long a worker may take to set its engine up, in seconds.
SET_UP_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """One schema with its instances, already tokenized.

    Attributes:
        name: the id in the data file.
        schema: JSON text.
        instances: per instance the token ids and whether the schema allows it.
    """

    name: str
    schema: str
    instances: tuple[tuple[tuple[int, ...], bool], ...]


class Worker:
    """The parent's handle on one engine's process, started again whenever it has died.

    Args:
        engine: its name, see `engine_factory`.
        tokenizer: as for `load_table`.
        seconds: limit for each case.
        settings: attributes to set on the engine, where it has them.
    """

    def __init__(self, engine: str, tokenizer: str, seconds: float, settings: Mapping[str, Any] | None = None) -> None:
        self.engine = engine
        self._settings = dict(settings or {})
        self._tokenizer = tokenizer
        self._seconds = seconds
        handle, name = tempfile.mkstemp(prefix=f"maskbench-{engine}-", suffix=".log")
        os.close(handle)
        self._log = Path(name)
        self._process: Any = None
        self._connection: Any = None
        #: Why the first set-up failed; it is not tried again then.
        self._hopeless: str | None = None
        self._was_ready = False
        #: Largest resident size seen in any of this engine's processes, in KiB.
        self.peak_kib = 0

    def set_up(self) -> str | None:
        """Start the process if it is not running. Returns why that failed, or None."""
        if self._process is not None or self._hopeless:
            return self._hopeless
        reason = self._start()
        if reason is None:
            self._was_ready = True
        elif not self._was_ready:
            self._hopeless = reason
        return reason

    def _start(self) -> str | None:
        self._log.write_bytes(b"")
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, str(self._log), self.engine, self._tokenizer, self._seconds, self._settings)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        try:
            if not self._connection.poll(SET_UP_SECONDS):
                self.stop()
                return f"not set up after {SET_UP_SECONDS:g} s"
            kind, value = self._connection.recv()
        except EOFError:
            return self._died()
        if kind == "ready":
            return None
        self.stop()
        return str(value)

    def run(self, case: Case) -> CaseResult:
        """All of one case, within the time limit."""
        result = CaseResult(case.name, self.engine)
        if reason := self.set_up():
            result.conclude(Verdict.CRASH, reason)
            return result
        deadline = time.monotonic() + self._seconds
        try:
            self._connection.send(case)
            while self._connection.poll(max(0.0, deadline - time.monotonic())):
                kind, value = self._connection.recv()
                if kind == "done":
                    self.peak_kib = max(self.peak_kib, value)
                    return result
                if kind == "compiled":
                    result.first_mask_ns = value
                elif kind == "instance":
                    result.add(value)
                else:
                    result.conclude(*value)
            self.stop()
            result.conclude(Verdict.TIMEOUT, "compile" if result.first_mask_ns is None else "instance")
        except (EOFError, ConnectionError):
            result.conclude(Verdict.CRASH, self._died())
        return result

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def close(self) -> None:
        """End the process and remove its log."""
        self.stop()
        self._log.unlink(missing_ok=True)

    def _died(self) -> str:
        self._process.join(10)
        code = self._process.exitcode
        said = self._log.read_text("utf-8", "replace").strip()
        self.stop()
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return f"process died with {how}" + (f": {message_head(said)}" if said else "")


def _serve(
    connection: Connection, log: str, name: str, tokenizer: str, seconds: float, settings: Mapping[str, Any]
) -> None:
    """The worker's main function: set up, then one case after another until the parent hangs up."""
    target = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(target, 1)
    os.dup2(target, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    try:
        table = load_table(tokenizer)
        engine = engine_factory(name)(table, 0.95 * seconds)
        for setting, value in settings.items():
            if hasattr(engine, setting):
                setattr(engine, setting, value)
        _first_mask(engine, WARM_UP[getattr(engine, "kind", "json-schema")])
    except Exception as error:
        connection.send(("failed", f"set-up failed: {type(error).__name__}: {message_head(str(error))}"))
        return
    # As servers do: what lives for the whole run is left out of every later collection.
    gc.collect()
    gc.freeze()
    connection.send(("ready", None))
    while True:
        try:
            case = connection.recv()
        except EOFError:
            return
        gc.collect()
        _run_case(engine, case, table.eos, connection)
        connection.send(("done", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def _first_mask(engine: Engine, schema: str) -> Grammar:
    grammar = engine.compile(schema)
    grammar.start().fill()
    return grammar


def _run_case(engine: Engine, case: Case, eos: tuple[int, ...], connection: Connection) -> None:
    before = time.perf_counter_ns()
    try:
        grammar = _first_mask(engine, case.schema)
    except Refused as error:
        verdict = Verdict.TIMEOUT if error.timed_out else Verdict.COMPILE_ERROR
        connection.send(("refused", (verdict, error.reason, error.detail)))
        return
    except Exception as error:
        connection.send(("refused", (Verdict.CRASH, f"{type(error).__name__}: {message_head(str(error))}")))
        return
    connection.send(("compiled", time.perf_counter_ns() - before))
    for tokens, valid in case.instances:
        connection.send(("instance", _run_instance(engine, grammar, tokens, valid, eos)))


def _run_instance(
    engine: Engine, grammar: Grammar, tokens: tuple[int, ...], valid: bool, eos: tuple[int, ...]
) -> Instance:
    """Token by token: fill, then accept. The mask decides what is legal, and accept has to agree where it allows."""
    words = engine.bitmask[0]
    times = np.zeros(len(tokens), dtype=np.int64)
    clock = time.perf_counter_ns
    count = 0

    def allowed(token: int) -> bool:
        return bool(words[token >> 5] >> (token & 31) & 1)

    try:
        started = grammar.start()
        fill, accept = started.fill, started.accept
        for token in tokens:
            before = clock()
            fill()
            accepted = accept(token)
            times[count] = clock() - before
            count += 1
            if not allowed(token):
                break
            if not accepted:
                return Instance(Verdict.CRASH, f"token {count}: allowed by the mask, refused by accept", times[:count])
        else:
            fill()
            if any(allowed(token) for token in eos):
                verdict = Verdict.PASS if valid else Verdict.OVER_ACCEPT
                return Instance(verdict, "accepted", times)
            verdict = Verdict.UNDER_ACCEPT if valid else Verdict.PASS
            return Instance(verdict, "the end is not allowed after the last token", times)
    except Exception as error:
        reason = f"token {count}: {type(error).__name__}: {message_head(str(error))}"
        return Instance(Verdict.CRASH, reason, times[:count])
    verdict = Verdict.UNDER_ACCEPT if valid else Verdict.PASS
    return Instance(verdict, f"token {count} of {len(tokens)} is not allowed", times[:count])
