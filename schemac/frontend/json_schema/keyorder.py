"""The canonical order of the declared keys of an object."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import pairwise

from schemac.frontend.json_schema.formula import FALSE, Formulas


def key_order(formulas: Formulas, formula: int) -> tuple[str, ...]:
    """The keys that a formula about objects names: those of `properties`, then those only required or excluded.

    Each branch keeps its own order where the branches agree; where they do not, the first one wins.

    Args:
        formulas: the store.
        formula: split for objects, see `typed`.
    """
    sequences: list[list[str]] = []
    named: dict[str, None] = {}
    seen: set[int] = set()
    stack: list[tuple[int, list[str] | None]] = [(formula, None)]
    while stack:
        current, sequence = stack.pop()
        if sequence is None:  # a branch of its own
            sequence = []
            sequences.append(sequence)
        node = formulas.nodes[current]
        if node[0] in ("and", "or"):
            if current in seen:  # formulas share parts; each tells its keys once
                continue
            seen.add(current)
        if node[0] == "and":
            stack.extend((part, sequence) for part in reversed(node[1]))
        elif node[0] == "or":
            stack.extend((part, None) for part in reversed(node[1]))
        elif node[0] in ("lit", "dual"):
            atom = node[2]
            if atom[0] == "property":
                if node[0] == "lit" and atom[2] != FALSE:
                    sequence.append(atom[1])
                else:
                    named[atom[1]] = None
            elif atom[0] == "keys" and atom[1][0] in ("other", "class"):
                named.update(dict.fromkeys(atom[1][1]))
    return _merged([*sequences, list(named)])


def _merged(sequences: list[list[str]]) -> tuple[str, ...]:
    """One sequence that keeps the order of each as far as earlier ones allow; ties go to the first appearance."""
    rank: dict[str, int] = {}
    for sequence in sequences:
        for name in sequence:
            rank.setdefault(name, len(rank))
    if all(_ascending([rank[name] for name in dict.fromkeys(sequence)]) for sequence in sequences[:-1]):
        return tuple(rank)
    names = list(rank)
    after: list[set[int]] = [set() for _ in names]
    before = [0] * len(names)
    for sequence in sequences[:-1]:
        previous: int | None = None
        for name in dict.fromkeys(sequence):
            number = rank[name]
            if previous is not None and number not in after[previous] and not _reaches(after, number, previous):
                after[previous].add(number)
                before[number] += 1
            previous = number
    ready = [number for number, count in enumerate(before) if not count]
    heapify(ready)
    result: list[str] = []
    while ready:
        number = heappop(ready)
        result.append(names[number])
        for later in after[number]:
            before[later] -= 1
            if not before[later]:
                heappush(ready, later)
    return tuple(result)


def _ascending(numbers: list[int]) -> bool:
    return all(a < b for a, b in pairwise(numbers))


def _reaches(after: list[set[int]], start: int, goal: int) -> bool:
    seen = {start}
    stack = [start]
    while stack:
        current = stack.pop()
        if current == goal:
            return True
        for later in after[current]:
            if later not in seen:
                seen.add(later)
                stack.append(later)
    return False
