"""Tools: from an OpenAI-style list of ``tools`` and a ``tool_choice`` to the constraint they ask for.

    tool_choice     without a model format              with one (`tool_formats`)
    named           the arguments, as a schema          one call
    required        a list of name and parameters,      calls, at least one
                    as a schema
    auto            refused: there is nothing to tell   free text, calls in it
                    a call by
    none            free text                           free text without calls

A tool whose schema cannot be lowered is refused with its name, or, if so asked, left out, or loosened with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from schemac.budget import Budget
from schemac.errors import BudgetExceeded, SchemacError, SourceError, UnsupportedError
from schemac.frontend.json_schema import JsonSchemaOptions, SchemaWarning, json_schema_module
from schemac.frontend.json_schema.load import load
from schemac.frontend.located import moved
from schemac.frontend.structural_tag import GrammarFrontend, structural_tag_module
from schemac.frontend.structural_tag.xml_styles import STYLES, write_parameters
from schemac.frontend.tool_formats import ModelFormat, model_format
from schemac.ir.graph import Module

#: What to do with a tool that cannot be lowered.
POLICIES = ("refuse", "drop", "loosen")
_ANY_OBJECT: Mapping[str, object] = {"type": "object"}
_FIELDS = ("tools", "tool_choice", "parallel_tool_calls", "strict", "model_format", "policy")


@dataclass(frozen=True, slots=True)
class Tool:
    """One function.

    Attributes:
        name: as the model writes it.
        schema: of its arguments; an object of its own for each tool.
        place: JSON pointer of the schema in the request.
    """

    name: str
    schema: object
    place: str


@dataclass(frozen=True, slots=True)
class ToolsSource:
    """What to compile.

    Attributes:
        kind: ``json-schema`` or ``structural-tag``.
        source: JSON data.
        tools: by the JSON pointer in `source` where the schema of a tool stands.
    """

    kind: str
    source: Any
    tools: Mapping[str, Tool] = field(default_factory=dict)

    def blame(self, error: SchemacError) -> SchemacError:
        """The error, with a place within the schema of a tool told as the tool's name and its place in the request."""
        found = self._tool_of(error.place)
        if found is not None:
            error.place = found
        return error

    def blamed(self, warning: SchemaWarning) -> SchemaWarning:
        """Likewise for a warning."""
        found = self._tool_of(warning.place)
        return warning if found is None else replace(warning, place=found)

    def _tool_of(self, place: str | None) -> str | None:
        for prefix, tool in self.tools.items():
            if place == prefix or (place is not None and place.startswith((f"{prefix}/", f"{prefix}:"))):
                return f"tool {tool.name!r} {tool.place}{place[len(prefix) :]}"
        return None


def tools_source(
    tools: object,
    tool_choice: object = "auto",
    *,
    parallel_tool_calls: bool = True,
    strict: bool | None = None,
    model_format: str | None = None,
) -> ToolsSource:
    """The source of the constraint that a request with tools asks for.

    Args:
        tools: the list of a request, of the chat completions API (``{"type": "function", "function": {...}}``) or of
            the responses API (``{"type": "function", "name": ...}``).
        tool_choice: ``auto``, ``none``, ``required``, ``{"type": "function", "function": {"name": ...}}``, or
            ``{"type": "allowed_tools", ...}``.
        parallel_tool_calls: whether there may be several calls.
        strict: whether arguments must satisfy the schemas; None: unless a tool says ``"strict": false``. Arguments
            that need not are any object.
        model_format: a name of `tool_formats.MODEL_FORMATS`.

    Raises:
        SourceError: not a list of tools, or a choice that they do not offer.
        UnsupportedError: a tool that is no function.
    """
    listed = read_tools(tools, strict)
    return _source(listed, tool_choice, parallel_tool_calls, model_format)


def response_format_source(response_format: Mapping[str, Any]) -> ToolsSource | None:
    """The source of a ``response_format``; None for ``text``, which asks for no constraint.

    Raises:
        SourceError: it is none of the known ones.
    """
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return ToolsSource("json-schema", dict(_ANY_OBJECT))
    if kind == "structural_tag":
        return ToolsSource("structural-tag", response_format)
    if kind == "json_schema":
        described = response_format.get("json_schema")
        schema = described.get("schema") if isinstance(described, Mapping) else None
        if schema is None:
            raise SourceError("there is no schema", place="#/json_schema/schema", construct="response_format")
        return ToolsSource("json-schema", schema)
    raise SourceError(
        f"there is no response format {kind!r}", place="#/type", construct="response_format",
        hint="one of text, json_object, json_schema, structural_tag",
    )  # fmt: skip


def tools_module(
    source: object,
    *,
    schemas: JsonSchemaOptions,
    grammar: GrammarFrontend,
    budget: Budget,
    warn: Callable[[str], None],
) -> Module:
    """The module of a request with tools.

    Args:
        source: JSON text or data: an object with ``tools``, and the arguments of `tools_source` by name; ``policy`` is
            one of `POLICIES`.
        schemas, grammar, budget: as `structural_tag_module`.
        warn: told about what asserts nothing, and about tools left out or loosened.

    Raises:
        SchemacError: as `tools_source` and the frontends; the place names the tool.
    """
    request = load(source, budget)
    if not isinstance(request, dict):
        raise SourceError("expected an object with `tools`", place="#")
    for name in request:
        if name not in _FIELDS:
            hint = "known here: " + ", ".join(_FIELDS)
            raise SourceError(f"there is no field {name!r} here", place=f"#/{name}", hint=hint)
    policy = request.get("policy", "refuse")
    if policy not in POLICIES:
        raise SourceError(f"there is no policy {policy!r}", place="#/policy", hint="one of " + ", ".join(POLICIES))
    parallel, strict, format_name = (
        _typed(request, name, types) for name, types in
        (("parallel_tool_calls", bool), ("strict", bool), ("model_format", str))
    )  # fmt: skip
    tools = read_tools(request.get("tools"), cast("bool | None", strict))
    if policy != "refuse":
        sieve = _Sieve(schemas, _style(cast("str | None", format_name)), budget, warn, loosen=policy == "loosen")
        tools = sieve.kept(tools)
    choice = request.get("tool_choice", "auto")
    built = _source(tools, choice, parallel is not False, cast("str | None", format_name))

    def warn_of(warning: SchemaWarning) -> None:
        warn(str(built.blamed(warning)))

    try:
        if built.kind == "json-schema":
            return json_schema_module(built.source, options=schemas, budget=budget, warn=warn_of)
        return structural_tag_module(built.source, schemas=schemas, grammar=grammar, budget=budget, warn=warn_of)
    except SchemacError as error:
        raise built.blame(error) from None


def _typed(request: Mapping[str, object], name: str, expected: type) -> object:
    value = request.get(name)
    if value is not None and not isinstance(value, expected):
        raise SourceError(f"expected a {expected.__name__}", place=f"#/{name}", construct=name)
    return value


# -- reading -------------------------------------------------------------------------------------------------------


def read_tools(tools: object, strict: bool | None = None) -> list[Tool]:
    """The functions of a list of tools.

    Raises:
        SourceError: it is no such list, or a name is missing or there twice.
        UnsupportedError: a tool of another type.
    """
    if not isinstance(tools, Sequence) or isinstance(tools, (str, bytes)):
        raise SourceError("expected a list of tools", place="#/tools", construct="tools")
    found: dict[str, Tool] = {}
    for index, value in enumerate(tools):
        tool = _tool(value, f"#/tools/{index}", strict)
        if tool.name in found:
            raise SourceError(f"there are two tools called {tool.name!r}", place=f"#/tools/{index}")
        found[tool.name] = tool
    return list(found.values())


def _tool(value: object, place: str, strict: bool | None) -> Tool:
    if not isinstance(value, Mapping):
        raise SourceError("expected an object", place=place)
    kind = value.get("type", "function")
    if kind != "function":
        raise UnsupportedError(
            f"a tool of type {kind!r} has no schema to go by", place=f"{place}/type", construct="type",
            hint="only functions are supported",
        )  # fmt: skip
    function, inner = value, place
    if "function" in value:
        function, inner = value["function"], f"{place}/function"
        if not isinstance(function, Mapping):
            raise SourceError("expected an object", place=inner)
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise SourceError("the tool has no name", place=f"{inner}/name", construct="name")
    enforced = function.get("strict") is not False if strict is None else strict
    schema = function.get("parameters")
    place = f"{inner}/parameters"
    if schema is None or schema == {} or not enforced:
        return Tool(name, dict(_ANY_OBJECT), place)
    if not isinstance(schema, Mapping):
        raise SourceError("not a schema: expected an object", place=f"tool {name!r} {place}", construct="parameters")
    return Tool(name, dict(schema), place)


def _chosen(tools: list[Tool], choice: object) -> tuple[list[Tool], str]:
    """The tools that a choice leaves, and its mode: ``auto``, ``none``, ``required`` or ``named``."""
    place = "#/tool_choice"
    if choice is None:
        choice = "auto"
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            hint = "auto, none, required, or an object that names a function"
            raise SourceError(f"there is no tool choice {choice!r}", place=place, construct="tool_choice", hint=hint)
        if choice == "required" and not tools:
            raise SourceError("a call is required, and there is no tool", place=place, construct="tool_choice")
        return tools, choice
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        allowed = choice.get("allowed_tools", choice)
        if not isinstance(allowed, Mapping) or allowed.get("mode") not in ("auto", "required"):
            raise SourceError("expected the mode auto or required", place=place, construct="allowed_tools")
        listed = allowed.get("tools")
        if not isinstance(listed, Sequence):
            raise SourceError("expected a list of tools", place=place, construct="allowed_tools")
        names = [_chosen_name(one, place) for one in listed]
        _check_names(tools, names, place)
        return _chosen([tool for tool in tools if tool.name in names], allowed["mode"])
    name = _chosen_name(choice, place)
    _check_names(tools, [name], place)
    return [tool for tool in tools if tool.name == name], "named"


def _chosen_name(choice: object, place: str) -> str:
    inner = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str) or not isinstance(choice, Mapping) or choice.get("type", "function") != "function":
        raise SourceError("expected an object that names a function", place=place, construct="tool_choice")
    return name


def _check_names(tools: list[Tool], names: list[str], place: str) -> None:
    known = {tool.name for tool in tools}
    for name in names:
        if name not in known:
            raise SourceError(f"there is no tool called {name!r}", place=place, construct="tool_choice")


# -- building ------------------------------------------------------------------------------------------------------


def _source(tools: list[Tool], choice: object, parallel: bool, format_name: str | None) -> ToolsSource:
    chosen, mode = _chosen(tools, choice)
    if format_name is not None:
        tag = _tag_source(model_format(format_name), chosen, mode, parallel)
        return ToolsSource("structural-tag", tag, _places(tag, chosen))
    if mode == "none" or (mode == "auto" and not chosen):
        return ToolsSource("structural-tag", {"type": "structural_tag", "format": {"type": "any_text"}})
    if mode == "auto":
        raise SourceError(
            "free text with calls in it needs to know how the model writes a call", place="#/tool_choice",
            construct="tool_choice", hint="name a model format",
        )  # fmt: skip
    if mode == "named":
        return ToolsSource("json-schema", chosen[0].schema, {"#": chosen[0]})
    listed = _list_schema(chosen, parallel)
    return ToolsSource("json-schema", listed, _places(listed, chosen))


def _tag_source(format_: ModelFormat, tools: list[Tool], mode: str, parallel: bool) -> dict[str, object]:
    pairs = [(tool.name, tool.schema) for tool in tools]
    if mode == "none" or (mode == "auto" and not tools):
        return format_.text()
    if mode == "named":
        return format_.one_call(*pairs[0])
    write = format_.some_calls if mode == "required" else format_.text_and_calls
    return write(pairs, parallel=parallel)


def _list_schema(tools: list[Tool], parallel: bool) -> dict[str, object]:
    """The list that vLLM reads the calls from when one is required: name and parameters of each."""
    calls = []
    for index, tool in enumerate(tools):
        schema = tool.schema
        if isinstance(schema, dict) and "$id" not in schema and "id" not in schema:
            schema["$id"] = f"tool:{index}"  # references in it are to itself
        calls.append({
            "properties": {"name": {"type": "string", "enum": [tool.name]}, "parameters": schema},
            "required": ["name", "parameters"],
            "additionalProperties": False,
        })  # fmt: skip
    listed: dict[str, object] = {"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": calls}}
    if not parallel:
        listed["maxItems"] = 1
    return listed


def _places(source: object, tools: list[Tool]) -> dict[str, Tool]:
    """Where the schemas of tools stand in a source, longer pointers first."""
    by_identity = {id(tool.schema): tool for tool in tools}
    found: dict[str, Tool] = {}
    stack: list[tuple[object, str]] = [(source, "#")]
    while stack:
        value, place = stack.pop()
        if id(value) in by_identity:
            found[place] = by_identity[id(value)]
        elif isinstance(value, dict):
            stack.extend((child, f"{place}/{name}") for name, child in value.items())
        elif isinstance(value, list):
            stack.extend((child, f"{place}/{index}") for index, child in enumerate(value))
    return found


# -- tools that cannot be lowered ----------------------------------------------------------------------------------


def _style(format_name: str | None) -> str:
    return "json" if format_name is None else model_format(format_name).style


class _Sieve:
    """Tries each tool by itself, and leaves out or loosens those that fail."""

    def __init__(
        self,
        schemas: JsonSchemaOptions,
        style: str,
        budget: Budget,
        warn: Callable[[str], None],
        *,
        loosen: bool,
    ) -> None:
        self._schemas = schemas
        self._style = style
        self._budget = budget
        self._warn = warn
        self._loosen = loosen

    def kept(self, tools: list[Tool]) -> list[Tool]:
        """The tools that can be lowered, as they are or loosened."""
        kept = []
        for tool in tools:
            usable = self._loosened(tool) if self._loosen else self._whole(tool)
            if usable is not None:
                kept.append(usable)
        return kept

    def _whole(self, tool: Tool) -> Tool | None:
        error = self._error(tool.schema)
        if error is None:
            return tool
        self._report(tool, error, "the tool is left out")
        return None

    def _loosened(self, tool: Tool) -> Tool:
        """The tool with the failing fields free, one after the other, or with any object as its arguments."""
        schema = tool.schema
        while True:
            error = self._error(schema)
            if error is None:
                return replace(tool, schema=schema)
            name = _failing_property(schema, error.place)
            if name is None or not isinstance(schema, dict):
                self._report(tool, error, "its arguments may be any object")
                return replace(tool, schema=dict(_ANY_OBJECT))
            self._report(tool, error, f"its field {name!r} may have any value")
            schema = {**schema, "properties": {**schema["properties"], name: {}}}

    def _error(self, schema: object) -> SchemacError | None:
        """Why a schema cannot be lowered; what the attempt has used is not counted."""
        used = dict(self._budget.used)
        try:
            if self._style == "json":
                json_schema_module(schema, options=self._schemas, budget=self._budget)
            else:
                write_parameters(schema, STYLES[self._style], self._schemas, self._budget, lambda _: None)
        except SchemacError as error:
            if isinstance(error, BudgetExceeded) and error.budget == "seconds":
                raise
            return error
        finally:
            self._budget.used.update(used)
        return None

    def _report(self, tool: Tool, error: SchemacError, outcome: str) -> None:
        place = f"tool {tool.name!r} {moved(tool.place, error.place)}"
        construct = f" `{error.construct}`" if error.construct else ""
        self._warn(f"{place}{construct}: {error.reason}; {outcome}")


def _failing_property(schema: object, place: str | None) -> str | None:
    """The property in whose schema a place is, unless that is free already."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if place is None or not isinstance(properties, Mapping):
        return None
    for name, value in properties.items():
        prefix = "#/properties/" + name.replace("~", "~0").replace("/", "~1")
        if value != {} and (place == prefix or place.startswith((f"{prefix}/", f"{prefix}:"))):
            return str(name)
    return None
