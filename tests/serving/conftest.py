from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import schemac
from schemac_runtime.serving.programs import Programs
from schemac_runtime.serving.settings import Settings
from schemac_runtime.serving.worker import CompileWorkers
from tests.cli.conftest import vocabulary

__all__ = ["vocabulary"]

MakePrograms = Callable[..., Programs]


@pytest.fixture
def choice(vocabulary: str, tmp_path: Path) -> dict[str, Any]:
    """How a worker is told which vocabulary to load."""
    return {"tokenizer": str(tmp_path / vocabulary)}


@pytest.fixture
def loaded(choice: dict[str, Any]) -> schemac.Vocabulary:
    return schemac.load_vocabulary(choice["tokenizer"])


@pytest.fixture(scope="module")
def workers() -> Iterator[CompileWorkers]:
    """One real worker process for all tests of a module: starting one takes a second."""
    pool = CompileWorkers(1)
    yield pool
    pool.close()


@pytest.fixture
def make(choice: dict[str, Any], tmp_path: Path, workers: CompileWorkers) -> MakePrograms:
    def made(*, keep: bool = True, pool: CompileWorkers | None = None, **settings: Any) -> Programs:
        return Programs(Settings.of(settings), choice, tmp_path / "scratch", keep=keep, workers=pool or workers)

    return made


def schema_of(number: int) -> bytes:
    return json.dumps({"type": "object", "properties": {f"key{number}": {"type": "integer"}}}).encode()
