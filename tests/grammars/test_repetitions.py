"""Counted repetitions of grammars: the same texts as written out, for recursive and ambiguous rules too."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from schemac.frontend.grammar import expression
from schemac.frontend.regex import repetitions
from schemac.ir.automaton import Automaton
from schemac.ir.recognizer import Recognizer
from tests.grammars.support import accepts, gbnf, lark


def random_grammar(generator: random.Random, count: Callable[[int, int | None], str], arrow: str, start: str) -> str:
    def part(depth: int) -> str:
        choice = generator.random()
        if depth <= 0 or choice < 0.35:
            return generator.choice(['"a"', '"b"', '","', "one", "two"])
        if choice < 0.6:
            return f"({part(depth - 1)} {part(depth - 1)})"
        if choice < 0.7:
            return f"({part(depth - 1)} | {part(depth - 1)})"
        low = generator.randrange(4)
        high = generator.choice([low + 2, max(low, 1)])
        return f"({part(depth - 1)}){count(low, high)}"

    return "\n".join(
        [
            f"{start}{arrow} {part(3)} ({part(2)}){count(1, 3)}",
            f'one{arrow} "a" | "," {part(2)} | one {part(1)}',
            f'two{arrow} "b" | "[" {part(2)} "]" | ({part(1)}){count(0, 2)} ","',
        ]
    )


def both(compile_: Callable[[str], Automaton], grammar: str) -> tuple[Recognizer, Recognizer]:
    plain = compile_(grammar)
    with pytest.MonkeyPatch.context() as patch:
        for module in (expression, repetitions):
            patch.setattr(module, "WRITTEN_OUT", 1)
            patch.setattr(module, "FEW_COPIES", 1)
        return Recognizer(plain), Recognizer(compile_(grammar))


def test_counted_grammars_have_the_same_texts() -> None:
    guarded = 0
    for seed in range(40):
        generator = random.Random(seed)
        if seed % 2:
            grammar = random_grammar(generator, lambda low, high: f"{{{low},{high}}}", " ::=", "root")
            plain, counted = both(gbnf, grammar)
        else:
            grammar = random_grammar(generator, lambda low, high: f"~{low}..{high}", ":", "start")
            plain, counted = both(lark, grammar)
        assert not plain.automaton.guards
        guarded += bool(counted.automaton.guards)
        for _ in range(25):
            left, right = plain.start(), counted.start()
            for _ in range(14):
                choices = plain.allowed(left)
                assert choices == counted.allowed(right), grammar
                assert plain.ended(left) == counted.ended(right), grammar
                if not choices:
                    break
                byte = generator.choice(choices)
                left, right = plain.step(left, byte), counted.step(right, byte)
    assert guarded > 30


@pytest.mark.parametrize(
    ("compile_", "grammar", "good", "bad"),
    [
        (gbnf, 'root ::= "{" (item ","){0,9999} item "}"\nitem ::= [a-z]+ | "(" item ")"', "{a,(b),((c))}", "{}"),
        (gbnf, 'root ::= [a-z]{300,70000} "."', "a" * 300 + ".", "a" * 299 + "."),
        (lark, 'start: item~300..70000\nitem: "a" | "(" item ")"', "(a)a" * 150, "(a)" * 299),
        (lark, "start: WORD\nWORD: /[a-z]{3,70000}/", "abc", "ab"),
        (lark, 'start: WORD ("," WORD)*\nWORD: "x"~2000', "x" * 2000, "x" * 1999),
        (gbnf, 'root ::= "<" Regex("[a-z]{3,70000}") ">"', "<abc>", "<ab>"),
    ],
)
def test_large_repetitions_are_counted(
    compile_: Callable[[str], Automaton], grammar: str, good: str, bad: str
) -> None:
    automaton = compile_(grammar)
    assert automaton.guards
    assert automaton.states < 30
    assert accepts(automaton, good)
    assert not accepts(automaton, bad)


def test_terminals_that_are_taken_apart_are_written_out() -> None:
    """An ignored text ends where it can; a terminal that begins like its next character is no terminal there."""
    grammar = "start: WORD+\nWORD: /[!a][b-z]{1,%d}/\n%%ignore /!+/"
    large, small = lark(grammar % 2000), lark(grammar % 9)
    assert not large.guards
    for text in ("!b", "!!b", "!!ab", "ab!!", "ab!!!!ab", "ab!b"):
        assert accepts(large, text) == accepts(small, text)
    assert lark("start: WORD+\nWORD: /[!a][b-z]{1,2000}/\n%ignore / /").guards
