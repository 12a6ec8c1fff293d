"""Unicode properties and case folding as `CharSet`s. Surrogates are never in one: a text has scalar values only.

Data: `unicode_tables` (Unicode 18). A blob is base85 of zlib of arrays of 24-bit integers, each array stored as its
low bytes, then middle, then high bytes:

    category, script, script_extensions   [R] run starts as differences, [R] value of each run
    binary NAME                           [2R] ends of ranges as differences: first in, first out, first in, ...
    fold                                  [M] code points that have other cases, as differences; [M] distance down to
                                          the least code point of the same simple case folding
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from schemac.frontend.regex import unicode_tables
from schemac.ir.charset import CODE_POINTS, SCALARS, CharSet

#: Values of the blob `category` in this order: short name, long name (PropertyValueAliases.txt), more names.
_CATEGORIES = """
Cn Unassigned|Cc Control cntrl|Zs Space_Separator|Po Other_Punctuation|Sc Currency_Symbol|Ps Open_Punctuation|
Pe Close_Punctuation|Sm Math_Symbol|Pd Dash_Punctuation|Nd Decimal_Number digit|Lu Uppercase_Letter|Sk Modifier_Symbol|
Pc Connector_Punctuation|Ll Lowercase_Letter|So Other_Symbol|Lo Other_Letter|Pi Initial_Punctuation|Cf Format|
No Other_Number|Pf Final_Punctuation|Lt Titlecase_Letter|Lm Modifier_Letter|Mn Nonspacing_Mark|Me Enclosing_Mark|
Mc Spacing_Mark|Nl Letter_Number|Zl Line_Separator|Zp Paragraph_Separator|Cs Surrogate|Co Private_Use
"""
_GROUPS = """
L Letter=Lu Ll Lt Lm Lo|LC Cased_Letter L&=Lu Ll Lt|M Mark Combining_Mark=Mn Mc Me|N Number=Nd Nl No|
P Punctuation punct=Pc Pd Ps Pe Pi Pf Po|S Symbol=Sm Sc Sk So|Z Separator=Zs Zl Zp|C Other=Cc Cf Cs Co Cn
"""
_BINARY_ALIASES = {
    "alpha": "alphabetic", "bidic": "bidicontrol", "bidim": "bidimirrored", "ci": "caseignorable",
    "cwcf": "changeswhencasefolded", "cwcm": "changeswhencasemapped", "cwl": "changeswhenlowercased",
    "cwt": "changeswhentitlecased", "cwu": "changeswhenuppercased", "di": "defaultignorablecodepoint",
    "dep": "deprecated", "dia": "diacritic", "ecomp": "emojicomponent", "emod": "emojimodifier",
    "ebase": "emojimodifierbase", "epres": "emojipresentation", "extpict": "extendedpictographic", "ext": "extender",
    "grbase": "graphemebase", "grext": "graphemeextend", "hex": "hexdigit", "idsb": "idsbinaryoperator",
    "idst": "idstrinaryoperator", "idc": "idcontinue", "ids": "idstart", "ideo": "ideographic",
    "joinc": "joincontrol", "loe": "logicalorderexception", "lower": "lowercase", "nchar": "noncharactercodepoint",
    "patsyn": "patternsyntax", "patws": "patternwhitespace", "qmark": "quotationmark", "ri": "regionalindicator",
    "sterm": "sentenceterminal", "sd": "softdotted", "term": "terminalpunctuation", "uideo": "unifiedideograph",
    "upper": "uppercase", "vs": "variationselector", "space": "whitespace", "wspace": "whitespace",
    "xidc": "xidcontinue", "xids": "xidstart",
}  # fmt: skip

ASCII_DIGIT = CharSet.of((0x30, 0x39))
ASCII_WORD = CharSet.of((0x30, 0x39), (0x41, 0x5A), 0x5F, (0x61, 0x7A))
#: Other_Alphabetic beyond marks (PropList.txt): circled, squared and negative Latin letters.
_OTHER_LETTERS = CharSet.of((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))


def loose(name: str) -> str:
    """A property name as it is compared: without case, spaces, hyphens and underscores (UAX #44, UAX44-LM3)."""
    short = "".join(char for char in name.lower() if char not in " _-")
    return short[2:] if short.startswith("is") and len(short) > 2 else short


@cache
def _blob(name: str) -> NDArray[np.int64]:
    """The integers of a blob."""
    planes = np.frombuffer(zlib.decompress(base64.b85decode(unicode_tables.BLOBS[name])), np.uint8).reshape(-1)
    if name.startswith("binary"):
        low, middle, high = planes.reshape(3, -1).astype(np.int64)
        return low | middle << 8 | high << 16
    # Two arrays of the same length.
    parts = planes.reshape(2, 3, -1).astype(np.int64)
    return parts[:, 0] | parts[:, 1] << 8 | parts[:, 2] << 16


def _runs(name: str, values: Iterable[int]) -> CharSet:
    """The code points whose value in a partition is one of `values`."""
    differences, value = _blob(name)
    starts = np.append(np.cumsum(differences), CODE_POINTS + 1)
    inside = np.concatenate(([False], np.isin(value, list(values)), [False]))
    low = starts[:-1][inside[1:-1] & ~inside[:-2]]
    high = starts[1:][inside[1:-1] & ~inside[2:]] - 1
    return CharSet(tuple(zip(low.tolist(), high.tolist(), strict=True))) & SCALARS


@cache
def _category_names() -> dict[str, tuple[int, ...]]:
    """Values of `category` by loose name."""
    names: dict[str, tuple[int, ...]] = {}
    for value, entry in enumerate(_CATEGORIES.replace("\n", "").split("|")):
        for name in entry.split():
            names[loose(name)] = (value,)
    for entry in _GROUPS.replace("\n", "").split("|"):
        heads, members = entry.split("=")
        for name in heads.split():
            names[loose(name)] = tuple(names[loose(member)][0] for member in members.split())
    return names


@cache
def _script_names() -> dict[str, int]:
    """Indices of scripts by loose name."""
    return {
        loose(name): index for index, entry in enumerate(unicode_tables.SCRIPTS.split("|")) for name in entry.split()
    }


@cache
def category(name: str) -> CharSet | None:
    """A general category or group of them by any of its names; None if there is none of that name."""
    values = _category_names().get(loose(name))
    return None if values is None else _runs("category", values)


@cache
def script(name: str, extensions: bool) -> CharSet | None:
    """The characters of a script, or those whose script extensions have it; None if there is no such script."""
    index = _script_names().get(loose(name))
    if index is None:
        return None
    if not extensions or index == 0:
        return _runs("script", (index,))
    sets = [
        value for value, members in enumerate(unicode_tables.SCRIPT_SETS.split("|")) if str(index) in members.split()
    ]
    return _runs("script_extensions", sets)


@cache
def binary(name: str) -> CharSet | None:
    """The characters with a binary property; None if it is not known."""
    short = loose(name)
    if short == "any":
        return SCALARS
    if short == "ascii":
        return CharSet.of((0, 127))
    if short == "assigned":
        unassigned = category("Cn")
        assert unassigned is not None
        return SCALARS - unassigned
    short = _BINARY_ALIASES.get(short, short)
    for blob in unicode_tables.BLOBS:
        if blob.startswith("binary ") and loose(blob[7:]) == short:
            ends = np.cumsum(_blob(blob)).reshape(-1, 2)
            return CharSet(tuple(zip(ends[:, 0].tolist(), (ends[:, 1] - 1).tolist(), strict=True)))
    return None


@cache
def word() -> CharSet:
    r"""``\w`` as UTS #18, annex C has it: Alphabetic, marks, decimal digits, connectors, joiners."""
    result = _OTHER_LETTERS | CharSet.of((0x200C, 0x200D))
    for name in ("L", "Nl", "M", "Nd", "Pc"):
        part = category(name)
        assert part is not None
        result = result | part
    return result


@cache
def digit() -> CharSet:
    r"""``\d`` of Unicode: general category Nd."""
    result = category("Nd")
    assert result is not None
    return result


@cache
def white_space() -> CharSet:
    r"""``\s`` of Unicode: the property White_Space."""
    result = binary("White_Space")
    assert result is not None
    return result


@cache
def python_word() -> CharSet:
    r"""``\w`` of Python: letters and numbers (`str.isalnum`) and the underscore."""
    result = CharSet.of(0x5F)
    for name in ("L", "N"):
        part = category(name)
        assert part is not None
        result = result | part
    return result


@cache
def python_white_space() -> CharSet:
    r"""``\s`` of Python: `str.isspace`, which has the information separators too."""
    return white_space() | CharSet.of((0x1C, 0x1F))


@cache
def ecma_white_space() -> CharSet:
    r"""``\s`` of ECMA-262: WhiteSpace (clause 12.2) and LineTerminator (12.3)."""
    spaces = category("Zs")
    assert spaces is not None
    return spaces | CharSet.of((0x09, 0x0D), 0x20, 0xA0, 0xFEFF, 0x2028, 0x2029)


def fold(symbols: CharSet) -> CharSet:
    """The set closed under simple case folding: with every character, all that fold to the same (k, K, KELVIN SIGN)."""
    if not symbols:
        return symbols
    codes, least = _fold_arrays()
    bounds = np.array(symbols.ranges, np.int64)
    position = np.searchsorted(bounds[:, 0], codes, "right") - 1
    inside = (position >= 0) & (codes <= bounds[position, 1])
    if not inside.any():
        return symbols
    return symbols | CharSet.of(*codes[np.isin(least, least[inside])].tolist())


@cache
def _fold_arrays() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    differences, down = _blob("fold")
    codes = np.cumsum(differences)
    return codes, codes - down
