"""Small grammars for the token oracle, written as graphs: recursion, ambiguity, shared leaves, ends in ends."""

from __future__ import annotations

import random

from schemac.ir.graph import Graph, Module, ModuleBuilder


def rules(text: str) -> Module:
    """A module from one line per procedure: ``name = a 'bytes' (name | 'x'*)``, the first being the root.

    Atoms are quoted literals, ``[a-z]`` classes, procedure names and parentheses; ``* + ?`` repeat; ``|`` separates.
    """
    lines = [line.split("=", 1) for line in text.strip().splitlines()]
    builder = ModuleBuilder()
    numbers = {name.strip(): builder.declare(name.strip(), "") for name, _ in lines}
    for name, body in lines:
        builder.define(numbers[name.strip()], _RuleParser(body, numbers).parse())
    return builder.build()


class _RuleParser:
    def __init__(self, text: str, numbers: dict[str, int]) -> None:
        self.text, self.numbers, self.at, self.graph = text, numbers, 0, Graph()

    def parse(self) -> Graph:
        end = self.alternatives(0)
        self.graph.final(end)
        return self.graph

    def peek(self) -> str:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1
        return self.text[self.at] if self.at < len(self.text) else ""

    def alternatives(self, start: int) -> int:
        end = self.graph.node()
        while True:
            node = start
            while self.peek() not in ("", "|", ")"):
                node = self.repeated(node)
            self.graph.epsilon(node, end)
            if self.peek() != "|":
                return end
            self.at += 1

    def repeated(self, start: int) -> int:
        graph, inner = self.graph, self.graph.node()
        graph.epsilon(start, inner)
        end = self.atom(inner)
        while self.peek() in ("*", "+", "?"):
            operator = self.text[self.at]
            self.at += 1
            before, after = graph.node(), graph.node()
            graph.epsilon(before, inner)
            graph.epsilon(end, after)
            if operator in "*+":
                graph.epsilon(end, inner)
            if operator in "*?":
                graph.epsilon(before, after)
            graph.epsilon(start, before)
            start_edges = graph.epsilons[start]
            start_edges.remove(inner)
            inner, end = before, after
        return end

    def atom(self, start: int) -> int:
        first = self.peek()
        if first == "(":
            self.at += 1
            end = self.alternatives(start)
            assert self.peek() == ")"
            self.at += 1
            return end
        if first == "'":
            close = self.text.index("'", self.at + 1)
            data = self.text[self.at + 1 : close].encode()
            self.at = close + 1
            return self.graph.literal(start, data)
        if first == "[":
            close = self.text.index("]", self.at + 1)
            body, end = self.text[self.at + 1 : close], self.graph.node()
            for low, high in zip(body[::3], body[2::3], strict=True):
                self.graph.byte(start, ord(low), ord(high), end)
            self.at = close + 1
            return end
        begin = self.at
        while self.at < len(self.text) and self.text[self.at].isalnum():
            self.at += 1
        end = self.graph.node()
        self.graph.call(start, self.numbers[self.text[begin : self.at]], end)
        return end


#: Context-free ones; none is left-recursive.
CONTEXT_FREE = {
    "parentheses": "s = '(' s ')' | '()'",
    "balanced lists": "s = '[' (s (',' s)*)? ']' | 'a'",
    "two brackets": "s = '[' s ']' | '{' s '}' | 'x'",
    "palindrome": "s = 'a' s 'a' | 'b' s 'b' | 'c'",
    "right recursion": "s = 'a' s | 'b'",
    "right recursion, open end": "s = 'a' s? ",
    "ends in ends": "s = 'a' t? 'b'?\nt = 'b' s?",
    "mutual right recursion": "s = 'x' t | 'y'\nt = 'z' s | 'w'",
    "nullable middle": "s = 'a' t 'b'\nt = ('c' s)?",
    "ambiguous suffix": "s = 'a' s 'b'? | 'a'",
    "numbers in a list": "s = '[' n (',' n)* ']'\nn = '-'? [0-9]+ ('.' [0-9]+)?",
    "strings called": "s = '{' k ':' v (',' k ':' v)* '}'\nk = '\"' [a-c]* '\"'\nv = k | s | n\nn = [0-9]+",
    "expressions": "e = t ('+' t)*\nt = f ('*' f)*\nf = [0-9]+ | '(' e ')'",
    "dangling else": "s = 'i' s ('e' s)? | 'x'",
    "two readings": "s = a | b\na = 'x' a 'y' | 'xy'\nb = 'x' b 'z' | 'xz'",
    "call or literal": "s = p | 'pq' 'r'\np = 'p' 'q'?",
    "nested ends": "s = a 'x'? a\na = b | b 'y'\nb = 'b' b | 'b'",
    "called root": "s = 'a' (s | '')  'z'? ",
    "one call after another": "s = e e e\ne = 'b'? 'a' 'a'* | '(' e ')'",
    "long tail": "s = 'k' t\nt = 'k' u | ''\nu = 'k' s | 'm'",
    "unproductive branch": "s = 'a' | 'b' t\nt = 'c' t",
}

#: Regular ones, where tokens need not include every byte.
REGULAR = {
    "words": "s = 'foo' | 'foobar' | 'bar' | 'barf'",
    "even": "s = ('aa')*",
    "mixed": "s = ('ab' | 'ba')+ 'c'?",
    "loop with exit": "s = [a-c]* 'd' [a-c]*",
    "counted": "s = 'a' 'a'? 'a'? 'a'? 'b'",
    "number": "s = '-'? ('0' | [1-9] [0-9]*) ('.' [0-9]+)?",
    "called once": "s = 'x' t 'y' t\nt = 'ab'* ",
    "called often": "s = t t t t t\nt = 'a' | 'b' 'c'",
    "empty text too": "s = ('a' 'b')?",
    "only empty": "s = ''",
}


def vocabulary_for(module: Module, generator: random.Random, *, all_bytes: bool) -> list[bytes]:
    """Random tokens over the bytes of a module: pieces up to 5 bytes; with `all_bytes`, every single byte too."""
    used = sorted({
        byte for p in module.procedures for edges in p.graph.byte_edges for low, high, _ in edges
        for byte in range(low, high + 1)
    })
    if not used:
        return [b"a"]
    tokens = {bytes(generator.choices(used, k=generator.randint(1, 5))) for _ in range(30)}
    if all_bytes:
        tokens |= {bytes([byte]) for byte in used}
    return sorted(tokens)
