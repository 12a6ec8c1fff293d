"""One vocabulary for all engines, and the real tokenizer that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Text in, token ids out, without begin and end tokens.
Encoder = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class TokenTable:
    """What every engine is given.

    Attributes:
        spec: what `--tokenizer` named it by.
        tokens: bytes by token id, length V; empty for ids that are never part of a text (special, padding).
        special_names: text by id of the special tokens that have one.
        eos: ids that end a text.
        source: schemac's own vocabulary object, from which the rest is taken.
    """

    spec: str
    tokens: tuple[bytes, ...]
    special_names: Mapping[int, str]
    eos: tuple[int, ...]
    source: Any

    @property
    def size(self) -> int:
        """V, the width of a mask."""
        return len(self.tokens)

    def decode(self, ids: list[int]) -> bytes:
        """The bytes of a token sequence."""
        return b"".join(self.tokens[token] for token in ids)


def load_table(spec: str) -> TokenTable:
    """The vocabulary that `--tokenizer` names, read by schemac's loader."""
    from schemac.vocabulary import load_vocabulary

    vocabulary = load_vocabulary(spec)
    return TokenTable(
        spec=spec,
        tokens=tuple(token or b"" for token in vocabulary.tokens),
        special_names={token: text for text, token in vocabulary.special.items()},
        eos=vocabulary.stop_ids,
        source=vocabulary,
    )


def load_encoder(spec: str) -> Encoder:
    """The tokenizer itself, from the package that owns its format.

    Args:
        spec: ``tekken``, a ``tekken*.json`` file, a Hugging Face ``tokenizer.json``, or a directory holding one.

    Raises:
        ValueError: no encoder is known for this kind of tokenizer.
    """
    path = Path(spec)
    if spec == "tekken":
        import mistral_common

        # The newest that the package ships, as schemac takes; the names hold dates.
        return _tekken_encoder(max((Path(mistral_common.__file__).parent / "data").glob("tekken_*.json")))
    if path.is_dir():
        path = path / "tokenizer.json"
    if path.name.startswith("tekken"):
        return _tekken_encoder(path)
    if path.suffix == ".json":
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)
    raise ValueError(f"no encoder for {spec}: give 'tekken', a tekken.json or a tokenizer.json")


def _tekken_encoder(path: Path) -> Encoder:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    tekken = Tekkenizer.from_file(path)
    return lambda text: list(tekken.encode(text, bos=False, eos=False))
