"""Reading tokenizer files: every failure is one `VocabularyError` that names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from schemac.errors import VocabularyError

#: Largest file read. The largest published tokenizer files are near 35 MB.
MAX_FILE_BYTES = 512_000_000


def read_bytes(path: Path) -> bytes:
    """The content of `path`.

    Raises:
        VocabularyError: there is no such file, it cannot be read, or it is larger than `MAX_FILE_BYTES`.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise VocabularyError(f"the file is larger than {MAX_FILE_BYTES} bytes", place=str(path))
        return path.read_bytes()
    except FileNotFoundError:
        raise VocabularyError(
            "there is no such tokenizer file", place=str(path), hint="check the path, or give a built-in name"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise VocabularyError(f"the file cannot be read: {reason}", place=str(path)) from None


def parse_json(data: bytes | str, place: str) -> dict[str, Any]:
    """The JSON object in `data`, which was read from `place`.

    Raises:
        VocabularyError: not JSON, or not an object.
    """
    try:
        value = json.loads(data)
    except json.JSONDecodeError as error:
        raise VocabularyError(
            f"not valid JSON: {error.msg}",
            place=f"{place}:{error.lineno}:{error.colno}",
            hint="the file is damaged or cut short; fetch it again",
        ) from None
    except UnicodeDecodeError:
        raise VocabularyError("not JSON: not UTF-8 text", place=place) from None
    except RecursionError:
        raise VocabularyError("the JSON is nested too deeply for a tokenizer file", place=place) from None
    except ValueError as error:  # an integer of thousands of digits
        raise VocabularyError(f"not valid JSON: {error}", place=place) from None
    if not isinstance(value, dict):
        raise VocabularyError(f"a JSON object is expected, not {json_type(value)}", place=place)
    return value


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in the file `path`; see `read_bytes` and `parse_json`."""
    return parse_json(read_bytes(path), str(path))


def json_type(value: object) -> str:
    """What JSON calls the type of `value`, for messages."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


class Reader:
    """Typed access to the fields of JSON objects of one file; a field of another type is a `VocabularyError`.

    Args:
        place: the file, for messages.
    """

    def __init__(self, place: str) -> None:
        self.place = place

    def fail(self, reason: str, construct: str | None = None, hint: str | None = None) -> VocabularyError:
        """An error that names the file."""
        return VocabularyError(reason, place=self.place, construct=construct, hint=hint)

    def mapping(self, value: object, where: str) -> dict[str, Any]:
        """`value`, which must be an object."""
        if not isinstance(value, dict):
            raise self.fail(f"an object is expected, not {json_type(value)}", where)
        return value

    def array(self, value: object, where: str) -> list[Any]:
        """`value`, which must be an array."""
        if not isinstance(value, list):
            raise self.fail(f"an array is expected, not {json_type(value)}", where)
        return value

    def text(self, value: object, where: str) -> str:
        """`value`, which must be a string."""
        if not isinstance(value, str):
            raise self.fail(f"a string is expected, not {json_type(value)}", where)
        return value

    def integer(self, value: object, where: str, high: int) -> int:
        """`value`, which must be an integer in 0..high."""
        if type(value) is not int:
            raise self.fail(f"an integer is expected, not {json_type(value)}", where)
        if not 0 <= value <= high:
            raise self.fail(f"{value} is outside 0..{high}", where)
        return value
