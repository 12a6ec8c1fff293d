"""Counted repetitions of patterns: the same texts as the pattern written out, and never two counts at once."""

from __future__ import annotations

import random
from itertools import product

import pytest

import schemac
from schemac.budget import Budget
from schemac.errors import BudgetExceeded
from schemac.frontend.regex import counted_module, lower, parse, repetitions
from schemac.frontend.regex.ast import Node
from schemac.ir.pipeline import lower as lower_module
from schemac.ir.recognizer import Places, Recognizer

LETTERS = "abé,"


def counted(pattern: str) -> Recognizer | None:
    module = counted_module(parse(pattern, dialect="rust"), "regex", budget=Budget(), place="")
    return None if module is None else Recognizer(lower_module(module, Budget())[0])


def random_pattern(generator: random.Random, depth: int) -> str:
    choice = generator.random()
    if depth <= 0 or choice < 0.2:
        return generator.choice(["a", "b", "é", ",", "[ab]", "[^,]", ".", "ab"])
    inner = random_pattern(generator, depth - 1)
    if choice < 0.4:
        return inner + random_pattern(generator, depth - 1)
    if choice < 0.5:
        return f"({inner}|{random_pattern(generator, depth - 1)})"
    if choice < 0.6:
        return f"({inner}){generator.choice('*+?')}"
    low = generator.randrange(5)
    return f"({inner}){{{low},{generator.choice([low + 2, max(low, 1), ''])}}}"


@pytest.fixture
def low_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetitions, "WRITTEN_OUT", 1)
    monkeypatch.setattr(repetitions, "FEW_COPIES", 1)


def certain(places: Places) -> bool:
    """Whether every repetition has one count only."""
    numbers: dict[int, set[int]] = {}
    for place in places:
        registers = place[2]
        while registers is not None:
            procedure, register, registers = registers
            numbers.setdefault(procedure, set()).add(register.number)
    # A text may have ended one that goes on as well: the next one, begun without reading, makes a second count.
    return all(max(of) - min(of) <= 1 or 1 in of for of in numbers.values())


@pytest.mark.usefixtures("low_threshold")
def test_counted_patterns_match_the_same_texts() -> None:
    generator = random.Random(11)
    tried = 0
    while tried < 150:
        pattern = random_pattern(generator, 4)
        node: Node = parse(pattern, dialect="rust")
        recognizer = counted(pattern)
        if recognizer is None:
            continue
        tried += 1
        language = lower(node, search=False)
        texts = ["".join(word) for length in range(4) for word in product(LETTERS, repeat=length)]
        texts += ["".join(generator.choices(LETTERS, k=generator.randrange(4, 14))) for _ in range(60)]
        texts += ["".join(map(chr, word)) for word in language.words(40)]
        for text in texts:
            places = recognizer.start()
            for byte in text.encode():
                places = recognizer.step(places, byte)
                assert certain(places), (pattern, text)
            assert bool(places and recognizer.ended(places)) == language.accepts(text), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "guards"),
    [
        ("(item,){0,9999}item", [(1, 9999)]),
        ("^[a-z]{1,100000}$", [(1, 100000)]),
        ("[^x]{500,65536}x", [(500, 65536)]),
        ("([a-z]{1,2000},){1,1000}", [(1, 1000), (1, 2000)]),
        (r"(\w+ ){1,500}\w+", [(1, 500)]),
        ("[a-z]{5000,}[0-9]{2000}", [(2000, 2000), (5000, None)]),
        ("(a*,?b){3,5000}", [(3, 5000)]),
    ],
)
def test_large_repetitions_are_counted(pattern: str, guards: list[tuple[int, int | None]]) -> None:
    recognizer = counted(pattern)
    assert recognizer is not None
    assert sorted((g.low, g.high) for _, g in recognizer.automaton.guards) == sorted(guards, key=str)


@pytest.mark.parametrize(
    "pattern",
    ["x*x{1,2000}", "(a|aa){1,2000}", "a{1,2000}b?a{1,2000}", "[a-z]{1,900}", r"\b[a-z]{1,2000}", "(?=a)[a-z]{1,2000}",
     r"\w{1,4}", "(a*){3,5000}b", "(foo|[a-z]{1,2000}!)+"],
)  # fmt: skip
def test_other_repetitions_are_written_out(pattern: str) -> None:
    recognizer = counted(pattern)
    assert recognizer is None or not recognizer.automaton.guards


def test_what_cannot_be_counted_still_ends_in_time() -> None:
    with pytest.raises(BudgetExceeded):
        schemac.compile("(a|b)*a(a|b){2000}", kind="regex")


def test_size_does_not_depend_on_the_bound() -> None:
    sizes = {schemac.compile(f"([a-z]+,){{1,{most}}}", kind="regex").automaton.states for most in (10**4, 10**9)}
    assert len(sizes) == 1
