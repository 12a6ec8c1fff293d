"""The compile worker, ``python -m schemac.worker``: reads jobs from standard input, answers on standard output.

`schemac_runtime.serving.wire` is the form of the messages, `schemac_runtime.serving.worker` the client. A worker
compiles one source at a time, in a process of its own: a server's interpreter lock stays free, and a crash or a full
memory ends this process only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemac.codegen.package import write_whole
from schemac.errors import SchemacError
from schemac.jobs import Job, VocabularyChoice, run
from schemac_runtime.serving.wire import encode_message, read_message


def main(arguments: Sequence[str]) -> None:
    """Answer until standard input ends. The argument, if any, is by how much to lower the priority (`os.nice`)."""
    if arguments:
        os.nice(int(arguments[0]))
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not come between
    while (message := read_message(requests)) is not None:
        header, data = message
        try:
            answer = answer_to(header, data)
        except SchemacError as error:
            answer = refusal_of(error)
        except MemoryError:
            limit = header.get("memory")
            what = f"more than the {limit:,} bytes that a compile may use" if limit else "no memory left"
            answer = _refusal("MemoryLimit", what, hint="simplify the source, or raise the memory limit")
        except RecursionError:
            answer = _refusal("SourceError", "nested too deep", hint="flatten the source")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this job's answer
            answer = _refusal("InternalError", f"internal error, please report: {type(error).__name__}: {error}")
        answers.write(encode_message(answer))
        answers.flush()


def answer_to(header: dict[str, Any], source: bytes) -> dict[str, Any]:
    """The answer to one message.

    Raises:
        SchemacError: the source is refused, or the vocabulary cannot be had.
    """
    vocabulary = VocabularyChoice.from_json(header["vocabulary"])
    if header["do"] == "vocabulary":
        loaded = vocabulary.load()
        return {"fingerprint": loaded.fingerprint, "size": loaded.size, "stop_ids": list(loaded.stop_ids)}
    job = Job(
        header["kind"], source, vocabulary, header["options"], header["fingerprint"], header["limits"],
        header["seconds"], tuple(header.get("targets", ())),
    )  # fmt: skip
    with _MemoryLimit(header.get("memory"), vocabulary):
        result = run(job)
    path = Path(header["output"])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, result.data)
    except OSError as error:
        return _refusal("WriteError", f"cannot write {path}: {error.strerror or error}")
    return {"min_tokens": result.min_tokens, "seconds": result.seconds, "bytes": len(result.data)}


class _MemoryLimit:
    """Address space that a compile may take beyond what the process has once the vocabulary is loaded."""

    def __init__(self, limit: int | None, vocabulary: VocabularyChoice) -> None:
        self.limit = limit
        if limit:
            _ = vocabulary.load().trie  # before the measure is taken

    def __enter__(self) -> None:
        if not self.limit:
            return
        import resource

        try:
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        except OSError:  # only Linux says; elsewhere there is no limit
            return
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = pages * resource.getpagesize() + self.limit
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))

    def __exit__(self, *_error: object) -> None:
        if not self.limit:
            return
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def refusal_of(error: SchemacError) -> dict[str, Any]:
    """The answer that tells of an error."""
    return _refusal(type(error).__name__, error.reason, error.place, error.construct, error.hint)


def _refusal(
    kind: str, reason: str, place: str | None = None, construct: str | None = None, hint: str | None = None
) -> dict[str, Any]:
    return {"error": {"kind": kind, "reason": reason, "place": place, "construct": construct, "hint": hint}}


if __name__ == "__main__":
    main(sys.argv[1:])
