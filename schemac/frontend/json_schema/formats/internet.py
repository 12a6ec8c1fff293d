"""Addresses: IPv4, IPv6, host names and mail addresses in ASCII, UUIDs.

Host names (RFC 1123 section 2.1, RFC 1034 section 3.1) are labels of 1 to 63 letters, digits and inner hyphens; all
of a name has at most 253 characters. Counting characters within the label and within the name at once would take
some 28,000 states. Instead the first two labels are counted each, and then all that follows: it has at most 63
characters, however many labels it is. So all such names are in, and none over 191 characters.

From draft 7 on a host name may be internationalized, and a label that begins with ``xn--`` must decode to a valid
U-label (RFC 5890, section 2.3.2.1). Punycode is not for automata; such labels are left out there.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from schemac.ir.charset import CODE_POINTS
from schemac.ir.dfa import Dfa
from schemac.ir.minimize import Table

_LABEL = 63
_COUNTED_LABELS = 2

#: RFC 3986 section 3.2.2, `dec-octet` and `IPv4address`.
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"(?:{_OCTET}\.){{3}}{_OCTET}"


def _ipv6() -> str:
    """RFC 3986 section 3.2.2, `IPv6address`, which is RFC 4291 section 2.2 without zone and prefix length."""
    group = "[0-9A-Fa-f]{1,4}"
    last = f"(?:{group}:{group}|{IPV4})"
    forms = [f"(?:{group}:){{6}}{last}"]
    for after in range(6):  # groups between "::" and the last 32 bits
        before = f"(?:(?:{group}:){{0,{5 - after - 1}}}{group})?" if after < 5 else ""
        forms.append(f"{before}::(?:{group}:){{{after}}}{last}")
    forms.append(f"(?:(?:{group}:){{0,5}}{group})?::{group}")
    forms.append(f"(?:(?:{group}:){{0,6}}{group})?::")
    return "(?:" + "|".join(forms) + ")"


IPV6 = _ipv6()

#: RFC 9562 section 4 (RFC 4122 section 3): any version and variant.
UUID = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

_LDH = "[0-9A-Za-z](?:[0-9A-Za-z-]{0,61}[0-9A-Za-z])?"
#: Every host name, and names that are too long as well.
HOSTNAME_AT_MOST = rf"{_LDH}(?:\.{_LDH})*"

#: RFC 5321 section 4.5.3.1.1: octets of a local part.
LOCAL_PART_LENGTH = 64
#: RFC 5321 section 4.1.3, `address-literal` without `General-address-literal`: no other tag is registered.
ADDRESS_LITERAL = rf"\[(?:{IPV4}|IPv6:{IPV6})\]"
#: Whatever could be called a mail address.
EMAIL_AT_MOST = r"(?s:.+@.+)"


def local_part(beyond: str) -> str:
    """RFC 5321 section 4.1.2, `Local-part`: `Dot-string` or `Quoted-string`, of any length.

    Args:
        beyond: characters beyond ASCII that are allowed too, as members of a class (RFC 6531, section 3.3).
    """
    atom = f"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{beyond}-]+"
    return rf'(?:{atom}(?:\.{atom})*|"(?:[ !#-\[\]-~{beyond}]|\\[ -~])*")'


@cache
def host_names(a_labels: bool) -> Dfa:
    """Host names, as long as the module docstring says, over code points.

    Args:
        a_labels: allow labels that begin with ``xn--``, whatever follows.
    """
    # A state is (dots up to two, characters since then, what the last one was: a dot, a letter or digit, a hyphen;
    # characters of "xn--" read so far in this label, None once it differs).
    State = tuple[int, int, str, int | None]  # noqa: N806 - a type
    number: dict[State, int] = {}
    queue: list[State] = []
    prefix = None if a_labels else 0

    def visit(dots: int, length: int, last: str, matched: int | None) -> int:
        if length > _LABEL or matched == 4:
            return -1
        state = (dots, length, last, matched)
        if state not in number:
            number[state] = len(queue)
            queue.append(state)
        return number[state]

    visit(0, 0, ".", prefix)
    rows: list[list[int]] = []
    for dots, length, last, matched in queue:  # grows meanwhile
        other = visit(dots, length + 1, "a", None)
        row = [-1, other, -1, -1, other, other]
        if matched in (0, 1):
            row[4 + matched] = visit(dots, length + 1, "a", matched + 1)
        if last != ".":
            row[2] = visit(dots, length + 1, "-", matched + 1 if matched in (2, 3) else None)
        if last == "a":
            row[3] = visit(dots + 1, 0, ".", prefix) if dots < _COUNTED_LABELS else visit(dots, length + 1, ".", prefix)
        rows.append(row)
    accepting = np.array([last == "a" for _, _, last, _ in queue], np.bool_)
    # Classes: 0 none of these, 1 letters and digits, 2 hyphen, 3 dot, 4 "x", 5 "n".
    cuts = {0x00: 0, 0x2D: 2, 0x2E: 3, 0x2F: 0, 0x30: 1, 0x3A: 0, 0x41: 1, 0x5B: 0, 0x61: 1, 0x7B: 0}
    for letter in b"XxNn":
        cuts |= {letter: 4 if letter in b"Xx" else 5, letter + 1: 1}
    starts = np.array(sorted(cuts), np.int32)
    classes = np.array([cuts[start] for start in sorted(cuts)], np.int32)
    return Dfa.from_table(CODE_POINTS, Table(starts, classes, np.array(rows, np.int32), accepting))
