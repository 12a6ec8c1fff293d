"""Partition refinement with a work list: the coarsest partition in which the members of a block agree.

What is looked at again is only what leads to an item that moved, and of a split block the largest part keeps its
number, so that each item moves at most log(n) times (Hopcroft 1971).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable


def refine(
    number: list[int],
    signature: Callable[[int], Hashable],
    before: Callable[[int], Iterable[int]],
    moved: Callable[[list[tuple[int, int]]], None],
) -> int:
    """Split blocks until each one's members have one signature. Returns the number of blocks.

    Args:
        number: the block of each item, 0, 1, 2, ...; changed in place.
        signature: what an item does, in terms of the present `number`.
        before: the items whose signature depends on an item.
        moved: called once per round with (item, new block), after `number` has changed.
    """
    members: list[set[int]] = [set() for _ in range(max(number, default=-1) + 1)]
    for item, block in enumerate(number):
        members[block].add(item)
    dirty = [item for block in members if len(block) > 1 for item in sorted(block)]
    while dirty:
        by_block: dict[int, list[int]] = {}
        for item in dirty:
            by_block.setdefault(number[item], []).append(item)
        moves: list[tuple[int, int]] = []
        for block, items in by_block.items():
            if len(members[block]) == 1:
                continue
            for part in _parts_that_leave(members[block], items, signature):
                members.append(set(part))
                members[block].difference_update(part)
                moves.extend((item, len(members) - 1) for item in part)
        for item, block in moves:
            number[item] = block
        moved(moves)
        dirty = sorted({source for item, _ in moves for source in before(item)})
    return len(members)


def _parts_that_leave(
    members: set[int], items: list[int], signature: Callable[[int], Hashable]
) -> list[list[int]]:
    """How to split a block of which only `items` may disagree with the others: all parts but the largest."""
    groups: dict[Hashable, list[int]] = {}
    for item in items:
        groups.setdefault(signature(item), []).append(item)
    clean = len(members) - len(items)
    if clean:
        looked = set(items)
        witness = next(item for item in members if item not in looked)
        clean += len(groups.pop(signature(witness), ()))
    parts = sorted(groups.values(), key=len)
    if parts and len(parts[-1]) > clean:
        kept = set(parts.pop())
        rest = members - kept - {item for part in parts for item in part}
        if rest:
            parts.append(sorted(rest))
    return parts
