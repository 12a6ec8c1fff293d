"""Grammars made to hurt: an answer or an error comes soon, and never a crash."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from schemac.errors import BudgetExceeded, EmptyLanguageError, SchemacError, SourceError, UnsupportedError
from schemac.ir.automaton import Automaton
from tests.grammars.support import accepts, gbnf, lark

DEEP = 20_000

#: name -> (frontend, grammar, what comes of it: a text that it accepts, or a class of errors)
CASES: dict[str, tuple[Callable[..., Automaton], Callable[[], str], str | type[SchemacError] | None]] = {
    "nested parentheses, GBNF": (gbnf, lambda: "root ::= " + "(" * DEEP + '"a"' + ")" * DEEP, "a"),
    "nested parentheses, Lark": (lark, lambda: "start: " + "(" * 5_000 + '"a"' + ")" * 5_000, "a"),
    "nested brackets, Lark": (lark, lambda: "start: " + "[" * 3_000 + '"a"' + "]" * 3_000, "a"),
    "open parentheses, GBNF": (gbnf, lambda: "root ::= " + "(" * DEEP, SourceError),
    "open parentheses, Lark": (lark, lambda: "start: " + "(" * 10_000, SourceError),
    "closed parentheses": (gbnf, lambda: "root ::= " + ")" * DEEP, SourceError),
    "huge counts, GBNF": (gbnf, lambda: 'root ::= ("a" "b"){100000000000000000000}', None),
    "huge counts, Lark": (lark, lambda: 'start: ("a" b)~100000000000000000000\nb: "b"', None),
    "huge counts of a character": (gbnf, lambda: "root ::= [a-z]{3,100000000000000000000}", "abc"),
    "huge counts of itself": (gbnf, lambda: "root ::= root{3,100000000000000000000} | [a-z]", BudgetExceeded),
    "huge counts in a terminal": (lark, lambda: 'start: A\nA: "ab"~1..100000000000000000000', "abab"),
    "counts of counts": (gbnf, lambda: "root ::= " + "(" * 30 + '"a"' + "{1000})" * 30, None),
    "a rule that is itself": (gbnf, lambda: "root ::= root | root root | (root)*  root", EmptyLanguageError),
    "a cycle of rules": (
        gbnf,
        lambda: "root ::= r0\n" + "\n".join(f"r{i} ::= r{(i + 1) % 3000}" for i in range(3000)),
        EmptyLanguageError,
    ),
    "a chain of rules, GBNF": (
        gbnf, lambda: "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1}" for i in range(3000)) + '\nr3000 ::= "a"', "a",
    ),
    "a chain of rules, Lark": (
        lark, lambda: "start: r0\n" + "\n".join(f"r{i}: r{i + 1}" for i in range(2000)) + '\nr2000: "a"', "a",
    ),
    "a chain of terminals": (
        lark, lambda: "start: R0\n" + "\n".join(f"R{i}: R{i + 1}" for i in range(2000)) + '\nR2000: "a"', "a",
    ),
    "doubling terminals": (
        lark,
        lambda: "start: R0\n" + "\n".join(f"R{i}: R{i + 1} R{i + 1}" for i in range(40)) + '\nR40: "a"',
        BudgetExceeded,
    ),
    "doubling rules": (
        gbnf,
        lambda: "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)) + '\nr60 ::= "a"',
        None,
    ),
    "growing templates": (lark, lambda: 'start: a{"x"}\na{y}: a{b{y, y}}\nb{y, z}: y z', UnsupportedError),
    "a text without end": (lark, lambda: 'start: "' + "\\\\" * 200_000, SourceError),
    "a pattern without end": (lark, lambda: "start: /" + "\\/" * 200_000, SourceError),
    "a class without end": (gbnf, lambda: "root ::= [" + "a-z" * 100_000, SourceError),
    "names without end": (gbnf, lambda: "root ::= " + "x" * 500_000, SourceError),
    "brackets after names": (gbnf, lambda: "root ::= " + "a[b" * 50_000, SourceError),
    "white space": (lark, lambda: "start:" + " \n \t" * 100_000 + '"a"', SourceError),
    "comments": (gbnf, lambda: "# x\n" * 100_000 + 'root ::= "a"', "a"),
    "a lone surrogate": (gbnf, lambda: 'root ::= "\ud800"', SourceError),
    "zero bytes": (lark, lambda: "start: \0", SourceError),
    "nested JSON": (lark, lambda: "start: %json " + '{"not":' * 20_000 + "{}" + "}" * 20_000, None),
    "many alternatives": (gbnf, lambda: "root ::= " + " | ".join(f'"{i}"' for i in range(3_000)), "2999"),
    "nullable sequences": (gbnf, lambda: 'root ::= "a" ' + 'b? ' * 200 + '\nb ::= "b" | ""', "abb"),
    "all begin with each other": (
        gbnf,
        lambda: "root ::= r0\n" + "\n".join(
            f'r{i} ::= r{(i * 7 + 1) % 150} "x" | r{(i * 3 + 2) % 150} r{(i + 1) % 150} | "y"' for i in range(150)
        ),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_over_soon(name: str) -> None:
    compile_, write, expected = CASES[name]
    grammar = write()
    started = time.perf_counter()
    found: Automaton | SchemacError
    try:
        found = compile_(grammar)
    except SchemacError as error:
        found = error
    seconds = time.perf_counter() - started
    if isinstance(expected, str):
        assert isinstance(found, Automaton), str(found)
        assert accepts(found, expected)
    elif expected is not None:
        assert isinstance(found, expected), found
    if isinstance(found, SchemacError):
        assert len(str(found)) < 500
    assert seconds < 6, seconds  # a second on a quiet machine
