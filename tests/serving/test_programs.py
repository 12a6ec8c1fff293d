"""From constraints to programs: where they come from, and what is kept."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schemac
from schemac.jobs import Job, VocabularyChoice, run
from schemac_runtime import allocate_bitmask
from schemac_runtime.serving.constraint import Constraint, constraint
from schemac_runtime.serving.metrics import Collector, merged
from schemac_runtime.serving.programs import Programs
from schemac_runtime.serving.settings import Settings, SettingsError
from schemac_runtime.serving.worker import CompileError, CompileWorkers
from schemac_runtime.store import Store, store_key
from tests.serving.conftest import MakePrograms, schema_of

OPTIONS = {"whitespace": "flexible", "strict": False}


def wanted(number: int) -> Constraint:
    return Constraint("json-schema", schema_of(number), OPTIONS)


def counts(programs: Programs) -> dict[str, float]:
    return {f"{name}{label}": value for name, label, value in programs.metrics.snapshot()["values"]}


def test_a_miss_is_compiled_once_and_then_at_hand(make: MakePrograms) -> None:
    programs = make()
    futures = [programs.get(wanted(1)) for _ in range(10)]
    found = {id(future.result(60).program) for future in futures}
    assert len(found) == 1
    assert programs.known(wanted(1)) is futures[0].result()
    assert counts(programs)["schemac_requests_totalcompile"] == 1


def test_layout_does_not_count(make: MakePrograms) -> None:
    programs = make()
    one = programs.get(Constraint("json-schema", b'{"type": "integer"}', OPTIONS)).result(60)
    other = programs.get(Constraint("json-schema", b'{ "type" : "integer" }', {})).result(60)
    assert one.program is other.program


def test_stores_come_first(make: MakePrograms, choice: dict[str, Any], loaded: schemac.Vocabulary, tmp_path: Path,
                           ) -> None:  # fmt: skip
    source = schema_of(2)
    store = Store(tmp_path / "store")
    key = store_key("json-schema", source, {}, loaded.fingerprint)
    store.path_of(key).parent.mkdir(parents=True)
    made = run(Job.of("json-schema", source, VocabularyChoice(choice["tokenizer"]), {}))
    store.path_of(key).write_bytes(made.data)
    programs = make(stores=[str(tmp_path / "nothing"), str(tmp_path / "store")], on_miss="reject")
    resolved = programs.get(wanted(2)).result(60)
    assert resolved.min_tokens == made.min_tokens
    assert counts(programs)["schemac_requests_totalstore"] == 1
    refused = programs.get(wanted(3)).exception(60)
    assert isinstance(refused, CompileError)
    assert refused.kind == "NotInStore"


def test_a_damaged_package_is_a_miss(make: MakePrograms, loaded: schemac.Vocabulary, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    path = store.path_of(store_key("json-schema", schema_of(4), {}, loaded.fingerprint))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PK nonsense")
    assert isinstance(make(stores=str(store.path), on_miss="reject").get(wanted(4)).exception(60), CompileError)
    assert make(stores=str(store.path)).get(wanted(4)).result(60).program is not None


def test_refusals_are_remembered(make: MakePrograms) -> None:
    programs = make(keep=False)
    bad = Constraint("regex", b"(", OPTIONS)
    first = programs.get(bad).exception(60)
    assert isinstance(first, CompileError)
    assert programs.known(bad) is first
    assert programs.get(bad).exception(60) is first


def test_a_crash_is_not_remembered(choice: dict[str, Any], tmp_path: Path, workers: CompileWorkers) -> None:
    class Flaky(CompileWorkers):
        """The first compile goes to a worker that dies."""

        def __init__(self) -> None:
            super().__init__(1, command=[sys.executable, "-c", "import os; os._exit(1)"])
            self.crashed = False

        def submit(self, header: Any, data: bytes = b"", *, seconds: float | None = None) -> Any:
            if header["do"] == "compile" and not self.crashed:
                self.crashed = True
                return super().submit(header, data, seconds=seconds)
            return workers.submit(header, data, seconds=seconds)

    programs = Programs(Settings(), choice, tmp_path / "scratch", keep=True, workers=Flaky())
    error = programs.get(wanted(5)).exception(60)
    assert isinstance(error, CompileError)
    assert error.kind == "Crash"
    assert programs.get(wanted(5)).result(60).program is not None


def test_the_cache_is_bounded_and_matchers_keep_their_program(make: MakePrograms) -> None:
    programs = make(cache_mib=0)  # room for the last one only
    first = programs.get(wanted(6)).result(60).program
    assert first is not None
    matcher = first.matcher()
    for number in range(7, 11):
        programs.get(wanted(number)).result(60)
    assert programs.known(wanted(6)) is None
    assert counts(programs)["schemac_cache_evictions_total"] == 4
    mask = allocate_bitmask(1, first.vocab_size)
    matcher.fill_bitmask(mask)
    assert np.count_nonzero(mask) > 0
    gone = weakref.ref(first)
    del first, matcher
    gc.collect()
    assert gone() is None


def test_the_scratch_folder_is_bounded(make: MakePrograms, tmp_path: Path) -> None:
    programs = make(keep=False, scratch_mib=0)
    for number in range(3):
        programs.get(wanted(20 + number)).result(60)
    assert len(list((tmp_path / "scratch").glob("??/*.pkg"))) == 0
    assert make().get(wanted(20)).result(60).program is not None  # compiled again


def test_an_engine_finds_what_admission_compiled(make: MakePrograms) -> None:
    verdict = make(keep=False).get(wanted(30)).result(60)
    assert verdict.program is None
    engine = make()
    assert engine.get(wanted(30)).result(60).min_tokens == verdict.min_tokens
    assert counts(engine)["schemac_requests_totalscratch"] == 1


def test_other_processes_need_not_load_the_vocabulary(
    make: MakePrograms, choice: dict[str, Any], tmp_path: Path
) -> None:
    make(keep=False).get(wanted(35)).result(60)
    dead = CompileWorkers(1, command=["/no/such/program"])
    engine = make(pool=dead)
    assert engine.get(wanted(35)).result(60).program is not None
    other = Programs(Settings(), {**choice, "size": 400}, tmp_path / "scratch", keep=True, workers=dead)
    assert isinstance(other.get(wanted(35)).exception(60), CompileError)


def test_many_threads_ask(make: MakePrograms) -> None:
    programs = make()
    answers: list[Any] = []

    def ask() -> None:
        for number in range(6):
            answers.append(programs.get(wanted(40 + number)).result(60).min_tokens)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 48
    assert counts(programs)["schemac_requests_totalcompile"] == 6


def test_a_tokenizer_that_cannot_be_loaded_refuses_every_request(tmp_path: Path, workers: CompileWorkers) -> None:
    programs = Programs(Settings(), {"tokenizer": "/no/such"}, tmp_path, keep=True, workers=workers)
    error = programs.get(wanted(1)).exception(60)
    assert isinstance(error, CompileError)
    assert error.kind == "VocabularyError"


@pytest.mark.parametrize(
    ("asked", "text", "kind", "source"),
    [
        ("JSON", '{"a": 1}', "json-schema", b'{"a": 1}'),
        ("JSON_OBJECT", "", "json-schema", b'{"type":"object"}'),
        ("REGEX", "a\n", "regex", b"a\n\r\n"),
        ("CHOICE", '["a"]', "choice", b'["a"]'),
        ("GRAMMAR", 'root ::= "a"', "gbnf", b'root ::= "a"'),
        ("GRAMMAR", 'start: "::="', "lark", b'start: "::="'),
        ("STRUCTURAL_TAG", "{}", "structural-tag", b"{}"),
    ],
)
def test_kinds_of_constraints(asked: str, text: str, kind: str, source: bytes) -> None:
    assert constraint(asked, text, {}) == Constraint(kind, source, {})


@pytest.mark.parametrize(
    ("data", "construct"),
    [
        ({"store": "a"}, "store"),
        ({"on_miss": "maybe"}, "on_miss"),
        ({"stores": [1]}, "stores"),
        ({"finish": "yes"}, "finish"),
        ({"workers": 0}, "workers"),
        ({"cache_mib": -1}, "cache_mib"),
        ({"limits": {"states": "many"}}, "limits"),
        ([], "schemac"),
    ],
)
def test_a_bad_setting_is_named(data: Any, construct: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.of(data)
    assert caught.value.construct == construct


def test_counters_of_processes_are_added(make: MakePrograms, tmp_path: Path) -> None:
    front, engine = make(keep=False), make()
    engine.metrics.write_to(tmp_path / "scratch" / "metrics-1.json")
    front.get(wanted(50)).result(60)
    engine.get(wanted(50)).result(60)
    engine.metrics.fills += 7
    engine.metrics.tick(now=True)
    total = Collector(front.metrics, tmp_path / "scratch").total()
    values = {(name, label): value for name, label, value in total["values"]}
    assert values["schemac_requests_total", "compile"] == 1
    assert values["schemac_requests_total", "scratch"] == 1
    assert values["schemac_fills_total", ""] == 7
    assert sum(total["compile"]) == 1
    assert merged([total])["values"] == total["values"]


def test_prometheus_gets_them_where_it_is_installed(make: MakePrograms) -> None:
    prometheus = pytest.importorskip("prometheus_client", reason="not run: needs prometheus_client")
    programs = make(keep=False)
    programs.get(wanted(60)).result(60)
    programs.get(Constraint("regex", b"(", OPTIONS)).exception(60)
    registry = prometheus.CollectorRegistry()
    registry.register(Collector(programs.metrics, None))
    text = prometheus.generate_latest(registry).decode()
    assert 'schemac_requests_total{source="compile"} 1.0' in text
    assert 'schemac_refusals_total{reason="SourceError"} 1.0' in text
    assert "schemac_compile_seconds_count 1.0" in text
