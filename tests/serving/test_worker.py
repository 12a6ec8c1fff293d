"""Compile workers: what they answer, and what becomes of a job whose worker does not."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from schemac.jobs import Job, VocabularyChoice, run
from schemac_runtime.package import load
from schemac_runtime.serving import worker as module
from schemac_runtime.serving.worker import CompileError, CompileWorkers

#: A worker that does as its job's kind says.
FAKE = """
import os, sys, time
from schemac_runtime.serving.wire import encode_message, read_message
while (message := read_message(sys.stdin.buffer)) is not None:
    kind = message[0]["kind"]
    if kind == "die": os._exit(3)
    if kind == "crash": os.kill(os.getpid(), 11)
    if kind == "sleep": time.sleep(600)
    sys.stdout.buffer.write(encode_message({"pid": os.getpid(), "echo": message[1].decode()})); sys.stdout.flush()
"""


def job(choice: dict[str, Any], path: Path, **more: Any) -> dict[str, Any]:
    return {"do": "compile", "kind": "json-schema", "options": {}, "vocabulary": choice, "fingerprint": None,
            "limits": {}, "seconds": 20.0, "memory": None, "output": str(path), **more}  # fmt: skip


def test_a_worker_writes_what_the_library_makes(
    workers: CompileWorkers, choice: dict[str, Any], tmp_path: Path
) -> None:
    answer = workers.submit(job(choice, tmp_path / "a" / "b.pkg"), b'{"type":"integer"}').result(60)
    package = load(tmp_path / "a" / "b.pkg")
    assert answer["min_tokens"] == package.program().min_tokens() == 2
    made = run(Job.of("json-schema", b'{"type": "integer"}', VocabularyChoice(choice["tokenizer"]), {}))
    assert made.data == package.path.read_bytes()


def test_a_refusal_names_the_place(workers: CompileWorkers, choice: dict[str, Any], tmp_path: Path) -> None:
    bad = b'{"properties":{"a":{"pattern":"(a"}}}'
    error = workers.submit(job(choice, tmp_path / "x.pkg"), bad).exception(60)
    assert isinstance(error, CompileError)
    assert (error.kind, error.place, error.lasting) == ("SourceError", "#/properties/a/pattern:1:1", True)
    assert not (tmp_path / "x.pkg").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="not run: only Linux says how much memory a process has")
def test_memory_is_limited_and_the_worker_lives_on(
    workers: CompileWorkers, choice: dict[str, Any], tmp_path: Path
) -> None:
    rng = random.Random(0)
    large = json.dumps({"enum": ["".join(rng.choices("abcdefgh", k=40)) for _ in range(5000)]}).encode()
    header = job(choice, tmp_path / "x.pkg", memory=8 << 20, limits={"states": 10**9})
    error = workers.submit(header, large).exception(60)
    assert isinstance(error, CompileError)
    assert error.kind in ("MemoryLimit", "Crash")
    assert not error.lasting
    assert workers.submit(job(choice, tmp_path / "y.pkg"), b"true").result(60)["bytes"] > 0


def test_a_compile_has_a_deadline(workers: CompileWorkers, choice: dict[str, Any], tmp_path: Path) -> None:
    slow = b'{"type":"string","pattern":"(a|b)*a(a|b){16}"}'
    error = workers.submit(job(choice, tmp_path / "x.pkg", seconds=0.05), slow, seconds=0.05).exception(60)
    assert isinstance(error, CompileError)
    assert error.kind in ("BudgetExceeded", "Timeout")


@pytest.mark.parametrize(("kind", "how"), [("die", "exit code 3"), ("crash", "signal 11")])
def test_a_dead_worker_fails_its_job_alone(kind: str, how: str) -> None:
    pool = CompileWorkers(1, command=[sys.executable, "-c", FAKE])
    first = pool.submit({"kind": "ok"}, b"1").result(30)
    bad, after = pool.submit({"kind": kind}), pool.submit({"kind": "ok"}, b"2")
    error = bad.exception(30)
    assert isinstance(error, CompileError)
    assert error.kind == "Crash"
    assert how in str(error)
    assert after.result(30)["echo"] == "2"
    assert after.result()["pid"] != first["pid"]
    pool.close()


def test_a_worker_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 0.1)
    pool = CompileWorkers(1, command=[sys.executable, "-c", FAKE])
    pool.submit({"kind": "ok"}).result(30)
    error = pool.submit({"kind": "sleep"}, seconds=0.2).exception(30)
    assert isinstance(error, CompileError)
    assert error.kind == "Timeout"
    assert pool.submit({"kind": "ok"}, b"3").result(30)["echo"] == "3"
    pool.close()


def test_closing_ends_what_runs_and_refuses_what_comes() -> None:
    pool = CompileWorkers(1, command=[sys.executable, "-c", FAKE])
    pool.submit({"kind": "ok"}).result(30)
    running = pool.submit({"kind": "sleep"})
    time.sleep(0.1)
    pool.close()
    assert isinstance(running.exception(30), CompileError)
    refused = pool.submit({"kind": "ok"}).exception(30)
    assert isinstance(refused, CompileError)
    assert refused.kind == "Closed"


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    pool = CompileWorkers(1, command=[sys.executable, "-c", FAKE])
    futures = [pool.submit({"kind": "sleep"}) for _ in range(5)]
    busy = [f.exception(0) for f in futures if f.done()]
    assert busy and all(isinstance(error, CompileError) and error.kind == "Busy" for error in busy)
    pool.close()


def test_a_command_that_cannot_run_is_a_crash() -> None:
    pool = CompileWorkers(1, command=["/no/such/program"])
    error = pool.submit({"kind": "ok"}).exception(30)
    assert isinstance(error, CompileError)
    assert error.kind == "Crash"
    pool.close()


def test_the_asking_thread_is_free(workers: CompileWorkers, choice: dict[str, Any], tmp_path: Path) -> None:
    """The interpreter runs on while a worker compiles: a thread that counts is not held up."""
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    slow = b'{"type":"string","pattern":"(a|b)*a(a|b){12}"}'
    start = time.monotonic()
    workers.submit(job(choice, tmp_path / "x.pkg"), slow).result(60)
    done.set()
    thread.join()
    assert counted > 0.2 * (time.monotonic() - start) / 0.002
