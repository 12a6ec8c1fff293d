"""How models write calls of tools, as structural tags.

Each format is what the chat template of its models shows them, and what vLLM's tool parser of that name reads. A call
is `before` + name + `after` + arguments + `end`; all calls stand between `opening` and `closing`:

    <｜tool▁calls▁begin｜>       opening
    <｜tool▁call▁begin｜>        before
    get_time
    <｜tool▁sep｜>               after
    {"zone": "CET"}
    <｜tool▁call▁end｜>          end
    <｜tool▁calls▁end｜>         closing
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemac.errors import SourceError

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Call:
    """What stands around the name and the arguments of one call."""

    before: str
    after: str
    end: str = ""


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """How one family of models writes calls.

    Attributes:
        calls: one call; several ways to write it are alternatives.
        trigger: what free text cannot contain without going on as a call; a prefix of `opening`, or of each `before`.
        opening, closing: around all calls.
        separator: between two calls.
        style: of the arguments, as in the format ``json_schema`` of structural tags.
    """

    calls: tuple[Call, ...]
    trigger: str
    opening: str = ""
    closing: str = ""
    separator: str = ""
    style: str = "json"

    def text(self) -> Json:
        """Free text without calls."""
        return _tag({"type": "any_text", "excludes": [self.trigger]})

    def one_call(self, name: str, schema: object) -> Json:
        """Exactly one call of one tool."""
        return _tag(self._block([(name, schema)], parallel=False))

    def some_calls(self, tools: Sequence[tuple[str, object]], *, parallel: bool) -> Json:
        """Calls, at least one, and nothing else.

        Args:
            tools: (name, schema of the arguments).
            parallel: whether there may be several.
        """
        return _tag(self._block(tools, parallel=parallel))

    def text_and_calls(self, tools: Sequence[tuple[str, object]], *, parallel: bool) -> Json:
        """Free text in which there may be calls; if not `parallel`, at most one, at the end."""
        tags = [self._block(tools, parallel=parallel)] if self.opening else self._tags(tools)
        return _tag({
            "type": "triggered_tags", "triggers": [self.trigger], "tags": tags, "stop_after_first": not parallel
        })  # fmt: skip

    def _block(self, tools: Sequence[tuple[str, object]], *, parallel: bool) -> Json:
        tags = self._tags(tools)
        calls: Json = {
            "type": "tags_with_separator", "tags": tags, "separator": self.separator, "at_least_one": True,
            "stop_after_first": not parallel,
        }  # fmt: skip
        if not self.opening:
            return calls
        return {"type": "tag", "begin": self.opening, "content": calls, "end": self.closing}

    def _tags(self, tools: Sequence[tuple[str, object]]) -> list[Json]:
        return [
            {
                "type": "tag",
                "begin": call.before + self._written(name, call) + call.after,
                "content": {"type": "json_schema", "json_schema": schema, "style": self.style},
                "end": call.end,
            }
            for name, schema in tools
            for call in self.calls
        ]

    def _written(self, name: str, call: Call) -> str:
        """A name as it stands in a call.

        Raises:
            SourceError: it cannot be told from what follows it.
        """
        if call.before.endswith('"'):
            return json.dumps(name, ensure_ascii=False)[1:-1]
        if not name or any(char in "<>[]{}\"'`" or char.isspace() for char in name):
            raise SourceError(f"calls of a tool called {name!r} cannot be written in this format", hint="rename it")
        return name


def _tag(format_: Json) -> Json:
    return {"type": "structural_tag", "format": format_}


_LLAMA = ModelFormat((Call('{"name": "', '", "parameters": ', "}"),), '{"name": ', separator="; ")
_HERMES = ModelFormat(
    (
        Call('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>"),
        Call('<tool_call>{"name": "', '", "arguments": ', "}</tool_call>"),
    ),
    "<tool_call>",
    separator="\n",
)
_QWEN_CODER = ModelFormat(
    (Call("<tool_call>\n<function=", ">\n", "\n</function>\n</tool_call>"),),
    "<tool_call>",
    separator="\n",
    style="qwen_xml",
)
# Since version 11 of Mistral's tokenizers; since version 13, the arguments follow a marker of their own.
_MISTRAL = ModelFormat((Call("[TOOL_CALLS]", "[ARGS]"), Call("[TOOL_CALLS]", "")), "[TOOL_CALLS]")
_MISTRAL_LIST = ModelFormat(
    (Call('{"name": "', '", "arguments": ', "}"),), "[TOOL_CALLS]", "[TOOL_CALLS][", "]", ", "
)
_DEEPSEEK_V3 = ModelFormat(
    (Call("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n", "\n```<｜tool▁call▁end｜>"),),
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "\n",
)
_DEEPSEEK_V31 = ModelFormat(
    (Call("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),),
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
)

#: By the names of vLLM's tool parsers, then by those of xgrammar's structural tags.
MODEL_FORMATS: Mapping[str, ModelFormat] = {
    "llama3_json": _LLAMA,
    "hermes": _HERMES,
    "mistral": _MISTRAL,
    "mistral_list": _MISTRAL_LIST,
    "deepseek_v3": _DEEPSEEK_V3,
    "deepseek_v31": _DEEPSEEK_V31,
    "qwen3_coder": _QWEN_CODER,
    "qwen3_xml": _QWEN_CODER,
    "llama": _LLAMA,
    "qwen_3": _HERMES,
    "qwen_3_coder": _QWEN_CODER,
    "qwen_3_5": _QWEN_CODER,
    "deepseek_r1": _DEEPSEEK_V3,
    "deepseek_v3_1": _DEEPSEEK_V31,
}


def model_format(name: str) -> ModelFormat:
    """The format of a name.

    Raises:
        SourceError: there is none.
    """
    found = MODEL_FORMATS.get(name)
    if found is None:
        hint = "one of " + ", ".join(MODEL_FORMATS)
        raise SourceError(f"there is no model format {name!r}", construct="model_format", hint=hint)
    return found
