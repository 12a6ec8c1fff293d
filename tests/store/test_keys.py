"""What a store names a package by."""

from __future__ import annotations

import inspect
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import schemac
from schemac_runtime.store import canonical_options, canonical_source, regex_source, store_key

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_layout_does_not_count(value: object, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    canonical = canonical_source("json-schema", text)
    assert canonical == canonical_source("json-schema", canonical)
    assert canonical == canonical_source("json-schema", json.dumps(value).encode())
    assert json.loads(canonical) == value
    assert list(json.loads(canonical)) == list(value) if isinstance(value, dict) else True


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),  # the masks keep the order
        ('{"minimum": 0.1}', '{"minimum": 0.10000000000000000001}'),
        ('{"minimum": 1}', '{"minimum": 1e99999999999999999999}'),
        ('{"minimum": 0}', '{"minimum": 1e-99999999999999999999}'),
        ('{"a": 1}', '{"a": 2, "a": 1}'),
        ('{"const": "a"}', '{"const": "A"}'),
        ('"\\ud800"', '"?"'),
    ],
)
def test_what_differs_has_another_key(one: str, other: str) -> None:
    assert store_key("json-schema", one.encode(), {}, "f") != store_key("json-schema", other.encode(), {}, "f")


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\xff", "NaN", "1" * 5000, ""])
def test_what_is_no_json_stays_as_it_is(text: str) -> None:
    assert canonical_source("json-schema", text.encode("latin-1")) == text.encode("latin-1")


def test_everything_counts() -> None:
    base = ("json-schema", b"{}", {"whitespace": "compact"}, "f")
    keys = {
        store_key(*base),
        store_key("choice", *base[1:]),
        store_key("json-schema", b"true", *base[2:]),
        store_key("json-schema", b"{}", {}, "f"),
        store_key("json-schema", b"{}", {"whitespace": "single"}, "f"),
        store_key("json-schema", b"{}", {"whitespace": "compact", "reasoning": {"end": "</think>"}}, "f"),
        store_key(*base[:3], "g"),
    }
    assert len(keys) == 7


def test_defaults_need_not_be_stated() -> None:
    assert canonical_options(schemac.compile("{}").options) == {}
    defaults = {name: p.default for name, p in inspect.signature(schemac.compile).parameters.items()}
    stated = set(schemac.compile("{}").options)
    assert canonical_options({name: defaults[name] for name in stated}) == {}


def test_choices_are_lists() -> None:
    assert canonical_source("choice", b"a\nb\n") == canonical_source("choice", b'[ "a","b" ]') == b'["a","b"]'


@pytest.mark.parametrize("pattern", ["a", "a\n", "a\r", "a\r\n", "\n", "", "a\n\n"])
def test_a_pattern_means_what_it_says(pattern: str) -> None:
    source = regex_source(pattern.encode())
    assert canonical_source("regex", source) == source
    automaton = schemac.compile(source, kind="regex").automaton
    assert schemac.check(automaton, pattern.encode()).accepted
    assert not schemac.check(automaton, pattern.encode() + b"\n").accepted
