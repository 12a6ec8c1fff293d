"""From constraints to programs: a cache bounded in bytes, the stores, and compiles in worker processes.

Equal constraints are looked up or compiled once, whoever asks meanwhile. Nothing here blocks: a caller gets a future.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemac_runtime.errors import PackageError, SchemacError
from schemac_runtime.package import Package, load
from schemac_runtime.program import Program
from schemac_runtime.serving.constraint import Constraint
from schemac_runtime.serving.metrics import Metrics
from schemac_runtime.serving.settings import MIB, Settings
from schemac_runtime.serving.worker import Answer, CompileError, CompileWorkers
from schemac_runtime.store import SUFFIX, Store

#: How many refusals, verdicts and names of texts are remembered.
REMEMBERED = 4096
#: Threads that read stores and map packages.
THREADS = 2


@dataclass(frozen=True)
class Resolved:
    """A constraint that can be served.

    Attributes:
        key: its name in a store.
        min_tokens: that the shortest text takes, the stop token included.
        program: the linked program; None where only the verdict was asked for.
    """

    key: str
    min_tokens: int
    program: Program | None = None


class Programs:
    """The programs of one server process for one vocabulary.

    Args:
        settings: of the server.
        vocabulary: the message to a worker that says how to load it, see `schemac.jobs.VocabularyChoice`.
        scratch: where compiled packages go; other processes of the server look there too.
        keep: hold programs ready. Without it only verdicts are given, and remembered: for a process that admits
            requests and leaves the masks to another.
        metrics: to count in.
        workers: the compile workers, for tests.
    """

    def __init__(self, settings: Settings, vocabulary: Mapping[str, Any], scratch: Path, *, keep: bool,
                 metrics: Metrics | None = None, workers: CompileWorkers | None = None) -> None:
        self.settings, self.keep, self.folder = settings, keep, scratch
        self.metrics = metrics or Metrics()
        self._vocabulary = dict(vocabulary)
        self._scratch = Store(scratch)
        self._stores = tuple(map(Store, settings.stores))
        self._workers = workers or CompileWorkers(settings.workers)
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._programs: OrderedDict[str, tuple[Resolved, int]] = OrderedDict()
        self._bytes = 0
        self._verdicts: OrderedDict[str, Resolved | CompileError] = OrderedDict()
        self._keys: OrderedDict[bytes, str] = OrderedDict()
        self._pending: dict[str, Future[Resolved]] = {}
        self._fingerprint: Future[str] | None = None
        for _ in range(THREADS):
            threading.Thread(target=self._work, daemon=True, name="schemac-programs").start()

    # -- asking ------------------------------------------------------------------------------------------------

    def fingerprint(self) -> Future[str]:
        """Of the vocabulary. The first call of the first process starts a worker, which loads it."""
        with self._lock:
            if self._fingerprint is not None and not _failed(self._fingerprint):
                return self._fingerprint
            found = self._fingerprint = Future()
            if self._read_fingerprint(found):
                return found
        answer = self._workers.submit({"do": "vocabulary", "vocabulary": self._vocabulary})
        answer.add_done_callback(lambda done: _pass_on(done, found, self._note_fingerprint))
        return found

    def _fingerprint_path(self) -> Path:
        told = hashlib.sha256(json.dumps(self._vocabulary, sort_keys=True).encode()).hexdigest()
        return self.folder / f"vocabulary-{told[:32]}.txt"

    def _read_fingerprint(self, found: Future[str]) -> bool:
        """Take it from the process that has worked it out. A compile checks it again."""
        try:
            text = self._fingerprint_path().read_text("ascii").strip()
        except (OSError, ValueError):
            return False
        if len(text) != 64:
            return False
        found.set_result(text)
        return True

    def _note_fingerprint(self, answer: Answer) -> str:
        text = str(answer["fingerprint"])
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary = self._fingerprint_path().with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(text, "ascii")
            os.replace(temporary, self._fingerprint_path())
        return text

    def get(self, wanted: Constraint) -> Future[Resolved]:
        """The program of a constraint, or why there is none (a `SchemacError`)."""
        answer: Future[Resolved] = Future()
        waiting = [answer]  # emptied when it is used: a future keeps its callbacks, and they what they refer to

        def ready(done: Future[str]) -> None:
            known = waiting.pop()
            self._run(lambda: self._look_up(wanted, done.result(), known), known)

        self.fingerprint().add_done_callback(ready)
        return answer

    def known(self, wanted: Constraint) -> Resolved | CompileError | None:
        """The answer if it is at hand; None if it has to be worked out."""
        with self._lock:
            key = self._keys.get(wanted.digest())
            if key is None:
                return None
            if key in self._programs:
                self._programs.move_to_end(key)
                return self._programs[key][0]
            return self._verdicts.get(key)

    def close(self) -> None:
        """End the workers."""
        self._workers.close()
        for _ in range(THREADS):
            self._tasks.put(None)

    # -- threads -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # or it would hold its program until the next one comes

    def _run(self, task: Callable[[], None], answer: Future[Resolved]) -> None:
        """Do a task in a thread of ours; an exception becomes the answer."""

        def guarded() -> None:
            try:
                task()
            except SchemacError as error:
                _fail(answer, error)
            except Exception as error:  # noqa: BLE001 - a request must get an answer, whatever happens
                _fail(answer, CompileError("InternalError", f"{type(error).__name__}: {error}"))

        self._tasks.put(guarded)

    # -- looking up --------------------------------------------------------------------------------------------

    def _key(self, wanted: Constraint, fingerprint: str) -> str:
        digest = wanted.digest()
        with self._lock:
            key = self._keys.get(digest)
        if key is None:
            key = wanted.key(fingerprint)
            with self._lock:
                _remember(self._keys, digest, key)
        return key

    def _look_up(self, wanted: Constraint, fingerprint: str, answer: Future[Resolved]) -> None:
        key = self._key(wanted, fingerprint)
        with self._lock:
            if key in self._programs:
                self._programs.move_to_end(key)
                found: Resolved | CompileError | None = self._programs[key][0]
            else:
                found = self._verdicts.get(key)
                if isinstance(found, Resolved) and self.keep:
                    found = None
            pending = None if found is not None else self._pending.get(key)
            if found is None and pending is None:
                self._pending[key] = answer
        if found is not None:
            self._count("cache", found)
            _settle(answer, found)
        elif pending is not None:  # compiled once, whoever asks
            pending.add_done_callback(lambda done: _pass_on(done, answer, lambda resolved: resolved))
        else:
            self._find(key, wanted, fingerprint, answer)

    def _find(self, key: str, wanted: Constraint, fingerprint: str, answer: Future[Resolved]) -> None:
        try:
            package = self._stored(key, fingerprint)
        except BaseException:
            self._forget(key)
            raise
        if package is not None:
            self._finish(key, self._accepted(key, package, fingerprint), answer)
            return
        if self.settings.on_miss == "reject":
            error = CompileError(
                "NotInStore", "this constraint is in no store, and compiling is turned off",
                construct=wanted.kind, hint="add it with `schemac build`",
            )  # fmt: skip
            self._finish(key, error, answer)
            return
        path = self._scratch.path_of(key)
        compiled = self._workers.submit(self._job(wanted, fingerprint, path), wanted.source,
                                        seconds=self.settings.compile_seconds)  # fmt: skip
        compiled.add_done_callback(
            lambda done: self._run(lambda: self._compiled(key, fingerprint, path, done, answer), answer)
        )

    def _stored(self, key: str, fingerprint: str) -> Package | None:
        for store in (*self._stores, self._scratch):
            try:
                package = store.load(key, fingerprint)
            except PackageError:
                self.metrics.count("schemac_refusals_total", "DamagedPackage")
                continue  # a miss: it is compiled, or refused
            if package is not None:
                self._count("scratch" if store is self._scratch else "store", None)
                return package
        return None

    def _job(self, wanted: Constraint, fingerprint: str, path: Path) -> dict[str, Any]:
        return {
            "do": "compile",
            "kind": wanted.kind,
            "options": dict(wanted.options),
            "vocabulary": self._vocabulary,
            "fingerprint": fingerprint,
            "limits": dict(self.settings.limits),
            "seconds": self.settings.compile_seconds,
            "memory": self.settings.compile_mib * MIB or None,
            "output": str(path),
        }

    def _compiled(self, key: str, fingerprint: str, path: Path, done: Future[Answer],
                  answer: Future[Resolved]) -> None:
        error = done.exception()
        if error is not None:
            if not isinstance(error, CompileError):
                error = CompileError("InternalError", str(error))
            self._finish(key, error, answer)
            return
        self.metrics.compiled(float(done.result()["seconds"]))
        self._count("compile", None)
        try:
            if self.keep:
                package = load(path)
                outcome = self._accepted(key, package, fingerprint)
            else:
                outcome = Resolved(key, int(done.result()["min_tokens"]))
            trim(self._scratch, self.settings.scratch_mib * MIB)
        except BaseException:
            self._forget(key)
            raise
        self._finish(key, outcome, answer)

    def _accepted(self, key: str, package: Package, fingerprint: str) -> Resolved:
        program = package.program(fingerprint)
        if not self.keep:
            return Resolved(key, program.min_tokens())
        resolved = Resolved(key, program.min_tokens(), program)
        size = package.path.stat().st_size if package.path.exists() else sum(a.nbytes for a in package.arrays.values())
        with self._lock:
            if key not in self._programs:
                self._bytes += size
            self._programs[key] = resolved, size
            # One that is larger than the whole cache serves those who asked for it now, and goes with the next one.
            while self._bytes > self.settings.cache_mib * MIB and len(self._programs) > 1:
                _, (_, gone) = self._programs.popitem(last=False)
                self._bytes -= gone
                self.metrics.count("schemac_cache_evictions_total")
            self.metrics.gauge("schemac_cache_bytes", self._bytes)
        return resolved

    def _finish(self, key: str, outcome: Resolved | CompileError, answer: Future[Resolved]) -> None:
        self._forget(key)
        if isinstance(outcome, CompileError):
            self._count("", outcome)
            if outcome.lasting:
                with self._lock:
                    _remember(self._verdicts, key, outcome)
        elif not self.keep:
            with self._lock:
                _remember(self._verdicts, key, outcome)
        _settle(answer, outcome)

    def _forget(self, key: str) -> None:
        with self._lock:
            self._pending.pop(key, None)

    def _count(self, source: str, outcome: Resolved | CompileError | None) -> None:
        if isinstance(outcome, CompileError):
            self.metrics.count("schemac_refusals_total", outcome.kind)
        else:
            self.metrics.count("schemac_requests_total", source)


def trim(scratch: Store, most: int) -> None:
    """Remove the oldest packages until at most `most` bytes are left. Whoever has mapped one keeps it."""
    found = []
    with contextlib.suppress(OSError):
        for path in scratch.path.glob(f"??/*{SUFFIX}"):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most:
            return
        total -= size
        with contextlib.suppress(OSError):
            os.unlink(path)


def _remember(memory: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)


def _failed(future: Future[Any]) -> bool:
    return future.done() and future.exception() is not None


def _settle(answer: Future[Resolved], outcome: Resolved | CompileError) -> None:
    if isinstance(outcome, CompileError):
        _fail(answer, outcome)
    elif not answer.done():
        answer.set_result(outcome)


def _fail(answer: Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


def _pass_on(done: Future[Any], answer: Future[Any], change: Callable[[Any], Any]) -> None:
    error = done.exception()
    if error is not None:
        _fail(answer, error)
    elif not answer.done():
        answer.set_result(change(done.result()))
