"""Hugging Face ``tokenizer.json``: BPE, Unigram, WordPiece and WordLevel models with their decoder.

Pieces become bytes by the decoder that the file describes (see `decoder`), never by what kind of model it is. Added
tokens marked ``special: false`` are ordinary visible bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schemac.errors import VocabularyError
from schemac.vocabulary.byte_level import bytes_of_piece
from schemac.vocabulary.decoder import PieceDecoder, byte_of_fallback
from schemac.vocabulary.draft import Draft
from schemac.vocabulary.files import Reader
from schemac.vocabulary.model import Vocabulary
from schemac.vocabulary.self_check import self_check
from schemac.vocabulary.trie import MAX_SIZE

_MODELS = ("BPE", "Unigram", "WordPiece", "WordLevel")


def is_huggingface(data: dict[str, Any]) -> bool:
    """Whether a JSON object looks like a ``tokenizer.json``."""
    return isinstance(data.get("model"), dict) and "vocab" in data["model"]


@dataclass(frozen=True)
class ParsedTokenizer:
    """What a ``tokenizer.json`` says.

    Attributes:
        draft: its tokens.
        decoder: its decoder.
        added: id -> text of its added tokens.
    """

    draft: Draft
    decoder: PieceDecoder
    added: dict[int, str]


def parse_huggingface(data: dict[str, Any], place: str) -> ParsedTokenizer:
    """Read the JSON object of a ``tokenizer.json``.

    Raises:
        VocabularyError: a field is missing or of another type, ids collide, the decoder cannot be used, or pieces,
            pre-tokenizer and decoder contradict each other.
    """
    read = Reader(place)
    model = read.mapping(data.get("model"), "model")
    kind = model.get("type")
    if kind is not None and kind not in _MODELS:
        raise read.fail(f"the model is of the unknown type {kind!r}", "model.type", "known are " + ", ".join(_MODELS))
    pieces, unknown = _pieces(model, read)
    decoder = PieceDecoder(data.get("decoder"), read)
    added = _added_tokens(data, read)
    defined = {token_id for token_id, _, _ in added}
    _check_structure(data, model, decoder, {i: piece for i, piece in pieces.items() if i not in defined}, read)

    draft = Draft(place, [None] * (max(pieces, default=-1) + 1), texts=pieces, spell=decoder)
    tokens = draft.tokens
    for token_id, piece in pieces.items():
        tokens[token_id] = draft.spelled(token_id, piece)
    ids = {piece: token_id for token_id, piece in pieces.items()}
    for token_id, text, special in added:
        if ids.get(text, token_id) != token_id:
            raise read.fail(f"{text!r} has id {token_id} here and id {ids[text]} in the model", "added_tokens")
        draft.define(token_id, text, special=special)
    if unknown is not None:
        draft.define(unknown, pieces[unknown], special=True)
    return ParsedTokenizer(draft, decoder, {token_id: text for token_id, text, _ in added})


def check_with_encoder(vocabulary: Vocabulary, text: str | bytes, parsed: ParsedTokenizer) -> bool:
    """Check the table against the `tokenizers` package, if it is installed; returns whether it is.

    Args:
        vocabulary: the finished table.
        text: the content of the ``tokenizer.json``.
        parsed: what was read from it.

    Raises:
        VocabularyError: the package refuses the file, or disagrees with the table.
    """
    place = parsed.draft.place
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return False
    try:
        tokenizer = Tokenizer.from_str(text if isinstance(text, str) else text.decode("utf-8"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except BaseException as error:
        if not _is_failure(error):
            raise
        raise VocabularyError(
            f"the tokenizers package refuses this file: {' '.join(str(error).split())[:200]}",
            place=place,
            hint="the file may be damaged, or newer than the package: pip install -U 'schemac[tokenizers]'",
        ) from None
    for token_id, piece in parsed.added.items():
        actual = tokenizer.id_to_token(token_id)
        if actual != piece:  # the package numbers added tokens itself, whatever the file says
            raise VocabularyError(
                f"id {token_id} is {piece!r} in the file and {actual!r} when the tokenizers package has loaded it",
                place=place,
                construct="added_tokens",
            )

    def encode(sample: str) -> list[int] | None:
        try:
            return list(tokenizer.encode(sample, add_special_tokens=False).ids)
        except BaseException as error:
            if not _is_failure(error):
                raise
            return None  # such as a character that it does not know

    self_check(
        vocabulary,
        encode,
        lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False)),
        spaced=parsed.decoder.spaced,
        place=place,
    )
    return True


def _is_failure(error: BaseException) -> bool:
    """Whether the package failed: it raises plain Exception, and a panic of its Rust code is not even that."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _pieces(model: dict[str, Any], read: Reader) -> tuple[dict[int, str], int | None]:
    """Pieces by id, and the id of the unknown token if the model has one."""
    vocab = model.get("vocab")
    pieces: dict[int, str] = {}
    unknown: int | None = None
    if isinstance(vocab, list):  # Unigram: [piece, score] by id
        for token_id, entry in enumerate(vocab[: MAX_SIZE + 1]):
            if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
                raise read.fail("a pair of piece and score is expected", f"model.vocab[{token_id}]")
            pieces[token_id] = entry[0]
        if len(pieces) > MAX_SIZE:
            raise read.fail(f"there are more than {MAX_SIZE} pieces", "model.vocab")
        if model.get("unk_id") is not None:
            unknown = read.integer(model["unk_id"], "model.unk_id", len(pieces) - 1)
        return pieces, unknown
    ids = read.mapping(vocab, "model.vocab")
    for piece, token_id in ids.items():
        if type(token_id) is not int or not 0 <= token_id < MAX_SIZE:
            raise read.fail(f"the id of {piece!r} is not an integer in 0..{MAX_SIZE - 1}", "model.vocab")
        if token_id in pieces:
            raise read.fail(f"{pieces[token_id]!r} and {piece!r} have the same id {token_id}", "model.vocab")
        pieces[token_id] = piece
    if model.get("unk_token") is not None:
        named = ids.get(read.text(model["unk_token"], "model.unk_token"))
        unknown = named if isinstance(named, int) else None
    return pieces, unknown


def _added_tokens(data: dict[str, Any], read: Reader) -> list[tuple[int, str, bool]]:
    """(id, text, special) of the added tokens."""
    added = []
    for index, entry in enumerate(read.array(data.get("added_tokens") or [], "added_tokens")):
        where = f"added_tokens[{index}]"
        fields = read.mapping(entry, where)
        token_id = read.integer(fields.get("id"), f"{where}.id", MAX_SIZE - 1)
        special = fields.get("special", False)
        if not isinstance(special, bool):
            raise read.fail("true or false is expected", f"{where}.special")
        added.append((token_id, read.text(fields.get("content"), f"{where}.content"), special))
    return added


def _check_structure(
    data: dict[str, Any], model: dict[str, Any], decoder: PieceDecoder, pieces: dict[int, str], read: Reader
) -> None:
    """Contradictions that show without an encoder: what is written as bytes must be read back as bytes."""
    if decoder.byte_level:
        for token_id, piece in pieces.items():
            if bytes_of_piece(piece) is None:
                raise read.fail(
                    f"the piece {piece!r} of id {token_id} is not written in the byte table of the decoder",
                    "decoder",
                    "the decoder ByteLevel does not belong to this vocabulary",
                )
    elif _uses_byte_level(data.get("pre_tokenizer")) or _uses_byte_level(data.get("normalizer")):
        raise read.fail(
            "the pre-tokenizer writes bytes as characters (ByteLevel), the decoder does not read them back",
            "decoder",
            "the file needs a decoder of type ByteLevel",
        )
    prefix = model.get("continuing_subword_prefix")
    if decoder.prefix is not None and isinstance(prefix, str) and prefix != decoder.prefix:
        raise read.fail(
            f"the model marks continuation pieces by {prefix!r}, the decoder by {decoder.prefix!r}", "decoder"
        )
    has_fallback = any(byte_of_fallback(piece) is not None for piece in pieces.values())
    if model.get("byte_fallback") is True and has_fallback and not decoder.byte_fallback:
        raise read.fail(
            "the model falls back to <0xNN> pieces, the decoder does not read them back",
            "decoder",
            "the file needs a decoder of type ByteFallback",
        )


def _uses_byte_level(part: Any) -> bool:
    """Whether a pre-tokenizer or normalizer is, or has as a member, ByteLevel."""
    waiting = [part]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict):
            if entry.get("type") == "ByteLevel":
                return True
            for key in ("pretokenizers", "normalizers"):
                if isinstance(entry.get(key), list):
                    waiting.extend(entry[key])
    return False
