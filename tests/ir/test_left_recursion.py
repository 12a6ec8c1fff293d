"""Left recursion, tail calls and nullable procedures: what the passes make of them accepts the same texts."""

from __future__ import annotations

import itertools
import random

import pytest

from schemac.budget import Budget
from schemac.errors import BudgetExceeded, EmptyLanguageError
from schemac.ir.automaton import Automaton
from schemac.ir.graph import Module
from schemac.ir.passes.components import strong_components
from schemac.ir.pipeline import lower
from schemac.ir.recognizer import Recognizer
from tests.oracle import spans
from tests.oracle.grammars import rules
from tests.oracle.random_modules import random_module

LEFT_RECURSIVE = {
    "direct": "e = e '+' n | n\nn = 'a'",
    "two at once": "e = e '+' e | e '*' e | '(' e ')' | 'a'",
    "doubling": "s = s s | 'a'",
    "tripling": "s = s s s | s s | 'a' | 'b'",
    "indirect": "a = b 'x' | 'y'\nb = c 'z' | 'w'\nc = a 'v' | b 'u'",
    "entered at both": "r = a | '(' b ')'\na = b 'x' | 'y'\nb = a 'z' | 'w' a",
    "behind nullable": "a = n a 'x' | 'y'\nn = 'q'?",
    "nullable itself": "a = a 'x' | ''",
    "cycle": "a = a | b | 'x'\nb = a | 'y' b",
    "expressions": "e = e '+' t | t\nt = t '*' f | f\nf = '(' e ')' | 'a'",
    "left and right": "a = a 'x' a | a 'y' | 'z' a | 'w'",
    "dangling else": "s = 'i' s | 'i' s 'e' s | s ';' s | 'x'",
    "loop at the start": "a = ('x' | a 'y')* 'z'",
    "hidden twice": "a = n m a 'x' | m 'y'\nn = m m\nm = 'q' | ''",
    "unproductive": "a = a 'x' | b 'y' | 'z'\nb = b 'w' | a b",
    "called from inside": "a = a '[' a ']' | '[' a ']' | 'x'",
    "palindromes": "s = 'a' s 'a' | 'b' s 'b' | s 'c' | 'a' | 'b' | ''",
}


def words(letters: bytes, longest: int) -> list[bytes]:
    return [bytes(word) for length in range(longest + 1) for word in itertools.product(letters, repeat=length)]


def letters_of(module: Module) -> bytes:
    edges = [edge for p in module.procedures for node in p.graph.byte_edges for edge in node]
    return bytes(sorted({byte for low, high, _ in edges for byte in range(low, high + 1)}))


def accepts(automaton: Automaton, text: bytes) -> bool:
    recognizer = Recognizer(automaton)
    places = recognizer.start()
    for byte in text:
        places = recognizer.step(places, byte)
    return recognizer.ended(places)


@pytest.mark.parametrize("name", LEFT_RECURSIVE)
def test_the_language_stays_the_same(name: str) -> None:
    module = rules(LEFT_RECURSIVE[name])
    automaton, _ = lower(module, Budget())  # which checks that no left recursion is left
    letters = letters_of(module)
    longest = next(n for n in range(9, 0, -1) if len(letters) ** n < 500)
    for text in words(letters, longest):
        assert accepts(automaton, text) == spans.accepts(module, text), text


@pytest.mark.parametrize("seed", range(100))
def test_random_modules_keep_their_language(seed: int) -> None:
    module = random_module(random.Random(seed))
    texts = words(b"ab", 4)
    try:
        automaton, _ = lower(module, Budget())
    except EmptyLanguageError:
        assert not any(spans.accepts(module, text) for text in texts)
        return
    for text in texts:
        assert accepts(automaton, text) == spans.accepts(module, text), text


def test_an_ambiguous_operator_grammar_becomes_a_loop() -> None:
    automaton, _ = lower(rules("e = e '+' e | e '*' e | 'a'"), Budget())
    assert len(automaton.entry) == 1
    assert automaton.states == 2
    automaton, _ = lower(rules("s = s s | 'a'"), Budget())
    assert (automaton.states, len(automaton.call_procedure)) == (2, 0)


def test_right_recursive_rules_become_loops() -> None:
    automaton, _ = lower(rules("s = item ',' s | item\nitem = 'a' item | 'b'"), Budget())
    assert len(automaton.call_procedure) == 0


def test_a_rule_that_only_calls_itself_is_empty() -> None:
    for text in ("a = a", "a = b\nb = a", "a = a 'x'", "a = b 'x'\nb = a 'y'"):
        with pytest.raises(EmptyLanguageError):
            lower(rules(text), Budget())


def test_long_chains_of_unit_rules_are_no_recursion() -> None:
    text = "\n".join(f"a{n} = a{n + 1} | 'x'" for n in range(5_000)) + "\na5000 = 'y' a0"
    automaton, _ = lower(rules(text), Budget())
    assert accepts(automaton, b"yyx")


def test_a_large_component_is_charged() -> None:
    size = 300
    text = "\n".join(f"a{n} = a{(n + 1) % size} 'x' | 'y' a{(n * 7 + 3) % size} 'z' | 'w'" for n in range(size))
    with pytest.raises(BudgetExceeded, match="states"):
        lower(rules(text), Budget({"states": 50_000}))


def test_components_come_after_those_they_lead_to() -> None:
    component, members = strong_components([[1], [2, 3], [1], [4], [3], []])
    assert members == [[3, 4], [1, 2], [0], [5]]
    assert component == [2, 1, 1, 0, 0, 3]
