"""Random texts of a program, by walking through its masks as a sampler would."""

from __future__ import annotations

import random

import numpy as np

from schemac.errors import LinkError
from schemac.ir.automaton import Automaton
from schemac.ir.recognizer import Places, Recognizer
from schemac.vocabulary import Vocabulary
from schemac_runtime.masks import allocate_bitmask, unpack
from schemac_runtime.program import Program

#: Of the steps of a walk, this share heads for the end; the others are uniform over the mask.
HOMING = 0.35
#: From this many steps on, every step heads for the end.
WANDER_STEPS = 120


def sample_bytes(automaton: Automaton, seed: int) -> bytes:
    """One text, byte by byte, where no linked program or vocabulary is at hand. Special tokens are written as text."""
    generator = random.Random(seed)
    recognizer = Recognizer(automaton)
    places, text = recognizer.start(), bytearray()
    while True:
        wander = len(text) < WANDER_STEPS and generator.random() > HOMING
        allowed: list[int | str] = [*recognizer.allowed(places), *recognizer.allowed_tokens(places)]
        if recognizer.ended(places) and (not wander or generator.random() < 0.5 or not allowed):
            return bytes(text)
        read = generator.choice(allowed) if wander else recognizer.nearest(places)
        if read is None:
            return bytes(text)
        text += read.encode() if isinstance(read, str) else bytes([read])
        places = recognizer.step(places, read)


def sample_tokens(program: Program, automaton: Automaton, vocabulary: Vocabulary, seed: int) -> list[int]:
    """The token ids of one text, the stop token included.

    Every step draws from the mask alone; steps that head for the end choose among its tokens by the automaton.

    Raises:
        LinkError: the program was linked for another vocabulary.
    """
    if program.fingerprint != vocabulary.fingerprint:
        raise LinkError("the program was linked for another vocabulary", hint="pass the tokenizer it was linked for")
    generator = random.Random(seed)
    recognizer = Recognizer(automaton)
    matcher = program.matcher()
    mask = allocate_bitmask(1, program.vocab_size)
    places = recognizer.start()
    chosen: list[int] = []
    names = {vocabulary.special[text]: text for text in automaton.labels if text in vocabulary.special}
    while not matcher.is_terminated():
        matcher.fill_bitmask(mask)
        allowed = np.flatnonzero(unpack(mask, program.vocab_size)[0])
        stops = [token for token in matcher.stop_ids if mask[0, token >> 5] >> (token & 31) & 1]
        wander = len(chosen) < WANDER_STEPS and generator.random() > HOMING
        if stops and (not wander or generator.random() < 0.3):
            token = min(stops)
        elif wander:
            token = int(allowed[generator.randrange(len(allowed))])
        else:
            token = _homing_token(recognizer, places, vocabulary, allowed, names)
        if not matcher.accept(token):
            raise AssertionError(f"the mask allows token {token} and the matcher refuses it")
        chosen.append(token)
        places = _after(recognizer, places, vocabulary, token, names)
    return chosen


def _after(
    recognizer: Recognizer, places: Places, vocabulary: Vocabulary, token: int, names: dict[int, str]
) -> Places:
    """The places after a token, ordinary or named."""
    if token in names:
        return recognizer.step(places, names[token])
    for byte in vocabulary.tokens[token] or b"":
        places = recognizer.step(places, byte)
    return places


def _homing_token(
    recognizer: Recognizer, places: Places, vocabulary: Vocabulary, allowed: np.ndarray, names: dict[int, str]
) -> int:
    """The allowed token with the fewest bytes left after it; the next byte of a shortest way, where that is a token."""
    read = recognizer.nearest(places)
    if read is not None:
        for token in [vocabulary.special[read]] if isinstance(read, str) else vocabulary.ids_of(bytes([read])):
            if token in allowed:
                return token
    best = (float("inf"), -1)
    for token in allowed.tolist():
        here = _after(recognizer, places, vocabulary, token, names)
        if here:
            best = min(best, (min(recognizer.remaining(state, stack) for state, stack, _ in here), token))
    return best[1] if best[1] >= 0 else int(allowed[0])
