"""Messages between a server and its compile workers.

A message is two lengths (4 bytes each, little-endian), a JSON object of the first length, and data of the second.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

LENGTHS = struct.Struct("<II")


def read_message(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """The next message; None at the end of the stream, or where it breaks off."""
    head = stream.read(LENGTHS.size)
    if len(head) < LENGTHS.size:
        return None
    length, size = LENGTHS.unpack(head)
    text = stream.read(length)
    data = stream.read(size) if size else b""
    if len(text) < length or len(data) < size:
        return None
    return json.loads(text), data


def encode_message(header: dict[str, Any], data: bytes = b"") -> bytes:
    """The bytes of a message."""
    text = json.dumps(header).encode()
    return LENGTHS.pack(len(text), len(data)) + text + data
