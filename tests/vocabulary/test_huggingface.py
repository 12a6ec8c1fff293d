from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemac.errors import VocabularyError
from schemac.vocabulary import load_vocabulary

KINDS = ("byte-level", "byte-fallback", "unigram", "wordpiece")
Trained = Callable[[str], dict[str, Any]]
Write = Callable[..., Path]


def tiny(**changes: Any) -> dict[str, Any]:
    """A byte-level tokenizer.json of four pieces, written by hand; needs no package."""
    data: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added(3, "<end>", special=True)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {"a": 0, "Ġ": 1, "Ġa": 2}, "merges": ["Ġ a"]},
    }
    return {**data, **changes}


def added(token_id: int, text: str, *, special: bool) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": text, "special": special, **flags}


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optional packages cannot be imported."""
    original = builtins.__import__

    def refuse(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.partition(".")[0] in {"tokenizers", "sentencepiece", "transformers", "tiktoken"}:
            raise ImportError(name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_tiny(write_json: Write) -> None:
    vocabulary = load_vocabulary(write_json(tiny()))
    assert vocabulary.tokens == (b"a", b" ", b" a", None)
    assert dict(vocabulary.special) == {"<end>": 3}
    assert vocabulary.stop_ids == ()
    assert vocabulary.name == ""


@pytest.mark.parametrize("kind", KINDS)
def test_every_piece_is_what_the_package_decodes(kind: str, trained: Trained, write_json: Write) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="not run: needs the tokenizers package")
    path = write_json(trained(kind))
    vocabulary = load_vocabulary(path)
    package = tokenizers.Tokenizer.from_file(str(path))
    first = (vocabulary.ids_of(b"a") or vocabulary.ids_of(b" a"))[-1]  # the last: not the byte piece <0x61>
    before = package.decode([first])
    visible = 0
    for token_id, token in enumerate(vocabulary.tokens):
        if token is None:
            assert package.id_to_token(token_id) in vocabulary.special
            continue
        visible += 1
        decoded = package.decode([first, token_id], skip_special_tokens=False)
        assert token.decode("utf-8", "replace") == decoded.removeprefix(before)
    assert visible > 100


@pytest.mark.parametrize("kind", KINDS)
def test_encoded_texts_spell_themselves(kind: str, trained: Trained, write_json: Write) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="not run: needs the tokenizers package")
    path = write_json(trained(kind))
    vocabulary, package = load_vocabulary(path), tokenizers.Tokenizer.from_file(str(path))
    for text in ('{"name": "order"}', "the items of the order", "[1, -2.5, null]"):
        spelled = vocabulary.decode(package.encode(text).ids).decode()
        if kind == "wordpiece":
            assert spelled.replace(" ", "") == text.replace(" ", "")
        else:
            assert spelled.removeprefix(" ") == text


def test_byte_level_spells_every_byte(trained: Trained, write_json: Write) -> None:
    assert load_vocabulary(write_json(trained("byte-level"))).missing_bytes() == ()


def test_byte_fallback_pieces_are_bytes(trained: Trained, write_json: Write) -> None:
    data = trained("byte-fallback")
    vocabulary = load_vocabulary(write_json(data))
    assert vocabulary.missing_bytes() == ()
    assert vocabulary.tokens[data["model"]["vocab"]["<0xE2>"]] == b"\xe2"
    assert vocabulary.tokens[data["model"]["vocab"]["▁t"]] == b" t"
    assert vocabulary.tokens[data["model"]["vocab"]["<unk>"]] is None


def test_word_pieces(trained: Trained, write_json: Write) -> None:
    data = trained("wordpiece")
    vocabulary, pieces = load_vocabulary(write_json(data)), data["model"]["vocab"]
    continuation = next(piece for piece in pieces if piece.startswith("##") and piece[2:].isalpha())
    assert vocabulary.tokens[pieces[continuation]] == continuation[2:].encode()
    assert vocabulary.tokens[pieces["{"]] == b" {"
    assert vocabulary.tokens[pieces["."]] == b"."  # the decoder's cleanup takes the space before it away again
    assert vocabulary.tokens[pieces["[UNK]"]] is None


def test_added_tokens(write_json: Write) -> None:
    data = tiny(
        added_tokens=[
            added(3, "<end>", special=True),
            added(4, "<tool>", special=False),  # ordinary visible bytes
            added(5, "a b", special=False),  # outside the byte table: spelled as it is
            added(6, "\u00e9", special=False),  # inside the byte table: the decoder makes it one byte
        ]
    )
    vocabulary = load_vocabulary(write_json(data))
    assert vocabulary.tokens[3:] == (None, b"<tool>", b"a b", b"\xe9")
    assert vocabulary.named("<tool>") == (4,)
    assert list(vocabulary.special) == ["<end>"]


def test_a_piece_of_the_model_may_be_marked_special(write_json: Write) -> None:
    vocabulary = load_vocabulary(write_json(tiny(added_tokens=[added(2, "Ġa", special=True)])))
    assert vocabulary.tokens == (b"a", b" ", None)


def test_gaps_in_the_ids_are_padding(write_json: Write, no_packages: None) -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "Ġ": 4}, "merges": []}
    vocabulary = load_vocabulary(write_json(tiny(model=model, added_tokens=[added(7, "<x>", special=True)])))
    assert vocabulary.tokens == (b"a", None, None, None, b" ", None, None, None)


def test_ids_that_decode_to_the_replacement_character_all_survive(trained: Trained, write_json: Write) -> None:
    vocabulary = load_vocabulary(write_json(trained("byte-level")))
    replaced = [t for t in vocabulary.tokens if t is not None and t.decode("utf-8", "replace") == "\ufffd"]
    assert len(replaced) >= 128
    assert len(set(replaced)) == len(replaced)


def test_the_size_may_be_larger(write_json: Write) -> None:
    assert load_vocabulary(write_json(tiny()), size=64).tokens[4:] == (None,) * 60
    with pytest.raises(VocabularyError, match="too small"):
        load_vocabulary(write_json(tiny()), size=2)


def unigram(**changes: Any) -> dict[str, Any]:
    return {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]], **changes}


BROKEN = {
    "no decoder for bytes": (tiny(decoder=None), "the decoder does not read them back"),
    "bytes by normalizer": (
        tiny(decoder=None, pre_tokenizer=None, normalizer={"type": "ByteLevel"}),
        "the decoder does not read them back",
    ),
    "not byte level": (
        tiny(model={"type": "BPE", "vocab": {"a b": 0}, "merges": []}),
        "piece 'a b' of id 0 is not written in the byte table",
    ),
    "no byte fallback": (
        tiny(
            pre_tokenizer=None,
            decoder={"type": "Fuse"},
            model={"type": "BPE", "vocab": {"a": 0, "<0x41>": 1}, "merges": [], "byte_fallback": True},
        ),
        "falls back to <0xNN> pieces",
    ),
    "other prefix": (
        tiny(
            pre_tokenizer=None,
            decoder={"type": "WordPiece", "prefix": "@@", "cleanup": True},
            model={"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a", "continuing_subword_prefix": "##"},
        ),
        "marks continuation pieces by '##', the decoder by '@@'",
    ),
    "unknown decoder": (tiny(decoder={"type": "Rot13"}), "unknown type 'Rot13'"),
    "unknown model": (tiny(model={"type": "Magic", "vocab": {}}), "unknown type 'Magic'"),
    "same id": (tiny(model={"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}), "have the same id 0"),
    "negative id": (tiny(model={"type": "BPE", "vocab": {"a": -1}, "merges": []}), "not an integer in"),
    "huge id": (tiny(model={"type": "BPE", "vocab": {"a": 10**12}, "merges": []}), "not an integer in"),
    "id is a text": (tiny(model={"type": "BPE", "vocab": {"a": "0"}, "merges": []}), "not an integer in"),
    "id is true": (tiny(model={"type": "BPE", "vocab": {"a": True}, "merges": []}), "not an integer in"),
    "half a surrogate pair": (
        tiny(model={"type": "BPE", "vocab": {"\ud800": 0}, "merges": []}, decoder={"type": "Fuse"}, pre_tokenizer=None),
        "not Unicode text",
    ),
    "vocab of a wrong type": (tiny(model={"type": "BPE", "vocab": 5}), "an object is expected, not a number"),
    "unigram pair": (tiny(model=unigram(vocab=[["a"]])), "a pair of piece and score"),
    "unigram unknown": (tiny(model=unigram(unk_id=2)), r"2 is outside 0\.\.1"),
    "added id of a piece": (
        tiny(added_tokens=[added(0, "<end>", special=True)]),
        "id 0 is 'a' in the tokenizer and '<end>' as an added token",
    ),
    "added piece of another id": (tiny(added_tokens=[added(9, "a", special=True)]), "has id 9 here and id 0"),
    "added id missing": (tiny(added_tokens=[{"content": "x"}]), "an integer is expected, not null"),
    "added flag": (tiny(added_tokens=[{"id": 3, "content": "x", "special": 1}]), "true or false is expected"),
    "added tokens": (tiny(added_tokens={}), None),
    "added tokens of a wrong type": (tiny(added_tokens="x"), "an array is expected, not a string"),
    "no tokenizer": ({"hello": 1}, "not a tokenizer file of a known kind"),
    "not an object": ([1, 2], "a JSON object is expected, not an array"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str, write_json: Write, no_packages: None) -> None:
    data, message = BROKEN[name]
    path = write_json(data)
    if message is None:
        assert load_vocabulary(path).size == 3
        return
    with pytest.raises(VocabularyError, match=message) as caught:
        load_vocabulary(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_ids_that_the_package_would_give_otherwise_are_refused(write_json: Write) -> None:
    pytest.importorskip("tokenizers", reason="not run: needs the tokenizers package")
    with pytest.raises(VocabularyError, match=r"id 9 is '<x>' in the file and None when"):
        load_vocabulary(write_json(tiny(added_tokens=[added(9, "<x>", special=True)])))


def test_what_the_package_refuses_is_refused(write_json: Write) -> None:
    pytest.importorskip("tokenizers", reason="not run: needs the tokenizers package")
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}
    with pytest.raises(VocabularyError, match="the tokenizers package refuses this file"):
        load_vocabulary(write_json(tiny(model=model)))


@pytest.mark.parametrize(
    ("kind", "decoder"),
    [
        # Legal decoders, which do not belong to their vocabulary: the text that comes out is another.
        ("byte-fallback", {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}),
        ("unigram", {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}),
        ("unigram", {"type": "Fuse"}),
        ("unigram", None),
        ("wordpiece", {"type": "Fuse"}),
    ],
)
def test_self_check_refuses_a_foreign_decoder(kind: str, decoder: Any, trained: Trained, write_json: Write) -> None:
    with pytest.raises(VocabularyError, match="the tokenizer contradicts itself"):
        load_vocabulary(write_json({**trained(kind), "decoder": decoder}))


def test_padding_and_truncation_settings_do_not_disturb_the_check(trained: Trained, write_json: Write) -> None:
    data = trained("byte-level")
    data["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    data["padding"] = {
        "strategy": {"Fixed": 64},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<|end|>",
    }
    assert load_vocabulary(write_json(data)).tokens == load_vocabulary(write_json(trained("byte-level"))).tokens


@pytest.mark.parametrize("kind", KINDS)
def test_the_package_is_not_needed(kind: str, trained: Trained, write_json: Write, request: Any) -> None:
    path = write_json(trained(kind))
    checked = load_vocabulary(path)
    request.getfixturevalue("no_packages")
    assert load_vocabulary(path) == checked


def test_damaged_json(tmp_path: Path) -> None:
    text = json.dumps(tiny())
    path = tmp_path / "tokenizer.json"
    for damaged in (text[: len(text) // 2], "", "{", text + "x", "[" * 100_000, '{"model": ' + "9" * 10_000 + "}"):
        path.write_text(damaged)
        with pytest.raises(VocabularyError, match=r"not valid JSON|nested too deeply") as caught:
            load_vocabulary(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(b'{"a": "\xff\xfe"}')
    with pytest.raises(VocabularyError, match="not UTF-8"):
        load_vocabulary(path)
