from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemac.errors import VocabularyError
from schemac.vocabulary import from_transformers, load_vocabulary

REASON = "not run: needs the transformers package"
Trained = Callable[[str], dict[str, Any]]


@pytest.fixture
def fast(trained: Trained, tmp_path: Path) -> Callable[..., Any]:
    """A PreTrainedTokenizerFast over a trained tokenizer."""
    transformers = pytest.importorskip("transformers", reason=REASON)

    def make(kind: str, **options: Any) -> Any:
        path = tmp_path / f"{kind}.json"
        path.write_text(json.dumps(trained(kind)), encoding="utf-8")
        return transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), **options)

    return make


@pytest.mark.parametrize("kind", ["byte-level", "byte-fallback", "unigram", "wordpiece"])
def test_has_the_tokens_of_its_file(kind: str, fast: Callable[..., Any], tmp_path: Path) -> None:
    live = fast(kind)
    assert from_transformers(live).tokens == load_vocabulary(tmp_path / f"{kind}.json").tokens


def test_roles_added_tokens_and_size(fast: Callable[..., Any]) -> None:
    live = fast("byte-level", eos_token="<|end|>")
    size = len(live)
    live.add_tokens(["<tool>"])
    live.add_special_tokens({"pad_token": "<pad>"})
    vocabulary = from_transformers(live, size=size + 10)
    assert vocabulary.size == size + 10
    assert vocabulary.stop_ids == (live.eos_token_id,)
    assert vocabulary.tokens[live.convert_tokens_to_ids("<tool>")] == b"<tool>"
    assert vocabulary.tokens[live.convert_tokens_to_ids("<pad>")] is None
    assert vocabulary.special["<pad>"] == live.convert_tokens_to_ids("<pad>")
    assert from_transformers(live).size == size + 2


def test_saved_and_live_are_the_same(fast: Callable[..., Any], tmp_path: Path) -> None:
    live = fast("byte-level", eos_token="<|end|>")
    live.add_special_tokens({"additional_special_tokens": ["<tool>"]})
    live.save_pretrained(tmp_path / "saved")
    assert load_vocabulary(tmp_path / "saved") == from_transformers(live)


def test_mistral_common(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason=REASON)
    mistral_common = pytest.importorskip("mistral_common", reason="not run: needs mistral-common, the tekken extra")
    if not hasattr(transformers, "MistralCommonBackend"):
        pytest.skip("not run: this transformers release has no MistralCommonBackend")
    path = Path(mistral_common.__file__).parent / "data" / "mistral_instruct_tokenizer_241114.model.v7"
    live = transformers.MistralCommonBackend(path)
    assert from_transformers(live) == load_vocabulary(path)


def test_sentencepiece_backend(tmp_path: Path) -> None:
    reason = "not run: needs transformers with the SentencePiece backend, and mistral-common for a model"
    module = pytest.importorskip("transformers.tokenization_utils_sentencepiece", reason=reason)
    mistral_common = pytest.importorskip("mistral_common", reason=reason)
    path = Path(mistral_common.__file__).parent / "data" / "tokenizer.model.v1"
    live = module.SentencePieceBackend(vocab_file=str(path), eos_token="</s>", unk_token="<unk>", bos_token="<s>")
    assert from_transformers(live) == load_vocabulary(path)
    live.add_tokens(["<tool>"])
    vocabulary = from_transformers(live)
    assert vocabulary.tokens[-1] == b"<tool>"
    live.convert_ids_to_tokens = lambda ids: ["x"] * len(ids)  # a class with ids of its own
    with pytest.raises(VocabularyError, match="id 0 is 'x' to the tokenizer"):
        from_transformers(live)


def test_an_unknown_kind_is_named() -> None:
    class Homemade:
        pass

    with pytest.raises(VocabularyError, match="class Homemade is not of a known kind"):
        from_transformers(Homemade())
