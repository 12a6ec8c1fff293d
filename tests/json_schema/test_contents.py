"""`contentEncoding` and `contentMediaType`: asserted or refused in draft 7, notes elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

import schemac
from benchmarks.canonical import Reader
from schemac.errors import UnsupportedError


def reader(schema: Any, draft: str) -> Reader:
    return Reader(schemac.compile(schema, draft=draft, whitespace="compact").automaton, schema)


@pytest.mark.parametrize("draft", ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"])
def test_base64_is_asserted_in_draft_7_only(draft: str) -> None:
    found = reader({"contentEncoding": "base64"}, draft)
    for value in ("", "YQ==", "YWI=", "YWJj", "YWJjZA==", 1, None):
        assert found.search(value).accepted
    for value in ("YQ", "YQ=", "Y===", "YW%j", "YWJj\n", "{}"):
        assert found.search(value).accepted is (draft != "draft7"), value


def test_the_complement_of_base64() -> None:
    found = reader({"not": {"contentEncoding": "BASE64"}, "maxLength": 4}, "draft7")
    assert found.search("YQ=").accepted
    assert not found.search("YQ==").accepted
    assert not found.search(1).accepted


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_in_strings_is_refused_in_draft_7_only(kind: str) -> None:
    schema = {"properties": {"a": {"contentMediaType": kind, "contentEncoding": "base64"}}}
    with pytest.raises(UnsupportedError, match="draft 7 asserts") as caught:
        schemac.compile(schema, draft="draft7")
    assert (caught.value.place, caught.value.construct) == ("#/properties/a", "contentMediaType")
    assert reader(schema, "draft2019-09").search({"a": "x"}).accepted


def test_other_encodings_and_media_types_assert_nothing() -> None:
    for schema in ({"contentEncoding": "quoted-printable"}, {"contentMediaType": "text/html"}):
        assert reader(schema, "draft7").search("=\u00e9<").accepted
