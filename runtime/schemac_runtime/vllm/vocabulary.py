"""Which vocabulary a model has, told so that a compile worker can load it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from schemac_runtime.errors import SchemacError

_MISTRAL = ("tekken.json", "tokenizer.model.v*")


def vocabulary_choice(model_config: Any, tokenizer: Any, given: str | None, folder: Path) -> dict[str, Any]:
    """What `schemac.jobs.VocabularyChoice` reads.

    The tokenizer's own files are preferred to the live object: `schemac build` reads them too, and the same files give
    the same fingerprint. Stop ids are the union of those in the files and those that the model's configurations name.

    Args:
        model_config: vLLM's.
        tokenizer: the live tokenizer.
        given: the setting `tokenizer`, which counts before all else.
        folder: where a description of a live tokenizer is written.

    Raises:
        SchemacError: the tokenizer has no files here and is of no kind that can be described.
    """
    more = sorted(set(_stop_ids(model_config)))
    choice = {"size": int(model_config.get_vocab_size()), "more_stop_ids": more}
    path = given or _files(model_config)
    if path is not None:
        return {"tokenizer": path, **choice}
    return {"tokenizer": str(_described(tokenizer, folder)), "described": True, **choice}


def _stop_ids(model_config: Any) -> Iterable[int]:
    sources = [getattr(model_config, name, None) for name in ("hf_config", "hf_text_config")]
    listed = [getattr(source, "eos_token_id", None) for source in sources]
    listed.append((model_config.try_get_generation_config() or {}).get("eos_token_id"))
    for ids in listed:
        yield from (int(i) for i in (ids if isinstance(ids, (list, tuple)) else [ids]) if isinstance(i, int))


def _files(model_config: Any) -> str | None:
    """The folder or file of the tokenizer, if it is on this machine."""
    name, revision = str(model_config.tokenizer), getattr(model_config, "tokenizer_revision", None)
    mistral = getattr(model_config, "tokenizer_mode", "auto") == "mistral"
    wanted = _MISTRAL if mistral else ("tokenizer.json",)
    folder = Path(name) if os.path.exists(name) else _cached(name, revision, wanted[0])
    if folder is None:
        return None
    if folder.is_file():
        return str(folder.absolute())
    found = sorted(path for pattern in wanted for path in folder.glob(pattern))
    if not found:
        return None
    return str((found[0] if mistral else folder).absolute())


def _cached(name: str, revision: str | None, file: str) -> Path | None:
    """The snapshot in the local cache of the Hugging Face hub. Nothing is fetched."""
    try:
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(name, file, revision=revision)
    except (ImportError, ValueError):  # ValueError: not the name of a repository
        return None
    return Path(path).parent if isinstance(path, str) else None


def _described(tokenizer: Any, folder: Path) -> Path:
    """Write what a worker needs of a live tokenizer of the `tokenizers` library."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not callable(getattr(backend, "to_str", None)):
        raise SchemacError(
            f"a tokenizer of class {type(tokenizer).__name__} without files here is not of a known kind",
            construct="tokenizer", hint='name its files: {"schemac": {"tokenizer": PATH}} in --additional-config',
        )  # fmt: skip
    assert backend is not None
    added = [[i, t.content, t.special] for i, t in sorted(tokenizer.added_tokens_decoder.items())]
    data = {
        "tokenizer": backend.to_str(),
        "added": added,
        "length": len(tokenizer),
        "eos_token_id": tokenizer.eos_token_id,
        "all_special_tokens": [str(token) for token in tokenizer.all_special_tokens],
    }
    text = json.dumps(data)
    path = folder / f"tokenizer-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if not path.exists():
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(text, "utf-8")
        os.replace(temporary, path)
    return path
