"""`verify` names each broken invariant: one good automaton, and one way to break each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from schemac.ir.automaton import Automaton, verify
from schemac.ir.printer import parse_automaton

GOOD = """\
procedure 0 "s" ""
  0: "a" -> 1, call 1 -> 2
  1: "b" -> 2
  2: "c" -> 2, final
procedure 1 "t" ""
  3: "(" -> 4
  4: call 1 -> 5, "x" -> 6
  5: ")" -> 6
  6: final
"""


def changed(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    copy = array.copy()
    copy[index] = value
    return copy


def with_line(old: str, new: str) -> Callable[[Automaton], Automaton]:
    assert old in GOOD
    return lambda _: parse_automaton(GOOD.replace(old, new))


def test_a_good_automaton_has_no_problems() -> None:
    assert verify(parse_automaton(GOOD)) == []


BROKEN: list[tuple[str, Callable[[Automaton], Automaton]]] = [
    ("byte_class: shape", lambda a: replace(a, byte_class=a.byte_class[:255])),
    ("byte_class: values", lambda a: replace(a, byte_class=changed(a.byte_class, 0, a.byte_classes))),
    ("next_state: values", lambda a: replace(a, next_state=changed(a.next_state, (0, 0), a.states))),
    ("next_state: values", lambda a: replace(a, next_state=changed(a.next_state, (0, 0), -2))),
    ("owner: shape", lambda a: replace(a, owner=a.owner[:-1])),
    ("owner: values", lambda a: replace(a, owner=changed(a.owner, -1, 2))),
    ("owner: the states", lambda a: replace(a, owner=changed(a.owner, 1, 1))),
    ("entry: values", lambda a: replace(a, entry=changed(a.entry, 1, -1))),
    ("entry: not the first", lambda a: replace(a, entry=changed(a.entry, 1, 4))),
    ("entry: not the first", lambda a: replace(a, owner=a.owner * 0, entry=a.entry * 0)),
    ("entry: no procedure", lambda a: replace(a, entry=a.entry[:0], owner=a.owner[:0], names=(), places=())),
    ("call_start: shape", lambda a: replace(a, call_start=a.call_start[1:])),
    ("call_start: not", lambda a: replace(a, call_start=changed(a.call_start, -1, 1))),
    ("call_start: not", lambda a: replace(a, call_start=changed(a.call_start, 1, 2))),
    ("call_procedure: values", lambda a: replace(a, call_procedure=changed(a.call_procedure, 0, 2))),
    ("call_return: values", lambda a: replace(a, call_return=changed(a.call_return, 0, 7))),
    ("call_return: shape", lambda a: replace(a, call_return=a.call_return[:1])),
    ("accepting: shape", lambda a: replace(a, accepting=a.accepting[1:])),
    ("names and places", lambda a: replace(a, names=("s",))),
    ("optional_labels: not all", lambda a: replace(a, optional_labels=("<x>",))),
    ("state 1: an edge leaves", with_line('1: "b" -> 2', '1: "b" -> 6')),
    ("state 0: a call returns into", with_line("call 1 -> 2", "call 1 -> 6")),
    ("state 4: calls a procedure twice", with_line("call 1 -> 5", "call 1 -> 5, call 1 -> 6")),
    ("state 5: not reachable", with_line("call 1 -> 5, ", "")),
    ("state 5: cannot reach an end", with_line('")" -> 6', '")" -> 5')),
    ("procedure 1: never called", with_line(', call 1 -> 2', "")),
    ("procedure 1: is called and accepts", with_line('3: "(" -> 4', '3: "(" -> 4, final')),
    ("procedure 1: left recursion", with_line('3: "(" -> 4', '3: "(" -> 4, call 1 -> 4')),
    ("procedure 0: left recursion", with_line('3: "(" -> 4', '3: "(" -> 4, call 0 -> 4')),
]


@pytest.mark.parametrize(("problem", "breaking"), BROKEN, ids=[f"{i} {text}" for i, (text, _) in enumerate(BROKEN)])
def test_a_broken_invariant_is_named(problem: str, breaking: Callable[[Automaton], Automaton]) -> None:
    problems = verify(breaking(parse_automaton(GOOD)))
    assert any(found.startswith(problem) for found in problems), problems


def test_the_root_may_accept_the_empty_text() -> None:
    assert verify(parse_automaton('procedure 0 "s" ""\n  0: "a" -> 0, final\n')) == []
