r"""Lark's grammar notation as tokens, in linear time, with llguidance's additions.

The tokens are those of `lark.load_grammar.TERMINALS`, for Lark's own parser of grammars. What llguidance adds becomes
one of them:

    x{2,5}              x ~ 2 .. 5                           repetition
    %json {...}         a rule name, with an `Inline`        a JSON Schema
    %regex {...}        a terminal name, with an `Inline`    neighbouring chunks of a text
    <think>, <[12]>     a rule name, with an `Inline`        special tokens
    head[lazy]: ...     a rule name, with `attributes`
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lark import Token

from schemac.frontend.grammar import Source
from schemac.frontend.grammar import expression as ex
from schemac.frontend.grammar.tokens import read_token
from schemac.frontend.lark.attributes import Attributes, read_attributes
from schemac.frontend.lark.literals import literal_end

_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = frozenset("0123456789")
_NAME = _LOWER | _UPPER | _DIGITS | {"_"}
_SINGLE = {
    "|": "_OR", ":": "_COLON", ",": "_COMMA", "(": "_LPAR", ")": "_RPAR", "[": "_LBRA", "]": "_RBRA",
    "{": "_LBRACE", "}": "_RBRACE", "~": "TILDE", "+": "OP", "*": "OP", "?": "OP",
}  # fmt: skip
_DIRECTIVES = {
    "ignore": "_IGNORE", "import": "_IMPORT", "declare": "_DECLARE", "override": "_OVERRIDE", "extend": "_EXTEND",
}  # fmt: skip
#: The count of ``x{2,}``.
UNBOUNDED = "inf"


@dataclass(frozen=True, slots=True)
class Inline:
    """Something written within a grammar that is no Lark: JSON text, or special tokens."""

    kind: str  # json, regex or token
    text: str
    place: str
    tokens: ex.Tokens | None = None


@dataclass(slots=True)
class Lexed:
    """The tokens of one file.

    Attributes:
        tokens: up to a final ``_NL``; `start_pos` is set, lines and columns are not.
        inlines: by the value of the token that stands for it.
        attributes: by the position of the rule name they follow.
        options: texts of ``%llguidance {...}`` by position.
    """

    tokens: list[Token] = field(default_factory=list)
    inlines: dict[str, Inline] = field(default_factory=dict)
    attributes: dict[int, Attributes] = field(default_factory=dict)
    options: dict[int, str] = field(default_factory=dict)


def lex(source: Source) -> Lexed:
    """Split a grammar into tokens.

    Raises:
        SourceError, UnsupportedError: something that is none.
    """
    lexer = _Lexer(source)
    while lexer.position < len(source.text):
        lexer.step()
    lexer.add("_NL", len(source.text), "\n")
    return lexer.result


class _Lexer:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.position = 0
        self.result = Lexed()

    def add(self, kind: str, begin: int, value: str) -> None:
        self.result.tokens.append(Token(kind, value, begin))

    def single(self, kind: str, begin: int, value: str) -> None:
        self.add(kind, begin, value)
        self.position = begin + len(value)

    def last(self) -> str:
        return self.result.tokens[-1].type if self.result.tokens else "_NL"

    def step(self) -> None:
        """Read one token, or white space."""
        text, begin = self.text, self.position
        char, following = text[begin], text[begin + 1 : begin + 2]
        if char in " \t\r\n\f#" or (char == "/" and following == "/"):
            self._space()
        elif char == "\\":
            self._continuation(begin)
        elif char in _NAME and char not in _DIGITS:
            self._name(begin)
        elif char in ('"', "/"):
            self.position = literal_end(self.source, begin)
            self.add("STRING" if char == '"' else "REGEXP", begin, text[begin : self.position])
        elif char == "%":
            self._directive(begin)
        elif char == "<":
            tokens, self.position = read_token(self.source, begin)
            self._inline("RULE", Inline("token", text[begin : self.position], self.source.place(begin), tokens), begin)
        elif char in _DIGITS or (char in "+-" and following in _DIGITS and self.last() in ("_DOT", "TILDE", "_DOTDOT")):
            end = begin + 1
            while end < len(text) and text[end] in _DIGITS:
                end += 1
            self.single("NUMBER", begin, text[begin:end])
        elif char == "{" and text[begin + 1 : begin + 50].lstrip(" \t")[:1] in (*_DIGITS, ","):
            self._counts(begin)
        elif char in "!?" and self._modifiers(begin):
            pass
        elif text.startswith("->", begin):
            self.single("_TO", begin, "->")
        elif char == ".":
            self.single("_DOTDOT" if following == "." else "_DOT", begin, ".." if following == "." else ".")
        elif char == "~" and text[begin + 1 : begin + 50].lstrip(" \t")[:1] not in _DIGITS:
            raise self.source.unsupported("complements of terminals are not known", begin, begin + 1)
        elif char in _SINGLE:
            self.single(_SINGLE[char], begin, char)
        else:
            self._refuse(char, begin)

    def _refuse(self, char: str, begin: int) -> None:
        if char == "&":
            raise self.source.unsupported("intersections of terminals are not known", begin, begin + 1)
        if char == "@":
            raise self.source.unsupported("there are no other grammars to refer to", begin, begin + 1)
        hint = "texts stand in double quotes" if char == "'" else None
        raise self.source.wrong("this is not part of the notation", begin, begin + 1, hint=hint)

    def _space(self) -> None:
        """Step over white space and comments; one token for all line ends among it."""
        text, begin, lines = self.text, self.position, False
        while self.position < len(text):
            char = text[self.position]
            if char == "#" or text.startswith("//", self.position):
                end = text.find("\n", self.position)
                self.position = len(text) if end < 0 else end
            elif char in " \t\r\n\f":
                lines = lines or char == "\n"
                self.position += 1
            else:
                break
        if lines:
            if text.startswith("|", self.position):
                self.position += 1
                self.add("_NL_OR", self.position - 1, "|")
            else:
                self.add("_NL", begin, "\n")

    def _continuation(self, begin: int) -> None:
        end = self.text.find("\n", begin)
        if end < 0 or self.text[begin + 1 : end].strip(" \r"):
            raise self.source.wrong("a backslash may only end a line", begin, begin + 1)
        self.position = end + 1

    def _name(self, begin: int) -> None:
        text, end = self.text, begin
        while end < len(text) and (text[end] in _NAME or (text[end] == "-" and text[end + 1 : end + 2] in _NAME)):
            end += 1
        name = text[begin:end]
        letters = _LOWER.intersection(name), _UPPER.intersection(name)
        if bool(letters[0]) == bool(letters[1]) or name.lstrip("_")[0] in _DIGITS or end - begin > 256:
            raise self.source.wrong(
                "this is no name", begin, end, hint="rules are all in lower case, terminals all in upper case"
            )
        self.position = end
        begins = self.last() in ("_NL", "RULE_MODIFIERS", "_OVERRIDE", "_EXTEND")
        self.add("RULE" if letters[0] else "TERMINAL", begin, name)
        if begins and text.startswith("[", end):
            if letters[1]:
                raise self.source.unsupported("attributes are for rules only", end, end + 1)
            self.result.attributes[begin], self.position = read_attributes(self.source, end)

    def _modifiers(self, begin: int) -> bool:
        end = begin
        while self.text[end : end + 1] in ("!", "?") and end < begin + 2:
            end += 1
        if self.text[begin:end] not in ("!", "?", "!?", "?!") or self.text[end : end + 1] not in _LOWER | {"_"}:
            return False
        self.single("RULE_MODIFIERS", begin, self.text[begin:end])
        return True

    def _counts(self, begin: int) -> None:
        """Read ``{2}``, ``{2,}``, ``{,5}`` or ``{2,5}``."""
        end = self.text.find("}", begin, begin + 100)
        low, comma, high = (part.strip() for part in self.text[begin + 1 : max(end, begin)].partition(","))
        if end < 0 or not (low or high) or not _DIGITS.issuperset(low + high):
            raise self.source.wrong("these are no proper counts", begin, max(begin, end) + 1, hint="as in {2,5}")
        self.add("TILDE", begin, "~")
        self.add("NUMBER", begin, low or "0")
        if comma:
            self.add("_DOTDOT", begin, "..")
            self.add("NUMBER", begin, high or UNBOUNDED)
        self.position = end + 1

    def _directive(self, begin: int) -> None:
        end = begin + 1
        while end < len(self.text) and self.text[end] in _NAME:
            end += 1
        word = self.text[begin + 1 : end]
        if word in _DIRECTIVES:
            self.single(_DIRECTIVES[word], begin, self.text[begin:end])
        elif word in ("json", "regex"):
            text = self._json(begin, end)
            kind = "RULE" if word == "json" else "TERMINAL"
            self._inline(kind, Inline(word, text, self.source.place(self.position - len(text))), begin)
        elif word in ("llguidance", "grammar_options"):
            self.result.options[begin] = self._json(begin, end)
        else:
            raise self.source.unsupported("there is no such directive", begin, end)

    def _inline(self, kind: str, inline: Inline, begin: int) -> None:
        value = inline.text if inline.kind == "token" else f"%{inline.kind} at {inline.place}"
        self.result.inlines[value] = inline
        self.add(kind, begin, value)

    def _json(self, begin: int, position: int) -> str:
        """The JSON value after a directive, up to its closing bracket; what is in it is for others to check."""
        text = self.text
        while text[position : position + 1] in (" ", "\t", "\r", "\n") and position < len(text):
            position += 1
        first, depth = position, 0
        while position < len(text):
            char = text[position]
            if char == '"':
                position += 1
                while position < len(text) and text[position] != '"':
                    position += 2 if text[position] == "\\" else 1
            elif char in "{[":
                depth += 1
            elif char in "}]":
                depth -= 1
            position += 1
            if depth <= 0:
                break
        if depth or text[first : first + 1] not in ("{", "["):
            if depth == 0 and (word := _json_word(text, first)):
                self.position = first + len(word)
                return word
            raise self.source.wrong("a JSON value is expected here", begin, begin + 12, hint="as in %json {...}")
        self.position = position
        return text[first:position]


def _json_word(text: str, begin: int) -> str:
    return next((word for word in ("true", "false") if text.startswith(word, begin)), "")
