r"""Anchors and word boundaries, by splitting the nodes of an automaton.

An anchor asks about the two neighbours of a position only. So every node is split by what has just been read (the
start of the text, or a category of characters that the anchors tell apart) and by what may come next (a set of
categories and the end of the text), which an anchor narrows down. Only what can be reached and can accept is built.
"""

from __future__ import annotations

from schemac.budget import Budget
from schemac.frontend.regex.ast import Anchor
from schemac.frontend.regex.thompson import Thompson
from schemac.ir.charset import SCALARS, CharSet
from schemac.ir.nfa import Nfa

_START = -1  # "category" of what was read before the first character


def without_anchors(thompson: Thompson, budget: Budget) -> Nfa:
    """The automaton of a pattern whose guards are all anchors, over characters."""
    plain = thompson.nfa
    guards: dict[int, list[tuple[Anchor, int]]] = {}
    for source, guard, target in thompson.guards:
        assert isinstance(guard, Anchor)
        guards.setdefault(source, []).append((guard, target))
    categories, inside = _categories([anchor for row in guards.values() for anchor, _ in row])
    end = 1 << len(categories)
    anything = 2 * end - 1
    result = Nfa(plain.limit)
    parts: dict[tuple[int, int], int | None] = {}

    def part(label: int, category: int) -> int | None:
        """The label of those characters of a label that are in a category; None if there are none."""
        found = parts.get((label, category), -1)
        if found == -1:
            symbols = plain.labels[label] & categories[category]
            found = parts[label, category] = result.label(symbols) if symbols else None
        return found

    number = {(plain.start, _START, anything): result.start}
    queue = list(number)
    before: list[list[int]] = [[]]

    def reach(node: int, previous: int, allowed: int, source: int) -> int:
        key = (node, previous, allowed)
        found = number.get(key)
        if found is None:
            found = number[key] = result.node()
            queue.append(key)
            before.append([])
            result.rank_like(plain, node, found, (previous, allowed))
        before[found].append(source)
        return found

    for here, (node, previous, allowed) in enumerate(queue):  # grows meanwhile
        if not here & 1023:
            budget.spend("regex_states", min(1024, len(queue) - here))
        for target in plain.epsilons[node]:
            result.epsilon(here, reach(target, previous, allowed, here))
        for anchor, target in guards.get(node, ()):
            narrowed = allowed & _allowed(anchor, previous, inside[anchor.symbols], end)
            if narrowed:
                result.epsilon(here, reach(target, previous, narrowed, here))
        for label, target in plain.edges[node]:
            for category in range(len(categories)):
                if allowed >> category & 1 and (symbols := part(label, category)) is not None:
                    result.labelled(here, symbols, reach(target, category, anything, here))
        if node in plain.finals and allowed & end:
            result.final(here)
            if node in plain.universal and allowed == anything:
                result.universal.add(here)
    # Drop what can never accept, such as a search that goes on past its last chance.
    alive = set(result.finals)
    stack = list(alive)
    while stack:
        for source in before[stack.pop()]:
            if source not in alive:
                alive.add(source)
                stack.append(source)
    result.edges = [[edge for edge in row if edge[1] in alive] for row in result.edges]
    return result


def _categories(anchors: list[Anchor]) -> tuple[list[CharSet], dict[CharSet, int]]:
    """Sets that no anchor tells apart, and per set that an anchor names, its categories as bits."""
    categories = [SCALARS]
    for symbols in dict.fromkeys(anchor.symbols for anchor in anchors):
        categories = [part for old in categories for part in (old & symbols, old - symbols) if part]
    inside = {
        symbols: sum(1 << index for index, part in enumerate(categories) if part & symbols)
        for symbols in (anchor.symbols for anchor in anchors)
    }
    return categories, inside


def _allowed(anchor: Anchor, previous: int, inside: int, end: int) -> int:
    """What may come next where an anchor holds, as bits of categories and `end`."""
    anything = 2 * end - 1
    after = previous != _START and bool(inside >> previous & 1)
    if anchor.kind == "start":
        return anything if previous == _START else 0
    if anchor.kind == "end":
        return end
    if anchor.kind == "line_start":
        return anything if previous == _START or after else 0
    if anchor.kind == "line_end":
        return inside | end
    return inside if after == (anchor.kind == "not_boundary") else anything & ~inside
