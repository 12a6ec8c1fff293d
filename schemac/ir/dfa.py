"""`Dfa`: the one type of regular languages, over code points and over bytes.

Every value is minimal, trimmed and canonically numbered, so that two of them are equal iff their languages are.
Operations are methods; each spends ``regex_states`` of the budget it is given (a default one if none is).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from schemac.budget import Budget
from schemac.ir import minimize, words
from schemac.ir.charset import BYTES, CODE_POINTS, CharSet
from schemac.ir.minimize import BoolArray, IntArray, Table
from schemac.ir.nfa import Nfa
from schemac.ir.product import Operation, product

__all__ = ["BYTES", "CODE_POINTS", "CharSet", "Dfa", "intersect_all", "union_all"]


@dataclass(frozen=True, slots=True, eq=False)
class Dfa:
    """A regular language over the integers 0..limit. Build with the constructors below, never directly.

    State 0 is the start; there is none if the language is empty. A word is read class by class:
    ``class = classes[last i with starts[i] <= symbol]``.

    Attributes:
        limit: greatest symbol of the alphabet.
        starts: [K] int32, the first symbol of each interval; ascending, ``starts[0] == 0``.
        classes: [K] int32, the class of each interval, numbered by first symbol.
        table: [N, C] int32, the next state; -1 = dead.
        accepting: [N] bool.
    """

    limit: int
    starts: IntArray
    classes: IntArray
    table: IntArray
    accepting: BoolArray
    _hash: list[int] = field(default_factory=list, repr=False)

    # -- constructors -------------------------------------------------------------------------------------------

    @classmethod
    def from_minimal(cls, limit: int, table: Table) -> Dfa:
        """Wrap a table that is in normal form already; the arrays become read-only."""
        for array in table:
            array.setflags(write=False)
        return cls(limit, *table)

    @classmethod
    def from_table(cls, limit: int, table: Table) -> Dfa:
        """The language of any deterministic table."""
        return cls.from_minimal(limit, minimize.minimal(table))

    @classmethod
    def from_nfa(cls, nfa: Nfa, *, budget: Budget | None = None) -> Dfa:
        """The language of a nondeterministic automaton, by the subset construction."""
        return cls.from_table(nfa.limit, nfa.determinize(budget or Budget()))

    @classmethod
    def empty(cls, limit: int) -> Dfa:
        """No word."""
        return cls.from_minimal(limit, minimize.empty_table())

    @classmethod
    def epsilon(cls, limit: int) -> Dfa:
        """The empty word only."""
        return cls.literal((), limit)

    @classmethod
    def everything(cls, limit: int) -> Dfa:
        """All words."""
        zero = np.zeros(1, np.int32)
        return cls.from_minimal(limit, Table(zero, zero, np.zeros((1, 1), np.int32), np.ones(1, np.bool_)))

    @classmethod
    def symbols(cls, symbols: CharSet, limit: int) -> Dfa:
        """The words of one symbol of a set."""
        return cls.runs(symbols, 1, 1, limit)

    @classmethod
    def runs(cls, symbols: CharSet, low: int, high: int | None, limit: int, *, budget: Budget | None = None) -> Dfa:
        """The words of `low` to `high` (None: any number of) symbols of a set."""
        symbols = symbols & CharSet(((0, limit),))
        if (high is not None and high < low) or (not symbols and low):
            return cls.empty(limit)
        if not symbols or high == 0:
            return cls.epsilon(limit)
        size = (low if high is None else high) + 1
        (budget or Budget()).spend("regex_states", size)
        points = [(start, 0) for start, _ in symbols.ranges] + [(end + 1, 1) for _, end in symbols.ranges]
        if symbols.ranges[0][0] > 0:
            points.append((0, 1))
        points.sort()
        if points[-1][0] > limit:
            points.pop()
        starts = np.array([point for point, _ in points], np.int32)
        classes = np.array([outside for _, outside in points], np.int32)
        if symbols.ranges[0][0] > 0:
            classes = 1 - classes
        inside = int(symbols.ranges[0][0] > 0)
        table = np.full((size, int(classes.max()) + 1), -1, np.int32)
        table[:-1, inside] = np.arange(1, size)
        if high is None:
            table[-1, inside] = size - 1
        return cls.from_minimal(limit, Table(starts, classes, table, np.arange(size) >= low))

    @classmethod
    def literal(cls, word: Iterable[int] | str, limit: int) -> Dfa:
        """One word, as symbols or (code points) as text."""
        return cls.literals((word,), limit)

    @classmethod
    def literals(cls, words_: Iterable[Iterable[int] | str], limit: int, *, budget: Budget | None = None) -> Dfa:
        """A finite set of words, given in any order, repetitions allowed."""
        return cls.from_minimal(limit, words.word_table(words_, limit, budget or Budget()))

    # -- queries ------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dfa):
            return NotImplemented
        return self is other or (
            self.limit == other.limit
            and self.table.shape == other.table.shape
            and len(self.starts) == len(other.starts)
            and bool(
                (self.accepting == other.accepting).all()
                and (self.starts == other.starts).all()
                and (self.classes == other.classes).all()
                and (self.table == other.table).all()
            )
        )

    def __hash__(self) -> int:
        if not self._hash:
            arrays = (self.starts, self.classes, self.table, self.accepting)
            self._hash.append(hash((self.limit, *(array.tobytes() for array in arrays))))
        return self._hash[0]

    def __repr__(self) -> str:
        return f"Dfa(limit={self.limit}, size={self.size}, classes={self.table.shape[1]})"

    @property
    def size(self) -> int:
        """The number of states; 0 for the empty language."""
        return len(self.accepting)

    @property
    def is_empty(self) -> bool:
        """Whether no word is accepted."""
        return not len(self.accepting)

    @property
    def is_everything(self) -> bool:
        """Whether every word is accepted."""
        return len(self.accepting) == 1 and bool(self.accepting[0]) and bool((self.table == 0).all())

    @property
    def is_finite(self) -> bool:
        """Whether the number of words is finite."""
        return self.is_empty or int(minimize.heights(self.table).min()) >= 0

    @property
    def min_length(self) -> int:
        """The length of the shortest word; -1 if there is none."""
        distance = -1
        seen = np.zeros(self.size, np.bool_)
        frontier: minimize.Index = np.zeros(min(self.size, 1), np.intp)
        while frontier.size:
            distance += 1
            if self.accepting[frontier].any():
                return distance
            seen[frontier] = True
            found = np.unique(self.table[frontier])
            found = found[found >= 0]
            frontier = found[~seen[found]].astype(np.intp)
        return -1

    @property
    def max_length(self) -> int | None:
        """The length of the longest word; None if unbounded, -1 if there is none."""
        if self.is_empty:
            return -1
        heights = minimize.heights(self.table)
        return int(heights[0]) if heights[0] >= 0 else None

    def accepting_states(self) -> list[int]:
        """The accepting states, ascending."""
        found: list[int] = np.flatnonzero(self.accepting).tolist()
        return found

    def step(self, state: int, symbol: int) -> int:
        """The state after reading one symbol; -1 = dead."""
        if state < 0 or not self.size or not 0 <= symbol <= self.limit:
            return -1
        position = int(np.searchsorted(self.starts, symbol, "right")) - 1
        return int(self.table[state, self.classes[position]])

    def accepts(self, word: Sequence[int] | str) -> bool:
        """Whether a word, given as symbols or (code points) as text, is in the language."""
        symbols = np.array([ord(char) for char in word] if isinstance(word, str) else list(word), np.int64)
        if not self.size or (len(symbols) and (symbols.min() < 0 or symbols.max() > self.limit)):
            return False
        state = 0
        for column in self.classes[np.searchsorted(self.starts, symbols, "right") - 1].tolist():
            state = int(self.table[state, column])
            if state < 0:
                return False
        return bool(self.accepting[state])

    def edges(self) -> Iterator[tuple[int, int, int, int]]:
        """All transitions as (state, low, high, next), by state, then symbol; neighbours with one target are merged."""
        if not self.size:
            return
        ends = np.append(self.starts[1:] - 1, self.limit)
        chunk = max(1, 4_000_000 // len(self.starts))
        for begin in range(0, self.size, chunk):
            wide = self.table[begin : begin + chunk][:, self.classes]
            change = np.ones(wide.shape, np.bool_)
            change[:, 1:] = wide[:, 1:] != wide[:, :-1]
            state, column = np.nonzero(change)
            last = np.append(column[1:] - 1, wide.shape[1] - 1)
            last[last < 0] = wide.shape[1] - 1
            target = wide[state, column]
            keep = target >= 0
            yield from zip(
                (state[keep] + begin).tolist(),
                self.starts[column[keep]].tolist(),
                ends[last[keep]].tolist(),
                target[keep].tolist(),
                strict=True,
            )

    def class_symbols(self, columns: Iterable[int]) -> CharSet:
        """The symbols of some classes."""
        if len(self.starts) <= 64:
            wanted = set(columns)
            starts = [*self.starts.tolist(), self.limit + 1]
            return CharSet.merged(
                (starts[index], starts[index + 1] - 1)
                for index, column in enumerate(self.classes.tolist())
                if column in wanted
            )
        chosen = np.zeros(self.table.shape[1], np.bool_)
        chosen[list(columns)] = True
        inside = np.concatenate(([False], chosen[self.classes], [False]))
        low = np.flatnonzero(inside[1:-1] & ~inside[:-2])
        high = np.flatnonzero(inside[1:-1] & ~inside[2:])
        ends = np.append(self.starts[1:] - 1, self.limit)
        return CharSet(tuple(zip(self.starts[low].tolist(), ends[high].tolist(), strict=True)))

    def words(self, max_count: int) -> list[tuple[int, ...]]:
        """The first `max_count` words, shorter ones first, those of one length in symbol order."""
        return words.first_words(self.starts, self.classes, self.table, self.accepting, self.limit, max_count)

    # -- operations ---------------------------------------------------------------------------------------------

    @property
    def _table(self) -> Table:
        return Table(self.starts, self.classes, self.table, self.accepting)

    def _product(self, other: Dfa, operation: Operation, budget: Budget | None) -> Dfa:
        if self.limit != other.limit:
            raise ValueError(f"alphabets differ: 0..{self.limit} and 0..{other.limit}")
        return Dfa.from_table(self.limit, product(self._table, other._table, operation, budget or Budget()))

    def intersect(self, other: Dfa, *, budget: Budget | None = None) -> Dfa:
        """The words in both."""
        if self.is_empty or other.is_everything or self is other:
            return self
        if other.is_empty or self.is_everything:
            return other
        return self._product(other, "and", budget)

    def union(self, other: Dfa, *, budget: Budget | None = None) -> Dfa:
        """The words in either."""
        if self.is_empty or other.is_everything or self is other:
            return other
        if other.is_empty or self.is_everything:
            return self
        return self._product(other, "or", budget)

    def difference(self, other: Dfa, *, budget: Budget | None = None) -> Dfa:
        """The words of this one that are not in the other."""
        if self.is_empty or other.is_empty:
            return self
        if self.is_everything:
            return other.complement(budget=budget)
        return self._product(other, "minus", budget)

    def complement(self, *, budget: Budget | None = None) -> Dfa:
        """All other words over 0..limit."""
        if self.is_empty:
            return Dfa.everything(self.limit)
        (budget or Budget()).spend("regex_states", self.size + 1)
        # Minimality survives: the state that accepts everything (at most one) and the dead one change places.
        sink = self.size
        whole = np.flatnonzero(self.accepting & (self.table == np.arange(sink)[:, None]).all(axis=1))
        table = np.full((sink + 1, self.table.shape[1]), sink, np.int32)
        table[:sink] = np.where(self.table < 0, sink, self.table)
        if len(whole):
            if whole[0] == 0:
                return Dfa.empty(self.limit)
            table[table == whole[0]] = -1
        accepting = np.append(~self.accepting, True)
        return Dfa.from_minimal(self.limit, minimize.canonical(Table(self.starts, self.classes, table, accepting)))

    def concat(self, other: Dfa, *, budget: Budget | None = None) -> Dfa:
        """The words of this one followed by those of the other."""
        if self.limit != other.limit:
            raise ValueError(f"alphabets differ: 0..{self.limit} and 0..{other.limit}")
        if self.is_empty or (other.size == 1 and not other.table.max() >= 0):
            return self
        if other.is_empty or (self.size == 1 and not self.table.max() >= 0):
            return other
        nfa = Nfa(self.limit)
        middle, end = nfa.node(), nfa.node()
        nfa.language(nfa.start, self, middle)
        nfa.language(middle, other, end)
        nfa.final(end)
        return Dfa.from_nfa(nfa, budget=budget)

    def repeat(self, low: int, high: int | None, *, budget: Budget | None = None) -> Dfa:
        """`low` to `high` (None: any number of) words of this one, one after another."""
        if low < 0 or (high is not None and high < low):
            raise ValueError(f"bad repetition {{{low},{high}}}")
        budget = budget or Budget()
        if high == 0:
            return Dfa.epsilon(self.limit)
        if self.is_empty:
            return Dfa.empty(self.limit) if low else Dfa.epsilon(self.limit)
        if low == high == 1 or (self.size == 1 and (self.table < 0).all()):
            return self
        symbols = self.single_symbols()
        if symbols is not None:
            return Dfa.runs(symbols, low, high, self.limit, budget=budget)
        body = self
        if self.accepting[0]:
            # With the empty word in it, fewer repetitions are among more; without it, copies stay apart.
            low = 0
            body = self.difference(Dfa.epsilon(self.limit), budget=budget)
        # Reserve before anything of that size is built.
        budget.spend("regex_states", body.size * (high if high is not None else low + 1))
        nfa = Nfa(self.limit)
        end = nfa.node()
        if high is not None:
            nfa.copies(nfa.start, body, end, low, high)
        else:
            loop = nfa.node()
            nfa.copies(nfa.start, body, loop, low, low)
            nfa.language(loop, body, loop)
            nfa.epsilon(loop, end)
        nfa.final(end)
        return Dfa.from_nfa(nfa, budget=budget)

    def optional(self, *, budget: Budget | None = None) -> Dfa:
        """This language and the empty word."""
        return self.union(Dfa.epsilon(self.limit), budget=budget)

    def star(self, *, budget: Budget | None = None) -> Dfa:
        """Any number of words of this one."""
        return self.repeat(0, None, budget=budget)

    def reverse(self, *, budget: Budget | None = None) -> Dfa:
        """All words read backwards."""
        nfa = Nfa(self.limit)
        first = len(nfa)
        for _ in range(self.size):
            nfa.node()
        for state, low, high, target in self.edges():
            nfa.symbols(first + target, CharSet(((low, high),)), first + state)
        for state in self.accepting_states():
            nfa.epsilon(nfa.start, first + state)
        if self.size:
            nfa.final(first)
        return Dfa.from_nfa(nfa, budget=budget)

    def residual(self, state: int) -> Dfa:
        """The words accepted from a state of this automaton; -1 gives the empty language."""
        if state < 0:
            return Dfa.empty(self.limit)
        swap = np.arange(self.size + 1, dtype=np.int32)
        swap[[0, state, self.size]] = [state, 0, -1]
        order = swap[: self.size]
        # States of a minimal automaton stay pairwise different and live.
        return Dfa.from_minimal(
            self.limit,
            minimize.canonical(Table(self.starts, self.classes, swap[self.table[order]], self.accepting[order])),
        )

    def single_symbols(self) -> CharSet | None:
        """The symbols, if every word has exactly one; else None."""
        if self.size != 2 or self.accepting[0] or (self.table[1] >= 0).any() or (self.table[0] == 0).any():
            return None
        return self.class_symbols(np.flatnonzero(self.table[0] == 1).tolist())


def union_all(languages: Iterable[Dfa], limit: int = CODE_POINTS, *, budget: Budget | None = None) -> Dfa:
    """The words in any of the languages; nothing for none."""
    parts = list(dict.fromkeys(part for part in languages if not part.is_empty))
    if len(parts) <= 2:
        return parts[0].union(parts[-1], budget=budget) if parts else Dfa.empty(limit)
    nfa = Nfa(limit)
    end = nfa.node()
    for part in parts:
        nfa.language(nfa.start, part, end)
    nfa.final(end)
    return Dfa.from_nfa(nfa, budget=budget)


def intersect_all(languages: Iterable[Dfa], limit: int = CODE_POINTS, *, budget: Budget | None = None) -> Dfa:
    """The words in all of the languages; everything for none."""
    result = Dfa.everything(limit)
    for part in sorted(languages, key=lambda part: part.size):
        result = result.intersect(part, budget=budget)
    return result
