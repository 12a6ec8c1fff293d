"""Large schemas made to a size, for measurements of cold compiles."""

from __future__ import annotations

import json
import random
from typing import Any


def big_schema(size: int, seed: int) -> dict[str, Any]:
    """A schema of about `size` bytes of JSON: an object of objects, as generated API descriptions are; no two alike."""
    rng = random.Random(seed)
    words = ["order", "item", "price", "state", "owner", "label", "count", "street", "region", "code", "rate", "unit"]
    properties: dict[str, Any] = {}
    length = 0
    while length < size:
        name = "_".join(rng.choices(words, k=2)) + f"_{len(properties)}_{rng.randrange(10**6)}"
        kinds: list[dict[str, Any]] = [
            {"type": "string", "description": "free text about " + " ".join(rng.choices(words, k=8))},
            {"type": "integer", "minimum": rng.randrange(10), "maximum": rng.randrange(100, 10**6)},
            {"type": "string", "enum": [f"{word}-{rng.randrange(1000)}" for word in rng.sample(words, 6)]},
            {"type": "array", "items": {"type": "number"}},
            {"type": ["boolean", "null"]},
        ]
        rng.shuffle(kinds)
        inner = {rng.choice(words) + str(index): kind for index, kind in enumerate(kinds)}
        properties[name] = {"type": "object", "properties": inner, "required": list(inner)[:2],
                            "additionalProperties": False}  # fmt: skip
        length += len(json.dumps(name)) + len(json.dumps(properties[name])) + 4
    return {"type": "object", "properties": properties, "required": list(properties)[:3],
            "additionalProperties": False}  # fmt: skip
