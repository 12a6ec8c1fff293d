"""Small linked programs for the tests of the runtime."""

from __future__ import annotations

import functools
import random

from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.ir.pipeline import lower
from schemac.vocabulary import Vocabulary
from schemac_runtime.program import Program
from tests.oracle.grammars import rules
from tests.oracle.masks import module_of

#: The ids of the small vocabulary: bytes 0x20..0x7E are ids 0..94, then some longer tokens, one special, two stop ids.
LONGER = (b"ab", b"bc", b"bcd", b'{"', b'":', b"},", b"]]", b"[[", b"true", b"12", b'"}')
SMALL = Vocabulary(
    tokens=(*(bytes([b]) for b in range(0x20, 0x7F)), *LONGER),
    special={"<tool>": 106, "</s>": 107, "<eot>": 108},
    stop_ids=(107, 108),
    size=110,
)
STOP, OTHER_STOP, SPECIAL, PADDING = 107, 108, 106, 109


def token(data: bytes) -> int:
    return SMALL.ids_of(data)[0]


@functools.cache
def rules_program(source: str) -> Program:
    automaton, _ = lower(rules(source), Budget())
    return link(automaton, SMALL, Budget())


@functools.cache
def schema_program(source: str, vocabulary: Vocabulary = SMALL) -> Program:
    automaton, _ = lower(module_of(source, "json-schema"), Budget())
    return link(automaton, vocabulary, Budget())


@functools.cache
def byte_vocabulary(longer: int = 600) -> Vocabulary:
    """All bytes, and `longer` random tokens of a few bytes that JSON texts are likely to hold; id 0 ends a text."""
    generator = random.Random(longer)
    pieces = [b"{", b"}", b"[", b"]", b'"', b'":', b",", b"a", b"b", b"1", b"0", b"e", b" ", b"\\", b"n", b"\xc3\xa9"]
    made: dict[bytes, None] = {}
    while len(made) < longer:
        made[b"".join(generator.choices(pieces, k=generator.randint(2, 4)))] = None
    tokens = [None, *(bytes([b]) for b in range(256)), *(t for t in made if len(t) > 1)]
    return Vocabulary(tokens=tuple(tokens), special={"</s>": 0}, stop_ids=(0,))
