"""The mask arena: who holds which row, what is written when, and the order of streams."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from schemac_runtime import DeviceError
from schemac_runtime.device.arena import ArenaFull, RowBook

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-device)")

from schemac_runtime.device.arena import MaskArena, RowIds  # noqa: E402
from schemac_runtime.device.streams import NoStreams, Slots, StreamOrder  # noqa: E402


def test_rows_are_shared_held_and_let_go() -> None:
    book = RowBook(4)
    assert [book.acquire(key) for key in "aba"] == [(1, True), (2, True), (1, False)]
    book.release(1)
    assert book.acquire("c") == (3, True)
    with pytest.raises(ArenaFull, match="all 3 rows"):
        book.acquire("d")
    book.release(2)
    assert book.acquire("d") == (2, True) and book.evictions == 1
    assert "b" not in book and "a" in book
    book.release(1)  # the second holder
    assert book.acquire("a") == (1, False), "it was let go, but is still there"
    with pytest.raises(DeviceError, match="nobody"):
        RowBook(3).release(1)
    with pytest.raises(DeviceError, match="none to give"):
        RowBook(1)
    book.release(0)


def test_the_row_let_go_longest_ago_is_evicted() -> None:
    book = RowBook(4)
    rows = {key: book.acquire(key)[0] for key in "abc"}
    for key in "bac":
        book.release(rows[key])
    assert book.acquire("x")[0] == rows["b"]
    assert book.acquire("y")[0] == rows["a"]
    assert book.acquire("c") == (rows["c"], False)


def test_random_use_of_a_book() -> None:
    """Against a model: a held row keeps its key, and equal keys share a row."""
    generator, book = random.Random(5), RowBook(9)
    held: list[tuple[int, int]] = []
    for _ in range(20_000):
        if held and generator.random() < 0.5:
            _, row = held.pop(generator.randrange(len(held)))
            book.release(row)
            continue
        key = generator.randrange(20)
        known = dict(held)
        try:
            row, new = book.acquire(key)
        except ArenaFull:
            assert len(set(known.values())) == 8 and key not in known
            continue
        assert 1 <= row < 9
        assert known.get(key, row) == row and not (new and key in known)
        assert all(k == key or r != row for k, r in held), "a held row was given away"
        held.append((key, row))
    assert book.evictions > 1000


def mask(words: int, value: int) -> np.ndarray:
    return np.full(words, value, np.int32)


def test_rows_are_written_once() -> None:
    arena = MaskArena(100, 5)
    made = []

    def make(value: int) -> Callable[[], np.ndarray]:
        return lambda: made.append(value) or mask(4, value)  # type: ignore[func-returns-value]

    rows = [arena.acquire(value, make(value)) for value in (7, 8, 7)]
    assert rows == [1, 2, 1] and made == [7, 8]
    assert arena.table.shape == (5, 16), "rows begin at multiples of 64 bytes"
    assert arena.table[0].eq(-1).all() and arena.table[1, :4].eq(7).all() and arena.table[2, :4].eq(8).all()
    assert arena.bytes_moved == 2 * 64
    many = np.arange(4 * 4, dtype=np.int32).reshape(4, 4)
    arena.write([4, 3, 2, 1], many)
    assert arena.table[[4, 3, 2, 1], :4].equal(torch.from_numpy(many))


def test_more_rows_than_a_staging_buffer_holds() -> None:
    arena = MaskArena(64, 200)
    masks = np.random.default_rng(1).integers(-100, 100, (150, 2)).astype(np.int32)
    arena.write(list(range(10, 160)), masks)
    assert arena.table[10:160, :2].equal(torch.from_numpy(masks))


def test_masks_that_do_not_belong_in_an_arena() -> None:
    arena = MaskArena(100, 3)
    with pytest.raises(DeviceError, match="no token at all"):
        arena.acquire("a", lambda: mask(4, 0))
    assert "a" not in arena.book
    for bad in (mask(3, 1), mask(4, 1).astype(np.int64)):
        with pytest.raises(DeviceError, match="must be int32"):
            arena.acquire("a", lambda bad=bad: bad)
    for row in (0, 3, -1):
        with pytest.raises(DeviceError, match="row 0 is fixed"):
            arena.write([row], mask(4, 1)[None])


def test_row_ids_keep_their_address_and_clear_what_is_behind() -> None:
    ids = RowIds(8)
    address = ids.tensor.data_ptr()
    assert ids.send([3, 4, 5]).tolist() == [3, 4, 5]
    assert ids.send(np.array([9, 8])).tolist() == [9, 8]
    assert ids.tensor.tolist() == [9, 8, 0, 0, 0, 0, 0, 0], "a longer graph must not see rows of an earlier step"
    assert ids.tensor.data_ptr() == address
    assert ids.bytes_moved == 4 * (3 + 3)
    with pytest.raises(DeviceError, match="room for 8"):
        ids.send(range(9))


# -- streams -----------------------------------------------------------------------------------------------------


class Recorded:
    """Streams that write down what they are asked to do."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.stream, self.graph, self.events = "one", False, 0

    def current(self) -> Any:
        outer = self

        class Stream:
            name = outer.stream

            def __eq__(self, other: object) -> bool:
                return isinstance(other, type(self)) or getattr(other, "name", None) == self.name

            __hash__ = None  # type: ignore[assignment]

            def wait_event(self, event: Any) -> None:
                outer.log.append(f"{self.name} waits for {event.number}")

        return Stream()

    def record(self) -> Any:
        self.events += 1
        outer = self

        class Event:
            number = self.events

            def synchronize(self) -> None:
                outer.log.append(f"host waits for {self.number}")

        self.log.append(f"{self.stream} records {self.events}")
        return Event()

    def capturing(self) -> bool:
        return self.graph


def test_a_buffer_is_not_written_while_it_is_copied() -> None:
    streams = Recorded()
    slots = Slots(["a", "b"], streams)
    for _ in range(3):
        streams.log.append(f"host writes {slots.take()}")
        slots.sent()
    assert streams.log == [
        "host writes a", "one records 1", "host writes b", "one records 2", "host waits for 1", "host writes a",
        "one records 3",
    ]  # fmt: skip


def test_work_on_another_stream_waits_for_the_last_use() -> None:
    streams = Recorded()
    order = StreamOrder(streams)
    for name in ("one", "one", "two", "two", "one"):
        streams.stream = name
        with order.using():
            streams.log.append(f"work on {name}")
    assert streams.log == [
        "work on one", "one records 1", "work on one", "one records 2", "two waits for 2", "work on two",
        "two records 3", "work on two", "two records 4", "one waits for 4", "work on one", "one records 5",
    ]  # fmt: skip


def test_nothing_is_uploaded_into_a_graph() -> None:
    streams = Recorded()
    arena, ids = MaskArena(64, 4, streams=streams), RowIds(4, streams=streams)
    streams.graph = True
    with pytest.raises(DeviceError, match="CUDA graph"):
        ids.send([1])
    with pytest.raises(DeviceError, match="CUDA graph"):
        arena.write([1], mask(2, 1)[None])
    log = list(streams.log)
    with arena.order.using():
        pass
    assert streams.log == log, "nothing is recorded or waited for in a capture"


def test_the_arena_and_the_row_ids_are_sent_on_the_current_stream() -> None:
    streams = Recorded()
    arena, ids = MaskArena(64, 4, streams=streams), RowIds(4, streams=streams)
    arena.acquire("a", lambda: mask(2, 5))
    ids.send([1])
    streams.stream = "two"
    arena.acquire("b", lambda: mask(2, 6))
    assert "two waits for 2" in streams.log, "the write of row b comes behind the last use of the arena"


def test_the_cpu_has_no_streams() -> None:
    streams = NoStreams()
    assert (streams.current(), streams.record(), streams.capturing()) == (None, None, False)
