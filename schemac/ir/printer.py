r"""The printed form of both levels of the IR; each parses back to what was printed.

    procedure 0 "pair" "#/properties/a"      a Module: nodes, any edges, `final`
      0: "a".."f" -> 1
      1: "," -> 0, call 1 -> 2, epsilon -> 2
      2: token "<|end|>" -> 3
      3: final

    procedure 0 "pair" "#/properties/a"      an Automaton: states numbered through, deterministic, `final` = accepting
      0: "a".."f" | "x" -> 1, token "<|end|>" -> 2

Bytes stand in quotes, ``\xNN`` where they are not printable ASCII. A token edge that begins with the empty text is
optional: a vocabulary need not have the token. Names and places are JSON strings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from schemac.errors import SourceError
from schemac.ir.automaton import Automaton
from schemac.ir.graph import ACTION, Graph, Module, Procedure
from schemac_runtime.registers import ACTIONS, KINDS, Guard


@dataclass(slots=True)
class _Line:
    """One state or node: what its line holds."""

    number: int
    reads: list[tuple[list[tuple[int, int]], int]] = field(default_factory=list)  # (byte intervals, target)
    tokens: list[tuple[list[str], int]] = field(default_factory=list)  # (texts, target)
    calls: list[tuple[int, int]] = field(default_factory=list)  # (procedure, target)
    epsilons: list[int] = field(default_factory=list)
    final: bool = False
    actions: list[tuple[str, int]] = field(default_factory=list)  # of a node: (name, target)
    acting: dict[int, str] = field(default_factory=dict)  # of a state: index into `reads` -> name

    def __str__(self) -> str:
        items = [f"{' | '.join(map(_interval, ranges))} -> {target}" for ranges, target in self.reads]
        for index, name in self.acting.items():
            items[index] += f" {name}"
        items += [f"action {name} -> {target}" for name, target in self.actions]
        items += [f"token {' | '.join(map(_quoted, texts))} -> {target}" for texts, target in self.tokens]
        items += [f"call {procedure} -> {target}" for procedure, target in self.calls]
        items += [f"epsilon -> {target}" for target in self.epsilons]
        items += ["final"] * self.final
        return f"  {self.number}: {', '.join(items)}"


def print_module(module: Module) -> str:
    """One line per node."""
    lines = []
    for number, procedure in enumerate(module.procedures):
        lines.append(_heading(number, procedure.name, procedure.place, procedure.guard))
        graph = procedure.graph
        for node in range(len(graph)):
            line = _Line(node, final=node in graph.finals)
            line.reads = [([(low, high)], target) for low, high, target in graph.byte_edges[node]]
            for texts, target in graph.token_edges[node]:
                if texts[0].startswith(ACTION):
                    line.actions.append((texts[0].removeprefix(ACTION), target))
                else:
                    line.tokens.append((list(texts), target))
            line.calls = graph.call_edges[node]
            line.epsilons = graph.epsilons[node]
            lines.append(str(line))
    return "\n".join(lines) + "\n"


def print_automaton(automaton: Automaton) -> str:
    """One line per state, with the bytes of equal targets together."""
    lines = []
    guards = dict(automaton.guards)
    for procedure, states in _procedures(automaton):
        place = automaton.places[procedure]
        lines.append(_heading(procedure, automaton.names[procedure], place, guards.get(procedure)))
        lines.extend(str(_line_of_state(automaton, state)) for state in states)
    return "\n".join(lines) + "\n"


def print_dot(automaton: Automaton) -> str:
    """The automaton for Graphviz: one cluster per procedure, calls as dashed edges to where they return."""
    lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];"]
    for procedure, states in _procedures(automaton):
        lines.append(f"  subgraph cluster_{procedure} {{")
        lines.append(f"    label={_quoted(automaton.names[procedure])};")
        for state in states:
            line = _line_of_state(automaton, state)
            if line.final:
                lines.append(f"    {state} [shape=doublecircle];")
            labels = [(" | ".join(map(_interval, ranges)), target) for ranges, target in line.reads]
            labels += [(" | ".join(map(_quoted, texts)), target) for texts, target in line.tokens]
            lines.extend(f"    {state} -> {target} [label={_quoted(label)}];" for label, target in labels)
            for callee, target in line.calls:
                label = _quoted(f"call {callee} {automaton.names[callee]}")
                lines.append(f"    {state} -> {target} [label={label}, style=dashed];")
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def parse_module(text: str) -> Module:
    """The inverse of `print_module`.

    Raises:
        SourceError: the text is not of this form.
    """
    procedures = []
    for name, place, guard, lines in _parse(text):
        graph = Graph()
        for number, line in enumerate(lines):
            if line.number != number:
                raise SourceError(f"node {number} is expected, not {line.number}", construct=name)
            if number:
                graph.node()
            graph.byte_edges[number] = [(low, high, target) for ranges, target in line.reads for low, high in ranges]
            graph.token_edges[number] = [(tuple(texts), target) for texts, target in line.tokens]
            for action, target in line.actions:
                graph.action(number, action, target)
            graph.call_edges[number] = line.calls
            graph.epsilons[number] = line.epsilons
            if line.final:
                graph.final(number)
        procedures.append(Procedure(name, place, graph, guard))
    return Module(tuple(procedures))


def parse_automaton(text: str) -> Automaton:
    """The inverse of `print_automaton`. Byte classes are numbered by their first byte, labels by their text.

    Raises:
        SourceError: the text is not of this form.
    """
    parsed = _parse(text)
    lines = [line for *_, of in parsed for line in of]
    if [line.number for line in lines] != list(range(len(lines))):
        raise SourceError("the states are not numbered 0, 1, 2, ...")
    tokens = [texts for line in lines for texts, _ in line.tokens]
    labels = sorted({label for texts in tokens for label in texts if label})
    needed = {label for texts in tokens if "" not in texts for label in texts}
    by_byte = np.full((len(lines), 256), -1, dtype=np.int32)
    acting = np.full((len(lines), 256), -1, dtype=np.int32)
    by_label = np.full((len(lines), len(labels)), -1, dtype=np.int32)
    for state, line in enumerate(lines):
        for index, (ranges, target) in enumerate(line.reads):
            for low, high in ranges:
                by_byte[state, low : high + 1] = target
                if index in line.acting:
                    acting[state, low : high + 1] = ACTIONS.index(line.acting[index])
        for texts, target in line.tokens:
            by_label[state, [labels.index(label) for label in texts if label]] = target
    columns = np.ascontiguousarray(np.concatenate([by_byte, acting]).T)
    classes: dict[bytes, int] = {}
    byte_class = [classes.setdefault(column.tobytes(), len(classes)) for column in columns]
    first = [byte_class.index(number) for number in range(len(classes))]
    sizes = [len(of) for *_, of in parsed]
    source, symbol = np.nonzero(acting[:, first] >= 0)
    calls = [call for line in lines for call in line.calls]
    return Automaton(
        byte_class=np.array(byte_class, dtype=np.uint8),
        labels=tuple(labels),
        next_state=np.concatenate([by_byte[:, first], by_label], axis=1),
        accepting=np.array([line.final for line in lines], dtype=np.bool_),
        owner=np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
        entry=np.cumsum([0, *sizes[:-1]], dtype=np.int32),
        call_start=np.cumsum([0, *(len(line.calls) for line in lines)], dtype=np.int32),
        call_procedure=np.array([procedure for procedure, _ in calls], dtype=np.int32),
        call_return=np.array([target for _, target in calls], dtype=np.int32),
        names=tuple(name for name, *_ in parsed),
        places=tuple(place for _, place, *_ in parsed),
        optional_labels=tuple(label for label in labels if label not in needed),
        guards=tuple((number, guard) for number, (_, _, guard, _) in enumerate(parsed) if guard is not None),
        actions=np.stack([source, symbol, acting[:, first][source, symbol]], axis=1).astype(np.int32),
    )


def _procedures(automaton: Automaton) -> Iterator[tuple[int, range]]:
    ends = [*automaton.entry[1:].tolist(), automaton.states]
    for procedure, (start, end) in enumerate(zip(automaton.entry.tolist(), ends, strict=True)):
        yield procedure, range(start, end)


def _line_of_state(automaton: Automaton, state: int) -> _Line:
    line = _Line(state, calls=list(automaton.calls(state)), final=bool(automaton.accepting[state]))
    targets = automaton.next_state[state]
    by_byte = targets[automaton.byte_class]
    # Targets in the order of their first byte, so that the line reads in byte order.
    mine = automaton.actions[automaton.actions[:, 0] == state]
    acting = np.full(automaton.symbols, -1, dtype=np.int32)
    acting[mine[:, 1]] = mine[:, 2]
    by_action = acting[automaton.byte_class]
    read = by_byte >= 0
    for target, action in dict.fromkeys(zip(by_byte[read].tolist(), by_action[read].tolist(), strict=True)):
        if action >= 0:
            line.acting[len(line.reads)] = ACTIONS[action]
        same = (by_byte == target) & (by_action == action)
        line.reads.append((list(_intervals(np.flatnonzero(same).tolist())), target))
    for label, target in zip(automaton.labels, targets[automaton.byte_classes :].tolist(), strict=True):
        if target >= 0:
            line.tokens.append((["", label] if label in automaton.optional_labels else [label], target))
    return line


def _intervals(values: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ascending values as maximal inclusive intervals."""
    low = high = -2
    for value in values:
        if value != high + 1:
            if high >= 0:
                yield low, high
            low = value
        high = value
    if high >= 0:
        yield low, high


def _heading(number: int, name: str, place: str, guard: Guard | None) -> str:
    heading = f"procedure {number} {_quoted(name)} {_quoted(place)}"
    if guard is not None:
        high = "" if guard.high is None else guard.high
        heading += f" guard {guard.kind} {guard.low}..{high}" + " distinct" * guard.distinct
        if guard.required:
            heading += " required " + " | ".join(_quoted(json.loads(key)) for key in sorted(guard.required))
    return heading


def _quoted(text: str) -> str:
    return json.dumps(text)


def _interval(interval: tuple[int, int]) -> str:
    low, high = interval
    return _byte(low) if low == high else f"{_byte(low)}..{_byte(high)}"


def _byte(value: int) -> str:
    if value in b'"\\':
        return f'"\\{chr(value)}"'
    return f'"{chr(value)}"' if 0x20 <= value < 0x7F else f'"\\x{value:02x}"'


def _parse(text: str) -> list[tuple[str, str, Guard | None, list[_Line]]]:
    """Per procedure its name, its place, its guard and its lines."""
    procedures: list[tuple[str, str, Guard | None, list[_Line]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        scanner = _Scanner(line, number)
        if not line.strip():
            continue
        if scanner.take("procedure"):
            if scanner.integer() != len(procedures):
                raise scanner.fail(f"procedure {len(procedures)}")
            procedures.append((scanner.string(), scanner.string(), _parse_guard(scanner), []))
            scanner.end()
        elif procedures:
            procedures[-1][3].append(_parse_line(scanner))
        else:
            raise scanner.fail("procedure")
    return procedures


def _parse_guard(scanner: _Scanner) -> Guard | None:
    if not scanner.take("guard"):
        return None
    kind = next((kind for kind in KINDS if scanner.take(kind)), None)
    if kind is None:
        raise scanner.fail(" or ".join(KINDS))
    low = scanner.integer()
    scanner.expect("..")
    high = None if scanner.at_end() or scanner.at("distinct") or scanner.at("required") else scanner.integer()
    distinct = scanner.take("distinct")
    required = []
    if scanner.take("required"):
        required.append(scanner.string())
        while scanner.take("|"):
            required.append(scanner.string())
    keys = frozenset(json.dumps(key, ensure_ascii=False).encode() for key in required)
    return Guard(kind, low, high, distinct, keys)


def _parse_line(scanner: _Scanner) -> _Line:
    line = _Line(scanner.integer())
    scanner.expect(":")
    if scanner.at_end():
        return line
    while True:
        if scanner.take("final"):
            line.final = True
        elif scanner.take("epsilon"):
            line.epsilons.append(scanner.target())
        elif scanner.take("action"):
            line.actions.append((scanner.action(), scanner.target()))
        elif scanner.take("call"):
            line.calls.append((scanner.integer(), scanner.target()))
        elif scanner.take("token"):
            texts = [scanner.string()]
            while scanner.take("|"):
                texts.append(scanner.string())
            line.tokens.append((texts, scanner.target()))
        else:
            ranges = [scanner.interval()]
            while scanner.take("|"):
                ranges.append(scanner.interval())
            line.reads.append((ranges, scanner.target()))
            for name in ACTIONS:
                if scanner.take(name):
                    line.acting[len(line.reads) - 1] = name
        if not scanner.take(","):
            scanner.end()
            return line


class _Scanner:
    """Reads one line from left to right."""

    def __init__(self, line: str, number: int) -> None:
        self._line = line
        self._number = number
        self._at = 0

    def fail(self, expected: str) -> SourceError:
        return SourceError(f"{expected} is expected", place=f"{self._number}:{self._at + 1}")

    def at_end(self) -> bool:
        while self._at < len(self._line) and self._line[self._at] == " ":
            self._at += 1
        return self._at == len(self._line)

    def end(self) -> None:
        if not self.at_end():
            raise self.fail("the end of the line")

    def take(self, word: str) -> bool:
        self.at_end()
        if not self._line.startswith(word, self._at):
            return False
        self._at += len(word)
        return True

    def at(self, word: str) -> bool:
        self.at_end()
        return self._line.startswith(word, self._at)

    def action(self) -> str:
        for name in ACTIONS:
            if self.take(name):
                return name
        raise self.fail("an action")

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise self.fail(word)

    def integer(self) -> int:
        self.at_end()
        start = self._at
        while self._at < len(self._line) and self._line[self._at] in "0123456789":
            self._at += 1
        if start == self._at:
            raise self.fail("a number")
        return int(self._line[start : self._at])

    def target(self) -> int:
        self.expect("->")
        return self.integer()

    def string(self) -> str:
        self.at_end()
        try:
            value, self._at = json.JSONDecoder().raw_decode(self._line, self._at)
        except ValueError:
            raise self.fail("a string") from None
        if not isinstance(value, str):
            raise self.fail("a string")
        return value

    def interval(self) -> tuple[int, int]:
        low = self._quoted_byte()
        high = self._quoted_byte() if self.take("..") else low
        if high < low:
            raise self.fail("an ascending range")
        return low, high

    def _quoted_byte(self) -> int:
        self.expect('"')
        text = self._line
        at = self._at
        if text.startswith("\\x", at):
            digits, self._at = text[at + 2 : at + 4], at + 4
            if len(digits) != 2 or any(digit not in "0123456789abcdef" for digit in digits):
                raise self.fail("two hexadecimal digits")
            value = int(digits, 16)
        else:
            at += text.startswith("\\", at)
            if at >= len(text) or ord(text[at]) > 0x7E:
                raise self.fail("a byte")
            value, self._at = ord(text[at]), at + 1
        if not text.startswith('"', self._at):
            raise self.fail('"')
        self._at += 1
        return value
