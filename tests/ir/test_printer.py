from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.ir.automaton import Automaton, verify
from schemac.ir.graph import Graph, Module, ModuleBuilder
from schemac.ir.pipeline import lower
from schemac.ir.printer import parse_automaton, parse_module, print_automaton, print_dot, print_module
from schemac_runtime.registers import Guard

PRINTED_MODULE = '''\
procedure 0 "root" "#"
  0: "[" -> 1
  1: call 1 -> 2
  2: "," -> 1, "]".."]" -> 3
  3: token "<|a|>" | "<|b|>" -> 4, epsilon -> 4
  4: final
procedure 1 "a \\"quoted\\" name" "#/properties/\\u00e9"
  0: "\\""..";" -> 1, "\\\\" -> 1, "\\x00".."\\x1f" -> 2, "\\xff" -> 2
  1: call 0 -> 2
  2: final
'''


def module() -> Module:
    """A list of bytes or lists, with everything an edge can be."""
    builder = ModuleBuilder()
    root, item = builder.declare("root", "#"), builder.declare('an "item"', "#/items")
    graph = Graph()
    opened = graph.literal(0, b"[")
    after = graph.node()
    graph.call(opened, item, after)
    graph.literal(after, b",", opened)
    closed = graph.literal(after, b"]")
    end = graph.node()
    graph.token(closed, ["<|b|>", "<|a|>"], end)
    graph.epsilon(closed, end)
    graph.final(end)
    builder.define(root, graph)
    graph = Graph()
    end = graph.node()
    for low, high in ((0x00, 0x1F), (0x22, 0x22), (0x30, 0x39), (0x5C, 0x5C), (0x80, 0xFF)):
        graph.byte(0, low, high, end)
    graph.call(0, root, end)
    graph.final(end)
    builder.define(item, graph)
    return builder.build()


def assert_equal(a: Automaton, b: Automaton) -> None:
    for field in dataclasses.fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            np.testing.assert_array_equal(left, right, err_msg=field.name)
        else:
            assert left == right, field.name


def test_a_module_parses_back() -> None:
    printed = print_module(module())
    assert print_module(parse_module(printed)) == printed
    assert 'token "<|a|>" | "<|b|>" -> ' in printed


def test_every_kind_of_edge_parses() -> None:
    parsed = parse_module(PRINTED_MODULE)
    first, second = parsed.procedures
    assert (second.name, second.place) == ('a "quoted" name', "#/properties/\u00e9")
    assert first.graph.token_edges[3] == [(("<|a|>", "<|b|>"), 4)]
    assert second.graph.byte_edges[0] == [(0x22, 0x3B, 1), (0x5C, 0x5C, 1), (0, 0x1F, 2), (0xFF, 0xFF, 2)]
    assert print_module(parsed) == PRINTED_MODULE.replace('"]".."]"', '"]"')


def test_an_automaton_parses_back() -> None:
    automaton, _ = lower(module(), Budget())
    assert verify(automaton) == []
    printed = print_automaton(automaton)
    assert_equal(parse_automaton(printed), automaton)
    assert print_automaton(parse_automaton(printed)) == printed


def test_required_keys_of_a_guard_parse_back() -> None:
    keys = ("a", 'quoted "b"', "é|\\n\n")
    guard = Guard("members", 1, None, True, frozenset(json.dumps(key, ensure_ascii=False).encode() for key in keys))
    builder = ModuleBuilder()
    graph = Graph()
    graph.final(graph.literal(0, b"{}"))
    builder.define(builder.declare("object", "#"), graph, guard)
    printed = print_module(builder.build())
    heading = r'guard members 1.. distinct required "a" | "quoted \"b\"" | "\u00e9|\\n\n"'
    assert printed.splitlines()[0].endswith(heading)
    assert parse_module(printed).procedures[0].guard == guard


def test_dot_names_every_state() -> None:
    automaton, _ = lower(module(), Budget())
    printed = print_dot(automaton)
    assert printed.startswith("digraph automaton {")
    assert printed.count("{") == printed.count("}") == 1 + len(automaton.names)
    assert printed.count("doublecircle") == int(automaton.accepting.sum())


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("  0: final", "1:3", "procedure"),
        ('procedure 1 "a" ""', "1:12", "procedure 0"),
        ("procedure 0 a", "1:13", "a string"),
        ('procedure 0 "a" ""\n  0 final', "2:5", ":"),
        ('procedure 0 "a" ""\n  0: "ab" -> 1', "2:8", '"'),
        ('procedure 0 "a" ""\n  0: "b".."a" -> 1', "2:14", "an ascending range"),
        ('procedure 0 "a" ""\n  0: "\\xg0" -> 1', "2:11", "two hexadecimal digits"),
        ('procedure 0 "a" ""\n  0: "a" -> ', "2:13", "a number"),
        ('procedure 0 "a" ""\n  0: final final', "2:12", "the end of the line"),
    ],
)
def test_what_does_not_parse_is_named(text: str, place: str, expected: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_module(text)
    assert (caught.value.place, caught.value.reason) == (place, f"{expected} is expected")
