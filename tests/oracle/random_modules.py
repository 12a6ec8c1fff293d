"""Random symbolic modules: a few procedures over two letters and two special tokens, with every kind of edge."""

from __future__ import annotations

import random

from schemac.ir.graph import Graph, Module, ModuleBuilder

LETTERS = b"ab"
TOKENS = ("<s>", "<t>")


def random_module(generator: random.Random, *, procedures: int = 4, nodes: int = 6) -> Module:
    """May be left-recursive, empty, or full of dead ends: what frontends hand over may be so too."""
    builder = ModuleBuilder()
    count = generator.randint(1, procedures)
    for number in range(count):
        builder.declare(f"p{number}", "")
    for number in range(count):
        builder.define(number, _random_graph(generator, count, generator.randint(2, nodes)))
    return builder.build()


def _random_graph(generator: random.Random, procedures: int, nodes: int) -> Graph:
    graph = Graph()
    for _ in range(nodes - 1):
        graph.node()
    for _ in range(generator.randint(nodes - 1, 2 * nodes)):
        source, target = generator.randrange(nodes), generator.randrange(nodes)
        kind = generator.random()
        if kind < 0.05:
            graph.token(source, generator.sample(TOKENS, generator.randint(1, 2)), target)
        elif kind < 0.55:
            low = generator.choice(LETTERS)
            graph.byte(source, low, generator.choice((low, LETTERS[-1])), target)
        elif kind < 0.7:
            graph.epsilon(source, target)
        else:
            graph.call(source, generator.randrange(procedures), target)
    for _ in range(generator.randint(1, 2)):
        graph.final(generator.randrange(nodes))
    return graph
