"""Read a schema from text or from a Python object: exact numbers, no duplicate keys, bounded nesting.

Numbers come out as `int` or `Decimal`, never as binary floats. What comes out is plain JSON data of bounded depth, so
that the later stages may nest as deep as the document does.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal

from schemac.budget import Budget
from schemac.errors import SourceError

#: Deepest nesting of arrays and objects in a schema. Real ones stay below 60; the interpreter's own stack holds
#: about 1,000 frames, and no stage uses more than two per level.
MAX_DEPTH = 300
#: Numbers are worked with exactly, so that 1e999999 would be a million digits.
MAX_DIGITS = 4_000

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class _DuplicateKey(Exception):
    """Raised from inside the parser; the place is looked for afterwards."""


def load(source: object, budget: Budget) -> object:
    """The JSON value of `source` (text, UTF-8 bytes, or Python data as `json.loads` makes it).

    Raises:
        SourceError: not JSON, a key twice in one object, nested too deep, or numbers too long.
        BudgetExceeded: the source is larger than the budget ``source_bytes``.
    """
    if isinstance(source, (bytes, bytearray)):
        budget.spend("source_bytes", len(source))
        try:
            source = bytes(source).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SourceError(f"not UTF-8 at byte {error.start}", hint="save the schema as UTF-8") from None
    elif isinstance(source, str):
        budget.spend("source_bytes", len(source))
    else:
        return _from_data(source, budget)
    return _from_text(source)


def pointer(*parts: str | int) -> str:
    """A JSON pointer in its URI fragment form (RFC 6901), without percent-encoding, as it is shown to people."""
    return "#" + "".join("/" + escape(str(part)) for part in parts)


def escape(part: str) -> str:
    """One reference token of a JSON pointer (RFC 6901 section 3)."""
    return part.replace("~", "~0").replace("/", "~1") if "~" in part or "/" in part else part


def integer(value: object) -> int | None:
    """The integer that a JSON number stands for (1.0 is 1), or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return None


def _from_text(text: str) -> object:
    _check_depth(text)
    try:
        return json.loads(
            text,
            parse_float=_decimal,
            parse_int=_integer,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_duplicates,
        )
    except _DuplicateKey as error:
        key = str(error)
        raise SourceError(
            f"the key {key!r} is twice in one object", place=_find_duplicate(text, key), hint="remove one of them"
        ) from None
    except json.JSONDecodeError as error:
        place = f"{error.lineno}:{error.colno}"
        raise SourceError(f"not JSON: {error.msg}", place=place, hint="check the file with a JSON linter") from None
    except RecursionError:
        raise SourceError("the schema is nested too deep for this process") from None


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _too_long(text)
    return int(text)


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value and (abs(value.adjusted()) > MAX_DIGITS or len(value.as_tuple().digits) > MAX_DIGITS):
        raise _too_long(text)
    return value


def _too_long(text: str) -> SourceError:
    return SourceError(
        f"the number {text[:40]} needs more than {MAX_DIGITS:,} digits", hint="numbers are kept exactly; round it"
    )


def _refuse_constant(name: str) -> object:
    raise SourceError(f"{name} is not JSON (RFC 8259 section 6)", hint="JSON has neither NaN nor infinities")


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return result


def _check_depth(text: str) -> None:
    """Refuse nesting beyond `MAX_DEPTH` before the recursive parser sees it."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    at = 0
    for string in _STRING.finditer(text):
        depth = _depth_after(text, at, string.start(), depth)
        at = string.end()
    _depth_after(text, at, len(text), depth)


def _depth_after(text: str, start: int, end: int, depth: int) -> int:
    for offset in range(start, end):
        character = text[offset]
        if character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                line = text.count("\n", 0, offset) + 1
                column = offset - text.rfind("\n", 0, offset)
                raise _too_deep(f"{line}:{column}")
        elif character in "]}":
            depth -= 1
    return depth


def _too_deep(place: str) -> SourceError:
    return SourceError(
        f"nested deeper than {MAX_DEPTH} levels", place=place, hint="move inner schemas to $defs and refer to them"
    )


def _find_duplicate(text: str, key: str) -> str | None:
    """line:column of the second `key` within one object of a text that is well formed up to there."""
    frames: list[set[str] | None] = []
    expects_key = False
    for token in _TOKEN.finditer(text):
        value = token.group()
        if value in "[{":
            frames.append(set() if value == "{" else None)
            expects_key = value == "{"
        elif value in "]}":
            frames.pop()
            expects_key = False
        elif value == ",":
            expects_key = bool(frames) and frames[-1] is not None
        elif value == ":":
            expects_key = False
        elif expects_key and frames and (seen := frames[-1]) is not None:
            name = json.loads(value)
            if name in seen and name == key:
                offset = token.start()
                return f"{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}"
            seen.add(name)
            expects_key = False
    return None


def _from_data(source: object, budget: Budget) -> object:
    """Copy Python data, floats to the decimals they print as; checks types and depth without recursion."""
    result: list[object] = [None]
    # (value, container, key or index, depth, place)
    stack: list[tuple[object, object, str | int, int, str]] = [(source, result, 0, 0, "#")]
    while stack:
        value, container, where, depth, place = stack.pop()
        budget.spend("source_bytes", 8, place="#")  # about what a value takes as text
        copied: object
        if isinstance(value, dict):
            children: dict[str, object] = dict.fromkeys(value)  # keeps the order although the stack reverses it
            copied = children
            for key, child in value.items():
                if not isinstance(key, str):
                    raise SourceError(f"the key {key!r} is not a string", place=place)
                stack.append((child, children, key, depth + 1, f"{place}/{escape(key)}"))
        elif isinstance(value, (list, tuple)):
            items: list[object] = [None] * len(value)
            copied = items
            for index, child in enumerate(value):
                stack.append((child, items, index, depth + 1, f"{place}/{index}"))
        elif isinstance(value, float):
            if not math.isfinite(value):
                _refuse_constant(repr(value))
            copied = _decimal(repr(value))
        elif value is None or isinstance(value, (bool, int, str)):
            copied = value
        elif isinstance(value, Decimal) and value.is_finite():
            copied = _decimal(str(value))
        else:
            raise SourceError(f"{type(value).__name__} is not JSON data", place=place)
        if depth > MAX_DEPTH:
            raise _too_deep(place)
        container[where] = copied  # type: ignore[index]
    return result[0]
