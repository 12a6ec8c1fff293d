"""What a request says, read the same way at admission and in the engine. Imports nothing of vLLM."""

from __future__ import annotations

import json
from typing import Any

from schemac_runtime.errors import SchemacError
from schemac_runtime.serving.constraint import Constraint, constraint
from schemac_runtime.serving.settings import Settings

#: The request-level switch, in `extra_args` of the sampling parameters (`vllm_xargs` of the OpenAI API).
FINISH = "schemac_finish"


class RequestError(SchemacError):
    """A request asks for something that is not there."""


def compile_options(settings: Settings, config: Any, params: Any = None) -> dict[str, Any]:
    """The options of the compile.

    Args:
        settings: of the server.
        config: vLLM's structured outputs configuration.
        params: the structured outputs parameters of the request, if it is at hand.

    Raises:
        RequestError: the request has an option that would be ignored.
    """
    for name in ("whitespace_pattern", "disable_additional_properties"):
        if params is not None and getattr(params, name, None):
            raise RequestError("the backend schemac has no such option", construct=name, hint="leave it out")
    whitespace = settings.whitespace or "flexible"
    if config.disable_any_whitespace or (params is not None and getattr(params, "disable_any_whitespace", False)):
        whitespace = "compact"
    return {"whitespace": whitespace, "key_order": settings.key_order, "strict": settings.strict}


def constraint_of(params: Any, options: dict[str, Any]) -> Constraint:
    """The constraint of structured outputs parameters; the order is that of vLLM's `get_structured_output_key`.

    Raises:
        RequestError: there is none, or it is of another type than its name says.
    """
    if params.json is not None:
        return constraint("JSON", _text(params.json, "json"), options)
    if params.json_object is not None:
        if params.json_object is not True:
            raise RequestError("must be true, or left out", construct="json_object")
        return constraint("JSON_OBJECT", "", options)
    for name in ("regex", "choice", "grammar", "structural_tag"):
        value = getattr(params, name)
        if value is not None:
            if name == "choice" and not value:
                raise RequestError("an empty list allows nothing", construct="choice")
            return constraint(name.upper(), _text(value, name), options)
    raise RequestError("there is no constraint", construct="structured_outputs")


def _text(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    if name in ("json", "choice"):
        try:
            return json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestError(f"not JSON: {error}", construct=name) from error
    raise RequestError(f"expected a text, not {type(value).__name__}", construct=name)


def wants_finish(params: Any, settings: Settings) -> bool:
    """Whether the answer is to be kept within `max_tokens`.

    Raises:
        RequestError: the switch has another value than true or false.
    """
    value = (getattr(params, "extra_args", None) or {}).get(FINISH)
    if value is None:
        return settings.finish
    named = {True: True, False: False, "true": True, "false": False, "1": True, "0": False}
    if isinstance(value, (bool, int, str)) and value in named:
        return named[value]
    raise RequestError(f"{value!r} is not true or false", construct=FINISH)
