"""SentencePiece ``.model`` files: a protocol buffer with pieces, their types and the normalizer's settings.

Only the wire format of protocol buffers and the few fields that matter are read here; field numbers are those of
``sentencepiece_model.proto`` (Apache-2.0, github.com/google/sentencepiece).

    ModelProto       1: repeated SentencePiece  2: TrainerSpec  5: denormalizer_spec (NormalizerSpec)
    SentencePiece    1: piece (text)  3: type (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte)
    TrainerSpec      24: treat_whitespace_as_suffix  35: byte_fallback  47: eos_piece
    NormalizerSpec   2: precompiled_charsmap

In a piece U+2581 stands for a space. The library drops that space at the start of a text (the dummy prefix); in an
answer that continues a prompt it is kept, so that the token of U+2581 and "order" is " order".
"""

from __future__ import annotations

from collections.abc import Iterator

from schemac.errors import VocabularyError
from schemac.vocabulary.decoder import byte_of_fallback
from schemac.vocabulary.draft import Draft
from schemac.vocabulary.files import Reader
from schemac.vocabulary.model import Vocabulary
from schemac.vocabulary.self_check import self_check
from schemac.vocabulary.trie import MAX_SIZE

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_SPACE = "\u2581"
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def is_sentencepiece(data: bytes) -> bool:
    """Whether a file starts as a list of pieces does: field 1, whose own first field is a text."""
    return len(data) > 4 and data[0] == 0x0A and b"\x0a" in data[2:4]


def spell(text: str) -> bytes:
    """The bytes of a visible piece."""
    return text.replace(_SPACE, " ").encode("utf-8")


def parse_sentencepiece(data: bytes, place: str) -> Draft:
    """The draft of a model file. The stop id is the control piece that the trainer's settings call the end.

    Raises:
        VocabularyError: the file is cut short or damaged, or decodes text in a way that has no reading piece by piece.
    """
    read = Reader(place)
    pieces: list[tuple[str, int]] = []
    settings: dict[int, int | bytes] | None = None
    for number, value in _fields(data, 0, len(data), read):
        if number == 1:
            if len(pieces) == MAX_SIZE:
                raise read.fail(f"there are more than {MAX_SIZE} pieces")
            pieces.append(_piece(data, *_span(value, read), len(pieces), read))
        elif number == 2:
            settings = _message(data, *_span(value, read), read)
        elif number == 5 and _message(data, *_span(value, read), read).get(2):
            raise read.fail("the model rewrites decoded text (denormalizer_spec), which cannot be read piece by piece")
    if not pieces or settings is None:
        lacking = "trainer settings" if pieces else "pieces"
        raise read.fail(f"there are no {lacking}", hint="the file is cut short, or not a SentencePiece model")
    if settings.get(24):
        raise read.fail("the model marks spaces at the end of pieces and drops the last (treat_whitespace_as_suffix)")

    draft = Draft(place, [], spell=spell)
    for token_id, (text, kind) in enumerate(pieces):
        draft.tokens.append(_token(text, kind, token_id, read))
        draft.texts[token_id] = text
        if kind in {_UNKNOWN, _CONTROL}:
            draft.special_ids.add(token_id)
    fallback = sum(kind == _BYTE for _, kind in pieces)
    if settings.get(35) and fallback != 256:
        raise read.fail(f"byte fallback is on and {fallback} of 256 byte pieces are there")
    end = settings.get(47, b"</s>")
    end_text = end.decode("utf-8", "replace") if isinstance(end, bytes) else ""
    draft.stop_ids.update(i for i, (text, kind) in enumerate(pieces) if kind == _CONTROL and text == end_text)
    return draft


def _token(text: str, kind: int, token_id: int, read: Reader) -> bytes | None:
    """The bytes of a piece; None if its type says that it is no part of texts."""
    if kind in {_NORMAL, _USER_DEFINED}:
        return spell(text)
    if kind == _BYTE:
        byte = byte_of_fallback(text)
        if byte is None:
            raise read.fail(f"the byte piece {text!r} of id {token_id} is not <0xNN>")
        return bytes([byte])
    if kind in {_UNKNOWN, _CONTROL, _UNUSED}:
        return None
    raise read.fail(f"the piece {text!r} of id {token_id} is of the unknown type {kind}")


def check_with_processor(vocabulary: Vocabulary, data: bytes, place: str) -> bool:
    """Check the table against the `sentencepiece` package, if it is installed; returns whether it is.

    Raises:
        VocabularyError: the package refuses the file, or disagrees with the table.
    """
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        return False
    try:
        processor = SentencePieceProcessor(model_proto=data)
    except Exception as error:  # noqa: BLE001 - RuntimeError, and others by release
        raise VocabularyError(
            f"the sentencepiece package refuses this file: {' '.join(str(error).split())[:200]}", place=place
        ) from None
    self_check(vocabulary, processor.encode, processor.decode, spaced=False, place=place)
    return True


def _piece(data: bytes, start: int, end: int, token_id: int, read: Reader) -> tuple[str, int]:
    """Text and type of the SentencePiece in data[start:end]."""
    fields = _message(data, start, end, read)
    raw, kind = fields.get(1), fields.get(3, _NORMAL)
    if not isinstance(raw, bytes) or not isinstance(kind, int):
        raise read.fail(f"the piece of id {token_id} has no text", hint="not a SentencePiece model")
    try:
        return raw.decode("utf-8"), kind
    except UnicodeDecodeError:
        raise read.fail(f"the piece of id {token_id} is not UTF-8") from None


def _message(data: bytes, start: int, end: int, read: Reader) -> dict[int, int | bytes]:
    """The fields of the message in data[start:end] by number; of a repeated one the last."""
    return {
        number: value if isinstance(value, int) else data[value[0] : value[1]]
        for number, value in _fields(data, start, end, read)
    }


def _span(value: int | tuple[int, int], read: Reader) -> tuple[int, int]:
    if isinstance(value, int):
        raise read.fail("a field that holds a message or text is a number", hint="not a SentencePiece model")
    return value


def _fields(data: bytes, at: int, end: int, read: Reader) -> Iterator[tuple[int, int | tuple[int, int]]]:
    """The fields of the message in data[at:end]: number, and value or span. Fixed-width values come as spans."""
    while at < end:
        key, at = _varint(data, at, end, read)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise _damaged(at, read)
        if wire == _VARINT:
            value, at = _varint(data, at, end, read)
            yield number, value
            continue
        if wire == _LENGTH:
            width, at = _varint(data, at, end, read)
        elif wire in {_FIXED64, _FIXED32}:
            width = 8 if wire == _FIXED64 else 4
        else:  # groups, which the format does not use, and undefined types
            raise _damaged(at, read)
        if width > end - at:
            raise _damaged(at, read)
        yield number, (at, at + width)
        at += width


def _varint(data: bytes, at: int, end: int, read: Reader) -> tuple[int, int]:
    """A base-128 integer of at most 10 bytes, and where it ends."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _damaged(at, read)


def _damaged(at: int, read: Reader) -> VocabularyError:
    return read.fail(f"damaged at byte {at}", hint="the file is cut short, or not a SentencePiece model")
