"""The byte table of GPT-2: each byte is written as one printable character.

Printable Latin-1 characters stand for themselves; the other 68 bytes, in order, are written as U+0100, U+0101, ...
(a space is U+0120). Source: Radford et al., gpt-2, encoder.py, and Hugging Face tokenizers, ByteLevel.
"""

from __future__ import annotations

_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = tuple(byte for byte in range(256) if byte not in set(_PRINTABLE))

#: character -> byte.
BYTE_OF_CHARACTER = {
    **{chr(byte): byte for byte in _PRINTABLE},
    **{chr(0x100 + index): byte for index, byte in enumerate(_OTHERS)},
}

# For str.translate: characters of the table become the Latin-1 character of their byte; Latin-1 characters outside
# the table become one that Latin-1 cannot encode. Then encoding fails exactly for pieces outside the table.
_TRANSLATION = {
    **dict.fromkeys(range(256), 0xFFFF),
    **{ord(character): byte for character, byte in BYTE_OF_CHARACTER.items()},
}


def bytes_of_piece(piece: str) -> bytes | None:
    """The bytes that `piece` writes, or None if a character is outside the table."""
    try:
        return piece.translate(_TRANSLATION).encode("latin-1")
    except UnicodeEncodeError:
        return None
