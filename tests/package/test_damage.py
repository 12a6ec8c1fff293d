"""Damaged and hostile packages: a `PackageError`, or a program that answers something; never anything else."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schemac
from schemac_runtime import PackageError, load
from schemac_runtime.package import LOCAL_HEADER
from schemac_runtime.program import NO_ROW, Program, Tables
from schemac_runtime.verifier import verify_tables
from tests.package.packages import (
    compiled,
    exercise,
    manifest_of,
    manifest_span,
    package_bytes,
    rewritten,
    with_header,
)
from tests.runtime.programs import byte_vocabulary

PREFIX = f"programs/{byte_vocabulary().fingerprint[:16]}"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return package_bytes(tmp_path_factory.mktemp("good"))


@pytest.fixture
def outcome_of(tmp_path: Path) -> Callable[[bytes], str]:
    """What loading some bytes comes to: the reason of the refusal, or "" after using everything in the package."""
    path = tmp_path / "damaged.pkg"

    def outcome(data: bytes) -> str:
        path.write_bytes(data)
        try:
            package = load(path)
            for program in package.programs:
                exercise(program, len(data))
            schemac.sample(schemac.open_package(package), 1)
        except PackageError as error:
            return error.reason
        return ""

    return outcome


def test_the_good_one_is_good(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    assert outcome_of(good) == ""
    assert outcome_of(rewritten(good)) == ""


# -- whole files -----------------------------------------------------------------------------------------------


def test_truncated_anywhere(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    start, end = manifest_span(good)
    lengths = {0, 1, 4, 29, 30, start - 1, start, start + 1, end - 1, end, end + 1, len(good) - 1, len(good) - 22}
    lengths |= set(random.Random(1).sample(range(len(good)), 150))
    for length in sorted(lengths):
        assert outcome_of(good[:length]), length


def test_with_something_behind(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    assert "truncated or changed" in outcome_of(good + b"\0")
    assert outcome_of(good + good)


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"PK\3\4", b"\0" * 1000, b"{}" * 100, bytes(range(256)) * 10, b"PK\3\4" + b"\xff" * 200]
)
def test_what_is_no_package(data: bytes, outcome_of: Callable[[bytes], str]) -> None:
    assert outcome_of(data)


def test_another_zip_archive(tmp_path: Path) -> None:
    path = tmp_path / "other.zip"
    np.savez(path.with_suffix(""), a=np.zeros(100))
    path = path.with_suffix(".npz")
    with pytest.raises(PackageError, match="not a package"):
        load(path)


@pytest.mark.parametrize("name", ["missing.pkg", ".", "a\0b"])
def test_what_cannot_be_opened(name: str, tmp_path: Path) -> None:
    with pytest.raises(PackageError):
        load(tmp_path / name)


def test_another_format_version(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    for version in (0, 1, 3, "2", None, [2]):
        reason = outcome_of(rewritten(good, edit=lambda m, v=version: m.update(format=v)))
        assert "package format" in reason


# -- bytes -----------------------------------------------------------------------------------------------------


def test_flipped_bytes(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    """Behind `data_end` lies the directory, which the loader does not read: such a package is the same program."""
    generator = random.Random(2)
    data_end = manifest_of(good)["data_end"]
    positions = [*range(60), *generator.sample(range(len(good)), 350)]
    unread = {4, 5, 6, 7, 10, 11, 12, 13}  # version, flags and time of the manifest's ZIP header
    for position in positions:
        data = bytearray(good)
        data[position] ^= generator.randint(1, 255)
        reason = outcome_of(bytes(data))
        assert reason or position in unread or position >= data_end, position


def test_flipped_bytes_under_a_right_digest(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    generator = random.Random(3)
    manifest, reasons = manifest_of(good), set()
    spans = [(offset, int(np.prod(shape)) * np.dtype(dtype).itemsize) for offset, dtype, shape in
             manifest["arrays"].values()]
    spans = [(offset, size) for offset, size in spans if size]
    for _ in range(300):
        data = bytearray(good)
        for _ in range(generator.choice((1, 1, 4))):
            offset, size = generator.choice(spans)
            data[offset + generator.randrange(size)] ^= 1 << generator.randrange(8)
        reasons.add(outcome_of(rewritten(bytes(data))))
    assert len(reasons) > 10, "many different checks are what catches them"


def test_flipped_bytes_of_the_manifest_under_a_right_checksum(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    import zlib

    generator = random.Random(4)
    start, end = manifest_span(good)
    used = len(good[start:end].rstrip())
    for _ in range(250):
        data = bytearray(good)
        position = start + generator.randrange(used)
        if generator.random() < 0.5:
            data[position] = generator.choice(b'0123456789-.eE[]{}",:null')
        else:
            data[position] ^= 1 << generator.randrange(8)
        outcome_of(bytes(with_header(data, crc=zlib.crc32(data[start:end]))))


def test_header_fields(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    for index in (0, 3, 6, 7, 8, 9, 10):
        for value in (0, 1, 0x7FFF, 0xFFFF):
            fields = list(LOCAL_HEADER.unpack_from(good))
            if fields[index] != value:
                fields[index] = value
                assert outcome_of(LOCAL_HEADER.pack(*fields) + good[LOCAL_HEADER.size :]), (index, value)


# -- the manifest ----------------------------------------------------------------------------------------------

VALUES: list[Any] = [None, True, -1, 1.5, 1 << 62, -(1 << 70), "x", [], [0, 0], {"a": 0}, [[None]], [1 << 70] * 2]


def paths_of(manifest: dict[str, Any]) -> Iterator[tuple[str | int, ...]]:
    """The places in a manifest that a loader may look at."""
    for key in manifest:
        yield (key,)
    for key in manifest["automaton"]:
        yield ("automaton", key)
    for key in manifest["programs"][0]:
        yield ("programs", 0, key)
    yield ("programs", 0)
    for name in (f"{PREFIX}/edge_value", "automaton/byte_class"):
        yield ("arrays", name)
        for index in range(3):
            yield ("arrays", name, index)
        yield ("arrays", name, 2, 0)
    yield from [("source", 0), ("source", 1), ("warnings", 0)]


def test_any_value_anywhere_in_the_manifest(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    for place in paths_of(manifest_of(good)):
        for value in VALUES:
            def edit(manifest: dict[str, Any], place: tuple[str | int, ...] = place, value: Any = value) -> None:
                here: Any = manifest
                for step in place[:-1]:
                    here = here[step]
                if isinstance(here, list) and isinstance(place[-1], int) and place[-1] >= len(here):
                    here.append(value)
                else:
                    here[place[-1]] = value
            outcome_of(rewritten(good, edit=edit))


def test_anything_missing_from_the_manifest(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    manifest = manifest_of(good)
    unused = {"schemac", "source_sha256"}
    for key in manifest:
        assert outcome_of(rewritten(good, edit=lambda m, k=key: m.pop(k))) or key in unused, key
    for name in manifest["arrays"]:
        assert outcome_of(rewritten(good, edit=lambda m, n=name: m["arrays"].pop(n))), name


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '"x"', "NaN", "[" * 5_000, '{"format": 2}', "9" * 6_000])
def test_another_manifest(text: str, good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    start, end = manifest_span(good)
    assert outcome_of(rewritten(good, text=text.encode()[: end - start]))


def test_shorter_longer_and_moved_arrays(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    manifest = manifest_of(good)
    for name, (offset, _, shape) in manifest["arrays"].items():
        if not name.startswith((PREFIX, "automaton")):
            continue
        first, *others = shape
        for new in ([], [first - 1, *others], [first + 1, *others], [*shape, 1], [0, 1 << 39]):
            reason = outcome_of(rewritten(good, edit=lambda m, n=name, s=new: m["arrays"][n].__setitem__(2, s)))
            assert reason or new == shape, (name, new)
        outcome_of(rewritten(good, edit=lambda m, n=name, o=offset: m["arrays"][n].__setitem__(0, o + 64)))
        for other in ("uint8", "int64", "float64", "O"):
            outcome_of(rewritten(good, edit=lambda m, n=name, o=other: m["arrays"][n].__setitem__(1, o)))


# -- index ranges ----------------------------------------------------------------------------------------------


def bad_values(name: str, array: np.ndarray) -> Iterator[int]:
    limits = np.iinfo(array.dtype)
    yield from {limits.min, limits.min + 1, limits.max, limits.max - 1}
    tables = compiled().programs[0].tables
    sizes = {len(tables.accepting), len(tables.context_parent), len(tables.dense), len(tables.sparse_start), len(array)}
    sizes |= {len(tables.multi_start), len(tables.token_class), tables.dense.shape[1], 0, int(array.max(initial=0)) + 1}
    for size in sizes:
        yield from (value for value in (size - 1, size, -size, -size - 1) if limits.min <= value <= limits.max)
    yield int(NO_ROW) if array.dtype == np.int32 else 0


@pytest.mark.parametrize("name", Tables.names())
def test_values_out_of_range_in_every_table(name: str) -> None:
    """What the loader does with the tables of a package, without the file around them."""
    tables = compiled().programs[0].tables
    array = getattr(tables, name)
    generator = random.Random(name)
    places = sorted({0, array.size - 1, generator.randrange(array.size)})
    values = sorted(set(bad_values(name, array)))
    for value in [values[0], values[-1], *generator.sample(values[1:-1], min(18, len(values) - 2))]:
        for place in (*places, slice(None)):
            changed = array.copy()
            changed.reshape(-1)[place] = value
            damaged = replace(tables, **{name: changed})
            with contextlib.suppress(PackageError):
                verify_tables(damaged)
                exercise(Program(damaged), value & 0xFFFF, steps=6)


#: What no value of these may be, however plausible the rest is.
REFUSED: dict[str, Callable[[Tables], Any]] = {
    "token_class": lambda _: -1,
    "default_state": lambda t: len(t.accepting),
    "default_return": lambda t: len(t.accepting),
    "edge_start": lambda t: len(t.edge_class) + 1,
    "edge_class": lambda _: 0,
    "edge_value": lambda t: len(t.accepting),
    "multi_start": lambda t: len(t.multi_context) + 1,
    "multi_context": lambda t: len(t.context_parent),
    "multi_target": lambda _: -1,
    "context_parent": lambda t: len(t.context_parent),
    "context_top": lambda t: len(t.accepting),
    "enter_state": lambda t: len(t.accepting),
    "enter_return": lambda t: len(t.accepting),
    "state_row": lambda t: len(t.dense),
    "clear_row": lambda t: len(t.dense),
    "sparse_start": lambda t: len(t.sparse_word) + 1,
    "sparse_word": lambda t: t.dense.shape[1],
    "below_start": lambda t: len(t.below_return) + 1,
    "below_return": lambda t: len(t.accepting),
    "below_row": lambda t: len(t.dense),
    "deep_start": lambda t: len(t.deep_rest) + 1,
    "deep_row": lambda t: len(t.dense),
    "deep_rest": lambda _: 0,
    "start": lambda t: len(t.accepting),
    "start_context": lambda t: len(t.context_parent),
    "stop_ids": lambda t: len(t.token_class),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_index_out_of_range_is_refused_by_name(name: str, good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    tables = compiled().programs[0].tables
    array = getattr(tables, name)
    assert len(array), "the package should have one of everything"
    for place in {0, len(array) // 2, len(array) - 1}:
        changed = array.copy()
        changed[place] = REFUSED[name](tables)
        assert outcome_of(rewritten(good, {f"{PREFIX}/{name}": changed})), place


def test_walks_without_an_end_are_refused(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    tables = compiled().programs[0].tables
    n = len(tables.accepting)

    def with_arrays(**arrays: np.ndarray) -> str:
        return outcome_of(rewritten(good, {f"{PREFIX}/{name}": array for name, array in arrays.items()}))

    everywhere = np.zeros(n, dtype=np.int32)
    assert "enters itself" in with_arrays(
        enter_state=everywhere, enter_return=everywhere, returns_only=np.zeros(n, np.uint8)
    )
    ring = np.roll(np.arange(n, dtype=np.int32), -1)
    assert "enters itself" in with_arrays(enter_state=ring, enter_return=everywhere, returns_only=np.zeros(n, np.uint8))
    assert "can only return" in with_arrays(
        enter_state=np.where(np.arange(n) == 1, 0, -1), enter_return=np.where(np.arange(n) == 1, 0, -1),
        returns_only=np.where(np.arange(n) == 0, 1, 0),
    )
    assert "must come after its parent" in with_arrays(context_parent=np.arange(len(tables.context_parent)))


def test_order_and_bits_past_the_vocabulary(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    tables = compiled().programs[0].tables
    backwards = {name: getattr(tables, name)[::-1].copy() for name in ("edge_class", "below_return", "sparse_word")}
    for name, array in backwards.items():
        assert "ascending" in outcome_of(rewritten(good, {f"{PREFIX}/{name}": array})), name
    assert len(tables.token_class) % 32, "the last word has bits to spare"
    dense = tables.dense.copy()
    dense[0, -1] |= np.int32(-(1 << 31))
    assert "past the vocabulary" in outcome_of(rewritten(good, {f"{PREFIX}/dense": dense}))
    last = np.flatnonzero(tables.sparse_word == tables.dense.shape[1] - 1)[0]
    bits = tables.sparse_bits.copy()
    bits[last] |= np.int32(-(1 << 31))
    assert "past the vocabulary" in outcome_of(rewritten(good, {f"{PREFIX}/sparse_bits": bits}))


# -- the automaton ---------------------------------------------------------------------------------------------


def test_values_out_of_range_in_the_automaton(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    manifest, generator = manifest_of(good), random.Random(5)
    for name, (offset, dtype, shape) in manifest["arrays"].items():
        if not name.startswith("automaton/"):
            continue
        array = np.frombuffer(good, dtype, int(np.prod(shape)), offset)
        limits = np.iinfo(array.dtype)
        for value in {limits.min, -1, 0, 1, int(array.max()), int(array.max()) + 1, limits.max}:
            if not limits.min <= value <= limits.max:
                continue
            changed = array.copy()
            changed[generator.choice((0, -1, generator.randrange(len(array))))] = value
            outcome_of(rewritten(good, {name: changed}))


def test_names_of_another_type(good: bytes, outcome_of: Callable[[bytes], str]) -> None:
    for key in ("labels", "procedures", "places"):
        for value in ([1], [None], "x", {"a": 1}, 7):
            damaged = rewritten(good, edit=lambda m, k=key, v=value: m["automaton"].update({k: v}))
            assert outcome_of(damaged), (key, value)
    assert outcome_of(rewritten(good, edit=lambda m: m["automaton"].update(symbols=65_536)))
