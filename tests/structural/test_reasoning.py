"""Free text up to the first end marker, then the constraint."""

from __future__ import annotations

from pathlib import Path

import pytest

import schemac
from schemac import ReasoningPrefix
from schemac.cli import run
from schemac.errors import LinkError, SourceError
from schemac.vocabulary import Vocabulary
from tests.structural.test_masks import BYTES, compare

SCHEMA = {"enum": ["</think>", "x"]}


def accepts(reasoning: ReasoningPrefix | str | None, text: str) -> bool:
    return schemac.check(schemac.compile(SCHEMA, reasoning=reasoning).automaton, text.encode()).accepted


def test_the_first_marker_ends_it() -> None:
    for text in ('</think>"x"', 'a { </thin </think>"</think>"', 'é\n</</think>"x"'):
        assert accepts("</think>", text)
    for text in ('"x"', "</think>", 'a</think></think>"x"', 'a</think> "x"', 'a</think>"x" ', ' "</think>"'):
        assert not accepts("</think>", text)
    assert not accepts(None, '</think>"x"')


def test_markers_that_overlap_themselves() -> None:
    assert accepts("aa", 'baa"x"')
    assert not accepts("aa", 'aaa"x"')


def test_start_and_what_follows() -> None:
    prefix = ReasoningPrefix(start="<think>", after="\n\n")
    assert accepts(prefix, '<think>a<think></think>\n\n"x"')
    assert not accepts(prefix, 'a</think>\n\n"x"')
    assert not accepts(prefix, '<think></think>"x"')
    with pytest.raises(SourceError, match="empty"):
        ReasoningPrefix(end="")


def test_the_prompt_decides() -> None:
    prefix = ReasoningPrefix(start="<think>")
    assert prefix.following("user: hi\nassistant:") is prefix
    assert prefix.following("hi <think>") == ReasoningPrefix()
    assert prefix.following("hi <think>\n\n</think>\n\n") is None
    assert prefix.following("hi <think>a</think> b <think>") == ReasoningPrefix()
    assert ReasoningPrefix().following("hi </think>") is None


VOCABULARY = Vocabulary((*BYTES, b"</think>", None, None), {"<|end|>": 257, "</s>": 258}, (258,))
WITH_SPECIAL = Vocabulary((*BYTES, None, b"k>\"", None), {"</think>": 256, "</s>": 258}, (258,))


def validated(prefix: ReasoningPrefix, vocabulary: Vocabulary, tokens: list[int]) -> bool:
    program = schemac.link(schemac.compile(SCHEMA, reasoning=prefix), vocabulary).programs[0]
    return program.matcher().validate([*tokens, 258]) == len(tokens) + 1


def test_the_marker_as_text_and_as_a_token() -> None:
    spelled, special = [*b'a</think>"x"'], [*b"a", 256, *b'"x"']
    either, token, text = (ReasoningPrefix(as_token=value) for value in (None, True, False))
    assert validated(either, VOCABULARY, spelled)
    assert validated(either, VOCABULARY, special)  # an ordinary token here
    assert validated(either, WITH_SPECIAL, spelled)
    assert validated(either, WITH_SPECIAL, [*b"a</thin", 257, *b'x"'])
    assert validated(either, WITH_SPECIAL, special)
    assert validated(either, WITH_SPECIAL, [*b"a</thi", 256, *b'"x"'])
    assert validated(token, WITH_SPECIAL, special)
    assert validated(token, WITH_SPECIAL, [*b"a</think>", 256, *b'"</think>"'])  # which is text before the token
    assert not validated(token, WITH_SPECIAL, spelled)
    assert validated(text, WITH_SPECIAL, spelled)
    assert not validated(text, WITH_SPECIAL, special)
    assert not validated(either, WITH_SPECIAL, [*b"a", 256, *b'"', 256, *b'"'])  # no content of a string
    with pytest.raises(LinkError, match="no special token"):
        schemac.link(schemac.compile(SCHEMA, reasoning=token), VOCABULARY)


def test_every_mask_bit() -> None:
    from schemac.budget import Budget
    from schemac.frontend.json_schema import json_schema_module
    from schemac.frontend.reasoning import with_reasoning

    inner = json_schema_module({"type": "array", "items": SCHEMA})
    texts = ['so </thin</think>["</think>", "x"]', "</think>[]", 'é<think></</think>[\n"x"]']
    module = with_reasoning(inner, ReasoningPrefix(), Budget())
    compare(module, texts, (), 1)
    assert compare(module, texts, ("<think>", "</think>"), 2) > 0


def test_its_size_is_constant() -> None:
    plain, prefixed = schemac.compile(True), schemac.compile(True, reasoning="</think>")
    assert prefixed.automaton.states - plain.automaton.states < 30


def test_a_marker_that_ends_the_text_is_no_part_of_it() -> None:
    stop = Vocabulary((*BYTES, None), {"</think>": 256}, (256,))
    program = schemac.link(schemac.compile(SCHEMA, reasoning="</think>"), stop).programs[0]
    assert program.matcher().validate([256]) == 0
    assert program.matcher().validate([*b'a</think>"x"', 256]) == 13


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, package, text = tmp_path / "a.json", tmp_path / "a.pkg", tmp_path / "text"
    source.write_text('{"const": 1}')
    assert run(["compile", str(source), "-o", str(package), "--reasoning-end", "</think>"]) == 0
    text.write_text("hm</think>1")
    assert run(["check", str(package), str(text)]) == 0
    text.write_text("1")
    assert run(["check", str(package), str(text)]) == 1
    capsys.readouterr()
    assert run(["compile", str(source), "--emit", "ir", "--reasoning-end", "</think>"]) == 0
    assert capsys.readouterr().out.startswith('procedure 0 "reasoning"')
