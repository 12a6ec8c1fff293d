"""The library: `compile`, `link`, `save`, `sample`, and what the command line is made of."""

from __future__ import annotations

import gc
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from schemac import __version__
from schemac.budget import DEFAULT_SECONDS, Budget
from schemac.codegen.linker import link as link_automaton
from schemac.codegen.package import automaton_from_arrays, package_bytes, write_package
from schemac.codegen.targets import build_target, check_target, split_target
from schemac.errors import LinkError, PackageError, SourceError, TargetError
from schemac.frontend import KEY_ORDERS, KINDS, WHITESPACE, SourceOptions, detect_kind, parse_source
from schemac.frontend.reasoning import ReasoningPrefix
from schemac.ir.automaton import Automaton
from schemac.ir.pipeline import PassStatistics, lower
from schemac.sampling import sample_bytes, sample_tokens
from schemac.vocabulary import Vocabulary, load_vocabulary
from schemac_runtime.package import Package
from schemac_runtime.program import Program
from schemac_runtime.targets import TargetArtifact

Source = str | bytes | bytearray | Mapping[str, Any] | Sequence[Any] | bool


@dataclass(frozen=True, eq=False)
class Compiled:
    """A source lowered to an automaton, and the programs linked from it.

    Attributes:
        kind: what the source was read as.
        source: its text.
        options: what was asked for, as the manifest states it.
        automaton: the program over bytes.
        stats: one entry per pass.
        warnings: what the source contains that constrains nothing.
        programs: one per linked vocabulary.
        targets: what was compiled for particular machines, each for one of the programs.
        inputs: SHA-256 (hex) of what else was read, by name: resources, and files that a grammar imports.
    """

    kind: str
    source: bytes
    options: Mapping[str, Any]
    automaton: Automaton
    stats: tuple[PassStatistics, ...] = ()
    warnings: tuple[str, ...] = ()
    programs: tuple[Program, ...] = ()
    targets: tuple[TargetArtifact, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def source_digest(self) -> str:
        """SHA-256 (hex) of the source text."""
        return hashlib.sha256(self.source).hexdigest()


def compile(
    source: Source,
    *,
    kind: str = "auto",
    whitespace: str = "flexible",
    strict: bool = False,
    limits: Mapping[str, int] | None = None,
    timeout: float | None = DEFAULT_SECONDS,
    draft: str | None = None,
    resources: Mapping[str, Any] | None = None,
    reasoning: ReasoningPrefix | str | None = None,
    folder: str | os.PathLike[str] | None = None,
    openapi_nullable: bool = False,
    key_order: str = "schema",
    whitespace_limit: int | None = None,
    digit_limit: int | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> Compiled:
    """Lower a source to an automaton.

    Args:
        source: text, or for JSON kinds also the parsed value (a dict or bool is a schema, a list of strings a choice).
        kind: one of `schemac.frontend.KINDS`, or ``auto``.
        whitespace: ``flexible``, ``single`` or ``compact``, for JSON texts.
        strict: make warnings errors.
        limits: budget overrides by name.
        timeout: wall clock in seconds, None for none.
        draft: JSON Schema draft to use whatever ``$schema`` says.
        resources: further schemas by URI, for references.
        reasoning: free text up to an end marker that precedes each text of the source; a string is the end marker.
        folder: where a Lark grammar finds the files that it imports, or None.
        openapi_nullable: ``nullable: true`` beside ``type`` in a JSON Schema allows null too, as in OpenAPI 3.0.
        key_order: ``schema`` has the keys of JSON objects in the order of the schema, ``any`` in any order, each once.
        whitespace_limit: the most whitespace characters in a row between two tokens of JSON, None for no limit.
        digit_limit: the most digits of a number in JSON, None for no limit.
        on_warning: called for each warning as it is found.

    Raises:
        SchemacError: the source is refused; see `schemac.errors`.
    """
    if kind != "auto" and kind not in KINDS:
        raise SourceError(f"there is no kind {kind!r}", hint="one of " + ", ".join(("auto", *KINDS)))
    if whitespace not in WHITESPACE:
        raise SourceError(f"there is no whitespace policy {whitespace!r}", hint="one of " + ", ".join(WHITESPACE))
    if key_order not in KEY_ORDERS:
        raise SourceError(f"there is no key order {key_order!r}", hint="one of " + ", ".join(KEY_ORDERS))
    budget = Budget(limits, timeout)
    text = _source_text(source)
    if kind == "auto":
        kind = detect_kind(source if not isinstance(source, (bytes, bytearray, str)) else text)
    if kind != "json-schema":  # which counts its resources too
        budget.spend("source_bytes", len(text))
    warnings: list[str] = []

    def warn(message: str) -> None:
        warnings.append(message)
        if on_warning is not None:
            on_warning(message)

    prefix = ReasoningPrefix(reasoning) if isinstance(reasoning, str) else reasoning
    where = None if folder is None else Path(folder)
    inputs = {name: _digest(document) for name, document in (resources or {}).items()}

    def on_file(name: str, content: bytes) -> None:
        inputs[name] = _digest(content)

    options = SourceOptions(
        whitespace,
        strict,
        draft,
        dict(resources or {}),
        prefix,
        where,
        openapi_nullable,
        key_order,
        whitespace_limit,
        digit_limit,
        on_file,
    )
    with _paused_collector():
        module = parse_source(text, kind, options, budget, warn)
        automaton, stats = lower(module, budget)
    shown: dict[str, Any] = {"whitespace": whitespace, "strict": strict, "draft": draft}
    if prefix is not None:
        shown["reasoning"] = asdict(prefix)
    if openapi_nullable:
        shown["openapi_nullable"] = True
    if key_order != "schema":
        shown["key_order"] = key_order
    given = {"whitespace_limit": whitespace_limit, "digit_limit": digit_limit}
    shown |= {name: limit for name, limit in given.items() if limit is not None}
    return Compiled(kind, text, shown, automaton, stats, tuple(warnings), inputs=dict(sorted(inputs.items())))


def _digest(document: object) -> str:
    """SHA-256 (hex) of a text, or of the JSON text of data."""
    if isinstance(document, str):
        document = document.encode("utf-8", "surrogatepass")
    elif not isinstance(document, (bytes, bytearray)):
        document = json.dumps(document, default=str).encode()
    return hashlib.sha256(document).hexdigest()


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause the cyclic garbage collector: a compile makes many small objects and no garbage cycles worth a search.

    Measured on a schema of 11,000 states: 2.3 s with the collector running, 1.9 s without.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _source_text(source: Source) -> bytes:
    if isinstance(source, str):
        return source.encode("utf-8", "surrogatepass")
    if isinstance(source, (bytes, bytearray)):
        return bytes(source)
    try:
        return json.dumps(source, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise SourceError(f"the source is not JSON: {error}") from error


def link(compiled: Compiled, vocabulary: Vocabulary | str, *, limits: Mapping[str, int] | None = None,
         timeout: float | None = DEFAULT_SECONDS) -> Compiled:
    """`compiled` with one more program, for a vocabulary or the name or path of a tokenizer.

    Raises:
        LinkError, BudgetExceeded, VocabularyError: see `schemac.errors`.
    """
    bound = load_vocabulary(vocabulary) if isinstance(vocabulary, str) else vocabulary
    others = tuple(p for p in compiled.programs if p.fingerprint != bound.fingerprint)
    targets = tuple(t for t in compiled.targets if t.fingerprint != bound.fingerprint)
    program = link_automaton(compiled.automaton, bound, Budget(limits, timeout))
    return replace(compiled, programs=(*others, program), targets=targets)


def add_target(compiled: Compiled, target: str) -> Compiled:
    """`compiled` with what the target needs, such as ``triton:sm_90``, for every linked program.

    Options may follow the target, as in ``neuron:trn1,batch=1+8``. What is there for this target already is made anew.
    A program that is linked later has nothing for it until it is added again.

    Raises:
        TargetError: the target is unknown, no program is linked, or the target's compiler is missing or fails.
    """
    name, _ = split_target(target)
    if not compiled.programs:
        raise TargetError("a target needs a linked program", construct="--target", hint="give --tokenizer too")
    others = tuple(t for t in compiled.targets if t.target != name)
    return replace(compiled, targets=(*others, *(build_target(target, program) for program in compiled.programs)))


def save(compiled: Compiled, path: str | os.PathLike[str]) -> None:
    """Write `compiled` as a package; the file appears whole or not at all.

    Raises:
        SchemacError: it cannot be written.
    """
    description = _description(compiled)
    write_package(Path(path), compiled.source, description, compiled.automaton, compiled.programs, compiled.targets)


def to_bytes(compiled: Compiled) -> bytes:
    """The bytes of the package that `save` writes."""
    description = _description(compiled)
    return package_bytes(compiled.source, description, compiled.automaton, compiled.programs, compiled.targets)


def _description(compiled: Compiled) -> dict[str, Any]:
    return {
        "schemac": __version__,
        "kind": compiled.kind,
        "source_sha256": compiled.source_digest,
        "options": dict(compiled.options),
        "warnings": list(compiled.warnings),
        **({"inputs": dict(compiled.inputs)} if compiled.inputs else {}),
    }


def open_package(package: Package) -> Compiled:
    """The compiled source that a loaded package holds, for linking it again or checking texts.

    Raises:
        PackageError: the automaton in it, or what it holds for a target, is damaged.
    """
    manifest = package.manifest
    try:
        automaton = automaton_from_arrays(package.arrays, manifest["automaton"])
        kind, warnings = str(manifest["kind"]), tuple(map(str, manifest["warnings"]))
        options = dict(manifest["options"])
        for artifact in package.targets:
            check_target(artifact)
        inputs = {str(name): str(digest) for name, digest in manifest.get("inputs", {}).items()}
        return Compiled(
            kind, package.source, options, automaton, (), warnings, package.programs, package.targets, inputs
        )
    except (AttributeError, LookupError, TypeError, ValueError, MemoryError) as error:
        raise PackageError(f"{package.path}: the package is damaged ({error})", hint="compile it again") from error


def sample(
    package: Package | Compiled, n: int, seed: int = 0, vocabulary: Vocabulary | None = None
) -> list[bytes]:
    """`n` random texts. With a program for `vocabulary`, token by token through its masks; else byte by byte.

    Raises:
        LinkError: there is no program for `vocabulary`.
    """
    compiled = package if isinstance(package, Compiled) else open_package(package)
    if vocabulary is None:
        return [sample_bytes(compiled.automaton, seed * 1_000_003 + index) for index in range(n)]
    programs = [p for p in compiled.programs if p.fingerprint == vocabulary.fingerprint]
    if not programs:
        raise LinkError("not linked for this vocabulary", hint="link the package for this tokenizer first")
    texts = []
    for index in range(n):
        tokens = sample_tokens(programs[0], compiled.automaton, vocabulary, seed * 1_000_003 + index)
        texts.append(b"".join(vocabulary.tokens[token] or b"" for token in tokens))
    return texts
