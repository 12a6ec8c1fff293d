from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from schemac.vocabulary import Vocabulary


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what the passes make now into golden/*.txt")


@pytest.fixture(scope="session")
def tekken() -> Vocabulary:
    """A real vocabulary of 131,072 ids."""
    pytest.importorskip("mistral_common", reason="not run: needs the mistral-common package")
    from schemac.vocabulary import load_vocabulary

    return load_vocabulary("tekken")
