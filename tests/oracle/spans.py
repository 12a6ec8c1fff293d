"""Which parts of a text each procedure reads: a least fixpoint over (procedure, begin, end), as in a chart parser.

It knows nothing of passes, stacks or recognizers, and left recursion, cycles and empty procedures are all one to it.
"""

from __future__ import annotations

from schemac.ir.graph import Module


def accepts(module: Module, text: bytes) -> bool:
    """Whether procedure 0 reads the whole text."""
    size = len(text)
    # ends[p, i]: where p can end if it begins at i.
    places = [(p, i) for p in range(len(module.procedures)) for i in range(size + 1)]
    ends: dict[tuple[int, int], set[int]] = {place: set() for place in places}
    while True:
        before = sum(map(len, ends.values()))
        for number, begin in ends:
            ends[number, begin] |= _ends(module, number, begin, text, ends)
        if sum(map(len, ends.values())) == before:
            return size in ends[0, 0]


def _ends(module: Module, number: int, begin: int, text: bytes, ends: dict[tuple[int, int], set[int]]) -> set[int]:
    graph = module.procedures[number].graph
    seen = {(0, begin)}
    stack = [(0, begin)]
    while stack:
        node, at = stack.pop()
        found = [(target, at) for target in graph.epsilons[node]]
        if at < len(text):
            found += [(target, at + 1) for low, high, target in graph.byte_edges[node] if low <= text[at] <= high]
        for callee, target in graph.call_edges[node]:
            found += [(target, end) for end in ends[callee, at]]
        for place in found:
            if place not in seen:
                seen.add(place)
                stack.append(place)
    return {at for node, at in seen if node in graph.finals}
