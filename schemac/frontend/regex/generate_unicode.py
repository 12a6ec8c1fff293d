"""Writes `unicode_tables.py` from the Unicode data inside the `regex` package.

    python -m schemac.frontend.regex.generate_unicode > schemac/frontend/regex/unicode_tables.py

Run by hand when a new Unicode version is wanted; the compiler itself never needs the `regex` package. The layout of
each blob is described in `unicode_classes.py`.
"""

from __future__ import annotations

import base64
import sys
import zlib
from collections.abc import Iterable

import numpy as np

#: ECMA-262 table "Binary Unicode property aliases" (clause 22.2.1.9 of the 2024 edition), as far as the package has
#: them, with the short names after the long ones.
BINARY = """
Alphabetic=Alpha Bidi_Control=Bidi_C Bidi_Mirrored=Bidi_M Case_Ignorable=CI Cased Changes_When_Casefolded=CWCF
Changes_When_Casemapped=CWCM Changes_When_Lowercased=CWL Changes_When_Titlecased=CWT Changes_When_Uppercased=CWU Dash
Default_Ignorable_Code_Point=DI Deprecated=Dep Diacritic=Dia Emoji Emoji_Component=EComp Emoji_Modifier=EMod
Emoji_Modifier_Base=EBase Emoji_Presentation=EPres Extended_Pictographic=ExtPict Extender=Ext Grapheme_Base=Gr_Base
Grapheme_Extend=Gr_Ext Hex_Digit=Hex IDS_Binary_Operator=IDSB IDS_Trinary_Operator=IDST ID_Continue=IDC ID_Start=IDS
Ideographic=Ideo Join_Control=Join_C Logical_Order_Exception=LOE Lowercase=Lower Math Noncharacter_Code_Point=NChar
Pattern_Syntax=Pat_Syn Pattern_White_Space=Pat_WS Quotation_Mark=QMark Radical Regional_Indicator=RI
Sentence_Terminal=STerm Soft_Dotted=SD Terminal_Punctuation=Term Unified_Ideograph=UIdeo Uppercase=Upper
Variation_Selector=VS White_Space=space XID_Continue=XIDC XID_Start=XIDS
"""
VERSION = "18.0.0"  # of the data in the package release named below
RELEASE = "2026.11.19"


def main() -> None:
    """Print the module."""
    import regex
    from regex import _regex, _regex_core

    if regex.__version__ != RELEASE:
        sys.exit(f"this was written for regex {RELEASE}; set VERSION and RELEASE for {regex.__version__}")
    scalars = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    text = "".join(map(chr, scalars))

    def ranges(item: str) -> list[tuple[int, int]]:
        """Inclusive code point ranges of a class item; positions past the surrogates are shifted by 0x800."""
        found = []
        for match in regex.finditer(f"{item}+", text):
            low, high = match.start(), match.end() - 1
            for begin, end in ((low, min(high, 0xD7FF)), (max(low, 0xD800), high)):
                if begin <= end:
                    shift = 0x800 if begin >= 0xD800 else 0
                    found.append((begin + shift, end + shift))
        return found

    def runs(names: list[str], item: str, rest: str) -> bytes:
        """A partition of the code points: run starts (as differences) and values (indices of `names`)."""
        values = np.full(0x110000, names.index(rest), np.uint16)
        for index, name in enumerate(names):
            if name != rest:
                for low, high in ranges(item % name):
                    values[low : high + 1] = index
        return run_blob(values)

    def run_blob(values: np.ndarray) -> bytes:
        start = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        return planes(np.diff(start, prepend=0)) + planes(values[start])

    def names_of(name: str) -> dict[int, list[str]]:
        grouped: dict[int, list[str]] = {}
        for alias, value in _regex_core.PROPERTIES[name][1].items():
            grouped.setdefault(value, []).append(alias)
        return grouped

    blobs: dict[str, bytes] = {}
    categories = ["Cs" if name == "CS" else name for name in CATEGORIES]
    values_ = np.zeros(0x110000, np.uint16)
    values_[0xD800:0xE000] = categories.index("Cs")
    for index, name in enumerate(categories):
        if name not in ("Cn", "Cs"):
            for low, high in ranges(rf"\p{{gc={name}}}"):
                values_[low : high + 1] = index
    blobs["category"] = run_blob(values_)

    scripts = {value: aliases for value, aliases in names_of("SCRIPT").items()}
    order = [scripts[value][0] for value in sorted(scripts)]
    blobs["script"] = runs(order, r"\p{Script=%s}", "UNKNOWN")
    # Sets of scripts: a bit per script, then the distinct sets in order of appearance.
    bits: list[int] = [0] * 0x110000
    for index, name in enumerate(order):
        if name == "UNKNOWN":
            continue
        for low, high in ranges(rf"\p{{Script_Extensions={name}}}"):
            for code in range(low, high + 1):
                bits[code] |= 1 << index
    sets = list(dict.fromkeys(bits))
    number = {value: index for index, value in enumerate(sets)}
    blobs["script_extensions"] = run_blob(np.array([number[value] for value in bits], np.uint16))
    members = [" ".join(str(index) for index in range(len(order)) if value >> index & 1) for value in sets]

    binary = [entry.split("=") for entry in BINARY.split()]
    for names in binary:
        bounds = [point for low, high in ranges(rf"\p{{{names[0]}}}") for point in (low, high + 1)]
        blobs["binary " + names[0]] = planes(np.diff(np.array(bounds), prepend=0))

    # Simple case folding, statuses C and S of CaseFolding.txt: the package adds the Turkic pairs, which are status T.
    members_of: dict[int, int] = {}
    flags = regex.IGNORECASE | regex.UNICODE
    for code in scalars:
        cases = [case for case in _regex.get_all_cases(flags, code) if case not in (0x130, 0x131)]
        if len(cases) > 1 and code not in (0x130, 0x131):
            members_of[code] = min(cases)
    codes = sorted(members_of)
    blobs["fold"] = planes(np.diff(np.array(codes), prepend=0))
    blobs["fold"] += planes(np.array(codes) - np.array([members_of[code] for code in codes]))

    print('"""Generated by `generate_unicode.py`; do not edit.')
    print()
    print(f"Unicode Character Database {VERSION}, as compiled into the `regex` package {RELEASE}. Copyright 1991-2026")
    print("Unicode, Inc.; the data is used under the Unicode License v3 (https://www.unicode.org/license.txt).")
    print('"""')
    print()
    print(f'VERSION = "{VERSION}"')
    dump("SCRIPTS", [" ".join(scripts[value]) for value in sorted(scripts)], "per script its names, loosely matched")
    dump("SCRIPT_SETS", members, "per value of the blob `script_extensions`, indices of SCRIPTS")
    print("BLOBS = {")
    for name, data in blobs.items():
        text_ = base64.b85encode(zlib.compress(data, 9)).decode()
        print(f'    "{name}": (')
        for begin in range(0, len(text_), 108):
            print(f'        "{text_[begin : begin + 108]}"')
        print("    ),")
    print("}")


def planes(values: np.ndarray) -> bytes:
    """Integers below 2**24 as their lowest bytes, then their middle bytes, then their highest: this packs better."""
    return values.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].T.tobytes()


def dump(name: str, items: Iterable[str], comment: str) -> None:
    """Print a list of short strings as one joined literal."""
    print(f"#: {comment}")
    joined = "|".join(items)
    print(f"{name} = (")
    for begin in range(0, len(joined), 108):
        print(f'    "{joined[begin : begin + 108]}"')
    print(').split("|")')


CATEGORIES = "Cn Cc Zs Po Sc Ps Pe Sm Pd Nd Lu Sk Pc Ll So Lo Pi Cf No Pf Lt Lm Mn Me Mc Nl Zl Zp Cs Co".split()

if __name__ == "__main__":
    main()
