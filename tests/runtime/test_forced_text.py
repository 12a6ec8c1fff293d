"""Forced text and its canonical tokens."""

from __future__ import annotations

import json

import numpy as np
import pytest

import schemac
from benchmarks.vocabulary import load_encoder
from schemac.forcing import canonical_forced_tokens, forced_text
from schemac_runtime import allocate_bitmask, unpack

SCHEMA = {
    "type": "object",
    "properties": {"customer_identifier": {"enum": ["north-west", "north-east"]}, "amount": {"type": "integer"}},
    "required": ["customer_identifier", "amount"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tekken() -> schemac.Vocabulary:
    return schemac.load_vocabulary("tekken")


def test_forced_text_goes_as_far_as_there_is_no_choice(tekken: schemac.Vocabulary) -> None:
    program = schemac.link(schemac.compile(json.dumps(SCHEMA), whitespace="compact"), tekken).programs[0]
    matcher = program.matcher()
    assert forced_text(matcher, tekken) == b'{"customer_identifier":"north-'
    assert forced_text(matcher, tekken, 5) == b'{"cus'
    assert matcher.accepted == 0
    for byte in b'{"customer_identifier":"north-e':
        assert matcher.accept(tekken.ids_of(bytes((byte,)))[0])
    assert forced_text(matcher, tekken) == b'ast","amount":'


def test_skipping_forced_text_changes_nothing(tekken: schemac.Vocabulary) -> None:
    program = schemac.link(schemac.compile(json.dumps(SCHEMA), whitespace="compact"), tekken).programs[0]
    encode = load_encoder("tekken")
    target = '{"customer_identifier":"north-east","amount":42}'
    wanted = list(encode(target))
    matcher = program.matcher()
    mask = allocate_bitmask(1, program.vocab_size)
    taken: list[int] = []
    skipped = 0
    while len(taken) < len(wanted):
        forced = canonical_forced_tokens(matcher, tekken, encode)
        assert forced == wanted[len(taken) : len(taken) + len(forced)]
        assert matcher.accept_all(forced)
        taken += forced
        skipped += len(forced)
        if len(taken) < len(wanted):  # a model that wants the canonical tokens of this text
            matcher.fill_bitmask(mask)
            assert unpack(mask, program.vocab_size)[0][wanted[len(taken)]]
            assert matcher.accept(wanted[len(taken)])
            taken.append(wanted[len(taken)])
    assert matcher.is_complete()
    assert skipped > len(wanted) // 2
    assert np.array_equal(taken, wanted)


def test_a_tokenizer_that_spells_something_else_is_not_followed(tekken: schemac.Vocabulary) -> None:
    program = schemac.link(schemac.compile('["only this"]', kind="choice"), tekken).programs[0]
    encode = load_encoder("tekken")
    assert canonical_forced_tokens(program.matcher(), tekken, lambda text: encode(" " + text)) == []
    whole = canonical_forced_tokens(program.matcher(), tekken, encode)
    assert tekken.decode(whole) == b"only this"
