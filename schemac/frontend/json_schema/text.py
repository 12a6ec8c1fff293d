r"""JSON strings: from languages over code points to languages of their spelling in bytes.

A text under constraints has exactly one spelling, the shortest (RFC 8259, section 7): raw UTF-8, ``\"``, ``\\`` and
``\b \f \n \r \t``, and ``\u00xx`` in lower case for the other control characters. One spelling per text makes the
lowering of a deterministic automaton deterministic:

    q -"é"-> r    becomes    q -C3-> . -A9-> r
    q -"\n"-> r   becomes    q -5C-> . -"n"-> r

Surrogate code points have no UTF-8 spelling (RFC 3629, section 3) and are left out. Strings without constraints may
use every spelling; see `any_string_body`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.ir.charset import BYTES, CODE_POINTS, SCALARS, CharSet
from schemac.ir.dfa import Dfa
from schemac.ir.minimize import IntArray, Table, canonical
from schemac.ir.nfa import Nfa

#: Two-character escapes by the character they stand for (RFC 8259, section 7), the solidus excepted: it needs none.
SHORT_ESCAPES = {0x22: '"', 0x5C: "\\", 0x08: "b", 0x0C: "f", 0x0A: "n", 0x0D: "r", 0x09: "t"}
#: Characters that never stand for themselves: controls, quotation mark, reverse solidus (RFC 8259, section 7).
ESCAPED = CharSet(((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C)))

_ESCAPED_CODES = np.array([code for low, high in ESCAPED for code in range(low, high + 1)])
_QUOTE_AT = _ESCAPED_CODES.tolist().index(0x22)
_LONG_ESCAPES = np.array([code not in SHORT_ESCAPES for code in _ESCAPED_CODES.tolist()])
_PLAIN_CODES = np.array([code for code in range(0x80) if code not in ESCAPED])
_HEX = b"0123456789abcdef"
_LETTERS = b'\\"bfnrtu' + _HEX  # the bytes with a meaning inside an escape
_BACKSLASH = 0x5C

#: First and last code point, number of continuation bytes, lead byte without payload (RFC 3629, section 3).
_UTF8 = ((0x80, 0x7FF, 1, 0xC0), (0x800, 0xFFFF, 2, 0xE0), (0x10000, CODE_POINTS, 3, 0xF0))


def spell(text: str) -> bytes:
    """The JSON string literal of `text` in its shortest spelling, with quotation marks.

    Raises:
        SourceError: the text holds a lone surrogate, which UTF-8 cannot spell.
    """
    out = ['"']
    for char in text:
        code = ord(char)
        if code in SHORT_ESCAPES:
            out.append("\\" + SHORT_ESCAPES[code])
        elif code < 0x20:
            out.append(f"\\u{code:04x}")
        else:
            out.append(char)
    out.append('"')
    try:
        return "".join(out).encode("utf-8")
    except UnicodeEncodeError as error:
        raise SourceError(
            f"the text {text!r} holds a lone surrogate, which UTF-8 cannot spell",
            construct=repr(text),
            hint="write the character itself, or both halves of the surrogate pair",
        ) from error


def length_language(low: int, high: int | None, budget: Budget | None = None) -> Dfa:
    """The texts of `low` to `high` code points (RFC 8259 characters; a surrogate pair escape counts once).

    Args:
        low: fewest code points.
        high: most code points, or None for no limit.
        budget: pays one ``regex_states`` per state before anything is allocated.
    """
    return Dfa.runs(CharSet(((0, CODE_POINTS),)), low, high, CODE_POINTS, budget=budget)


def quoted(texts: Dfa, budget: Budget | None = None) -> Dfa:
    """The JSON string literals of all of `texts`, with both quotation marks. See `string_body`."""
    return string_body(texts, budget, quotes=True)


@lru_cache(maxsize=1)
def any_string_body() -> Dfa:
    """Every string content of RFC 8259 section 7 in every spelling, without quotation marks and lone surrogates."""
    nfa = Nfa(BYTES)
    loop = nfa.start
    characters = Dfa.symbols(SCALARS - ESCAPED, CODE_POINTS)
    nfa.language(loop, string_body(characters), loop)
    digit = CharSet.of((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
    escape = nfa.literal(loop, b"\\")
    nfa.symbols(escape, CharSet.of(*b'"\\/bfnrt'), loop)
    # \uXXXX: the first digit D and the second one tell a half of a surrogate pair from a character.
    unicode = nfa.literal(escape, b"u")
    two_left, last = nfa.node(), nfa.node()
    plain = nfa.node()
    after_d = nfa.node()
    nfa.symbols(unicode, digit - CharSet.of(*b"dD"), plain)
    nfa.symbols(unicode, CharSet.of(*b"dD"), after_d)
    nfa.symbols(plain, digit, two_left)
    nfa.symbols(after_d, CharSet.of((0x30, 0x37)), two_left)
    nfa.symbols(two_left, digit, last)
    nfa.symbols(last, digit, loop)
    high_left, high_last, low = nfa.node(), nfa.node(), nfa.node()
    nfa.symbols(after_d, CharSet.of(*b"89abAB"), high_left)
    nfa.symbols(high_left, digit, high_last)
    nfa.symbols(high_last, digit, low)
    low = nfa.literal(low, b"\\u")
    low_second = nfa.node()
    nfa.symbols(low, CharSet.of(*b"dD"), low_second)
    nfa.symbols(low_second, CharSet.of(*b"cdefCDEF"), two_left)
    nfa.final(loop)
    return Dfa.from_nfa(nfa)


@dataclass(slots=True)
class _Utf8Tree:
    """How the code points from 0x80 on, cut into blocks, are read byte by byte.

    A target is a node number, or ``-2 - block``, or -1 for dead.

    Attributes:
        root: edges ``(low, high, target)`` over lead bytes.
        nodes: per node its edges ``(low, high, target)`` over continuation bytes.
    """

    root: list[tuple[int, int, int]] = field(default_factory=list)
    nodes: list[tuple[tuple[int, int, int], ...]] = field(default_factory=list)
    _known: dict[tuple[tuple[int, int, int], ...], int] = field(default_factory=dict)
    _full: dict[tuple[int, int], int] = field(default_factory=dict)

    def build(self, pieces: list[tuple[int, int, int]]) -> None:
        """Fill in from `pieces`, ``(low, high, block)`` in order."""
        for first, last, level, lead in _UTF8:
            inside = [(max(a, first), min(b, last), block) for a, b, block in pieces if a <= last and b >= first]
            self.root += self._edges(inside, level, 0, lead)

    def _edges(
        self, pieces: list[tuple[int, int, int]], level: int, base: int, byte: int
    ) -> list[tuple[int, int, int]]:
        """Edges of a node where ``byte + i`` leads to the ``64**level`` code points from ``base + i * 64**level``."""
        shift = 6 * level
        size = 1 << shift
        edges: list[tuple[int, int, int]] = []
        partial: list[tuple[int, int, int]] = []  # the pieces of the child `child`
        child = -1

        def add(low: int, high: int, target: int) -> None:
            if edges and edges[-1][1] + 1 == low and edges[-1][2] == target:
                edges[-1] = (edges[-1][0], high, target)
            else:
                edges.append((low, high, target))

        def flush() -> None:
            if partial:
                add(byte + child, byte + child, self._node(partial, level, base + child * size))
                partial.clear()

        for first, high, block in pieces:
            low = first
            while low <= high:
                index = (low - base) >> shift
                whole = ((high + 1 - base) >> shift) - index  # children from `index` on that this piece covers
                if (low - base) & (size - 1) == 0 and whole > 0:
                    flush()
                    add(byte + index, byte + index + whole - 1, self._whole(level, block))
                    low += whole << shift
                    continue
                if index != child:
                    flush()
                    child = index
                stop = min(high, base + ((index + 1) << shift) - 1)
                partial.append((low, stop, block))
                low = stop + 1
        flush()
        return edges

    def _node(self, pieces: list[tuple[int, int, int]], level: int, base: int) -> int:
        return self._intern(tuple(self._edges(pieces, level - 1, base, 0x80)))

    def _whole(self, level: int, block: int) -> int:
        """The node that reads any `level` continuation bytes and ends in `block`."""
        if level == 0:
            return -2 - block
        known = self._full.get((level, block))
        if known is None:
            known = self._intern(((0x80, 0xBF, self._whole(level - 1, block)),))
            self._full[level, block] = known
        return known

    def _intern(self, edges: tuple[tuple[int, int, int], ...]) -> int:
        known = self._known.get(edges)
        if known is None:
            known = self._known[edges] = len(self.nodes)
            self.nodes.append(edges)
        return known


def string_body(texts: Dfa, budget: Budget | None = None, *, quotes: bool = False) -> Dfa:
    """The shortest JSON spelling of all of `texts`, without quotation marks (or with them: `quotes`).

    Args:
        texts: a language over code points; surrogates are left out.
        budget: pays one of ``states`` per byte state before it is made.
        quotes: put a quotation mark before and after.

    Returns:
        A language over bytes.
    """
    if texts.is_empty:
        return Dfa.empty(BYTES)
    budget = budget or Budget()
    ends = np.append(texts.starts[1:] - 1, CODE_POINTS)
    class_of_ascii = texts.classes[np.searchsorted(texts.starts, np.arange(0x80), "right") - 1]
    wide = np.unique(texts.classes[ends >= 0x80])
    wide_rows, wide_of = _distinct_rows(texts.table, wide)
    trees, placed = _trees(texts, ends, wide, wide_rows)
    # Most automata read no escaped character anywhere, or the same ones everywhere.
    escape_rows, escape_of = _distinct_rows(texts.table, class_of_ascii[_ESCAPED_CODES])
    escape_live = (escape_rows >= 0).any(axis=1)

    count = texts.size
    marks = 2 if quotes else 0
    escape_base = count + marks
    tree_base = escape_base + 6 * int(escape_live.sum())
    total = tree_base + sum(len(rows) * len(trees[tree].nodes) for tree, rows in placed)
    budget.spend("states", total)
    columns = _byte_columns(class_of_ascii, trees, escapes=bool(escape_live.any()), quotes=quotes)
    table = np.full((total, int(columns.max()) + 1), -1, np.int32)

    # Characters that stand for themselves in one byte.
    table[:count, columns[_PLAIN_CODES]] = texts.table[:, class_of_ascii[_PLAIN_CODES]]
    if escape_live.any():
        _add_escapes(table, columns, escape_rows[escape_live], escape_base)
        number = np.full(len(escape_rows), -1, np.int32)
        number[escape_live] = escape_base + 6 * np.arange(int(escape_live.sum()))
        table[:count, columns[_BACKSLASH]] = number[escape_of]
    _add_trees(table, columns, trees, placed, wide_rows, wide_of, tree_base)

    accepting = np.zeros(total, np.bool_)
    accepting[:count] = texts.accepting
    if quotes:
        # The opening mark is a new start, kept as state 0 by swapping; the closing one leads to the only end.
        opening, end = count, count + 1
        table[:count, columns[0x22]] = np.where(texts.accepting, end, -1)
        table[opening, columns[0x22]] = 0
        accepting[:] = False
        accepting[end] = True
        swap = np.arange(total + 1, dtype=np.int32)
        swap[[0, opening, total]] = [opening, 0, -1]
        table = swap[table[swap[:total]]]
        accepting = accepting[swap[:total]]
    result = Table(np.arange(256, dtype=np.int32), columns, table, accepting)
    if _stays_minimal(texts, ends, wide_rows[(wide_rows >= 0).any(axis=1)], escape_rows[escape_live], table[:count]):
        return Dfa.from_minimal(BYTES, canonical(result))
    return Dfa.from_table(BYTES, result)


def closed(body: Dfa) -> Dfa:
    """The string contents `body`, each with a closing quotation mark. Inside, one stands only behind a backslash."""
    size, width = body.table.shape
    columns = body.classes[np.searchsorted(body.starts, np.arange(256), "right") - 1]
    escaped = body.table[:, columns[0x22]]
    columns[0x22] = width
    table = np.full((size + 1, width + 1), -1, np.int32)
    table[:size, :width] = body.table
    table[:size, width] = np.where(body.accepting, size, escaped)
    accepting = np.arange(size + 1) == size
    return Dfa.from_minimal(BYTES, canonical(Table(np.arange(256, dtype=np.int32), columns, table, accepting)))


def _stays_minimal(texts: Dfa, ends: IntArray, wide_rows: IntArray, escape_rows: IntArray, table: IntArray) -> bool:
    """Whether the states made from a minimal automaton are pairwise different and live for a simple reason.

    True in the common cases (lengths, everything but some keys); False says nothing. States inside a UTF-8 sequence
    read continuation bytes only, which no other state does. So they are different if each leads to one state only, and
    no two entries into sequences lead to the same state. Likewise inside escapes that all lead to one state; but what
    follows a reverse solidus could be read elsewhere too, so that no old state may be rejecting and read few symbols.
    """
    whole = (escape_rows >= 0).all(axis=1)
    one_target = escape_rows.max(axis=1, initial=-1)
    whole &= (escape_rows == one_target[:, None]).all(axis=1)
    # Without \\u.. there is one state per row, and only it reads a quotation mark and goes on to more than the end.
    plain = (escape_rows[:, _QUOTE_AT] >= 0) & (escape_rows[:, _LONG_ESCAPES] < 0).all(axis=1)
    entries = wide_rows.max(axis=1, initial=-1)
    if not ((wide_rows == entries[:, None]) | (wide_rows < 0)).all() or not (whole | plain).all():
        return False
    if len(set(entries.tolist())) < len(entries) or len(set(one_target[whole].tolist())) < int(whole.sum()):
        return False
    few = (table >= 0).sum(axis=1) <= len(SHORT_ESCAPES) + len(_HEX)
    if whole.any() and bool((few & ~texts.accepting).any()):
        return False
    # Every class must keep a symbol once surrogates are gone.
    scalar = (texts.starts < 0xD800) | (ends > 0xDFFF)
    return bool(len(np.unique(texts.classes[scalar])) == texts.table.shape[1])


def _distinct_rows(table: IntArray, columns: IntArray) -> tuple[IntArray, NDArray[np.intp]]:
    """The distinct rows of ``table[:, columns]`` by first occurrence, and which one each row is."""
    chosen = np.ascontiguousarray(table[:, columns])
    number: dict[bytes, int] = {}
    data = chosen.tobytes()
    width = chosen.shape[1] * chosen.itemsize
    starts = range(0, len(data), width)
    which = np.array([number.setdefault(data[at : at + width], len(number)) for at in starts], np.intp)
    rows = np.frombuffer(b"".join(number), np.int32).reshape(len(number), chosen.shape[1])
    return rows, which


def _trees(
    texts: Dfa, ends: IntArray, wide: IntArray, rows: IntArray
) -> tuple[list[_Utf8Tree], list[tuple[int, list[int]]]]:
    """One tree per pattern of equal targets in `rows`, over `wide`, the classes that go beyond ASCII.

    Returns:
        The trees, and per tree (its number, the rows it serves).
    """
    column = np.full(int(texts.classes.max()) + 1, -1)
    column[wide] = np.arange(len(wide))
    intervals: list[tuple[int, int, int]] = []
    for low, high, kind in zip(texts.starts.tolist(), ends.tolist(), column[texts.classes].tolist(), strict=True):
        for first, last in SCALARS:
            if max(low, first, 0x80) <= min(high, last):
                intervals.append((max(low, first, 0x80), min(high, last), kind))
    trees: list[_Utf8Tree] = []
    placed: list[tuple[int, list[int]]] = []
    known: dict[tuple[int, ...], int] = {}
    for index, row in enumerate(rows.tolist()):
        blocks: dict[int, int] = {}
        pattern = tuple(-1 if target < 0 else blocks.setdefault(target, len(blocks)) for target in row)
        if not blocks:
            continue
        if pattern not in known:
            known[pattern] = len(trees)
            pieces: list[tuple[int, int, int]] = []
            for low, high, kind in intervals:
                block = pattern[kind]
                if block < 0:
                    continue
                if pieces and pieces[-1][2] == block and pieces[-1][1] + 1 == low:
                    pieces[-1] = (pieces[-1][0], high, block)
                else:
                    pieces.append((low, high, block))
            tree = _Utf8Tree()
            tree.build(pieces)
            trees.append(tree)
            placed.append((len(placed), []))
        placed[known[pattern]][1].append(index)
    return trees, placed


def _byte_columns(class_of_ascii: IntArray, trees: list[_Utf8Tree], *, escapes: bool, quotes: bool) -> IntArray:
    """Group bytes that no edge tells apart: [256] int32, column 0 is the dead one."""
    columns = np.zeros(256, np.int32)
    columns[_PLAIN_CODES] = class_of_ascii[_PLAIN_CODES] + 1
    fresh = int(columns.max())
    apart = dict.fromkeys(_LETTERS if escapes else b"")
    if quotes:
        apart[0x22] = None
    for byte in apart:
        fresh += 1
        columns[byte] = fresh
    cuts = {0x80}
    for tree in trees:
        for edges in (tree.root, *tree.nodes):
            for low, high, _ in edges:
                cuts.update((low, high + 1))
    for byte in range(0x80, 0x100):
        fresh += byte in cuts
        columns[byte] = fresh
    return columns


def _add_escapes(table: IntArray, columns: IntArray, rows: IntArray, base: int) -> None:
    r"""Six states per row: after ``\``, after ``\u``, ``\u0``, ``\u00``, ``\u000`` and ``\u001``."""
    first = base + 6 * np.arange(len(rows))
    position = {code: index for index, code in enumerate(_ESCAPED_CODES.tolist())}
    for code, letter in SHORT_ESCAPES.items():
        table[first, columns[ord(letter)]] = rows[:, position[code]]
    # States that lead nowhere are not entered.
    low = (rows[:, _LONG_ESCAPES & (_ESCAPED_CODES < 0x10)] >= 0).any(axis=1)
    high = (rows[:, _LONG_ESCAPES & (_ESCAPED_CODES >= 0x10)] >= 0).any(axis=1)
    zero = columns[0x30]
    for state, byte in ((0, columns[ord("u")]), (1, zero), (2, zero)):
        table[first + state, byte] = np.where(low | high, first + state + 1, -1)
    table[first + 3, zero] = np.where(low, first + 4, -1)
    table[first + 3, columns[0x31]] = np.where(high, first + 5, -1)
    for code in range(0x20):
        if code not in SHORT_ESCAPES:
            table[first + 4 + (code >> 4), columns[_HEX[code & 15]]] = rows[:, position[code]]


def _add_trees(
    table: IntArray,
    columns: IntArray,
    trees: list[_Utf8Tree],
    placed: list[tuple[int, list[int]]],
    rows: IntArray,
    row_of: NDArray[np.intp],
    base: int,
) -> None:
    """Copy each tree once per row it serves, and enter it from the states that have the row."""
    by_row = np.argsort(row_of, kind="stable")
    bounds = np.searchsorted(row_of[by_row], np.arange(len(rows) + 1))
    for tree_number, served in placed:
        tree = trees[tree_number]
        chosen = rows[served]
        # Blocks are numbered by first column of the row.
        blocks: dict[int, int] = {}
        for position, target in enumerate(chosen[0].tolist()):
            if target >= 0:
                blocks.setdefault(target, position)
        block_target = chosen[:, list(blocks.values())]  # [rows served, blocks]
        first = (base + len(tree.nodes) * np.arange(len(served))).astype(np.int32)
        base += len(tree.nodes) * len(served)

        def targets(target: int, first: IntArray = first, ends: IntArray = block_target) -> IntArray:
            return first + np.int32(target) if target >= 0 else ends[:, -2 - target]

        for node, edges in enumerate(tree.nodes):
            for low, high, target in edges:
                table[first + node, columns[low] : columns[high] + 1] = targets(target)[:, None]
        states = np.concatenate([by_row[bounds[row] : bounds[row + 1]] for row in served])
        repeat = np.repeat(np.arange(len(served)), [bounds[row + 1] - bounds[row] for row in served])
        for low, high, target in tree.root:
            table[states, columns[low] : columns[high] + 1] = targets(target)[repeat][:, None]
