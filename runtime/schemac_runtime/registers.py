"""Registers: what a frame of a guarded procedure counts and remembers beside its states.

A register is an immutable value that belongs to one frame of one configuration. It is made when the frame is entered,
changes with the bytes and actions that are read in the frame, and is asked once more when the frame ends. `None`
instead of a register says that the text cannot be: too many characters, or the same key again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

NEXT, KEY = ACTIONS = ("next", "key")
#: Whitespace of JSON (RFC 8259, section 2).
SPACES = b" \t\n\r"
KINDS = ("characters", "items", "members", "repeats")


@dataclass(frozen=True, slots=True)
class Guard:
    """What every frame of a procedure counts and remembers in a register of its own.

    All but the last kind end their frames by reading a byte. The kinds, and when their actions happen (each right after
    a byte):

        characters   the contents of a JSON string and its closing quotation mark (RFC 8259, section 7): every character
                     counts one, an escape too, the escapes of a surrogate pair together; no actions
        items        what follows `[`, with the closing bracket; "next" after each comma of this array
        members      what follows `{`, with the closing brace; "key" after the closing quotation mark of each key of
                     this object, "next" after each of its commas
        repeats      one text after another, at least one; each is read by a call, and every call that the frame makes
                     counts one; no actions. The frame reads no bytes of its own, and ends after any of the calls

    Attributes:
        kind: as above.
        low, high: how many characters, items, keys or calls there are at the end; None for no bound.
        distinct: no two items, or keys, have the same value.
        required: of "members" that are distinct, the keys that there must be at the end, see `canonical_value`.
    """

    kind: str
    low: int = 0
    high: int | None = None
    distinct: bool = False
    required: frozenset[bytes] = frozenset()

    def described(self) -> list[Any]:
        """The guard as JSON data, the required keys as they are written."""
        keys = [[key.decode() for key in sorted(self.required)]] if self.required else []
        return [self.kind, self.low, self.high, self.distinct, *keys]

    @staticmethod
    def read(described: Sequence[Any]) -> Guard:
        """The inverse of `described`.

        Raises:
            ValueError: it is something else.
        """
        kind, low, high, distinct, *more = described
        keys = more[0] if more else []
        if len(more) > 1 or not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise ValueError("required keys must be a list of texts")
        return Guard(kind, low, high, distinct, frozenset(key.encode() for key in keys))


class Register(NamedTuple):
    """The value of a register.

    Attributes:
        number: characters, items, keys or calls so far. An item counts at the comma behind it, a call when it begins.
        mode: of "characters", where in an escape the text stands, see `_MODES`; of "repeats", how many counts there are
            beside `number`: an ambiguous text may have any of `number` to `number + mode`.
        start: where in the whole text, in bytes, the item or key begins that is being read; -1 for none.
        seen: the items or keys so far, see `canonical_value`, if they must be distinct.
        missing: how many required keys are still to come.
    """

    number: int = 0
    mode: int = 0
    start: int = -1
    seen: frozenset[bytes] = frozenset()
    missing: int = 0


#: `Register.mode`: between characters; behind a backslash; then, behind `\u`, the digits still to come, 100 added if
#: the escape began like a high surrogate; then what is left of the second escape of a pair; behind the closing mark.
_PLAIN, _ESCAPE, _HIGH, _CLOSED = 0, 1, 100, -1
_PAIR = 50
_BACKSLASH, _QUOTE, _U = 0x5C, 0x22, 0x75


def opened(guard: Guard, position: int) -> Register:
    """The register of a frame that is entered where `position` bytes of the text have been read."""
    if guard.kind in ("items", "members"):
        return Register(start=position, missing=len(guard.required))
    return Register()


def character(guard: Guard, register: Register, byte: int) -> Register | None:
    """The register of kind "characters" after one byte of its frame."""
    count, mode = register.number, register.mode
    if mode == _PLAIN:
        if byte == _QUOTE:
            return None if count < guard.low else Register(count, _CLOSED)
        if byte & 0xC0 == 0x80:  # within a character (RFC 3629, section 3)
            return register
        return _counted(guard, register, _ESCAPE if byte == _BACKSLASH else _PLAIN)
    if mode == _ESCAPE:
        return Register(count, 2 if byte == _U else _PLAIN)
    if mode >= _PAIR and mode < _HIGH:  # \uDC00..\uDFFF of a pair: six bytes that count nothing
        return Register(count, _PLAIN if mode == _PAIR + 5 else mode + 1)
    # Behind \u: modes 2..5 say how many digits have been read; 103 behind a first digit D, 104 and 105 as 4 and 5.
    high = mode >= _HIGH
    digits = mode - _HIGH - 2 if high else mode - 2
    if digits == 0:
        return Register(count, _HIGH + 3 if byte in b"dD" else 3)
    if digits == 1 and high and byte not in b"89abAB":
        return Register(count, 4)
    if digits == 3:
        return Register(count, _PAIR if high else _PLAIN)
    return Register(count, mode + 1)


def _counted(guard: Guard, register: Register, mode: int) -> Register | None:
    count = register.number + 1
    if guard.high is None:
        count = min(count, guard.low)
    elif count > guard.high:
        return None
    return Register(count, mode)


def plain_characters(guard: Guard, register: Register, count: int) -> Register | None:
    """As `character` for `count` more characters without escapes, where the text stands between two."""
    return calls_counted(guard, register, count)


def acted(guard: Guard, register: Register, action: str, text: bytes | bytearray, position: int) -> Register | None:
    """The register after an action.

    Args:
        text: the whole text, at least `position` bytes.
        position: where in it the byte of the action ends.
    """
    if guard.kind == "members" and action == NEXT:
        if guard.high is not None and register.number >= guard.high:
            return None
        return register._replace(start=position)
    count = register.number + 1
    if action == KEY:
        added = _remembered(guard, register, text, register.start, position)
        if added is None:
            return None
        missing = register.missing
        if missing and canonical_value(bytes(text[register.start : position])) in guard.required:
            missing -= 1
        if guard.high is not None and count + missing > guard.high:
            return None
        register = Register(count, 0, -1, added, missing)
    else:
        added = _remembered(guard, register, text, register.start, position - 1)
        if added is None or (guard.high is not None and count >= guard.high):
            return None
        register = Register(count, 0, position, added)
    if guard.high is None:
        return register._replace(number=min(count, guard.low))
    return register if count <= guard.high else None


def called(guard: Guard, register: Register) -> Register | None:
    """The register of kind "repeats" after one more call of its frame."""
    return _counted(guard, register, 0)


def calls_counted(guard: Guard, register: Register, count: int) -> Register | None:
    """As `called` for `count` more calls; counts that are too many are left out."""
    first, last = register.number + count, register.number + register.mode + count
    if guard.high is None:
        first, last = min(first, guard.low), min(last, guard.low)
    elif first > guard.high:
        return None
    else:
        last = min(last, guard.high)
    return Register(first, last - first)


def may_close(guard: Guard, register: Register, text: bytes | bytearray, position: int) -> bool:
    """Whether the frame may end, where `position` bytes have been read, the last of which ends it but for "repeats"."""
    if guard.kind == "characters":
        return register.mode == _CLOSED
    if guard.kind == "repeats":
        return register.number + register.mode >= guard.low
    count = register.number
    if register.missing:
        return False
    if guard.kind == "items" and text[register.start : position - 1].strip():
        count += 1
        if _remembered(guard, register, text, register.start, position - 1) is None:
            return False
    return count >= guard.low and (guard.high is None or count <= guard.high)


def _remembered(
    guard: Guard, register: Register, text: bytes | bytearray, start: int, end: int
) -> frozenset[bytes] | None:
    if not guard.distinct:
        return register.seen
    value = canonical_value(bytes(text[start:end]))
    return None if value in register.seen else register.seen | {value}


def is_full(guard: Guard, register: Register) -> bool:
    """Whether only required keys may come."""
    return guard.high is not None and register.number + register.missing >= guard.high


def has_room(guard: Guard, register: Register, text: bytes) -> bool:
    """Whether the text of a key so far, b"" before its quotation mark, leaves room for the required keys to come.

    Declared keys have one spelling, so that the text of a required key is its canonical one.
    """
    if not text or not is_full(guard, register):
        return True
    return any(key.startswith(text) for key in guard.required - register.seen)


# -- values ----------------------------------------------------------------------------------------------------

_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|[-0-9][0-9.eE+-]*|true|false|null|[\[\]{}:,]')
_PUNCTUATION = (*(bytes((byte,)) for byte in b"[]{}:,"),)
#: Exponents with more digits are compared as they are written: there is no telling their numbers apart otherwise.
_LONG_EXPONENT = 1_000
_NUMBER = re.compile(rb"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")


def canonical_value(text: bytes) -> bytes:
    """A text that two JSON texts share if and only if their values are equal (JSON Schema 2020-12 core, section 4.2.2).

    Numbers are equal by value, strings by characters, objects by their members in any order. Reads well-formed JSON of
    any depth without recursion.
    """
    text = text.strip()
    if text[:1] == b'"' and b"\\" not in text:
        return text
    done: list[list[bytes]] = [[]]
    for piece in _SCALAR.findall(text):
        if piece in (b"[", b"{"):
            done.append([])
        elif piece == b"]":
            items = done.pop()
            done[-1].append(b"[" + b",".join(items) + b"]")
        elif piece == b"}":
            parts = done.pop()
            members = sorted(b":".join(pair) for pair in zip(parts[::2], parts[1::2], strict=True))
            done[-1].append(b"{" + b",".join(members) + b"}")
        elif piece not in b":,":
            done[-1].append(_scalar(piece))
    return b"".join(done[0])


def begun_value(text: bytes) -> bytes | None:
    """As `canonical_value`, for a JSON text that has got as far as a comma between items or members; None elsewhere."""
    closing: list[bytes] = []
    end = 0
    for match in _SCALAR.finditer(text):
        if b'"' in text[end : match.start()]:  # a string that has not ended
            return None
        piece, end = match[0], match.end()
        if piece in (b"[", b"{"):
            closing.append(b"]" if piece == b"[" else b"}")
        elif piece in (b"]", b"}") and closing:
            closing.pop()
    if end != len(text) or text[-1:] != b"," or not closing:
        return None
    depth = b"%d:" % len(closing)
    return depth + canonical_value(text + b"".join(reversed(closing)))


def scalars(text: bytes, *, whole: bool = False) -> frozenset[bytes]:
    """The strings, keys, numbers and literals in the beginning of a JSON text, each as its `canonical_value`.

    What may still go on at the end of the text is left out, unless the text is a whole one.
    """
    found: set[bytes] = set()
    end = 0
    for match in _SCALAR.finditer(text):
        if b'"' in text[end : match.start()]:  # a string that has not ended
            break
        end = match.end()
        if match[0] not in _PUNCTUATION and (whole or end < len(text) or match[0][:1] == b'"'):
            found.add(_scalar(match[0]))
    return frozenset(found)


def _scalar(piece: bytes) -> bytes:
    if piece[:1] == b'"':
        if b"\\" not in piece:
            return piece
        return json.dumps(json.loads(piece), ensure_ascii=False).encode("utf-8", "surrogatepass")
    found = _NUMBER.fullmatch(piece)
    if found is None:
        return piece  # true, false, null
    sign, whole, fraction, exponent = found.groups()
    if len(exponent or b"") > _LONG_EXPONENT:
        return piece
    digits = (whole + (fraction or b"")).lstrip(b"0")
    power = int(exponent or b"0") - len(fraction or b"")
    stripped = digits.rstrip(b"0")
    if not stripped:
        return b"0"
    return sign + stripped + b"e%d" % (power + len(digits) - len(stripped))
