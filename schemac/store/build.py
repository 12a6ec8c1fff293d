"""Compile many sources into a store: in worker processes, or on a Dask cluster. Both write the same bytes.

A source is up to date if its package is there, whole, and made by this version. Writers need not know of each other: a
package is written beside its place and renamed, and whoever is later writes the same bytes again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schemac import __version__
from schemac.codegen.package import write_whole
from schemac.codegen.targets import split_target
from schemac.errors import SchemacError
from schemac.jobs import Job, VocabularyChoice, run
from schemac.store.sources import Source
from schemac_runtime.errors import PackageError
from schemac_runtime.serving.worker import CompileError, CompileWorkers, checked
from schemac_runtime.store import Store, store_key

#: Jobs that are handed out beyond those that run, so that no worker waits.
_AHEAD = 2


@dataclass(frozen=True)
class Outcome:
    """What became of one source for one vocabulary.

    Attributes:
        name: the file.
        key: in the store; empty if the source could not be read.
        problem: why it failed, or None.
        compiled: whether it was compiled; False if it was up to date or failed.
    """

    name: str
    key: str
    problem: SchemacError | None = None
    compiled: bool = False


@dataclass(frozen=True)
class Plan:
    """What all jobs of a build have in common.

    Attributes:
        store: where to.
        vocabularies: what to link for, each into packages of its own.
        limits, seconds, memory: of each compile; memory in bytes beyond the vocabulary's own, None for no limit.
        targets: machines to compile kernels for.
    """

    store: Path
    vocabularies: Sequence[VocabularyChoice]
    limits: Mapping[str, int]
    seconds: float | None
    memory: int | None = None
    targets: tuple[str, ...] = ()


def build(plan: Plan, sources: Iterable[Source], workers: int) -> Iterator[Outcome]:
    """Build with `workers` processes. Outcomes come as they are done.

    Raises:
        SchemacError: a vocabulary cannot be loaded.
    """
    pool = CompileWorkers(workers, nice=0)
    try:
        prints = [(choice, _fingerprint(pool, choice)) for choice in plan.vocabularies]

        def start(job: Job, path: Path) -> Future[Any]:
            return pool.submit(job_header(job, path, plan.memory), job.source, seconds=job.seconds)

        yield from _run_all(plan, prints, sources, start, workers * (1 + _AHEAD), lambda done, _: done.result())
    finally:
        pool.close()


def build_on_dask(plan: Plan, sources: Iterable[Source], address: str) -> Iterator[Outcome]:
    """Build on the Dask cluster of the scheduler at `address`. Packages come back over the wire and are written here.

    Raises:
        SchemacError: Dask is not installed, the scheduler is not there, or a vocabulary cannot be loaded.
    """
    try:
        from distributed import Client
    except ImportError:
        hint = "pip install 'schemac[dask]'"
        raise SchemacError("Dask is not installed", construct="--scheduler", hint=hint) from None
    try:
        client = Client(address, timeout=30, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise SchemacError(f"no Dask scheduler at {address}: {error}", construct="--scheduler") from error
    try:
        prints = [(choice, choice.load().fingerprint) for choice in plan.vocabularies]

        def start(job: Job, _path: Path) -> Future[Any]:
            # A job that took its worker down with it is not tried on the others.
            answer = client.submit(run_far, job, pure=False, retries=0)
            done: Future[Any] = Future()

            def settle(remote: Any) -> None:
                try:
                    done.set_result(remote.result())
                except Exception as error:  # noqa: BLE001 - whatever the cluster reports is this job's failure
                    done.set_exception(CompileError("Crash", f"the job failed on the cluster: {error}"))

            answer.add_done_callback(settle)
            return done

        def finish(done: Future[Any], path: Path) -> None:
            answer, data = done.result()
            checked(answer)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)

        threads = max(1, sum(client.nthreads().values()))
        yield from _run_all(plan, prints, sources, start, threads * (1 + _AHEAD), finish)
    finally:
        client.close()


def run_far(job: Job) -> tuple[dict[str, Any], bytes]:
    """Run a job where only data may come back: the answer of a worker, and the package."""
    from schemac.worker import refusal_of

    try:
        return {}, run(job).data
    except SchemacError as error:
        return refusal_of(error), b""


def job_header(job: Job, path: Path, memory: int | None) -> dict[str, Any]:
    """The message that asks a worker to do a job and write the package to `path`."""
    return {
        "do": "compile",
        "kind": job.kind,
        "options": dict(job.options),
        "vocabulary": asdict(job.vocabulary),
        "fingerprint": job.fingerprint,
        "limits": dict(job.limits),
        "seconds": job.seconds,
        "memory": memory,
        "targets": list(job.targets),
        "output": str(path),
    }


def _fingerprint(pool: CompileWorkers, choice: VocabularyChoice) -> str:
    answer = pool.submit({"do": "vocabulary", "vocabulary": asdict(choice)}).result()
    return str(answer["fingerprint"])


def _run_all(
    plan: Plan,
    prints: Sequence[tuple[VocabularyChoice, str]],
    sources: Iterable[Source],
    start: Callable[[Job, Path], Future[Any]],
    most: int,
    finish: Callable[[Future[Any], Path], object],
) -> Iterator[Outcome]:
    store = Store(plan.store)
    running: dict[Future[Any], tuple[str, str]] = {}
    begun: set[str] = set()  # the same source may stand in several files
    for source in sources:
        if source.problem is not None:
            yield Outcome(source.name, "", source.problem)
            continue
        for choice, fingerprint in prints:
            job = Job.of(source.kind, source.text, choice, source.options, fingerprint=fingerprint,
                         limits=plan.limits, seconds=plan.seconds, targets=plan.targets)  # fmt: skip
            key = store_key(job.kind, job.source, job.options, fingerprint)
            if key in begun or up_to_date(store, key, fingerprint, plan.targets):
                yield Outcome(source.name, key)
                continue
            begun.add(key)
            while len(running) >= most:
                yield from _finished(store, running, finish)
            running[start(job, store.path_of(key))] = source.name, key
    while running:
        yield from _finished(store, running, finish)


def _finished(
    store: Store, running: dict[Future[Any], tuple[str, str]], finish: Callable[[Future[Any], Path], object]
) -> Iterator[Outcome]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        name, key = running.pop(future)
        try:
            finish(future, store.path_of(key))
        except SchemacError as error:
            yield Outcome(name, key, error)
        except OSError as error:
            yield Outcome(name, key, SchemacError(f"cannot write the package: {error.strerror or error}"))
        else:
            yield Outcome(name, key, compiled=True)


def up_to_date(store: Store, key: str, fingerprint: str, targets: Sequence[str] = ()) -> bool:
    """Whether the package is there, whole, made by this version, and holds these targets.

    If it is, its date becomes now, as `gc` goes by dates. What a target was built with (its options, the version of its
    compiler) is not compared.
    """
    try:
        package = store.load(key, fingerprint)
    except PackageError:
        return False  # which is then written anew
    if package is None or package.manifest.get("schemac") != __version__:
        return False
    held = {artifact.target for artifact in package.targets}
    if not {split_target(target)[0] for target in targets} <= held:
        return False
    with contextlib.suppress(OSError):  # a store that may only be read
        os.utime(package.path)
    return True
