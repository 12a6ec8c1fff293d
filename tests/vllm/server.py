"""A real vLLM server for tests and benchmarks: started, watched, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: What may take long on a busy machine: imports, and vLLM's own start.
START_SECONDS = 400


@dataclass
class Server:
    """A running server.

    Attributes:
        url: of its OpenAI-compatible API.
        log: the file that its output goes to.
        process: the one that serves HTTP; the engine is a child of it.
    """

    url: str
    log: Path
    process: subprocess.Popen[bytes]
    model: str = "test"
    _seen: int = field(default=0)

    def log_text(self) -> str:
        """All that it has printed."""
        return self.log.read_text("utf-8", "replace")

    def resident_bytes(self) -> int:
        """Memory of the server and all its children, compile workers left out: they keep a vocabulary."""
        import psutil

        total = 0
        for process in (psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                if "schemac.worker" not in process.cmdline():
                    total += process.memory_full_info().uss
        return total

    def get(self, path: str) -> str:
        """The text at a path of the server."""
        with urllib.request.urlopen(self.url.removesuffix("/v1") + path, timeout=30) as answer:
            return str(answer.read().decode())


@contextlib.contextmanager
def serving(model: Path, log: Path, *, backend: str = "schemac", speculative: bool = False, length: int = 4096,
            settings: dict[str, Any] | None = None, more: tuple[str, ...] = ()) -> Iterator[Server]:  # fmt: skip
    """A server of `model` for the time of a block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
        "--served-model-name", "test", "--host", "127.0.0.1", "--port", str(port),
        "--load-format", "dummy", "--enforce-eager", "--max-model-len", str(length), "--max-num-seqs", "16",
        "--structured-outputs-config", json.dumps({"backend": backend}),
        "--enable-auto-tool-choice", "--tool-call-parser", "hermes", *more,
    ]  # fmt: skip
    if settings is not None:
        command += ["--additional-config", json.dumps({"schemac": settings})]
    if speculative:
        drafts = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
        command += ["--speculative-config", json.dumps(drafts)]
    environment = {
        **os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }  # fmt: skip
    environment.pop("SCHEMAC_SESSION", None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        server = Server(f"http://127.0.0.1:{port}/v1", log, process)
        try:
            _wait(server)
            yield server
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # its own session: the server and what it started
                process.wait()


def _wait(server: Server) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended:\n{server.log_text()[-4000:]}")
        try:
            server.get("/health")
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise RuntimeError(f"the server did not start in {START_SECONDS} s:\n{server.log_text()[-4000:]}")
