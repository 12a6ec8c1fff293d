"""Random texts of a symbolic module, by walking its recognizer byte by byte."""

from __future__ import annotations

import random

from schemac.ir.graph import Module
from tests.oracle.module_recognizer import ModuleRecognizer

_CLOSING = b'"]}'


def sample(module: Module, generator: random.Random, count: int, longest: int = 120) -> list[str]:
    """Up to `count` accepted texts; walks that do not come to an end in time are dropped.

    Args:
        module: without left recursion.
        generator: source of randomness.
        count: walks to try.
        longest: after so many bytes a walk closes whatever it can.
    """
    recognizer = ModuleRecognizer(module)
    texts = []
    for _ in range(count):
        text = _walk(recognizer, generator, longest)
        if text is not None:
            texts.append(text.decode())
    return texts


def _walk(recognizer: ModuleRecognizer, generator: random.Random, longest: int) -> bytes | None:
    text = bytearray()
    current = recognizer.start()
    eagerness = generator.choice([0.1, 0.3, 0.6])
    while True:
        if recognizer.accepting(current) and (generator.random() < 0.5 or len(text) > longest):
            return bytes(text)
        choices = recognizer.allowed(current)
        if not choices or len(text) > 3 * longest:
            return bytes(text) if recognizer.accepting(current) else None
        closing = [byte for byte in choices if byte in _CLOSING]
        plain = [byte for byte in choices if byte not in b" \t\r\n"] or choices
        urgent = closing and (len(text) > longest or generator.random() < eagerness)
        byte = generator.choice(closing if urgent else plain)
        text.append(byte)
        current = recognizer.step(current, byte)
