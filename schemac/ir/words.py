"""Word lists to tables and back."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from schemac.budget import Budget
from schemac.ir.charset import BYTES
from schemac.ir.minimize import BoolArray, IntArray, Table, canonical, empty_table


def word_table(words: Iterable[Iterable[int] | str], limit: int, budget: Budget) -> Table:
    """The normal form of a finite set of words.

    Sorted words make every state complete as soon as the next word leaves it; complete states are then shared by
    content (Daciuk, Mihov, Watson and Watson, Computational Linguistics 26(1), 2000, section 3).
    """
    texts = sorted({word if isinstance(word, str) else "".join(map(chr, word)) for word in words})
    if not texts:
        return empty_table()
    unit = "states" if limit == BYTES else "regex_states"
    known: dict[tuple[int, ...], int] = {}
    spent = 0
    # The path of the last word: per depth the content of its state so far, as (accepting, symbol, state, symbol, ...).
    path: list[list[int]] = [[0]]
    previous = ""
    for number, text in enumerate(texts):
        shared = 0
        for one, two in zip(text, previous):  # noqa: B905 - the shorter one ends it
            if one != two:
                break
            shared += 1
        for depth in range(len(previous), shared, -1):
            content = tuple(path.pop())
            path[-1] += (ord(previous[depth - 1]), known.setdefault(content, len(known)))
        path.extend([0] for _ in range(len(text) - shared))
        path[-1][0] = 1
        previous = text
        if not number & 1023:
            budget.spend(unit, len(known) + len(path) - spent)
            spent = len(known) + len(path)
    for depth in range(len(previous), 0, -1):
        content = tuple(path.pop())
        path[-1] += (ord(previous[depth - 1]), known.setdefault(content, len(known)))
    known.setdefault(tuple(path[0]), len(known))

    contents = list(known)  # in the order of their numbers; the start is the last one
    count = len(contents)
    lengths = np.fromiter(map(len, contents), np.intp, count)
    flat = np.array([value for content in contents for value in content], np.int64)
    heads = np.cumsum(lengths) - lengths
    accepting = flat[heads] > 0
    body = np.ones(len(flat), np.bool_)
    body[heads] = False
    edges = flat[body].reshape(-1, 2)
    sources = np.repeat(np.arange(count), (lengths - 1) // 2)
    symbols, columns = np.unique(edges[:, 0], return_inverse=True)
    if len(symbols) and (symbols[0] < 0 or symbols[-1] > limit):
        raise ValueError(f"a symbol is outside 0..{limit}")
    budget.spend(unit, count - spent + count * (len(symbols) + 1) // 512)
    table = np.full((count, len(symbols) + 1), -1, np.int32)
    # Renumber so that the start is 0: state i becomes count - 1 - i.
    table[count - 1 - sources, columns] = count - 1 - edges[:, 1]
    # One interval per symbol, and the gaps between them in the dead class.
    starts = np.unique(np.concatenate(([0], symbols, symbols + 1)))
    starts = starts[starts <= limit]
    classes = np.full(len(starts), len(symbols), np.int32)
    classes[np.searchsorted(starts, symbols)] = np.arange(len(symbols))
    return canonical(Table(starts.astype(np.int32), classes, table, accepting[::-1]))


def first_words(
    starts: IntArray, classes: IntArray, table: IntArray, accepting: BoolArray, limit: int, max_count: int
) -> list[tuple[int, ...]]:
    """The first words of an automaton in order of length, then of symbols."""
    found: list[tuple[int, ...]] = []
    count = len(accepting)
    if not count or max_count <= 0:
        return found
    ends = np.append(starts[1:] - 1, limit).tolist()
    lows, width = starts.tolist(), len(starts)
    wide: dict[int, list[int]] = {}
    reachable = [accepting]  # [length] which states accept a word of exactly that length
    quiet = 0
    while len(found) < max_count and quiet <= count:
        can = reachable[-1]
        length = len(reachable) - 1
        if can[0]:
            quiet = 0
            # Depth first over (state, interval, next symbol), only where an end can be reached in time.
            word: list[int] = []
            stack: list[list[int]] = [[0, 0, 0]]
            while stack:
                if len(word) == length:
                    found.append(tuple(word))
                    if len(found) == max_count:
                        return found
                    stack.pop()
                    if word:
                        word.pop()
                    continue
                frame = stack[-1]
                row = wide.get(frame[0])
                if row is None:
                    row = wide[frame[0]] = table[frame[0]][classes].tolist()
                left = reachable[length - len(word) - 1]
                interval = frame[1]
                while interval < width and (row[interval] < 0 or not left[row[interval]]):
                    interval += 1
                if interval == width:
                    stack.pop()
                    if word:
                        word.pop()
                    continue
                symbol = max(frame[2], lows[interval])
                frame[1], frame[2] = (interval, symbol + 1) if symbol < ends[interval] else (interval + 1, 0)
                word.append(symbol)
                stack.append([row[interval], 0, 0])
        else:
            quiet += 1
        reachable.append(np.asarray((can[table] & (table >= 0)).any(axis=1), np.bool_))
    return found
