"""A vocabulary while it is put together from a tokenizer file and the model files beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from schemac.errors import VocabularyError
from schemac.vocabulary.model import Vocabulary
from schemac.vocabulary.model_files import ModelFiles
from schemac.vocabulary.trie import MAX_SIZE


def plain_bytes(text: str) -> bytes:
    """UTF-8, for tokenizers whose added tokens are written out as they are."""
    return text.encode("utf-8")


@dataclass
class Draft:
    """What a tokenizer file says, to which model files may add.

    Attributes:
        place: the file, for messages.
        tokens: id -> bytes, None where an id is not part of texts.
        special_ids: ids of the special tokens so far; they have no bytes.
        stop_ids: ids that end a text so far.
        texts: id -> token text as the tokenizer names it, for all ids that have one.
        spell: the bytes that an added token with this text puts into the output.
    """

    place: str
    tokens: list[bytes | None]
    special_ids: set[int] = field(default_factory=set)
    stop_ids: set[int] = field(default_factory=set)
    texts: dict[int, str] = field(default_factory=dict)
    spell: Callable[[str], bytes] = plain_bytes

    def define(self, token_id: int, text: str, *, special: bool) -> None:
        """Add a token beside the tokenizer's model, or say of a known one whether it is special.

        Args:
            token_id: its id.
            text: its text.
            special: never part of texts; else ordinary visible bytes.

        Raises:
            VocabularyError: the id is out of range, or is that of another token.
        """
        if not 0 <= token_id < MAX_SIZE:
            raise VocabularyError(f"the id {token_id} of {text!r} is outside 0..{MAX_SIZE - 1}", place=self.place)
        if token_id >= len(self.tokens):
            self.tokens.extend([None] * (token_id + 1 - len(self.tokens)))
        known = self.texts.get(token_id, self.tokens[token_id])
        if known is not None and known != text:
            raise VocabularyError(
                f"id {token_id} is {known!r} in the tokenizer and {text!r} as an added token",
                place=self.place,
                hint="the tokenizer file and the configuration beside it do not belong together",
            )
        self.texts[token_id] = text
        if special:
            self.tokens[token_id] = None
            self.special_ids.add(token_id)
        else:
            self.tokens[token_id] = self.spelled(token_id, text)
            self.special_ids.discard(token_id)

    def spelled(self, token_id: int, text: str) -> bytes:
        """The bytes of the added token `text`."""
        try:
            return self.spell(text)
        except UnicodeEncodeError:
            raise VocabularyError(
                f"the token {text!r} of id {token_id} is not Unicode text (it holds half of a surrogate pair)",
                place=self.place,
            ) from None

    def apply(self, files: ModelFiles) -> None:
        """Take over what the model files add: added tokens, special tokens by role, ids that end a text.

        Raises:
            VocabularyError: the end-of-text token they name is not in the vocabulary.
        """
        for token_id, text, special in files.added:
            # Where the file does not say, what the tokenizer itself says stands.
            if special is not None or self.texts.get(token_id) != text:
                self.define(token_id, text, special=bool(special))
        ids = {text: token_id for token_id, text in reversed(self.texts.items())}
        for text in files.special_texts:
            if text in ids:
                self.define(ids[text], text, special=True)
        for text in files.stop_texts:
            if text not in ids:
                raise VocabularyError(
                    f"the end-of-text token {text!r} is not in the vocabulary",
                    place=files.place,
                    construct="eos_token",
                    hint="the tokenizer file and the configuration beside it do not belong together",
                )
            self.stop_ids.add(ids[text])
        self.stop_ids.update(files.stop_ids)

    def vocabulary(self, size: int | None) -> Vocabulary:
        """The finished vocabulary for a model of `size` logits, or of the tokenizer's own size."""
        # A stop id may be an ordinary piece to the tokenizer; as a stop id it can still be named by its text. Of ids
        # with the same text the lowest one is meant.
        special: dict[str, int] = {}
        for token_id in sorted(self.special_ids | self.stop_ids):
            if token_id in self.texts:
                special.setdefault(self.texts[token_id], token_id)
        own = max([len(self.tokens), *(token_id + 1 for token_id in self.stop_ids)])
        try:
            made = Vocabulary(tuple(self.tokens), special, tuple(self.stop_ids), max(own, size or 0))
            return made if size is None else made.with_size(size)
        except VocabularyError as error:
            raise VocabularyError(error.reason, place=self.place, construct=error.construct, hint=error.hint) from None
