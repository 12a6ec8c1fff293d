"""Free text against its definition, by `bytes.find`."""

from __future__ import annotations

import random

from schemac.budget import Budget
from schemac.frontend.free_text import FreeText, Marker, Shortcut
from schemac.ir.graph import Graph

LETTERS = (b"a", b"b", b"<")


def word(generator: random.Random, low: int, high: int) -> bytes:
    return b"".join(generator.choice(LETTERS) for _ in range(generator.randint(low, high)))


def reached(graph: Graph, text: bytes) -> set[int]:
    """The nodes after a text, by plain simulation."""

    def closed(nodes: set[int]) -> set[int]:
        pending = list(nodes)
        while pending:
            for target in graph.epsilons[pending.pop()]:
                if target not in nodes:
                    nodes.add(target)
                    pending.append(target)
        return nodes

    here = closed({0})
    for byte in text:
        here = closed({t for node in here for low, high, t in graph.byte_edges[node] if low <= byte <= high})
    return here


def is_free(text: bytes, excludes: list[bytes], longest: int | None) -> bool:
    try:
        characters = text.decode()
    except UnicodeDecodeError:
        return False
    return not any(x in text for x in excludes) and (longest is None or len(characters) <= longest)


def test_every_text_is_read_as_defined() -> None:
    generator = random.Random(1)
    completed = 0
    for _ in range(800):
        markers = [word(generator, 1, 4) for _ in range(generator.randint(0, 3))]
        excludes = [word(generator, 1, 3) for _ in range(generator.randint(0, 2))]
        longest = generator.choice([None, None, 0, 1, 2, 3])
        graph = Graph()
        done, *targets = [graph.node() for _ in range(len(markers) + 1)]
        parts = [Marker(marker, target) for marker, target in zip(markers, targets, strict=True)]
        FreeText(parts, (), excludes, longest).write(graph, 0, done, Budget())
        for _ in range(30):
            text = word(generator, 0, 8)
            if generator.random() < 0.2:
                where = generator.randint(0, len(text))
                text = text[:where] + "é€𝄞".encode()[: generator.choice((2, 3, 5, 9))] + text[where:]
            here = reached(graph, text)
            whole = is_free(text, excludes, longest) and not any(marker in text for marker in markers)
            assert (done in here) == whole, (markers, excludes, longest, text)
            first = min((text.find(m) + len(m) for m in markers if m in text), default=-1)
            expected = {
                target
                for marker, target in zip(markers, targets, strict=True)
                if first == len(text) and text.endswith(marker)
                and is_free(text[: len(text) - len(marker)], excludes, longest)
            }
            assert expected == here & set(targets), (markers, excludes, longest, text)
            completed += bool(expected)
    assert completed > 500


def test_its_size_does_not_depend_on_where_it_stands() -> None:
    graph = Graph()
    FreeText([Marker(b"</think>", graph.node())]).write(graph, 0, None, Budget())
    assert len(graph) < 30


def test_a_special_token_continues_the_part_of_a_marker_that_has_been_read() -> None:
    graph = Graph()
    end, inner = graph.node(), graph.node()
    FreeText([Marker(b"x<a>", end)], [Shortcut(b"x", "<a>", inner)]).write(graph, 0, None, Budget())

    def tokens(text: bytes) -> set[int]:
        return {target for node in reached(graph, text) for _, target in graph.token_edges[node]}

    assert tokens(b"abx") == {inner}
    assert tokens(b"") == tokens(b"x<") == tokens(b"xa") == set()
