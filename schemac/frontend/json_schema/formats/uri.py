"""URIs and URI references (RFC 3986, appendix A), IRIs (RFC 3987, section 2.2), URI templates (RFC 6570, section 2).

All exact: the grammars are regular. Left out are only template operators that are reserved for later versions.
"""

from __future__ import annotations

from schemac.frontend.json_schema.formats.internet import IPV6

_UNRESERVED = "A-Za-z0-9._~"  # and the hyphen, which goes last in a class
_SUB_DELIMS = "!$&'()*+,;="
_PERCENT = "%[0-9A-Fa-f]{2}"


def _ranges(*ranges: tuple[int, int]) -> str:
    """The inside of a character class."""
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges)


#: `ucschar`: beyond ASCII, without controls, surrogates, private use and noncharacters.
_UCSCHAR = _ranges(
    (0xA0, 0xD7FF),
    (0xF900, 0xFDCF),
    (0xFDF0, 0xFFEF),
    *((plane << 16, (plane << 16) + 0xFFFD) for plane in range(1, 14)),
    (0xE1000, 0xEFFFD),
)
#: `iprivate`, which only a query may have.
_IPRIVATE = _ranges((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))


def _grammar(beyond: str, private: str) -> tuple[str, str]:
    """`URI` and `URI-reference`, or with `beyond` and `private` characters `IRI` and `IRI-reference`."""

    def characters(extra: str) -> str:
        return f"(?:[{_UNRESERVED}{_SUB_DELIMS}{beyond}{extra}-]|{_PERCENT})"

    pchar = characters(":@")
    future = rf"[Vv][0-9A-Fa-f]+\.[{_UNRESERVED}{_SUB_DELIMS}:-]+"
    host = rf"(?:\[(?:{IPV6}|{future})\]|{characters('')}*)"  # a reg-name covers IPv4address
    authority = f"(?:{characters(':')}*@)?{host}(?::[0-9]*)?"
    after_authority = f"//{authority}(?:/{pchar}*)*"
    absolute = f"/(?:{pchar}+(?:/{pchar}*)*)?"
    rootless = f"{pchar}+(?:/{pchar}*)*"
    no_colon = f"{characters('@')}+(?:/{pchar}*)*"
    tail = rf"(?:\?{characters(':@/?' + private)}*)?(?:#{characters(':@/?')}*)?"
    scheme = "[A-Za-z][A-Za-z0-9+.-]*"
    return (
        f"{scheme}:(?:{after_authority}|{absolute}|{rootless}|){tail}",
        # with or without a scheme; only with one can the first segment hold a colon
        f"(?:(?:{scheme}:)?(?:{after_authority}|{absolute}|)|{scheme}:{rootless}|{no_colon}){tail}",
    )


URI, URI_REFERENCE = _grammar("", "")
IRI, IRI_REFERENCE = _grammar(_UCSCHAR, _IPRIVATE)


def _template() -> str:
    """RFC 6570 sections 2.1 to 2.4; the apostrophe is a literal by erratum 6937."""
    literal = rf"(?:[!#$&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_UCSCHAR}{_IPRIVATE}]|{_PERCENT})"
    character = f"(?:[A-Za-z0-9_]|{_PERCENT})"
    name = rf"{character}(?:\.?{character})*"
    variable = rf"{name}(?::[1-9][0-9]{{0,3}}|\*)?"
    expression = rf"\{{{{operator}}?{variable}(?:,{variable})*\}}"
    return f"(?:{literal}|{expression.replace('{operator}', '[+#./;?&]')})*"


URI_TEMPLATE = _template()
#: With the operators that section 2.2 reserves.
URI_TEMPLATE_AT_MOST = URI_TEMPLATE.replace("[+#./;?&]", "[+#./;?&=,!@|]")
