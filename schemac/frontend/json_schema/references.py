"""Where a reference leads: `$ref`, `$id`, `$anchor`, `$dynamicRef`, `$recursiveRef` (2020-12 core, sections 8.2, 9).

All documents are walked once, iteratively, and indexed: base URIs, anchors, pointers for messages. References are
then look-ups in that index. Nothing is ever retrieved: what is not in the schema, in the resources handed over or in
the meta-schemas that `jsonschema_specifications` bundles, is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urljoin

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.json_schema import keywords
from schemac.frontend.json_schema.dialects import Dialect
from schemac.frontend.json_schema.keywords import DRAFT4, DRAFT2019, DRAFT2020
from schemac.frontend.json_schema.load import load
from schemac.frontend.json_schema.options import SchemaWarning, Warn
from schemac.frontend.json_schema.shape import check_shape, is_schema, subschemas


@dataclass(frozen=True, slots=True)
class Node:
    """A schema object in its dynamic scope. Equal nodes mean the same formula.

    Attributes:
        identity: `id()` of the schema object, which the index keeps alive.
        scope: base URIs entered so far that have a dynamic anchor which none before has, outermost first; empty unless
            a dynamic reference exists.
    """

    identity: int
    scope: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    schema: Mapping[str, object]
    place: str
    base: str
    draft: int


class References:
    """The index over the schema and its resources.

    Args:
        root: the loaded schema.
        dialect: how it is read.
        resources: loaded documents by URI or relative path.
        budget: spends nothing here; resources are loaded under it.
        warn: told of keywords that assert nothing.
        strict: refuse those instead.
        openapi_nullable: ``nullable`` means what OpenAPI 3.0 says.
    """

    def __init__(
        self,
        root: object,
        dialect: Dialect,
        resources: Mapping[str, object],
        budget: Budget,
        warn: Warn,
        strict: bool,
        openapi_nullable: bool = False,
    ) -> None:
        self.openapi_nullable = openapi_nullable
        self._entries: dict[int, _Entry] = {}
        self._documents: dict[str, object] = {}
        self._anchors: dict[tuple[str, str], Mapping[str, object]] = {}
        self._dynamic_anchors: dict[tuple[str, str], Mapping[str, object]] = {}
        self._recursive_anchors: dict[str, Mapping[str, object]] = {}
        self._dynamic_names: dict[str, set[str]] = {}
        self._given = {_bare(name): name for name in resources}
        self._resources = resources
        self._budget = budget
        self._warn = warn
        self._strict = strict
        self._unknown_seen: set[str] = set()
        self._places: dict[str, str] = {}
        self.dynamic = False
        self._root_draft = dialect.draft
        self._left_out = dialect.left_out
        self._kept: list[object] = []
        self._documents[""] = root
        self._index(root, "#", "", dialect.draft)
        if resources:
            for name in resources:
                self._load_given(name)

    # -- what the translation asks ------------------------------------------------------------------------------

    def node(self, schema: Mapping[str, object], scope: tuple[str, ...] = ()) -> Node:
        """The node of a schema object met while translating one with `scope`."""
        if not self.dynamic:
            return Node(id(schema))
        base = self._entries[id(schema)].base
        # Of two resources with a dynamic anchor of one name, only the outer one counts; others need no mention.
        taken = [self._dynamic_names.get(outer, ()) for outer in scope]
        adds = set(self._dynamic_names.get(base, ())).difference(*taken)
        return Node(id(schema), (*scope, base) if adds else scope)

    def schema(self, node: Node) -> Mapping[str, object]:
        """The schema object of a node."""
        return self._entries[node.identity].schema

    def place(self, node: Node) -> str:
        """JSON pointer of a node, with its document's URI in front unless it is the main schema."""
        return self._entries[node.identity].place

    def draft(self, node: Node) -> int:
        """The draft number that a node is read under."""
        return self._entries[node.identity].draft

    def follow(self, node: Node, keyword: str, reference: str) -> tuple[object, tuple[str, ...]]:
        """The schema that a reference leads to, and the dynamic scope to read it in.

        Args:
            node: the schema that holds the reference.
            keyword: ``$ref``, ``$dynamicRef`` or ``$recursiveRef``.
            reference: its value.

        Raises:
            SourceError: it leads nowhere, outside, or to something that is no schema.
        """
        entry = self._entries[node.identity]
        place = f"{entry.place}/{keyword}"
        target = self._resolve(reference, entry, place)
        if keyword == "$dynamicRef":
            target = self._dynamic_target(target, reference, node.scope)
        elif keyword == "$recursiveRef" and isinstance(target, dict) and target.get("$recursiveAnchor") is True:
            outer = [base for base in node.scope if base in self._recursive_anchors]
            # Only an unbroken use counts: the outermost resource whose root says `$recursiveAnchor: true`.
            target = self._recursive_anchors[outer[0]] if outer else target
        if not is_schema(target):
            raise SourceError(f"{reference!r} leads to something that is no schema", place=place, construct=keyword)
        return target, node.scope

    # -- resolving ----------------------------------------------------------------------------------------------

    def _dynamic_target(self, target: object, reference: str, scope: tuple[str, ...]) -> object:
        fragment = reference.partition("#")[2]
        if not isinstance(target, dict) or target.get("$dynamicAnchor") != fragment:
            return target
        for base in scope:
            if (base, fragment) in self._dynamic_anchors:
                return self._dynamic_anchors[base, fragment]
        return target

    def _resolve(self, reference: str, entry: _Entry, place: str) -> object:
        if reference.startswith("#"):
            uri, fragment = entry.base, reference[1:]
        else:
            uri, _, fragment = _join(entry.base, reference).partition("#")
        document = self._document(uri, reference, entry, place)
        fragment = unquote(fragment)
        if not fragment:
            return document
        if not fragment.startswith("/"):
            found = self._anchors.get((uri, fragment))
            if found is None:
                raise SourceError(
                    f"there is no anchor {fragment!r} in {uri or 'this schema'}", place=place, construct="$ref"
                )
            return found
        return self._walk(document, fragment, reference, uri, entry, place)

    def _document(self, uri: str, reference: str, entry: _Entry, place: str) -> object:
        if uri in self._documents:
            return self._documents[uri]
        if uri in self._given:
            return self._load_given(self._given[uri])
        contents = _bundled(uri)
        if contents is not None:
            document = load(contents, self._budget)
            self._documents[uri] = document
            self._index(document, uri + "#", uri, keywords.draft_of(uri) or entry.draft)
            return document
        raise SourceError(
            f"{reference!r} is outside this schema, and nothing is ever fetched",
            place=place,
            construct="$ref",
            hint=f"hand the document over as a resource named {uri!r}",
        )

    def _walk(self, document: object, fragment: str, reference: str, uri: str, entry: _Entry, place: str) -> object:
        value = document
        base, draft = uri, entry.draft
        where = self._entries[id(document)].place if id(document) in self._entries else uri + "#"
        for token in fragment[1:].split("/"):
            where = f"{where}/{token}"
            part = token.replace("~1", "/").replace("~0", "~")
            if id(value) in self._entries:
                base, draft = self._entries[id(value)].base, self._entries[id(value)].draft
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                raise SourceError(
                    f"{reference!r} leads nowhere: there is no {part!r} there",
                    place=place,
                    construct="$ref",
                    hint=self._hint_for_pointer(uri, fragment),
                )
        if isinstance(value, dict) and id(value) not in self._entries:
            self._index(value, where, base, draft)  # a schema in a place that no keyword makes one
        return value

    def _hint_for_pointer(self, uri: str, fragment: str) -> str:
        if uri:
            return f"pointers count from the nearest enclosing `$id`, here {uri!r}"
        name = fragment.rsplit("/", 1)[-1]
        for key in ("$defs", "definitions"):
            root = self._documents[""]
            defs = root.get(key) if isinstance(root, dict) else None
            if isinstance(defs, dict) and name in defs:
                return f"did you mean #/{key}/{name}?"
        return "check the spelling; names are case-sensitive"

    def _load_given(self, name: str) -> object:
        uri = _bare(name)
        if uri in self._documents:
            return self._documents[uri]
        document = load(self._resources[name], self._budget)
        draft = self._root_draft
        if isinstance(document, dict) and isinstance(document.get("$schema"), str):
            found = keywords.draft_of(document["$schema"])
            draft = draft if found is None else found
        self._documents[uri] = document
        self._index(document, uri + "#", uri, draft)
        # A relative name also counts from the main schema's own identifier.
        root = self._entries.get(id(self._documents[""]))
        if root is not None and root.base:
            self._documents.setdefault(_join(root.base, uri), document)
        return document

    # -- indexing -----------------------------------------------------------------------------------------------

    def _index(self, schema: object, place: str, base: str, draft: int) -> None:
        """Walk a document, or a part of one, in the order it is written."""
        self._kept.append(schema)
        left_out: Collection[str] = self._left_out if place.startswith("#") else ()
        stack: list[tuple[object, str, str, int, Collection[str]]] = [(schema, place, base, draft, left_out)]
        entries = self._entries
        while stack:
            current, place, base, draft, left_out = stack.pop()
            if not isinstance(current, dict) or id(current) in entries:
                continue
            if "$schema" in current and isinstance(current["$schema"], str):
                found = keywords.draft_of(current["$schema"])
                if found is not None and place != "#":
                    draft, left_out = found, ()
            self._leave_out(current, left_out, place)
            base = self._enter(current, base, draft)
            entries[id(current)] = _Entry(current, place, base, draft)
            if "$ref" in current and draft < DRAFT2019:
                self._ref_only(current, place)
            children: list[tuple[object, str, str, int, Collection[str]]] = []
            for name, value in current.items():
                keyword = keywords.known(name, draft)
                if keyword is None:
                    if name == "nullable" and self.openapi_nullable:
                        self._nullable(current, place)
                    else:
                        self._unknown(name, value, place, draft)
                    # Definitions are reached by references whatever the draft calls them.
                    continue
                check_shape(name, keyword, value, draft, place)
                if keyword.role != "note":
                    for child, suffix in subschemas(name, keyword, value):
                        if isinstance(child, dict):
                            children.append((child, place + suffix, base, draft, left_out))
            stack.extend(reversed(children))

    def _leave_out(self, schema: dict[str, object], left_out: Collection[str], place: str) -> None:
        """Take away keywords that assert nothing in the schema's own dialect."""
        for name in [name for name in schema if name in left_out]:
            reason = "the dialect named in `$schema` does not have this keyword; it asserts nothing"
            self._say(reason, place, name, None, "remove it, or compile without --strict")
            del schema[name]

    def _enter(self, schema: Mapping[str, object], base: str, draft: int) -> str:
        """Register identifiers and anchors; returns the base URI inside."""
        name = "id" if draft == DRAFT4 else "$id"
        identifier = schema.get(name)
        ignored = "$ref" in schema and draft < DRAFT2019  # siblings of `$ref` do not count there
        if isinstance(identifier, str) and not ignored:
            if identifier.startswith("#"):
                if draft < DRAFT2019:
                    self._anchors.setdefault((base, unquote(identifier[1:])), schema)
            else:
                uri, _, fragment = _join(base, identifier).partition("#")
                base = uri
                self._documents.setdefault(base, schema)
                if fragment and draft < DRAFT2019:
                    self._anchors.setdefault((base, unquote(fragment)), schema)
        if draft >= DRAFT2019:
            for keyword in ("$anchor", "$dynamicAnchor") if draft >= DRAFT2020 else ("$anchor",):
                anchor = schema.get(keyword)
                if isinstance(anchor, str):
                    self._anchors.setdefault((base, anchor), schema)
                    if keyword == "$dynamicAnchor":
                        self._dynamic_anchors.setdefault((base, anchor), schema)
                        self._dynamic_names.setdefault(base, set()).add(anchor)
            if schema.get("$recursiveAnchor") is True and draft == DRAFT2019:
                self._recursive_anchors.setdefault(base, schema)
                self._dynamic_names.setdefault(base, set()).add("")  # no anchor has an empty name
            if "$dynamicRef" in schema or "$recursiveRef" in schema:
                self.dynamic = True
        return base

    def _ref_only(self, schema: Mapping[str, object], place: str) -> None:
        """Before 2019-09 a `$ref` hides its siblings (draft 7 core, section 8.3)."""
        hidden = [
            name
            for name in schema
            if name in keywords.KEYWORDS and keywords.KEYWORDS[name].role == "assert" and name != "$ref"
        ]
        if hidden:
            reason = "these siblings of `$ref` assert nothing before draft 2019-09: " + ", ".join(hidden)
            hint = "put the `$ref` into an `allOf`, or name a later draft in `$schema`"
            if self._strict:
                raise SourceError(reason, place=place, construct="$ref", hint=hint)
            self._warn(SchemaWarning(reason, place, "$ref", hint))

    def _unknown(self, name: str, value: object, place: str, draft: int) -> None:
        if name in ("id", "$schema", "definitions", "$id") or name.startswith(("x-", "^x-")):
            return
        known = keywords.KEYWORDS.get(name)
        hint: str | None
        if known is not None:
            reason = f"{keywords.DRAFTS[draft]} does not know this keyword; it asserts nothing"
            hint = "name the draft that knows it in `$schema`"
        else:
            reason = "no draft knows this keyword; it asserts nothing"
            hint = None
            if name == "nullable":
                hint = 'it is OpenAPI\'s: list "null" in `type`, or compile with --openapi-nullable'
        self._say(reason, place, name, hint, "remove it, or compile without --strict")

    def _nullable(self, schema: Mapping[str, object], place: str) -> None:
        """OpenAPI 3.0.3, "Schema Object": true adds null to the `type` in the same schema object, and only there."""
        value = schema["nullable"]
        if not isinstance(value, bool):
            raise SourceError(
                "not a schema: expected true or false", place=f"{place}/nullable", construct="nullable",
                hint="compile without --openapi-nullable if that is no keyword here",
            )  # fmt: skip
        if value and "type" not in schema:
            reason = "without `type` beside it, it asserts nothing"
            self._say(reason, place, "nullable", None, "remove it; without `type`, null is allowed already")

    def _say(self, reason: str, place: str, construct: str, hint: str | None, strict_hint: str) -> None:
        """Warn of what asserts nothing, once for each keyword; refuse it if that was asked for."""
        if self._strict:
            raise SourceError(reason, place=place, construct=construct, hint=hint or strict_hint)
        if construct not in self._unknown_seen:  # one line per keyword is enough
            self._unknown_seen.add(construct)
            self._warn(SchemaWarning(reason, place, construct, hint))


def _bare(uri: str) -> str:
    return uri.removesuffix("#")


def _join(base: str, reference: str) -> str:
    """RFC 3986 section 5.2; opaque bases (``urn:``) only take fragments and absolute references."""
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def _bundled(uri: str) -> object | None:
    """A meta-schema by its URI, from the installed `jsonschema_specifications`."""
    if "json-schema.org" not in uri:
        return None
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import NoSuchResource

    for name in (uri, uri + "#"):
        try:
            return REGISTRY[name].contents  # type: ignore[no-any-return]
        except NoSuchResource:
            continue
    return None


__all__ = ["Node", "References"]
