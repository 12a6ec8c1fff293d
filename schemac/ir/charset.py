"""Sets of symbols (code points or bytes) as sorted, disjoint, non-touching intervals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: Greatest Unicode code point (Unicode Standard, section 2.4); the alphabet of strings is 0..CODE_POINTS.
CODE_POINTS = 0x10FFFF
#: Greatest byte; the alphabet of encoded text is 0..BYTES.
BYTES = 255


@dataclass(frozen=True, slots=True)
class CharSet:
    """A set of integers. Build with `of`; `ranges` is trusted to be normal: sorted, disjoint, never touching.

    Attributes:
        ranges: inclusive intervals ``(low, high)``.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(*items: int | tuple[int, int]) -> CharSet:
        """The set of the given integers and inclusive ranges, in any order, overlaps allowed."""
        return CharSet.merged((item, item) if isinstance(item, int) else item for item in items)

    @staticmethod
    def merged(ranges: Iterable[tuple[int, int]]) -> CharSet:
        """The union of inclusive ranges in any order; empty ones (low above high) are dropped."""
        result: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            if low > high:
                continue
            if result and low <= result[-1][1] + 1:
                if high > result[-1][1]:
                    result[-1] = (result[-1][0], high)
            else:
                result.append((low, high))
        return CharSet(tuple(result))

    def __or__(self, other: CharSet) -> CharSet:
        if not self.ranges or not other.ranges:
            return self if self.ranges else other
        return CharSet.merged(self.ranges + other.ranges)

    def __and__(self, other: CharSet) -> CharSet:
        result: list[tuple[int, int]] = []
        mine, theirs = self.ranges, other.ranges
        i = j = 0
        while i < len(mine) and j < len(theirs):
            low, high = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if low <= high:
                result.append((low, high))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return CharSet(tuple(result))

    def __sub__(self, other: CharSet) -> CharSet:
        if not self.ranges or not other.ranges:
            return self
        return self & other.complement(self.ranges[-1][1])

    def __xor__(self, other: CharSet) -> CharSet:
        return (self | other) - (self & other)

    def complement(self, limit: int) -> CharSet:
        """All of 0..limit that is not in this set."""
        result: list[tuple[int, int]] = []
        start = 0
        for low, high in self.ranges:
            if low > limit:
                break
            if start < low:
                result.append((start, low - 1))
            start = high + 1
        if start <= limit:
            result.append((start, limit))
        return CharSet(tuple(result))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, symbol: int) -> bool:
        index = bisect_right(self.ranges, (symbol, 1 << 62)) - 1
        return index >= 0 and symbol <= self.ranges[index][1]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.ranges)

    def __len__(self) -> int:
        """The number of symbols (not of intervals)."""
        return sum(high - low + 1 for low, high in self.ranges)


#: Unicode scalar values: code points without surrogates (Unicode Standard, D76), the characters of UTF-8 text.
SCALARS = CharSet(((0, 0xD7FF), (0xE000, CODE_POINTS)))
