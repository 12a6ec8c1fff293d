from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.engines import message_head
from benchmarks.maskbench import main
from benchmarks.outcome import CaseResult, Instance, Verdict, first_mask_ms, percentiles, summarize

pytest.importorskip("mistral_common", reason="the harness encodes with mistral-common: install the tekken extra")

FAKE = "tests.benchmarks.fakes:FakeEngine"
ABSENT = "tests.benchmarks.fakes:NeverSetUp"

CASES: list[tuple[str, dict[str, Any], list[tuple[bool, Any]]]] = [
    ("pass", {"maxLength": 5}, [(True, 12345), (False, 123456)]),
    ("no instances", {}, []),
    ("compile_error", {"title": "refuse"}, [(True, 1)]),
    ("crash raised", {"title": "raise"}, [(True, 1)]),
    ("crash died", {"title": "die"}, [(True, 1)]),
    ("under_accept", {"maxLength": 5}, [(True, 1), (True, 123456)]),
    ("under_accept end", {"title": "endless"}, [(True, 1)]),
    ("over_accept", {"maxLength": 5}, [(True, 123456), (False, 1)]),
    ("crash later", {"title": "die later"}, [(True, 1)]),
    ("timeout", {"title": "hang"}, [(True, 1)]),
    ("crash disagree", {"title": "disagree"}, [(True, 1)]),
    ("pass again", {}, [(True, "Zo\u00eb")]),
]
EXPECTED = {
    "pass": 3,
    "compile_error": 1,
    "timeout": 1,
    "crash": 4,
    "under_accept": 2,
    "over_accept": 1,
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "cases.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for name, schema, tests in CASES:
            case = {"id": name, "schema": schema, "tests": [{"valid": v, "data": d} for v, d in tests]}
            file.write(json.dumps(case) + "\n")
    return path


def test_each_misfortune_costs_one_case_of_one_engine(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    assert main(["--data", str(data), "--engines", f"{FAKE},{ABSENT}", "--timeout", "3", "--json", str(out)]) == 0
    report = json.loads(out.read_text())
    entry = report["engines"][FAKE]
    assert entry["cases"] == len(CASES)
    assert {key: entry[key] for key in EXPECTED} == EXPECTED
    assert entry["reasons"] == {"as told": 1}
    assert entry["first_mask_ms"]["p100"] == 3000.0
    assert entry["per_token_us"]["p50"] > 0
    verdicts = {failure["id"]: failure["verdict"] for failure in report["failures"] if failure["engine"] == FAKE}
    assert all(name.startswith(verdict) for name, verdict in verdicts.items())
    assert report["engines"][ABSENT]["crash"] == len(CASES)
    assert report["common"]["cases"] == 0


def test_a_sample_is_drawn_by_its_seed(data: Path, tmp_path: Path) -> None:
    from benchmarks.maskbench import _sample

    assert len(_sample(data, None, 1)) == len(CASES)
    drawn = _sample(data, 4, 1)
    assert len(drawn) == 4
    assert drawn == _sample(data, 4, 1)
    assert drawn != _sample(data, 4, 2)


def test_unknown_engines_are_wrong_usage(data: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--data", str(data), "--engines", "schemac,nobody"])
    assert caught.value.code == 2


def test_a_case_counts_once_by_its_worst_instance() -> None:
    result = CaseResult("a", "e", first_mask_ns=2_000_000)
    for verdict in (Verdict.PASS, Verdict.OVER_ACCEPT, Verdict.UNDER_ACCEPT):
        result.add(Instance(verdict, verdict.key, np.array([1000], dtype=np.int64)))
    result.conclude(Verdict.CRASH, "died")
    summary = summarize([result], 60.0)
    assert (summary["cases"], summary["over_accept"], summary["crash"]) == (1, 1, 0)
    assert (result.reason, result.where) == ("over_accept", 1)
    assert summary["first_mask_ms"]["p50"] == 2.0
    assert summary["per_token_us"]["p50"] == 1.0


def test_time_outs_before_the_first_mask_count_with_the_limit() -> None:
    slow = CaseResult("a", "e")
    slow.conclude(Verdict.TIMEOUT, "compile")
    refused = CaseResult("b", "e")
    refused.conclude(Verdict.COMPILE_ERROR, "no")
    assert first_mask_ms([slow, refused], 60.0) == [60_000.0]


def test_percentiles_without_values() -> None:
    assert percentiles([]) == {}
    assert percentiles([1.0, 2.0, 3.0])["p50"] == 2.0


def test_message_heads_take_numbers_out() -> None:
    assert message_head("\n  line 12: bad\nmore") == "line N bad"
    assert message_head("") == "no message"
