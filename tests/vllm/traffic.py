"""Requests of every kind to a constrained server, and what their answers must be."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonschema

Check = Callable[[str], bool]

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}},
     "required": ["name", "n"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 2, "maxItems": 4},
    {"type": "object", "properties": {"when": {"type": "string", "format": "date"}, "ok": {"type": "boolean"},
     "price": {"type": "number", "minimum": 0, "maximum": 1000}}, "required": ["when", "ok"]},
    {"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9},
     "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["v", "next"],
     "additionalProperties": False}}, "$ref": "#/$defs/node"},
    {"oneOf": [{"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}, {"type": "integer", "multipleOf": 7}]},
]  # fmt: skip
PATTERNS = [r"[a-z]{3,9}-[0-9]{2}", r"(GET|POST) /[a-z]{1,8} HTTP/1\.[01]", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"]
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "strict": True, "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer"}},
        "required": ["city"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "stop", "strict": True, "parameters": {
        "type": "object", "properties": {}, "additionalProperties": False}}},
]  # fmt: skip
TAG = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<answer>", "end": "</answer>",
               "content": {"type": "json_schema", "json_schema": {"enum": ["yes", "no", 42]}}},
}  # fmt: skip
GBNF = 'root ::= expr\nexpr ::= term ("+" term){0,3}\nterm ::= [0-9]{1,3}\n'
LARK = 'start: greeting " " name\ngreeting: "hello" | "goodbye"\nname: /[A-Z][a-z]{2,6}/\n'
#: What must be refused: the request's own part, and a word of the reason that the client must be told.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"response_format": {"type": "json_schema", "json_schema": {
        "name": "a", "schema": {"type": "object", "properties": {"id": {"type": "string", "pattern": "(a"}}}}}},
     "#/properties/id/pattern"),
    ({"extra_body": {"structured_outputs": {"regex": "(["}}}, "1:"),
    ({"extra_body": {"structured_outputs": {"regex": r"(a)\1"}}}, "backreference"),
    ({"extra_body": {"structured_outputs": {"grammar": "root ::= missing\n"}}}, "missing"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {
        "allOf": [{"type": "string"}, {"type": "integer"}]}}}}, "#"),
]  # fmt: skip


@dataclass
class Case:
    """One request.

    Attributes:
        name: of its kind.
        body: what it asks besides prompt and limits.
        check: whether a finished answer is valid; of tool calls, the arguments by name as JSON.
        refused: a part of the reason, if it must be refused.
        stream, cancel, n: how it is asked.
    """

    name: str
    body: dict[str, Any]
    check: Check
    refused: str | None = None
    stream: bool = False
    cancel: bool = False
    n: int = 1


@dataclass
class Report:
    """What became of the requests."""

    finished: int = 0
    refused: int = 0
    cancelled: int = 0
    cut: int = 0
    problems: list[str] = field(default_factory=list)


def cases(count: int, seed: int) -> list[Case]:
    """Requests of all kinds in a random order."""
    rng = random.Random(seed)
    found = []
    for index in range(count):
        case = _case(index, rng)
        case.stream = index % 3 == 1
        if index % 11 == 9:
            body, reason = REFUSED[index // 11 % len(REFUSED)]
            case = Case("refused", body, lambda _: False, reason, stream=index % 2 == 1)
        elif index % 11 == 4:
            case.stream = case.cancel = True
        elif index % 7 == 6 and not case.stream:
            case.n = 2
        found.append(case)
    rng.shuffle(found)
    return found


def _case(index: int, rng: random.Random) -> Case:
    kind = index % 10
    if kind in (0, 1):
        schema = SCHEMAS[(index // 10 * 2 + kind) % len(SCHEMAS)]
        body = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}
        return Case("schema", body, lambda text: is_valid(text, schema))
    if kind == 2:
        pattern = rng.choice(PATTERNS)
        return Case("regex", _outputs(regex=pattern), lambda text: re.fullmatch(pattern, text) is not None)
    if kind == 3:
        words = ["red", "green", "dark blue", f"number {index}"]
        return Case("choice", _outputs(choice=words), lambda text: text in words)
    if kind == 4:
        return Case("gbnf", _outputs(grammar=GBNF), lambda t: re.fullmatch(r"\d{1,3}(\+\d{1,3}){0,3}", t) is not None)
    if kind == 5:
        pattern = r"(hello|goodbye) [A-Z][a-z]{2,6}"
        return Case("lark", _outputs(grammar=LARK), lambda text: re.fullmatch(pattern, text) is not None)
    if kind == 6:
        pattern = r'<answer>("yes"|"no"|42(\.0)?)</answer>'
        return Case("tag", {"response_format": TAG}, lambda text: re.fullmatch(pattern, text) is not None)
    if kind == 7:
        return Case("tools required", {"tools": TOOLS, "tool_choice": "required"}, _valid_calls)
    if kind == 8:
        return Case("tools auto", {"tools": TOOLS, "tool_choice": "auto"}, lambda t: t == "[]" or _valid_calls(t))
    choice = {"type": "function", "function": {"name": "get_weather"}}
    return Case("tool named", {"tools": TOOLS, "tool_choice": choice}, _valid_calls)


def _outputs(**constraint: Any) -> dict[str, Any]:
    return {"extra_body": {"structured_outputs": constraint}}


def is_valid(text: str, schema: dict[str, Any]) -> bool:
    """Whether a text is JSON that satisfies a schema."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def _valid_calls(text: str) -> bool:
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    calls = json.loads(text)
    return bool(calls) and all(is_valid(arguments, schemas[name]) for name, arguments in calls)


async def send(url: str, listed: list[Case], *, most: int = 16, max_tokens: int = 120) -> Report:
    """Send all, at most `most` at a time, and check what comes back."""
    import openai

    report = Report()
    gate = asyncio.Semaphore(most)
    async with openai.AsyncOpenAI(base_url=url, api_key="none", timeout=180, max_retries=0) as client:

        async def one(number: int, case: Case) -> None:
            async with gate:
                try:
                    await _ask(client, case, number, max_tokens, report)
                except openai.APIStatusError as error:
                    if case.refused is None or error.status_code != 400:
                        report.problems.append(f"{case.name}: status {error.status_code}: {error.message[:300]}")
                    elif case.refused not in error.message:
                        report.problems.append(f"{case.name}: the reason lacks {case.refused!r}: {error.message[:300]}")
                    else:
                        report.refused += 1
                except openai.APIError as error:
                    report.problems.append(f"{case.name}{' streamed' if case.stream else ''}: {error}")

        await asyncio.gather(*(one(number, case) for number, case in enumerate(listed)))
    return report


async def _ask(client: Any, case: Case, number: int, max_tokens: int, report: Report) -> None:
    body = {**case.body, "model": "test", "max_tokens": max_tokens, "seed": number, "n": case.n,
            "messages": [{"role": "user", "content": f"request {number} a b a b a b"}]}  # fmt: skip
    if not case.stream:
        answer = await client.chat.completions.create(**body)
        for choice in answer.choices:
            calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
            _judge(case, choice.message.content or "", calls, choice.finish_reason, report)
        return
    text, reason = "", None
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    stream = await client.chat.completions.create(**body, stream=True)
    async for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                names[call.index] = names.get(call.index, "") + (call.function.name or "")
                arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")
            reason = choice.finish_reason or reason
        if case.cancel and (text or names):
            await stream.close()
            report.cancelled += 1
            return
    _judge(case, text, [(names[i], arguments.get(i, "")) for i in sorted(names)], reason, report)


def _judge(case: Case, text: str, calls: list[tuple[str, str]], reason: str | None, report: Report) -> None:
    if case.refused is not None:
        report.problems.append(f"not refused: {case.body}")
    elif reason == "length":
        report.cut += 1
    elif case.check(json.dumps(calls) if "tool" in case.name else text):
        report.finished += 1
    else:
        report.problems.append(f"{case.name}{' streamed' if case.stream else ''}: {reason}: {text!r} {calls}")
