from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemac.errors import VocabularyError
from schemac.vocabulary import load_vocabulary

Write = Callable[..., Path]


def small(words: tuple[bytes, ...] = (b"order",), reserved: int = 4, **changes: Any) -> dict[str, Any]:
    tokens = [bytes([value]) for value in range(256)] + list(words)
    return {
        "config": {
            "pattern": ".",
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": reserved + len(tokens),
            "default_num_special_tokens": reserved,
            "version": "v11",
        },
        "vocab": [entry(rank, token) for rank, token in enumerate(tokens)],
        "special_tokens": [
            {"rank": rank, "token_str": text, "is_control": True} for rank, text in enumerate(["<unk>", "<s>", "</s>"])
        ],
        **changes,
    }


def entry(rank: int, token: bytes) -> dict[str, Any]:
    return {
        "rank": rank,
        "token_bytes": base64.b64encode(token).decode(),
        "token_str": token.decode("utf-8", "replace"),
    }


def test_small(write_json: Write) -> None:
    vocabulary = load_vocabulary(write_json(small(), "tekken.json"))
    assert vocabulary.size == 261
    assert vocabulary.tokens[:4] == (None,) * 4
    assert vocabulary.tokens[4] == b"\0"
    assert vocabulary.tokens[260] == b"order"
    assert dict(vocabulary.special) == {"<unk>": 0, "<s>": 1, "</s>": 2, "<SPECIAL_3>": 3}
    assert vocabulary.stop_ids == (2,)


def test_early_files_name_no_special_tokens(write_json: Write) -> None:
    vocabulary = load_vocabulary(write_json(small(reserved=30, special_tokens=None)))
    assert vocabulary.special["[TOOL_CALLS]"] == 9
    assert vocabulary.special["<SPECIAL_20>"] == 20
    assert vocabulary.stop_ids == (2,)


def test_ranks_past_the_model_are_not_part_of_it(write_json: Write) -> None:
    data = small((b"order", b"items"))
    data["config"]["default_vocab_size"] -= 1
    vocabulary = load_vocabulary(write_json(data))
    assert vocabulary.size == 261
    assert vocabulary.ids_of(b"items") == ()


def test_a_model_may_be_larger_and_have_more_stop_ids(write_json: Write) -> None:
    write_json({"vocab_size": 300, "eos_token_id": 2}, "config.json")
    write_json({"eos_token_id": [2, 3]}, "generation_config.json")
    # A Hugging Face description beside it calls some ids otherwise, and does not count.
    write_json({"eos_token": "<end>", "added_tokens_decoder": {"3": {"content": "<end>"}}}, "tokenizer_config.json")
    vocabulary = load_vocabulary(write_json(small(), "tekken.json"))
    assert vocabulary.size == 300
    assert vocabulary.stop_ids == (2, 3)


def test_broken(write_json: Write) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (small(vocab=small()["vocab"][:200]), "257 tokens are announced, 200 are there"),
        (small(vocab=[*small()["vocab"][:256], {"rank": 256}]), r"vocab\[256\]`: an object with rank and token_bytes"),
        (small(vocab=[*small()["vocab"][:256], 5]), r"vocab\[256\]`: an object with rank and token_bytes"),
        (small(vocab=[*small()["vocab"][:256], entry(300, b"x")]), "rank 256 is expected, not 300"),
        (small(vocab=[*small()["vocab"][:256], {**entry(256, b""), "token_bytes": "YQ"}]), "not base64"),
        (small((b"order", b"order")), "empty or comes twice"),
        (small((b"",)), "empty or comes twice"),
        (small(vocab=[entry(rank, bytes([65, rank % 256])) for rank in range(257)]), "not the single bytes in order"),
        (small(special_tokens=[{"rank": 0, "token_str": "<unk>"}]), "no special token </s>"),
        (small(special_tokens=[{"rank": 9, "token_str": "</s>"}]), r"9 is outside 0\.\.3"),
        (small(special_tokens=[{"rank": 0, "token_str": "</s>"}] * 2), "listed twice"),
        (small(special_tokens=[{"rank": 0, "token_str": text} for text in ("</s>", "x")]), "the same rank"),
        (small(special_tokens={}), "an array is expected, not an object"),
        (small(special_tokens=None), "fewer ids are reserved"),
        (small(config={"default_num_special_tokens": 4, "default_vocab_size": -1}), "outside"),
        (small(config={"default_num_special_tokens": 4, "default_vocab_size": 3}), "outside"),
        (small(config={"default_num_special_tokens": 4, "default_vocab_size": 1e9}), "an integer is expected"),
        (small(config={"default_num_special_tokens": 4, "default_vocab_size": 10**9}), "outside"),
    ]
    for data, message in cases:
        with pytest.raises(VocabularyError, match=message) as caught:
            load_vocabulary(write_json(data))
        assert "\n" not in str(caught.value)


def test_the_shipped_file_agrees_with_its_package() -> None:
    pytest.importorskip("mistral_common", reason="not run: needs mistral-common, the tekken extra")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer, is_tekken

    vocabulary = load_vocabulary("tekken")
    assert vocabulary.name == "tekken"
    assert vocabulary.size == 131_072
    assert vocabulary.missing_bytes() == ()

    import mistral_common

    folder = Path(mistral_common.__file__).parent / "data"
    path = max(path for path in folder.iterdir() if is_tekken(path))
    assert load_vocabulary(path) == vocabulary
    package = Tekkenizer.from_file(path)
    assert package.n_words == vocabulary.size
    assert vocabulary.stop_ids == (package.eos_id,)
    for token_id, token in enumerate(vocabulary.tokens):
        if token is None:
            assert package.is_special(token_id)
            assert vocabulary.special[package.id_to_piece(token_id)] == token_id
        else:
            assert package.id_to_byte_piece(token_id) == token
    for text in ('{"name": "Zürich", "n": [1, 2.5]}\n', "\t中文 😀 \x00\x7f"):
        ids = package.encode(text, bos=True, eos=True)
        assert vocabulary.decode(ids) == text.encode()
