"""Random patterns and texts, and a matcher so plain that it can be checked by reading."""

from __future__ import annotations

from hypothesis import strategies as st

from schemac.frontend.regex.ast import Alternation, Anchor, Chars, Concat, Look, Node, Repeat

ALPHABET = "ab1_ -\n"
TEXTS = st.text(ALPHABET, max_size=7)
ATOMS = ["a", "b", "1", "_", " ", r"\-", r"\n", ".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "[ab]", "[^a]", r"[^\w]"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,}", "{0,2}", "{2,3}", "{1,4}", "{4,5}", "*?", "+?", "??", "{1,2}?"]


def patterns(assertions: list[str], looks: list[str]) -> st.SearchStrategy[str]:
    """Patterns with the given assertions and lookaround openings."""

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        group = inner.map(lambda body: f"(?:{body})")
        options = [
            st.lists(inner, min_size=2, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")"),
            st.tuples(group, st.sampled_from(QUANTIFIERS)).map("".join),
        ]
        if looks:
            options.append(st.tuples(st.sampled_from(looks), inner).map(lambda pair: f"{pair[0]}{pair[1]})"))
        return st.one_of(options)

    return st.recursive(st.sampled_from(ATOMS + assertions), extend, max_leaves=9)


def matches(node: Node, text: str, search: bool) -> bool:
    """Whether a text matches, by following the definition."""
    starts = range(len(text) + 1) if search else [0]
    return any(end == len(text) or search for start in starts for end in ends(node, text, start))


def ends(node: Node, text: str, start: int) -> set[int]:
    """All positions where a match that begins at `start` can end."""
    if isinstance(node, Chars):
        return {start + 1} if start < len(text) and ord(text[start]) in node.symbols else set()
    if isinstance(node, Concat):
        here = {start}
        for part in node.parts:
            here = {end for position in here for end in ends(part, text, position)}
        return here
    if isinstance(node, Alternation):
        return {end for part in node.parts for end in ends(part, text, start)}
    if isinstance(node, Repeat):
        # Positions after 0, 1, 2, ... rounds; from len(text) + 1 rounds on, more of them add nothing new.
        top = node.low + len(text) + 1 if node.high is None else node.high
        here, found = {start}, set()
        for count in range(top + 1):
            if count >= node.low:
                found |= here
            here = {end for position in here for end in ends(node.body, text, position)}
        return found
    if isinstance(node, Look):
        if node.ahead:
            holds = bool(ends(node.body, text, start))
        else:
            holds = any(start in ends(node.body, text, begin) for begin in range(start + 1))
        return {start} if holds != node.negative else set()
    return {start} if anchored(node, text, start) else set()


def anchored(node: Anchor, text: str, at: int) -> bool:
    """Whether an anchor holds."""
    before = at > 0 and ord(text[at - 1]) in node.symbols
    after = at < len(text) and ord(text[at]) in node.symbols
    return {
        "start": at == 0,
        "end": at == len(text),
        "line_start": at == 0 or before,
        "line_end": at == len(text) or after,
        "boundary": before != after,
        "not_boundary": before == after,
    }[node.kind]
