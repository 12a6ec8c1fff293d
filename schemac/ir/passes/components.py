"""Strongly connected components of a relation between numbered things, without recursion (Tarjan 1972)."""

from __future__ import annotations

from collections.abc import Sequence


def strong_components(successors: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """(component of each item, members of each component ascending); a component comes after those it leads to."""
    count = len(successors)
    order = [-1] * count  # when an item was entered
    lowest = [0] * count  # the earliest item on the stack that it leads to
    component = [-1] * count
    members: list[list[int]] = []
    open_items: list[int] = []
    entered = 0
    for root in range(count):
        if order[root] >= 0:
            continue
        path = [(root, 0)]
        while path:
            item, index = path.pop()
            if index == 0:
                order[item] = lowest[item] = entered
                entered += 1
                open_items.append(item)
            else:
                lowest[item] = min(lowest[item], lowest[successors[item][index - 1]])
            targets = successors[item]
            while index < len(targets):
                target = targets[index]
                index += 1
                if order[target] < 0:
                    path.append((item, index))
                    path.append((target, 0))
                    break
                if component[target] < 0:
                    lowest[item] = min(lowest[item], order[target])
            else:
                if lowest[item] == order[item]:
                    group = open_items[open_items.index(item) :] if open_items[-1] != item else [item]
                    del open_items[len(open_items) - len(group) :]
                    for member in group:
                        component[member] = len(members)
                    members.append(sorted(group))
    return component, members
