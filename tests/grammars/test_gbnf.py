"""GBNF and xgrammar's EBNF: what texts a grammar accepts, and xgrammar as the oracle where it is installed."""

from __future__ import annotations

import random

import pytest

from schemac.ir.automaton import Automaton
from schemac.sampling import sample_bytes
from tests.grammars.support import accepts, gbnf, warnings_of

#: (grammar, accepted, not accepted); the first few are those of the documentation of llama.cpp and xgrammar.
GRAMMARS: dict[str, tuple[str, list[str], list[str]]] = {
    "chess": (
        r"""
# `root` specifies the pattern for the overall output
root ::= (
    # it must start with the characters "1. " followed by a sequence
    "1. " move " " move "\n"

    # numbered with one or two digits
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
""",
        ["1. e4 e5\n2. Nf3 Nc6\n", "1. e4 O-O+\n12. exd8=Q# Nbd7\n"],
        ["1. e4 e5\n", "1. e4 e5\n2. Nf3\n", "1. e9 e5\n2. a1 a2\n"],
    ),
    "list": (
        '# a grammar for lists\nroot ::= ("- " item)+\nitem ::= [^\\n]+ "\\n"\n',
        ["- a\n", "- x y\n- é\n"], ["- \n", "- a", "a\n"],
    ),
    "name and age": (
        r"""
char ::= [^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})
item ::= "{" space item-name-kv "," space item-age-kv "}" space
item-age ::= ([0-9] | ([1-8] [0-9] | [9] [0-9]) | "1" ([0-4] [0-9] | [5] "0")) space
item-age-kv ::= "\"age\"" space ":" space item-age
item-name ::= "\"" char{1,100} "\"" space
item-name-kv ::= "\"name\"" space ":" space item-name
root ::= "[" space item ("," space item){1,3} "]" space
space ::= | " " | "\n" [ \t]{0,20}
""",
        ['[{"name": "a", "age": 7},{"name":"\\u00e9","age":150}]'],
        ['[{"name": "a", "age": 7}]', '[{"name": "", "age": 7},{"name": "b", "age": 1}]'],
    ),
    "JSON": (
        r"""
root ::= basic_array | basic_object
basic_any ::= basic_number | basic_string | basic_boolean | basic_null | basic_array | basic_object
basic_number ::= ("0" | "-"? [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
basic_string ::= (([\"] basic_string_1 [\"]))
basic_string_1 ::= "" | [^"\\\x00-\x1F] basic_string_1 | "\\" escape basic_string_1
escape ::= ["\\/bfnrt] | "u" [A-Fa-f0-9] [A-Fa-f0-9] [A-Fa-f0-9] [A-Fa-f0-9]
basic_boolean ::= "true" | "false"
basic_null ::= "null"
basic_array ::= "[" ("" | ws basic_any (ws "," ws basic_any)*) ws "]"
basic_object ::= "{" ("" | ws basic_string ws ":" ws basic_any ( ws "," ws basic_string ws ":" ws basic_any)*) ws "}"
ws ::= [ \n\t]*
""",
        ['{"a": [1, -2.5e+3, "x\\n\\u00e9", null]}', "[]", "[ [ ] ]"], ["1", "[1,]", '["\n"]', "{a:1}"],
    ),
    "arithmetic": (
        'root ::= expr ("=" expr)*\nexpr ::= term ([-+*/] term)*\nterm ::= num | "(" expr ")"\nnum  ::= [0-9]+',
        ["1+2", "(3*4)-5=7", "2=2=2"], ["1+", "()", "=1"],
    ),
    "left recursion": ('root ::= root "a" | "a" | root root "b"', ["a", "aab", "aaa"], ["", "b", "ab"]),
    "alternatives over lines": (
        'root ::= "a" |\n         "b" |\n  "c" other\nother ::= "d"\n  "e"\n', ["a", "b", "cde"], ["c", "cd", "ab"],
    ),
    "counts": (
        'root ::= a{2} b{1,} c{0,2} d{2,3}\na ::= "a"\nb ::= [b]\nc ::= "c" "c"\nd ::= ("d" | "e" ){1}',
        ["aabde", "aabbbccccded"], ["abde", "aade", "aabd", "aabcde"],
    ),
    "escapes": (
        r'root ::= "\x41\u00e9\U0001F600\"\\\n\t\r" [\x30-\x39\]\[\-^] [^\u0000-\u007f] "\/\b\e\0"',
        ["Aé😀\"\\\n\t\r5ß/\b\x1b\0", "Aé😀\"\\\n\t\r]ß/\b\x1b\0"], ["Aé😀\"\\\n\t\rxß/\b\x1b\0"],
    ),
    "classes": (
        'root ::= [a-c_] [^] [-+] [+-] [^a\\n-] "é" [é-ü]',
        ["a\n-+béü", "_x+-^éé"], ["d\n-+béü", "ax-+aéü", "ax-+-éü"],
    ),
    "nullable": ('root ::= a b a\na ::= "x"* | b\nb ::= | "y" root', ["", "xyx", "yyy", "xx"], ["z"]),
    "empty groups": ('root ::= () "a" ( ) | ("" | "b"){2,3} "c"', ["a", "c", "bbc", "bbbc"], ["", "b", "bbbbc"]),
    "names": ('root ::= a-b a_b A.b x1\na-b ::= "1"\na_b ::= "2"\nA.b ::= "3"\nx1 ::= "4"', ["1234"], ["123"]),
    "comments": ('# one\nroot ::= "a" # two\n  # three\n  "#b" [#]\n# four', ["a#b#"], ["a"]),
    "mutual recursion": (
        'root ::= "x" one | "y"\none ::= "z" root | two "w"\ntwo ::= "(" root ")" | one "v"',
        ["y", "xzy", "x(y)w", "x(xzy)wvw"], ["x", "xz", "x(y)v"],
    ),
}  # fmt: skip


#: xgrammar knows no empty alternatives, reads ``\\x`` with any number of digits and ``[^]`` in its own way.
LLAMA_ONLY = ("name and age", "nullable", "escapes", "classes")


@pytest.fixture(scope="module")
def compiled() -> dict[str, Automaton]:
    return {name: gbnf(text) for name, (text, _, _) in GRAMMARS.items()}


@pytest.mark.parametrize("name", GRAMMARS)
def test_texts(name: str, compiled: dict[str, Automaton]) -> None:
    _, good, bad = GRAMMARS[name]
    for text in good:
        assert accepts(compiled[name], text), text
    for text in bad:
        assert not accepts(compiled[name], text), text


@pytest.mark.parametrize("name", [name for name in GRAMMARS if name not in LLAMA_ONLY])
def test_xgrammar_agrees(name: str, compiled: dict[str, Automaton]) -> None:
    pytest.importorskip("xgrammar")
    from xgrammar import Grammar
    from xgrammar.testing import _is_grammar_accept_string

    text, good, bad = GRAMMARS[name]
    grammar = Grammar.from_ebnf(text)
    generator = random.Random(name)
    texts = good + bad + [sample_bytes(compiled[name], seed).decode() for seed in range(30)]
    texts = [found for found in texts if len(found) < 60]
    letters = sorted(set("".join(texts)))
    for found in list(texts):
        at = generator.randint(0, len(found))
        texts += [found[:at] + generator.choice(letters) + found[at:], found[:at] + found[at + 1 :]]
    for found in texts:
        assert accepts(compiled[name], found) == _is_grammar_accept_string(grammar, found), found


def test_any_character() -> None:
    automaton = gbnf('root ::= "<" .* ">" a. \na ::= "."')
    for text in ("<>.x", "<\n>.é", "<a>>.."):
        assert accepts(automaton, text), text
    assert not accepts(automaton, "<>.")


def test_another_root() -> None:
    assert accepts(gbnf('a ::= "x" b\nb ::= "y"', root="b"), "y")


def test_large_parts_are_repeated_by_calls() -> None:
    automaton = gbnf('root ::= "[" item{0,200} "]"\nitem ::= "{" ("abc" | "def") "," [0-9]{1,9} "}"')
    assert automaton.states < 500
    assert accepts(automaton, "[" + "{abc,123456}{def,7}" * 100 + "]")
    assert not accepts(automaton, "[" + "{abc,1}" * 201 + "]")


def test_long_runs_of_characters() -> None:
    automaton = gbnf('root ::= "\\"" [^"\\\\]{0,5000} "\\""')
    assert accepts(automaton, '"' + "é" * 5000 + '"')
    assert not accepts(automaton, '"' + "é" * 5001 + '"')


def test_macros_of_xgrammar() -> None:
    automaton = gbnf(r'root ::= "ID-" Regex("[0-9]{5}|x\\d", flags="i") Substring("abc", "de", "fg")')
    for text in ("ID-12345", "ID-X7abcde", "ID-00000defg"):
        assert accepts(automaton, text), text
    assert not accepts(automaton, "ID-12345ab")
    # A rule of that name is a rule.
    assert accepts(gbnf('Regex ::= "r"\nroot ::= Regex("x")'), "rx")


def test_special_tokens() -> None:
    automaton = gbnf('root ::= <think> [a-z]* </think> <[5-6, 9]> Token(12)')
    assert automaton.labels == ("</think>", "<[12]>", "<[5]>", "<[6]>", "<[9]>", "<think>")


def test_warnings_name_their_place() -> None:
    assert warnings_of(gbnf, 'root ::= "a"\nb ::= c\nc ::= b') == [
        "2:1 `b`: this rule is never used",
        "3:1 `c`: this rule is never used",
    ]
    assert warnings_of(gbnf, 'root ::= "a" | b\nb ::= "x" b') == [
        "2:1 `b`: no text satisfies this rule (it can only go on forever)"
    ]
    assert warnings_of(gbnf, 'root[capture="x", temperature=0.5] ::= "\\x41B"') == [
        "1:5 `capture`: this option constrains nothing",
        "1:5 `temperature`: this option constrains nothing",
        r"1:41 `\x41`: two digits are read; xgrammar would read more (write \uHHHH)",
    ]
