"""From a source text to a symbolic `Module`: one frontend per kind of source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.ir.graph import Module

if TYPE_CHECKING:
    from schemac.frontend.json_schema import JsonSchemaOptions
    from schemac.frontend.reasoning import ReasoningPrefix

#: The kinds of source, as ``--kind`` names them.
KINDS = ("json-schema", "regex", "choice", "lark", "gbnf", "structural-tag", "tools")
#: Where a JSON text may have whitespace, see `docs/json-schema.md`.
WHITESPACE = ("flexible", "single", "compact")
#: How the keys of a JSON object come, see `docs/json-schema.md`.
KEY_ORDERS = ("schema", "any")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a frontend may be told.

    Attributes:
        whitespace: one of `WHITESPACE`.
        strict: warnings are errors.
        draft: JSON Schema draft whatever ``$schema`` says.
        resources: further schemas by URI.
        reasoning: free text that precedes a text of the source, or None.
        folder: where a Lark grammar finds the files that it imports, or None.
        openapi_nullable: ``nullable`` in a JSON Schema means what OpenAPI 3.0 says.
        key_order: one of `KEY_ORDERS`.
        whitespace_limit, digit_limit: the most whitespace characters in a row in JSON, and digits of a number.
        on_file: told of each file that an import reads: its path from the folder, and its contents.
    """

    whitespace: str = "flexible"
    strict: bool = False
    draft: str | None = None
    resources: dict[str, Any] = field(default_factory=dict)
    reasoning: ReasoningPrefix | None = None
    folder: Path | None = None
    openapi_nullable: bool = False
    key_order: str = "schema"
    whitespace_limit: int | None = None
    digit_limit: int | None = None
    on_file: Callable[[str, bytes], None] | None = None


#: A line that defines a rule, in (E)BNF, and one that defines the start rule, in Lark.
_BNF_RULE = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t]*[\w.-]{1,256}(?:\[[^\]\n]{0,400}\])?[ \t]*::=", re.MULTILINE)
_LARK_START = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t]*[!?]{0,2}start[^:\n]{0,400}:", re.MULTILINE)


def detect_kind(source: object) -> str:
    """The kind of a source that does not say.

    A JSON object is a structural tag if its ``type`` says so, tools if it has a list of ``tools`` and none of what
    schemas have, else a schema, as booleans are; a list of strings is a choice. A text with a line ``name ::= ...`` is
    (E)BNF, one with a line ``start: ...`` a Lark grammar.

    Raises:
        SourceError: it could be several things.
    """
    if isinstance(source, bytes):
        head = source.lstrip(b" \t\r\n\xef\xbb\xbf")[:1]
        if head not in (b"{", b"["):
            if source.strip() in (b"true", b"false"):
                return "json-schema"
            if _BNF_RULE.search(source):
                return "gbnf"
            if _LARK_START.search(source):
                return "lark"
            raise SourceError(
                "cannot tell what kind of source this is", hint="say --kind regex, choice, lark, gbnf or structural-tag"
            )
        return _kind_of_object(source) if head == b"{" else "choice"
    if isinstance(source, dict):
        return _kind_of_object(source)
    if isinstance(source, (list, tuple)):
        return "choice"
    return "json-schema"


def _kind_of_object(source: bytes | dict[str, Any]) -> str:
    if isinstance(source, bytes):
        if b'"structural_tag"' not in source and b'"tools"' not in source:
            return "json-schema"
        try:
            source = json.loads(source)
        except (ValueError, RecursionError):
            return "json-schema"  # whose frontend says what is wrong with it
    assert isinstance(source, dict)
    if source.get("type") == "structural_tag":
        return "structural-tag"
    is_schema = not source.keys().isdisjoint(("$schema", "$ref", "type", "properties"))
    return "tools" if isinstance(source.get("tools"), list) and not is_schema else "json-schema"


def parse_source(
    text: bytes, kind: str, options: SourceOptions, budget: Budget, warn: Callable[[str], None]
) -> Module:
    """Run the frontend of `kind`; put the reasoning before it, if any.

    Raises:
        SourceError, UnsupportedError, EmptyLanguageError, BudgetExceeded: the source is refused.
    """
    module = _parse(text, kind, options, budget, warn)
    if options.reasoning is None:
        return module
    from schemac.frontend.reasoning import with_reasoning

    return with_reasoning(module, options.reasoning, budget)


def _parse(text: bytes, kind: str, options: SourceOptions, budget: Budget, warn: Callable[[str], None]) -> Module:
    if kind in ("json-schema", "structural-tag", "tools"):
        from schemac.frontend.json_schema import json_schema_module

        schema_options = _schema_options(options)
        if kind != "json-schema":

            def grammar(source: str) -> Module:
                return _parse(source.encode(), _grammar_kind(source), options, budget, warn)

        if kind == "structural-tag":
            from schemac.frontend.structural_tag import structural_tag_module

            return structural_tag_module(
                text, schemas=schema_options, grammar=grammar, budget=budget, warn=lambda w: warn(str(w))
            )
        if kind == "tools":
            from schemac.frontend.tools import tools_module

            return tools_module(text, schemas=schema_options, grammar=grammar, budget=budget, warn=warn)
        return json_schema_module(text, options=schema_options, budget=budget, warn=lambda w: warn(str(w)))
    decoded = decode(text)
    if kind == "regex":
        from schemac.frontend.regex import regex_module

        return regex_module(decoded.removesuffix("\n").removesuffix("\r"), budget=budget)
    if kind == "choice":
        from schemac.frontend.choice import choice_module

        return choice_module(_choices(decoded), budget=budget)
    if kind == "gbnf":
        from schemac.frontend.gbnf import gbnf_module

        return gbnf_module(decoded, budget=budget, warn=warn, strict=options.strict)
    from schemac.frontend.lark import lark_module

    return lark_module(
        decoded,
        budget=budget,
        warn=warn,
        strict=options.strict,
        base_dir=options.folder,
        json_options=_schema_options(options),
        on_file=options.on_file,
    )


def _schema_options(options: SourceOptions) -> JsonSchemaOptions:
    from schemac.frontend.json_schema import JsonSchemaOptions

    return JsonSchemaOptions(
        options.whitespace,
        options.strict,
        options.draft,
        options.resources,
        options.openapi_nullable,
        options.key_order,
        options.whitespace_limit,
        options.digit_limit,
    )


def _grammar_kind(source: str) -> str:
    """The notation of a grammar: only (E)BNF has ``::=``."""
    return "gbnf" if "::=" in source else "lark"


def decode(text: bytes) -> str:
    """The text of a source.

    Raises:
        SourceError: it is not UTF-8.
    """
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"the source is not UTF-8: {error.reason} at byte {error.start}") from error


def _choices(text: str) -> list[str]:
    """A JSON list of strings, or one choice per line."""
    if not text.lstrip().startswith("["):
        return [line for line in text.splitlines() if line]
    try:
        words = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"not a JSON list: {error}") from error
    for index, word in enumerate(words):
        if not isinstance(word, str):
            raise SourceError("a choice must be a string", place=f"#/{index}", construct=type(word).__name__)
    return list(words)
