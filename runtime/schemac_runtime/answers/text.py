"""Read the JSON text of an answer or a schema: exact numbers, no duplicate keys, no lone surrogates."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from schemac_runtime.answers.problems import Problem, pointer

#: Numbers are compared exactly, so that 1e999999 would be a million digits.
MAX_DIGITS = 4_000


class NotReadable(Exception):
    """The text is no JSON that could be checked; holds the `Problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _Refused(Exception):
    """Raised inside the parser with a reason; the place is not known there."""


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text, its fractions as `Decimal`.

    Raises:
        NotReadable: not UTF-8, not JSON (RFC 8259), a key twice in one object, a lone surrogate, a number too long or
            nesting too deep to be checked.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        value = json.loads(decoded, parse_float=_number, parse_constant=_constant, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise NotReadable(Problem(f"not UTF-8 at byte {error.start}", "#")) from None
    except json.JSONDecodeError as error:
        raise NotReadable(Problem(f"not JSON: {error.msg}", f"{error.lineno}:{error.colno}")) from None
    except _Refused as error:
        raise NotReadable(Problem(str(error), "#")) from None
    except RecursionError:
        raise NotReadable(Problem("nested too deep to be checked", "#")) from None
    except ValueError as error:  # integers beyond the interpreter's limit of digits
        raise NotReadable(Problem(f"a number is too long to be checked: {error}", "#")) from None
    _refuse_surrogates(value)
    return value


def _number(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise _Refused(f"the number {text[:40]} is too long to be checked") from None
    if value and abs(value.adjusted()) + len(value.as_tuple().digits) > MAX_DIGITS:
        raise _Refused(f"the number {text[:40]} is too long to be checked")
    return value


def _constant(name: str) -> NoReturn:
    raise _Refused(f"not JSON: {name} (RFC 8259, section 6)")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"the key {key!r} is twice in one object")
            seen.add(key)
    return result


def _refuse_surrogates(value: Any) -> None:
    """A lone surrogate is no character (RFC 8259, section 8.2): lengths and patterns say nothing about it."""
    stack: list[tuple[Any, tuple[str | int, ...]]] = [(value, ())]
    while stack:
        current, path = stack.pop()
        if isinstance(current, str):
            if not current.isascii() and any("\ud800" <= char <= "\udfff" for char in current):
                raise NotReadable(Problem("the string has a lone surrogate", pointer(*path)))
        elif isinstance(current, dict):
            for key, member in current.items():
                stack.append((key, path))
                stack.append((member, (*path, key)))
        elif isinstance(current, list):
            stack.extend((item, (*path, index)) for index, item in enumerate(current))
