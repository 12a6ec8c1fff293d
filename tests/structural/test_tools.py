"""From a request with tools to its constraint."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

import schemac
from schemac.errors import SchemacError, SourceError, UnsupportedError
from schemac.frontend.tool_formats import MODEL_FORMATS
from schemac.frontend.tools import response_format_source, tools_source

CITY = {"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}}, "required": ["city"],
        "additionalProperties": False, "$defs": {"city": {"enum": ["Oslo", "Bergen"]}}}  # fmt: skip
DAYS = {"type": "object", "properties": {"days": {"type": "integer"}}, "additionalProperties": False}


def tool(name: str, schema: Any = None, **options: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema, **options}}


TOOLS = [tool("get", CITY), tool("get_days", DAYS), {"type": "function", "name": "flat", "parameters": None}]
NAMED = {"type": "function", "function": {"name": "get"}}


def compiled(**request: Any) -> schemac.Compiled:
    one = schemac.compile({"tools": TOOLS, **request})
    assert one.kind == "tools"
    return one


def accepts(one: schemac.Compiled, text: str) -> bool:
    return schemac.check(one.automaton, text.encode()).accepted


def test_required_is_the_list_that_vllm_reads() -> None:
    one = compiled(tool_choice="required")
    call = '{"name": "get", "parameters": {"city": "Oslo"}}'
    assert accepts(one, f"[{call}]")
    assert accepts(one, f'[{call}, {{"name":"get_days","parameters":{{}}}},\n{{"name":"flat","parameters":{{"x":1}}}}]')
    for text in ("[]", call, '[{"name": "get", "parameters": {}}]', '[{"name": "get"}]',
                 '[{"name": "gets", "parameters": {"city": "Oslo"}}]',
                 '[{"name": "get", "parameters": {"city": "Oslo"}, "x": 1}]',
                 '[{"name": "get_days", "parameters": {"city": "Oslo"}}]'):  # fmt: skip
        assert not accepts(one, text), text
    single = compiled(tool_choice="required", parallel_tool_calls=False)
    assert accepts(single, f"[{call}]")
    assert not accepts(single, f"[{call}, {call}]")


def test_named_is_the_arguments() -> None:
    for choice in (NAMED, {"type": "function", "name": "get"}):
        one = compiled(tool_choice=choice)
        assert accepts(one, '{"city": "Bergen"}')
        assert not accepts(one, '{"city": "Rome"}')


def test_none_and_auto_without_a_format() -> None:
    assert accepts(compiled(tool_choice="none"), "any text")
    assert accepts(schemac.compile({"tools": []}), "any text")
    with pytest.raises(SourceError, match="name a model format"):
        compiled()


CALLS = {
    "llama3_json": ('{"name": "get", "parameters": {"city": "Oslo"}}', "; "),
    "hermes": ('<tool_call>\n{"name": "get", "arguments": {"city": "Oslo"}}\n</tool_call>', "\n"),
    "mistral": ('[TOOL_CALLS]get[ARGS]{"city": "Oslo"}', ""),
    "mistral_list": ('{"name": "get", "arguments": {"city": "Oslo"}}', ", "),
    "deepseek_v3": (
        '<｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{"city": "Oslo"}\n```<｜tool▁call▁end｜>', "\n"),
    "deepseek_v31": ('<｜tool▁call▁begin｜>get<｜tool▁sep｜>{"city": "Oslo"}<｜tool▁call▁end｜>', ""),
    "qwen3_coder": (
        "<tool_call>\n<function=get>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>", "\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_model_formats(name: str) -> None:
    call, separator = CALLS[name]
    form = MODEL_FORMATS[name]

    def block(*calls: str) -> str:
        return form.opening + separator.join(calls) + form.closing

    auto, required, named, none = (
        compiled(tool_choice=choice, model_format=name) for choice in ("auto", "required", NAMED, "none")
    )
    wrong = call.replace("Oslo", "Rome")
    for one in (auto, required, named):
        assert accepts(one, block(call))
        assert not accepts(one, block(wrong))
        assert not accepts(one, block(call)[:-1])
    for text in ("", "some text", form.trigger[:-1]):
        assert accepts(auto, text)
        assert accepts(none, text)
        assert not accepts(required, text)
        assert not accepts(named, text)
    assert accepts(auto, f"some text{block(call)}")
    assert accepts(auto, f"some text{block(call, call)}")
    assert not accepts(auto, f"a {form.trigger}")
    assert not accepts(none, block(call))
    assert accepts(required, block(call, call, call))
    assert not accepts(required, f"a{block(call)}")
    assert not accepts(named, block(call, call))
    assert not accepts(named, block(call.replace("get", "get_days").replace('{"city": "Oslo"}', "{}")))
    single = compiled(model_format=name, parallel_tool_calls=False)
    assert accepts(single, f"some text{block(call)}")
    assert not accepts(single, f"some text{block(call, call)}")
    assert not accepts(single, f"some text{block(call)}.")
    assert "structural_tag" in json.dumps(tools_source(TOOLS, model_format=name).source)


def test_other_spellings_of_a_call() -> None:
    one = compiled(model_format="mistral")
    assert accepts(one, '[TOOL_CALLS]get{"city": "Oslo"}[TOOL_CALLS]get_days[ARGS]{"days": 1}')
    one = compiled(model_format="hermes")
    assert accepts(one, '<tool_call>{"name": "get_days", "arguments": {}}</tool_call>')
    assert not accepts(one, '<tool_call>{"name": "get_days", "arguments": {}}\n</tool_call>')


def test_strict() -> None:
    loose = [tool("f", DAYS, strict=False), tool("g", DAYS, strict=True)]
    texts = {name: f'[{{"name":"{name}","parameters":{{"days":"x"}}}}]' for name in "fg"}
    for strict, allowed in ((None, {"f"}), (True, set()), (False, {"f", "g"})):
        one = schemac.compile({"tools": loose, "tool_choice": "required", "strict": strict})
        assert {name for name, text in texts.items() if accepts(one, text)} == allowed
    assert not accepts(one, '[{"name":"f","parameters":1}]')


def test_allowed_tools() -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
    one = compiled(tool_choice=choice)
    assert accepts(one, '[{"name": "get", "parameters": {"city": "Oslo"}}]')
    assert not accepts(one, '[{"name": "get_days", "parameters": {}}]')


BAD = [*TOOLS, tool("bad", {"type": "object", "properties": {
    "ok": {"type": "integer"}, "p": {"type": "array", "items": {"pattern": "(a)\\1"}}}})]  # fmt: skip
WHERE = "tool 'bad' #/tools/3/function/parameters/properties/p/items/pattern"
REQUESTS: list[dict[str, Any]] = [
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "bad"}}},
    *({"tool_choice": choice, "model_format": name} for name in CALLS for choice in ("auto", "required")),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_a_tool_that_cannot_be_lowered_is_named(request_: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="backreferences") as caught:
        schemac.compile({"tools": BAD, **request_})
    assert str(caught.value).startswith(WHERE)


def test_policies() -> None:
    request = {"tools": BAD, "tool_choice": "required"}
    dropped = schemac.compile({**request, "policy": "drop"})
    assert [warning for warning in dropped.warnings if warning.startswith(WHERE) and "left out" in warning]
    loosened = schemac.compile({**request, "policy": "loosen"})
    assert [warning for warning in loosened.warnings if warning.startswith(WHERE) and "field 'p'" in warning]
    for text, results in (
        ('[{"name": "get", "parameters": {"city": "Oslo"}}]', (True, True)),
        ('[{"name": "bad", "parameters": {"ok": 1, "p": 3}}]', (False, True)),
        ('[{"name": "bad", "parameters": {"ok": "", "p": 3}}]', (False, False)),
    ):
        assert (accepts(dropped, text), accepts(loosened, text)) == results
    whole = [tool("bad", {"type": "object", "propertyNames": {"pattern": "(a)\\1"}})]
    one = schemac.compile({"tools": whole, "tool_choice": "required", "policy": "loosen"})
    assert "any object" in one.warnings[0]
    assert accepts(one, '[{"name":"bad","parameters":{"x":[]}}]')
    with pytest.raises(SourceError, match="there is no tool"):
        schemac.compile({"tools": whole, "tool_choice": "required", "policy": "drop"})


def test_a_warning_names_the_tool() -> None:
    one = schemac.compile({"tools": [tool("f", {**DAYS, "mine": 1})], "tool_choice": "required"})
    assert one.warnings[0].startswith("tool 'f' #/tools/0/function/parameters")
    with pytest.raises(SchemacError, match="tool 'f' #/tools/0/function/parameters"):
        schemac.compile({"tools": [tool("f", {**DAYS, "mine": 1})], "tool_choice": "required"}, strict=True)


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"tool_choice": "maybe"}, "#/tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "nobody"}}}, "no tool called 'nobody'"),
    ({"tool_choice": {"type": "web_search"}}, "names a function"),
    ({"tools": [], "tool_choice": "required"}, "there is no tool"),
    ({"tools": [tool("f"), tool("f")]}, "two tools called 'f'"),
    ({"tools": [{"type": "web_search"}]}, "#/tools/0/type"),
    ({"tools": [{"type": "function", "function": {}}]}, "#/tools/0/function/name"),
    ({"tools": [tool("f", [])]}, "tool 'f' #/tools/0/function/parameters"),
    ({"tools": [tool("f<x>")], "model_format": "mistral"}, "'f<x>' cannot be written"),
    ({"model_format": "nobody"}, "no model format 'nobody'"),
    ({"policy": "guess"}, "#/policy"),
    ({"parallel_tool_calls": 1}, "#/parallel_tool_calls"),
    ({"tool_choices": "none"}, "no field 'tool_choices'"),
]


@pytest.mark.parametrize(("request_", "text"), ERRORS, ids=range(len(ERRORS)))
def test_errors(request_: dict[str, Any], text: str) -> None:
    with pytest.raises(SchemacError) as caught:
        schemac.compile({"tools": TOOLS, **request_})
    assert text in str(caught.value)


def test_response_formats() -> None:
    assert response_format_source({"type": "text"}) is None
    found = response_format_source({"type": "json_object"})
    assert found is not None
    one = schemac.compile(found.source, kind=found.kind)
    assert accepts(one, '{"a": [1]}')
    assert not accepts(one, "[]")
    found = response_format_source({"type": "json_schema", "json_schema": {"name": "n", "schema": DAYS}})
    assert found is not None
    assert found.source == DAYS
    tag = {"type": "structural_tag", "format": {"type": "any_text"}}
    found = response_format_source(tag)
    assert found is not None
    assert (found.kind, found.source) == ("structural-tag", tag)
    for bad in ({}, {"type": "grammar"}, {"type": "json_schema"}):
        with pytest.raises(SourceError):
            response_format_source(bad)


def many_tools(count: int) -> list[dict[str, Any]]:
    """Tools whose names and keys begin alike."""
    generator = random.Random(1)
    tools = []
    for index in range(count):
        kinds = [{"type": "string"}, {"type": "integer"}, {"enum": ["up", "down"]}, {"type": "boolean"},
                 {"type": "array", "items": {"type": "string"}}]  # fmt: skip
        properties = {f"parameter_{k}_{index % 7}": generator.choice(kinds) for k in range(3)}
        required = list(properties)[:1]
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        tools.append(tool(f"service_{index % 10}_call_{index}", schema))
    return tools


@pytest.mark.parametrize("format_", [None, "hermes"])
def test_many_tools_cost_about_linear_time(format_: str | None) -> None:
    request: dict[str, Any] = {"tool_choice": "required", **({"model_format": format_} if format_ else {})}
    schemac.compile({"tools": many_tools(10), **request})
    sizes, seconds = [], []
    for count in (60, 240):
        started = time.process_time()
        one = schemac.compile({"tools": many_tools(count), **request})
        seconds.append(time.process_time() - started)
        sizes.append(one.automaton.states)
    assert sizes[1] < 4.5 * sizes[0]
    assert seconds[1] < 8 * seconds[0]  # 4 times as many; timers are rough
    assert seconds[1] < 15
