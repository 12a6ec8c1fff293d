"""Facts about the bytes of all tokens, worked out once for a vocabulary."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from schemac_runtime.program import UNREACHABLE

Bool = npt.NDArray[np.bool_]
#: Vocabularies whose facts are kept; a server has one.
_KEPT = 4
#: A member that begins: the first two bytes of its key. A key from its comma or brace to its closing mark. An escape,
#: then the end of a string.
_KEY_BEGINS = re.compile(rb'[,{][ \t\n\r]*(?=("[^"\\]|""|"\\))')
_WHOLE_KEY = re.compile(rb'[,{][ \t\n\r]*"(?:[^"\\]|\\.)*"', re.DOTALL)
_NEXT_ITEM = re.compile(rb',[ \t\n\r]*(?:"[^"]*"|[tfn]|[^ \t\n\r"].*[,\]}\s])', re.DOTALL)
_BEFORE_END = re.compile(rb'([-+.0-9A-Za-z]*)[ \t\n\r,\]]')
_SPACED_BEFORE_END = re.compile(rb'([ \t\n\r]+[-+.0-9A-Za-z]+)[ \t\n\r,\]]')
_SPACES_BEFORE = re.compile(rb'[ \t\n\r]+(?=["0-9tfn-])')
_ENDING_STRING = re.compile(rb'"[^,\]}]*[,\]}]')
_POWER_OF_ZERO = re.compile(rb"(?:\A\s*-?[0.]*|[^0-9.]-?0(?:\.0*)?)[eE](?![A-Za-z])")
_ESCAPED_END = re.compile(rb'(?:[^"\\]|\\.)*\\.(?:[^"\\]|\\.)*"', re.DOTALL)
_RECENT: list[TokenTexts] = []
#: Texts whose numbers of tokens are remembered.
_SPELLED = 100_000


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
            found = self._having[byte] = self.counted(self._bytes == byte)
        return found

    @cached_property
    def _having(self) -> dict[int, npt.NDArray[np.int32]]:
        return {}

    def counted(self, where: Bool) -> npt.NDArray[np.int32]:
        """int32 [V]: how many of some bytes, bool [bytes], each token has."""
        total = np.concatenate([np.zeros(1, np.int32), np.cumsum(where, dtype=np.int32)])
        counts: npt.NDArray[np.int32] = np.diff(total[self._start])
        return counts

    @cached_property
    def characters(self) -> npt.NDArray[np.int32]:
        """int32 [V]: how many characters begin in each token (RFC 3629, section 3)."""
        return self.counted(self._bytes & 0xC0 != 0x80)

    @cached_property
    def plain(self) -> bytes:
        """[V]: 1 for tokens that cannot begin or end anything in JSON text: no quotation mark, backslash, bracket,
        brace, colon, comma, whitespace.
        """
        special = np.isin(self._bytes, np.frombuffer(b'"\\[]{}:, \t\n\r', dtype=np.uint8))
        empty = np.diff(self._start) == 0
        flags: bytes = ((self.counted(special) == 0) & ~empty).astype(np.uint8).tobytes()
        return flags

    @cached_property
    def whole_objects(self) -> Bool:
        """bool [V]: tokens with an opening brace and a closing one behind it."""
        found = np.zeros(len(self._start) - 1, dtype=np.bool_)
        for token in np.flatnonzero((self.having(0x7B) > 0) & (self.having(0x7D) > 0)).tolist():
            start, end = self.starts[token : token + 2]
            found[token] = self.text.index(b"{", start, end) < self.text.rindex(b"}", start, end)
        return found

    @cached_property
    def ending_strings(self) -> Bool:
        """bool [V]: tokens with a comma or a closing bracket or brace behind a quotation mark: what can end a string
        and do something to what it is in.
        """
        found = np.zeros(len(self._start) - 1, dtype=np.bool_)
        for token in np.flatnonzero(self.having(0x22)).tolist():
            found[token] = _ENDING_STRING.search(self.text, *self.starts[token : token + 2]) is not None
        return found

    @cached_property
    def quoted(self) -> Bool:
        """bool [V]: tokens with a quotation mark or a backslash."""
        return (self.having(0x22) > 0) | (self.having(0x5C) > 0)

    @cached_property
    def unquoted(self) -> bytes:
        """[V]: 1 for tokens with bytes, but without quotation mark and backslash."""
        flags: bytes = (~self.quoted & (np.diff(self._start) > 0)).astype(np.uint8).tobytes()
        return flags

    def prepare_keys(self) -> None:
        """Work out now, not at the first key, what the keys of objects need."""
        self.equal(b"")
        self.ending_a_string(b'"')
        _ = self.members, self.escaped_ends, self.spaces_before_keys

    def prepare_items(self) -> None:
        """The same of the items of arrays."""
        self.equal(b"")
        self.ending_a_string(b'"')
        _ = self.ending_a_number, self.escaped_ends, self.whole_items, self.next_items, self.spaces_before
        _ = self.powers_of_zero

    @cached_property
    def whole_items(self) -> npt.NDArray[np.int64]:
        """Tokens in which an item may begin and end."""
        spaces = sum(self.having(byte) for byte in b" \t\n\r") > 0
        digits = sum(self.having(byte) for byte in b"0123456789") > 0
        ends = sum(self.having(byte) for byte in b",]}") > 0
        return np.flatnonzero((self.having(0x22) > 1) | ends | (spaces & digits))

    @cached_property
    def next_items(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(tokens in which an item may begin and end behind a comma, or begin like a literal; those with a quotation
        mark before that).
        """
        pieces = [(t, self.text[slice(*self.starts[t : t + 2])]) for t in np.flatnonzero(self.having(0x2C)).tolist()]
        every = [(token, piece) for token, piece in pieces if _NEXT_ITEM.search(piece)]
        quoted = [token for token, piece in every if b'"' in piece and _NEXT_ITEM.search(piece, piece.index(b'"'))]
        return np.array([token for token, _ in every], dtype=np.int64), np.array(quoted, dtype=np.int64)

    @cached_property
    def ending_items(self) -> Bool:
        """bool [V]: tokens with a comma, closing bracket or whitespace."""
        found = np.zeros(len(self._start) - 1, dtype=np.bool_)
        for byte in b" \t\n\r,]":
            found |= self.having(byte) > 0
        return found

    @cached_property
    def before_end(self) -> dict[bytes, npt.NDArray[np.int64]]:
        """What stands before the first comma, closing bracket or whitespace -> tokens, where it is no string."""
        found: dict[bytes, list[int]] = {}
        for token in np.flatnonzero(self.ending_items).tolist():
            before = _BEFORE_END.match(self.text, *self.starts[token : token + 2])
            if before is not None:
                found.setdefault(before[1], []).append(token)
        return {text: np.array(tokens, dtype=np.int64) for text, tokens in found.items()}

    @cached_property
    def spaced_before_end(self) -> dict[bytes, list[int]]:
        """The same with whitespace before it, this included."""
        found: dict[bytes, list[int]] = {}
        for token in np.flatnonzero(sum(self.having(byte) for byte in b" \t\n\r") > 0).tolist():
            before = _SPACED_BEFORE_END.match(self.text, *self.starts[token : token + 2])
            if before is not None:
                found.setdefault(before[1], []).append(token)
        return found

    @cached_property
    def ending_a_number(self) -> dict[bytes, npt.NDArray[np.int64]]:
        """The same, where it may be the end of a number."""
        return {text: tokens for text, tokens in self.before_end.items() if not text.strip(b"0123456789.eE+-")}

    @cached_property
    def powers_of_zero(self) -> npt.NDArray[np.int64]:
        """Tokens with the exponent of a number of which they hold nothing but zeros; ascending."""
        found = np.flatnonzero((self.having(0x65) > 0) | (self.having(0x45) > 0))
        return found[[_POWER_OF_ZERO.search(self.text[slice(*self.starts[t : t + 2])]) is not None for t in found]]

    @cached_property
    def spaces_before(self) -> tuple[bytes, ...]:
        """The whitespace, none included, that tokens begin with before the beginning of a scalar."""
        found: dict[bytes, None] = {b"": None}
        for token in np.flatnonzero(sum(self.having(byte) for byte in b" \t\n\r") > 0).tolist():
            spaces = _SPACES_BEFORE.match(self.text, *self.starts[token : token + 2])
            if spaces is not None:
                found[spaces[0]] = None
        return tuple(found)

    @cached_property
    def members(self) -> tuple[npt.NDArray[np.int32], frozenset[bytes]]:
        """(int32 [V]: how often in each token a member may begin and its key end, that is a comma or brace, then the
        key; how the keys begin that begin in a token, two bytes each).
        """
        whole = np.zeros(len(self._start) - 1, dtype=np.int32)
        starts: set[bytes] = set()
        opens = (self.having(0x2C) > 0) | (self.having(0x7B) > 0)
        for token in np.flatnonzero(opens & (self.having(0x22) > 0)).tolist():
            piece = self.text[self.starts[token] : self.starts[token + 1]]
            starts.update(found.group(1) for found in _KEY_BEGINS.finditer(piece))
            whole[token] = len(_WHOLE_KEY.findall(piece))
        return whole, frozenset(starts)

    @cached_property
    def escaped_ends(self) -> npt.NDArray[np.int64]:
        """Tokens that can end a string behind an escape."""
        found = np.flatnonzero((self.having(0x22) > 0) & (self.having(0x5C) > 0))
        return found[[_ESCAPED_END.match(self.text, *self.starts[t : t + 2]) is not None for t in found.tolist()]]

    @cached_property
    def spaces(self) -> npt.NDArray[np.int64]:
        """Tokens of nothing but whitespace."""
        spaces = sum(self.having(byte) for byte in b" \t\n\r")
        return np.flatnonzero((spaces == np.diff(self._start)) & (spaces > 0))

    @cached_property
    def spaces_before_keys(self) -> tuple[bytes, ...]:
        """The whitespace, none included, before the quotation marks that tokens begin with."""
        found: dict[bytes, None] = {b"": None}
        for token in np.flatnonzero(self.having(0x22)).tolist():
            piece = self.text[self.starts[token] : self.starts[token + 1]]
            rest = piece.lstrip(b" \t\n\r")
            if rest[:1] == b'"':
                found[piece[: len(piece) - len(rest)]] = None
        return tuple(found)

    @cached_property
    def _of_text(self) -> dict[bytes, list[int]]:
        """The tokens of a text, for all texts."""
        found: dict[bytes, list[int]] = {}
        for token, (start, end) in enumerate(pairwise(self.starts)):
            if start < end:
                found.setdefault(self.text[start:end], []).append(token)
        return found

    @cached_property
    def _with_mark(self) -> tuple[list[bytes], list[int]]:
        """The texts of all tokens with a quotation mark, sorted, and their ids."""
        tokens = np.flatnonzero(self.having(0x22)).tolist()
        ordered = sorted((self.text[self.starts[token] : self.starts[token + 1]], token) for token in tokens)
        return [text for text, _ in ordered], [token for _, token in ordered]

    def equal(self, text: bytes) -> list[int]:
        """The tokens that are a text."""
        return self._of_text.get(text, [])

    def ending_a_string(self, text: bytes) -> list[int]:
        """The tokens that start with a text that ends with a quotation mark."""
        texts, ids = self._with_mark
        return ids[bisect_left(texts, text) : bisect_left(texts, text[:-1] + b"#")]

    @cached_property
    def _spelled(self) -> dict[bytes, int]:
        return {b"": 0}

    @cached_property
    def _longest(self) -> int:
        return int(np.diff(self._start).max(initial=0))

    def first(self, text: bytes) -> int:
        """The longest token that a text begins with, -1 if there is none."""
        for end in range(min(len(text), self._longest), 0, -1):
            tokens = self._of_text.get(text[:end])
            if tokens:
                return tokens[0]
        return -1

    def spelled(self, text: bytes) -> int:
        """How many tokens a text takes if each is the longest that fits; `UNREACHABLE` if some byte has no token.

        So what is left of a text after its first token takes one less.
        """
        known = self._spelled
        if len(known) > _SPELLED:
            known.clear()
            known[b""] = 0
        rests = []
        while text not in known:
            token = self.first(text)
            if token < 0:
                return UNREACHABLE
            rests.append(text)
            text = text[self.starts[token + 1] - self.starts[token] :]
        count = known[text]
        for rest in reversed(rests):
            count += 1
            known[rest] = count
        return count
