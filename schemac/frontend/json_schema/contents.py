"""What draft 7 lets a validator assert about the contents of a string (its validation, sections 8.3 and 8.4).

Base64 is a regular language and is asserted. That a string holds a JSON document is not regular, and is refused. Other
encodings and media types assert nothing, and neither does any of them in the later drafts (2019-09 validation, section
8.2), or in the earlier ones, which do not know these keywords.
"""

from __future__ import annotations

from schemac.errors import UnsupportedError
from schemac.frontend.json_schema.keywords import DRAFT7

#: RFC 4648, section 4: padding is not optional.
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def content_pattern(keyword: str, value: object, draft: int, place: str) -> str | None:
    """The pattern that a string must match, or None if it may be any.

    Args:
        keyword: ``contentEncoding`` or ``contentMediaType``.
        value: its value.
        draft: number of the draft it is read under.
        place: JSON pointer of the schema.

    Raises:
        UnsupportedError: the string would have to hold a JSON document.
    """
    if draft != DRAFT7 or not isinstance(value, str):
        return None
    if keyword == "contentEncoding":
        return _BASE64 if value.lower() == "base64" else None
    if value.lower().partition(";")[0].strip() == "application/json":
        raise UnsupportedError(
            "draft 7 asserts that the string holds a JSON document, which no automaton over strings can check",
            place=place,
            construct=keyword,
            hint="remove it, or name draft 2019-09 or later in `$schema`, where it asserts nothing",
        )
    return None
