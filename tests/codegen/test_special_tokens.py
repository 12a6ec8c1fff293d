"""Grammars that name special tokens, and vocabularies that lack what a grammar needs."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import schemac
from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.errors import LinkError
from schemac.ir.graph import Graph, Module, ModuleBuilder
from schemac.ir.pipeline import lower
from schemac.vocabulary import Vocabulary
from schemac_runtime import allocate_bitmask, load, unpack
from schemac_runtime.program import Program
from tests.oracle.grammars import rules
from tests.oracle.slow import SlowRecognizer

TOKENS = (b"a", b"b", b"ab", b"(", b")", b"((", b"<call>", b"a(")
SPECIAL = {"<call>": 8, "<end>": 9, "</s>": 10, "<other>": 11}
VOCABULARY = Vocabulary(tokens=TOKENS, special=SPECIAL, stop_ids=(10,), size=13)


def linked(module: Module, vocabulary: Vocabulary = VOCABULARY) -> Program:
    return link(lower(module, Budget())[0], vocabulary, Budget())


def calls() -> Module:
    """s = ("a" | <call> t (<end> | <other>))* "b"?;  t = "(" t? ")" | <end> "a" t?"""
    builder = ModuleBuilder()
    root, inner = builder.declare("s", ""), builder.declare("t", "")
    graph = Graph()
    called, done, end = graph.node(), graph.node(), graph.node()
    graph.byte(0, ord("a"), ord("a"), 0)
    graph.token(0, ["<call>"], called)
    graph.call(called, inner, done)
    graph.token(done, ["<end>", "<other>"], 0)
    graph.literal(0, b"b", end)
    graph.final(0)
    graph.final(end)
    builder.define(root, graph)
    graph = Graph()
    opened, inside, after, end = graph.node(), graph.node(), graph.node(), graph.node()
    graph.literal(0, b"(", opened)
    graph.call(opened, inner, inside)
    graph.epsilon(opened, inside)
    graph.literal(inside, b")", end)
    graph.token(0, ["<end>"], after)
    again = graph.literal(after, b"a")
    graph.call(again, inner, end)
    graph.epsilon(again, end)
    graph.final(end)
    builder.define(inner, graph)
    return builder.build()


def token_edge(texts: list[str]) -> Module:
    builder = ModuleBuilder()
    root = builder.declare("s", "")
    graph = Graph()
    end = graph.node()
    graph.token(0, texts, end)
    graph.final(end)
    builder.define(root, graph)
    return builder.build()


def test_masks_with_special_tokens_against_the_oracle() -> None:
    module, generator = calls(), random.Random(1)
    program, slow = linked(module), SlowRecognizer(module)
    row = allocate_bitmask(1, VOCABULARY.size)
    texts = {number: text for text, number in SPECIAL.items()}
    seen: set[int] = set()
    for _ in range(60):
        matcher, places = program.matcher(), slow.start()
        for _ in range(12):
            after = [
                slow.read_token(places, texts[t]) if t in texts else slow.read(places, VOCABULARY.tokens[t] or b"")
                for t in range(12)
            ]
            expected = [bool(a) for a in after] + [False]
            expected[10] = slow.ended(places)
            matcher.fill_bitmask(row)
            assert unpack(row, VOCABULARY.size)[0].tolist() == expected
            assert [matcher.validate([t]) for t in range(VOCABULARY.size)] == expected
            choices = [t for t in np.flatnonzero(expected).tolist() if t != 10]
            if not choices:
                break
            token = generator.choice(choices)
            seen.add(token)
            assert matcher.accept(token)
            places = after[token]
    assert seen == {0, 1, 2, 3, 4, 5, 7, 8, 9, 11}, "6 is plain text that looks like a special token"


def test_text_that_looks_like_a_special_token_is_text() -> None:
    program = linked(rules("s = '<call>' 'a'"), Vocabulary((*TOKENS, *map(bytes, zip(b"<cal>"))), SPECIAL, (10,), 20))
    assert program.matcher().validate([6, 0, 10]) == 3
    assert program.matcher().validate([8]) == 0


def test_alternatives_of_one_edge() -> None:
    program = linked(token_edge(["<call>", "<other>"]))
    assert [program.matcher().validate([token, 10]) for token in (8, 11, 9)] == [2, 2, 0]


def test_a_stop_token_inside_a_text() -> None:
    """It ends the text where that may end, and is read elsewhere."""
    builder = ModuleBuilder()
    root, graph = builder.declare("s", ""), Graph()
    middle, end = graph.node(), graph.node()
    graph.token(0, ["</s>"], middle)
    graph.literal(middle, b"a", end)
    graph.final(end)
    builder.define(root, graph)
    matcher = linked(builder.build()).matcher()
    assert matcher.accept(10) and not matcher.is_terminated()
    assert not matcher.accept(10)
    assert matcher.accept(0) and matcher.accept(10) and matcher.is_terminated()


def test_a_special_token_that_the_vocabulary_lacks() -> None:
    with pytest.raises(LinkError, match="no special token '<tool>'") as caught:
        linked(token_edge(["<call>", "<tool>"]))
    assert caught.value.construct == "<tool>"


def test_ordinary_text_does_not_stand_for_a_special_token() -> None:
    vocabulary = Vocabulary(tokens=(b"<call>", None), special={"</s>": 1}, stop_ids=(1,))
    with pytest.raises(LinkError, match="no special token '<call>'"):
        linked(token_edge(["<call>"]), vocabulary)


def test_two_names_of_one_token() -> None:
    vocabulary = Vocabulary(tokens=(b"a",), special={"<x>": 1, "<y>": 1, "</s>": 2}, stop_ids=(2,), size=3)
    with pytest.raises(LinkError, match="are one token here, 1"):
        linked(token_edge(["<x>", "<y>"]), vocabulary)
    assert linked(token_edge(["<y>"]), vocabulary).matcher().validate([1, 2]) == 2


def test_a_vocabulary_without_stop_ids() -> None:
    with pytest.raises(LinkError, match="no token that ends a text") as caught:
        linked(rules("s = 'a'"), Vocabulary(tokens=(b"a",)))
    assert caught.value.hint


def test_a_vocabulary_without_a_needed_byte() -> None:
    with pytest.raises(LinkError, match="no text can be finished"):
        linked(rules("s = 'a' 'c' 'b'"))
    program = linked(rules("s = 'a' ('c' | 'b' | '(' 'x')"))
    assert program.matcher().validate([0, 1, 10]) == 3
    assert program.matcher().validate([7]) == 0, "nothing finishes a text after `a(`"


def test_a_vocabulary_of_nothing_but_a_stop_id() -> None:
    nothing = Vocabulary(tokens=(None,), special={"</s>": 0}, stop_ids=(0,))
    with pytest.raises(LinkError, match="no text can be finished"):
        linked(rules("s = 'a'"), nothing)
    program = linked(rules("s = 'a'?"), nothing)
    mask = allocate_bitmask(1, 1)
    program.matcher().fill_bitmask(mask)
    assert mask.tolist() == [[1]]
    assert program.matcher().validate([0]) == 1


def test_tokens_of_the_same_bytes_are_all_allowed() -> None:
    vocabulary = Vocabulary(tokens=(b"a", b"a", b"", None), special={"</s>": 3}, stop_ids=(3,))
    matcher = linked(rules("s = 'a' 'a'"), vocabulary).matcher()
    mask = allocate_bitmask(1, 4)
    matcher.fill_bitmask(mask)
    assert mask.tolist() == [[0b0011]], "a token without bytes would go on for ever"
    assert matcher.accept_all([1, 0, 3])


def optional_edge(text: str) -> Module:
    builder = ModuleBuilder()
    root, graph = builder.declare("s", ""), Graph()
    end = graph.node()
    graph.token(0, [text], end, optional=True)
    graph.literal(0, b"a", end)
    graph.final(end)
    builder.define(root, graph)
    return builder.build()


def test_an_optional_token_need_not_be_there() -> None:
    assert [linked(optional_edge("<call>")).matcher().validate([t, 10]) for t in (0, 8, 1)] == [2, 2, 0]
    lacking = linked(optional_edge("<tool>"))
    assert [lacking.matcher().validate([t, 10]) for t in range(10)] == [2] + [0] * 9


def test_a_package_keeps_tokens_and_whether_they_are_optional(tmp_path: Path) -> None:
    for module in (optional_edge("<tool>"), optional_edge("<call>"), calls()):
        automaton, _ = lower(module, Budget())
        made = schemac.link(schemac.Compiled("regex", b"", {}, automaton), VOCABULARY)
        schemac.save(made, tmp_path / "tokens.pkg")
        opened = schemac.open_package(load(tmp_path / "tokens.pkg"))
        assert opened.automaton.labels == automaton.labels
        assert opened.automaton.optional_labels == automaton.optional_labels
        again = schemac.link(opened, VOCABULARY)
        schemac.save(again, tmp_path / "again.pkg")
        assert (tmp_path / "again.pkg").read_bytes() == (tmp_path / "tokens.pkg").read_bytes()
