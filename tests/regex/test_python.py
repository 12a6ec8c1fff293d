"""The dialect of Python's `re`, which is its own oracle here: classes, escapes, and lazy quantifiers."""

from __future__ import annotations

import itertools
import random
import re
import time
import unicodedata
import warnings

import pytest

from schemac.errors import SchemacError, SourceError, UnsupportedError
from schemac.frontend.regex import lower, parse
from schemac.frontend.regex.lazy import without_lazy
from schemac.ir.dfa import Dfa


def language(pattern: str, flags: str = "") -> Dfa:
    return lower(without_lazy(parse(pattern, dialect="python", flags=flags)), search=False)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d", r"\D", r"\s", r"\S", r".", r"[^\n]", r"[\w.-]", r"[]a]", r"[^]a]", r"[[a]", r"[a&&b]",
        r"[a~~b]", r"[\b]", r"[\]\[]", r"\<", r"\/", r"\"", r"\-", r"\a\f\n\r\t\v"[:2], r"[ -~]", r"[[:alpha:]",
        r"\x41", r"\u0041", r"\U00000041", r"[\x00-\x1f]", r"\0", r"[+\-*]", r"[a-]", r"[-a]", r"{", r"}", r"]",
    ],
)  # fmt: skip
def test_classes_and_escapes_are_those_of_python(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of sets in sets
        dfa, compiled = language(pattern), re.compile(pattern)
    codes = [*range(0x3000), *range(0xFE00, 0x10500, 3), *range(0x1D400, 0x1D900, 7)]
    for code in codes:
        if unicodedata.category(chr(code)) not in ("Cs", "Cn"):  # Python may know an older version of Unicode
            assert dfa.accepts([code]) == (compiled.fullmatch(chr(code)) is not None), hex(code)


def test_word_characters_are_those_of_python() -> None:
    """As far as both know the same version of Unicode: letters and numbers that Python has are in."""
    word = language(r"\w")
    for code in range(0x11000):
        if not 0xD800 <= code <= 0xDFFF and re.fullmatch(r"\w", chr(code)):
            assert word.accepts([code]), hex(code)
    assert not word.accepts("̀") and not word.accepts("‿")


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        (r"a{,2}b", "ab"), (r"(?i)ab", "aAbB"), (r"a(?#no)b", "ab"), (r"(?x) a b # c", "ab "), (r"(?x)[ a]b", "ab "),
        (r"(?s).", "a\n"), (r"(?m)^a$", "a\n"), (r"a\Z", "a\n"), (r"\Aa", "ab"), (r"(?P<n>a)b", "ab"),
        (r"\bab\b", "ab "), (r"(?!ab)[ab]+", "ab"), (r"[ab]+(?<!a)", "ab"),
    ],
)  # fmt: skip
def test_syntax_is_that_of_python(pattern: str, letters: str) -> None:
    dfa = language(pattern)
    for length in range(6):
        for word in map("".join, itertools.product(letters, repeat=length)):
            assert dfa.accepts(word) == (re.fullmatch(pattern, word) is not None), word


LAZY = [
    r'".*?"', r'".*?"a*', r"a+?b*", r"a*?", r"a+?", r"a??b", r"a{1,3}?b?", r"(a|b)*?bb", r"(ab|a)+?b", r"(a+?b)*",
    r"(a*?b)+a", r"a.*?b.*?a", r"(?:a|ba*?)b", r'"(?:.*?)(?<!\\)(\\\\)*?"', r"/(?!/)(\\/|\\\\|[^/])*?/[ab]*",
    r"(?:a.*?b)?a", r"b*(a|b)*?a(?!b)", r"((a??b)*?a)b?",
    r"(a|ab)(c|bc)*?c", r"(a|ab|b)*c*?b", r"a*ab*?c", r"(ab?)?b*?c", r"(?:a|(?:ab)+)+?c",
]  # fmt: skip


@pytest.mark.parametrize("pattern", LAZY)
def test_lazy_texts_are_those_that_python_matches_as_a_whole(pattern: str) -> None:
    dfa, compiled = language(pattern), re.compile(pattern)
    letters = 'a"\\' if '"' in pattern else "a/\\" if "/" in pattern else "abc"
    for length in range(8):
        for word in map("".join, itertools.product(letters, repeat=length)):
            found = compiled.match(word)
            assert dfa.accepts(word) == (found is not None and found.end() == length), word


def test_random_lazy_patterns() -> None:
    pieces = ["a", "b", "[ab]", ".*?", "a+?", "b*?", "[ab]*?", "(?:ab)*?", "a??", "(?:a|b)+?", "c", "a*", "(?:ab)?"]
    pieces += ["(?:a|ab)", "(?:ab?|b)+", "(?:a*?b)*"]
    generator = random.Random(1)
    words = ["".join(word) for n in range(7) for word in itertools.product("abc", repeat=n)]
    for _ in range(60):
        pattern = "".join(generator.choices(pieces, k=generator.randint(1, 5)))
        if without_lazy(tree := parse(pattern, dialect="python")) is tree:
            continue
        dfa, compiled = language(pattern), re.compile(pattern)
        for word in words:
            found = compiled.match(word)
            assert dfa.accepts(word) == (found is not None and found.end() == len(word)), (pattern, word)


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        (r"(a)\1", UnsupportedError), (r"(?P=n)", UnsupportedError), (r"(?>a)", UnsupportedError),
        (r"(a*?b){3}", UnsupportedError), (r"\q", SourceError), (r"(?#a", SourceError), (r"\012", SourceError),
        (r"(?U)a", SourceError), (r"*", SourceError),
    ],
)  # fmt: skip
def test_what_is_refused(pattern: str, kind: type[SchemacError]) -> None:
    with pytest.raises(kind):
        language(pattern)


def test_deep_and_long_lazy_patterns() -> None:
    started = time.perf_counter()
    assert language("(?:" * 2_000 + "a*?b" + ")" * 2_000).accepts("aab")
    assert language("a*?b" * 60).accepts("b" * 60)
    assert time.perf_counter() - started < 5
