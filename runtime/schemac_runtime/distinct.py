"""Items and keys that must differ: which tokens would repeat one, and when nothing that has been seen matters.

What matters is what the text of the item or key could still become. While it differs from all that has been seen, as
it nearly always does after a few bytes, no token is in doubt.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from schemac_runtime.endings import item_tokens, key_tokens, tokens_of_key
from schemac_runtime.guards import MANY, GuardTables
from schemac_runtime.registers import ACTIONS, NEXT, Guard, Register, canonical_value, is_full, scalars

Bool = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]
_NO_IDS: Ids = np.zeros(0, dtype=np.int64)
_NOTHING: frozenset[bytes] = frozenset()
#: Bytes of whitespace between a comma and a key, at the most.
_LAYOUT = 8
_NUMBERS = b"-0123456789"
_NESTED = b"[{"


@dataclass(frozen=True, slots=True)
class Doubt:
    """What has been seen puts tokens in doubt.

    Attributes:
        maybe: int64, ascending: those that may be forbidden.
        surely: the same: those that certainly are.
        narrowing: bool [V]: those that may be forbidden if only few texts lead on after them; None for none.
    """

    maybe: Ids
    surely: Ids
    narrowing: Bool | None = None


_NO_DOUBT = Doubt(_NO_IDS, _NO_IDS)


class Distinct:
    """What must differ in the frames of a program.

    Args:
        tables: of the program.
    """

    def __init__(self, tables: GuardTables) -> None:
        self.tables = tables
        self.texts = tables.texts
        self.guards: list[Guard] = [guard for _, guard in tables.guards]
        self._fewest = _fewest(tables)
        if any(guard.kind == "members" for guard in self.guards):
            self.texts.prepare_keys()
        if any(guard.kind == "items" and guard.distinct for guard in self.guards):
            self.texts.prepare_items()

    def exhausted(self, index: int, register: Register) -> bool:
        """Whether there may be no new key, or item, behind the one that is being read."""
        return len(register.seen) + (register.start >= 0) >= self._fewest[index]

    # -- keys ----------------------------------------------------------------------------------------------------

    def circumstance_of_keys(
        self, index: int, register: Register, number: Hashable, text: bytes | None, *, whole: bool, far: Hashable
    ) -> Hashable:
        """What the tokens that an object forbids depend on; `far` if it forbids none.

        Args:
            number: the same of the number of its keys.
            text: of the key so far, without whitespace before it; None within a value.
            whole: whether a token may hold a whole member.
        """
        guard = self.guards[index]
        if whole or (guard.high is not None and number != far) or self.exhausted(index, register):
            return number, register.seen, text
        relevant = self._beginning(register.seen)
        if text is None:
            return far if number == far and not relevant else (number, relevant)
        again = endings_of(register.seen, text)
        # The object may close behind this key if it is the last one that is missing.
        last = endings_of(guard.required - register.seen, text) if register.missing == 1 else ()
        if number == far and not again and not relevant:
            return far
        return number, relevant, frozenset(again), bool(text), frozenset(last), register.missing == 1

    def _beginning(self, seen: frozenset[bytes]) -> frozenset[bytes]:
        """Those of the keys that have been seen which a token may begin like that ends the member before. Usually there
        are none.
        """
        _, starts = self.texts.members
        return frozenset(key for key in seen if key[:2] in starts) if starts else _NOTHING

    def keys(self, index: int, register: Register, state: int, text: bytes) -> Doubt:
        """The tokens that seen keys put in doubt where a key is read.

        Args:
            index: of the object's guard.
            register: of the object.
            state: of the object's frame, or -1 within a frame that it called.
            text: of the key so far, without whitespace before it.
        """
        texts, guard = self.texts, self.guards[index]
        again = endings_of(register.seen, text)
        full = is_full(guard, register)
        if not again and not full:
            return _NO_DOUBT
        fitting = key_tokens(self.tables, state, opened=bool(text)) if state >= 0 else None
        if fitting is not None:
            if full:
                again = list(fitting.of.keys() - set(endings_of(guard.required - register.seen, text)))
            return Doubt(_NO_IDS, fitting.gone(again))
        if full:
            closing = np.flatnonzero(texts.having(0x7D)) if not text and not register.number else _NO_IDS
            return Doubt(closing, self._without_room(index, register, text, closing))
        if b"\\" in text or any(b"\\" in key for key in again):
            return Doubt(np.flatnonzero(texts.having(0x22)), _NO_IDS, texts.having(0x22) == 0)
        before = (b"",) if text else texts.spaces_before_keys
        gone = [token for key in again for spaces in before for token in texts.ending_a_string(spaces + key)]
        ended = texts.having(0x22) > (0 if text else 1)
        return Doubt(texts.escaped_ends, np.array(sorted(gone), dtype=np.int64), ~ended)

    def _without_room(self, index: int, register: Register, text: bytes, closing: Ids) -> Ids:
        """The tokens that fit none of the required keys to come, where there is no room for others."""
        gone = np.ones(len(self.tables.token_start) - 1, dtype=np.bool_)
        for key in endings_of(self.guards[index].required - register.seen, text):
            gone[tokens_of_key(self.tables, key, opened=bool(text))] = False
        if not text:
            gone[self.texts.spaces] = False
        gone[closing] = False
        return np.flatnonzero(gone)

    # -- items ---------------------------------------------------------------------------------------------------

    def circumstance_of_items(
        self, index: int, register: Register, number: Hashable, text: bytes, *, whole: bool, far: Hashable
    ) -> Hashable:
        """The same of an array."""
        if whole or self.exhausted(index, register):
            return number, register.seen, text
        again = becoming(register.seen, text)
        if not again:
            return number if number == far else (number,)
        return number, again, text

    def items(self, register: Register, state: int, text: bytes, *, in_string: bool) -> Doubt:
        """The tokens that seen items put in doubt.

        Args:
            register: of the array.
            state: of the array's frame, or -1 within a frame that it called.
            text: of the item so far, without whitespace before it.
            in_string: whether a quotation mark comes before anything else can happen.
        """
        texts, seen = self.texts, register.seen
        if not seen:
            return _NO_DOUBT
        fitting = item_tokens(self.tables, state, text) if state >= 0 else None
        if fitting is not None:
            gone = [ending for ending in fitting.of if canonical_value(text + ending) in seen]
            return Doubt(_NO_IDS, fitting.gone(gone))
        if text[:1] == b'"':
            again = endings_of(becoming(seen, text), text)
            if b"\\" in text or any(b"\\" in item for item in seen):
                return Doubt(np.flatnonzero(texts.having(0x22)), _NO_IDS, texts.having(0x22) == 0)
            ids = [token for item in again for token in texts.ending_a_string(item)]
            return Doubt(texts.escaped_ends, np.array(sorted(ids), dtype=np.int64), texts.having(0x22) == 0)
        if text and text[0] in _NUMBERS:
            parts = [ids for rest, ids in texts.ending_a_number.items() if canonical_value(text + rest) in seen]
            ends = np.sort(np.concatenate(parts)) if parts else _NO_IDS
            return Doubt(texts.powers_of_zero, ends, ~texts.ending_items)
        if text and text[0] in _NESTED:
            closing = (texts.having(0x5D) > 0) | (texts.having(0x7D) > 0)
            maybe = np.flatnonzero(closing & texts.ending_strings if in_string else closing)
            maybe = maybe if in_string else np.union1d(maybe, texts.powers_of_zero)
            return Doubt(maybe, _NO_IDS, np.ones_like(closing))
        return Doubt(np.union1d(texts.whole_items, texts.powers_of_zero), _NO_IDS, texts.having(0x22) < 2)


def becoming(seen: frozenset[bytes], text: bytes) -> frozenset[bytes]:
    """Those of the items that have been seen which the text of an item may still become; maybe more."""
    if not text or not seen:
        return seen
    if text[0] in _NUMBERS:
        return frozenset(item for item in seen if item[0] in _NUMBERS)
    if text[0] in _NESTED:
        here = scalars(text)
        return frozenset(item for item in seen if item[0] == text[0] and here <= _scalars_of(item))
    if b"\\" in text:
        return frozenset(item for item in seen if item[:1] == b'"')
    return frozenset(item for item in seen if item.startswith(text) or (text[:1] == b'"' and b"\\" in item))


@lru_cache(maxsize=4_096)
def _scalars_of(item: bytes) -> frozenset[bytes]:
    return scalars(item, whole=True)


def endings_of(seen: frozenset[bytes], text: bytes) -> list[bytes]:
    """The endings of a text that would make it one of the seen ones."""
    return [item[len(text) :] for item in seen if item.startswith(text)] if text else list(seen)


def _fewest(t: GuardTables) -> tuple[int, ...]:
    """By guard, a number of keys or items that always leaves a new one to be had; where so many have been seen, there
    may be none. `MANY` if there always is one.
    """
    fewest = {procedure: MANY if guard.distinct else 0 for procedure, guard in t.guards}
    keyed = {procedure for procedure, guard in t.guards if guard.kind == "members"}
    quote = int(t.byte_class[0x22])
    for state, symbol, action in t.actions.tolist():
        procedure = int(t.owner[state])
        if ACTIONS[action] != NEXT:
            continue
        begin, steps = t.flat[state * t.symbols + symbol], 0
        if procedure in keyed:
            while t.flat[begin * t.symbols + quote] < 0 and steps < _LAYOUT and (bytes_of := t.bytes_of(begin)):
                begin, steps = t.flat[begin * t.symbols + int(t.byte_class[bytes_of[0]])], steps + 1
            begin = t.flat[begin * t.symbols + quote]
            most = 0 if begin < 0 else t.rest_of[begin]
        else:  # an item may be spelled in several ways, and end in several
            most = MANY if t.rest_of[begin] >= MANY else 0
        fewest[procedure] = min(fewest[procedure], most)
    return tuple(fewest[procedure] for procedure, _ in t.guards)
