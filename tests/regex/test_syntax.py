"""What each dialect reads, and what it refuses with which words."""

from __future__ import annotations

import pytest

from schemac.errors import SchemacError, SourceError, UnsupportedError
from schemac.frontend.regex import regex_language

#: (dialect, pattern, flags, texts that match as a whole, texts that do not)
READ = [
    # characters and escapes
    ("both", r"a\.b", "", ["a.b"], ["axb"]),
    ("both", r"\x41\u0042\u{43}\u{1F600}", "", ["ABC\U0001f600"], ["ABC"]),
    ("both", r"\uD83D\uDE00", "", ["\U0001f600"], []),
    ("both", r"\t\n\v\f\r\0", "", ["\t\n\v\f\r\0"], []),
    ("both", r"\/\-\@\_\ \"\%\é", "", ['/-@_ "%é'], []),
    ("ecma", r"\cJ\cj", "", ["\n\n"], []),
    ("rust", r"\x{e9}\U000000e9\a", "", ["éé\a"], []),
    ("rust", r"\Qa.b*\E+", "", ["a.b*", "a.b**"], ["axb"]),
    ("both", "é+\U0001f600?", "", ["é", "éé\U0001f600"], ["e"]),
    # classes
    ("both", r"[a-c\d.\-]+", "", ["a1.-", "c"], ["d", ""]),
    ("both", r"[^a-c]", "", ["d", "\n", "é", "\U0001f600"], ["a", ""]),
    ("both", r"[a-]+[-a]+", "", ["a-a-"], ["b"]),
    ("both", r"[\w-.]+", "", ["a-.", "_"], ["!"]),
    ("both", r"[a-\d]+", "", ["a-1"], ["b"]),
    ("both", r"[+\--9]+", "", ["+-./09"], [",", "a"]),
    ("both", "[^]a]" if False else r"[^\]a]", "", ["b"], ["]", "a"]),
    ("ecma", "[]", "", [], ["", "a"]),
    ("ecma", "[^]", "", ["a", "\n"], [""]),
    ("ecma", r"[\b]", "", ["\b"], ["b"]),
    ("ecma", "[a[b]+", "", ["a[b"], ["c"]),
    ("ecma", "[a&&b]+", "", ["a&b"], ["c"]),
    ("ecma", r"[\uD800-\uDFFFa]", "", ["a"], ["b"]),
    ("rust", "[]a]+", "", ["]a"], ["b"]),
    ("rust", "[^]a]", "", ["b"], ["]"]),
    ("rust", "[a-z&&[^aeiou]]", "", ["b"], ["a", "B"]),
    ("rust", r"[\w--\d]", "", ["a", "é"], ["1"]),
    ("rust", "[a-g~~b-h]", "", ["a", "h"], ["b", "g"]),
    ("rust", "[[:alpha:][:^ascii:]]+", "", ["aZé"], ["1"]),
    ("rust", "[a-c[x-z]]", "", ["a", "z"], ["["]),
    # \d \w \s
    ("rust", r"\d\w\s", "", ["1é\u3000", "٣_ "], ["a1 "]),
    ("ecma", r"\d\w\s", "", ["1a\u3000", "1_\ufeff"], ["٣a ", "1é "]),
    ("rust", r"\D\W\S", "", ["a-a"], ["٣-a"]),
    ("rust", r"\s", "", ["\u0085"], ["\ufeff"]),
    ("ecma", r"\S", "", ["\u0085"], ["\ufeff"]),
    # properties
    ("both", r"\p{L}\p{Lu}\P{Nd}", "", ["éÉa"], ["éé1"]),
    ("both", r"\p{Letter}\p{gc=Lu}\p{General_Category=Decimal_Number}", "", ["aÉ٣"], ["aé٣"]),
    ("both", r"\p{Script=Greek}\p{sc=Grek}\p{scx=Greek}", "", ["αβ\u0342"], ["aβγ"]),
    ("both", r"\p{Alphabetic}\p{Alpha}\p{Emoji}\p{ASCII}\p{Any}", "", ["aé\U0001f600a\n"], ["11111"]),
    ("both", r"[\p{Lu}\p{Nd}]+[^\P{L}]", "", ["A1b"], ["a1b", "A11"]),
    ("rust", r"\pL\p{Greek}\p{^L}\P{^L}\p{sc!=Greek}", "", ["aα1aa"], ["aa1aa"]),
    # quantifiers
    ("both", "a{2}b{1,}c{0,1}d{2,3}?", "", ["aabcdd", "aabbddd"], ["abcdd", "aabcd"]),
    ("both", "a{,b}c{x}{", "", ["a{,b}c{x}{"], []),
    ("both", "(?:a{2}){3}", "", ["aaaaaa"], ["aaaaa", "aaaaaaa"]),
    ("both", "(?:a{3,4}){2,3}", "", ["a" * n for n in range(6, 13)], ["aaaaa", "a" * 13]),
    ("both", "(?:a{3}){1,2}", "", ["aaa", "aaaaaa"], ["aaaa"]),
    ("both", "(a*)*(a+)+(a?)?", "", ["a", "aaaa"], ["", "b"]),
    ("both", "a?a?a*?", "", ["", "aaa"], ["b"]),
    ("ecma", "(?=a)*b", "", ["b"], ["ab"]),
    # groups and flags
    ("both", "(a)(?:b)(?<x>c)(?P<y>d)", "", ["abcd"], []),
    ("both", "|a|(|b)", "", ["", "a", "b"], ["c"]),
    ("both", "(?i:ab)c", "", ["aBc", "ABc"], ["abC"]),
    ("both", "(?i)straße", "", ["STRAßE", "straẞe"], ["strasse"]),
    ("both", "k[^k]", "i", ["\u212a1", "Ka"], ["kK", "k\u212a"]),
    ("rust", "a(?i)b|c(?-i)d", "", ["aB", "Cd"], ["Ab", "cD"]),
    ("rust", "(?i-s:a.)(?s:.)", "", ["Ab\n"], ["a\n\n"]),
    ("rust", r"(?x) a b # comment", "", ["ab"], ["a b"]),
    ("rust", "a \\  [ b c ] + # x\n(?-x: d)", "x", ["a bcb d"], ["a bcbd"]),
    ("both", "a.b", "s", ["a\nb"], []),
    ("both", "a.b", "", ["a b"], ["a\nb"]),
    ("rust", ".", "", ["\r", "\u2028"], ["\n"]),
    ("ecma", ".", "", ["\u0085"], ["\r", "\u2028", "\n"]),
    ("both", "(^a$\n?)+", "m", ["a", "a\na", "a\n"], ["aa"]),
    ("both", "(?:^a$\n?)+", "", ["a"], ["a\na", "a\n"]),
    ("rust", r"\Aa\z", "m", ["a"], ["a\n"]),
    ("rust", r"(?U)a+?u", "", ["aau"], []),
    # property and class under the flag i: Rust folds, then negates; ECMA-262 negates, then folds
    ("rust", r"\P{Lu}", "i", ["1"], ["a", "A"]),
    ("ecma", r"\P{Lu}", "i", ["1", "a", "A"], []),
    ("ecma", r"\w\W", "i", ["\u017f-"], ["a\u017f"]),
]


@pytest.mark.parametrize(("dialect", "pattern", "flags", "accepted", "rejected"), READ)
def test_what_is_read(dialect: str, pattern: str, flags: str, accepted: list[str], rejected: list[str]) -> None:
    for each in ("rust", "ecma") if dialect == "both" else (dialect,):
        language = regex_language(pattern, dialect=each, search=False, flags=flags)  # type: ignore[arg-type]
        assert [text for text in accepted if not language.accepts(text)] == [], each
        assert [text for text in rejected if language.accepts(text)] == [], each


#: (dialect, pattern, error, place, part of the message)
REFUSED = [
    ("both", "a(b", SourceError, "1:2", "never closed"),
    ("both", "a)b", SourceError, "1:2", "closes nothing"),
    ("both", "a\nb*)", SourceError, "2:3", "closes nothing"),
    ("both", "[a", SourceError, "1:1", "closing bracket"),
    ("both", "*a", SourceError, "1:1", "nothing to repeat"),
    ("both", "a|+", SourceError, "1:3", "nothing to repeat"),
    ("both", "a**", SourceError, "1:3", "nothing to repeat"),
    ("both", "(?:a{2}{3})", SourceError, "1:8", "nothing to repeat"),
    ("both", "a{3,2}", SourceError, "1:2", "upside down"),
    ("both", "[z-a]", SourceError, "1:2", "upside down"),
    ("both", "a{,3}", UnsupportedError, "1:2", "engines differ"),
    ("both", "a\\", SourceError, "1:2", "backslash ends"),
    ("both", r"\xg", SourceError, "1:1", "2 hexadecimal"),
    ("both", r"\u12", SourceError, "1:1", "4 hexadecimal"),
    ("both", r"\u{110000}", SourceError, "1:1", "no such character"),
    ("both", r"\u{}", SourceError, "1:1", "between the braces"),
    ("both", r"\y", SourceError, "1:1", "no such escape"),
    ("both", r"\Z", SourceError, "1:1", "no such escape"),
    ("ecma", r"\A", SourceError, "1:1", "write ^"),
    ("ecma", r"\a", SourceError, "1:1", "no such escape"),
    ("ecma", r"\U0001F600", SourceError, "1:1", "no such escape"),
    ("rust", r"\<", UnsupportedError, "1:1", "engines differ"),
    ("rust", r"\b{start}", UnsupportedError, "1:1", "plain word boundaries"),
    ("rust", r"[\b]", SourceError, "1:2", "no character"),
    ("both", r"[\B]", SourceError, "1:2", "no character"),
    ("both", r"\012", SourceError, "1:1", "octal"),
    ("both", r"(a)\1", UnsupportedError, "1:4", "backreferences"),
    ("both", r"(?<n>a)\k<n>", UnsupportedError, "1:8", "backreferences"),
    ("both", "(?P<n>a)(?P=n)", UnsupportedError, "1:9", "backreferences"),
    ("both", "a(?R)", UnsupportedError, "1:2", "recursion"),
    ("both", "(?1)", UnsupportedError, "1:1", "recursion"),
    ("both", "(?>a)", UnsupportedError, "1:1", "atomic"),
    ("both", "a++", UnsupportedError, "1:2", "possessive"),
    ("both", "(?(1)a|b)", UnsupportedError, "1:1", "conditionals"),
    ("both", "(?#x)", UnsupportedError, "1:1", "comment"),
    ("both", "(?<1>a)", SourceError, "1:1", "proper name"),
    ("both", "(?q)", SourceError, "1:1", "no such group"),
    ("both", "(?", SourceError, "1:1", "no such group"),
    ("ecma", "a(?i)b", SourceError, "1:2", "only known at the start"),
    ("rust", "(?-u)a", UnsupportedError, "1:1", "flag"),
    ("both", r"\p{Klingon}", SourceError, "1:1", "no such Unicode property"),
    ("both", r"\p{Block=Latin}", UnsupportedError, "1:1", "not known"),
    ("both", r"\p{Lu", SourceError, "1:1", "closing brace"),
    ("ecma", r"\pL", SourceError, "1:1", "in braces"),
    ("ecma", r"\p{Greek}", SourceError, "1:1", "Script=Greek"),
    ("rust", "[[:foo:]]", SourceError, "1:2", "POSIX"),
    ("rust", "[[a]", SourceError, "1:1", "closing bracket"),
    ("both", "a\ud800", SourceError, "1:2", "lone surrogate"),
    ("both", r"\uD800", UnsupportedError, "1:1", "lone surrogate"),
    ("ecma", r"[\uD800-\uDBFF]", UnsupportedError, "1:1", "surrogates only"),
    ("ecma", "(?<=a)*", SourceError, "1:7", "nothing to repeat"),
    ("both", "(?=" * 60 + ")" * 60, UnsupportedError, "1:151", "nested"),
]


@pytest.mark.parametrize(("dialect", "pattern", "error", "place", "words"), REFUSED)
def test_what_is_refused(dialect: str, pattern: str, error: type[SchemacError], place: str, words: str) -> None:
    for each in ("rust", "ecma") if dialect == "both" else (dialect,):
        with pytest.raises(error) as caught:
            regex_language(pattern, dialect=each, search=False, place="#/pattern")  # type: ignore[arg-type]
        assert caught.value.place == f"#/pattern:{place}"
        assert words in str(caught.value)
        assert (caught.value.construct and caught.value.construct in pattern.ljust(1)) or len(pattern) > 40


def test_unknown_flags() -> None:
    with pytest.raises(SourceError, match="no regex flag 'g'"):
        regex_language("a", dialect="ecma", search=False, flags="g")
