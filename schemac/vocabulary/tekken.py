"""Mistral's ``tekken.json``: byte tokens in base64 by rank, after a block of special tokens.

Ids 0 .. default_num_special_tokens - 1 are special; the token of rank r has id r + default_num_special_tokens. The
file holds more ranks than the model has; those past default_vocab_size are not part of the vocabulary.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Any

from schemac.vocabulary.draft import Draft
from schemac.vocabulary.files import Reader
from schemac.vocabulary.trie import MAX_SIZE

#: What files before format version v11 leave out: the special tokens by id.
_EARLY_SPECIAL = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS]"
    " [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
).split()
_END = "</s>"


def is_tekken(data: dict[str, Any]) -> bool:
    """Whether a JSON object looks like a tekken file rather than a Hugging Face one."""
    config = data.get("config")
    return isinstance(data.get("vocab"), list) and isinstance(config, dict) and "default_num_special_tokens" in config


def parse_tekken(data: dict[str, Any], place: str) -> Draft:
    """The draft of the JSON object of a tekken file. The stop id is the one of ``</s>``.

    Raises:
        VocabularyError: a field is missing or of another type, or the tokens are inconsistent.
    """
    read = Reader(place)
    config = read.mapping(data.get("config"), "config")
    size = read.integer(config.get("default_vocab_size"), "config.default_vocab_size", MAX_SIZE)
    reserved = read.integer(config.get("default_num_special_tokens"), "config.default_num_special_tokens", size)
    ranks = read.array(data.get("vocab"), "vocab")
    count = size - reserved
    if len(ranks) < count:
        raise read.fail(
            f"{count} tokens are announced, {len(ranks)} are there", "vocab", "the file is damaged or cut short"
        )
    special = _special_tokens(data, reserved, read)
    tokens = _byte_tokens(ranks[:count], read)
    if _END not in special:
        raise read.fail(f"there is no special token {_END}", "special_tokens")
    texts = {token_id: text for text, token_id in special.items()}
    return Draft(place, [*([None] * reserved), *tokens], set(texts), {special[_END]}, texts)


def _special_tokens(data: dict[str, Any], reserved: int, read: Reader) -> dict[str, int]:
    listed = data.get("special_tokens")
    if listed is None:
        if len(_EARLY_SPECIAL) > reserved:
            raise read.fail("fewer ids are reserved than there are special tokens", "config.default_num_special_tokens")
        special = {text: token_id for token_id, text in enumerate(_EARLY_SPECIAL)}
    else:
        special = {}
        for index, entry in enumerate(read.array(listed, "special_tokens")):
            where = f"special_tokens[{index}]"
            fields = read.mapping(entry, where)
            text = read.text(fields.get("token_str"), f"{where}.token_str")
            if text in special:
                raise read.fail(f"{text!r} is listed twice", where)
            special[text] = read.integer(fields.get("rank"), f"{where}.rank", reserved - 1)
        if len(set(special.values())) != len(special):
            raise read.fail("two special tokens have the same rank", "special_tokens")
    named = set(special.values())
    # The reserved ids without a name of their own are called so by the format.
    for token_id in range(reserved):
        if token_id not in named:
            special.setdefault(f"<SPECIAL_{token_id}>", token_id)
    return special


def _byte_tokens(ranks: list[Any], read: Reader) -> list[bytes]:
    tokens: list[bytes] = []
    try:
        for rank, entry in enumerate(ranks):
            if entry["rank"] != rank:
                raise read.fail(f"rank {rank} is expected, not {entry['rank']!r}", f"vocab[{rank}].rank")
            tokens.append(a2b_base64(entry["token_bytes"]))
    except (KeyError, TypeError):
        raise read.fail("an object with rank and token_bytes is expected", f"vocab[{len(tokens)}]") from None
    except (Base64Error, ValueError) as error:
        raise read.fail(f"not base64: {error}", f"vocab[{len(tokens)}].token_bytes") from None
    # Self-check: the format starts with the single bytes in order, so that every text can be spelled.
    if tokens[:256] != [bytes([value]) for value in range(256)]:
        raise read.fail("the first 256 ranks are not the single bytes in order", "vocab")
    if len(set(tokens)) != len(tokens) or b"" in tokens:
        raise read.fail("a token is empty or comes twice", "vocab")
    return tokens
