from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemac.errors import VocabularyError
from schemac.vocabulary import load_vocabulary
from schemac.vocabulary.sentencepiece import parse_sentencepiece

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def piece(text: str, kind: int | None = None) -> bytes:
    score = varint(2 << 3 | 5) + b"\0\0\x80\xbf"
    return message(1, message(1, text.encode()) + score + (b"" if kind is None else number_field(3, kind)))


TRAINER = message(2, number_field(3, 2))
HEAD = piece("<unk>", UNKNOWN) + piece("<s>", CONTROL) + piece("</s>", CONTROL)


def test_small() -> None:
    data = HEAD + piece("▁order") + piece("▁▁", USER_DEFINED) + piece("x", UNUSED) + piece("<0xE2>", BYTE) + TRAINER
    vocabulary = parse_sentencepiece(data, "a.model").vocabulary(None)
    assert vocabulary.tokens == (None, None, None, b" order", b"  ", None, b"\xe2")
    assert dict(vocabulary.special) == {"<unk>": 0, "<s>": 1, "</s>": 2}
    assert vocabulary.stop_ids == (2,)


def test_unknown_fields_are_skipped() -> None:
    extra = varint(99 << 3 | 1) + b"12345678" + message(200, b"x") + number_field(7, 1 << 63)
    data = message(1, message(1, b"a") + extra) + extra + TRAINER
    assert parse_sentencepiece(data, "a.model").tokens == [b"a"]


def test_the_end_piece_may_have_another_name() -> None:
    data = HEAD + piece("<eot>", CONTROL) + message(2, message(47, b"<eot>"))
    assert parse_sentencepiece(data, "a.model").stop_ids == {3}
    only_text = HEAD + piece("<eot>") + message(2, message(47, b"<eot>"))
    assert parse_sentencepiece(only_text, "a.model").stop_ids == set()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no pieces"),
        (TRAINER, "no pieces"),
        (HEAD, "no trainer settings"),
        (HEAD + TRAINER[:-1], "damaged at byte"),
        (HEAD[:-1], "damaged at byte"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "damaged at byte"),
        (b"\xff" * 20, "damaged at byte"),
        (b"\x0a\x80", "damaged at byte"),
        (b"\x00\x00", "damaged at byte"),
        (b"\x0b", "damaged at byte"),
        (number_field(1, 5), "is a number"),
        (message(1, b"") + TRAINER, "has no text"),
        (message(1, message(1, b"\xff")) + TRAINER, "is not UTF-8"),
        (piece("a", 9) + TRAINER, "unknown type 9"),
        (piece("<0xZZ>", BYTE) + TRAINER, "is not <0xNN>"),
        (piece("<0x41>", BYTE) + message(2, number_field(35, 1)), "1 of 256 byte pieces"),
        (piece("a") + message(2, number_field(24, 1)), "treat_whitespace_as_suffix"),
        (piece("a") + TRAINER + message(5, message(2, b"map")), "rewrites decoded text"),
    ],
)
def test_broken(data: bytes, reason: str) -> None:
    with pytest.raises(VocabularyError, match=reason) as caught:
        parse_sentencepiece(data, "a.model").vocabulary(None)
    assert str(caught.value).startswith("a.model: ")


def test_every_cut_is_noticed() -> None:
    data = HEAD + piece("▁order") + TRAINER
    for end in range(len(data)):
        with pytest.raises(VocabularyError):
            parse_sentencepiece(data[:end], "a.model")


@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda data: HEAD + data + TRAINER))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(VocabularyError):
        parse_sentencepiece(data, "a.model").vocabulary(None)


def train(**options: Any) -> bytes:
    spm = pytest.importorskip("sentencepiece", reason="not run: needs the sentencepiece package")
    out = io.BytesIO()
    lines = [
        "the order of 12 items",
        '{"name": "order", "items": [1, -2.5e3, true]}',
        "Zürich 中文 a_b-c/d=e;f<g>h",
    ] * 8
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, hard_vocab_limit=False, minloglevel=2, **options
    )
    return out.getvalue()


def compare(path: Path) -> None:
    """Every piece against the package's own decoder, in the middle of an output."""
    spm = pytest.importorskip("sentencepiece", reason="not run: needs the sentencepiece package")
    package = spm.SentencePieceProcessor(model_file=str(path))
    vocabulary = load_vocabulary(path)
    assert vocabulary.size == package.vocab_size()
    assert vocabulary.stop_ids == ((package.eos_id(),) if package.eos_id() >= 0 else ())
    first = package.piece_to_id("▁a") if package.piece_to_id("▁a") != package.unk_id() else package.piece_to_id("e")
    start = package.decode([first])
    for token_id, token in enumerate(vocabulary.tokens):
        is_text = not (package.is_control(token_id) or package.is_unknown(token_id) or package.is_unused(token_id))
        assert (token is not None) == is_text
        if token is not None:
            assert package.decode([first, token_id]) == start + token.decode("utf-8", "replace")
    for text in ('{"name": "order", "n": [1, 2.5]}', "the order"):
        ids = package.encode(text)
        if package.unk_id() not in ids:
            assert vocabulary.decode(ids).decode().removeprefix(" ") == text


@pytest.mark.parametrize(
    "options",
    [
        {"model_type": "bpe", "vocab_size": 400, "byte_fallback": True},
        {"model_type": "unigram", "vocab_size": 80},
        {"model_type": "unigram", "vocab_size": 90, "user_defined_symbols": ["<tool>", "▁▁▁"], "eos_piece": "<end>"},
        {"model_type": "bpe", "vocab_size": 90, "control_symbols": ["<x>"], "add_dummy_prefix": False},
        {"model_type": "bpe", "vocab_size": 90, "eos_id": -1, "pad_id": 3},
        {
            "model_type": "bpe",
            "vocab_size": 90,
            "remove_extra_whitespaces": False,
            "normalization_rule_name": "identity",
        },
    ],
)
def test_trained_models_agree_with_the_package(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    path.write_bytes(train(**options))
    compare(path)


def test_space_at_the_end_of_pieces_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    path.write_bytes(train(model_type="unigram", vocab_size=80, treat_whitespace_as_suffix=True))
    with pytest.raises(VocabularyError, match="treat_whitespace_as_suffix"):
        load_vocabulary(path)


def test_the_package_check_refuses_other_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.model"
    path.write_bytes(train(model_type="bpe", vocab_size=400, byte_fallback=True))
    monkeypatch.setattr("schemac.vocabulary.sentencepiece._SPACE", "e")
    with pytest.raises(VocabularyError, match="the tokenizer contradicts itself"):
        load_vocabulary(path)


def shipped() -> list[Path]:
    try:
        import mistral_common
    except ImportError:
        return []
    return sorted((Path(mistral_common.__file__).parent / "data").glob("*.model.v*"))


@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.name)
def test_shipped_models_agree_with_the_package(path: Path) -> None:
    compare(path)


def test_by_name() -> None:
    if not shipped():
        pytest.skip("not run: needs mistral-common, the tekken extra")
    vocabulary = load_vocabulary("mistral-spm")
    assert (vocabulary.name, vocabulary.size, vocabulary.stop_ids) == ("mistral-spm", 32_768, (2,))
    assert vocabulary.missing_bytes() == ()
    assert vocabulary == load_vocabulary(next(path for path in shipped() if path.suffix == ".v7"))


def test_folder_with_added_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(HEAD + piece("a") + TRAINER)
    (tmp_path / "added_tokens.json").write_text('{"<tool>": 4, "<end>": 5}')
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": {"content": "<end>"}}')
    (tmp_path / "config.json").write_text('{"vocab_size": 8, "eos_token_id": 2}')
    vocabulary = load_vocabulary(tmp_path)
    assert vocabulary.tokens == (None, None, None, b"a", b"<tool>", None, None, None)
    assert vocabulary.stop_ids == (2, 5)
