"""The entry point: a JSON Schema in, a module of procedures out."""

from __future__ import annotations

from dataclasses import dataclass

from schemac.budget import Budget
from schemac.errors import EmptyLanguageError, SourceError
from schemac.frontend.json_schema.conflict import Conflicts
from schemac.frontend.json_schema.dialects import read_dialect
from schemac.frontend.json_schema.formats import is_known
from schemac.frontend.json_schema.formula import Formulas
from schemac.frontend.json_schema.layout import Layout
from schemac.frontend.json_schema.load import load
from schemac.frontend.json_schema.lower import Lowering
from schemac.frontend.json_schema.options import JsonSchemaOptions, SchemaWarning, Warn
from schemac.frontend.json_schema.references import References
from schemac.frontend.json_schema.shape import is_schema
from schemac.frontend.json_schema.translate import Translation
from schemac.frontend.json_schema.typed import Types
from schemac.ir.graph import Module


def json_schema_module(
    source: object, *, options: JsonSchemaOptions | None = None, budget: Budget | None = None, warn: Warn | None = None
) -> Module:
    """Lower a JSON Schema exactly.

    Args:
        source: JSON text (`str` or UTF-8 `bytes`), or the Python data it stands for.
        options: whitespace, strictness, draft, further documents.
        budget: limits; a default one if None.
        warn: called with a `SchemaWarning` for whatever asserts nothing.

    Returns:
        A module whose root reads the JSON texts, in canonical form, of the values that the schema allows.

    Raises:
        SourceError: not JSON, not a schema, or a reference that leads nowhere.
        UnsupportedError: something that cannot be lowered exactly, named with its place.
        EmptyLanguageError: the schema allows no value.
        BudgetExceeded: the schema needs more than the budget allows.
    """
    options = options or JsonSchemaOptions()
    budget = budget or Budget()
    prepared = prepare(source, options, budget, warn or _ignore)
    layout = Layout(options.whitespace, options.whitespace_limit)
    budget.spend("states", options.whitespace_limit or 0, construct="whitespace_limit")
    lowering = Lowering(prepared.types, layout, budget, options.key_order, options.digit_limit)
    try:
        return lowering.module(prepared.translation.root(prepared.root))
    except EmptyLanguageError:
        raise _conflicts(prepared, budget).error(prepared.root) from None


def _conflicts(prepared: Prepared, budget: Budget) -> Conflicts:
    def has_no_value(formula: int) -> bool:
        try:
            Lowering(prepared.types, Layout("compact"), budget).module(formula)
        except EmptyLanguageError:
            return True
        return False

    return Conflicts(prepared.references, prepared.translation, prepared.types, has_no_value, budget)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schema that has been read and indexed, with what translates any part of it.

    Attributes:
        root: the loaded schema.
        references: where names in it lead.
        types: splits formulas; has the store of formulas.
        translation: of `root` and of each subschema, as an object that is part of it.
    """

    root: object
    references: References
    types: Types
    translation: Translation


def prepare(source: object, options: JsonSchemaOptions, budget: Budget, warn: Warn) -> Prepared:
    """Read a schema, with arguments and errors as `json_schema_module`."""
    root = load(source, budget)
    if not is_schema(root):
        raise SourceError("not a schema: expected an object, true or false", place="#")
    dialect = read_dialect(root, options.draft, options.resources, budget)
    references = References(
        root, dialect, options.resources, budget, warn, options.strict, options.openapi_nullable
    )
    formulas = Formulas(budget)
    types = Types(formulas, budget)
    translation = Translation(references, formulas, budget, warn, options.strict, _knows_format, types.matches)
    return Prepared(root, references, types, translation)


def _knows_format(name: str, draft: str) -> bool:
    return is_known(name, draft)


def _ignore(warning: SchemaWarning) -> None:
    """Drop a warning: the caller did not ask for them."""
