"""UTF-8 languages against Python's encoder."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemac.ir import minimize
from schemac.ir.charset import BYTES, CODE_POINTS, SCALARS, CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.minimize import Table
from schemac.ir.utf8 import utf8_language, utf8_words

EDGES = [0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0x10FFFF]
CODES = st.sampled_from(EDGES) | st.sampled_from([ord(char) for char in "aé€中😀"]) | st.integers(0, CODE_POINTS)
SETS = st.lists(st.tuples(CODES, CODES).map(lambda pair: (min(pair), max(pair))), max_size=5).map(
    lambda pairs: CharSet.of(*pairs)
)


def is_scalar(code: int) -> bool:
    return not 0xD800 <= code <= 0xDFFF


@settings(max_examples=150, deadline=None)
@given(SETS, SETS, st.lists(CODES, max_size=6))
def test_encoded_language(first: CharSet, then: CharSet, codes: list[int]) -> None:
    language = Dfa.symbols(first, CODE_POINTS).optional().concat(Dfa.runs(then, 0, 3, CODE_POINTS))
    encoded = utf8_language(language)
    near = {bound + step for symbols in (first, then) for pair in symbols for bound in pair for step in (-1, 0, 1)}
    for code in sorted(near | set(codes) | set(EDGES)):
        if 0 <= code <= CODE_POINTS and is_scalar(code):
            for text in (chr(code), chr(code) * 2, "a" + chr(code)):
                assert encoded.accepts(text.encode()) == language.accepts(text)
    again = Dfa.from_table(BYTES, Table(encoded.starts, encoded.classes, encoded.table, encoded.accepting))
    assert again == encoded  # it is in normal form


def test_only_utf8_is_accepted() -> None:
    everything = utf8_language(Dfa.everything(CODE_POINTS))
    assert everything == utf8_language(Dfa.runs(SCALARS, 0, None, CODE_POINTS))
    assert everything.size == 8 and everything.accepts("aé中😀".encode())
    for wrong in (b"\x80", b"\xc0\x80", b"\xc3", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff"):
        assert not everything.accepts(wrong)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=4)))
def test_words(words: list[str]) -> None:
    assert utf8_words(words) == utf8_language(Dfa.literals(words, CODE_POINTS))


def test_large_sets_share_their_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = CharSet.of(*range(0x4E01, 0x9FFF, 2))
    one = utf8_language(Dfa.runs(odd, 1, None, CODE_POINTS))
    assert one.size < 20
    many = utf8_language(Dfa.runs(odd, 1, 50, CODE_POINTS))
    assert many.size < 50 * 20
    monkeypatch.setattr(minimize, "_LOOP_EDGES", -1)
    assert utf8_language(Dfa.runs(odd, 1, 50, CODE_POINTS)) == many


def test_only_code_points() -> None:
    with pytest.raises(ValueError, match="code points"):
        utf8_language(Dfa.everything(BYTES))
