"""All rules and terminals of a grammar and of what it imports, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from lark import Token, Tree

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.grammar import Notes, Source
from schemac.frontend.lark.attributes import Attributes
from schemac.frontend.lark.lexer import Inline, lex
from schemac.frontend.lark.syntax import Node, parse_tokens

_LIBRARY = ("common", "lark", "python", "unicode")  # the files in the package lark.grammars
_MAX_FILES = 100


@dataclass(slots=True)
class Scope:
    """One file: what its names mean.

    Attributes:
        prefix: of names that nobody asked for when the file was imported; empty for the grammar itself.
        aliases: names of this file that have other names outside.
        folder: what ``%import .x`` is relative to.
    """

    source: Source
    prefix: str
    aliases: dict[str, str]
    folder: Path | None
    inlines: dict[str, Inline] = field(default_factory=dict)

    def name(self, local: str) -> str:
        """The name by which the whole grammar knows a name of this file."""
        if local in self.aliases:
            return self.aliases[local]
        if not self.prefix or local in self.inlines:
            return str(local)
        return f"_{self.prefix}__{local[1:]}" if local.startswith("_") else f"{self.prefix}__{local}"


@dataclass(slots=True)
class Definition:
    """A rule, a template or a terminal.

    Attributes:
        begin: the position of its name in its file.
        parameters: of a template.
        bodies: syntax trees, each with the file it is in; several if it has been extended; none if it is declared only.
    """

    name: str
    terminal: bool
    scope: Scope
    begin: int
    parameters: tuple[str, ...] = ()
    bodies: list[tuple[Node, Scope]] = field(default_factory=list)
    attributes: Attributes | None = None

    @property
    def place(self) -> str:
        """``line:column`` of its name."""
        return self.scope.source.place(self.begin)


@dataclass(slots=True)
class Definitions:
    """What has been read.

    Attributes:
        by_name: in order, those of imported files first.
        ignored: the bodies after ``%ignore``, of the grammar itself only.
    """

    by_name: dict[str, Definition] = field(default_factory=dict)
    ignored: list[tuple[Node, Scope]] = field(default_factory=list)


def read_definitions(
    source: Source,
    folder: Path | None,
    budget: Budget,
    notes: Notes,
    on_file: Callable[[str, bytes], None] | None = None,
) -> Definitions:
    """Read a grammar and all that it imports.

    Args:
        source: the grammar.
        folder: where its imports are, or None.
        budget: pays the text of all files.
        notes: of what constrains nothing.
        on_file: called for each file of the folder, with its path from there and its contents.

    Raises:
        SourceError, UnsupportedError: a file is malformed or missing, a name is defined twice, ...
    """
    reader = _Reader(budget, notes, folder, on_file)
    reader.read(Scope(source, "", {}, folder), ())
    return reader.result


class _Reader:
    def __init__(
        self, budget: Budget, notes: Notes, folder: Path | None, on_file: Callable[[str, bytes], None] | None
    ) -> None:
        self._folder = folder
        self._on_file = on_file
        self._budget = budget
        self._notes = notes
        self._files = 0
        self.result = Definitions()

    def read(self, scope: Scope, opened: tuple[str, ...]) -> None:
        """Read a file; `opened` names those that are being imported, this one last."""
        source = scope.source
        lexed = lex(source)
        scope.inlines = lexed.inlines
        for begin, text in lexed.options.items():
            self._notes.note("options of another engine are not used", source.place(begin), text[:40])
        tree = parse_tokens(lexed.tokens, source, self._budget)
        statements = [child for child in tree.children if isinstance(child, Tree)]
        self._import_all(scope, [statement for statement in statements if statement.data == "import"], opened)
        for statement in statements:
            if statement.data in ("rule", "term"):
                self._define(statement, scope, lexed.attributes)
            elif statement.data in ("override", "extend"):
                inner = statement.children[0]
                assert isinstance(inner, Tree)
                self._change(inner, scope, lexed.attributes, override=statement.data == "override")
            elif statement.data == "ignore" and not scope.prefix:
                body = statement.children[0]
                assert isinstance(body, Tree)
                self.result.ignored.append((body, scope))
            elif statement.data == "declare":
                for token in tokens_of(statement):
                    self._add(Definition(scope.name(token), token.type == "TERMINAL", scope, token.start_pos or 0))

    def _define(self, statement: Node, scope: Scope, attributes: dict[int, Attributes]) -> None:
        self._add(self._definition(statement, scope, attributes))

    def _definition(self, statement: Node, scope: Scope, attributes: dict[int, Attributes]) -> Definition:
        children = statement.children
        terminal = statement.data == "term"
        name, body = children[0 if terminal else 1], children[-1]
        assert isinstance(name, Token)
        assert isinstance(body, Tree)
        begin = name.start_pos or 0
        parameters: tuple[str, ...] = ()
        if terminal:
            priority = [str(child) for child in children[1:-1]]
        else:
            params, number = children[2], children[3]
            assert isinstance(params, Tree)
            assert isinstance(number, Tree)
            parameters = tuple(map(str, tokens_of(params)))
            priority = [str(token) for token in tokens_of(number)]
        if len(set(parameters)) < len(parameters):
            raise scope.source.wrong("two parameters have one name", begin, construct=str(name))
        if str(name) in scope.inlines:
            raise scope.source.wrong("this cannot be defined", begin, construct=str(name))
        if name.startswith("__"):
            raise scope.source.wrong("names do not begin with two underscores", begin, construct=str(name))
        if priority and int(priority[0][:20]) and not scope.prefix:
            self._notes.note("priorities do not matter: all readings count", scope.source.place(begin), str(name))
        return Definition(
            scope.name(name), terminal, scope, begin, parameters, [(body, scope)], attributes.get(begin)
        )

    def _add(self, definition: Definition) -> None:
        before = self.result.by_name.get(definition.name)
        if before is not None:
            if before.scope.source.name == definition.scope.source.name and definition.scope.prefix:
                return  # imported in two ways
            raise SourceError(
                f"this is defined twice, first at {before.place}",
                place=definition.place,
                construct=definition.name,
                hint="replace what is imported with %override, or add to it with %extend",
            )
        self._budget.spend("procedures", place=definition.place)
        self.result.by_name[definition.name] = definition

    def _change(self, statement: Node, scope: Scope, attributes: dict[int, Attributes], *, override: bool) -> None:
        fresh = self._definition(statement, scope, attributes)
        before = self.result.by_name.get(fresh.name)
        what = "override" if override else "extend"
        if before is None:
            raise scope.source.wrong(f"there is nothing to {what} under this name", fresh.begin, construct=fresh.name)
        if before.terminal != fresh.terminal or len(before.parameters) != len(fresh.parameters):
            raise scope.source.wrong("this does not have the same parameters", fresh.begin, construct=fresh.name)
        if override:
            self.result.by_name[fresh.name] = fresh
        elif not before.bodies:
            raise scope.source.wrong("this is declared only: there is nothing to extend", fresh.begin)
        elif before.parameters != fresh.parameters or fresh.attributes:
            raise scope.source.wrong("this does not have the same parameters", fresh.begin, construct=fresh.name)
        else:
            before.bodies += fresh.bodies

    # -- imports ------------------------------------------------------------------------------------------------

    def _import_all(self, scope: Scope, statements: list[Node], opened: tuple[str, ...]) -> None:
        """Read the imported files, each once with all names that are asked of it."""
        asked: dict[tuple[bool, tuple[str, ...]], tuple[int, dict[str, str], list[Token]]] = {}
        for statement in statements:
            path, *more = statement.children
            assert isinstance(path, Tree)
            parts = [token for token in path.children if isinstance(token, Token)]
            begin = parts[0].start_pos or 0
            if more and isinstance(more[0], Tree):
                names = [(token, str(token)) for token in tokens_of(more[0])]
            else:
                local = parts.pop()
                names = [(local, str(more[0]) if more else str(local))]
            if not parts:
                raise scope.source.wrong("a file and a name in it are expected", begin, hint="as in %import common.WS")
            key = (path.data == "import_rel", tuple(map(str, parts)))
            _, aliases, tokens = asked.setdefault(key, (begin, {}, []))
            for token, alias in names:
                if token.type != ("RULE" if alias.strip("_").islower() else "TERMINAL"):
                    raise scope.source.wrong("a rule stays a rule, a terminal a terminal", begin, construct=alias)
                aliases[str(token)] = scope.name(alias)
                tokens.append(token)
        for (relative, parts_), (begin, aliases, tokens) in asked.items():
            inner = self._open(scope, relative, parts_, begin, aliases, opened)
            self.read(inner, (*opened, inner.source.name))
            for token in tokens:
                if aliases[str(token)] not in self.result.by_name:
                    raise scope.source.wrong(
                        f"{inner.source.name} does not define this", token.start_pos or 0, construct=str(token)
                    )

    def _open(
        self,
        scope: Scope,
        relative: bool,
        parts: tuple[str, ...],
        begin: int,
        aliases: dict[str, str],
        opened: tuple[str, ...],
    ) -> Scope:
        name = ("." if relative else "") + ".".join(parts)
        prefix = "__".join(filter(None, (scope.prefix, *parts)))
        if not relative:
            if len(parts) > 1 or parts[0] not in _LIBRARY:
                raise scope.source.wrong(
                    "there is no such library", begin, construct=name, hint="files beside the grammar begin with a dot"
                )
            text = (resources.files("lark.grammars") / f"{parts[0]}.lark").read_text("utf-8")
            folder = None
        else:
            if scope.folder is None:
                raise scope.source.wrong(
                    "this grammar has no folder to import from", begin, construct=name, hint="compile it from a file"
                )
            file = scope.folder.joinpath(*parts[:-1], f"{parts[-1]}.lark")
            try:
                content = file.read_bytes()
                text = content.decode("utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                raise scope.source.wrong(f"{file} cannot be read: {error}", begin, construct=name) from None
            if self._on_file is not None and self._folder is not None:
                self._on_file(file.relative_to(self._folder).as_posix(), content)
            folder, name = file.parent, str(file)
        self._files += 1
        if name in opened or self._files > _MAX_FILES:
            raise scope.source.wrong("these files import each other", begin, construct=name)
        self._budget.spend("source_bytes", len(text))
        return Scope(Source(text, name), prefix, aliases, folder)


def tokens_of(tree: Node) -> Iterator[Token]:
    """The tokens of a tree, in order."""
    stack: list[Node | Token] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Tree):
            stack += reversed(node.children)
        else:
            yield node
