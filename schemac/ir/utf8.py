"""From languages over code points to languages over the bytes of UTF-8 (RFC 3629, section 3).

A state reads its next character byte by byte, through states for what is left of it. These are the nodes of a trie
over blocks of 64 code points, which is worked out once per alphabet, for classes instead of targets, and then filled
in for each distinct row of the transition table, equal nodes being shared:

    level 1: the last byte is missing; a node is a row of 64 targets
    level 2: two bytes are missing; a node is a row of 64 nodes of level 1
    level 3: likewise
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from schemac.budget import Budget
from schemac.ir import minimize
from schemac.ir.charset import BYTES, CODE_POINTS, SCALARS
from schemac.ir.dfa import Dfa
from schemac.ir.minimize import IntArray, Table

#: Per number of bytes: the code points that have it, the lead byte of block 0, the lead bytes there are.
_LENGTHS = (
    (2, 0x80, 0x7FF, 0xC0, 0xC2, 0xDF),
    (3, 0x800, 0xFFFF, 0xE0, 0xE0, 0xEF),
    (4, 0x10000, 0x10FFFF, 0xF0, 0xF0, 0xF4),
)
_SURROGATES = (0xD800, 0xDFFF)


def utf8_words(words: Iterable[str], budget: Budget | None = None) -> Dfa:
    """The UTF-8 encodings of some texts (without lone surrogates), over bytes."""
    return Dfa.literals((word.encode().decode("latin-1") for word in words), BYTES, budget=budget)


def utf8_language(language: Dfa, budget: Budget | None = None) -> Dfa:
    """The UTF-8 encodings of a language over code points, over bytes; words with surrogates are left out.

    Raises:
        BudgetExceeded: too many states.
    """
    if language.limit != CODE_POINTS:
        raise ValueError("this is not a language over code points")
    budget = budget or Budget()
    if _has_surrogates(language):
        language = language.intersect(Dfa.runs(SCALARS, 0, None, CODE_POINTS), budget=budget)
    if language.is_empty:
        return Dfa.empty(BYTES)
    count = language.size
    budget.spend("states", count)
    dead = language.table.shape[1]
    ascii_class = _class_at(language, np.arange(128))
    beyond = int(language.starts.searchsorted(128, "right")) - 1
    used = np.unique(language.classes[beyond:])
    # Rows that differ in ASCII only need their tries once.
    rows: dict[bytes, int] = {}
    part = np.ascontiguousarray(language.table[:, used])
    row_of = np.array([rows.setdefault(row.tobytes(), len(rows)) for row in part], np.intp)
    targets = np.full((len(rows), dead + 1), -1, np.int32)  # [R, class], the last class is dead
    targets[:, used] = np.array([np.frombuffer(row, np.int32) for row in rows], np.int32)
    if (targets < 0).all():
        return _finish(language, ascii_class, np.zeros((count, 0), np.int32), [], [])

    # The trie over classes. An id below `dead + 1` is a block of one class, others are rows of `shapes`.
    leads: list[tuple[int, int, int]] = []  # (byte, level, id)
    shapes: list[list[IntArray]] = [[], [], []]
    known: list[dict[bytes, int]] = [{}, {}, {}]
    for length, low, high, base, first, last in _LENGTHS:
        starts, classes = _clipped(language, low, high, dead)
        for byte in range(first, last + 1):
            leads.append((byte, length - 1, _shape(starts, classes, byte - base, length - 1, shapes, known, dead)))

    width = dead + 1
    node_of = targets  # per trie id of the level below, which state; -1 = dead
    states = count
    blocks: list[IntArray] = []  # per level, rows of 64 states
    per_level: list[IntArray] = []
    for level in range(3):
        pattern = np.empty((width + len(shapes[level]), 64), np.intp)
        pattern[:width] = np.arange(width)[:, None]
        if shapes[level]:
            pattern[width:] = np.array(shapes[level])
        node_of, block = _instances(node_of, pattern, states, budget)
        blocks.append(block)
        per_level.append(node_of)
        states += len(block)
    entry = np.stack([per_level[level - 1][:, shape] for _, level, shape in leads], axis=1)  # [R, leads]
    return _finish(language, ascii_class, entry[row_of], [byte for byte, _, _ in leads], blocks)


def _has_surrogates(language: Dfa) -> bool:
    """Whether any transition reads one."""
    first = int(language.starts.searchsorted(_SURROGATES[0], "right")) - 1
    last = int(language.starts.searchsorted(_SURROGATES[1], "right")) - 1
    return bool((language.table[:, language.classes[first : last + 1]] >= 0).any())


def _class_at(language: Dfa, symbols: np.ndarray) -> np.ndarray:
    """The classes of some symbols."""
    return language.classes[np.searchsorted(language.starts, symbols, "right") - 1]


def _clipped(language: Dfa, low: int, high: int, dead: int) -> tuple[IntArray, IntArray]:
    """The intervals of the alphabet, with all outside low..high in the dead class."""
    begin = int(language.starts.searchsorted(low, "right")) - 1
    end = int(language.starts.searchsorted(high, "right"))
    starts = np.concatenate(([0], language.starts[begin:end], [high + 1]))
    starts[1] = low
    classes = np.concatenate(([dead], language.classes[begin:end], [dead]))
    return starts.astype(np.int32), classes.astype(np.int32)


def _shape(
    starts: IntArray,
    classes: IntArray,
    block: int,
    level: int,
    shapes: list[list[IntArray]],
    known: list[dict[bytes, int]],
    dead: int,
) -> int:
    """The trie id of a block of ``64 ** level`` code points; recursion is at most three deep."""
    size = 64**level
    begin = int(starts.searchsorted(block * size, "right")) - 1
    end = int(starts.searchsorted((block + 1) * size, "left"))
    if (classes[begin:end] == classes[begin]).all():
        return int(classes[begin])
    if level == 1:
        row = classes[np.searchsorted(starts, block * size + np.arange(64), "right") - 1]
    else:
        # Only inner blocks with a boundary inside need a closer look.
        inner = size // 64
        first = block * 64
        row = classes[np.searchsorted(starts, (first + np.arange(64)) * inner, "right") - 1].copy()
        mixed = np.unique(starts[begin:end] // inner - first)
        for index in mixed[(mixed >= 0) & (mixed < 64)].tolist():
            row[index] = _shape(starts, classes, first + index, level - 1, shapes, known, dead)
    number = known[level - 1].setdefault(row.tobytes(), len(shapes[level - 1]))
    if number == len(shapes[level - 1]):
        shapes[level - 1].append(row)
    return dead + 1 + number


def _instances(node_of: IntArray, pattern: np.ndarray, first: int, budget: Budget) -> tuple[IntArray, IntArray]:
    """Fill in the blocks of one level: per row and id its state (from `first` on), and per new state its 64 targets."""
    count, width = len(node_of), len(pattern)
    result = np.full((count, width), -1, np.int32)
    known: dict[bytes, int] = {}
    contents: list[bytes] = []
    chunk = max(1, 1_000_000 // (width * 64))
    for begin in range(0, count, chunk):
        filled = np.ascontiguousarray(node_of[begin : begin + chunk][:, pattern])  # [r, ids, 64]
        alive = (filled >= 0).any(axis=2)
        row, column = np.nonzero(alive)
        before = len(contents)
        numbers = []
        for content in filled[row, column]:
            key = content.tobytes()
            number = known.get(key)
            if number is None:
                number = known[key] = len(contents)
                contents.append(key)
            numbers.append(number)
        result[row + begin, column] = np.array(numbers, np.int32) + first
        budget.spend("states", len(contents) - before)
    block = np.frombuffer(b"".join(contents), np.int32).reshape(-1, 64)
    return result, block


def _finish(
    language: Dfa,
    ascii_class: np.ndarray,
    entry: IntArray,
    lead_bytes: list[int],
    blocks: list[IntArray],
) -> Dfa:
    """Put the byte automaton together: it is minimal, as the given one is and equal nodes are shared."""
    total = language.size + sum(map(len, blocks))
    inner = np.concatenate(blocks) if blocks else np.zeros((0, 64), np.int32)
    columns: dict[bytes, int] = {}
    tail = [columns.setdefault(column.tobytes(), len(columns)) for column in np.ascontiguousarray(inner.T)]
    tail_first = [tail.index(number) for number in range(len(columns))]
    used, ascii_column = np.unique(ascii_class, return_inverse=True)
    width = len(used) + len(columns) + len(lead_bytes) + 1
    table = np.full((total, width), -1, np.int32)
    table[: language.size, : len(used)] = language.table[:, used]
    if len(inner):
        table[language.size :, len(used) : len(used) + len(columns)] = inner[:, tail_first]
    table[: language.size, len(used) + len(columns) : width - 1] = entry
    classes = np.full(256, width - 1, np.int32)
    classes[:128] = ascii_column
    if len(inner):
        classes[128:192] = np.array(tail) + len(used)
    for index, byte in enumerate(lead_bytes):
        classes[byte] = len(used) + len(columns) + index
    accepting = np.zeros(total, np.bool_)
    accepting[: language.size] = language.accepting
    starts = np.arange(256, dtype=np.int32)
    return Dfa.from_minimal(BYTES, minimize.canonical(Table(starts, classes, table, accepting)))
