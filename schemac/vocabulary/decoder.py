"""The decoder of a Hugging Face ``tokenizer.json``, read as a rule from one piece to its bytes.

A decoder turns the pieces of a whole output into text. A vocabulary needs the bytes of one piece wherever it stands,
so each decoder is read for a piece in the middle of an output. Decoders that treat the *first* piece otherwise are
fine: they drop a leading space there, where a model's answer continues a prompt and keeps it. Decoders that treat
the *last* piece otherwise, or that look at two pieces at once, have no such reading and are refused by name.

ByteLevel     characters become bytes by GPT-2's table; a piece with a character outside the table is its UTF-8.
Metaspace     the replacement character (U+2581) becomes a space.
Replace       one text becomes another in each piece.
ByteFallback  ``<0xNN>`` becomes the byte NN.
Fuse          pieces are joined; what follows sees the whole text.
Strip         after Fuse: spaces at the very start are dropped; no effect in the middle.
WordPiece     a continuation piece (``##ing``) loses its prefix; any other piece gets a space before it. With
              `cleanup` the space before punctuation and English contractions is dropped again (`_CLEANUP`), within
              the piece. So ``{`` is " {" and ``.`` is ".", and a text can only hold the spaces that this gives.
none          pieces are joined by spaces: every piece gets a space before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schemac.vocabulary.byte_level import bytes_of_piece
from schemac.vocabulary.files import Reader

#: What WordPiece's cleanup replaces, in this order (Hugging Face tokenizers, decoders/wordpiece.rs).
_CLEANUP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
_HEX = frozenset("0123456789abcdefABCDEF")
_KNOWN = ("ByteLevel", "Metaspace", "Replace", "ByteFallback", "Fuse", "Strip", "WordPiece")
_REFUSED = {
    "BPEDecoder": "it writes the last piece of an output otherwise than the same piece before it",
    "CTC": "it drops repeated pieces",
}


class PieceDecoder:
    """From pieces to bytes.

    Attributes:
        byte_level: GPT-2's byte table is used.
        byte_fallback: ``<0xNN>`` pieces are bytes.
        spaced: spaces between pieces come from the decoder, so that texts with other spaces cannot be written.
        prefix: what WordPiece takes off continuation pieces; None for other decoders.

    Args:
        decoder: the `decoder` field of the file, or None.
        read: for messages.

    Raises:
        VocabularyError: the decoder is unknown, or is one that cannot be read piece by piece.
    """

    def __init__(self, decoder: Any, read: Reader) -> None:
        self.byte_level = False
        self.byte_fallback = False
        self.spaced = False
        self.prefix: str | None = None
        self._fused = False
        self._read = read
        self._text_steps: list[Callable[[str], str]] = []
        self._to_bytes: Callable[[str], bytes] = _utf8
        self._byte_replacements: list[tuple[bytes, bytes]] = []
        if decoder is None:
            self.spaced = True
            self._text_steps.append(lambda piece: " " + piece)
            return
        waiting = [decoder]
        while waiting:
            entry = read.mapping(waiting.pop(), "decoder")
            kind = read.text(entry.get("type"), "decoder.type")
            if kind == "Sequence":
                waiting.extend(reversed(read.array(entry.get("decoders"), "decoder.decoders")))
            else:
                self._add(kind, entry)

    def __call__(self, piece: str) -> bytes:
        """The bytes of `piece`, standing in the middle of an output.

        Raises:
            UnicodeEncodeError: the piece holds half of a surrogate pair.
        """
        for step in self._text_steps:
            piece = step(piece)
        data = self._to_bytes(piece)
        for old, new in self._byte_replacements:
            data = data.replace(old, new)
        return data

    def _add(self, kind: str, entry: dict[str, Any]) -> None:
        """Append the step of one decoder."""
        if kind in _REFUSED:
            raise self._read.fail(f"the decoder {kind} cannot be used: {_REFUSED[kind]}", "decoder")
        if kind not in _KNOWN:
            raise self._read.fail(
                f"the decoder is of the unknown type {kind!r}",
                "decoder",
                f"known are {', '.join(_KNOWN)} and their Sequence",
            )
        if kind == "Fuse":
            self._fused = True
        elif kind == "Strip":
            self._check_strip(entry)
        elif kind == "Replace":
            self._add_replace(entry)
        elif self._fused or self._to_bytes is not _utf8:
            raise self._read.fail(f"the decoder {kind} cannot be used after pieces were joined", "decoder")
        elif kind == "ByteLevel":
            self.byte_level = self._fused = True
            self._to_bytes = _byte_level
        elif kind == "ByteFallback":
            self.byte_fallback = True
            self._to_bytes = _byte_fallback
        elif kind == "Metaspace":
            mark = self._read.text(entry.get("replacement", "▁"), "decoder.replacement")
            if len(mark) != 1:
                raise self._read.fail(f"one character is expected, not {mark!r}", "decoder.replacement")
            self._text_steps.append(lambda piece: piece.replace(mark, " "))
        elif kind == "WordPiece":
            self.spaced = True
            self.prefix = prefix = self._read.text(entry.get("prefix", "##"), "decoder.prefix")
            cleanup = bool(entry.get("cleanup", True))
            self._text_steps.append(lambda piece: _word_piece(piece, prefix, cleanup))

    def _check_strip(self, entry: dict[str, Any]) -> None:
        """After Fuse, Strip touches nothing but the two ends of the output."""
        if not self._fused:
            raise self._read.fail("the decoder Strip cannot be used before Fuse: it cuts single pieces", "decoder")
        if entry.get("stop", 0) != 0:
            raise self._read.fail("the decoder Strip cannot be used: it cuts the end of the output", "decoder.stop")

    def _add_replace(self, entry: dict[str, Any]) -> None:
        pattern = entry.get("pattern")
        old = pattern.get("String") if isinstance(pattern, dict) else None
        if not isinstance(old, str) or not old:
            raise self._read.fail("the decoder Replace is only known with a plain text to replace", "decoder.pattern")
        new = self._read.text(entry.get("content"), "decoder.content")
        if self._fused and len(old) > 1:
            raise self._read.fail(f"the decoder Replace cannot be used: {old!r} may span two pieces", "decoder")
        if self._to_bytes is _utf8:
            self._text_steps.append(lambda piece: piece.replace(old, new))
        elif len(old) == 1 and old.isascii():
            self._byte_replacements.append((old.encode(), new.encode()))
        else:  # pieces of single bytes may spell it together
            raise self._read.fail(f"the decoder Replace cannot be used: {old!r} may span two pieces", "decoder")


def _utf8(piece: str) -> bytes:
    return piece.encode("utf-8")


def _byte_level(piece: str) -> bytes:
    data = bytes_of_piece(piece)
    return _utf8(piece) if data is None else data


def byte_of_fallback(piece: str) -> int | None:
    """The byte NN of a piece ``<0xNN>``, else None."""
    if len(piece) == 6 and piece.startswith("<0x") and piece[5] == ">" and _HEX.issuperset(piece[3:5]):
        return int(piece[3:5], 16)
    return None


def _byte_fallback(piece: str) -> bytes:
    byte = byte_of_fallback(piece)
    return _utf8(piece) if byte is None else bytes([byte])


def _word_piece(piece: str, prefix: str, cleanup: bool) -> str:
    text = piece.removeprefix(prefix) if piece.startswith(prefix) else " " + piece
    if cleanup:
        for old, new in _CLEANUP:
            text = text.replace(old, new)
    return text
