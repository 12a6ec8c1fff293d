"""Every decoder is compared with the tokenizers package's own, for a piece in the middle of an output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemac.errors import VocabularyError
from schemac.vocabulary.byte_level import BYTE_OF_CHARACTER
from schemac.vocabulary.decoder import PieceDecoder, byte_of_fallback
from schemac.vocabulary.files import Reader

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FALLBACK = {"type": "ByteFallback"}
FUSE = {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
WORD_PIECE = {"type": "WordPiece", "prefix": "##", "cleanup": True}


def sequence(*members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": list(members)}


def read(decoder: Any) -> PieceDecoder:
    return PieceDecoder(decoder, Reader("tokenizer.json"))


DECODERS = {
    "byte level": BYTE_LEVEL,
    "byte level in a sequence": sequence(sequence(BYTE_LEVEL)),
    "byte level, then a replacement": sequence(BYTE_LEVEL, {**SPACE, "pattern": {"String": "#"}}),
    "llama": sequence(SPACE, FALLBACK, FUSE, STRIP),
    "gemma": sequence(SPACE, FALLBACK, FUSE),
    "replacement after fuse": sequence(FUSE, SPACE, STRIP),
    "replacement after bytes": sequence(FALLBACK, FUSE, {**SPACE, "pattern": {"String": "A"}}),
    "long replacement": sequence({**SPACE, "pattern": {"String": "<0x"}, "content": "[0y"}, FUSE),
    "metaspace": METASPACE,
    "metaspace, never prepended": {**METASPACE, "prepend_scheme": "never"},
    "metaspace, other mark": {**METASPACE, "replacement": "_"},
    "word pieces": WORD_PIECE,
    "word pieces as they are": {**WORD_PIECE, "cleanup": False},
    "word pieces, other prefix": {**WORD_PIECE, "prefix": "@@"},
    "word pieces, spaces replaced": sequence(WORD_PIECE, {**SPACE, "pattern": {"String": " "}, "content": "_"}),
}
PIECES = [
    *"a order ##er @@er ▁ ▁▁ ▁order or▁der _x <0x41> <0xe2> <0x0A> <0x4> <0xGG> ##. # [0y { } : don't".split(),
    *"Ġ Ġorder ĊĊ âĤ¬ é ├ 中文 . , ! ? ' n't 'm 's 've 're".split(),
    *("", " ", " .", "a b", "a ' b", "do not", "x do not y", " 's", "\n", "\u00ad", '"'),
]


def test_byte_table_is_a_bijection() -> None:
    assert sorted(BYTE_OF_CHARACTER.values()) == list(range(256))
    assert BYTE_OF_CHARACTER["Ġ"] == 0x20
    assert BYTE_OF_CHARACTER["Ċ"] == 0x0A
    assert BYTE_OF_CHARACTER["!"] == 0x21
    assert all(character.isprintable() for character in BYTE_OF_CHARACTER)


def test_byte_table_is_the_one_of_the_package() -> None:
    pre_tokenizers = pytest.importorskip("tokenizers", reason="not run: needs the tokenizers package").pre_tokenizers
    assert set(BYTE_OF_CHARACTER) == set(pre_tokenizers.ByteLevel.alphabet())


@pytest.mark.parametrize("name", DECODERS)
def test_agrees_with_the_package_in_the_middle_of_an_output(
    name: str, package_decoder: Callable[[Any], Callable[[list[str]], str]]
) -> None:
    ours, theirs = read(DECODERS[name]), package_decoder(DECODERS[name])
    assert theirs(["x", "x"])
    for piece in PIECES:
        data = ours(piece)
        framed = theirs(["x", piece, "x"])
        around = len(ours("x").decode())
        expected = framed[1 : len(framed) - around]
        assert data.decode("utf-8", "replace") == expected, (piece, framed)


@pytest.fixture(scope="module")
def package_decoder() -> Callable[[Any], Callable[[list[str]], str]]:
    """A decoder of the tokenizers package from its JSON form."""
    tokenizers = pytest.importorskip("tokenizers", reason="not run: needs the tokenizers package")

    def make(decoder: Any) -> Callable[[list[str]], str]:
        empty = json.loads(tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a")).to_str())
        loaded = tokenizers.Tokenizer.from_str(json.dumps({**empty, "decoder": decoder}))
        decode: Callable[[list[str]], str] = loaded.decoder.decode
        return decode

    return make


def test_no_decoder_joins_by_spaces() -> None:
    decoder = read(None)
    assert decoder("order") == b" order"
    assert decoder.spaced


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"type": "Rot13"}, "unknown type 'Rot13'"),
        ({"type": "BPEDecoder", "suffix": "</w>"}, "BPEDecoder cannot be used: it writes the last piece"),
        ({"type": "CTC", "pad_token": "<pad>"}, "CTC cannot be used"),
        (sequence(FUSE, {"type": "Rot13"}), "unknown type 'Rot13'"),
        (sequence(FUSE, METASPACE), "Metaspace cannot be used after pieces were joined"),
        (sequence(FUSE, FALLBACK), "ByteFallback cannot be used after"),
        (sequence(BYTE_LEVEL, WORD_PIECE), "WordPiece cannot be used after"),
        (sequence(FALLBACK, SPACE), "'▁' may span two pieces"),
        (sequence(FUSE, {**SPACE, "pattern": {"String": "ab"}}), "'ab' may span two pieces"),
        ({**SPACE, "pattern": {"Regex": "a+"}}, "only known with a plain text"),
        ({**SPACE, "pattern": {"String": ""}}, "only known with a plain text"),
        ({**SPACE, "content": 5}, "a string is expected, not a number"),
        (STRIP, "before Fuse"),
        (sequence(FUSE, {**STRIP, "stop": 1}), "cuts the end of the output"),
        ({**METASPACE, "replacement": "ab"}, "one character is expected"),
        ({"decoders": []}, "a string is expected, not null"),
        ("ByteLevel", "an object is expected, not a string"),
        ({"type": "Sequence"}, "an array is expected, not null"),
    ],
)
def test_refused(decoder: Any, message: str) -> None:
    with pytest.raises(VocabularyError, match=message) as caught:
        read(decoder)
    assert str(caught.value).startswith("tokenizer.json `decoder")
    assert "\n" not in str(caught.value)


def test_deeply_nested_sequences_need_no_recursion() -> None:
    decoder: dict[str, Any] = BYTE_LEVEL
    for _ in range(50_000):
        decoder = {"type": "Sequence", "decoders": [decoder]}
    assert read(decoder)("Ġ") == b" "
    while "decoders" in decoder:  # take it apart: freeing it in one go would recurse
        decoder = decoder["decoders"].pop()


@pytest.mark.parametrize("piece", ["<0x4>", "<0x041>", "<0xG0>", "<0x 4>", "<0x+4>", "0x41", "<0x41", "<0X41>"])
def test_not_a_fallback_piece(piece: str) -> None:
    assert byte_of_fallback(piece) is None
