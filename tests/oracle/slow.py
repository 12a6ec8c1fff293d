"""An independent, slow answer to every mask bit: is there a completion after this text and this token?

It reads the symbolic `Module`, before any pass has touched it, with whole stacks as tuples and nothing shared,
compiled or merged; what it has in common with the compiler is the meaning of a graph and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemac.ir.graph import Module

Place = tuple[tuple[int, int], ...]  # (procedure, node) of every frame, the innermost last


class SlowRecognizer:
    """Sets of places of one module; only places from which an end can be reached with bytes are kept."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.productive = self._productive_nodes()

    def _productive_nodes(self) -> set[tuple[int, int]]:
        """(procedure, node) pairs from which the procedure can end."""
        good: set[tuple[int, int]] = set()
        while True:
            before = len(good)
            for number, procedure in enumerate(self.module.procedures):
                graph = procedure.graph
                for node in range(len(graph)):
                    targets = [t for _, _, t in graph.byte_edges[node]] + list(graph.epsilons[node])
                    targets += [t for _, t in graph.token_edges[node]]
                    targets += [t for p, t in graph.call_edges[node] if (p, 0) in good]
                    if node in graph.finals or any((number, t) in good for t in targets):
                        good.add((number, node))
            if len(good) == before:
                return good

    def closure(self, places: Iterable[Place]) -> frozenset[Place]:
        found: set[Place] = set()
        pending = [p for p in places if p[-1] in self.productive]
        while pending:
            place = pending.pop()
            if place in found:
                continue
            found.add(place)
            assert len(found) < 20_000, "too ambiguous for an oracle that shares nothing"
            *below, (number, node) = place
            graph = self.module.procedures[number].graph
            after: list[Place] = [(*below, (number, t)) for t in graph.epsilons[node]]
            after += [(*below, (number, t), (p, 0)) for p, t in graph.call_edges[node]]
            if node in graph.finals and below:
                after.append(tuple(below))
            # Only the two innermost frames of a place are new.
            pending += [p for p in after if all(frame in self.productive for frame in p[-2:])]
        return frozenset(found)

    def start(self) -> frozenset[Place]:
        return self.closure([((0, 0),)])

    def read(self, places: frozenset[Place], data: bytes) -> frozenset[Place]:
        for byte in data:
            after = []
            for *below, (number, node) in places:
                for low, high, target in self.module.procedures[number].graph.byte_edges[node]:
                    if low <= byte <= high:
                        after.append((*below, (number, target)))
            places = self.closure(after)
        return places

    def read_token(self, places: frozenset[Place], text: str) -> frozenset[Place]:
        """The places after the special token of that text."""
        return self.closure(
            (*below, (number, target))
            for *below, (number, node) in places
            for texts, target in self.module.procedures[number].graph.token_edges[node]
            if text in texts
        )

    def ended(self, places: frozenset[Place]) -> bool:
        return any(len(p) == 1 and p[0][1] in self.module.procedures[p[0][0]].graph.finals for p in places)

    def accepts(self, text: bytes) -> bool:
        return self.ended(self.read(self.start(), text))


def token_live(recognizer: SlowRecognizer, tokens: list[bytes], limit: int = 5_000) -> dict[frozenset[Place], bool]:
    """For every place set that tokens can reach: can tokens finish the text? Only for finitely many place sets."""
    start = recognizer.start()
    successors: dict[frozenset[Place], set[frozenset[Place]]] = {}
    pending = [start]
    while pending:
        places = pending.pop()
        if places in successors:
            continue
        assert len(successors) < limit, "not a finite grammar"
        successors[places] = {after for token in tokens if (after := recognizer.read(places, token))}
        pending += successors[places]
    live = {places: recognizer.ended(places) for places in successors}
    while True:
        changed = [p for p, after in successors.items() if not live[p] and any(live[a] for a in after)]
        if not changed:
            return live
        live.update(dict.fromkeys(changed, True))
