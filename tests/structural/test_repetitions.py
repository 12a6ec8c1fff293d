"""Large repetitions of parts are counted: the same texts as written out."""

from __future__ import annotations

import pytest

from schemac.budget import Budget
from schemac.frontend import compose
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import check


@pytest.mark.parametrize("separator", [None, ","])
@pytest.mark.parametrize(("low", "high"), [(0, 2), (0, 4), (1, 3), (2, 5), (3, 3), (3, None)])
def test_counted_parts(low: int, high: int | None, separator: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "_WRITTEN_OUT", 1)
    between = None if separator is None else compose.literal(separator)
    part = compose.repetition(compose.literal("ab"), low, high, separator=between)
    automaton, _ = lower(compose.compose(part, "items", "#", Budget()), Budget())
    assert automaton.guards
    for count in range(8):
        text = (separator or "").join(["ab"] * count).encode()
        assert check(automaton, text).accepted == (low <= count <= (high or 8))
    assert not check(automaton, b"aba").accepted
    assert not check(automaton, b"ab,").accepted
