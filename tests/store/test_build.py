"""Building a store, looking after it, and finding things in it."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

import schemac as library
from schemac.jobs import Job, VocabularyChoice, run
from schemac.store.build import Plan, build
from schemac.store.sources import read_sources
from schemac_runtime import PackageError
from schemac_runtime.store import Store, store_key
from tests.cli.conftest import SCHEMA, Schemac

pytestmark = pytest.mark.usefixtures("vocabulary")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    (folder / "more").mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps(SCHEMA, indent=2))
    (folder / "same.json").write_text(json.dumps(SCHEMA))
    (folder / "more" / "word.regex").write_text("[a-z]{1,5}\n")
    (folder / "more" / "list.gbnf").write_text('root ::= "a" root | "b"\n')
    (folder / "notes.txt").write_text("not a source")
    return folder


def contents(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(store.glob("*/*"))}


def test_a_folder_is_built_once(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    outcome = schemac("build", "sources", "--tokenizer", vocabulary, "-j", "2", "-o", "store")
    assert outcome == (0, "store: 3 compiled, 1 up to date, 0 failed\n", "")
    before = contents(Path("store"))
    outcome = schemac("build", "sources", "--tokenizer", vocabulary, "-o", "store")
    assert outcome.out == "store: 0 compiled, 4 up to date, 0 failed\n"
    assert contents(Path("store")) == before
    schemac("build", "sources", "--tokenizer", vocabulary, "-o", "again")
    assert contents(Path("again")) == before


def test_what_was_built_is_found_and_works(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    schemac("build", "sources", "--tokenizer", vocabulary, "-o", "store")
    loaded = library.load_vocabulary(vocabulary)
    key = store_key("json-schema", json.dumps(SCHEMA).encode(), {"whitespace": "flexible"}, loaded.fingerprint)
    package = Store("store").load(key, loaded.fingerprint)
    assert package is not None
    matcher = package.program(loaded.fingerprint).matcher()
    assert matcher.accept_all([token[0] for token in map(loaded.ids_of, [b'{"', b"id", b'":', b"12", b"}"])])
    assert Store("store").load("0" * 64, loaded.fingerprint) is None


def test_failures_are_reported_by_file_and_the_rest_is_built(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    (sources / "bad.json").write_text('{"type": "string", "pattern": "(a"}')
    (sources / "empty.json").write_text("")
    (sources / "slow.json").write_text('{"type": "string", "pattern": "(a|b)*a(a|b){60}"}')
    outcome = schemac("build", "sources", "--tokenizer", vocabulary, "-o", "store")
    assert outcome.code == 1
    assert outcome.out == "store: 3 compiled, 1 up to date, 3 failed\n"
    lines = sorted(outcome.err.splitlines())
    assert [line.split(": ")[:3] for line in lines] == [
        ["schemac", "error", name] for name in ("bad.json", "empty.json", "slow.json")
    ]
    assert "#/pattern" in lines[0]
    assert "regex states" in lines[2]


def test_a_manifest_says_more(schemac: Schemac, sources: Path, vocabulary: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"sources": [
        "sources/a.json",
        {"file": "sources/a.json", "whitespace": "compact"},
        {"file": "sources/a.json", "reasoning_end": "</think>"},
        {"file": "sources/notes.txt", "kind": "choice"},
        "missing.json",
    ]}))  # fmt: skip
    outcome = schemac("build", "m.json", "--tokenizer", vocabulary, "-o", "store")
    assert outcome.out == "store: 4 compiled, 0 up to date, 1 failed\n"
    assert outcome.err == "schemac: error: missing.json: No such file or directory\n"


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("{", "not a manifest"),
        ("[]", "no list `sources`"),
        ('{"sources": [1]}', "#/sources/0"),
        ('{"sources": [{"file": "a", "kin": "regex"}]}', "`kin`: there is no such entry"),
        ('{"sources": [{"file": "a", "kind": "yaml"}]}', "there is no kind 'yaml'"),
    ],
)
def test_a_bad_manifest_is_refused(
    schemac: Schemac, vocabulary: str, tmp_path: Path, manifest: str, reason: str
) -> None:
    (tmp_path / "m.json").write_text(manifest)
    outcome = schemac("build", "m.json", "--tokenizer", vocabulary, "-o", "store")
    assert outcome.code == 1
    assert reason in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_target_that_is_missing_is_added(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    pytest.importorskip("triton", reason="not run: needs triton")
    schemac("build", "sources", "--tokenizer", vocabulary, "-o", "store")
    arguments = ("build", "sources", "--tokenizer", vocabulary, "--target", "triton:sm_90", "-o", "store")
    assert schemac(*arguments).out == "store: 3 compiled, 1 up to date, 0 failed\n"
    assert schemac(*arguments).out == "store: 0 compiled, 4 up to date, 0 failed\n"


def test_options_make_other_packages(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    for number, option in enumerate((["--whitespace", "compact"], ["--openapi-nullable"])):
        outcome = schemac("build", "sources", "--tokenizer", vocabulary, *option, "-o", "store")
        assert outcome.out == "store: 3 compiled, 1 up to date, 0 failed\n", (number, outcome.err)


def test_a_bad_tokenizer_is_one_error(schemac: Schemac, sources: Path) -> None:
    outcome = schemac("build", "sources", "--tokenizer", "nothing", "-o", "store")
    assert outcome.code == 1
    assert outcome.err.startswith("schemac: error: nothing: there is no tokenizer of this name")
    assert schemac("build", "sources", "-o", "store").code == 2


def test_two_writers_at_once(sources: Path, vocabulary: str, tmp_path: Path) -> None:
    plan = Plan(tmp_path / "store", [VocabularyChoice(str(tmp_path / vocabulary))], {}, 60.0)
    found = read_sources(sources, {})
    outcomes: list[bool] = []

    def write() -> None:
        outcomes.extend(outcome.problem is None for outcome in build(plan, found, 1))

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [True] * 12
    assert len(contents(tmp_path / "store")) == 3
    assert all(store_key_is_right(path) for path in (tmp_path / "store").glob("*/*"))


def store_key_is_right(path: Path) -> bool:
    from schemac_runtime.package import load
    from schemac_runtime.store import key_of

    package = load(path)
    return key_of(package, package.program().fingerprint) + ".pkg" == path.name


def test_a_cluster_writes_the_same_bytes(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    distributed = pytest.importorskip("distributed", reason="not run: needs the distributed package, extra dask")
    schemac("build", "sources", "--tokenizer", vocabulary, "-j", "2", "-o", "store")
    (sources / "bad.json").write_text('{"type": "string", "pattern": "(a"}')
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        outcome = schemac(
            "build", "sources", "--tokenizer", vocabulary, "--scheduler", cluster.scheduler_address, "-o", "far"
        )
    assert outcome.out == "far: 3 compiled, 1 up to date, 1 failed\n"
    assert "bad.json: #/pattern" in outcome.err
    assert contents(Path("far")) == contents(Path("store"))


def test_no_scheduler_is_one_error(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    pytest.importorskip("distributed", reason="not run: needs the distributed package, extra dask")
    outcome = schemac("build", "sources", "--tokenizer", vocabulary, "--scheduler", "nonsense://x", "-o", "far")
    assert outcome.code == 1
    assert outcome.err.startswith("schemac: error: `--scheduler`: no Dask scheduler at nonsense://x")


def test_another_tokenizer_is_refused(vocabulary: str, tmp_path: Path) -> None:
    job = Job.of("regex", b"a", VocabularyChoice(str(tmp_path / vocabulary)), {}, fingerprint="0" * 64)
    with pytest.raises(library.errors.VocabularyError, match="fingerprint"):
        run(job)


def test_verify_and_gc(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    schemac("build", "sources", "--tokenizer", vocabulary, "-o", "store")
    paths = sorted(Path("store").glob("*/*.pkg"))
    assert schemac("store", "verify", "store").out == "store: 3 good, 0 bad\n"
    listing = schemac("store", "ls", "store").out.splitlines()
    assert [line.split()[2] for line in listing[:-1]] != []
    assert listing[-1].startswith("3 packages, ")
    data = bytearray(paths[0].read_bytes())
    data[len(data) // 2] ^= 1
    paths[0].write_bytes(bytes(data))
    moved = paths[1].with_name(paths[1].name[:2] + "0" * 62 + ".pkg")
    paths[1].rename(moved)
    abandoned = paths[2].with_name(".schemac-x.tmp")
    abandoned.write_bytes(b"")
    outcome = schemac("store", "verify", "store")
    assert outcome.code == 1
    assert outcome.out == "store: 1 good, 2 bad\n"
    assert len(outcome.err.splitlines()) == 2
    assert schemac("store", "gc", "store", "-n").out.endswith("would go\n")
    assert schemac("store", "gc", "store").out.count("cannot be read") == 2
    assert abandoned.exists(), "its writer may be at work"
    os.utime(abandoned, (0, 0))
    assert "left by a writer" in schemac("store", "gc", "store").out
    assert list(Path("store").glob("*/*")) == [paths[2]]


def test_gc_by_age_and_size(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    schemac("build", "sources", "--tokenizer", vocabulary, "-o", "store")
    paths = sorted(Path("store").glob("*/*.pkg"))
    old = time.time() - 10 * 86400
    for path in paths:
        os.utime(path, (old, old))
    (sources / "more" / "list.gbnf").unlink()
    schemac("build", "sources", "--tokenizer", vocabulary, "-o", "store")  # still asked for: two of three
    assert schemac("store", "gc", "store", "--unused-days", "5").out.count("not asked for") == 1
    left = sorted(Path("store").glob("*/*.pkg"))
    size = min(path.stat().st_size for path in left)
    schemac("store", "gc", "store", "--max-bytes", str(size + 1))
    assert len(sorted(Path("store").glob("*/*.pkg"))) <= 1


def test_a_package_under_a_wrong_name_is_not_used(schemac: Schemac, sources: Path, vocabulary: str) -> None:
    schemac("build", "sources", "--tokenizer", vocabulary, "-o", "store")
    store, fingerprint = Store("store"), library.load_vocabulary(vocabulary).fingerprint
    path = next(iter(store.entries())).path
    key = "ab" + "0" * 62
    store.path_of(key).parent.mkdir(exist_ok=True)
    store.path_of(key).write_bytes(path.read_bytes())
    with pytest.raises(PackageError, match="not what its name says"):
        store.load(key, fingerprint)
