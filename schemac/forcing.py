"""Forced text: what must come next whatever a model says, and the tokens that a tokenizer has for it.

A run of forced tokens (`Matcher.forced_tokens`) ends where two tokens spell the same text: `":` or `"` and `:`. Forced
text goes on for as long as one byte is possible, and is then cut into tokens as the tokenizer would cut it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from schemac.vocabulary import Vocabulary
from schemac_runtime import allocate_bitmask, unpack
from schemac_runtime.matcher import Matcher


def forced_text(matcher: Matcher, vocabulary: Vocabulary, limit: int = 4_096) -> bytes:
    """The bytes that must come next, as far as there is no choice; the matcher stays where it is.

    Args:
        matcher: of a program for this vocabulary. Every byte that is forced must have a token of its own; the text ends
            before one that has none.
        vocabulary: its tokens.
        limit: the most bytes.
    """
    probe = matcher.fork()
    mask = allocate_bitmask(1, probe.program.vocab_size)
    text = bytearray()
    while len(text) < limit and not probe.is_complete():
        probe.fill_bitmask(mask)
        pieces = [vocabulary.tokens[token] for token in np.flatnonzero(unpack(mask, probe.program.vocab_size)[0])]
        spelled = [piece for piece in pieces if piece is not None]
        if not spelled or len(spelled) < len(pieces):  # a special token may come
            break
        shared = _common_prefix(min(spelled), max(spelled))  # what these two share, all share
        if not shared or not all(_accept_byte(probe, vocabulary, byte) for byte in shared):
            break
        text += shared
    return bytes(text[:limit])


def _common_prefix(one: bytes, other: bytes) -> bytes:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]


def _accept_byte(matcher: Matcher, vocabulary: Vocabulary, byte: int) -> bool:
    return any(matcher.accept(token) for token in vocabulary.ids_of(bytes((byte,))))


def canonical_forced_tokens(
    matcher: Matcher, vocabulary: Vocabulary, encode: Callable[[str], Sequence[int]], limit: int = 4_096
) -> list[int]:
    """The tokens of the forced text as the tokenizer cuts it, as far as what follows cannot change them.

    The last token is left to the model, unless the text ends there: the tokenizer might have joined it with what comes
    next.

    Args:
        matcher: stays where it is.
        vocabulary: its tokens.
        encode: the tokenizer, without tokens that begin or end a text.
        limit: the most bytes to look ahead.

    Returns:
        Ids that the matcher accepts in a row; none where the tokenizer does not spell the forced text itself (one that
        puts a space before it, say).
    """
    text = forced_text(matcher, vocabulary, limit)
    while text:
        try:
            ids = list(encode(text.decode("utf-8")))
            break
        except UnicodeDecodeError as error:  # a character that has only begun
            text = text[: error.start]
    else:
        return []
    if vocabulary.decode(ids) != text:
        return []
    probe = matcher.fork()
    if not (probe.accept_all(ids) and probe.is_complete()):
        ids = ids[:-1]
    return ids[: matcher.validate(ids)]
