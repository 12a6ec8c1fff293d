"""Every grammar against Lark's own Earley parser, in its `dynamic_complete` reading."""

from __future__ import annotations

import functools
import random
from importlib import resources

import pytest
from lark import Lark
from lark.exceptions import UnexpectedInput

from schemac.budget import Budget
from schemac.frontend.lark import lark_module
from schemac.ir.automaton import Automaton
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import check
from schemac.sampling import sample_bytes
from tests.grammars.lark_grammars import GRAMMARS, LARK_TEXTS

LONGEST = 28  # characters; Lark takes a time that grows with the cube


@functools.cache
def grammar(name: str) -> tuple[str, list[str], list[str]]:
    if name != "lark":
        return GRAMMARS[name]
    text = (resources.files("lark.grammars") / "lark.lark").read_text("utf-8")
    return text.replace("[?](?![a-z])", "[?]"), *LARK_TEXTS


@functools.cache
def compiled(name: str) -> Automaton:
    budget = Budget()
    return lower(lark_module(grammar(name)[0], budget=budget), budget)[0]


@functools.cache
def oracle(name: str) -> Lark:
    return Lark(grammar(name)[0], parser="earley", lexer="dynamic_complete")


def lark_accepts(name: str, text: str) -> bool:
    try:
        oracle(name).parse(text)
    except UnexpectedInput:
        return False
    return True


def accepts(name: str, text: str) -> bool:
    return check(compiled(name), text.encode()).accepted


@pytest.mark.parametrize("name", [*GRAMMARS, "lark"])
def test_texts_that_are_given(name: str) -> None:
    _, good, bad = grammar(name)
    for text in good:
        assert accepts(name, text) and lark_accepts(name, text), text
    for text in bad:
        assert not accepts(name, text) and not lark_accepts(name, text), text


@pytest.mark.parametrize("name", [*GRAMMARS, "lark"])
def test_texts_that_are_generated(name: str) -> None:
    generator = random.Random(name)
    texts = [text for seed in range(60) if len(text := sample_bytes(compiled(name), seed).decode()) <= LONGEST][:25]
    seeds = [*texts, *(text for text in grammar(name)[1] if len(text) <= LONGEST)]
    letters = sorted(set("".join([*texts, *grammar(name)[1]])) | {"x"})
    assert texts
    for text in texts:
        assert accepts(name, text) and lark_accepts(name, text), text
    for _ in range(60):
        text = mutated(generator.choice(seeds), letters, generator)
        expected = lark_accepts(name, text)
        assert accepts(name, text) == expected, text


def mutated(text: str, letters: list[str], generator: random.Random) -> str:
    for _ in range(generator.randint(1, 2)):
        at = generator.randint(0, len(text))
        how = generator.randrange(4)
        if how == 0:
            text = text[:at] + generator.choice(letters) + text[at:]
        elif how == 1:
            text = text[:at] + text[at + 1 :]
        elif how == 2:
            text = text[:at] + generator.choice(letters) + text[at + 1 :]
        else:
            end = generator.randint(at, len(text))
            text = text[:at] + text[at:end] * 2 + text[end:] if end - at < 6 else text[:at] + text[end:]
    return text[: LONGEST + 4]
