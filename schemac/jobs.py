"""The unit of work of a store and of the compile worker: one source for one vocabulary, to the bytes of a package.

A job holds all that its result depends on, and running it is a pure function. It can be written as JSON, so that it
travels to another process or machine without pickle.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from schemac.api import add_target, link, to_bytes
from schemac.api import compile as compile_source
from schemac.errors import SourceError, VocabularyError
from schemac.frontend.reasoning import ReasoningPrefix
from schemac.vocabulary import Vocabulary, from_transformers, load_vocabulary
from schemac_runtime.store import canonical_options, canonical_source


@dataclass(frozen=True)
class VocabularyChoice:
    """Which vocabulary, by what a process needs to load it.

    Attributes:
        tokenizer: a built-in name, a file or a folder, as for `load_vocabulary`; or, with `described`, a file that
            `schemac_runtime.serving` wrote of a live tokenizer.
        size: number of the model's logits, if it differs.
        stop_ids: ids in place of those that the tokenizer names; None to keep them.
        more_stop_ids: ids beside them.
        described: whether `tokenizer` is such a description.
    """

    tokenizer: str
    size: int | None = None
    stop_ids: tuple[int, ...] | None = None
    more_stop_ids: tuple[int, ...] = ()
    described: bool = False

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> VocabularyChoice:
        """The inverse of `dataclasses.asdict`, lists for tuples."""
        stop_ids = data.get("stop_ids")
        return VocabularyChoice(
            str(data["tokenizer"]),
            data.get("size"),
            None if stop_ids is None else tuple(map(int, stop_ids)),
            tuple(map(int, data.get("more_stop_ids", ()))),
            bool(data.get("described", False)),
        )

    def load(self) -> Vocabulary:
        """The vocabulary; loaded once per process.

        Raises:
            VocabularyError: it cannot be loaded.
        """
        return _load(self)


@dataclass(frozen=True)
class Job:
    """One compile.

    Attributes:
        kind: what the source is; not ``auto``.
        source: its text, in canonical form.
        options: arguments of `schemac.compile` as a manifest states them.
        vocabulary: what to link for.
        fingerprint: that the vocabulary must have, or None.
        limits: budget overrides.
        seconds: wall clock for compiling and linking together, None for none.
        targets: machines to compile kernels for, as for `schemac.add_target`.
    """

    kind: str
    source: bytes
    vocabulary: VocabularyChoice
    options: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    seconds: float | None = 60.0
    targets: tuple[str, ...] = ()

    @staticmethod
    def of(kind: str, source: bytes, vocabulary: VocabularyChoice, options: Mapping[str, Any], **more: Any) -> Job:
        """A job in canonical form, so that equal ones give equal bytes."""
        return Job(kind, canonical_source(kind, source), vocabulary, canonical_options(options), **more)


@dataclass(frozen=True)
class Result:
    """What a job made.

    Attributes:
        data: the bytes of the package.
        min_tokens: of its program.
        seconds: what the compile took, loading the vocabulary left out.
    """

    data: bytes
    min_tokens: int
    seconds: float


def run(job: Job) -> Result:
    """Compile and link.

    Raises:
        SchemacError: the source is refused, a limit is reached, or the vocabulary is not the one that was meant.
    """
    vocabulary = job.vocabulary.load()
    if job.fingerprint is not None and vocabulary.fingerprint != job.fingerprint:
        raise VocabularyError(
            f"the tokenizer here has the fingerprint {vocabulary.fingerprint[:12]}, expected {job.fingerprint[:12]}",
            place=job.vocabulary.tokenizer,
            hint="use the same tokenizer files everywhere",
        )
    options = dict(job.options)
    reasoning = options.pop("reasoning", None)
    if reasoning is not None:
        options["reasoning"] = ReasoningPrefix(**reasoning)
    start = time.monotonic()
    try:
        compiled = compile_source(job.source, kind=job.kind, limits=job.limits, timeout=job.seconds, **options)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise SourceError(f"there is no such option: {error}", construct="options") from error
    left = None if job.seconds is None else max(0.001, job.seconds - (time.monotonic() - start))
    linked = link(compiled, vocabulary, limits=job.limits, timeout=left)
    for target in job.targets:
        linked = add_target(linked, target)
    data = to_bytes(linked)
    return Result(data, linked.programs[-1].min_tokens(), time.monotonic() - start)


@lru_cache(maxsize=4)
def _load(choice: VocabularyChoice) -> Vocabulary:
    if choice.described:
        vocabulary = from_transformers(_described(choice.tokenizer), choice.size)
    else:
        vocabulary = load_vocabulary(choice.tokenizer, size=choice.size)
    if choice.stop_ids is not None:
        vocabulary = vocabulary.with_stop_ids(choice.stop_ids)
    if choice.more_stop_ids and not set(choice.more_stop_ids) <= set(vocabulary.stop_ids):
        vocabulary = vocabulary.with_stop_ids((*vocabulary.stop_ids, *choice.more_stop_ids))
    return vocabulary


def _described(path: str) -> Any:
    """What `from_transformers` asks of a tokenizer, from a description of it."""
    from pathlib import Path

    from schemac.vocabulary.files import read_json

    data = read_json(Path(path))
    try:
        text = str(data["tokenizer"])
        added = {
            int(token_id): SimpleNamespace(content=str(content), special=bool(special))
            for token_id, content, special in data["added"]
        }
        size = int(data["length"])

        class Described(SimpleNamespace):
            def __len__(self) -> int:
                return size

        return Described(
            backend_tokenizer=SimpleNamespace(to_str=lambda: text),
            added_tokens_decoder=added,
            eos_token_id=data["eos_token_id"],
            all_special_tokens=list(map(str, data["all_special_tokens"])),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise VocabularyError(f"not a description of a tokenizer ({error})", place=path) from error


