"""The harness of the official suite, on a suite of our own and, where it is at hand, on a part of the real one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.suite import Conditions, main, run_draft

SUITE = Path(
    os.environ.get("SCHEMAC_SUITE")
    or Path(__file__).resolve().parents[3] / "shared" / "data" / "json-schema-test-suite"
)


def group(description: str, schema: Any, *tests: tuple[Any, bool]) -> dict[str, Any]:
    cases = [{"description": f"test {n}", "data": data, "valid": valid} for n, (data, valid) in enumerate(tests)]
    return {"description": description, "schema": schema, "tests": cases}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    files = {
        "tests/draft7/a.json": [
            group(
                "order",
                {"properties": {"b": {"type": "integer"}, "a": {}}},
                ({"a": 1, "b": 2.0}, True),
                ({"b": 1.5}, False),
            ),
            group("mistaken", {"type": "integer"}, ("a", True), (1, False)),
            group("nothing", False, (1, False), (2, True)),
            group("remote", {"$ref": "http://localhost:1234/inner/x.json"}, (1, True), ("a", False)),
        ],
        "tests/draft7/optional/b.json": [
            group("refused", {"$ref": "elsewhere.json"}, (1, True), (2, True)),
            group("backreference", {"pattern": "(a)\\1"}, ("aa", True)),
        ],
        "tests/draft4/c.json": [group("own digits", {"type": "integer"}, (1, True), (1.0, False))],
        "remotes/inner/x.json": {"type": "integer"},
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return tmp_path


def test_each_test_counts_once(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = CliRunner().invoke(main, ["--data", str(suite), "--json", str(out)])
    assert result.exit_code == 1, result.output
    drafts = json.loads(out.read_text())["drafts"]
    assert list(drafts) == ["draft4", "draft7"]
    counts = {
        key: drafts["draft7"][key] for key in ("tests", "right", "under_accept", "over_accept", "refused", "crash")
    }
    assert counts == {"tests": 11, "right": 5, "under_accept": 2, "over_accept": 1, "refused": 3, "crash": 0}
    assert drafts["draft7"]["reasons"] == {"SourceError $ref": 2, "UnsupportedError \\1": 1}
    assert drafts["draft7"]["empty"] == 2
    assert drafts["draft7"]["files"]["optional/b.json"]["refused"] == 3
    assert (drafts["draft4"]["tests"], drafts["draft4"]["right"]) == (2, 2)
    assert "over_accept: a.json: mistaken / test 1: 1" in result.output


def test_drafts_can_be_chosen(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = CliRunner().invoke(main, ["--data", str(suite), "--draft", "draft4", "--json", str(out)])
    assert result.exit_code == 0
    assert list(json.loads(out.read_text())["drafts"]) == ["draft4"]
    assert CliRunner().invoke(main, ["--data", str(suite), "--draft", "draft6"]).exit_code == 2


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("draft", ["draft4", "draft2020-12"])
def test_nothing_invalid_is_accepted(draft: str) -> None:
    from benchmarks.suite import load_remotes

    if not SUITE.is_dir():
        pytest.skip(f"the official suite is not at {SUITE}; set SCHEMAC_SUITE to where it is")
    entry = run_draft(SUITE, draft, load_remotes(SUITE), Conditions())
    assert [failure for failure in entry["failures"] if failure["outcome"] in ("over_accept", "crash")] == []
    assert entry["right"] >= 0.94 * entry["tests"]
