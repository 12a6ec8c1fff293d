"""What the processes of one server share: settings, session folder, vocabulary. Imports nothing of vLLM."""

from __future__ import annotations

from typing import Any

from schemac_runtime.serving.metrics import Metrics
from schemac_runtime.serving.programs import Programs
from schemac_runtime.serving.settings import Settings
from schemac_runtime.vllm.session import session_folder
from schemac_runtime.vllm.vocabulary import vocabulary_choice

#: Our part of vLLM's `--additional-config`.
SECTION = "schemac"


def settings_of(vllm_config: Any) -> Settings:
    """The operator's settings.

    Raises:
        SettingsError: one is not known.
    """
    additional = getattr(vllm_config, "additional_config", None)
    return Settings.of(additional.get(SECTION) if isinstance(additional, dict) else None)


def programs_for(vllm_config: Any, tokenizer: Any, *, keep: bool) -> Programs:
    """The programs of this process.

    Raises:
        SchemacError: a setting is not known, or the tokenizer cannot be used.
    """
    settings = settings_of(vllm_config)
    folder = session_folder()
    choice = vocabulary_choice(vllm_config.model_config, tokenizer, settings.tokenizer, folder)
    return Programs(settings, choice, folder, keep=keep, metrics=Metrics())
