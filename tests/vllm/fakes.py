"""Stand-ins for what vLLM hands to the backend; of the real things they have what the backend reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass
class Outputs:
    """`StructuredOutputsParams`."""

    json: Any = None
    regex: str | None = None
    choice: Any = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None


@dataclass
class Params:
    """`SamplingParams`."""

    structured_outputs: Outputs | None
    max_tokens: int | None = None
    extra_args: dict[str, Any] | None = None


@dataclass
class Request:
    """`Request` of the scheduler."""

    num_output_tokens: int = 0
    tokens: list[int] = field(default_factory=list)


def config(*, disable_any_whitespace: bool = False) -> Any:
    """`StructuredOutputsConfig`."""
    return SimpleNamespace(backend="schemac", disable_any_whitespace=disable_any_whitespace)
