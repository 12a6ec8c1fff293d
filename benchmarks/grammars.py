"""Context-free grammars: time to the first mask and per token, beside xgrammar (GBNF) and llguidance (Lark).

    python -m benchmarks.grammars --texts 20 --seed 1

Every grammar is written twice, as GBNF for schemac and xgrammar and as Lark for llguidance, for the same language.
Texts are random members of it. `--curve N` prints the time per token along N tokens of the ambiguous grammars, for
schemac.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np

import schemac
from benchmarks.engines import LlguidanceEngine, Refused, SchemacEngine, Started, XgrammarEngine, message_head
from benchmarks.vocabulary import load_encoder, load_table
from schemac.sampling import sample_bytes

#: name -> (GBNF, Lark)
GRAMMARS: dict[str, tuple[str, str]] = {
    "arithmetic": (
        'root ::= sum\nsum ::= term | sum [+-] term\nterm ::= atom | term [*/] atom\natom ::= [0-9]+ | "(" sum ")"\n',
        'start: sum\nsum: term | sum /[+-]/ term\nterm: atom | term /[*\\/]/ atom\natom: /[0-9]+/ | "(" sum ")"\n',
    ),
    "s-expressions": (
        'root ::= "(" item (" " item)* ")"\nitem ::= [a-z]+ | [0-9]+ | root\n',
        'start: "(" item (" " item)* ")"\nitem: /[a-z]+/ | /[0-9]+/ | start\n',
    ),
    "json": (
        ('root ::= value\nvalue ::= object | array | string | number | "true" | "false" | "null"\n'
        'object ::= "{" (member ("," member)*)? "}"\nmember ::= string ":" value\n'
        'array ::= "[" (value ("," value)*)? "]"\nstring ::= "\\"" [a-zA-Z0-9 ._-]* "\\""\n'
        'number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)?\n'),
        ('start: value\nvalue: object | array | string | number | "true" | "false" | "null"\n'
        'object: "{" (member ("," member)*)? "}"\nmember: string ":" value\n'
        'array: "[" (value ("," value)*)? "]"\nstring: /"[a-zA-Z0-9 ._-]*"/\n'
        "number: /-?(0|[1-9][0-9]*)(\\.[0-9]+)?/\n"),
    ),
    "sql": (
        ('root ::= "SELECT " columns " FROM " name where? order?\ncolumns ::= "*" | name (", " name)*\n'
        'where ::= " WHERE " condition\ncondition ::= test | condition " AND " test | condition " OR " test\n'
        'test ::= name " = " value | "(" condition ")"\nvalue ::= [0-9]+ | "\'" [a-z ]* "\'"\n'
        'order ::= " ORDER BY " name (" ASC" | " DESC")?\nname ::= [a-z] [a-z_]*\n'),
        ('start: "SELECT " columns " FROM " name where? order?\ncolumns: "*" | name (", " name)*\n'
        'where: " WHERE " condition\ncondition: test | condition " AND " test | condition " OR " test\n'
        'test: name " = " value | "(" condition ")"\nvalue: /[0-9]+/ | /\'[a-z ]*\'/\n'
        'order: " ORDER BY " name (" ASC" | " DESC")?\nname: /[a-z][a-z_]*/\n'),
    ),
    "statements": (
        ('root ::= statement+\n'
        'statement ::= name " = " expression ";\\n" | "if (" expression ") {\\n" statement* "}\\n"'
        ' | "while (" expression ") {\\n" statement* "}\\n"\n'
        'expression ::= operand ((" + " | " - " | " < " | " == ") operand)*\n'
        'operand ::= name | [0-9]+ | "(" expression ")" | name "(" (expression (", " expression)*)? ")"\n'
        "name ::= [a-z] [a-z0-9_]*\n"),
        ('start: statement+\nstatement: name " = " expression ";\\n" | "if (" expression ") {\\n" statement* "}\\n"'
        ' | "while (" expression ") {\\n" statement* "}\\n"\n'
        'expression: operand ((" + " | " - " | " < " | " == ") operand)*\n'
        'operand: name | /[0-9]+/ | "(" expression ")" | name "(" (expression (", " expression)*)? ")"\n'
        "name: /[a-z][a-z0-9_]*/\n"),
    ),
    "url": (
        ('root ::= ("http" | "https") "://" host (":" [0-9]+)? ("/" segment)* ("?" pair ("&" pair)*)?\n'
        'host ::= label ("." label)+\nlabel ::= [a-z] [a-z0-9]*\nsegment ::= [a-zA-Z0-9._-]*\n'
        'pair ::= [a-z]+ "=" [a-zA-Z0-9]*\n'),
        ('start: ("http" | "https") "://" host (":" /[0-9]+/)? ("/" segment)* ("?" pair ("&" pair)*)?\n'
        'host: label ("." label)+\nlabel: /[a-z][a-z0-9]*/\nsegment: /[a-zA-Z0-9._-]*/\n'
        'pair: /[a-z]+/ "=" /[a-zA-Z0-9]*/\n'),
    ),
    "chess": (
        ('root ::= ([1-9] [0-9]? ". " move " " move "\\n")+\nmove ::= (pawn | piece | castle) [+#]?\n'
        'pawn ::= [a-h] ("x" [a-h])? [1-8] ("=" [NBRQ])?\npiece ::= [NBRQK] [a-h]? [1-8]? "x"? [a-h] [1-8]\n'
        'castle ::= "O-O" "-O"?\n'),
        ('start: (/[1-9][0-9]?/ ". " move " " move "\\n")+\nmove: (pawn | piece | castle) /[+#]/?\n'
        "pawn: /[a-h](x[a-h])?[1-8](=[NBRQ])?/\npiece: /[NBRQK][a-h]?[1-8]?x?[a-h][1-8]/\n"
        'castle: /O-O(-O)?/\n'),
    ),
    "ambiguous": ('root ::= root root | "a"\n', 'start: start start | "a"\n'),
}

#: Grammars whose texts have exponentially many readings.
AMBIGUOUS = {
    "S: S S | a": 'root ::= root root | "a"\n',
    "S: S S S | S S | a": 'root ::= root root root | root root | "a"\n',
    "E: E op E | (E) | n": 'root ::= root ("+" | "*" | "a") root | "(" root ")" | "a"\n',
    "unclosed": 'root ::= "a" root "b"? | "a"\n',
}


class _Schemac(SchemacEngine):
    def compile_grammar(self, gbnf: str, _lark: str) -> Any:
        from benchmarks.engines import _SchemacGrammar

        try:
            compiled = self._schemac.compile(gbnf, kind="gbnf")
            linked = self._schemac.link(compiled, self._vocabulary)
        except self._errors as error:
            raise Refused(str(error)) from error
        return _SchemacGrammar(linked.programs[-1], self.bitmask)


class _Llguidance(LlguidanceEngine):
    def compile_grammar(self, _gbnf: str, lark: str) -> Any:
        from benchmarks.engines import _LlguidanceGrammar

        matcher = self._llguidance.LLMatcher(self._tokenizer, lark, log_level=0)
        if matcher.is_error():
            raise Refused(message_head(matcher.get_error()))
        return _LlguidanceGrammar(matcher, self.bitmask)


class _Xgrammar(XgrammarEngine):
    def compile_grammar(self, gbnf: str, _lark: str) -> Any:
        from benchmarks.engines import _XgrammarGrammar

        try:
            compiled = self._compiler.compile_grammar(gbnf)
        except (RuntimeError, ValueError) as error:
            raise Refused(message_head(str(error))) from error
        return _XgrammarGrammar(self._xgrammar.GrammarMatcher, compiled, self.bitmask)


_ENGINES: dict[str, Any] = {"schemac": _Schemac, "llguidance": _Llguidance, "xgrammar": _Xgrammar}


def _texts(gbnf: str, count: int, seed: int) -> list[str]:
    """Random members, the longer ones first."""
    automaton = schemac.compile(gbnf, kind="gbnf").automaton
    drawn = {sample_bytes(automaton, seed * 1000 + number).decode() for number in range(count * 5)}
    return sorted((text for text in drawn if text), key=lambda text: (-len(text), text))[:count]


def _walk(started: Started, tokens: list[int]) -> list[int] | None:
    """Nanoseconds of fill and accept per token, None if one is refused."""
    times = []
    for token in tokens:
        before = time.perf_counter_ns()
        started.fill()
        accepted = started.accept(token)
        times.append(time.perf_counter_ns() - before)
        if not accepted:
            return None
    return times


@click.command()
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--texts", default=20, show_default=True, help="Texts per grammar.")
@click.option("--seed", default=1, show_default=True)
@click.option("--curve", default=0, help="Print the time per token along so many tokens of ambiguous texts.")
def main(tokenizer: str, texts: int, seed: int, curve: int) -> None:
    """Compare the engines on grammars."""
    table, encode = load_table(tokenizer), load_encoder(tokenizer)
    engines = {name: factory(table, 60.0) for name, factory in _ENGINES.items()}
    first: dict[str, list[float]] = {name: [] for name in engines}
    steps: dict[str, list[float]] = {name: [] for name in engines}
    for grammar, (gbnf, lark) in GRAMMARS.items():
        encoded = [encode(text) for text in _texts(gbnf, texts, seed)]
        for name, engine in engines.items():
            before = time.perf_counter()
            try:
                compiled = engine.compile_grammar(gbnf, lark)
            except Refused as error:
                click.echo(f"{grammar}: {name} refuses it: {error}")
                continue
            compiled.start().fill()
            first[name].append((time.perf_counter() - before) * 1000)
            walked = [_walk(compiled.start(), tokens) for tokens in encoded]
            refused = sum(times is None for times in walked)
            if refused:
                click.echo(f"{grammar}: {name} refuses {refused} of {len(encoded)} texts")
            steps[name] += [nanoseconds / 1000 for times in walked if times for nanoseconds in times]
    for title, values, shown in (("first mask, ms", first, (50, 100)), ("per token, us", steps, (50, 90, 99, 100))):
        click.echo(f"{title:22}" + "".join(f"{'p' + str(q):>12}" for q in shown))
        mine = np.percentile(values["schemac"], shown)
        for name, sample in values.items():
            theirs = np.percentile(sample, shown)
            ratios = "" if name == "schemac" else "   " + ", ".join(f"{r:.1f}x" for r in theirs / mine)
            click.echo(f"  {name:20}" + "".join(f"{value:12.2f}" for value in theirs) + ratios)
    if curve:
        _print_curves(table, curve)


def _print_curves(table: Any, length: int) -> None:
    engine = _Schemac(table, 60.0)
    token = table.source.ids_of(b"a")[0]
    click.echo(f"time per token along {length} tokens, us, in tenths")
    for name, gbnf in AMBIGUOUS.items():
        times = _walk(engine.compile_grammar(gbnf, "").start(), [token] * length)
        parts = np.array_split(np.array(times or [0]) / 1000, 10)
        click.echo(f"  {name:22}" + "".join(f"{np.mean(part):9.1f}" for part in parts))


if __name__ == "__main__":
    main()
