"""Parts of a literal text that may be one special token of the vocabulary.

Chat formats mark their parts by texts that most of their tokenizers have as special tokens: ``<tool_call>``,
``<|im_end|>``, ``[TOOL_CALLS]``, ``</think>``. A grammar does not know the vocabulary that it will be linked for, so
whatever looks like such a name may be read as the special token of that name too, if the vocabulary has one.
"""

from __future__ import annotations

import re

#: Between angle brackets anything without blanks, quotes, brackets and ``=``; between square brackets capitals.
_NAME = re.compile(r"<[^<>=\s\"'{}()\[\]]{1,64}>|\[/?[A-Z][A-Z_0-9]{0,63}\]")


def special_spans(text: str) -> list[tuple[int, int, str]]:
    """(first byte, byte behind the last, name) of each part of the UTF-8 text that looks like a special token."""
    spans = []
    read = behind = 0  # characters, bytes
    for found in _NAME.finditer(text):
        first = behind + len(text[read : found.start()].encode())
        read, behind = found.end(), first + len(found.group().encode())
        spans.append((first, behind, found.group()))
    return spans
