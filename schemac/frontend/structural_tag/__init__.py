"""Structural tags: free text with marked parts in it, each with a schema, a pattern or a grammar of its own.

Stages, each a module: `read` (JSON to `formats`), `lower` (formats to graphs), with `xml_styles` (parameters between
markers) and `schemac.frontend.free_text` (text up to a marker) below them.
"""

from __future__ import annotations

from collections.abc import Callable

from schemac.budget import Budget
from schemac.frontend.json_schema import JsonSchemaOptions, SchemaWarning
from schemac.frontend.structural_tag.lower import GrammarFrontend, Lowering
from schemac.frontend.structural_tag.read import read_structural_tag
from schemac.ir.graph import Module

__all__ = ["GrammarFrontend", "Lowering", "read_structural_tag", "structural_tag_module"]


def structural_tag_module(
    source: object,
    *,
    schemas: JsonSchemaOptions,
    grammar: GrammarFrontend,
    budget: Budget,
    warn: Callable[[SchemaWarning], None],
) -> Module:
    """The module of a structural tag.

    Args:
        source: JSON text, or the data it stands for.
        schemas: options of the JSON Schema frontend.
        grammar: reads the grammars in it.
        budget: of the compile.
        warn: told about what asserts nothing.

    Raises:
        SchemacError: as the frontends of what is in it, with places in the structural tag.
    """
    format_ = read_structural_tag(source, budget)
    return Lowering(schemas, grammar, budget, warn).module(format_)
