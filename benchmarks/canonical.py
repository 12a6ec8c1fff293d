"""Is a JSON value accepted in some canonical text? A search over an automaton, for benchmarks and as a test oracle.

The compiler promises that every valid value has an accepted text in canonical form, which fixes how things are spelled
and in which order *declared* keys come, but which order that is depends on the schema. So the order is searched for:

- Objects: first the orders of each `properties` that speaks of the object's keys, straight on. Then depth first over
  "which of the remaining keys comes next"; what was seen at (remaining keys, places of the automaton) is not looked at
  again, and a nested value is read once from each set of places, whatever stood around it. So the cost is that of the
  distinct situations, not of the permutations of the whole document. For n keys that the schema lets come in any order
  these are still 2**n, of which a rejected value needs all: `Search.complete` says whether `steps` was enough.
- Strings and keys: the minimal escapes of `json.dumps(..., ensure_ascii=False)`.
- Numbers: a plain decimal without superfluous digits (1.0 is ``1``, 1e2 is ``100``); then, should that be refused, the
  shortest float as `json.dumps` writes it (``1e+308``), and the number's own digits (``1.0``).
- No whitespace: compile with ``whitespace="compact"``, or any other, since all of them allow none.

These are the ``canonical`` spellings. ``every`` adds others: escapes for what lies outside ASCII, ``1.0`` and ``1e0``
for integers. A value that is not valid must not be accepted in those either. ``own`` keeps a number's own digits: in
draft 4, 1.0 is no integer although it equals 1 (core, section 3.5), so that there the spelling is part of the instance.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from schemac.ir.automaton import Automaton
from schemac.ir.recognizer import Place, Places, Recognizer

#: Keys and scalars read for one value before the search is cut off.
STEPS = 200_000
#: So many orders of an object's keys are tried straight on.
MOST_ORDERS = 30
#: Numbers with more digits than this are not written as plain decimals.
MAX_DIGITS = 4_000


Spelling = Literal["canonical", "every", "own"]


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found.

    Attributes:
        text: an accepted text of the value, None if none was found.
        complete: the search saw everything, so that None means that no text in canonical form is accepted.
        read: the longest part of a text that could be read, to see where it ends.
    """

    text: bytes | None
    complete: bool
    read: bytes = b""

    @property
    def accepted(self) -> bool:
        """Whether a text was found."""
        return self.text is not None


class _TooMany(Exception):
    """The search is cut off."""


#: Places by their number in the reader, and the text that was read.
_Alternative = tuple[int, bytes]
#: What is left of an array or object (an index, or keys as bits), places, and the text from its bracket on.
_State = tuple[int, int, bytes]


class _Lazy:
    """The alternatives of a value from one set of places, found when asked for and kept."""

    def __init__(self, source: Iterator[_Alternative]) -> None:
        self._source = source
        self._found: list[_Alternative] = []

    def __iter__(self) -> Iterator[_Alternative]:
        number = 0
        while True:
            while number < len(self._found):
                yield self._found[number]
                number += 1
            following = next(self._source, None)
            if following is None:
                return
            self._found.append(following)


class Reader:
    """Reads JSON values with one automaton.

    Args:
        automaton: of a JSON Schema.
        schema: the schema, for the order in which its keys are tried; None tries them as they come.
        steps: where to give up, see `STEPS`.
    """

    def __init__(self, automaton: Automaton, schema: object = None, steps: int = STEPS) -> None:
        self._recognizer = Recognizer(automaton)
        self._orders = [{name: rank for rank, name in enumerate(names)} for names in declared_keys(schema)]
        self._steps = steps
        self._left = steps
        self._spelling: Spelling = "canonical"
        self._as_it_stands = False
        self._longest = b""
        self._numbers: dict[tuple[frozenset[Place], bytes], int] = {}
        self._places: list[Places] = [Places()]
        self._after: dict[tuple[int, int], int] = {}
        self._known: dict[tuple[int, int], _Lazy] = {}
        self._start = self._number(self._recognizer.start())

    def search(self, value: Any, spelling: Spelling = "canonical", *, as_it_stands: bool = False) -> Search:
        """Look for an accepted text of `value` (as `parse` gives it, or with floats).

        Args:
            value: JSON data.
            spelling: which texts of strings and numbers to try.
            as_it_stands: keys come in the order that `value` has them in, and in no other.
        """
        self._as_it_stands = as_it_stands
        self._left = self._steps
        self._spelling = spelling
        self._longest = b""
        self._known.clear()
        try:
            for places, text in self._read(value, self._start, b""):
                if self._recognizer.ended(self._places[places]):
                    return Search(text, True, text)
        except (_TooMany, RecursionError):
            return Search(None, False, self._longest)
        finally:
            self._known.clear()
        return Search(None, True, self._longest)

    # -- bytes --------------------------------------------------------------------------------------------------

    def _number(self, places: Places) -> int:
        if not places:
            return 0
        key = frozenset(places), places.text
        number = self._numbers.setdefault(key, len(self._places))
        if number == len(self._places):
            self._places.append(places)
        return number

    def _spell(self, places: int, text: bytes, before: bytes) -> int:
        """The places after `text`; 0 if it cannot be read."""
        for position, byte in enumerate(text):
            after = self._after.get((places, byte))
            if after is None:
                after = self._number(self._recognizer.step(self._places[places], byte))
                self._after[places, byte] = after
            if not after:
                if len(before) + position > len(self._longest):
                    self._longest = before + text[:position]
                return 0
            places = after
        return places

    # -- values -------------------------------------------------------------------------------------------------

    def _read(self, value: Any, places: int, before: bytes) -> Iterator[_Alternative]:
        """All places that `value` leads to, each once. `before` is what was read, for messages."""
        if not isinstance(value, (dict, list)):
            return self._scalar(value, places, before)
        # Values live as long as the search, so that their identity names them.
        key = (id(value), places)
        if key not in self._known:
            object_ = isinstance(value, dict)
            self._known[key] = _Lazy((self._object if object_ else self._array)(value, places, before))
        return iter(self._known[key])

    def _scalar(self, value: Any, places: int, before: bytes) -> Iterator[_Alternative]:
        self._count()
        seen = {0}
        for text in spellings(value, self._spelling):
            after = self._spell(places, text, before)
            if after not in seen:
                seen.add(after)
                yield after, text

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _TooMany

    def _array(self, value: Any, places: int, before: bytes) -> Iterator[_Alternative]:
        opened = self._spell(places, b"[", before)
        if not opened:
            return
        yield from _depth_first(
            (0, opened, b"["),
            lambda state: self._next_items(value, state, before),
            lambda state: self._closed(state, b"]", before) if state[0] == len(value) else None,
        )

    def _next_items(self, value: list[Any], state: _State, before: bytes) -> Iterator[_State]:
        index, places, text = state
        if index == len(value):
            return
        separator = b"," if index else b""
        after = self._spell(places, separator, before + text)
        if not after:
            return
        text += separator
        for end, item in self._read(value[index], after, before + text):
            yield index + 1, end, text + item

    def _closed(self, state: _State, bracket: bytes, before: bytes) -> _Alternative | None:
        _, places, text = state
        after = self._spell(places, bracket, before + text)
        return (after, text + bracket) if after else None

    def _object(self, value: Any, places: int, before: bytes) -> Iterator[_Alternative]:
        opened = self._spell(places, b"{", before)
        if not opened:
            return
        orders = [list(value)] if self._as_it_stands else self._preferred(value)
        seen = set()
        for keys in orders:
            end = self._straight(value, keys, opened, before)
            if end is not None and end[0] not in seen:
                seen.add(end[0])
                yield end
        # The state of the search: remaining keys as bits, lowest first in order of preference.
        found = _depth_first(
            ((1 << len(value)) - 1, opened, b"{"),
            lambda state: self._next_keys(
                value, orders[0], state, before, state[0] & -state[0] if self._as_it_stands else -1
            ),
            lambda state: self._closed(state, b"}", before) if not state[0] else None,
        )
        yield from (end for end in found if end[0] not in seen)

    def _preferred(self, value: dict[str, Any]) -> list[list[str]]:
        """Orders of the keys: those of the `properties` that speak of most of them first; at least one."""
        known = [(sum(key in order for key in value), order) for order in self._orders]
        known.sort(key=lambda item: -item[0])
        orders: dict[tuple[str, ...], None] = {}
        for count, order in known[:MOST_ORDERS]:
            if count > 1 or not orders:
                last = len(order)
                orders[tuple(sorted(value, key=lambda key: order.get(key, last)))] = None  # the rest as they come
        return [list(keys) for keys in orders] or [list(value)]

    def _straight(self, value: dict[str, Any], keys: list[str], opened: int, before: bytes) -> _Alternative | None:
        """Read the members in one order, each in the first way that is found."""
        state = ((1 << len(keys)) - 1, opened, b"{")
        for number in range(len(keys)):
            bit = 1 << number
            following = self._next_keys(value, keys, state, before, bit)
            found = next(following, None)
            if found is None:
                return None
            state = found
        return self._closed(state, b"}", before)

    def _next_keys(
        self, value: dict[str, Any], keys: list[str], state: _State, before: bytes, only: int = -1
    ) -> Iterator[_State]:
        """The states after one more member; `only` has the bits of those that may come."""
        remaining, places, text = state
        separator = b"," if len(text) > 1 else b""
        after = self._spell(places, separator, before + text)
        if not after:
            return
        text += separator
        bits = remaining & only
        while bits:
            bit = bits & -bits
            bits ^= bit
            key = keys[bit.bit_length() - 1]
            self._count()
            for name in spellings(key, self._spelling):
                member = self._spell(after, name + b":", before + text)
                if not member:
                    continue
                named = text + name + b":"
                for end, item in self._read(value[key], member, before + named):
                    yield remaining ^ bit, end, named + item


def _depth_first(
    start: _State, following: Callable[[_State], Iterator[_State]], finished: Callable[[_State], _Alternative | None]
) -> Iterator[_Alternative]:
    """Walk states depth first, each (what is left, places) once, and give the alternatives they complete, each once.

    Args:
        start: the first state.
        following: the states after a state, lazily.
        finished: the alternative that a state completes, or None.
    """
    seen: set[tuple[int, int]] = set()
    ends: set[int] = set()
    stack = [iter((start,))]
    while stack:
        state = next(stack[-1], None)
        if state is None:
            stack.pop()
            continue
        if state[:2] in seen:
            continue
        seen.add(state[:2])
        end = finished(state)
        if end is not None and end[0] not in ends:
            ends.add(end[0])
            yield end
        stack.append(following(state))


# -- spellings and schemas --------------------------------------------------------------------------------------


def parse(text: str | bytes) -> Any:
    """JSON text as data, with exact numbers."""
    return json.loads(text, parse_float=Decimal)


def dump(value: Any) -> str:
    """`value` as JSON text, digits and key order kept; `json.dumps` cannot write the numbers of `parse`."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{dump(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def shuffled(value: Any, generator: random.Random) -> Any:
    """`value` with the keys of all objects in it in random order."""
    if isinstance(value, list):
        return [shuffled(item, generator) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: shuffled(value[key], generator) for key in generator.sample(list(value), len(value))}


def spellings(value: Any, spelling: Spelling = "canonical") -> list[bytes]:
    """The texts of a string, number, boolean or null, the preferred one first; see the module's docstring."""
    if value is None or isinstance(value, bool):
        return [json.dumps(value).encode()]
    if isinstance(value, str):
        texts = [json.dumps(value, ensure_ascii=False)]
        if spelling == "every":
            texts.append(json.dumps(value))
    else:
        texts = [str(value)] if spelling == "own" else _number_spellings(value)
        if spelling == "every" and texts[0].lstrip("-").isdigit():
            texts += [texts[0] + ".0", texts[0] + "e0"]
    # A lone surrogate has no UTF-8; what is written for it is refused, as it should be.
    return [text.encode("utf-8", "surrogatepass") for text in dict.fromkeys(texts)]


def _number_spellings(value: float | Decimal) -> list[str]:
    if isinstance(value, int):
        return [str(value)]
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    texts = []
    if abs(exact.adjusted()) <= MAX_DIGITS:
        plain = format(exact, "f")
        if "." in plain:
            plain = plain.rstrip("0").rstrip(".")
        texts.append("0" if plain == "-0" else plain)
    nearest = float(exact)
    if math.isfinite(nearest) and Decimal(repr(nearest)) == exact:
        texts.append(json.dumps(nearest))
    texts.append(str(exact))
    return texts


def declared_keys(schema: object) -> list[list[str]]:
    """For each object of a schema the names under its `properties`, in their order, then those under `required`.

    Several schemas may describe one object, so that the last list has the names of all of them, each once.
    """
    found: list[list[str]] = []
    stack = [schema]
    while stack:
        current = stack.pop()
        if isinstance(current, Mapping):
            properties, required = current.get("properties"), current.get("required")
            names = list(properties) if isinstance(properties, Mapping) else []
            if isinstance(required, Sequence) and not isinstance(required, str):
                names += [name for name in required if isinstance(name, str) and name not in names]
            if names:
                found.append(names)
            stack.extend(reversed(list(current.values())))
        elif isinstance(current, list):
            stack.extend(reversed(current))
    return [*found, list(dict.fromkeys(name for names in found for name in names))]
