"""A real vLLM engine on the CPU behind the OpenAI-compatible server, with random weights: `make test-vllm`."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("not run: needs vLLM, which `make test-vllm` sets up", allow_module_level=True)

from tests.vllm.model import make_model
from tests.vllm.server import Server, serving
from tests.vllm.traffic import cases, send

pytestmark = pytest.mark.slow
#: What a server may grow by from one batch to the next, in bytes: allocators keep pages.
GROWTH = 48 << 20


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "ngram"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    model = make_model(folder / "model")
    settings = {"finish": True}
    with serving(model, folder / "log.txt", speculative=request.param, settings=settings) as running:
        yield running


def test_a_hundred_requests_of_every_kind(server: Server) -> None:
    listed = cases(100, seed=1)
    report = asyncio.run(send(server.url, listed))
    assert report.problems == []
    assert report.refused == sum(case.refused is not None for case in listed) > 5
    assert report.cancelled > 5
    assert report.finished > 80
    assert report.cut == 0, "all answers fit the limit"
    log = server.log_text()
    assert "schemac" in server.get("/metrics")
    for sign in (" ERROR ", "Traceback", "Unexpected: grammar"):
        assert sign not in log, [line for line in log.splitlines() if sign in line][:5]


def test_memory_stays_flat(server: Server) -> None:
    asyncio.run(send(server.url, cases(60, seed=2)))
    before = server.resident_bytes()
    for seed in (3, 4):
        report = asyncio.run(send(server.url, cases(60, seed=seed)))
        assert report.problems == []
    assert server.resident_bytes() - before < GROWTH


def test_metrics_count_what_happened(server: Server) -> None:
    import time

    time.sleep(2.5)  # the engine writes its counters every two seconds
    asyncio.run(send(server.url, cases(4, seed=5)))
    lines = dict(line.rsplit(" ", 1) for line in server.get("/metrics").splitlines() if line.startswith("schemac"))
    assert float(lines["schemac_fills_total"]) > 100
    assert float(lines["schemac_compile_seconds_count"]) > 5
    assert any(name.startswith("schemac_refusals_total{") for name in lines)
    assert float(lines["schemac_configurations_total"]) >= float(lines["schemac_fills_total"]) * 0.9
