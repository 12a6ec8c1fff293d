"""tiktoken rank files: one line per token, base64 of its bytes, a space, its id.

The format holds no special tokens; those come from the files beside it or are given by name.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64

from schemac.vocabulary.draft import Draft
from schemac.vocabulary.files import Reader
from schemac.vocabulary.trie import MAX_SIZE


def is_tiktoken(data: bytes) -> bool:
    """Whether the first line of a file is base64 and a number."""
    fields = data[:4096].split(b"\n", 1)[0].split()
    if len(fields) != 2 or not fields[1].isdigit():
        return False
    try:
        return bool(a2b_base64(fields[0]))
    except Base64Error:
        return False


def parse_tiktoken(data: bytes, place: str) -> Draft:
    """The draft of a rank file.

    Raises:
        VocabularyError: a line is damaged, a token or an id comes twice, or one of the 256 single bytes is missing,
            without which tiktoken's encoding is not defined.
    """
    read = Reader(place)
    by_id: dict[int, bytes] = {}
    number = 0
    try:
        for number, line in enumerate(data.split(b"\n"), start=1):
            if not line or line.isspace():
                continue
            text, rank = line.split()
            token_id = int(rank) if len(rank) < 10 and rank.isdigit() else -1
            if not 0 <= token_id < MAX_SIZE:
                raise read.fail(f"line {number}: the id {rank[:20]!r} is not in 0..{MAX_SIZE - 1}")
            if token_id in by_id:
                raise read.fail(f"line {number}: the id {token_id} comes twice")
            by_id[token_id] = a2b_base64(text)
    except (Base64Error, ValueError):
        raise read.fail(
            f"line {number} is not base64, a space and a number",
            hint="the file is damaged or cut short, or not a tiktoken rank file",
        ) from None
    found = set(by_id.values())
    if len(found) != len(by_id) or b"" in found:
        raise read.fail("a token is empty or comes twice")
    lacking = [value for value in range(256) if bytes([value]) not in found]
    if lacking:
        raise read.fail(
            f"{len(lacking)} single bytes have no token, the first is 0x{lacking[0]:02x}",
            hint="the file is damaged or cut short",
        )
    tokens: list[bytes | None] = [None] * (max(by_id) + 1)
    for token_id, token in by_id.items():
        tokens[token_id] = token
    return Draft(place, tokens)
