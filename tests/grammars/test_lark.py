"""Lark grammars beyond what Lark's Earley parser can be asked: imports of files, llguidance's additions, warnings."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from schemac.budget import Budget
from schemac.codegen.linker import link
from schemac.errors import LinkError, SourceError
from schemac.frontend import detect_kind
from schemac.sampling import sample_bytes
from schemac.vocabulary import Vocabulary
from tests.grammars.support import accepts, lark, warnings_of


def test_files_beside_the_grammar(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    words = '%import .letters.LETTER\nword: LETTER+ number?\nnumber: DIGIT\nDIGIT: "0".."3"\n'
    (tmp_path / "sub" / "words.lark").write_text(words)
    (tmp_path / "sub" / "letters.lark").write_text('LETTER: "a".."c"\n%ignore "never"\n')
    automaton = lark(
        """
        %import .sub.words (word, DIGIT)
        %import .sub.letters.LETTER -> L
        %import common.WS_INLINE
        %override DIGIT: "8".."9"
        %extend word: "[" word "]"
        %ignore WS_INLINE
        start: word L
        """,
        base_dir=tmp_path,
    )
    assert accepts(automaton, "abc9 a")
    assert accepts(automaton, "[ [ab]]c")
    assert not accepts(automaton, "abc1 a")
    assert not accepts(automaton, "9a")


def test_files_that_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.lark").write_text("%import .b.y\nx: y")
    (tmp_path / "b.lark").write_text("%import .a.x\ny: x")
    with pytest.raises(SourceError, match="import each other"):
        lark("%import .a.x\nstart: x", base_dir=tmp_path)


def test_errors_in_imported_files_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.lark").write_text('x: "a"\n | (')
    with pytest.raises(SourceError) as found:
        lark("%import .a.x\nstart: x", base_dir=tmp_path)
    assert found.value.place == f"{tmp_path / 'a.lark'}:2:5"


def test_the_whole_common_library() -> None:
    names = (
        "DIGIT HEXDIGIT INT SIGNED_INT DECIMAL FLOAT SIGNED_FLOAT NUMBER SIGNED_NUMBER ESCAPED_STRING LCASE_LETTER "
        "UCASE_LETTER LETTER WORD CNAME WS_INLINE WS CR LF NEWLINE SH_COMMENT CPP_COMMENT C_COMMENT SQL_COMMENT"
    ).split()
    found: list[str] = []
    automaton = lark(f"%import common ({', '.join(names)})\nstart: {' | '.join(names)}", found.append)
    for text in ("7", "f", "-1.5e+3", '"a\\"b"', "_a1", " \t", "\r\n", "# x", "// x", "/* * / */", "-- x"):
        assert accepts(automaton, text), text
    assert not accepts(automaton, '"a"b"')
    assert not accepts(automaton, "/* */ */")
    assert found == []


@pytest.mark.parametrize("mark", ['"a"{2,3}', '"a"~2..3', '"a" "a" "a"?', "/a{2,3}/", '("a"){2} ["a"]'])
def test_counts(mark: str) -> None:
    automaton = lark("start: " + mark)
    assert [n for n in range(6) if accepts(automaton, "a" * n)] == [2, 3]


def test_more_counts() -> None:
    assert [n for n in range(6) if accepts(lark('start: "a"{2,}'), "a" * n)] == [2, 3, 4, 5]
    assert [n for n in range(6) if accepts(lark('start: "a"{,2}'), "a" * n)] == [0, 1, 2]
    assert [n for n in range(6) if accepts(lark('start: "a"{2}'), "a" * n)] == [2]
    assert [n for n in range(6) if accepts(lark('start: A\nA: "a"{2,4} "b"~0'), "a" * n)] == [2, 3, 4]


def test_inline_json_schemas() -> None:
    automaton = lark(
        """
        start: call ("," call)*
        call: "f(" %json {
          "type": "object", "properties": {"a b": {"enum": ["}", 1]}}, "required": ["a b"],
          "additionalProperties": false
        } ")" | %json true
        %ignore " "
        """
    )
    assert accepts(automaton, 'f( {"a b": "}"} ) , [1, {"x": null}] ')
    assert not accepts(automaton, 'f({"a b": "{"})')


def test_places_in_inline_json_schemas() -> None:
    with pytest.raises(SourceError) as found:
        lark('start: "a"\n  | %json {"properties": {"a": {"type": "strin"}}}')
    assert found.value.place == "2:11/properties/a/type"


def test_special_tokens_are_linked() -> None:
    automaton = lark('start: <|a|> "x" <[2,2]> | "y" <b>')
    tokens = (b"x", None, None, b"y", None, None)
    special = {"<|a|>": 4, "<b>": 1, "<end>": 5}
    program = link(automaton, Vocabulary(tokens, special, stop_ids=(5,)), Budget())
    matcher = program.matcher()
    assert matcher.accept(4) and matcher.accept(0) and matcher.accept(2) and matcher.is_complete()
    with pytest.raises(LinkError, match="no special token '<b>'"):
        link(automaton, Vocabulary(tokens, {"<|a|>": 4, "<end>": 5}, stop_ids=(5,)), Budget())
    with pytest.raises(LinkError, match="token 3 is no special token"):
        link(lark("start: <[3]>"), Vocabulary(tokens, special, stop_ids=(5,)), Budget())
    with pytest.raises(LinkError, match="no token 9"):
        link(lark("start: <[9]>"), Vocabulary(tokens, special, stop_ids=(5,)), Budget())


# -- lazy, suffix, stop -----------------------------------------------------------------------------------------------


def test_lazy_rules_end_as_soon_as_they_can() -> None:
    automaton = lark('start: "<" name ">" rest\nname[lazy]: /[a-z]+/\nrest: /[a-z]+/')
    assert accepts(automaton, "<a>bc")
    assert not accepts(automaton, "<ab>c")
    automaton = lark('start: head "x"\nhead[lazy]: /(.|\\n)*/ "<end>"')
    assert accepts(automaton, "a\n<end<end>x")
    assert not accepts(automaton, "<end><end>x")


def test_suffix_and_stop() -> None:
    automaton = lark('start: a "!"\na[suffix="<end>"]: /.*/')
    assert accepts(automaton, "foo<end>!")
    assert not accepts(automaton, "foo<end><end>!")
    automaton = lark('start: a "<end>" "!"\na[stop="<end>", capture]: /.*/')
    assert accepts(automaton, "foo<end>!")
    assert not accepts(automaton, "foo<end><end>!")
    automaton = lark('start: a\na[suffix=END]: /[a-z<]*/\nEND: "</end>" | "<end>"')
    assert accepts(automaton, "x<</end>")
    assert not accepts(automaton, "x<end></end>")
    assert accepts(lark("start: a\na[suffix=/[0-9]+;/]: /.*/"), "ab12;")


TOOLS = r"""
    start: (foo | bar)* tail
    tail: TEXT
    foo_head[lazy]: TEXT "<function"
    foo: foo_head "=foo>" /[a-z]+/ "</function>"
    bar_head[lazy]: TEXT "<function"
    bar: bar_head "=bar>" /[0-9]+/ "</function>"
    TEXT: /(.|\n)*/
"""


@pytest.mark.parametrize("ignore", ["", "\n%ignore / +/"])
def test_a_lazy_rule_commits(ignore: str) -> None:
    """The way llguidance and xgrammar document for calls of tools: once the trigger is there, free text is over."""
    automaton = lark(TOOLS + ignore)
    for text in ("", "no call", "a <func b", "x<function=foo>abc</function> y <function=bar>12</function><functio"):
        assert accepts(automaton, text), text
    for text in ("<function", "x <function=baz>", "<function=foo>abc</function", "<function=foo>12</function>"):
        assert not accepts(automaton, text), text


def test_the_first_of_two_triggers_decides() -> None:
    automaton = lark(
        """
        start: (foo | bar)* TEXT
        foo: a "1"+ "</a>"
        a[lazy]: TEXT "<a>"
        bar[suffix="<b>"]: TEXT
        TEXT: /(.|\\n)*/
        """
    )
    assert accepts(automaton, "x<a>11</a>y<b>z")
    assert accepts(automaton, "<b><a>1</a><b>")
    assert not accepts(automaton, "x<a><b>")


def test_free_text_elsewhere_is_free() -> None:
    automaton = lark('start: (head "x")* "|" TEXT\nhead[lazy]: /[^|]*/ "<a>"\nTEXT: /.*/')
    assert accepts(automaton, "b<a>x|<a><a>")


# -- ignored texts ----------------------------------------------------------------------------------------------------


def test_what_follows_a_comment_begins_on_a_new_line() -> None:
    automaton = lark('start: "a"+ "b"?\n%ignore /#[^\\n]*/\n%ignore /[ \\n]+/')
    for text in ("#x\na # aab\n a#", "a#\nb", "#\n#a\na"):
        assert accepts(automaton, text), text
    for text in ("# a", "a # ab\n c", "a #\nbb"):
        assert not accepts(automaton, text), text
    assert accepts(lark('start: ("a" NL)+\nNL: "\\n"\n%ignore /#.*/'), "a#x\n#y\na\n".replace("#y\n", ""))


def test_nothing_is_ignored_within_terminals() -> None:
    automaton = lark('start: WORD word\nWORD: "a" "b"\nword: "c" "d"\n%ignore " "')
    assert accepts(automaton, " ab c  d ")
    assert not accepts(automaton, "a b c d")


def test_terminals_without_texts() -> None:
    found: list[str] = []
    automaton = lark('start: A | h | "b"\nA: /(?!)a/\nh[lazy]: /x+/ "y"\n%ignore " "', found.append)
    assert accepts(automaton, " b ") and accepts(automaton, "xxy") and not accepts(automaton, "a")
    assert found == ["2:1 `A`: no text matches this"]


def test_an_empty_text_may_be_ignored_around() -> None:
    automaton = lark('start: "a"?\n%ignore " "')
    assert accepts(automaton, "") and accepts(automaton, "   ") and accepts(automaton, " a ")


# -- warnings and strictness ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grammar", "expected"),
    [
        ('start.2: "a"', ["1:1 `start`: priorities do not matter: all readings count"]),
        ('start: "a"\nb: "x"\nC: "x"', ["2:1 `b`: this rule is never used", "3:1 `C`: this terminal is never used"]),
        ('start: "a" | b\nb: "x" b', ["2:1 `b`: no text satisfies this rule (it can only go on forever)"]),
        ("start: /a\\b/ /b/", ["1:8 `/a\\b/`: this asks what stands around the terminal, and only"]),
        ('start: A\nA: /b|c/ "d"', ["2:4 `/b|c/`: these alternatives end where the pattern does; in Lark they"]),
        ('%llguidance {"no_forcing": true}\nstart[temperature=0.5]: "a"',
         ['1:1 `{"no_forcing": true}`: options of another engine are not used',
          "2:1 `temperature`: this attribute constrains nothing"]),
        ('start: %json {"foo": 1}', ["1:14 `%json`: in this JSON Schema: # `foo`: no draft knows this keyword; it"]),
        ('start: A\nA: /(?!b)a/ /c(?=d)d/', []),
    ],
)  # fmt: skip
def test_warnings(grammar: str, expected: list[str]) -> None:
    found = warnings_of(lark, grammar)
    assert len(found) == len(expected)
    assert all(one.startswith(two) for one, two in zip(found, expected, strict=True)), found
    if expected:
        with pytest.raises(SourceError):
            lark(grammar, strict=True)
    else:
        lark(grammar, strict=True)


def test_collisions_of_terminals_are_reported_on_demand() -> None:
    grammar = 'start: NAME | KEY | "if" | NUMBER\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\nKEY: /[a-z][0-9]?/'
    assert warnings_of(lark, grammar) == []
    with pytest.raises(SourceError) as found:
        lark(grammar, strict=True)
    assert str(found.value).startswith("4:1 `KEY`: this collides with NAME (2:1): both match 'a'")
    lark(grammar.replace("/[a-z][0-9]?/", "/[A-Z][0-9]?/"), strict=True)


# -- detection --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (b'start: "a"', "lark"), (b'// x\n%import common.WS\n?start{x}: "a"', "lark"),
        (b'a: "b"\n!start[lazy]: a', "lark"), (b'root ::= "a"', "gbnf"), (b'{"type": "string"}', "json-schema"),
        (b'# start: x\nroot[capture] ::= "a"', "gbnf"),
        (b'["a: b"]', "choice"), (b'\xef\xbb\xbfstart: "a"', "lark"),
    ],
)  # fmt: skip
def test_grammars_are_told_apart(source: bytes, kind: str) -> None:
    assert detect_kind(source) == kind


def test_other_texts_are_not_guessed_at() -> None:
    for source in (b"[a-z]+"[1:], b"a\nb", b"restart: x", b"a:b"):
        with pytest.raises(SourceError, match="cannot tell"):
            detect_kind(source)


COMMITTED = {
    "tools": TOOLS,
    "shortest": 'start: "<" name ">" rest\nname[lazy]: /[a-z]+/\nrest: /[a-z]+/',
    "suffix": 'start: a "!"\na[suffix="<end>"]: /[a-z<>]*/',
    "overlapping": 'start: (a ",")* b\na[lazy]: /[a-c]+/ "x"\nb: /[a-cx]+/',
    "two triggers": (
        'start: (foo | bar)* TEXT\na[lazy]: TEXT "<a>"\nfoo: a "1"+ "</a>"\nb[lazy]: TEXT "<b>"\nbar: b "2" "</b>"\n'
        "TEXT: /(.|\\n)*/"
    ),
}


@pytest.mark.parametrize("name", COMMITTED)
def test_llguidance_commits_in_the_same_way(name: str) -> None:
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    source = llguidance.LLMatcher.grammar_from_lark(COMMITTED[name])
    automaton = lark(COMMITTED[name])
    generator = random.Random(name)
    texts = [text for seed in range(40) if len(text := sample_bytes(automaton, seed)) < 60]
    pieces = [b"<a>", b"<b>", b"</a>", b"1", b"x", b",", b"<function", b"=foo>", b"!", b"<end>"]
    for text in list(texts):
        at = generator.randint(0, len(text))
        texts += [text[:at] + generator.choice(pieces) + text[at:], text[:at] + text[at + 1 :]]
    for text in texts:
        if text.isascii():
            matcher = llguidance.LLMatcher(tokenizer, source, log_level=0)
            whole = matcher.try_consume_tokens(list(text)) == len(text) and matcher.is_accepting()
            assert accepts(automaton, text) == whole, text
