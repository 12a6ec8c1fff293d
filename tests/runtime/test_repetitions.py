"""Counted repetitions: the same masks, bit by bit, as the same repetitions written out; and what they cost."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schemac
from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.ir.graph import Graph, Module, ModuleBuilder
from schemac.ir.passes.repetitions import repetition, written_out
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import Recognizer
from schemac.vocabulary import Vocabulary
from schemac_runtime import load
from schemac_runtime.errors import PackageError
from schemac_runtime.matcher import Matcher
from schemac_runtime.program import Program

LETTERS = b"abc,"
PIECES = [
    *(bytes((byte,)) for byte in LETTERS),
    *(b"ab", b"aa", b"aaa", b"aaaaaa", b"a,a", b",a", b"b,", b"ba", b"abab", b"a,b,", b",,", b"ccc", b"c,", b"abc"),
    b"bc,c",
]
STOP = len(PIECES)
VOCABULARY_OF_BYTES = Vocabulary(
    (*(bytes((byte,)) for byte in range(256)), None), special={"<end>": 256}, stop_ids=(256,)
)
VOCABULARY = Vocabulary((*PIECES, None), special={"<end>": STOP}, stop_ids=(STOP,))


@dataclass
class Maker:
    """Random modules of a few procedures with repetitions in each other."""

    generator: random.Random
    builder: ModuleBuilder
    recursive: int = -1

    def write(self, graph: Graph, source: int, target: int, depth: int) -> None:
        choice = self.generator.random()
        if depth <= 0 or choice < 0.25:
            for letter in self.generator.sample(LETTERS, self.generator.choice((1, 1, 2))):
                graph.byte(source, letter, letter, target)
        elif choice < 0.5:
            here = source
            for _ in range(self.generator.choice((1, 2))):
                there = graph.node()
                self.write(graph, here, there, depth - 1)
                here = there
            self.write(graph, here, target, depth - 1)
        elif choice < 0.6:
            self.write(graph, source, target, depth - 1)
            self.write(graph, source, target, depth - 1)
        elif choice < 0.65:
            graph.epsilon(source, target)
            self.write(graph, source, target, depth - 1)
        elif choice < 0.7 and self.recursive >= 0:
            graph.call(source, self.recursive, target)
            self.write(graph, source, target, depth - 1)
        else:
            low = self.generator.choice((1, 1, 2, 3, 6))
            high = self.generator.choice((None, low + 1, low + 4, low))
            self.repeated(graph, source, target, depth, low, high)

    def repeated(self, graph: Graph, source: int, target: int, depth: int, low: int, high: int | None) -> None:
        body = self.builder.declare("body", "")
        inner = Graph()
        end = inner.node()
        inner.final(end)
        self.write(inner, inner.start, end, depth - 1)
        self.builder.define(body, inner)
        number = self.builder.declare("repetition", "")
        self.builder.define(number, *repetition(body, low, high))
        graph.call(source, number, target)


def random_module(seed: int) -> Module:
    generator = random.Random(seed)
    maker = Maker(generator, ModuleBuilder())
    root = maker.builder.declare("root", "")
    if seed % 3 == 0:
        maker.recursive = maker.builder.declare("rule", "")
        graph = Graph()
        end = graph.node()
        graph.final(end)
        maker.write(graph, graph.start, end, 2)
        graph.byte(graph.start, LETTERS[0], LETTERS[0], end)
        maker.builder.define(maker.recursive, graph)
    graph = Graph()
    end = graph.node()
    graph.final(end)
    middle = graph.node()
    maker.write(graph, graph.start, middle, seed % 3)
    maker.repeated(graph, middle, end, 3, generator.choice((1, 3, 6)), generator.choice((6, 9, None)))
    maker.builder.define(root, graph)
    return maker.builder.build()


def expanded(module: Module) -> Module:
    """The same without guards."""
    return Module(
        tuple(
            p if p.guard is None else replace(p, graph=written_out(p.graph.call_edges[0][0][0], p.guard), guard=None)
            for p in module.procedures
        )
    )


def linked(module: Module) -> tuple[Program, Recognizer]:
    automaton, _ = lower(module, Budget())
    return link(automaton, VOCABULARY, Budget()), Recognizer(automaton)


def allowed(matcher: Matcher, budget: int | None = None) -> list[int]:
    row = np.zeros((1, matcher.program.words), dtype=np.int32)
    matcher.fill_bitmask(row, budget=budget)
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: matcher.program.vocab_size]).tolist()


@pytest.mark.parametrize("seed", range(36))
def test_masks_are_those_of_the_repetitions_written_out(seed: int) -> None:
    module = random_module(seed)
    counted, recognizer = linked(module)
    plain, _ = linked(expanded(module))
    assert counted.guards is not None
    assert plain.guards is None
    generator = random.Random(seed)
    for _ in range(4):
        one, two = counted.matcher(), plain.matcher()
        places = recognizer.start()
        for _ in range(30):
            mask = allowed(two)
            assert allowed(one) == mask
            assert one.is_complete() == two.is_complete() == recognizer.ended(places)
            assert one.validate([mask[0]]) == 1
            for token in generator.sample(range(counted.vocab_size), 8):
                assert one.validate([token]) == (token in mask)
            if mask == [STOP]:
                break
            token = generator.choice([token for token in mask if token != STOP])
            assert one.accept(token) and two.accept(token)
            for byte in PIECES[token]:
                places = recognizer.step(places, byte)
            if generator.random() < 0.1 and one.accepted > 3:
                back = generator.randrange(3)
                again = one.fork()
                one.rollback(back)
                two.rollback(back)
                assert allowed(one) == allowed(two)
                one = again
                two = plain.matcher()
                one.reset()
                places = recognizer.start()


@pytest.mark.parametrize("high", [4, None])
@pytest.mark.parametrize("nullable", [False, True])
def test_repetitions_that_begin_with_themselves_are_written_out(high: int | None, nullable: bool) -> None:
    """e: e{2,high} "," | "a", where e may be empty too."""
    builder = ModuleBuilder()
    rule, repeated = builder.declare("e", ""), builder.declare("repetition", "")
    graph = Graph()
    middle, end = graph.node(), graph.node()
    graph.call(graph.start, repeated, middle)
    graph.byte(middle, 0x2C, 0x2C, end)
    graph.byte(graph.start, 0x61, 0x61, end)
    if nullable:
        graph.epsilon(graph.start, end)
    graph.final(end)
    builder.define(rule, graph)
    builder.define(repeated, *repetition(rule, 2, high))
    module = builder.build()
    one, two = (Recognizer(lower(m, Budget())[0]) for m in (module, expanded(module)))
    assert not one.automaton.guards
    generator = random.Random(5)
    for _ in range(300):
        left, right = one.start(), two.start()
        for _ in range(12):
            assert one.ended(left) == two.ended(right)
            assert one.allowed(left) == two.allowed(right)
            if not left:
                break
            byte = generator.choice(one.allowed(left) or [0x61])
            left, right = one.step(left, byte), two.step(right, byte)


@pytest.mark.parametrize("seed", range(36))
def test_a_limit_is_kept(seed: int) -> None:
    program, recognizer = linked(random_module(seed))
    generator = random.Random(seed)
    for spare in (0, 1, 7):
        budget = program.min_tokens() + spare
        assert program.matcher().tokens_needed() == program.min_tokens()
        matcher = program.matcher()
        places = recognizer.start()
        while not matcher.is_terminated():
            token = generator.choice(allowed(matcher, budget))
            assert matcher.accept(token)
            for byte in PIECES[token] if token != STOP else b"":
                places = recognizer.step(places, byte)
            budget -= 1
        assert budget >= 0
        assert recognizer.ended(places)


MIXED = {
    "lark": """
start: item{3,2000} "!" value~300..400
item: "a" | "(" item ")"
value: %json {"type": "array", "items": {"type": "string", "minLength": 70, "maxLength": 900}, "uniqueItems": true}
""",
    "regex": r"([ab]{3,2000},){0,5000}\w{3000,}",
    "gbnf": 'root ::= ([a-b]{3,2000} ","){300,5000} (root "(" | ",,")\n',
}


@pytest.mark.parametrize("kind", MIXED)
def test_masks_are_what_can_be_read(kind: str) -> None:
    pieces = [*(bytes((byte,)) for byte in range(256)), *PIECES[4:], b'["', b'"]', b'","', b"((", b"))", b"a(a)", b"!["]
    stop = len(pieces)
    vocabulary = Vocabulary((*pieces, None), special={"<end>": stop}, stop_ids=(stop,))
    program = schemac.link(schemac.compile(MIXED[kind], kind=kind), vocabulary).programs[0]
    assert program.guards is not None
    generator = random.Random(3)
    for spare in (None, 0, 30):
        matcher = program.matcher()
        budget = None if spare is None else program.min_tokens() + spare
        for step in range(150):
            mask = allowed(matcher)
            if step % 12 == 0:
                for token in range(program.vocab_size):
                    assert matcher.validate([token]) == (token in mask), (kind, token)
            within = allowed(matcher, budget)
            assert set(within) <= set(mask)
            likely = [token for token in within if token != stop and (token > 255 or chr(token) in 'ab,()!["')]
            token = generator.choice(likely or within)
            assert matcher.accept(token)
            if matcher.is_terminated():
                break
            budget = None if budget is None else budget - 1
            assert budget is None or matcher.tokens_needed() <= budget


def test_damaged_repetitions_are_refused(tmp_path: Path) -> None:
    compiled = schemac.link(schemac.compile("x[ab]{3,2000}c", kind="regex"), VOCABULARY_OF_BYTES)
    program = compiled.programs[0]
    tables = program.guards
    assert tables is not None
    number, guard = tables.guards[0]
    schemac.save(compiled, tmp_path / "good.pkg")
    assert load(tmp_path / "good.pkg").program().guards is not None
    damages: list[dict[str, Any]] = [
        {"guards": ((0, guard),)},
        {"guards": ((2, guard),)},
        {"guards": ((number, replace(guard, low=0)),)},
        {"guards": ((number, replace(guard, high=2)),)},
        {"guards": ((number, replace(guard, high=0)),)},
    ]
    for damage in damages:
        hurt = replace(compiled, automaton=replace(compiled.automaton, **damage))
        schemac.save(hurt, tmp_path / "hurt.pkg")
        with pytest.raises(PackageError):
            load(tmp_path / "hurt.pkg").program()
