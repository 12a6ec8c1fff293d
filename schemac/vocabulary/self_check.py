"""Does the table agree with the tokenizer's own encoder and decoder? Asked at load, where the two are at hand.

A table that is wrong in one byte gives masks that are wrong in silence, so that a tokenizer whose files contradict
each other is refused instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schemac.errors import VocabularyError
from schemac.vocabulary.model import Vocabulary

#: Texts that no usual normalizer changes: lower-case ASCII, single spaces inside.
_PLAIN = (
    "the order of 12 items",
    '{"name": "order", "items": [1, -2.5e3, true, null]}',
    "a_b-c/d=e;f<g>h",
    "qzxvwj kpbfgy 907",
)
#: Texts that a normalizer may change; the package's own decoder says what they become.
_RICH = (
    'x = {"Key":\t"Value",\n\n    "list": [ ]}\n',
    "na\u00efve caf\u00e9 \u00df \u0416\u0443\u0440\u043d\u0430\u043b \u4e2d\u6587 \u65e5\u672c\u8a9e \ud55c\uad6d",
    "\U0001f600\U0001f468\u200d\U0001f469 \u2192 \u20ac 10,00 \\u0041 \\n it's .",
)


def self_check(
    vocabulary: Vocabulary,
    encode: Callable[[str], Sequence[int] | None],
    decode: Callable[[list[int]], str],
    *,
    spaced: bool,
    place: str,
) -> None:
    """Compare with the tokenizer's own encoder and decoder on sample texts.

    A sample that the vocabulary cannot spell (with an unknown-token or a special id in it, or with characters that
    have no token) shows nothing and is left out. One space at the start is free: see `decoder`.

    Args:
        vocabulary: the table.
        encode: text to ids, without special tokens around; None if it cannot.
        decode: ids to text.
        spaced: the decoder puts spaces between pieces, so that the spaces of a text do not count.
        place: the file, for messages.

    Raises:
        VocabularyError: bytes and text differ.
    """
    missing = set(vocabulary.missing_bytes())
    for sample in (*_PLAIN, *_RICH):
        ids = encode(sample)
        if ids is None or not all(0 <= token_id < vocabulary.size for token_id in ids):
            continue
        if any(vocabulary.tokens[token_id] is None for token_id in ids):
            continue
        if any(not _spelled(vocabulary, character, missing) for character in sample if character != " "):
            continue
        ours = vocabulary.decode(ids).decode("utf-8", "replace")
        theirs = decode(list(ids))
        if ours not in (theirs, " " + theirs):
            raise _inconsistent(place, sample, ours, theirs, "decoder")
        if sample in _PLAIN:
            expected = sample
            if spaced:
                ours, expected = ours.replace(" ", ""), sample.replace(" ", "")
            if ours not in (expected, " " + expected):
                raise _inconsistent(place, sample, ours, expected, "text")


def _spelled(vocabulary: Vocabulary, character: str, missing: set[int]) -> bool:
    data = character.encode("utf-8")
    return missing.isdisjoint(data) or any(vocabulary.ids_of(form) for form in (data, b" " + data))


def _inconsistent(place: str, sample: str, ours: str, expected: str, what: str) -> VocabularyError:
    at = next(
        (i for i, (a, b) in enumerate(zip(ours, expected, strict=False)) if a != b), min(len(ours), len(expected))
    )
    return VocabularyError(
        f"the tokenizer contradicts itself: the tokens of {sample!r} spell {ours[at : at + 12]!r} at character {at},"
        f" its {what} has {expected[at : at + 12]!r}",
        place=place,
        hint="check that the tokenizer's decoder belongs to its vocabulary",
    )
