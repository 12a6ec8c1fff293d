"""The configuration files in a model's folder that say more about its vocabulary than the tokenizer file.

``config.json``                vocab_size and eos_token_id, at the top or inside the text part of a multimodal model
``generation_config.json``     eos_token_id
``tokenizer_config.json``      eos_token and other roles, added_tokens_decoder with the `special` flags
``special_tokens_map.json``    roles
``added_tokens.json``          text -> id; read only where the tokenizer file itself cannot hold added tokens
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemac.vocabulary.files import Reader, read_json
from schemac.vocabulary.trie import MAX_SIZE

#: Where multimodal configurations keep the part about the language model.
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
#: Roles whose tokens the tokenizer treats as special whatever their flag says.
_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_ROLE_LISTS = ("additional_special_tokens", "extra_special_tokens")


@dataclass(frozen=True)
class ModelFiles:
    """What the files in one folder say.

    Attributes:
        place: the folder, for messages.
        size: model vocabulary size, if given.
        stop_ids: ids that end a text, by configuration and generation configuration.
        stop_texts: texts of the end-of-text token by the tokenizer's configuration.
        special_texts: texts of all tokens that have a role.
        added: (id, text, special) of added tokens; special is None where the file does not say.
    """

    place: str = ""
    size: int | None = None
    stop_ids: tuple[int, ...] = ()
    stop_texts: tuple[str, ...] = ()
    special_texts: tuple[str, ...] = ()
    added: tuple[tuple[int, str, bool | None], ...] = ()


def read_model_files(folder: Path, *, with_added_tokens: bool) -> ModelFiles:
    """Read the files that are there; a missing one is fine.

    Args:
        folder: the model's folder.
        with_added_tokens: read ``added_tokens.json`` too.

    Raises:
        VocabularyError: a file is damaged or a field has an unexpected type.
    """
    size: int | None = None
    stop_ids: list[int] = []
    stop_texts: list[str] = []
    special_texts: list[str] = []
    added: list[tuple[int, str, bool | None]] = []

    for name in ("config.json", "generation_config.json"):
        path = folder / name
        if path.is_file():
            read = Reader(str(path))
            config = read_json(path)
            parts = [config, *(config[key] for key in _TEXT_PARTS if isinstance(config.get(key), dict))]
            for part in parts:
                stop_ids.extend(_ids(part.get("eos_token_id"), read))
                if size is None and part.get("vocab_size") is not None:
                    size = read.integer(part["vocab_size"], "vocab_size", MAX_SIZE)

    if with_added_tokens and (folder / "added_tokens.json").is_file():
        path = folder / "added_tokens.json"
        read = Reader(str(path))
        for text, token_id in read_json(path).items():
            added.append((read.integer(token_id, text, MAX_SIZE - 1), text, None))

    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        path = folder / name
        if path.is_file():
            read = Reader(str(path))
            config = read_json(path)
            for key, entry in read.mapping(config.get("added_tokens_decoder") or {}, "added_tokens_decoder").items():
                where = f"added_tokens_decoder.{key}"
                fields = read.mapping(entry, where)
                if not (key.isascii() and key.isdecimal() and len(key) < 10):
                    raise read.fail("a token id is expected as the key", where)
                token_id = read.integer(int(key), where, MAX_SIZE - 1)
                added.append((token_id, read.text(fields.get("content"), where), bool(fields.get("special", False))))
            stop_texts.extend(_texts(config.get("eos_token"), "eos_token", read))
            for role in _ROLES:
                special_texts.extend(_texts(config.get(role), role, read))
            for role in _ROLE_LISTS:
                listed = config.get(role) or []
                for entry in listed.values() if isinstance(listed, dict) else read.array(listed, role):
                    special_texts.extend(_texts(entry, role, read))

    return ModelFiles(
        place=str(folder),
        size=size,
        stop_ids=tuple(sorted(set(stop_ids))),
        stop_texts=tuple(dict.fromkeys(stop_texts)),
        special_texts=tuple(dict.fromkeys(special_texts)),
        added=tuple(added),
    )


def _ids(value: Any, read: Reader) -> list[int]:
    """Token ids given as nothing, one, or a list."""
    if value is None:
        return []
    listed = value if isinstance(value, list) else [value]
    return [read.integer(token_id, "eos_token_id", MAX_SIZE - 1) for token_id in listed]


def _texts(value: Any, role: str, read: Reader) -> list[str]:
    """A token's text given as nothing, a string, or an object with `content`."""
    if value is None:
        return []
    return [read.text(value.get("content") if isinstance(value, dict) else value, role)]
