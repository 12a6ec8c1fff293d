"""Small tokenizers, trained in a second on a few lines, in the formats and with the decoders that real ones use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CORPUS = [
    "the order of 12 items and the name of the customer",
    '{"name": "order", "items": [1, -2.5e3, true, null], "total": 99.95}',
    '{\n  "address": {"street": "Main Street 5", "city": "Zürich"},\n\t"open": false\n}',
    "a_b-c/d=e;f<g>h (x + y) * z ! ? . , ' it's don't",
    "Журнал 中文 日本語 한국 naïve café ß €",
    "aaaa bbbb cccc dddd  two  spaces   three",
]


@pytest.fixture(scope="session")
def trained() -> Callable[[str], dict[str, Any]]:
    """By kind, the JSON object of a trained ``tokenizer.json``; a fresh copy per call."""
    tk = pytest.importorskip("tokenizers", reason="not run: needs the tokenizers package")
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    cache: dict[str, str] = {}
    every_byte = [f"<0x{value:02X}>" for value in range(256)]

    def make(kind: str) -> Any:
        if kind == "byte-level":
            made = tk.Tokenizer(models.BPE())
            made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            made.decoder = decoders.ByteLevel()
            trainer = trainers.BpeTrainer(
                vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|end|>"]
            )
        elif kind == "byte-fallback":
            made = tk.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
            made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
            made.decoder = decoders.Sequence(
                [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
            )
            trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", "</s>", *every_byte])
        elif kind == "unigram":
            made = tk.Tokenizer(models.Unigram())
            made.pre_tokenizer = pre_tokenizers.Metaspace()
            made.decoder = decoders.Metaspace()
            trainer = trainers.UnigramTrainer(vocab_size=250, special_tokens=["<unk>", "</s>"], unk_token="<unk>")
        elif kind == "wordpiece":
            made = tk.Tokenizer(models.WordPiece(unk_token="[UNK]"))
            made.normalizer = normalizers.BertNormalizer(lowercase=True)
            made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            made.decoder = decoders.WordPiece()
            trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
        else:
            raise ValueError(kind)
        made.train_from_iterator(CORPUS, trainer)
        data = json.loads(made.to_str())
        if kind == "byte-fallback":  # the trainer lists them as special; in real files they are plain pieces
            data["added_tokens"] = [entry for entry in data["added_tokens"] if entry["content"] not in every_byte]
        return data

    def get(kind: str) -> dict[str, Any]:
        if kind not in cache:
            cache[kind] = json.dumps(make(kind))
        loaded: dict[str, Any] = json.loads(cache[kind])
        return loaded

    return get


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[..., Path]:
    """Write an object as JSON into the test's folder; returns the path."""

    def write(data: Any, name: str = "tokenizer.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(data), encoding="utf-8")
        return path

    return write
