"""The engines under test, each behind the same three calls: set up for a vocabulary, compile, start a matcher.

An adapter does as little as it can around the engine's own calls, and takes the fastest of them where there is a
choice, because what it adds is charged to the engine. Adapters run in a worker process each (`benchmarks.isolation`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import numpy as np

from benchmarks.vocabulary import TokenTable, load_encoder

#: Compiled once before anything is timed, so that no engine pays for its lazy imports in the first case: by kind.
WARM_UP = {
    "json-schema": json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
    "regex": "[a-z]+",
    "gbnf": 'root ::= "a"',
    "lark": 'start: "a"',
}


class Refused(Exception):
    """The engine says that it cannot compile this schema.

    Attributes:
        reason: short, so that equal reasons can be counted together.
        detail: the whole message.
        timed_out: the engine gave up because its own deadline passed.
    """

    def __init__(self, reason: str, detail: str = "", *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail or reason
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class Started:
    """One fresh matcher: `fill` writes its mask into the engine's `bitmask`, `accept` says if a token is legal."""

    fill: Callable[[], object]
    accept: Callable[[int], bool]


class Grammar(Protocol):
    """One compiled schema."""

    def start(self) -> Started:
        """A matcher at the beginning of a text."""
        ...


class Engine(Protocol):
    """One engine, set up for one vocabulary."""

    bitmask: np.ndarray  # int32 [1, ceil(V / 32)], bit t % 32 of word t // 32 is 1 if token t is allowed
    kind: str  # of what `compile` takes: json-schema, regex, and gbnf or lark

    def compile(self, schema: str) -> Grammar:
        """From text to something that can start a matcher. Raises `Refused`."""
        ...


def empty_bitmask(table: TokenTable) -> np.ndarray:
    """int32 [1, ceil(V / 32)], all zero."""
    return np.zeros((1, (table.size + 31) // 32), dtype=np.int32)


class SchemacEngine:
    """schemac: compile, link, one matcher per instance.

    Attributes:
        key_order: see `schemac.compile`.
    """

    key_order = "schema"
    kind = "json-schema"

    def __init__(self, table: TokenTable, seconds: float) -> None:
        import schemac
        import schemac_runtime
        from schemac.errors import BudgetExceeded, SchemacError

        self._schemac = schemac
        self._errors, self._budget_error = SchemacError, BudgetExceeded
        self._vocabulary = table.source
        self._seconds = seconds
        self.bitmask: np.ndarray = schemac_runtime.allocate_bitmask(1, table.size)

    def compile(self, schema: str) -> Grammar:
        """See `Engine`."""
        try:
            compiled = self._schemac.compile(
                schema, kind=self.kind, timeout=self._seconds, key_order=self.key_order
            )
            linked = self._schemac.link(compiled, self._vocabulary, timeout=self._seconds)
        except self._errors as error:
            out_of_time = isinstance(error, self._budget_error) and error.budget == "seconds"
            subject = f"`{error.construct}`" if error.construct else message_head(error.reason)
            raise Refused(f"{type(error).__name__}: {subject}", str(error), timed_out=out_of_time) from error
        return _SchemacGrammar(linked.programs[-1], self.bitmask)


class _SchemacGrammar:
    def __init__(self, program: Any, bitmask: np.ndarray) -> None:
        self._program = program
        self._bitmask = bitmask

    def start(self) -> Started:
        matcher = self._program.matcher()
        return Started(partial(matcher.fill_bitmask, self._bitmask, 0), matcher.accept)


class LlguidanceEngine:
    """llguidance with its default JSON options, its default slices, and masks written straight into the bitmask."""

    kind = "json-schema"

    def __init__(self, table: TokenTable, _seconds: float) -> None:
        import llguidance
        from llguidance import TokenizerWrapper

        self._llguidance = llguidance
        wrapped = TokenizerWrapper(_LlguidanceVocabulary(table))
        self._tokenizer = llguidance.LLTokenizer(wrapped, n_vocab=table.size, eos_token=list(table.eos))
        self.bitmask = empty_bitmask(table)

    def compile(self, schema: str) -> Grammar:
        """See `Engine`."""
        try:
            source = getattr(self._llguidance.LLMatcher, f"grammar_from_{self.kind.replace('-', '_')}")(schema)
        except ValueError as error:
            raise Refused(message_head(str(error)), str(error)) from error
        matcher = self._llguidance.LLMatcher(self._tokenizer, source, log_level=0)
        if matcher.is_error():
            raise Refused(message_head(matcher.get_error()), matcher.get_error())
        return _LlguidanceGrammar(matcher, self.bitmask)


class _LlguidanceVocabulary:
    """What `TokenizerWrapper` asks for. Forced text is masked to its canonical tokens, so the encoder must be real."""

    def __init__(self, table: TokenTable) -> None:
        self._encode = load_encoder(table.spec)
        self.eos_token_id = table.eos[0]
        self.bos_token_id = None
        names = table.special_names
        self.tokens = [data or names.get(i, f"<|unused_{i}|>").encode() for i, data in enumerate(table.tokens)]
        self.special_token_ids = [i for i, data in enumerate(table.tokens) if not data]

    def __call__(self, text: bytes) -> list[int]:
        return self._encode(text.decode())


class _LlguidanceGrammar:
    def __init__(self, matcher: Any, bitmask: np.ndarray) -> None:
        self._matcher = matcher
        self._address, self._bytes = bitmask.ctypes.data, bitmask.nbytes

    def start(self) -> Started:
        matcher = self._matcher.deep_copy()
        return Started(partial(matcher.unsafe_compute_mask_ptr, self._address, self._bytes), matcher.consume_token)


class XgrammarEngine:
    """xgrammar as the standard has it (extra properties allowed, any whitespace), one thread, no cache."""

    kind = "json-schema"

    def __init__(self, table: TokenTable, _seconds: float) -> None:
        import xgrammar

        self._xgrammar = xgrammar
        info = xgrammar.TokenizerInfo(
            list(table.tokens), xgrammar.VocabType.RAW, vocab_size=table.size, stop_token_ids=list(table.eos)
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.bitmask = empty_bitmask(table)

    def compile(self, schema: str) -> Grammar:
        """See `Engine`."""
        try:
            if self.kind == "json-schema":
                compiled = self._compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=False)
            elif self.kind == "regex":
                compiled = self._compiler.compile_regex(schema)
            else:
                compiled = self._compiler.compile_grammar(schema)
        except (RuntimeError, ValueError) as error:
            raise Refused(message_head(str(error)), str(error)) from error
        return _XgrammarGrammar(self._xgrammar.GrammarMatcher, compiled, self.bitmask)


class _XgrammarGrammar:
    def __init__(self, matcher_type: Any, compiled: Any, bitmask: np.ndarray) -> None:
        self._matcher_type = matcher_type
        self._compiled = compiled
        self._bitmask = bitmask

    def start(self) -> Started:
        matcher = self._matcher_type(self._compiled)
        return Started(partial(matcher.fill_next_token_bitmask, self._bitmask), matcher.accept_token)


ENGINES: dict[str, Callable[[TokenTable, float], Engine]] = {
    "schemac": SchemacEngine,
    "llguidance": LlguidanceEngine,
    "xgrammar": XgrammarEngine,
}


def engine_factory(name: str) -> Callable[[TokenTable, float], Engine]:
    """The engine of that name, or an adapter from elsewhere as ``package.module:Class``.

    Raises:
        ValueError: there is none.
    """
    if name in ENGINES:
        return ENGINES[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"unknown engine {name!r}: one of {', '.join(ENGINES)}, or package.module:Class")
    factory: Callable[[TokenTable, float], Engine] = getattr(import_module(module), attribute)
    return factory


def engine_version(name: str) -> str:
    """The installed version of the distribution named like the engine, if it is installed."""
    try:
        return version(name)
    except (PackageNotFoundError, ValueError):
        return "not installed"


def message_head(text: str) -> str:
    """The first line of a message that says something, numbers and long quotations taken out, to count equals."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    head: list[str] = []
    for word in (lines[0] if lines else "no message").split(" "):
        if len(word) > 40:
            head.append("...")
        else:
            head.append("N" if word.strip("():,.").isdigit() else word)
    return " ".join(head)[:120]
