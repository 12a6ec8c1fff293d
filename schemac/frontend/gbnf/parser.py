r"""From grammar text to rules, without recursion.

    grammar     = (name [options] "::=" alternatives)*           a rule begins on a line of its own
    alternatives = sequence ("|" sequence)*
    sequence    = (element [repetition])*
    element     = "\"...\"" | "[...]" | "." | name | "(" alternatives ")" | "<" token ">" | macro
    repetition  = "*" | "+" | "?" | "{m}" | "{m,}" | "{m,n}"
    options     = "[" capture, temperature, ... "]"              xgrammar

Sources: llama.cpp, grammars/README.md; xgrammar, docs/defining_structures/ebnf_grammar.md. Where they differ, what
either accepts is read as both would; `\x` takes two digits as in llama.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from schemac.budget import Budget
from schemac.frontend.gbnf.characters import read_class, read_string
from schemac.frontend.gbnf.macros import MACROS, read_macro
from schemac.frontend.grammar import Notes, Rule, Source
from schemac.frontend.grammar import expression as ex
from schemac.frontend.grammar.tokens import read_token
from schemac.ir.charset import SCALARS

_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_DIGITS = frozenset("0123456789")
_LONGEST_NAME = 256
_OPTIONS_REACH = 400  # characters; option lists are short, and looking further for their end would cost quadratic time


@dataclass(slots=True)
class _Group:
    """An open parenthesis, or a rule."""

    begin: int
    alternatives: list[ex.Expression] = field(default_factory=list)
    items: list[ex.Expression] = field(default_factory=list)
    repeated: bool = True  # whether the last item can take no repetition (any more)

    def finish(self) -> ex.Expression:
        self.alternatives.append(ex.sequence(self.items))
        return ex.choice(self.alternatives)


def parse(source: Source, budget: Budget, notes: Notes) -> dict[str, Rule]:
    """The rules by name, in order.

    Raises:
        SourceError, UnsupportedError: see `gbnf_module`.
    """
    return _Parser(source, budget, notes).parse()


class _Parser:
    def __init__(self, source: Source, budget: Budget, notes: Notes) -> None:
        self.source = source
        self.text = source.text
        self.position = 0
        self.budget = budget
        self.notes = notes
        self.rules: dict[str, Rule] = {}

    def parse(self) -> dict[str, Rule]:
        self._skip()
        while self.position < len(self.text):
            self._rule()
        return self.rules

    def _rule(self) -> None:
        begin = self.position
        name = self._name(begin)
        if not name:
            raise self.source.wrong("a rule is expected here", begin, begin + 1, hint="as in name ::= ...")
        after = self._definition(begin + len(name))
        if after is None:
            raise self.source.wrong("a rule name must be followed by ::=", begin, construct=name)
        if self.text[self.text.rfind("\n", 0, begin) + 1 : begin].strip(" \t\r"):
            raise self.source.wrong("a rule must begin on a line of its own", begin, construct=name)
        place = self.source.place(begin)
        if name in self.rules:
            first = self.rules[name].place
            raise self.source.wrong(f"this rule is defined twice, first at {first}", begin, construct=name)
        self._options(begin + len(name), after)
        self.position = after
        groups = [_Group(begin)]
        while self._element(groups):
            self.budget.check_time()
        self.rules[name] = Rule(name, place, groups[0].finish(), used=name == "root")

    def _element(self, groups: list[_Group]) -> bool:
        """Read one element, operator or parenthesis; False at the end of the rule."""
        self._skip()
        begin, group, source = self.position, groups[-1], self.source
        char = self.text[begin : begin + 1]
        if not char:
            if len(groups) > 1:
                raise source.wrong("this parenthesis is never closed", group.begin, group.begin + 1)
            return False
        if char == "|":
            self.position += 1
            group.alternatives.append(ex.sequence(group.items))
            group.items, group.repeated = [], True
        elif char == "(":
            if self.text.startswith("(=", begin):
                raise source.unsupported(
                    "assertions about what follows are not known", begin, begin + 2, hint="leave out the (= ...)"
                )
            self.position += 1
            groups.append(_Group(begin))
        elif char == ")":
            if len(groups) == 1:
                raise source.wrong("this parenthesis closes nothing", begin, begin + 1)
            self.position += 1
            inner = groups.pop().finish()
            groups[-1].items.append(inner)
            groups[-1].repeated = False
        elif char in "*+?{":
            self._repetition(group, begin)
        else:
            item = self._atom(char, begin, len(groups) > 1)
            if item is None:
                return False
            group.items.append(item)
            group.repeated = False
        return True

    def _atom(self, char: str, begin: int, nested: bool) -> ex.Expression | None:
        """Read an element that is no group; None if another rule begins here."""
        source = self.source
        if char == '"':
            value, self.position = read_string(source, begin, self.notes)
            return ex.text(value)
        if char == "[":
            symbols, self.position = read_class(source, begin, self.notes)
            return ex.characters(symbols)
        if char == ".":
            self.position += 1
            return ex.characters(SCALARS)
        if char in "<!":
            token, self.position = read_token(source, begin)
            return token
        name = self._name(begin)
        if not name:
            hint = "texts stand in double quotes" if char == "'" else None
            raise source.wrong("this is not part of the notation", begin, begin + 1, hint=hint)
        if self._definition(begin + len(name)) is not None:
            if nested:
                raise source.wrong("a rule begins within parentheses", begin, construct=name, hint="close them before")
            return None
        if name in MACROS and self.text.startswith("(", begin + len(name)) and name not in self.rules:
            item, self.position = read_macro(source, begin, name, self.budget)
            return item
        self.position = begin + len(name)
        return ex.Reference(name, source.place(begin))

    def _repetition(self, group: _Group, begin: int) -> None:
        char = self.text[begin]
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, 0)}[char]
        self.position += 1
        if char == "{":
            low, high = self._counts(begin)
        if group.repeated:
            what = "wrap what is repeated in parentheses" if group.items else "write what is to be repeated before it"
            raise self.source.wrong("there is nothing to repeat here", begin, self.position, hint=what)
        group.items[-1] = ex.repeat(group.items[-1], low, high, self.source.place(begin))
        group.repeated = True

    def _counts(self, begin: int) -> tuple[int, int | None]:
        """Read the rest of ``{m}``, ``{m,}`` or ``{m,n}``."""
        end = self.text.find("}", begin)
        inside = self.text[begin + 1 : end] if 0 <= end <= begin + 100 else ""
        low, comma, high = (part.strip() for part in inside.partition(","))
        if not low or not _DIGITS.issuperset(low + high):
            hint = "write {0,n}" if comma and not low and high else "as in {3}, {3,} or {3,5}"
            raise self.source.wrong("these are no proper counts", begin, max(end, begin) + 1, hint=hint)
        self.position = end + 1
        least, most = int(low), int(high) if high else None if comma else int(low)
        if most is not None and most < least:
            raise self.source.wrong("this repetition is upside down", begin, end + 1)
        return least, most

    # -- names --------------------------------------------------------------------------------------------------

    def _name(self, begin: int) -> str:
        """The name at a position; a dot belongs to it if more of the name follows."""
        text, end = self.text, begin
        while end < len(text) and (text[end] in _NAME or (text[end] == "." and text[end + 1 : end + 2] in _NAME)):
            end += 1
        if end - begin > _LONGEST_NAME:
            raise self.source.wrong(f"this name has more than {_LONGEST_NAME} characters", begin, end)
        return text[begin:end] if end > begin and text[begin] != "." else ""

    def _definition(self, position: int) -> int | None:
        """The position behind ``::=``, if that follows a name (with options perhaps) on its line."""
        text = self.text
        if text.startswith("[", position):
            position = text.find("]", position, position + _OPTIONS_REACH) + 1
            if not position:
                return None
        while text[position : position + 1] in (" ", "\t") and position < len(text):
            position += 1
        return position + 3 if text.startswith("::=", position) else None

    def _options(self, begin: int, after: int) -> None:
        """Look at the options of a rule, if it has any."""
        if not self.text.startswith("[", begin):
            return
        inside = self.text[begin + 1 : self.text.rindex("]", begin, after)]
        for option in inside.split(","):
            name = option.partition("=")[0].strip()
            if name in ("capture", "temperature", "stop_capture"):
                self.notes.note("this option constrains nothing", self.source.place(begin), name)
                continue
            known = name in ("max_tokens", "max_chars", "lazy") or name.startswith("capture_hidden")
            if known:
                hint = "end the rule with what ends it" if name == "lazy" else "use a repetition with counts"
                raise self.source.unsupported("this option is not known", begin, construct=name, hint=hint)
            raise self.source.wrong("there is no such option", begin, construct=name or inside)

    def _skip(self) -> None:
        """Step over white space and comments."""
        text = self.text
        while self.position < len(text):
            char = text[self.position]
            if char == "#":
                end = text.find("\n", self.position)
                self.position = len(text) if end < 0 else end
            elif char in " \t\r\n":
                self.position += 1
            else:
                return
