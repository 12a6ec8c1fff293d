"""`CharSet` against sets of integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schemac.ir.charset import CharSet

LIMIT = 40
INTERVALS = st.lists(st.tuples(st.integers(0, LIMIT), st.integers(0, LIMIT)).map(lambda pair: tuple(sorted(pair))))


def expand(symbols: CharSet) -> set[int]:
    """The members, one by one."""
    for (_, high), (low, _) in zip(symbols.ranges, symbols.ranges[1:], strict=False):
        assert high + 1 < low
    return {symbol for low, high in symbols for symbol in range(low, high + 1)}


@given(INTERVALS, INTERVALS)
def test_operations_are_those_of_sets(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    a, b = CharSet.of(*left), CharSet.of(*right)
    one, two = expand(a), expand(b)
    assert one == {symbol for low, high in left for symbol in range(low, high + 1)}
    assert expand(a | b) == one | two
    assert expand(a & b) == one & two
    assert expand(a - b) == one - two
    assert expand(a ^ b) == one ^ two
    assert expand(a.complement(LIMIT)) == set(range(LIMIT + 1)) - one
    assert len(a) == len(one) and bool(a) == bool(one)
    assert {symbol for symbol in range(LIMIT + 1) if symbol in a} == one
