"""From a package, or a schema, to a validator of answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from schemac_runtime.answers.keywords import is_integer, rules
from schemac_runtime.answers.problems import AnswerError, Problem, pointer
from schemac_runtime.answers.text import NotReadable, read_json
from schemac_runtime.package import Package

#: Draft names, and `$schema` without scheme, `www.`, fragment and final slash.
_DRAFTS = {
    "draft4": ("json-schema.org/draft-04/schema", "json-schema.org/draft-05/schema"),
    "draft6": ("json-schema.org/draft-06/schema",),
    "draft7": ("json-schema.org/draft-07/schema",),
    "draft2019-09": ("json-schema.org/draft/2019-09/schema",),
    "draft2020-12": (
        "json-schema.org/draft/2020-12/schema",
        "json-schema.org/schema",
        "json-schema.org/draft/schema",
    ),
}
_DEFAULT_DRAFT = "draft2020-12"
#: Keywords whose values are data, and keywords whose values are schemas by name.
_DATA = frozenset(("const", "enum", "default", "examples"))
_BY_NAME = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
#: How much of a message is kept; it may quote the answer.
_SHOWN = 300

Source = Package | Mapping[str, Any] | bool | str | bytes


def validate_answer(
    source: Source,
    text: str | bytes,
    *,
    resources: Mapping[str, Any] | None = None,
    draft: str | None = None,
    openapi_nullable: bool | None = None,
    most: int = 20,
) -> list[Problem]:
    """What is wrong with an answer; an empty list if it satisfies the schema.

    Args:
        source: a package compiled from a JSON Schema, or the schema (text or data).
        text: the answer, all of it.
        resources: further schemas by URI or relative path, as at compile time; packages do not hold them.
        draft: the draft to use whatever `$schema` says; of a package, by default the one it was compiled with.
        openapi_nullable: whether ``nullable: true`` beside ``type`` allows null too; by default as the package was
            compiled.
        most: how many problems are listed.

    Raises:
        AnswerError: the answer cannot be checked, see `AnswerValidator`.
        ImportError: jsonschema, referencing or google-re2 is not installed.
    """
    validator = AnswerValidator(source, resources=resources, draft=draft, openapi_nullable=openapi_nullable)
    return validator.problems(text, most)


class AnswerValidator:
    """A schema made ready for many answers; arguments as for `validate_answer`.

    Raises:
        AnswerError: not a JSON Schema, or in an unknown dialect.
    """

    def __init__(
        self,
        source: Source,
        *,
        resources: Mapping[str, Any] | None = None,
        draft: str | None = None,
        openapi_nullable: bool | None = None,
    ) -> None:
        if isinstance(source, Package):
            if source.manifest.get("kind") != "json-schema":
                raise AnswerError(
                    f"{source.path}: compiled from a source of kind {source.manifest.get('kind')}, not a JSON Schema",
                    hint="only answers to JSON Schemas can be validated here",
                )
            options = source.manifest["options"]
            draft = draft or options.get("draft")
            if openapi_nullable is None:
                openapi_nullable = options.get("openapi_nullable") is True
            source = source.source
        schema = _schema(source, "the source")
        self.draft = _draft_name(draft) if draft else _own_draft(schema) or _DEFAULT_DRAFT
        _mark_dialects(schema, self.draft, nullable=bool(openapi_nullable))
        documents = {name: _schema(document, name) for name, document in (resources or {}).items()}
        for document in documents.values():
            own = _own_draft(document, required=False) or self.draft
            _mark_dialects(document, own, nullable=bool(openapi_nullable))
        self._validator = _validator_class(self.draft)(schema, registry=_registry(schema, documents, self.draft))

    def problems(self, text: str | bytes, most: int = 20) -> list[Problem]:
        """What is wrong with an answer, at most `most` things.

        Raises:
            AnswerError: a reference that leads nowhere, a pattern that RE2 has no means for, a malformed schema.
        """
        from referencing.exceptions import Unresolvable

        try:
            instance = read_json(text)
        except NotReadable as error:
            return [error.problem]
        try:
            return [_problem(error) for error in islice(self._validator.iter_errors(instance), most)]
        except Unresolvable as error:
            raise AnswerError(
                f"a reference leads nowhere: {error}", construct="$ref", hint="hand the document over in `resources`"
            ) from error
        except RecursionError:
            return [Problem("nested too deep to be checked", "#")]
        except (TypeError, LookupError, AttributeError, ArithmeticError, ValueError) as error:
            raise AnswerError(
                f"the schema is malformed ({error!r})", hint="compile it first, which checks it"
            ) from error


def _problem(error: Any) -> Problem:
    message = error.message if len(error.message) <= _SHOWN else error.message[:_SHOWN] + "..."
    where = tuple(error.absolute_schema_path)
    return Problem(message, pointer(*error.absolute_path), error.validator, pointer(*where) if where else None)


def _schema(source: Any, name: str) -> Any:
    """A copy of a schema with exact numbers, from text or data."""
    try:
        text = source if isinstance(source, (str, bytes)) else json.dumps(source)
        schema = read_json(text.removeprefix(b"\xef\xbb\xbf") if isinstance(text, bytes) else text)
    except NotReadable as error:
        raise AnswerError(f"{name} is not a JSON Schema: {error.problem.reason}", place=error.problem.place) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise AnswerError(f"{name} is not a JSON Schema: {error}") from error
    if not isinstance(schema, (dict, bool)):
        raise AnswerError(f"{name} is not a JSON Schema: expected an object, true or false", place="#")
    return schema


def _draft_name(name: str) -> str:
    for draft in _DRAFTS:
        if name in (draft, draft.removeprefix("draft")):
            return draft
    raise AnswerError(f"there is no draft {name!r}", construct="draft", hint="one of " + ", ".join(_DRAFTS))


def _draft_of(uri: str) -> str | None:
    bare = uri.strip().removesuffix("#").rstrip("/")
    for prefix in ("http://", "https://"):
        bare = bare.removeprefix(prefix)
    bare = bare.removeprefix("www.")
    return next((draft for draft, uris in _DRAFTS.items() if bare in uris), None)


def _own_draft(schema: Any, required: bool = True) -> str | None:
    if not isinstance(schema, dict) or not isinstance(schema.get("$schema"), str):
        return None
    draft = _draft_of(schema["$schema"])
    if draft is None and required:
        raise AnswerError(f"the dialect {schema['$schema']!r} is not known", place="#/$schema", construct="$schema")
    return draft


def _mark_dialects(document: Any, draft: str, *, nullable: bool) -> None:
    """Let every `$schema` name our keywords for its draft, in place: jsonschema takes the validator class from there.

    Args:
        document: a schema.
        draft: of its root; an inner `$schema` that is not known changes nothing.
        nullable: write null into each `type` beside ``nullable: true``.
    """
    # (value, whether it is a schema and no map from names to schemas)
    stack: list[tuple[Any, bool]] = [(document, True)]
    while stack:
        value, is_schema = stack.pop()
        if isinstance(value, list):
            stack.extend((item, True) for item in value)
        if not isinstance(value, dict):
            continue
        if is_schema and isinstance(dialect := value.get("$schema"), str):
            found = draft if value is document else _draft_of(dialect)
            if found is None:
                del value["$schema"]
            else:
                _validator_class(found)
                value["$schema"] = _dialect(found)
        if nullable and is_schema and value.get("nullable") is True and isinstance(value.get("type"), (str, list)):
            types = value["type"]
            value["type"] = [*(types if isinstance(types, list) else [types]), "null"]
        for name, member in value.items():
            if not is_schema or name not in _DATA:
                stack.append((member, not (is_schema and name in _BY_NAME)))


def _dialect(draft: str) -> str:
    return f"urn:schemac:{draft}"


def _specification(draft: str) -> Any:
    import referencing.jsonschema

    return getattr(referencing.jsonschema, draft.upper().replace("-", ""))


def _registry(schema: Any, documents: Mapping[str, Any], draft: str) -> Any:
    """Everything that references may reach; nothing is retrieved."""
    from jsonschema_specifications import REGISTRY

    resources = {}
    for name, document in documents.items():
        dialect = document.get("$schema") if isinstance(document, dict) else None
        own = dialect.removeprefix(_dialect("")) if isinstance(dialect, str) else draft
        resources[name] = _specification(own).create_resource(document)
    base = _specification(draft).create_resource(schema).id()
    if base is not None:  # a relative name counts from the schema's own identifier too
        for name in documents:
            resources.setdefault(urljoin(base, name), resources[name])
    return REGISTRY.with_resources(resources.items())


@cache
def _validator_class(draft: str) -> Any:
    import jsonschema.validators

    kind = {
        "draft4": jsonschema.validators.Draft4Validator,
        "draft6": jsonschema.validators.Draft6Validator,
        "draft7": jsonschema.validators.Draft7Validator,
        "draft2019-09": jsonschema.validators.Draft201909Validator,
        "draft2020-12": jsonschema.validators.Draft202012Validator,
    }[draft]
    types = kind.TYPE_CHECKER
    if draft != "draft4":  # where 1.0 is no integer
        types = types.redefine("integer", is_integer)
    exact: Any = jsonschema.validators.extend(kind, rules(draft, kind.VALIDATORS), type_checker=types)
    exact.META_SCHEMA = {"id": _dialect(draft), "$id": _dialect(draft)}
    return jsonschema.validators.validates(f"schemac {draft}")(exact)
