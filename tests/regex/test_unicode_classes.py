"""Unicode tables against what Python itself knows, on the code points that its (older) Unicode version has."""

from __future__ import annotations

import unicodedata

import pytest
import re2

from schemac.frontend.regex import unicode_classes
from schemac.ir.charset import CODE_POINTS, CharSet

BY_CATEGORY: dict[str, list[int]] = {}
for _code in range(CODE_POINTS + 1):
    BY_CATEGORY.setdefault(unicodedata.category(chr(_code)), []).append(_code)
ASSIGNED = CharSet.of(*(code for name, codes in BY_CATEGORY.items() if name not in ("Cn", "Cs") for code in codes))


@pytest.mark.parametrize("name", sorted(BY_CATEGORY.keys() - {"Cn", "Cs"}))
def test_categories(name: str) -> None:
    found = unicode_classes.category(name)
    assert found is not None
    # A handful of characters have changed their category since; digits have not.
    assert len((found & ASSIGNED) ^ CharSet.of(*BY_CATEGORY[name])) <= (0 if name == "Nd" else 40)


@pytest.mark.parametrize("name", ["Greek", "Han", "Latin", "Cyrillic", "Arabic", "Common", "Hiragana", "Old_Persian"])
def test_scripts_as_re2(name: str) -> None:
    found = unicode_classes.script(name, extensions=False)
    assert found is not None
    pattern = re2.compile(rf"\p{{{name}}}")
    agree = sum((code in found) == (pattern.fullmatch(chr(code)) is not None) for code in range(0x3400))
    assert agree >= 0x3400 - 60
    assert unicode_classes.script(name.upper().replace("_", ""), extensions=False) == found


def test_script_extensions_hold_more_than_the_script() -> None:
    plain = unicode_classes.script("Grek", extensions=False)
    wide = unicode_classes.script("Greek", extensions=True)
    assert plain is not None and wide is not None
    assert 0x342 in wide and 0x342 not in plain and 0x3B1 in wide


def test_names_that_do_not_exist() -> None:
    assert unicode_classes.category("Xx") is None
    assert unicode_classes.script("Klingon", extensions=True) is None
    assert unicode_classes.binary("Fancy") is None


def test_folding_agrees_with_python() -> None:
    """Simple folding is full folding where that is one character, else the lower-case letter if that is one."""

    def simple(char: str) -> str:
        full = char.casefold()
        if len(full) == 1:
            return full
        lower = char.lower()
        return lower if len(lower) == 1 else char

    groups: dict[str, set[int]] = {}
    for low, high in ASSIGNED:
        for code in range(low, high + 1):
            groups.setdefault(simple(chr(code)), set()).add(code)
    later = CharSet.of(0x390, 0x1FD3, 0x3B0, 0x1FE3, 0xFB05, 0xFB06, 0x19B, 0x264, 0x1E9E, 0xDF)  # folded since 15.1
    for group in groups.values():
        if not any(code in later for code in group) and (len(group) > 1 or min(group) < 0x250):
            assert unicode_classes.fold(CharSet.of(min(group))) & ASSIGNED == CharSet.of(*group)


def test_folding_closes_both_ways() -> None:
    assert unicode_classes.fold(CharSet.of(ord("k"))) == CharSet.of(0x4B, 0x6B, 0x212A)
    assert unicode_classes.fold(CharSet.of(0x212A)) == CharSet.of(0x4B, 0x6B, 0x212A)
    assert unicode_classes.fold(CharSet.of(0x131)) == CharSet.of(0x131)  # Turkic foldings are not simple ones
    assert unicode_classes.fold(CharSet.of(ord("1"))) == CharSet.of(ord("1"))


def test_word_characters() -> None:
    word = unicode_classes.word()
    alphabetic = unicode_classes.binary("Alphabetic")
    assert alphabetic is not None and not alphabetic - word
    for char in "aZ9_éßж中\u0301\u203f\u200d":
        assert ord(char) in word
    for char in " -.\u00a0\u2014½":
        assert ord(char) not in word
    assert len(unicode_classes.white_space()) == 25
    assert len(unicode_classes.ecma_white_space()) == 25  # with U+FEFF, without U+0085
