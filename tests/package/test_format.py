"""Packages: round trip, same bytes every time, readable with ordinary tools, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import schemac
from schemac.codegen import package as writer
from schemac.errors import SchemacError
from schemac.ir.automaton import Automaton
from schemac.vocabulary import Vocabulary
from schemac_runtime import PackageError, allocate_bitmask, load
from schemac_runtime.package import ALIGNMENT
from schemac_runtime.program import Tables
from tests.package.packages import SCHEMA, compiled, exercise
from tests.runtime.programs import SMALL, byte_vocabulary

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    schemac.save(compiled(), tmp_path / "grammar.pkg")
    return tmp_path / "grammar.pkg"


def assert_equal(a: Automaton, b: Automaton) -> None:
    for field in fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            np.testing.assert_array_equal(left, right, err_msg=field.name)
        else:
            assert left == right, field.name


def test_round_trip(path: Path) -> None:
    package = load(path)
    made = compiled()
    assert package.source == SCHEMA.encode()
    assert package.manifest["kind"] == "json-schema"
    assert package.manifest["source_sha256"] == hashlib.sha256(SCHEMA.encode()).hexdigest()
    assert [p.fingerprint for p in package.programs] == [byte_vocabulary().fingerprint, SMALL.fingerprint]
    for loaded, linked in zip(package.programs, made.programs, strict=True):
        assert (loaded.vocab_size, loaded.tokenizer) == (linked.vocab_size, linked.tokenizer)
        for name in Tables.names():
            left, right = getattr(loaded.tables, name), getattr(linked.tables, name)
            assert left.dtype == right.dtype, name
            np.testing.assert_array_equal(left, right, err_msg=name)
            assert not left.flags.writeable
    opened = schemac.open_package(package)
    assert_equal(opened.automaton, made.automaton)
    assert (opened.kind, opened.source, dict(opened.options)) == (made.kind, made.source, dict(made.options))
    assert opened.programs == package.programs


def test_saving_what_was_loaded_changes_nothing(path: Path, tmp_path: Path) -> None:
    schemac.save(schemac.open_package(load(path)), tmp_path / "again.pkg")
    assert (tmp_path / "again.pkg").read_bytes() == path.read_bytes()


def test_a_program_is_found_by_its_vocabulary(path: Path) -> None:
    package = load(path)
    for vocabulary in (byte_vocabulary(), SMALL):
        assert package.program(vocabulary.fingerprint).vocab_size == vocabulary.size
        exercise(package.program(vocabulary.fingerprint), 1)
    with pytest.raises(PackageError, match="2 linked programs"):
        package.program()
    with pytest.raises(PackageError, match="not linked for the vocabulary"):
        package.program("0" * 64)


def test_linking_again_adds_a_vocabulary_or_replaces_it(path: Path, tmp_path: Path) -> None:
    third = Vocabulary(tokens=(None, *(bytes([b]) for b in range(256))), stop_ids=(0,))
    opened = schemac.open_package(load(path))
    more = schemac.link(schemac.link(opened, third), byte_vocabulary())
    schemac.save(more, tmp_path / "more.pkg")
    package = load(tmp_path / "more.pkg")
    assert [p.vocab_size for p in package.programs] == [SMALL.size, third.size, byte_vocabulary().size]


def test_without_a_vocabulary(tmp_path: Path) -> None:
    schemac.save(schemac.compile("a|b", kind="regex"), tmp_path / "bytes.pkg")
    package = load(tmp_path / "bytes.pkg")
    assert package.programs == ()
    with pytest.raises(PackageError, match="no linked program"):
        package.program()
    assert schemac.open_package(package).automaton.states == 2


def test_ordinary_tools_read_it(path: Path) -> None:
    manifest = load(path).manifest
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names[0] == "manifest.json"
        assert json.loads(archive.read("manifest.json")) == manifest
        assert archive.read("source") == SCHEMA.encode()
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    with np.load(path, allow_pickle=False) as arrays:
        members = {name.removesuffix(".npy") for name in names if name.endswith(".npy")}
        assert members == set(manifest["arrays"])
        for name, array in load(path).arrays.items():
            np.testing.assert_array_equal(arrays[name], array)


def test_arrays_are_aligned(path: Path) -> None:
    assert all(offset % ALIGNMENT == 0 for offset, _, _ in load(path).manifest["arrays"].values())


# -- the same bytes --------------------------------------------------------------------------------------------


def test_the_same_bytes_twice(path: Path, tmp_path: Path) -> None:
    again = schemac.link(schemac.link(schemac.compile(SCHEMA), byte_vocabulary()), SMALL)
    schemac.save(again, tmp_path / "again.pkg")
    assert (tmp_path / "again.pkg").read_bytes() == path.read_bytes()


MAKE = """
import sys
from tests.package.packages import compiled
import schemac
schemac.save(compiled(), sys.argv[1])
"""


def test_the_same_bytes_whatever_the_hash_seed(path: Path, tmp_path: Path) -> None:
    python_path = os.pathsep.join([str(ROOT), str(ROOT / "runtime")])
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", MAKE, str(tmp_path / f"{seed}.pkg")],
            env={**os.environ, "PYTHONPATH": python_path, "PYTHONHASHSEED": seed},
        )
        for seed in ("0", "1", "4242")
    ]
    assert [run.wait(timeout=60) for run in runs] == [0, 0, 0]
    assert {(tmp_path / f"{seed}.pkg").read_bytes() for seed in ("0", "1", "4242")} == {path.read_bytes()}


# -- writing ---------------------------------------------------------------------------------------------------


def test_a_package_replaces_another_at_once(path: Path) -> None:
    schemac.save(schemac.compile("a", kind="regex"), path)
    assert load(path).manifest["kind"] == "regex"
    assert [p.name for p in path.parent.iterdir()] == ["grammar.pkg"]


def test_nothing_is_left_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for target in ("missing/grammar.pkg", "file/grammar.pkg", "folder", "a\0b", "n" * 5000):
        with pytest.raises(SchemacError, match="cannot write"):
            schemac.save(compiled(), tmp_path / target)
        assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="not run: root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(SchemacError, match="cannot write"):
            schemac.save(compiled(), tmp_path / "grammar.pkg")
        assert list(tmp_path.iterdir()) == []
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_package(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(writer.os, "replace", fail)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else SchemacError):
        schemac.save(schemac.compile("a", kind="regex"), path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["grammar.pkg"]


# -- loading ---------------------------------------------------------------------------------------------------


def test_a_package_outlives_its_file(path: Path) -> None:
    program = load(path).program(SMALL.fingerprint)
    path.unlink()
    exercise(program, 2)


def test_load_time_of_a_linked_package(tekken: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "grammar.pkg"
    schemac.save(schemac.link(schemac.compile(SCHEMA), tekken), path)
    times = []
    for _ in range(15):
        started = time.perf_counter()
        program = load(path).program()
        times.append(time.perf_counter() - started)
    assert min(times) < 0.02  # 1 to 3 ms with nothing else running: a map, a digest, the checks
    mask = allocate_bitmask(1, program.vocab_size)
    program.matcher().fill_bitmask(mask)
