from __future__ import annotations

from tests.cli.conftest import schemac, vocabulary

__all__ = ["schemac", "vocabulary"]
