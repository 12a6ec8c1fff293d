"""Tokenizers as the compiler sees them: the bytes of every token id, special tokens, and the ids that end a text."""

from __future__ import annotations

from schemac.vocabulary.model import Vocabulary
from schemac.vocabulary.registry import load_vocabulary, vocabulary_names
from schemac.vocabulary.transformers import from_transformers
from schemac.vocabulary.trie import TokenTrie

__all__ = ["TokenTrie", "Vocabulary", "from_transformers", "load_vocabulary", "vocabulary_names"]
