"""Special tokens in grammars: ``<name>``, and by id ``<[128010]>``, ``<[128000-128010,128020]>``.

The label of a token by name is the name with its angle brackets, as most special tokens have it as their text. The
label of a token by id is ``<[id]>``; the linker knows that form.
"""

from __future__ import annotations

from schemac.frontend.grammar import expression as ex
from schemac.frontend.grammar.source import Source

_MAX_IDS = 4_096
_LONGEST = 200


def id_label(token: int) -> str:
    """The label of the token with this id."""
    return f"<[{token}]>"


def read_token(source: Source, begin: int) -> tuple[ex.Tokens, int]:
    """The token at a position, and the position behind it."""
    text = source.text
    if text.startswith("!", begin):
        raise source.unsupported(
            "which tokens there are depends on the vocabulary", begin, begin + 2, hint="name the tokens that may come"
        )
    end = text.find(">", begin, begin + _LONGEST) + 1
    inside = text[begin + 1 : end - 1]
    if not end or not inside or any(char in inside for char in "\n\r<"):
        raise source.wrong("this token has no end", begin, begin + 1, hint="as in <think> or <[128010]>")
    if not inside.startswith("["):
        return ex.Tokens((text[begin:end],)), end
    if not inside.endswith("]"):
        raise source.wrong("the closing bracket is missing", begin, end, hint="as in <[128010]>")
    listed = inside[1:-1]
    if listed.startswith("^") or "*" in listed:
        raise source.unsupported(
            "which tokens there are depends on the vocabulary", begin, end, hint="name the tokens that may come"
        )
    labels: list[str] = []
    for part in listed.split(","):
        low, dash, high = (piece.strip() for piece in part.partition("-"))
        if not part.isascii() or not low.isdigit() or bool(dash) != high.isdigit() or len(part) > 40:
            raise source.wrong("ids of tokens are expected", begin, end, hint="as in <[128000-128010,128020]>")
        first, last = int(low), int(high or low)
        if last < first:
            raise source.wrong("this range is upside down", begin, end)
        if len(labels) + last - first >= _MAX_IDS:
            raise source.unsupported(f"these are more than {_MAX_IDS:,} tokens", begin, end)
        labels += map(id_label, range(first, last + 1))
    return ex.Tokens(tuple(labels)), end
