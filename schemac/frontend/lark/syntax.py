"""Lark's own parser of grammars, fed with our tokens."""

from __future__ import annotations

from functools import cache

from lark import Token, Tree, UnexpectedInput
from lark.exceptions import UnexpectedToken
from lark.load_grammar import GRAMMAR_ERRORS, _get_parser

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.grammar import Source

#: A node of the tree: `data` is a rule of `lark.load_grammar.RULES`.
Node = Tree[Token]


def parse_tokens(tokens: list[Token], source: Source, budget: Budget) -> Node:
    """The syntax tree of a grammar; tokens in it keep their `start_pos`.

    Raises:
        SourceError: it is none.
    """
    parser = _get_parser().parse_interactive("", "start")  # type: ignore[no-untyped-call]
    last = tokens[-1]
    try:
        for number, token in enumerate(tokens):
            last = token
            if not number & 1023:
                budget.check_time()
            parser.feed_token(token)
        result = parser.feed_eof(last)
    except UnexpectedToken as error:
        raise _translated(error, parser.accepts(), last, source) from None
    assert isinstance(result, Tree)
    return result


def _translated(error: UnexpectedToken, accepted: set[str], token: Token, source: Source) -> SourceError:
    """Say it in Lark's words, if one of its examples goes wrong in the same way."""
    reason = None
    examples: list[tuple[str, list[str]]] = GRAMMAR_ERRORS
    for label, texts in examples:
        if any(_state_of(text) == (error.state, error.token.type) for text in texts):
            reason = label[0].lower() + label[1:]
            break
    begin = token.start_pos or 0
    what = "the end of the line" if token.type in ("_NL", "$END") else f"`{str(token)[:40]}`"
    expected = sorted(_NAMES[kind] for kind in accepted if kind in _NAMES)
    hint = "expected: " + ", ".join(expected) if expected else None
    text = str(token).strip() and str(token)
    return source.wrong(reason or f"{what} is not expected here", begin, construct=text or None, hint=hint)


@cache
def _state_of(text: str) -> tuple[object, str] | None:
    """Where Lark's parser stops on a faulty grammar."""
    try:
        _get_parser().parse(text, "start")  # type: ignore[no-untyped-call]
    except UnexpectedToken as error:
        return error.state, error.token.type
    except UnexpectedInput:
        return None
    return None


_NAMES = {
    "RULE": "a rule name", "TERMINAL": "a terminal name", "STRING": "a text", "REGEXP": "a pattern", "_COLON": "`:`",
    "_RPAR": "`)`", "_RBRA": "`]`", "_RBRACE": "`}`", "NUMBER": "a number", "_NL": "the end of the line",
}  # fmt: skip
