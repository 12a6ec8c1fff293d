from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from schemac.cli import run

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": 1, "maximum": 50}, "tag": {"enum": ["a", "b"]}},
    "required": ["id"],
    "additionalProperties": False,
}


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Schemac = Callable[..., Outcome]


@pytest.fixture
def schemac(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Schemac:
    """Runs the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run(list(arguments))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return path.name


@pytest.fixture
def vocabulary(tmp_path: Path) -> str:
    """A small byte-level vocabulary as a tekken file: the 256 bytes and a few longer tokens."""
    import base64

    longer = [b"true", b"null", b'":', b'{"', b"id", b"12", b"tag", b", "]
    tokens = [bytes([value]) for value in range(256)] + longer
    path = tmp_path / "tekken.json"
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(tokens)
    ]
    config = {
        "pattern": ".",
        "num_vocab_tokens": len(tokens),
        "default_vocab_size": len(tokens) + 20,
        "default_num_special_tokens": 20,
        "version": "v3",
    }
    path.write_text(json.dumps({"config": config, "vocab": vocab}))
    return path.name
