"""Random structural tags over a few characters, so that markers overlap, and texts that come close to them."""

from __future__ import annotations

import random
from typing import Any

LETTERS = ("a", "b", "<", ">", "é")


def word(generator: random.Random, low: int, high: int) -> str:
    return "".join(generator.choice(LETTERS[:4]) for _ in range(generator.randint(low, high)))


def random_format(generator: random.Random, depth: int = 3) -> dict[str, Any]:
    """Any format whose reading does not depend on a vocabulary."""
    leaves = ["const_string", "any_text", "regex", "json_schema"]
    inner = ["sequence", "or", "optional", "star", "plus", "repeat", "tag", "tags_with_separator", "triggered_tags",
             "triggered_tags", "dispatch"]  # fmt: skip
    kind = generator.choice(leaves if depth == 0 else [*leaves, *inner, *inner])
    if kind == "const_string":
        return {"type": kind, "value": word(generator, 0, 3)}
    if kind == "any_text":
        form: dict[str, Any] = {"type": kind, "excludes": _words(generator, 1)}
        if generator.random() < 0.3:
            form["max_chars"] = generator.randint(0, 3)
        return form
    if kind == "regex":
        return {"type": kind, "pattern": generator.choice(["[ab]{0,2}", "a+", "(?:<a|b)", "[^>]"])}
    if kind == "json_schema":
        return {"type": kind, "json_schema": generator.choice([{"enum": [1, "a"]}, {"type": "boolean"}])}
    if kind in ("sequence", "or"):
        elements = [random_format(generator, depth - 1) for _ in range(generator.randint(1, 3))]
        return {"type": kind, "elements": elements}
    if kind in ("optional", "star", "plus"):
        return {"type": kind, "content": random_format(generator, depth - 1)}
    if kind == "repeat":
        low = generator.randint(0, 2)
        high = generator.choice((-1, low, low + 1))
        return {"type": kind, "min": low, "max": high, "content": random_format(generator, depth - 1)}
    if kind == "tag":
        return _tag(generator, depth, word(generator, 0, 2))
    flags = {name: generator.random() < 0.4 for name in ("at_least_one", "stop_after_first")}
    if kind == "tags_with_separator":
        tags = [_tag(generator, depth, word(generator, 1, 3)) for _ in range(generator.randint(1, 2))]
        return {"type": kind, "tags": tags, "separator": word(generator, 0, 2), **flags}
    if kind == "dispatch":
        rules = [[word(generator, 1, 3), random_format(generator, depth - 1)] for _ in range(generator.randint(1, 2))]
        return {"type": kind, "rules": rules, "loop": generator.random() < 0.6, "excludes": _words(generator, 1)}
    triggers = [word(generator, 1, 2) for _ in range(generator.randint(1, 2))]
    tags = [_tag(generator, depth, generator.choice(triggers) + word(generator, 0, 2)) for _ in range(2)]
    return {"type": kind, "triggers": triggers, "tags": tags, "excludes": _words(generator, 1), **flags}


def _words(generator: random.Random, count: int) -> list[str]:
    return [word(generator, 1, 2) for _ in range(generator.randint(0, count))]


def _tag(generator: random.Random, depth: int, begin: str) -> dict[str, Any]:
    ends = [word(generator, generator.random() < 0.8, 2) for _ in range(generator.choice((1, 1, 2)))]
    return {
        "type": "tag",
        "begin": begin,
        "content": random_format(generator, depth - 1),
        "end": ends if len(ends) > 1 else ends[0],
    }


def mutated(generator: random.Random, text: str) -> str:
    """A text of which a character or two have been changed."""
    letters = list(text)
    for _ in range(generator.randint(1, 2)):
        where = generator.randint(0, len(letters))
        if letters and generator.random() < 0.5:
            letters.pop(min(where, len(letters) - 1))
        else:
            letters.insert(where, generator.choice(LETTERS))
    return "".join(letters)
