"""What a request asks for, as a source of the compiler."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemac_runtime.store import canonical_options, regex_source, store_key

#: A line that defines a rule in (E)BNF. Lark has no ``::=``, but a literal of it may hold one.
_BNF_RULE = re.compile(r"^[ \t]*[\w.-]{1,256}(?:\[[^\]\n]{0,400}\])?[ \t]*::=", re.MULTILINE)


@dataclass(frozen=True)
class Constraint:
    """One source and how to read it.

    Attributes:
        kind: as `schemac compile --kind` has it.
        source: its text.
        options: of the compile, as a package's manifest states them.
    """

    kind: str
    source: bytes
    options: Mapping[str, Any] = field(default_factory=dict)

    def key(self, fingerprint: str) -> str:
        """Its name in a store."""
        return store_key(self.kind, self.source, self.options, fingerprint)

    def digest(self) -> bytes:
        """Equal for equal texts; quicker than `key`, which reads the text."""
        options = json.dumps(canonical_options(self.options), sort_keys=True)
        return hashlib.sha256(f"{self.kind}\0{options}\0".encode() + self.source).digest()


def constraint(asked: str, text: str, options: Mapping[str, Any]) -> Constraint:
    """The constraint of a request.

    Args:
        asked: how vLLM calls the kind: JSON, JSON_OBJECT, REGEX, CHOICE, GRAMMAR or STRUCTURAL_TAG.
        text: what it says of it.
        options: of JSON texts, and of the whole.

    Raises:
        ValueError: another kind.
    """
    if asked == "JSON_OBJECT":
        asked, text = "JSON", '{"type":"object"}'
    source = text.encode("utf-8", "surrogatepass")
    if asked == "JSON":
        return Constraint("json-schema", source, options)
    if asked == "REGEX":
        return Constraint("regex", regex_source(source), options)
    if asked == "CHOICE":
        return Constraint("choice", source, options)
    if asked == "GRAMMAR":
        return Constraint("gbnf" if _BNF_RULE.search(text) else "lark", source, options)
    if asked == "STRUCTURAL_TAG":
        return Constraint("structural-tag", source, options)
    raise ValueError(f"a constraint of the unknown kind {asked}")
