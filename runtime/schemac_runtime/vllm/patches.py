"""What is changed in vLLM, which has no place to add a backend. Each change leaves every other backend as it was.

- The configuration accepts the name ``schemac``.
- The manager in the engine makes our backend, and gets grammars from it without its own thread pool.
- Sampling parameters are validated by our admission; an asynchronous engine awaits it first, so that the event loop is
  free while something compiles, and a request that is to be streamed awaits it before its response begins, so that a
  refusal is a response of its own with status 400.
"""

from __future__ import annotations

import contextvars
import importlib
import typing
from collections.abc import Callable, Mapping
from typing import Any

from schemac_runtime.errors import SchemacError
from schemac_runtime.serving.metrics import register as register_metrics
from schemac_runtime.vllm.admission import Admission
from schemac_runtime.vllm.rows import patch_runner
from schemac_runtime.vllm.server import programs_for, settings_of
from schemac_runtime.vllm.session import session_folder
from schemac_runtime.vllm.versions import REINSTALL, STREAMING, Version, VersionError, checked

NAME = "schemac"
_MARK = "_schemac_patched"
#: Admissions by the identity of vLLM's structured outputs configuration, which is kept with them.
_admissions: dict[int, tuple[Any, Admission]] = {}
#: Sampling parameters handed to the engine while a response is being prepared.
_noted: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("schemac_noted", default=None)
_registered: list[bool] = []


def apply(version: Version) -> None:
    """Patch vLLM, once. What only a server has follows when its input processor is made.

    Raises:
        VersionError: it is not as it was when this was written. Then nothing is changed.
    """
    targets = _targets(version, version.expected)
    if "StructuredOutputsConfig._validate_structured_output_config" in targets:
        _accept_name()
    for path, patch in {
        "StructuredOutputManager.grammar_init": lambda original: _grammar_init(original, version),
        "SamplingParams._validate_structured_outputs": _validate,
        "InputProcessor.__init__": lambda original: _input_processor(original, version),
    }.items():
        if path in targets:
            _replace(*targets[path], patch)
    if version.row_ids:
        patch_runner(version)


def apply_to_server(version: Version) -> None:
    """Patch what serves requests, once.

    Raises:
        VersionError: it is not as it was when this was written.
    """
    targets = _targets(version, version.serving)
    for path, patch in {"AsyncLLM.add_request": _add_request, "AsyncLLM.generate": _generate}.items():
        if path in targets:
            _replace(*targets[path], patch)
    for module, owner, attribute in STREAMING:
        try:
            found = getattr(importlib.import_module(module), owner)
        except (ImportError, AttributeError):  # a vLLM without the server's packages
            continue
        if hasattr(found, attribute):
            _replace(found, attribute, _create)


def _targets(version: Version, expected: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[Any, str]]:
    """Owner and attribute of each function that is not patched yet, by its name in the module."""
    targets: dict[str, tuple[Any, str]] = {}
    for name, arguments in expected.items():
        module, _, path = name.partition(":")
        owner, _, attribute = path.partition(".")
        try:
            found = getattr(importlib.import_module(module), owner)
            function = getattr(found, attribute)
        except (ImportError, AttributeError) as error:
            raise VersionError(
                f"the installed vLLM {version.text} has no {name}", construct="vllm", hint=REINSTALL
            ) from error
        if not getattr(function, _MARK, False):
            checked(version, name, function, arguments)
            targets[path] = found, attribute
    return targets


def _replace(owner: Any, attribute: str, patch: Callable[[Any], Any]) -> None:
    original = getattr(owner, attribute)
    if getattr(original, _MARK, False):
        return
    changed = patch(original)
    changed.__name__, changed.__doc__ = attribute, original.__doc__
    changed.__wrapped__ = original
    setattr(changed, _MARK, True)
    setattr(owner, attribute, changed)


# -- configuration -----------------------------------------------------------------------------------------------


def _accept_name() -> None:
    """Let the configuration take the name, and check what it means with the other options."""
    from pydantic.dataclasses import rebuild_dataclass
    from vllm.config import structured_outputs as module

    config = module.StructuredOutputsConfig
    names = (*typing.get_args(module.StructuredOutputsBackend), NAME)
    wider = typing.Literal[names]  # type: ignore[valid-type]
    rule = config.__pydantic_decorators__.model_validators["_validate_structured_output_config"]
    original = rule.func

    def validate(self: Any) -> Any:
        if self.backend != NAME:
            return original(self)
        if self.disable_additional_properties:
            raise ValueError(f"disable_additional_properties is not supported by the {NAME} backend.")
        session_folder()  # now, so that the processes that are started later share it
        return self

    config.__annotations__["backend"] = wider
    config.__dataclass_fields__["backend"].type = wider
    module.StructuredOutputsBackend = wider
    rule.func = validate
    setattr(validate, _MARK, True)
    config._validate_structured_output_config = validate
    rebuild_dataclass(config, force=True)


# -- engine ------------------------------------------------------------------------------------------------------


def _grammar_init(original: Any, version: Version) -> Any:
    def grammar_init(self: Any, request: Any) -> Any:
        asked = request.structured_output_request
        if asked is None or request.sampling_params.structured_outputs._backend != NAME:
            return original(self, request)
        if self.backend is None:
            from schemac_runtime.vllm.backend import SchemacBackend

            size = self.vllm_config.model_config.get_vocab_size()
            version.made(self, SchemacBackend(self.vllm_config, tokenizer=self.tokenizer, vocab_size=size))
        grammar = self.backend.grammar_of(request)
        if not self._use_async_grammar_compilation:  # ranks that schedule by themselves must agree when it is ready
            grammar.exception()
        asked.grammar = grammar
        return None

    return grammar_init


# -- admission ---------------------------------------------------------------------------------------------------


def _input_processor(original: Any, version: Version) -> Any:
    def __init__(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, vllm_config, *args, **kwargs)
        config = vllm_config.structured_outputs_config
        if config is not None and config.backend == NAME and self.tokenizer is not None:
            apply_to_server(version)
            _admissions[id(config)] = config, _new_admission(vllm_config, self.tokenizer)

    return __init__


def _new_admission(vllm_config: Any, tokenizer: Any) -> Admission:
    programs = programs_for(vllm_config, tokenizer, keep=False)
    admission = Admission(programs, settings_of(vllm_config), vllm_config.structured_outputs_config)
    if not _registered:
        _registered.append(register_metrics(programs.metrics, programs.folder))
    admission.start()
    return admission


def admission_of(config: Any) -> Admission | None:
    """The admission of the engine with this structured outputs configuration."""
    found = _admissions.get(id(config))
    return None if found is None or found[0] is not config else found[1]


def _refused(error: SchemacError) -> Exception:
    from vllm.exceptions import VLLMValidationError

    refusal: Exception = VLLMValidationError(str(error), parameter="structured_outputs")
    return refusal


def _validate(original: Any) -> Any:
    def _validate_structured_outputs(self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any,
                                     ) -> Any:  # fmt: skip
        asked = self.structured_outputs
        config = structured_outputs_config
        if config is None or asked is None or config.backend != NAME:
            return original(self, model_config, config, tokenizer)
        if model_config.is_diffusion:
            raise _refused(SchemacError("structured outputs do not work with diffusion models"))
        if tokenizer is None:
            raise _refused(SchemacError("structured outputs need a tokenizer, which skip_tokenizer_init leaves out"))
        if asked._backend not in (None, NAME):
            reason = f"the backend is {NAME}; a request cannot choose another"
            raise _refused(SchemacError(reason, construct="_backend"))
        admission = admission_of(config)
        if admission is None:
            raise _refused(SchemacError("this engine was set up without the backend schemac", construct="backend"))
        try:
            admission.check(self)
        except SchemacError as error:
            raise _refused(error) from error
        asked._backend = NAME
        asked.__post_init__()
        return None

    return _validate_structured_outputs


async def _admit(engine: Any, params: Any) -> None:
    if getattr(params, "structured_outputs", None) is None:
        return
    admission = admission_of(engine.vllm_config.structured_outputs_config)
    if admission is not None:
        try:
            await admission.admit(params)
        except SchemacError as error:
            raise _refused(error) from error


def _add_request(original: Any) -> Any:
    async def add_request(self: Any, request_id: Any, prompt: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        await _admit(self, params)
        return await original(self, request_id, prompt, params, *args, **kwargs)

    return add_request


def _generate(original: Any) -> Any:
    def generate(self: Any, prompt: Any, sampling_params: Any, request_id: Any, *args: Any, **kwargs: Any) -> Any:
        noted = _noted.get()
        if noted is not None:
            noted.append((self, sampling_params))
        return original(self, prompt, sampling_params, request_id, *args, **kwargs)

    return generate


def _create(original: Any) -> Any:
    async def create(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(request, "use_beam_search", False) and _is_ours(self):
            _refuse_beams(request)
        if not getattr(request, "stream", False):
            return await original(self, request, *args, **kwargs)
        noted: list[Any] = []
        token = _noted.set(noted)
        try:
            result = await original(self, request, *args, **kwargs)
        finally:
            _noted.reset(token)
        try:
            for engine, params in noted:
                await _admit(engine, params)
        except BaseException:
            if hasattr(result, "aclose"):
                await result.aclose()
            raise
        return result

    return create


def _is_ours(serving: Any) -> bool:
    config = getattr(getattr(serving, "engine_client", None), "vllm_config", None)
    return config is not None and config.structured_outputs_config.backend == NAME


def _refuse_beams(request: Any) -> None:
    """vLLM's beam search drops the constraint of a request."""
    forced = getattr(request, "tool_choice", None) not in (None, "none", "auto")
    asked = getattr(request, "extract_structured_outputs", lambda: getattr(request, "structured_outputs", None))()
    if forced or asked is not None:
        raise _refused(SchemacError("beam search cannot be constrained", construct="use_beam_search"))
