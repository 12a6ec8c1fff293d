"""What stands on the right of a grammar rule, the same for every notation.

Expressions are flat, frozen nodes; build with the functions below, which simplify. They may be nested deeply, and
nothing here or in the lowering recurses over them. `size` is about how many nodes of a graph an expression takes.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

from schemac.ir.charset import CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.graph import Module

#: Repetitions of up to so many nodes are written out, and so few copies whatever they take; see docs/grammars.md.
WRITTEN_OUT = 1_000
FEW_COPIES = 4
#: A copy takes at least so many nodes.
_LEAST = 4


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Exactly this text."""

    text: str
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Characters:
    """One character of a set."""

    symbols: CharSet
    size: int = 4


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """A text of a language over code points."""

    dfa: Dfa
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A text of the rule of that name."""

    name: str
    place: str
    size: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """One special token out of some, by their labels."""

    labels: tuple[str, ...]
    size: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """A text of another module."""

    module: Module
    size: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """The parts one after another."""

    parts: tuple[Expression, ...]
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Any one of the parts."""

    parts: tuple[Expression, ...]
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """The body `low` to `high` (None: any number of) times."""

    body: Expression
    low: int
    high: int | None
    place: str
    size: int


Expression = Text | Characters | Language | Reference | Tokens | Embedded | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A named expression. `place` is ``line:column`` of its definition.

    `used` rules are not reported if nothing refers to them. `inline` rules are written wherever they are referred to;
    they must not lead to themselves.
    """

    name: str
    place: str
    body: Expression
    used: bool = False
    inline: bool = False


def text(value: str) -> Text:
    """Exactly this text."""
    return Text(value, len(value) + 1)


def characters(symbols: CharSet) -> Characters:
    """One character of a set."""
    return Characters(symbols)


def language(dfa: Dfa) -> Language:
    """A text of a language over code points."""
    return Language(dfa, dfa.size + 1)


NOTHING = text("")


def sequence(parts: Items[Expression]) -> Expression:
    """The parts one after another; neighbouring texts become one."""
    joined: list[Expression] = []
    run: list[str] = []  # of neighbouring texts
    for part in parts:
        if isinstance(part, Text):
            run.append(part.text)
            continue
        if run:
            joined.append(text("".join(run)))
            run = []
        joined.append(part)
    if run:
        joined.append(text("".join(run)))
    kept = [part for part in joined if not (isinstance(part, Text) and not part.text)]
    if len(kept) == 1:
        return kept[0]
    return Sequence(tuple(kept), 1 + sum(part.size for part in kept)) if kept else NOTHING


def choice(parts: Items[Expression]) -> Expression:
    """Any one of the parts; without parts, no text."""
    if len(parts) == 1:
        return parts[0]
    return Choice(tuple(parts), 1 + sum(part.size for part in parts))


def repeat(body: Expression, low: int, high: int | None, place: str) -> Expression:
    """The body `low` to `high` (None: any number of) times."""
    if (low, high) == (1, 1):
        return body
    if high == 0 or (isinstance(body, Text) and not body.text):
        return NOTHING
    if isinstance(body, Repeat) and body.low == 0 and (body.high is None or (body.high == 1 == high)) and low <= 1:
        return body  # such as (x?)? and (x*)+
    size = 2 if is_counted(body, low, high) else 2 + body.size * max(1, low if high is None else high)
    return Repeat(body, low, high, place, size)


def is_counted(body: Expression, low: int, high: int | None) -> bool:
    """Whether a repetition is too large to be written out: a guard counts it."""
    copies = low if high is None else high
    return copies > FEW_COPIES and copies * max(body.size, _LEAST) > WRITTEN_OUT
