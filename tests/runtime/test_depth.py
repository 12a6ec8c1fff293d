"""Nesting far beyond Python's recursion limit: every step, every mask, and the end of the matcher."""

from __future__ import annotations

import subprocess
import sys
import time

from schemac_runtime import allocate_bitmask
from tests.runtime.programs import byte_vocabulary, schema_program

DEPTH = 20_000


def test_twenty_thousand_levels() -> None:
    vocabulary = byte_vocabulary()
    program = schema_program("{}", vocabulary)
    opened, closed = vocabulary.ids_of(b"[")[0], vocabulary.ids_of(b"]")[0]
    matcher, mask = program.matcher(), allocate_bitmask(1, program.vocab_size)
    started = time.perf_counter()
    for _ in range(DEPTH):
        matcher.fill_bitmask(mask)
        assert matcher.accept(opened)
    middle = matcher.fork()
    assert matcher.validate([closed] * DEPTH) == DEPTH
    assert matcher.validate([closed] * (DEPTH + 1)) == DEPTH
    for _ in range(DEPTH):
        assert not matcher.is_complete()
        matcher.fill_bitmask(mask)
        assert matcher.accept(closed)
    assert matcher.is_complete()
    assert matcher.accept(0)
    assert time.perf_counter() - started < 20  # a second or so, with nothing else running
    matcher.rollback(2)
    assert matcher.accept(closed)
    assert middle.accepted == DEPTH
    assert middle.accept(closed)
    del matcher, middle


def test_braces_in_one_token_pop_many_levels() -> None:
    vocabulary = byte_vocabulary()
    program = schema_program('{"items": {"$ref": "#"}, "type": "array"}', vocabulary)
    opened, closed = vocabulary.ids_of(b"[")[0], vocabulary.ids_of(b"]")[0]
    matcher = program.matcher()
    pair = next(iter(vocabulary.ids_of(b"]]")), None) or closed
    assert matcher.accept_all([opened] * 1001)
    mask = allocate_bitmask(1, program.vocab_size)
    while not matcher.is_complete():
        matcher.fill_bitmask(mask)
        assert matcher.accept(pair) or matcher.accept(closed)
    assert not matcher.accept(closed)


FREE = """
import gc
from tests.runtime.programs import byte_vocabulary, rules_program, schema_program, token
from schemac_runtime import allocate_bitmask
vocabulary = byte_vocabulary()
program = schema_program("{}", vocabulary)
opened = vocabulary.ids_of(b"[")[0]
mask = allocate_bitmask(1, program.vocab_size)
for collect in (True, False):
    matcher = program.matcher()
    for _ in range(50_000):
        matcher.accept(opened)
    matcher.fill_bitmask(mask)
    matcher.reset()
    assert matcher.accept_all([opened] * 50_000)
    other = matcher.fork()
    del matcher
    if collect:
        gc.collect()
    assert other.accept(opened)
    del other
    if collect:
        gc.collect()
ambiguous = rules_program("s = 'a' s 'b'? | 'a'").matcher()
mask = allocate_bitmask(1, ambiguous.program.vocab_size)
for _ in range(1_500):
    ambiguous.fill_bitmask(mask)
    assert ambiguous.accept(token(b"a"))
del ambiguous
print("freed")
"""


def test_freeing_a_deep_matcher_does_not_crash() -> None:
    result = subprocess.run([sys.executable, "-c", FREE], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout) == (0, "freed\n"), result.stderr[-2000:]
