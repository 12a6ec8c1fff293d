"""How a key or item can end: its possible endings at a state, and the tokens that fit them.

Where there are finitely many keys, or items, what is forbidden while one is read follows from this alone: a token goes
when all that it fits have been seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemac_runtime.guards import GuardTables
from schemac_runtime.registers import KEY, NEXT, SPACES

Ids = npt.NDArray[np.int64]
#: So many endings of a state are looked for, over so many states.
_MOST_ENDINGS, _MOST_STATES = 1_000, 20_000
_QUOTE, _BACKSLASH, _CLOSING = 0x22, 0x5C, 0x5D
_NESTED = b"[{"
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Endings:
    """What can follow within a key.

    Attributes:
        texts: the bytes up to the key's closing quotation mark, this included; without whitespace before the key where
            it can do without; shortest first.
        complete: whether these are all.
    """

    texts: tuple[bytes, ...]
    complete: bool


def endings(tables: GuardTables, state: int, *, opened: bool) -> Endings:
    """The endings at a state of an object's frame, worked out once.

    Args:
        tables: of the program.
        state: where a key is read, or comes next.
        opened: whether the key's opening quotation mark has been read.
    """
    found = tables.endings.get((state, opened))
    if found is None:
        found = tables.endings[state, opened] = _search(tables, state, opened)
    assert isinstance(found, Endings)
    return found


def _search(tables: GuardTables, state: int, opened: bool) -> Endings:
    texts: list[bytes] = []
    complete = True
    pending = deque([(state, b"" if opened else None)])  # None: the key has not begun
    begin = b""
    visited = 0
    while pending:
        here, text = pending.popleft()
        visited += 1
        if visited > _MOST_STATES or len(texts) > _MOST_ENDINGS:
            complete = False
            break
        complete &= not tables.calls.get(here)
        bytes_of = tables.bytes_of(here)
        if text is None and _QUOTE in bytes_of:
            bytes_of = [_QUOTE]
        for byte in bytes_of:
            key = here * tables.symbols + int(tables.byte_class[byte])
            target = tables.flat[key]
            if text is None:
                if byte == _QUOTE:
                    pending.append((target, begin + b'"'))
                elif len(begin) <= 2 and bytes_of == [byte]:  # whitespace that must be there
                    begin += bytes((byte,))
                    pending.append((target, None))
                else:
                    complete = False
            elif tables.acts.get(key) == KEY:
                texts.append(text + bytes((byte,)))
            else:
                pending.append((target, text + bytes((byte,))))
    return Endings(tuple(texts), complete)


@dataclass(frozen=True, slots=True)
class KeyTokens:
    """The tokens that fit the keys at a state.

    Attributes:
        tokens: int64, ascending: every token that fits some key.
        totals: int64, how many keys each fits.
        of: an ending, without whitespace before it -> indices into `tokens` of those that fit it.
    """

    tokens: Ids
    totals: Ids
    of: dict[bytes, Ids]

    def gone(self, seen: Iterable[bytes]) -> Ids:
        """The tokens that fit no key but some that have been seen, by their endings."""
        fitting = [found for ending in seen if (found := self.of.get(ending)) is not None]
        if not fitting:
            return _NONE
        counts = np.bincount(np.concatenate(fitting), minlength=len(self.tokens))
        gone: Ids = self.tokens[counts == self.totals]
        return gone


def key_tokens(tables: GuardTables, state: int, *, opened: bool) -> KeyTokens | None:
    """Those of a state, worked out once; None where its keys are too many, or are not spelled in one way only."""
    found = tables.key_tokens.get((state, opened), False)
    if found is False:
        found = tables.key_tokens[state, opened] = _key_tokens(tables, state, opened)
    assert found is None or isinstance(found, KeyTokens)
    return found


def _key_tokens(tables: GuardTables, state: int, opened: bool) -> KeyTokens | None:
    if tables.rest_of[state] > _MOST_ENDINGS:
        return None
    known = endings(tables, state, opened=opened)
    if not known.complete or any(_BACKSLASH in text for text in known.texts):
        return None
    whole = (text if opened else text.lstrip(SPACES) for text in known.texts)
    return _fitting({text: tokens_of_key(tables, text, opened=opened) for text in dict.fromkeys(whole)})


def tokens_of_key(tables: GuardTables, ending: bytes, *, opened: bool) -> list[int]:
    """The tokens that fit an ending of a key, those with whitespace before it too if it has not begun."""
    texts = tables.texts
    tokens: list[int] = []
    for spaces in (b"",) if opened else texts.spaces_before_keys:
        whole = spaces + ending
        for length in range(len(spaces) + 1, len(whole)):
            tokens += texts.equal(whole[:length])
        tokens += texts.ending_a_string(whole)
    return tokens


# -- items ---------------------------------------------------------------------------------------------------------


def item_endings(tables: GuardTables, state: int, text: bytes) -> Endings:
    """The same for the items of an array, where they are scalars; the endings are those before what follows the item.

    Args:
        tables: of the program.
        state: of the array's frame.
        text: of the item so far, without whitespace before it.
    """
    phase = _phase(text)
    if phase is None:
        return Endings((), False)
    found = tables.endings.get((state, phase))
    if found is None:
        found = tables.endings[state, phase] = _search_items(tables, state, phase)
    assert isinstance(found, Endings)
    return found


_BEFORE, _IN_STRING, _IN_WORD = "before", "string", "word"


def _phase(text: bytes) -> str | None:
    if text[:1] in (b"[", b"{") or b"\\" in text:
        return None
    if text[:1] == b'"' and text.count(b'"') == 1:
        return _IN_STRING
    return _IN_WORD if text else _BEFORE


def _search_items(tables: GuardTables, state: int, phase: str) -> Endings:
    texts: dict[bytes, None] = {}
    complete = True
    pending = deque([(state, phase, b"")])
    visited = 0
    while pending:
        here, at, text = pending.popleft()
        visited += 1
        if visited > _MOST_STATES or len(texts) > _MOST_ENDINGS:
            complete = False
            break
        complete &= not tables.calls.get(here)
        for byte in tables.bytes_of(here):
            key = here * tables.symbols + int(tables.byte_class[byte])
            target = tables.flat[key]
            if at == _IN_STRING and byte != _BACKSLASH:
                pending.append((target, _IN_WORD if byte == _QUOTE else at, text + bytes((byte,))))
            elif at == _IN_STRING or byte in _NESTED:
                complete = False
            elif tables.acts.get(key) == NEXT or (tables.special[target] and byte == _CLOSING):
                texts[text] = None
            elif byte not in SPACES:
                pending.append((target, _IN_STRING if byte == _QUOTE else _IN_WORD, text + bytes((byte,))))
            elif target != here and at == _BEFORE:  # whitespace: before an item it may have to be there
                pending.append((target, at, text))
    return Endings(tuple(texts), complete)


def item_tokens(tables: GuardTables, state: int, text: bytes) -> KeyTokens | None:
    """The tokens that fit the items at a state, as `key_tokens`; None where they are many, or no scalars."""
    phase = _phase(text)
    if phase is None:
        return None
    found = tables.key_tokens.get((state, phase), False)
    if found is False:
        found = tables.key_tokens[state, phase] = _item_tokens(tables, state, text)
    assert found is None or isinstance(found, KeyTokens)
    return found


def _item_tokens(tables: GuardTables, state: int, text: bytes) -> KeyTokens | None:
    if tables.rest_of[state] > _MOST_ENDINGS:
        return None
    known = item_endings(tables, state, text)
    if not known.complete:
        return None
    texts = tables.texts
    before = (b"",) if text else texts.spaces_before
    fitting: dict[bytes, list[int]] = {}
    for ending in known.texts:
        tokens: list[int] = []
        for spaces in before:
            whole = spaces + ending
            for length in range(len(spaces) + 1, len(whole) + (not whole.endswith(b'"'))):
                tokens += texts.equal(whole[:length])
            if ending.endswith(b'"'):
                tokens += texts.ending_a_string(whole)
            elif not spaces:
                tokens += texts.before_end.get(whole, _NONE).tolist()
            else:
                tokens += texts.spaced_before_end.get(whole, ())
        fitting[ending] = tokens
    return _fitting(fitting)


def _fitting(fitting: dict[bytes, list[int]]) -> KeyTokens:
    flat = np.array([token for tokens in fitting.values() for token in tokens], dtype=np.int64)
    every, totals = np.unique(flat, return_counts=True)
    of = {text: np.searchsorted(every, np.array(tokens, dtype=np.int64)) for text, tokens in fitting.items()}
    return KeyTokens(every, totals, of)
