"""Generated instances are accepted: schemas of our own and, where they are at hand, real ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.completeness import Report, instances
from benchmarks.walks import sampled_cases

pytest.importorskip("hypothesis_jsonschema", reason="not run: needs the hypothesis-jsonschema package")

MASKBENCH = Path(
    os.environ.get("SCHEMAC_MASKBENCH")
    or Path(__file__).resolve().parents[3] / "shared" / "data" / "maskbench" / "cases.jsonl.gz"
)


def test_generated_instances_are_repeatable() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    texts, reason = instances(schema, 5, 1, 30.0)
    assert texts
    assert reason == ""
    assert texts == instances(schema, 5, 1, 30.0)[0]
    texts, reason = instances({"$ref": "#/nowhere"}, 5, 1, 30.0)
    assert texts == []
    assert reason.endswith("RefResolutionError")


SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "string", "maxLength": 3}}},
    {"type": "array", "items": {"enum": [1, "a", None, {"k": [1.5]}]}, "minItems": 1, "maxItems": 4},
    {"type": "object", "patternProperties": {"^[ab]": {"type": "integer"}}, "additionalProperties": False},
    {"anyOf": [{"type": "integer", "multipleOf": 3}, {"type": "string", "format": "date"}]},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_generated_instances_are_accepted(schema: Any) -> None:
    report = Report()
    assert report.test("a", schema, 20, 1, 30.0, 30.0)
    assert report.rejected == report.by_format == []
    assert report.accepted > 0


def test_what_is_left_out_is_counted() -> None:
    report = Report()
    assert not report.test("refused", {"type": "string", "pattern": "(a)\\1"}, 5, 1, 30.0, 30.0)
    assert not report.test("invalid", {"enum": ["x"], "format": "date"}, 5, 1, 30.0, 30.0)
    assert report.schemas == 0
    assert [reason.partition(":")[0] for reason in report.left_out] == ["refused", "refused"]


@pytest.mark.data
@pytest.mark.slow
def test_instances_of_real_schemas_are_accepted() -> None:
    if not MASKBENCH.is_file():
        pytest.skip(f"the cases of MaskBench are not at {MASKBENCH}; set SCHEMAC_MASKBENCH to where they are")
    report = Report()
    for number, case in enumerate(sampled_cases(str(MASKBENCH), 25, 3)):
        report.test(case["id"], json.loads(json.dumps(case["schema"])), 5, number, 5.0, 30.0)
    assert report.rejected == []
    assert report.schemas >= 10
