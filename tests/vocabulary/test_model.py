from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemac.errors import VocabularyError
from schemac.vocabulary import TokenTrie, Vocabulary
from schemac.vocabulary.trie import MAX_SIZE, MAX_TOKEN_BYTES, build_trie


def prefix_of(trie: TokenTrie, node: int) -> bytes:
    found = bytearray()
    while node:
        found.append(trie.byte[node])
        node = int(trie.parent[node])
    return bytes(reversed(found))


def check_trie(tokens: list[bytes | None]) -> None:
    trie = build_trie(tokens)
    prefixes = [prefix_of(trie, node) for node in range(trie.nodes)]
    expected = {b""} | {token[:end] for token in tokens if token for end in range(1, len(token) + 1)}
    assert sorted(prefixes, key=lambda prefix: (len(prefix), prefix)) == prefixes, "by depth, then by bytes"
    assert set(prefixes) == expected
    assert len(prefixes) == len(expected)
    for token_id, token in enumerate(tokens):
        node = int(trie.node_of_token[token_id])
        assert node == -1 if not token else prefixes[node] == token
    assert trie.level_start[0] == 0
    assert trie.level_start[-1] == trie.nodes
    assert len(trie.level_start) == trie.depth + 2 == max(map(len, prefixes)) + 2
    for level in range(trie.depth + 1):
        assert {len(p) for p in prefixes[trie.level_start[level] : trie.level_start[level + 1]]} == {level}


def test_trie_of_the_docstring() -> None:
    trie = build_trie([b"a", b"ab", b"ac", None, b"b"])
    assert trie.byte.tolist() == [0, *b"abbc"]
    assert trie.parent.tolist() == [-1, 0, 0, 1, 1]
    assert trie.level_start.tolist() == [0, 1, 3, 5]
    assert trie.node_of_token.tolist() == [1, 3, 4, -1, 2]
    assert (trie.parent.dtype, trie.byte.dtype) == (np.int32, np.uint8)
    assert (trie.level_start.dtype, trie.node_of_token.dtype) == (np.int32, np.int32)


@pytest.mark.parametrize(
    "tokens",
    [[], [None], [b""], [b"", None, b"a", b"a", b""], [b"\0", b"\0\0", b"", b"a\0", b"a"], [b"\xff" * 300, b"\xff"]],
)
def test_trie_corner_cases(tokens: list[bytes | None]) -> None:
    check_trie(tokens)


@given(st.lists(st.none() | st.binary(max_size=5) | st.text("ab", max_size=6).map(str.encode)))
def test_trie_holds_exactly_the_prefixes(tokens: list[bytes | None]) -> None:
    check_trie(tokens)


def test_trie_is_built_once_and_read_only() -> None:
    vocabulary = Vocabulary((b"a", b"b"))
    assert vocabulary.trie is vocabulary.trie
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.trie.parent[0] = 5


def test_padding_is_never_allowed() -> None:
    vocabulary = Vocabulary((b"a", b"b"), size=5)
    assert vocabulary.tokens == (b"a", b"b", None, None, None)
    assert (vocabulary.size, len(vocabulary)) == (5, 5)
    assert vocabulary.trie.node_of_token.tolist() == [1, 2, -1, -1, -1]


def test_special_and_stop_ids_have_no_bytes() -> None:
    vocabulary = Vocabulary((b"a", b"<x>", b"b", b"\n"), {"<x>": 1}, (3, 2, 3))
    assert vocabulary.tokens == (b"a", None, None, None)
    assert vocabulary.stop_ids == (2, 3)


def test_ids_outside_are_refused() -> None:
    for arguments in (({"<x>": 2}, ()), ({}, (2,)), ({}, (-1,))):
        with pytest.raises(VocabularyError, match=r"outside 0\.\.1"):
            Vocabulary((b"a", b"b"), *arguments)
    with pytest.raises(VocabularyError, match="cannot hold 2 tokens"):
        Vocabulary((b"a", b"b"), size=1)
    with pytest.raises(VocabularyError, match="at most"):
        Vocabulary((b"a",), size=MAX_SIZE + 1)
    with pytest.raises(VocabularyError, match="too long"):
        Vocabulary((b"a" * (MAX_TOKEN_BYTES + 1),))


def test_with_size() -> None:
    vocabulary = Vocabulary((b"a", b"b", None, None), {"<end>": 2, "<pad>": 3}, (2, 3), name="small")
    wider = vocabulary.with_size(9)
    assert (wider.size, wider.tokens[4:], wider.name) == (9, (None,) * 5, "small")
    narrower = vocabulary.with_size(3)  # a model may have fewer logits than its tokenizer has ids
    assert (narrower.size, dict(narrower.special), narrower.stop_ids) == (3, {"<end>": 2}, (2,))
    assert vocabulary.with_size(4) is vocabulary
    with pytest.raises(VocabularyError, match="last token with bytes has id 1") as caught:
        vocabulary.with_size(1)
    assert caught.value.hint is not None
    for size in (0, -3, MAX_SIZE + 1):
        with pytest.raises(VocabularyError, match="outside"):
            vocabulary.with_size(size)


def test_with_stop_ids_replaces() -> None:
    vocabulary = Vocabulary((b"a", b"b", None), stop_ids=(2,)).with_stop_ids([1])
    assert vocabulary.stop_ids == (1,)
    assert vocabulary.tokens == (b"a", None, None)


def test_fingerprint_covers_everything_but_the_name() -> None:
    base = Vocabulary((b"a", b"bc", None, None), {"<x>": 3}, (3,))
    same = Vocabulary((b"a", b"bc"), {"<x>": 3}, (3,), size=4, name="called")
    assert base.fingerprint == same.fingerprint
    assert base == same
    assert hash(base) == hash(same)
    others = [
        Vocabulary((b"ab", b"c", None, None), {"<x>": 3}, (3,)),  # same bytes, cut elsewhere
        Vocabulary((b"a", b"bc", b"", None), {"<x>": 3}, (3,)),  # an empty token is not a missing one
        Vocabulary((b"a", b"bc", None, None), {"<y>": 3}, (3,)),
        Vocabulary((b"a", b"bc", None, None), {"<x>": 2}, (3,)),
        Vocabulary((b"a", b"bc", None, None), {"<x>": 3}, (2,)),
        Vocabulary((b"a", b"bc", None, None), {"<x>": 3}, (2, 3)),
        Vocabulary((b"a", b"bc", None, None), {}, (3,)),
        base.with_size(5),
    ]
    assert len({vocabulary.fingerprint for vocabulary in [base, *others]}) == len(others) + 1
    assert base != others[0]
    # Written down: a change of the layout would make every linked package look foreign.
    assert base.fingerprint == "8a6e24507f53e407e842bb58d850c362821f67325efd549654aca6dacee64e7a"


def test_survives_a_trip_to_another_process() -> None:
    vocabulary = Vocabulary((b"a", None), {"<end>": 1}, (1,), size=3, name="small")
    copy = pickle.loads(pickle.dumps(vocabulary))
    assert (copy, copy.name, copy.size) == (vocabulary, "small", 3)


def test_fingerprint_ignores_the_order_of_construction() -> None:
    names = {f"<{i}>": i for i in range(50)}
    shuffled = list(names.items())
    random.Random(1).shuffle(shuffled)
    one, other = Vocabulary((None,) * 50, names, (3, 1)), Vocabulary((None,) * 50, dict(shuffled), (1, 3))
    assert one.fingerprint == other.fingerprint
    assert list(one.special) == list(other.special) == list(names)


def test_decode() -> None:
    vocabulary = Vocabulary((b"\xe2\x82", b"\xac", None, b""))
    assert vocabulary.decode([0, 1, 2, 3]) == "€".encode()
    for token_id in (-1, 4):
        with pytest.raises(VocabularyError, match="outside"):
            vocabulary.decode([token_id])


def test_ids_with_the_same_bytes_or_replacement_character_survive() -> None:
    vocabulary = Vocabulary((b"\x80", b"\x81", b"\xef\xbf\xbd", b"\x80"))
    assert vocabulary.ids_of(b"\x80") == (0, 3)
    assert vocabulary.ids_of(b"\x81") == (1,)
    assert vocabulary.trie.node_of_token[0] == vocabulary.trie.node_of_token[3]
    assert len(set(vocabulary.trie.node_of_token.tolist())) == 3


def test_named_finds_special_tokens_and_ordinary_spellings() -> None:
    vocabulary = Vocabulary((b"a", b"<x>", None), {"<x>": 2})
    assert vocabulary.named("<x>") == (2, 1)
    assert vocabulary.named("a") == (0,)
    assert vocabulary.named("b") == ()


def test_missing_bytes() -> None:
    assert Vocabulary(tuple(bytes([value]) for value in range(256))).missing_bytes() == ()
    without = Vocabulary(tuple(bytes([value]) for value in range(256) if value not in (0, 0xC0)))
    assert without.missing_bytes() == (0, 0xC0)


def test_is_immutable_and_says_what_it_is() -> None:
    vocabulary = Vocabulary((b"a", None), {"<end>": 1}, (1,), name="small")
    with pytest.raises(AttributeError):
        vocabulary.size = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        vocabulary.special["x"] = 1  # type: ignore[index]
    assert repr(vocabulary) == "Vocabulary(small: 2 ids, 1 with bytes, 1 special, stop [1])"
