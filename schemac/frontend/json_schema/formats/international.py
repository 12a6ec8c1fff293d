"""Internationalized host names (RFC 5890 to 5893, IDNA 2008) and mail addresses (RFC 6531, section 3.3).

Which labels are valid depends on tables of all of Unicode and on the length of the Punycode form, which no small
automaton knows. The names here are chosen so that each is valid for a simple reason, and so that the reason does not
change with the version of Unicode:

- a label with characters beyond ASCII has at most 11 code points, all of them up to U+D7FF: its Punycode then has at
  most 57 characters whatever they are, so that its A-label is within 63;
- such a name has at most 3 labels, those in ASCII of at most 22 characters: all of it is within 253;
- characters are letters and digits of common scripts, all PVALID (RFC 5892), starters that never compose with what is
  before them, with at most one combining mark after each: so every label is in Normalization Form C;
- the contextual rules of RFC 5892, appendix A, are part of the patterns below;
- a name that has right-to-left characters has only labels that obey the Bidi rule (RFC 5893, section 2).

Names in ASCII are those of `internet`, without labels that have hyphens in both the third and fourth place.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from schemac.frontend.json_schema.formats.build import full_match, joined
from schemac.frontend.json_schema.formats.internet import ADDRESS_LITERAL, LOCAL_PART_LENGTH, host_names, local_part
from schemac.ir.charset import CODE_POINTS, CharSet
from schemac.ir.dfa import Dfa, union_all
from schemac.ir.minimize import Table

_LABEL_CODE_POINTS = 11
_IDN_LABELS = 3

# Members of character classes. Small letters only: capitals are not stable under case folding, so not PVALID.
_GREEK = "\u03ac-\u03ce\u03d7"
_LETTERS = (
    "\u00df-\u00f6\u00f8-\u00ff"  # Latin
    + "".join(map(chr, [*range(0x101, 0x132, 2), 0x135, 0x137, 0x138, *range(0x13A, 0x13F, 2)]))
    + "".join(map(chr, [0x142, 0x144, 0x146, 0x148, *range(0x14B, 0x178, 2), 0x17A, 0x17C, 0x17E]))
    + _GREEK
    + "\u0430-\u045f"  # Cyrillic
    + "\u0561-\u0586"  # Armenian
    + "\u0e01-\u0e30\u0e32\u0e40-\u0e44"  # Thai
    + "\u0f0b\u3007"  # exceptions of RFC 5892, section 2.6
    + "\u10d0-\u10f0"  # Georgian
    + "\uac00-\ud7a3"  # Hangul
)
_HAN_AND_KANA = "\u3007\u3041-\u3096\u309d\u309e\u30a1-\u30fa\u30fd\u30fe\u4e00-\u9fa5"
_DEVANAGARI = "\u0905-\u0928\u092a-\u0930\u0932\u0933\u0935-\u0939"
_DEVANAGARI_SIGNS = "\u0901-\u0903\u093e-\u094c"
_VIRAMA = "\u094d"
_HEBREW = "\u05d0-\u05ea"
# Joining_Type D, R, and either or none (ArabicShaping.txt).
_ARABIC_DUAL = "\u0626\u0628\u062a-\u062e\u0633-\u063a\u0641-\u0647\u064a\u067e\u0686\u06a9\u06af\u06cc"
_ARABIC_RIGHT = "\u0622-\u0625\u0627\u0629\u062f-\u0632\u0648\u0698"
_ARABIC_OTHER = "\u0621\u06c6-\u06c8\u06cb\u06d0\u06d3\u06d5\u06fd\u06fe"
_ARABIC_DIGITS = "\u0660-\u0669"
_EXTENDED_DIGITS = "\u06f0-\u06f9"
_MIDDLE_DOT, _KERAIA, _GERESHES, _KATAKANA_DOT = "\u00b7", "\u0375", "\u05f3\u05f4", "\u30fb"
_NON_JOINER, _JOINERS = "\u200c", "\u200c\u200d"
_SEPARATOR = "[.\u3002\uff0e\uff61]"  # what IDNA takes for a dot (RFC 3490, section 3.1)

#: Whatever could be an internationalized host name.
IDN_HOSTNAME_AT_MOST = r"[^\x00-,/:-@\[-`{-\x7F]+"


def _units(*units: str) -> str:
    return "(?:" + "|".join(units) + ")+"


def _left_to_right() -> str:
    """Labels without right-to-left characters, save Japanese ones; marks follow their letter."""
    return _units(
        f"[a-z0-9{_LETTERS}{_EXTENDED_DIGITS}-]",
        f"l(?:{_MIDDLE_DOT}l)+",  # A.3: between two l
        f"{_KERAIA}[{_GREEK}]",  # A.4: before Greek
        f"[{_DEVANAGARI}](?:[{_DEVANAGARI_SIGNS}]|{_VIRAMA}[{_JOINERS}]?)?",  # A.1, A.2: joiners after a virama
    )


def _right_to_left(digits: str) -> str:
    """Labels by RFC 5893, section 2, rules 1 to 4; A.8, A.9: one kind of digits."""
    letter = _units(
        f"[{_HEBREW}][{_GERESHES}]?",  # A.5, A.6: after Hebrew
        f"[{_ARABIC_DUAL}{_ARABIC_RIGHT}{_ARABIC_OTHER}]",
        # A.1: a non-joiner between letters that would join
        f"[{_ARABIC_DUAL}](?:{_NON_JOINER}[{_ARABIC_DUAL}])*{_NON_JOINER}[{_ARABIC_DUAL}{_ARABIC_RIGHT}]",
    )
    return f"{letter}(?:[{digits}-]|{letter})*"


def _proper(texts: Dfa) -> Dfa:
    """Labels of the right length, with a character beyond ASCII, and without misplaced hyphens."""
    beyond = full_match("(?s:.*[^\\x00-\\x7F].*)")
    hyphens = full_match("(?s:-.*|.*-|..--.*)")
    short = Dfa.runs(CharSet(((0, CODE_POINTS),)), 1, _LABEL_CODE_POINTS, CODE_POINTS)
    return texts.intersect(short).intersect(beyond).difference(hyphens)


@cache
def idn_host_names() -> Dfa:
    """Internationalized host names as the module docstring says, over code points."""
    ascii_label = full_match("[0-9A-Za-z](?:[0-9A-Za-z-]{0,20}[0-9A-Za-z])?").difference(full_match("(?s:..--.*)"))
    letter_first = full_match("(?s:[A-Za-z].*)")
    # A.7: a katakana middle dot needs a kana or Han character in the label
    japanese = full_match(f"(?s:.*[{_HAN_AND_KANA}].*)").intersect(
        full_match(f"[a-z0-9{_HAN_AND_KANA}\u3006\u30fc{_KATAKANA_DOT}-]+")
    )
    left = _proper(full_match(_left_to_right()).union(japanese))
    right = _proper(
        full_match(_right_to_left(_ARABIC_DIGITS)).union(full_match(_right_to_left("0-9" + _EXTENDED_DIGITS)))
    )
    separator = full_match(_SEPARATOR)
    names = [host_names(a_labels=False).difference(full_match("(?s:(?:.*\\.)?[^.][^.]--.*)"))]
    for labels in (ascii_label.union(left), ascii_label.intersect(letter_first).union(right)):
        names.append(labels.concat(separator.concat(labels).repeat(0, _IDN_LABELS - 1)))
    return union_all(names)


def emails() -> Dfa:
    """RFC 5321 section 4.1.2, `Mailbox`."""
    domain = host_names(a_labels=True).union(full_match(ADDRESS_LITERAL))
    return joined(full_match(local_part("")).intersect(octets(LOCAL_PART_LENGTH)), "@", domain)


def idn_emails() -> Dfa:
    """RFC 6531 section 3.3: the same with characters beyond ASCII in both parts."""
    dots = full_match("(?s:.*[\u3002\uff0e\uff61].*)")
    domain = idn_host_names().difference(dots).union(full_match(ADDRESS_LITERAL))
    return joined(full_match(local_part("\u0080-\U0010ffff")).intersect(octets(LOCAL_PART_LENGTH)), "@", domain)


def octets(most: int) -> Dfa:
    """Texts that take at most `most` octets in UTF-8 (RFC 3629, section 3)."""
    starts = np.array([0, 0x80, 0x800, 0x10000], np.int32)
    table = np.arange(most + 1, dtype=np.int32)[:, None] + np.arange(1, 5, dtype=np.int32)
    table[table > most] = -1
    return Dfa.from_table(CODE_POINTS, Table(starts, np.arange(4, dtype=np.int32), table, np.ones(most + 1, np.bool_)))
