"""A tokenizer object of the `transformers` package, as a server holds one.

Nothing is imported here: the object brings its package along. Three kinds of backend are known: the `tokenizers`
library, SentencePiece, and mistral-common.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schemac.errors import VocabularyError
from schemac.vocabulary.draft import Draft
from schemac.vocabulary.files import parse_json
from schemac.vocabulary.huggingface import check_with_encoder, parse_huggingface
from schemac.vocabulary.model import Vocabulary
from schemac.vocabulary.model_files import ModelFiles
from schemac.vocabulary.registry import load_vocabulary
from schemac.vocabulary.sentencepiece import check_with_processor, parse_sentencepiece


def from_transformers(tokenizer: Any, size: int | None = None) -> Vocabulary:
    """The vocabulary of a live tokenizer.

    Args:
        tokenizer: a ``PreTrainedTokenizerBase``.
        size: model vocabulary size (``model.config.vocab_size``), if it differs from the tokenizer's.

    Returns:
        The vocabulary. Stop ids are the tokenizer's; a tokenizer does not know its model's generation configuration,
        whose ids are added with ``with_stop_ids``.

    Raises:
        VocabularyError: a tokenizer of an unknown kind, or an inconsistent one.
    """
    place = type(tokenizer).__name__
    if callable(getattr(getattr(tokenizer, "backend_tokenizer", None), "to_str", None)):
        text = str(tokenizer.backend_tokenizer.to_str())
        parsed = parse_huggingface(parse_json(text, place), place)
        vocabulary = _finish(parsed.draft, tokenizer, size)
        check_with_encoder(vocabulary, text, parsed)
        return vocabulary
    if callable(getattr(getattr(tokenizer, "sp_model", None), "serialized_model_proto", None)):
        model = bytes(tokenizer.sp_model.serialized_model_proto())
        draft = parse_sentencepiece(model, place)
        named = tokenizer.convert_ids_to_tokens(list(range(len(draft.tokens))))
        for token_id, piece in enumerate(named):
            if piece != draft.texts[token_id]:
                raise VocabularyError(
                    f"id {token_id} is {piece!r} to the tokenizer and {draft.texts[token_id]!r} to its SentencePiece"
                    " model",
                    place=place,
                    hint="save it as a tokenizer.json and load that",
                )
        vocabulary = _finish(draft, tokenizer, size)
        check_with_processor(vocabulary, model, place)
        return vocabulary
    wrapped = getattr(getattr(getattr(tokenizer, "tokenizer", None), "instruct_tokenizer", None), "tokenizer", None)
    path = getattr(wrapped, "file_path", None)
    if isinstance(path, Path):
        vocabulary = load_vocabulary(path, size=size)
        own = getattr(wrapped, "n_words", vocabulary.size)
        if size is None and own != vocabulary.size:
            vocabulary = vocabulary.with_size(own)
        return vocabulary
    raise VocabularyError(
        f"a tokenizer of class {place} is not of a known kind",
        hint="give the path of its files, or a tokenizer that is backed by the tokenizers library",
    )


def _finish(draft: Draft, tokenizer: Any, size: int | None) -> Vocabulary:
    """Add what the object knows beyond its backend."""
    added = tuple(
        (int(token_id), str(token.content), bool(token.special))
        for token_id, token in sorted(tokenizer.added_tokens_decoder.items())
    )
    end = tokenizer.eos_token_id
    draft.apply(
        ModelFiles(
            place=draft.place,
            stop_ids=() if end is None else (int(end),),
            special_texts=tuple(str(token) for token in tokenizer.all_special_tokens),
            added=added,
        )
    )
    return draft.vocabulary(max(len(tokenizer), len(draft.tokens)) if size is None else size)
