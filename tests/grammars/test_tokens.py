"""Masks of grammars, bit by bit, against the slow recognizer of `tests/oracle`."""

from __future__ import annotations

import random

import pytest

from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.frontend.gbnf import gbnf_module
from schemac.frontend.lark import lark_module
from schemac.ir.graph import Module
from schemac.ir.pipeline import lower
from schemac.vocabulary import Vocabulary
from schemac_runtime import allocate_bitmask, unpack
from tests.oracle.grammars import rules, vocabulary_for
from tests.oracle.slow import SlowRecognizer
from tests.test_token_oracle import program_for, walk

#: A left-recursive grammar and one without left recursion for the same texts, which is what the oracle can read.
PAIRS = {
    "list": ("e = e ',' n | n\nn = 'a' | 'b' n", "e = n (',' n)*\nn = 'b'* 'a'"),
    "doubling": ("s = s s | 'a'", "s = 'a'+"),
    "operators": ("e = e '+' e | e '*' e | '(' e ')' | 'a'", "e = f (('+' | '*') f)*\nf = 'a' | '(' e ')'"),
    "expressions": (
        "e = e '+' t | t\nt = t '*' f | f\nf = '(' e ')' | 'a'", "e = t ('+' t)*\nt = f ('*' f)*\nf = '(' e ')' | 'a'",
    ),
    "indirect": ("a = b 'x' | 'y'\nb = a 'z' | 'w'", "a = ('wx' | 'y') 'zx'*".replace("'zx'*", "('zx')*")),
    "behind nullable": ("a = n a 'x' | 'y'\nn = 'q'?", "a = 'y' 'x'* | 'q' a 'x' | 'q' a 'x' 'x'"),
    "inside": ("a = a '[' a ']' | 'x'", "a = 'x' ('[' a ']')*"),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("seed", range(2))
def test_left_recursion(name: str, seed: int) -> None:
    generator = random.Random(f"{name}{seed}")
    left, plain = map(rules, PAIRS[name])
    tokens = vocabulary_for(plain, generator, all_bytes=True)
    assert walk(program_for(left, tokens), SlowRecognizer(plain), tokens, None, generator) > 0


GRAMMARS = {
    "JSON": ("lark", r"""
        start: value
        value: "[" [value ("," value)*] "]" | "{" [pair ("," pair)*] "}" | STRING | /-?[0-9]/ | "true"
        pair: STRING ":" value
        STRING: /"([^"\\]|\\["n])*?"/
        %ignore " "
    """),
    "comments": ("lark", 'start: ("a" | "b;")+\n%ignore /#[^\\n]*/\n%ignore /[ \\n]/'),
    "templates": ("lark", 'start: sep{item, ","}\nsep{x, d}: x (d x)*\nitem: "(" sep{"a", ";"} ")" | "b"~1..2'),
    "commit": ("lark", 'start: (call)* TEXT\ncall: head "1"+ ">"\nhead[lazy]: TEXT "<c"\nTEXT: /[a-c<]*/'),
    "statements": ("gbnf", 'root ::= s+\ns ::= "i" s ("e" s)? | [xy] "=" e ";"\ne ::= [0-3]+ ("+" e)?'),
    "counts": ("gbnf", 'root ::= "<" ("ab" | "c"){2,3} ">" | "<" root{2} ">"'),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAMMARS)
def test_grammars(name: str) -> None:
    kind, text = GRAMMARS[name]
    module: Module = lark_module(text) if kind == "lark" else gbnf_module(text)
    generator = random.Random(name)
    slow = SlowRecognizer(module)
    tokens = [token for token in vocabulary_for(module, generator, all_bytes=False) if max(token) < 128]
    tokens += [bytes([byte]) for byte in range(32, 127)] + [b"\n"]
    assert walk(program_for(module, sorted(set(tokens))), slow, sorted(set(tokens)), None, generator) > 0


def test_ambiguity_costs_the_same_however_long_the_text_is() -> None:
    """A deeply ambiguous grammar that stays a pushdown automaton: every bracket may close in two ways."""
    module = gbnf_module('root ::= s\ns ::= s s | "(" s ")" | "(" s ")" "!"? | "x"')
    tokens = (b"x", b"(", b")", b"!", b"((", b"xx", b")x(", None)
    program = link(lower(module, Budget())[0], Vocabulary(tokens, {"end": 7}, stop_ids=(7,)), Budget())
    matcher, row = program.matcher(), allocate_bitmask(1, 8)
    generator, depth = random.Random(3), 0
    for _ in range(2_000):
        matcher.fill_bitmask(row)
        allowed = unpack(row, 8)[0]
        choices = [0, 1] if depth < 30 else [0, 2]
        token = generator.choice([choice for choice in (*choices, 2 if depth else 0) if allowed[choice]])
        assert matcher.accept(token)
        depth += {0: 0, 1: 1, 2: -1}[token]
