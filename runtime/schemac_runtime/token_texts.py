"""Facts about the bytes of all tokens, worked out once for a vocabulary."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

Bool = npt.NDArray[np.bool_]
#: Vocabularies whose facts are kept; a server has one.
_KEPT = 4
_RECENT: list[TokenTexts] = []


class TokenTexts:
    """The tokens of a vocabulary: token t is the bytes ``start[t]..start[t + 1]``.

    Args:
        start: int32 [V + 1].
        data: uint8.
    """

    def __init__(self, start: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> None:
        self._start = start
        self._bytes = data

    @staticmethod
    def shared(start: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> TokenTexts:
        """One for equal tokens, whatever program they come with."""
        for known in _RECENT:
            if np.array_equal(known._start, start) and np.array_equal(known._bytes, data):
                return known
        # A copy: arrays of a package would keep its file open.
        made = TokenTexts(start.copy(), data.copy())
        _RECENT.insert(0, made)
        del _RECENT[_KEPT:]
        return made

    @cached_property
    def text(self) -> bytes:
        """All bytes."""
        return self._bytes.tobytes()

    @cached_property
    def starts(self) -> list[int]:
        """Where in `text` each token begins, and one more."""
        found: list[int] = self._start.tolist()
        return found

    def having(self, byte: int) -> npt.NDArray[np.int32]:
        """int32 [V]: how often each token has a byte."""
        found = self._having.get(byte)
        if found is None:
            found = self._having[byte] = self._counted(self._bytes == byte)
        return found

    @cached_property
    def _having(self) -> dict[int, npt.NDArray[np.int32]]:
        return {}

    def _counted(self, where: Bool) -> npt.NDArray[np.int32]:
        total = np.concatenate([np.zeros(1, np.int32), np.cumsum(where, dtype=np.int32)])
        counts: npt.NDArray[np.int32] = np.diff(total[self._start])
        return counts

    @cached_property
    def characters(self) -> npt.NDArray[np.int32]:
        """int32 [V]: how many characters begin in each token (RFC 3629, section 3)."""
        return self._counted(self._bytes & 0xC0 != 0x80)

    @cached_property
    def plain(self) -> bytes:
        """[V]: 1 for tokens that cannot begin or end anything in JSON text: no quotation mark, backslash, bracket,
        brace, colon, comma, whitespace.
        """
        special = np.isin(self._bytes, np.frombuffer(b'"\\[]{}:, \t\n\r', dtype=np.uint8))
        empty = np.diff(self._start) == 0
        flags: bytes = ((self._counted(special) == 0) & ~empty).astype(np.uint8).tobytes()
        return flags

    @cached_property
    def quoted(self) -> Bool:
        """bool [V]: tokens with a quotation mark or a backslash."""
        return (self.having(0x22) > 0) | (self.having(0x5C) > 0)

    @cached_property
    def unquoted(self) -> bytes:
        """[V]: 1 for tokens with bytes, but without quotation mark and backslash."""
        flags: bytes = (~self.quoted & (np.diff(self._start) > 0)).astype(np.uint8).tobytes()
        return flags

    @cached_property
    def whole_keys(self) -> Bool:
        """bool [V]: tokens in which a member could begin and its key end: a comma or brace, two quotation marks."""
        opens = (self.having(0x2C) > 0) | (self.having(0x7B) > 0)
        return opens & (self.having(0x22) >= 2)

    @cached_property
    def by_key_end(self) -> dict[bytes, list[int]]:
        """What stands before the first quotation mark -> the tokens with one."""
        found: dict[bytes, list[int]] = {}
        for token in np.flatnonzero(self.having(0x22)).tolist():
            piece = self.text[self.starts[token] : self.starts[token + 1]]
            found.setdefault(piece[: piece.index(b'"')], []).append(token)
        return found
