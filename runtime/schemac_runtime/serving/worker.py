"""Compile workers: processes that compile for a server, so that its own interpreter never does.

Each worker takes one job at a time. A job that takes too long, or a worker that dies, fails that job alone; the next
one gets a new process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from schemac_runtime.errors import SchemacError
from schemac_runtime.serving.wire import LENGTHS, encode_message

Answer = dict[str, Any]
#: Seconds beyond a job's own deadline before its process is ended: the compile checks its clock between steps.
GRACE = 5.0
#: Jobs that may wait; more are refused at once.
MAX_WAITING = 1024
#: A worker compiles beside the server; it gives way to it.
NICE = 10


class CompileError(SchemacError):
    """A compile worker refused a source, or failed.

    Attributes:
        kind: the class of the error in the compiler, such as ``UnsupportedError``; or ``Timeout``, ``Crash``,
            ``MemoryLimit``, ``Busy``, ``Closed``, ``InternalError``, ``WriteError``.
    """

    def __init__(self, kind: str, reason: str, *, place: str | None = None, construct: str | None = None,
                 hint: str | None = None) -> None:
        super().__init__(reason, place=place, construct=construct, hint=hint)
        self.kind = kind

    @property
    def lasting(self) -> bool:
        """Whether the same request would fail again for the same reason."""
        return self.kind not in ("Timeout", "Crash", "MemoryLimit", "Busy", "Closed", "InternalError", "WriteError")


class CompileWorkers:
    """`count` worker processes, started when they are first needed.

    Args:
        count: how many jobs run at once.
        command: what to start, for tests; `python -m schemac.worker` otherwise.
        nice: by how much to lower the workers' priority.
    """

    def __init__(self, count: int = 1, *, command: Sequence[str] | None = None, nice: int = NICE) -> None:
        self._command = list(command or (sys.executable, "-m", "schemac.worker", str(nice)))
        self._jobs: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._closed = False
        self._processes: list[_Process] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True, name="schemac") for _ in range(count)]
        for thread in self._threads:
            thread.start()
        _open.add(self)

    def submit(self, header: Mapping[str, Any], data: bytes = b"", *, seconds: float | None = None) -> Future[Answer]:
        """Ask a worker.

        Args:
            header, data: the message.
            seconds: when to give up, counted from when a worker takes it; None for never.

        Returns:
            The answer, or a `CompileError`.
        """
        answer: Future[Answer] = Future()
        with self._lock:
            if self._closed:
                answer.set_exception(CompileError("Closed", "the compile workers are closed"))
                return answer
            if self._waiting >= MAX_WAITING:
                answer.set_exception(CompileError("Busy", f"{MAX_WAITING} compiles wait already", hint="try again"))
                return answer
            self._waiting += 1
        self._jobs.put(_Waiting(encode_message(dict(header), data), seconds, answer))
        return answer

    def close(self) -> None:
        """End the processes. What waits or runs fails."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for process in list(self._processes):
            process.kill()

    def _serve(self) -> None:
        process: _Process | None = None
        while (job := self._jobs.get()) is not None:
            with self._lock:
                self._waiting -= 1
            if not job.answer.set_running_or_notify_cancel():
                del job
                continue
            try:
                if self._closed:
                    raise CompileError("Closed", "the compile workers are closed")
                if process is None or not process.alive():
                    process = self._started(process)
                job.answer.set_result(checked(process.ask(job.message, job.seconds)))
            except CompileError as error:
                job.answer.set_exception(error)
            except OSError as error:
                job.answer.set_exception(CompileError("Crash", f"the compile worker cannot be used: {error}"))
            del job
        if process is not None:
            process.kill()

    def _started(self, old: _Process | None) -> _Process:
        process = _Process(self._command)
        with self._lock:
            if old in self._processes:
                self._processes.remove(old)
            self._processes.append(process)
            closed = self._closed
        if closed:
            process.kill()
        return process


_open: weakref.WeakSet[CompileWorkers] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for workers in list(_open):
        workers.close()


class _Waiting:
    __slots__ = ("answer", "message", "seconds")

    def __init__(self, message: bytes, seconds: float | None, answer: Future[Answer]) -> None:
        self.message, self.seconds, self.answer = message, seconds, answer


class _Process:
    """One worker process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._popen = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip

    def alive(self) -> bool:
        return self._popen.poll() is None

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._popen.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=5)

    def ask(self, message: bytes, seconds: float | None) -> Answer:
        """Send a message and wait for the answer."""
        end = None if seconds is None else time.monotonic() + seconds + GRACE
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(message)
            self._popen.stdin.flush()
            length, size = LENGTHS.unpack(self._read(LENGTHS.size, end))
            text = self._read(length, end)
            self._read(size, end)
        except TimeoutError:
            self.kill()
            raise CompileError(
                "Timeout", f"the compile took more than {seconds:g} seconds", hint="simplify it, or allow more time"
            ) from None
        except (OSError, EOFError) as error:
            self.kill()
            code = self._popen.returncode
            how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            raise CompileError("Crash", f"the compile worker died ({how})") from error
        answer = json.loads(text)
        assert isinstance(answer, dict)
        return answer

    def _read(self, count: int, end: float | None) -> bytes:
        assert self._popen.stdout is not None
        handle = self._popen.stdout.fileno()
        ready = select.poll()  # select.select cannot take handles above 1,023, which a busy server has
        ready.register(handle, select.POLLIN)
        parts = []
        while count:
            left = None if end is None else end - time.monotonic()
            if left is not None and (left <= 0 or not ready.poll(left * 1000)):
                raise TimeoutError
            part = os.read(handle, min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def checked(answer: Answer) -> Answer:
    """The answer, if it is none of refusal.

    Raises:
        CompileError: it is one.
    """
    error = answer.get("error")
    if error is None:
        return answer
    raise CompileError(
        error["kind"], error["reason"], place=error["place"], construct=error["construct"], hint=error["hint"]
    )
