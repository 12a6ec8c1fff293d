"""Strings: the lowering to bytes is compared with `json` on random texts."""

import json
import random

import pytest

from schemac.budget import Budget
from schemac.errors import BudgetExceeded, SourceError
from schemac.frontend.json_schema.text import any_string_body, closed, length_language, quoted, spell, string_body
from schemac.ir.charset import BYTES, CODE_POINTS, SCALARS, CharSet
from schemac.ir.dfa import Dfa

INTERESTING = [0, 8, 9, 0x0B, 0x1F, 0x20, 0x22, 0x2F, 0x30, 0x5C, 0x61, 0x62, 0x6E, 0x75, 0x7E, 0x7F, 0x80, 0xE9, 0x7FF]
INTERESTING += [0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF]


def random_text(rng: random.Random, most: int = 6) -> str:
    return "".join(chr(rng.choice(INTERESTING)) for _ in range(rng.randint(0, most)))


def body(text: str) -> bytes:
    return spell(text)[1:-1]


def accepts(language: Dfa, data: bytes) -> bool:
    return language.accepts(list(data))


def test_spelling_is_that_of_json() -> None:
    rng = random.Random(1)
    for text in [chr(code) for code in range(0x200)] + [random_text(rng) for _ in range(200)]:
        assert spell(text).decode() == json.dumps(text, ensure_ascii=False)


def test_a_lone_surrogate_has_no_spelling() -> None:
    with pytest.raises(SourceError, match="surrogate"):
        spell("a\ud800")


def test_every_scalar_value_is_lowered_and_nothing_else() -> None:
    language = string_body(Dfa.symbols(CharSet(((0, CODE_POINTS),)), CODE_POINTS))
    assert language == string_body(Dfa.symbols(SCALARS, CODE_POINTS))
    for code in [*INTERESTING, *range(0x100)]:
        assert accepts(language, body(chr(code)))
    for bad in (b'"', b"\\", b"\\/", b"\\u0041", b"\\u000A", b"\\u0008", b"\n", b"\x80", b"\xc0\x80", b"\xed\xa0\x80"):
        assert not accepts(language, bad)
    for bad in (b"\xf4\x90\x80\x80", b"\xf0\x80\x80\x80", b"\xe0\x80\x80", b"\xff", b"\xc3", b""):
        assert not accepts(language, bad)


def random_language(rng: random.Random) -> Dfa:
    """A small language with messy character sets."""
    points = sorted(rng.sample(INTERESTING, 6))
    sets = [CharSet.of(*zip(points[::2], points[1::2], strict=True)), CharSet.of(*rng.sample(INTERESTING, 3))]
    parts = [Dfa.symbols(rng.choice(sets), CODE_POINTS).repeat(*rng.choice([(0, None), (1, 2), (0, 3)])) for _ in "12"]
    result = parts[0].concat(parts[1])
    if rng.random() < 0.5:
        result = result.union(Dfa.literals([random_text(rng) for _ in range(8)], CODE_POINTS))
    return result.complement() if rng.random() < 0.4 else result


@pytest.mark.parametrize("seed", range(40))
def test_lowering_keeps_texts_and_adds_none(seed: int) -> None:
    rng = random.Random(seed)
    language = random_language(rng)
    lowered = string_body(language, Budget())
    literals = quoted(language, Budget())
    for _ in range(150):
        text = random_text(rng)
        expected = language.accepts(text)
        assert accepts(lowered, body(text)) == expected
        assert accepts(literals, spell(text)) == expected
    # What is accepted is a spelling: enumerate some, decode, spell again.
    for word in lowered.words(60):
        data = bytes(word)
        text = json.loads(b'"' + data + b'"')
        assert language.accepts(text)
        assert body(text) == data
    # The result is in normal form, so that the shortcut around minimization is sound.
    assert lowered == string_body(language).intersect(Dfa.everything(BYTES))
    again = lowered.union(Dfa.literal(b"\xff", BYTES)).difference(Dfa.literal(b"\xff", BYTES))
    assert again == lowered
    mark = Dfa.literal(b'"', BYTES)
    assert literals == mark.concat(lowered).concat(mark)
    if not lowered.is_empty:
        assert closed(lowered) == lowered.concat(mark)


@pytest.mark.parametrize(
    "texts",
    [["b"], ["\b", "xb"], ["\n", "xn"], ["\x0b", "00b"], ["u0001", "\x01", "xu0001"], ["\x01", "\x11"], [""], []],
)
def test_states_inside_escapes_may_equal_states_outside(texts: list[str]) -> None:
    language = Dfa.literals(texts, CODE_POINTS)
    expected = Dfa.literals([body(text) for text in texts], BYTES)
    assert string_body(language) == expected
    assert string_body(language.union(Dfa.literal("\ud800", CODE_POINTS))) == expected


def test_unconstrained_strings_have_every_spelling_of_json() -> None:
    language = any_string_body()
    for good in (
        rb"",
        rb"\u00e9\u00E9\/\b\f\n\r\t\"\\",
        rb"\ud83d\ude00\uD83D\uDE00",
        rb"\ud7ff\ue000\uD000\ufffF",
        "é€😀\x7f".encode(),
    ):
        assert accepts(language, good)
        json.loads(b'"' + good + b'"').encode()
    for bad in (rb"\ud83d", rb"\ude00", rb"\ud83dx", rb"\ud83d\u0041", rb"\ud83d\ud83d\ude00", rb"\x", rb"\u00g0"):
        assert not accepts(language, bad)
    assert not accepts(language, b"\n")
    assert closed(language) == language.concat(Dfa.literal(b'"', BYTES))
    rng = random.Random(3)
    for _ in range(200):
        assert accepts(language, body(random_text(rng)))
        assert accepts(language, json.dumps(random_text(rng))[1:-1].encode())


def test_lengths_count_code_points() -> None:
    language = string_body(length_language(2, 3))
    for text, expected in {"a": False, "😀é": True, "abc": True, "\n\\😀": True, "abcd": False, "": False}.items():
        assert accepts(language, body(text)) == expected
    assert length_language(3, None).accepts("abcdef")
    assert length_language(3, 2).is_empty


def test_lengths_are_paid_for_before_they_are_built() -> None:
    with pytest.raises(BudgetExceeded, match="regex states"):
        length_language(0, 10**9, Budget())
    with pytest.raises(BudgetExceeded, match="states"):
        string_body(length_language(0, 1000), Budget({"states": 500}))
