"""Random walks through the masks of structural tags: is every text valid, and every way to cut a valid one allowed?

    python -m benchmarks.structural_walks --walks 10000 --tokenizer tekken --tokenizer deepseek --tokenizer qwen

Each walk follows a random valid text, cut into tokens at random, so that triggers and ends are split and straddled in
every way the vocabulary allows. Every token that continues the text must be allowed. At a random step most walks leave
the text: they take any allowed tokens for a while, and then head for the end. What comes out is read by `Reader`, which
knows structural tags by their description: `str.find`, `json`, `jsonschema` and `re`, no automata. At some steps the
mask bits of random and of awkward tokens are compared with a recognizer that reads the graph byte by byte.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import jsonschema
import numpy as np

import schemac
from schemac.budget import Budget
from schemac.frontend import SourceOptions, parse_source
from schemac.ir.recognizer import Place, Recognizer
from schemac.sampling import sample_bytes
from schemac.vocabulary import Vocabulary
from schemac_runtime import allocate_bitmask, unpack
from tests.oracle.slow import SlowRecognizer

Format = Mapping[str, Any]

#: Tokens that a walk takes at random before it heads for the end.
WANDER = 8


class Reader:
    """Reads one text by a structural tag: which parts of it each format matches.

    Args:
        tag: the structural tag.
        text: what to read.
    """

    def __init__(self, tag: Format, text: str) -> None:
        self._text = text
        self._format = tag["format"] if "format" in tag else _legacy(tag)
        self._known: dict[tuple[int, int, tuple[str, ...], tuple[str, ...]], frozenset[int]] = {}

    def accepts(self) -> bool:
        """Whether the whole text is one of the tag's."""
        return len(self._text) in self._spans(self._format, 0, (), ())

    def _spans(self, form: Format, start: int, ends: tuple[str, ...], around: tuple[str, ...]) -> frozenset[int]:
        """Where a text of the format that begins at `start`, with one of `ends` behind it, may end."""
        key = id(form), start, ends, around
        if key not in self._known:
            self._known[key] = frozenset()  # what contains itself at the same place adds nothing
            self._known[key] = frozenset(self._read(form, start, ends, around))
        return self._known[key]

    def _read(self, form: Format, start: int, ends: tuple[str, ...], around: tuple[str, ...]) -> Iterator[int]:
        kind = form["type"]
        if kind == "any_text":
            yield from self._free(start, {}, ends, around, form)
        elif kind in ("triggered_tags", "dispatch"):
            yield from self._dispatched(form, start, ends, around)
        elif kind == "or":
            for element in form["elements"]:
                yield from self._spans(element, start, ends, around)
        elif kind == "optional":
            yield from self._ended({start}, ends)
            yield from self._spans(form["content"], start, ends, around)
        elif kind == "sequence":
            here = frozenset({start})
            *before, last = form["elements"]
            for element in before:
                here = frozenset(end for at in here for end in self._spans(element, at, (), around))
            for at in here:
                yield from self._spans(last, at, ends, around)
        else:
            yield from self._ended(self._closed(form, start, around), ends)

    def _ended(self, places: set[int] | frozenset[int], ends: tuple[str, ...]) -> Iterator[int]:
        for at in places:
            if not ends:
                yield at
            for end in ends:
                if self._text.startswith(end, at):
                    yield at + len(end)

    def _closed(self, form: Format, start: int, around: tuple[str, ...]) -> set[int]:
        kind, text = form["type"], self._text
        if kind == "const_string":
            return {start + len(form["value"])} if text.startswith(form["value"], start) else set()
        if kind == "regex":
            pattern = re.compile(form["pattern"], re.DOTALL)
            return {end for end in range(start, len(text) + 1) if pattern.fullmatch(text, start, end)}
        if kind == "json_schema":
            return self._json(form, start)
        if kind == "tag":
            begun = text.startswith(form["begin"], start)
            return set(self._content(form, start + len(form["begin"]))) if begun else set()
        if kind == "tags_with_separator":
            return self._separated(form, start)
        low, high = {"star": (0, None), "plus": (1, None)}.get(kind, (form.get("min", 0), form.get("max")))
        found, here, count, seen = set(), {start}, 0, set()
        while here:
            if count >= low:
                found |= here
                here -= seen
                seen |= here
            if high not in (None, -1) and count == high:
                break
            here = {end for at in here for end in self._spans(form["content"], at, (), around)}
            count += 1
        return found

    def _json(self, form: Format, start: int) -> set[int]:
        if form.get("style", "json") == "qwen_xml":
            return self._parameters(form["json_schema"], start)
        found = set()
        try:
            value, end = json.JSONDecoder().raw_decode(self._text, start)
            while True:
                if _valid(form["json_schema"], value):
                    found.add(end)
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    return found
                value, end = json.JSONDecoder().raw_decode(self._text[: end - 1], start)  # the beginning of a number
        except ValueError:
            return found

    def _parameters(self, schema: Any, start: int) -> set[int]:
        """As Qwen's parsers read them: up to the first closing marker, without one line feed at each end."""
        values: dict[str, Any] = {}
        one = re.compile(r"\s*<parameter=([^>]*)>(.*?)</parameter>", re.DOTALL)
        found, at = set(), start
        while True:
            if _valid(schema, values):
                found |= {at, *(at + len(gap) for gap in _gaps(self._text, at))}
            match = one.match(self._text, at)
            if match is None:
                return found
            name, raw = match.groups()
            raw = raw.removeprefix("\n").removesuffix("\n")
            kinds = schema.get("properties", {}).get(name, {}).get("type", "string")
            values[name] = raw if kinds == "string" else json.loads(raw)
            at = match.end()

    def _content(self, tag: Format, opened: int) -> frozenset[int]:
        ends = tuple(tag["end"]) if isinstance(tag["end"], list) else (tag["end"],)
        return self._spans(tag["content"], opened, ends, tuple(filter(None, ends)))

    def _separated(self, form: Format, start: int) -> set[int]:
        found = set() if form.get("at_least_one") else {start}
        here = {start}
        while here:
            after = {
                end
                for at in here
                for tag in form["tags"]
                if self._text.startswith(tag["begin"], at)
                for end in self._content(tag, at + len(tag["begin"]))
            } - found
            found |= after
            separator = form["separator"]
            here = {at + len(separator) for at in after if self._text.startswith(separator, at)}
            if form.get("stop_after_first"):
                break
        return found

    def _dispatched(self, form: Format, start: int, ends: tuple[str, ...], around: tuple[str, ...]) -> set[int]:
        tags = form["type"] == "triggered_tags"
        loop = not form.get("stop_after_first") if tags else form.get("loop", True)
        markers = form["triggers"] if tags else [pattern for pattern, _ in form["rules"]]
        found: set[int] = set()
        pending: list[tuple[int, bool]] = [(start, bool(form.get("at_least_one")))]
        seen = set(pending)
        while pending:
            at, must = pending.pop()
            after: set[int] = set()
            if must:
                for tag in form["tags"]:
                    if self._text.startswith(tag["begin"], at):
                        after |= self._content(tag, at + len(tag["begin"]))
            else:
                jumps: dict[str, set[int]] = {marker: set() for marker in markers}
                found |= set(self._free(at, jumps, ends, around, form))
                for marker, places in jumps.items():
                    for behind in places:
                        after |= self._after_marker(form, marker, behind, around)
            if not loop:
                found |= set(self._ended(after, ends))
                continue
            for place in after:
                if (place, False) not in seen:
                    seen.add((place, False))
                    pending.append((place, False))
        return found

    def _after_marker(self, form: Format, marker: str, behind: int, around: tuple[str, ...]) -> set[int]:
        after: set[int] = set()
        if form["type"] == "dispatch":
            for pattern, content in form["rules"]:
                if pattern == marker:
                    after |= self._spans(content, behind, (), around)
            return after
        for tag in form["tags"]:
            begun = behind - len(marker)
            if tag["begin"].startswith(marker) and self._text.startswith(tag["begin"], begun):
                after |= self._content(tag, begun + len(tag["begin"]))
        return after

    def _free(
        self, start: int, jumps: dict[str, set[int]], ends: tuple[str, ...], around: tuple[str, ...], form: Format
    ) -> Iterator[int]:
        """Where free text, with its end, may end; fills in where each marker of `jumps` has been read."""
        text = self._text
        excludes = [*form.get("excludes", ()), *(() if ends else around)]
        markers = [marker for marker in (*jumps, *ends) if marker]
        first = min((text.index(m, start) + len(m) for m in markers if m in text[start:]), default=len(text) + 1)
        clean = first - 1 if first <= len(text) else len(text)  # the longest text without a whole marker
        clean = min([clean, *(text.index(x, start) + len(x) - 1 for x in excludes if x in text[start:])])
        if form.get("max_chars") is not None:
            clean = min(clean, start + form["max_chars"])
        if not ends or "" in ends:
            yield from range(start, clean + 1)
        for marker in markers:
            begun = first - len(marker)
            if first <= len(text) and begun >= start and text.startswith(marker, begun) and begun <= clean:
                if marker in jumps:
                    jumps[marker].add(first)
                if marker in ends:
                    yield first


def _legacy(tag: Format) -> Format:
    tags = [
        {"type": "tag", "begin": s["begin"], "end": s["end"],
         "content": {"type": "json_schema", "json_schema": s["schema"]}}
        for s in tag["structures"]
    ]  # fmt: skip
    return {"type": "triggered_tags", "triggers": tag["triggers"], "tags": tags}


def _valid(schema: Any, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def _gaps(text: str, at: int) -> list[str]:
    blank = re.compile(r"\s*").match(text, at)
    assert blank is not None
    return [blank.group()[:length] for length in range(len(blank.group()) + 1)]


# -- walks ---------------------------------------------------------------------------------------------------------


def _tool(name: str, properties: Mapping[str, Any], required: Sequence[str]) -> Format:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    _tool("get", {"city": {"type": "string"}, "days": {"type": "integer"}}, ["city"]),
    _tool("get_time", {"zone": {"enum": ["CET", "</tool_call>", "UTC"]}}, []),
    _tool("set", {"on": {"type": "boolean"}, "note": {"type": "string", "maxLength": 12}}, ["on"]),
]


def cases() -> dict[str, Format]:
    """Structural tags by name: every format of `schemac.frontend.tool_formats`, and hand-written ones."""
    from schemac.frontend.tool_formats import MODEL_FORMATS
    from schemac.frontend.tools import tools_source

    found: dict[str, Format] = {}
    for name in ("llama3_json", "hermes", "mistral", "mistral_list", "deepseek_v3", "deepseek_v31", "qwen3_coder"):
        assert name in MODEL_FORMATS
        for choice in ("auto", "required"):
            found[f"{name} {choice}"] = tools_source(TOOLS, choice, model_format=name).source
    number = {"type": "json_schema", "json_schema": {"type": "integer"}}
    found["overlapping markers"] = {"type": "structural_tag", "format": {
        "type": "triggered_tags", "triggers": ["<<a", "<a", "aa"], "excludes": ["<x"],
        "tags": [
            {"type": "tag", "begin": "<<ab>", "content": number, "end": "a"},
            {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": ["aa", "<a"]},
            {"type": "tag", "begin": "aa<", "content": {"type": "regex", "pattern": "[a-c]{1,3}"}, "end": ""},
        ],
    }}  # fmt: skip
    found["reasoning and sequence"] = {"type": "structural_tag", "format": {"type": "sequence", "elements": [
        {"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "</think>"},
        {"type": "const_string", "value": "\n\n"},
        {"type": "tags_with_separator", "separator": ",", "at_least_one": True, "tags": [
            {"type": "tag", "begin": "<i>", "content": number, "end": "</i>"},
            {"type": "tag", "begin": "<it>", "content": {"type": "any_text", "max_chars": 5}, "end": "</it>"},
        ]},
    ]}}  # fmt: skip
    found["legacy"] = {
        "type": "structural_tag", "triggers": ["<function="],
        "structures": [
            {"begin": f"<function={tool['function']['name']}>", "schema": tool["function"]["parameters"],
             "end": "</function>"}
            for tool in TOOLS
        ],
    }  # fmt: skip
    return found


class Walker:
    """Walks through one linked structural tag.

    Attributes:
        steps, probes: how many tokens were taken, and how many mask bits compared with the slow recognizer.
    """

    def __init__(self, tag: Format, vocabulary: Vocabulary, seed: int, probes: int) -> None:
        source = json.dumps(tag).encode()
        self.tag = tag
        self.vocabulary = vocabulary
        self.compiled = schemac.link(schemac.compile(source), vocabulary)
        module = parse_source(source, "structural-tag", SourceOptions(), Budget(), lambda _: None)
        self._slow = SlowRecognizer(module)
        self._recognizer = Recognizer(self.compiled.automaton)  # finds the way to the end, judges nothing
        self._generator = random.Random(seed)
        self._count = probes
        self._labels = {
            vocabulary.special[text]: text for text in self.compiled.automaton.labels if text in vocabulary.special
        }
        awkward = [
            token
            for token, data in enumerate(vocabulary.tokens)
            if data and len(data) > 1 and (data[:1] in b"<[{}\"]>" or data[-1:] in b"<[{\"")
        ]
        self._awkward = self._generator.sample(awkward, min(400, len(awkward)))
        self._texts = [sample_bytes(self.compiled.automaton, seed * 1000 + index) for index in range(60)]
        self.steps = self.probes = 0

    def walk(self) -> str | None:
        """One walk; returns what is wrong, or None."""
        generator = self._generator
        matcher = self.compiled.programs[0].matcher()
        mask = allocate_bitmask(1, self.vocabulary.size)
        rest = generator.choice(self._texts)
        leave = generator.randrange(60)
        done = bytearray()
        places, here = self._slow.start(), self._recognizer.start()
        for step in range(2_000):
            matcher.fill_bitmask(mask)
            allowed = unpack(mask, self.vocabulary.size)[0]
            wrong = self._probe(allowed, places)
            if wrong is not None:
                return f"{bytes(done)!r} and then {wrong}"
            if step < leave:
                token, wrong = self._next(rest, allowed)
                if wrong is not None:
                    return f"{bytes(done)!r} and then {wrong}"
            else:
                token = self._any(allowed, here, wander=step < leave + WANDER)
            if not matcher.accept(token):
                return f"{bytes(done)!r}: token {token} is allowed and refused"
            self.steps += 1
            if matcher.is_terminated():
                text = done.decode("utf-8", "surrogateescape")
                return None if Reader(self.tag, text).accepts() else f"not valid: {text!r}"
            data = self.vocabulary.tokens[token] or self._labels[token].encode()
            label = self._labels.get(token)
            places = self._slow.read(places, data) if label is None else self._slow.read_token(places, label)
            for read in data if label is None else [label]:
                here = self._recognizer.step(here, read)
            rest = rest[len(data) :]
            done += data
        return f"no end after {bytes(done)!r}"

    def _next(self, rest: bytes, allowed: np.ndarray) -> tuple[int, str | None]:
        """A random token that goes on with a valid text; every such token must be allowed."""
        found = [
            token for length in range(1, min(len(rest), 40) + 1) for token in self.vocabulary.ids_of(rest[:length])
        ]
        if not rest:
            found = list(self.vocabulary.stop_ids)
        for token in found:
            if not allowed[token]:
                return -1, f"token {token} {self.vocabulary.tokens[token]!r} is not allowed, before {rest[:40]!r}"
        special = [token for token, text in self._labels.items() if rest.startswith(text.encode()) and allowed[token]]
        return self._generator.choice(special or found), None

    def _any(self, allowed: np.ndarray, here: list[Place], *, wander: bool) -> int:
        stops = [token for token in self.vocabulary.stop_ids if allowed[token]]
        if stops and (not wander or self._generator.random() < 0.2):
            return stops[0]
        nearest = self._recognizer.nearest(here)
        if not wander and isinstance(nearest, int):
            ids = self.vocabulary.ids_of(bytes([nearest]))
            if ids and allowed[ids[0]]:
                return ids[0]
        choices = np.flatnonzero(allowed)
        return int(choices[self._generator.randrange(len(choices))])

    def _probe(self, allowed: np.ndarray, places: Any) -> str | None:
        if self._generator.random() > 0.25:
            return None
        generator = self._generator
        tokens = [generator.randrange(self.vocabulary.size) for _ in range(self._count // 2)]
        tokens += generator.sample(self._awkward, min(len(self._awkward), self._count - len(tokens)))
        for token in tokens:
            data, label = self.vocabulary.tokens[token], self._labels.get(token)
            if data is None and label is None:
                expected = token in self.vocabulary.stop_ids and self._slow.ended(places)
            elif label is not None:
                expected = bool(self._slow.read_token(places, label))
            else:
                expected = bool(data) and bool(self._slow.read(places, data or b""))
            self.probes += 1
            if bool(allowed[token]) != expected:
                return f"token {token} {data!r}: the mask says {bool(allowed[token])}"
        return None


@click.command()
@click.option("--walks", default=10_000, show_default=True, help="In all.")
@click.option("--tokenizer", "tokenizers", multiple=True, default=("tekken", "deepseek", "qwen"), show_default=True)
@click.option("--probes", default=8, show_default=True, help="Mask bits compared at a step.")
@click.option("--seed", default=1, show_default=True)
def main(walks: int, tokenizers: tuple[str, ...], probes: int, seed: int) -> None:
    """Walk through structural tags with real vocabularies."""
    failures = 0
    chosen = cases()
    each = -(-walks // (len(tokenizers) * len(chosen)))
    for name in tokenizers:
        vocabulary = schemac.load_vocabulary(name)
        started, steps, compared, done = time.perf_counter(), 0, 0, 0
        for index, (case, tag) in enumerate(chosen.items()):
            walker = Walker(tag, vocabulary, seed * 100 + index, probes)
            for _ in range(each):
                wrong = walker.walk()
                done += 1
                if wrong is not None:
                    failures += 1
                    click.echo(f"{name}, {case}: {wrong}")
            steps += walker.steps
            compared += walker.probes
        seconds = time.perf_counter() - started
        click.echo(f"{name}: {done:,} walks, {steps:,} tokens, {compared:,} mask bits compared, {seconds:.0f} s")
    click.echo(f"{failures} failures")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
