"""A real vLLM engine on the CPU behind the OpenAI-compatible server, with random weights: `make test-vllm`."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("not run: needs vLLM, which `make test-vllm` sets up", allow_module_level=True)

from tests.vllm.model import THINK_END, make_model, token_id
from tests.vllm.server import Server, serving
from tests.vllm.traffic import SCHEMAS, cases, is_valid, send

pytestmark = pytest.mark.slow
#: Answers must end; a busy machine may take long to compile.
SETTINGS = {"finish": True, "compile_seconds": 120}
#: What a server may grow by from one batch to the next, in bytes: allocators keep pages.
GROWTH = 48 << 20


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "ngram"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    model = make_model(folder / "model")
    with serving(model, folder / "log.txt", speculative=request.param, settings=SETTINGS) as running:
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


@pytest.fixture(scope="module")
def thinking_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("thinking")
    model = make_model(folder / "model")
    more = ("--reasoning-parser", "deepseek_r1")
    with serving(model, folder / "log.txt", settings=SETTINGS, more=more) as running:
        yield running


def test_thinking_comes_first_and_is_free(thinking_server: Server) -> None:
    """The end of thinking is made likely, so that it comes after a few tokens, or as the first one."""
    import openai

    end = str(token_id(THINK_END))
    schema = SCHEMAS[0]
    client = openai.OpenAI(base_url=thinking_server.url, api_key="none", timeout=180, max_retries=0)
    thought = 0
    for seed in range(12):
        answer = client.chat.completions.create(
            model="test", messages=[{"role": "user", "content": "a b a b a b"}], max_tokens=150, seed=seed,
            logit_bias={end: 100.0 if seed % 3 == 0 else 11.0},
            response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
        )  # fmt: skip
        choice = answer.choices[0]
        reasoning = getattr(choice.message, "reasoning", None) or ""
        thought += bool(reasoning)
        if choice.finish_reason == "length":  # it never stopped thinking
            assert not choice.message.content
        else:
            assert is_valid(choice.message.content or "", schema), (reasoning, choice.message.content)
    assert thought > 0
    for sign in (" ERROR ", "Traceback", "Unexpected: grammar"):
        assert sign not in thinking_server.log_text()
