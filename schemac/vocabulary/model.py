"""What the compiler knows of a tokenizer: the bytes of every token id, and which ids end a text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from schemac.errors import VocabularyError
from schemac.vocabulary.trie import MAX_SIZE, MAX_TOKEN_BYTES, TokenTrie, build_trie


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The token table of one model. Equal when the fingerprints are.

    Attributes:
        tokens: by id, the bytes the token adds to a text, or None for an id that is never part of a text: special,
            control, padding, unused, or past the tokenizer's end. Its length is `size`.
        special: text of each special token -> its id. Such an id has no bytes.
        stop_ids: the ids that end a text, ascending: the union over model configuration, generation configuration
            and tokenizer. A stop id has no bytes.
        size: model vocabulary size, the number of logits; may be larger than the tokenizer's own. If not given, the
            number of `tokens`.
        name: the built-in name it was loaded by (``tekken``), else empty.

    Raises:
        VocabularyError: an id is out of range, `tokens` is longer than `size`, or a token is too long.
    """

    tokens: tuple[bytes | None, ...]
    special: Mapping[str, int] = field(default_factory=dict)
    stop_ids: tuple[int, ...] = ()
    size: int = -1
    name: str = ""

    def __post_init__(self) -> None:
        size = len(self.tokens) if self.size == -1 else self.size
        if not len(self.tokens) <= size <= MAX_SIZE:
            raise VocabularyError(
                f"a vocabulary of size {size} cannot hold {len(self.tokens)} tokens (at most {MAX_SIZE})",
                construct="size",
            )
        special = dict(sorted(self.special.items(), key=lambda item: (item[1], item[0])))
        stop_ids = tuple(sorted(set(self.stop_ids)))
        for what, ids in (("special token", special.values()), ("stop", stop_ids)):
            for token_id in ids:
                if not 0 <= token_id < size:
                    raise VocabularyError(f"{what} id {token_id} is outside 0..{size - 1}", construct="size")
        longest = max((len(token) for token in self.tokens if token is not None), default=0)
        if longest > MAX_TOKEN_BYTES:
            raise VocabularyError(f"a token of {longest} bytes is too long (at most {MAX_TOKEN_BYTES})")
        tokens = [*self.tokens, *([None] * (size - len(self.tokens)))]
        # An id that ends the text, or that is named as a special token, must never be read as content too.
        for token_id in (*special.values(), *stop_ids):
            tokens[token_id] = None
        object.__setattr__(self, "tokens", tuple(tokens))
        object.__setattr__(self, "special", MappingProxyType(special))
        object.__setattr__(self, "stop_ids", stop_ids)
        object.__setattr__(self, "size", size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self is other or self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        visible = sum(token is not None for token in self.tokens)
        return (
            f"Vocabulary({self.name or self.fingerprint[:12]}: {self.size} ids, {visible} with bytes,"
            f" {len(self.special)} special, stop {list(self.stop_ids)})"
        )

    def __reduce__(self) -> tuple[type[Vocabulary], tuple[object, ...]]:
        return Vocabulary, (self.tokens, dict(self.special), self.stop_ids, self.size, self.name)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over size, id -> bytes, special tokens and stop ids; the name does not count."""
        digest = hashlib.sha256(b"schemac vocabulary 1\n")
        lengths = (-1 if token is None else len(token) for token in self.tokens)
        digest.update(np.fromiter(lengths, "<i4", self.size).tobytes())
        digest.update(b"".join(token for token in self.tokens if token))
        for text, token_id in self.special.items():
            data = text.encode("utf-8", "surrogatepass")
            digest.update(np.array([token_id, len(data)], "<i4").tobytes() + data)
        digest.update(np.array([-1, *self.stop_ids], "<i4").tobytes())
        return digest.hexdigest()

    @cached_property
    def trie(self) -> TokenTrie:
        """The byte trie of all tokens with bytes; built once."""
        return build_trie(self.tokens)

    @cached_property
    def _ids_by_bytes(self) -> dict[bytes, tuple[int, ...]]:
        found: dict[bytes, tuple[int, ...]] = {}
        for token_id, token in enumerate(self.tokens):
            if token is not None:
                found[token] = (*found.get(token, ()), token_id)
        return found

    def ids_of(self, data: bytes) -> tuple[int, ...]:
        """The ids whose token is exactly `data`, ascending; several ids may spell the same bytes."""
        return self._ids_by_bytes.get(data, ())

    def named(self, text: str) -> tuple[int, ...]:
        """The ids a grammar may mean by `text`: the special token of that text, and ordinary tokens spelled so."""
        found = self.ids_of(text.encode("utf-8", "surrogatepass"))
        return (self.special[text], *found) if text in self.special else found

    def with_size(self, size: int) -> Vocabulary:
        """The same tokens for a model with `size` logits. Ids added at the end are padding.

        A model may have fewer logits than its tokenizer has ids; ids that the model cannot produce are dropped as
        long as none of them has bytes.

        Raises:
            VocabularyError: a token with bytes would be cut off, or `size` is out of range.
        """
        if size == self.size:
            return self
        if not 0 < size <= MAX_SIZE:
            raise VocabularyError(f"a vocabulary size of {size} is outside 1..{MAX_SIZE}", construct="size")
        needed = next((i + 1 for i in range(self.size - 1, size - 1, -1) if self.tokens[i] is not None), 0)
        if needed:
            raise VocabularyError(
                f"a size of {size} is too small: the tokenizer's last token with bytes has id {needed - 1}",
                construct="size",
                hint="give the vocabulary size of the model, the width of its logits",
            )
        special = {text: token_id for text, token_id in self.special.items() if token_id < size}
        stop_ids = tuple(token_id for token_id in self.stop_ids if token_id < size)
        return Vocabulary(self.tokens[:size], special, stop_ids, size, self.name)

    def with_stop_ids(self, stop_ids: Iterable[int]) -> Vocabulary:
        """The same tokens with other stop ids, in place of the present ones. A stop id loses its bytes, if any."""
        return Vocabulary(self.tokens, self.special, tuple(stop_ids), self.size, self.name)

    def with_name(self, name: str) -> Vocabulary:
        """The same vocabulary under a built-in name."""
        return Vocabulary(self.tokens, self.special, self.stop_ids, self.size, name)

    def decode(self, ids: Sequence[int]) -> bytes:
        """The bytes that `ids` add to a text; ids without bytes add none.

        Raises:
            VocabularyError: an id is out of range.
        """
        for token_id in ids:
            if not 0 <= token_id < self.size:
                raise VocabularyError(f"token id {token_id} is outside 0..{self.size - 1}")
        return b"".join(self.tokens[token_id] or b"" for token_id in ids)

    def missing_bytes(self) -> tuple[int, ...]:
        """The byte values that no one-byte token spells; texts with them may not be reachable."""
        return self._missing_bytes

    @cached_property
    def _missing_bytes(self) -> tuple[int, ...]:
        present = {token[0] for token in self.tokens if token is not None and len(token) == 1}
        return tuple(value for value in range(256) if value not in present)
