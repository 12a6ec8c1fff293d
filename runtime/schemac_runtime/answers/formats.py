"""What `format` asserts about a string, by the RFC of each format; unknown formats assert nothing.

Grammars are RE2 patterns for the whole text; what is no regular matter (calendars, leap seconds, addresses) is checked
in Python. Internationalized host names need the package idna.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

from schemac_runtime.answers.patterns import is_pattern
from schemac_runtime.answers.problems import AnswerError

_DATE = r"(\d{4})-(\d{2})-(\d{2})"
_TIME = r"(\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[Zz]|([+-])(\d{2}):(\d{2}))"

# RFC 3986, appendix A; `{more}` is what RFC 3987 adds to the unreserved characters, `{private}` to those of a query.
_UCSCHAR = (
    r"\x{a0}-\x{d7ff}\x{f900}-\x{fdcf}\x{fdf0}-\x{ffef}"
    + "".join(rf"\x{{{plane:x}0000}}-\x{{{plane:x}fffd}}" for plane in range(1, 14))
    + r"\x{e1000}-\x{efffd}"
).replace(r"\x{e0000}-\x{efffd}", "")
_PRIVATE = r"\x{e000}-\x{f8ff}\x{f0000}-\x{ffffd}\x{100000}-\x{10fffd}"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"


def _resource_identifier(more: str, private: str, relative: bool) -> str:
    escape = "%[0-9A-Fa-f]{2}"
    plain = rf"A-Za-z0-9._~{more}\-"
    delimiters = r"!$&'()*+,;="
    char = rf"(?:[{plain}{delimiters}:@]|{escape})"
    userinfo = rf"(?:[{plain}{delimiters}:]|{escape})*"
    name = rf"(?:[{plain}{delimiters}]|{escape})*"
    literal = rf"\[(?:[0-9A-Fa-f:.]+|[vV][0-9A-Fa-f]+\.[{plain}{delimiters}:]+)\]"
    authority = rf"(?:{userinfo}@)?(?:{literal}|{name})(?::[0-9]*)?"
    rest = rf"(?:/{char}*)*"
    absolute = rf"/(?:{char}+{rest})?"
    tail = rf"(?:\?(?:{char}|[/?{private}])*)?(?:#(?:{char}|[/?])*)?"
    whole = rf"[A-Za-z][A-Za-z0-9+.-]*:(?://{authority}{rest}|{absolute}|{char}+{rest})?{tail}"
    if relative:
        first = char.replace(":@", "@")
        whole += rf"|(?://{authority}{rest}|{absolute}|{first}+{rest})?{tail}"
    return whole


def _duration() -> str:
    """RFC 3339, appendix A."""
    time = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
    date = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
    return f"P(?:{date}(?:{time})?|{time}|[0-9]+W)"


def _uri_template() -> str:
    """RFC 6570, sections 2.1 to 2.4."""
    literal = r"[^\x{0}-\x{20}\x{7f}-\x{9f}\"%<>\\^`{|}]|%[0-9A-Fa-f]{2}"
    varchar = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
    variable = rf"{varchar}(?:\.?{varchar})*(?::[1-9][0-9]{{0,3}}|\*)?"
    return rf"(?:{literal}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*"


_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_QUOTED = r'"(?:[\x{20}-\x{21}\x{23}-\x{5b}\x{5d}-\x{7e}]|\\[\x{20}-\x{7e}])*"'
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_POINTER = "(?:/(?:[^~/]|~[01])*)*"

#: Formats that a grammar settles.
_GRAMMARS: dict[str, Callable[[], str]] = {
    "date": lambda: _DATE,
    "time": lambda: _TIME,
    "date-time": lambda: f"{_DATE}[Tt]{_TIME}",
    "duration": _duration,
    "hostname": lambda: rf"{_LABEL}(?:\.{_LABEL})*",
    "json-pointer": lambda: _POINTER,
    "relative-json-pointer": lambda: rf"(?:0|[1-9][0-9]*)(?:[+-](?:0|[1-9][0-9]*))?(?:#|{_POINTER})",
    "uri": lambda: _resource_identifier("", "", relative=False),
    "uri-reference": lambda: _resource_identifier("", "", relative=True),
    "iri": lambda: _resource_identifier(_UCSCHAR, _PRIVATE, relative=False),
    "iri-reference": lambda: _resource_identifier(_UCSCHAR, _PRIVATE, relative=True),
    "uri-template": _uri_template,
    "uuid": lambda: "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    # Local parts of RFC 5321, section 4.1.2, and of RFC 6531, section 3.3.
    "local part": lambda: rf"{_ATOM}+(?:\.{_ATOM}+)*|{_QUOTED}",
    "local part beyond ASCII": lambda: (
        rf"(?:{_ATOM}|[^\x{{0}}-\x{{7f}}])+(?:\.(?:{_ATOM}|[^\x{{0}}-\x{{7f}}])+)*"
        rf'|"(?:[\x{{20}}-\x{{21}}\x{{23}}-\x{{5b}}\x{{5d}}-\x{{7e}}\x{{80}}-\x{{10ffff}}]|\\[\x{{20}}-\x{{7e}}])*"'
    ),
}


@cache
def _grammar(name: str) -> Any:
    import re2

    return re2.compile(_GRAMMARS[name]())


def _groups(name: str, text: str) -> tuple[str | None, ...] | None:
    match = _grammar(name).fullmatch(text)
    return None if match is None else match.groups()


def _matches(name: str) -> Callable[[str], bool]:
    return lambda text: _grammar(name).fullmatch(text) is not None


def conforms(name: str, text: str, draft: str = "draft2020-12") -> bool:
    """Whether a string conforms to a format; any does to an unknown one.

    Args:
        name: of the format.
        text: the string.
        draft: the host names of draft 4 and 6 are those of RFC 1123, which says nothing of A-labels.

    Raises:
        AnswerError: a package is missing for it.
    """
    check = _CHECKS.get(name)
    if name == "hostname" and draft in ("draft4", "draft6"):
        check = _plain_hostname
    return check is None or check(text)


def _is_date(parts: tuple[str | None, ...]) -> bool:
    year, month, day = (int(part or 0) for part in parts)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return 1 <= month <= 12 and 1 <= day <= days[month - 1]


def _is_time(parts: tuple[str | None, ...]) -> bool:
    """RFC 3339, section 5.6; a leap second ends a day of UTC (section 5.7)."""
    hour, minute, second = (int(part or 0) for part in parts[:3])
    sign, hours, minutes = parts[3], int(parts[4] or 0), int(parts[5] or 0)
    if hour > 23 or minute > 59 or second > 60 or hours > 23 or minutes > 59:
        return False
    shift = (hours * 60 + minutes) * (-1 if sign == "-" else 1)
    return second < 60 or (hour * 60 + minute - shift) % 1440 == 1439


def _date(text: str) -> bool:
    found = _groups("date", text)
    return found is not None and _is_date(found)


def _time(text: str) -> bool:
    found = _groups("time", text)
    return found is not None and _is_time(found)


def _date_time(text: str) -> bool:
    found = _groups("date-time", text)
    return found is not None and _is_date(found[:3]) and _is_time(found[3:])


def _plain_hostname(text: str) -> bool:
    """RFC 1123, section 2.1."""
    return len(text) <= 253 and _matches("hostname")(text)


def _hostname(text: str) -> bool:
    """RFC 1123 and RFC 5890, section 2.3.1: hyphens in third and fourth place mark an A-label."""
    if not _plain_hostname(text):
        return False
    for label in text.split("."):
        if label[2:4] == "--" and not (label[:4].lower() == "xn--" and _is_a_label(label)):
            return False
    return True


def _is_a_label(label: str) -> bool:
    try:
        import idna
    except ImportError:
        return True  # its letters and digits conform; whether its Unicode form does, only idna knows
    try:
        idna.ulabel(label)
    except (idna.IDNAError, UnicodeError):
        return False
    return True


def _idn_hostname(text: str) -> bool:
    """RFC 5890 to 5893; a dot may be any of RFC 3490, section 3.1."""
    try:
        import idna
    except ImportError:
        raise AnswerError(
            "internationalized host names cannot be checked", construct="format", hint="install the package idna"
        ) from None
    labels = re.split("[.\u3002\uff0e\uff61]", text)
    if not labels[-1]:
        return False
    try:
        idna.encode(text)
        if any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in text):  # RFC 5893, section 2
            for label in labels:
                idna.check_bidi(label, check_ltr=True)
    except (idna.IDNAError, UnicodeError):
        return False
    return True


def _email(text: str) -> bool:
    return _is_address(text, "local part", _hostname)


def _idn_email(text: str) -> bool:
    # RFC 6531 says nothing of normal forms; a server brings the domain into the one that DNS knows.
    def domain(name: str) -> bool:
        return _hostname(name) or _idn_hostname(unicodedata.normalize("NFC", name))

    return _is_address(text, "local part beyond ASCII", domain)


def _is_address(text: str, local: str, domain: Callable[[str], bool]) -> bool:
    part, at, name = text.rpartition("@")
    # 64 octets, RFC 5321, section 4.5.3.1.1
    if not at or len(part.encode()) > 64 or not _matches(local)(part):
        return False
    if name.startswith("[") and name.endswith("]"):
        literal = name[1:-1]
        return _ipv6(literal[5:]) if literal[:5].lower() == "ipv6:" else _ipv4(literal)
    return domain(name)


def _ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return text.isascii()


def _ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text and text.isascii()


def _identifier(name: str) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        if not _matches(name)(text):
            return False
        before, bracket, rest = text.partition("//[")
        literal = rest.partition("]")[0]
        literal = literal if bracket and "?" not in before and "#" not in before else ""
        return not literal or literal[0] in "vV" or _ipv6(literal)

    return check


_CHECKS: dict[str, Callable[[str], bool]] = {
    "date": _date,
    "time": _time,
    "date-time": _date_time,
    "duration": _matches("duration"),
    "email": _email,
    "idn-email": _idn_email,
    "hostname": _hostname,
    "idn-hostname": _idn_hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "uri": _identifier("uri"),
    "uri-reference": _identifier("uri-reference"),
    "iri": _identifier("iri"),
    "iri-reference": _identifier("iri-reference"),
    "uri-template": _matches("uri-template"),
    "uuid": _matches("uuid"),
    "json-pointer": _matches("json-pointer"),
    "relative-json-pointer": _matches("relative-json-pointer"),
    "regex": is_pattern,
}
