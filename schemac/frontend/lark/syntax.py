"""Lark's own grammar of grammars, run by Lark's parser on our tokens."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from lark import Token, Tree
from lark.common import ParserConf
from lark.exceptions import UnexpectedToken
from lark.grammar import NonTerminal, Rule, RuleOptions, Symbol, Terminal
from lark.lexer import Lexer, LexerState, LexerThread
from lark.load_grammar import GRAMMAR_ERRORS, RULES
from lark.parse_tree_builder import ParseTreeBuilder
from lark.parsers.lalr_interactive_parser import InteractiveParser
from lark.parsers.lalr_parser import LALR_Parser

from schemac.budget import Budget
from schemac.errors import SchemacError, SourceError
from schemac.frontend.grammar import Source
from schemac.frontend.lark.lexer import lex

#: A node of the tree: `data` is a rule of `lark.load_grammar.RULES`.
Node = Tree[Token]

_CLOSERS = ("_RPAR", "_RBRA", "_RBRACE")
_NAMES = {
    "RULE": "a rule name", "TERMINAL": "a terminal name", "STRING": "a text", "REGEXP": "a pattern", "_COLON": "`:`",
    "_RPAR": "`)`", "_RBRA": "`]`", "_RBRACE": "`}`", "NUMBER": "a number", "_NL": "the end of the line",
}  # fmt: skip


@cache
def _parser() -> LALR_Parser:
    """What `lark.load_grammar` makes of `RULES`, without a lexer."""
    rules = [
        Rule(NonTerminal(name.lstrip("?")), [_symbol(word) for word in expansion.split()], order, None, options)
        for name, expansions in RULES.items()
        for options in [RuleOptions(expand1=name.startswith("?"))]
        for order, expansion in enumerate(expansions)
    ]
    callbacks = ParseTreeBuilder(rules, Tree).create_callback()  # type: ignore[no-untyped-call]
    return LALR_Parser(ParserConf(rules, callbacks, ["start"]))


class _NoLexer(Lexer):
    """Tokens are fed one by one."""

    def lex(self, lexer_state: LexerState, parser_state: object) -> Iterator[Token]:
        return iter(())


def _interactive() -> InteractiveParser:
    parser = _parser().parse_interactive(LexerThread(_NoLexer(), None), "start")
    assert isinstance(parser, InteractiveParser)
    return parser


def _symbol(word: str) -> Symbol:
    return Terminal(word, filter_out=word.startswith("_")) if word.isupper() else NonTerminal(word)


def parse_tokens(tokens: list[Token], source: Source, budget: Budget) -> Node:
    """The syntax tree of a grammar; tokens in it keep their `start_pos`.

    Raises:
        SourceError: it is none.
    """
    parser = _interactive()
    last = tokens[-1]
    try:
        for number, token in enumerate(tokens):
            last = token
            if not number & 1023:
                budget.check_time()
            parser.feed_token(token)
        result = parser.feed_eof(last)  # type: ignore[no-untyped-call]
    except UnexpectedToken as error:
        accepted = parser.accepts()  # type: ignore[no-untyped-call]
        raise _translated(error, accepted, last, source) from None
    assert isinstance(result, Tree)
    return result


def _translated(error: UnexpectedToken, accepted: set[str], token: Token, source: Source) -> SourceError:
    """Say it in Lark's words, if one of its examples goes wrong in the same way."""
    examples: list[tuple[str, list[str]]] = GRAMMAR_ERRORS
    what = "the end of the line" if token.type in ("_NL", "$END") else f"`{str(token)[:40]}`"
    reason = "this closes nothing" if token.type in _CLOSERS else f"{what} is not expected here"
    for label, texts in examples:
        if any(_failure(text) == (error.state, error.token.type) for text in texts):
            reason = label[0].lower() + label[1:]
            break
    expected = sorted(_NAMES[kind] for kind in accepted if kind in _NAMES)
    hint = "expected: " + ", ".join(expected) if expected else None
    return source.wrong(reason, token.start_pos or 0, construct=str(token).strip() or None, hint=hint)


@cache
def _failure(text: str) -> tuple[object, str] | None:
    """Where Lark's parser stops on a faulty grammar: its state, and the type of the token."""
    parser = _interactive()
    try:
        for token in lex(Source(text)).tokens:
            parser.feed_token(token)
    except UnexpectedToken as error:
        return error.state, error.token.type
    except SchemacError:
        return None
    return None
