"""JSON Pointer (RFC 6901, section 3), relative JSON Pointer (draft-handrews-relative-json-pointer-01, section 3).

The later draft of relative pointers also moves between array items (``0+1/a``, draft-bhutton-relative-json-pointer-00);
common validators refuse that, and it is left out.
"""

from __future__ import annotations

_REFERENCE = "(?:[^~/]|~[01])*"

#: `json-pointer`; any character but ``~`` and ``/`` stands for itself.
JSON_POINTER = f"(?:/{_REFERENCE})*"
RELATIVE_JSON_POINTER = f"(?:0|[1-9][0-9]*)(?:#|{JSON_POINTER})"
RELATIVE_JSON_POINTER_AT_MOST = rf"(?:0|[1-9][0-9]*)(?:[+-](?:0|[1-9][0-9]*))?(?:#|{JSON_POINTER})"
