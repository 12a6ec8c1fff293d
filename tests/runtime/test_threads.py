"""One program, many matchers in many threads: the same masks as one after the other."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from schemac_runtime import allocate_bitmask, unpack
from schemac_runtime.program import Program
from tests.runtime.programs import byte_vocabulary, rules_program, schema_program

OPEN = """{"type": "object", "properties": {"alpha": {"type": "integer"}, "beta": {"$ref": "#"}, "b": {}},
  "additionalProperties": {"type": "array", "items": {"type": "string"}}}"""


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def fresh(program: Program) -> Program:
    """The same tables, with nothing worked out yet."""
    return Program(program.tables, program.fingerprint, program.tokenizer)


def digest_of_walk(program: Program, seed: int) -> str:
    generator, digest = random.Random(seed), hashlib.sha256()
    mask = allocate_bitmask(1, program.vocab_size)
    matcher = program.matcher()
    for _ in range(60):
        matcher.fill_bitmask(mask)
        digest.update(mask.tobytes())
        choices = np.flatnonzero(unpack(mask, program.vocab_size)[0])
        assert matcher.accept(int(generator.choice(choices)))
        if generator.random() < 0.1:
            matcher.rollback(generator.randint(0, matcher.accepted))
        if matcher.is_terminated():
            matcher.reset()
    return digest.hexdigest()


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("name", ["open object", "any value", "ambiguous"])
def test_threads_see_what_one_thread_sees(name: str) -> None:
    programs = {
        "open object": lambda: schema_program(OPEN, byte_vocabulary()),
        "any value": lambda: schema_program("{}", byte_vocabulary()),
        "ambiguous": lambda: rules_program("s = a | b\na = 'x' a 'y' | 'xy'\nb = 'x' b 'z' | 'xz'"),
    }
    program = programs[name]()
    seeds = range(48)
    alone = [digest_of_walk(fresh(program), seed) for seed in seeds]
    for _ in range(2):
        shared = fresh(program)
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda seed, p=shared: digest_of_walk(p, seed), seeds)) == alone
