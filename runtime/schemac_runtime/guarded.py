"""Matching where frames have registers: counted strings and arrays, distinct items and keys.

The tables of a program follow the automaton without its guards. A guarded matcher follows it byte by byte as well, with
the registers of the guarded frames, and so knows its true configurations. A mask is that of the tables for these
configurations, without the tokens that a guard forbids. Few tokens can meet a guard at all, and which ones follows from
the registers and from a few facts about every token; only those are tried one by one, once for equal circumstances.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import index as index_of
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.distinct import Doubt
from schemac_runtime.errors import MatcherError
from schemac_runtime.follower import Follower, Place, Places, chain
from schemac_runtime.guards import MANY
from schemac_runtime.masks import apply_operation, or_mask, unpack
from schemac_runtime.matcher import ENDED, Configurations, Matcher
from schemac_runtime.needs import Needs, after_tokens
from schemac_runtime.program import UNREACHABLE, Int32, Operation, Program, tokens_operation
from schemac_runtime.registers import Register, plain_characters
from schemac_runtime.repeating import RepeatingMatcher
from schemac_runtime.stacks import EMPTY_STACK, Stack
from schemac_runtime.suspects import FAR, Level, Suspects

#: How many tokens are tried one by one where a limit on the number of tokens is all but used up.
_TRIED_TOKENS = 2_000
#: Up to so many stop ids are looked for one by one.
_FEW_STOPS = 4
#: So many tokens are worth looking which of them are spelled alike.
_GROUPED_FROM = 100
#: Steps remembered by a matcher, and by a program, by circumstances.
_REMEMBERED = 4_096
#: Deeper stacks are not worth a look at what other matchers have found.
_LONG_PLACE = 64
#: State, stack, and what matters of the registers.
_Circumstances = tuple[int, Stack, tuple[Hashable, ...]]


class GuardedMatcher(RepeatingMatcher):
    """A matcher for a program with guards. It is used as any other."""

    __slots__ = ("_forbidden", "_last", "_needs", "_places_history", "_whole_items", "_whole_keys")

    def __init__(self, program: Program, stop_ids: Sequence[int] = ()) -> None:
        super().__init__(program, stop_ids)
        assert program.guards is not None
        self._suspects = Suspects.of(program.guards)
        self._begin()

    def _begin(self) -> None:
        assert self.program.guards is not None
        self._follower = Follower(self.program, self.program.guards, self._pool)
        self._nowhere = Stack(0, (), False, 0)  # below a frame that must not end
        self._needs = Needs(self._follower)
        self._forbidden: dict[Hashable, Operation | None] = {}
        self._last: tuple[object, Operation | None] = (None, None)  # what was asked last
        self._whole_items = False  # whether a token of the mask may end an item and begin another
        self._whole_keys = False  # whether a token of the mask may hold a member's key, all of it
        self._places_history: list[tuple[Places, int]] = []
        self._go_to(self._follower.start())

    def _go_to(self, places: Places) -> None:
        """Stand at some places; the tables follow."""
        self._places = places
        self._now = self._projected(places)

    def _projected(self, places: Places) -> Configurations:
        if len(places) == 1:
            return ((places[0][0], places[0][1]),)
        after: dict[int, list[Stack]] = {}
        for state, stack, _ in places:
            after.setdefault(state, []).append(stack)
        return self._merged(after)

    # -- reading -------------------------------------------------------------------------------------------------

    def accept(self, token: int) -> bool:
        """Read one token, see `Matcher.accept`."""
        token = index_of(token)
        length = len(self._follower.text)
        after = self._after_token(self._places, token)
        if after is None:
            return False
        self._history.append(self._now)
        self._places_history.append((self._places, length))
        if after:
            self._go_to(after)
        else:
            self._places, self._now = after, ENDED
        return True

    def _after_token(self, places: Places, token: int) -> Places | None:
        """The places after a token, () after one that ends the text; None, and the text unchanged, if it is refused."""
        if not 0 <= token < self.program.vocab_size or self._now is ENDED or not places:
            return None
        if token in self.stop_ids and self._follower.ends(places):
            return ()
        length = len(self._follower.text)
        tables = self._follower.tables
        piece, symbols = tables.piece(token)
        if not piece:
            symbol = tables.label_symbol.get(token)
            after = () if symbol is None else self._follower.read(places, b"\0", (symbol,), length - 1)
            return after or None
        self._follower.text += piece
        texts = tables.texts
        if len(places) == 1:
            quick = None
            if tables.in_string_of[places[0][0]] and texts.unquoted[token]:
                quick = self._quick(places[0], token)
            elif self._suspects.repeated:  # any byte may begin or end something
                quick = self._quick_repeated(places[0], token)
            elif texts.plain[token]:
                quick = self._quick(places[0], token)
            if quick is not None:
                return quick
        after = self._follower.read(places, piece, symbols, length)
        if not after:
            del self._follower.text[length:]
            return None
        return after

    def _quick(self, place: Place, token: int) -> Places | None:
        """The place after a token that ends and begins nothing; None where that is not so simple."""
        state, stack, registers = place
        after = self._one_step(state, stack, token)
        if after is None:
            return None
        if registers is not None and self._follower.tables.guard_of[state] >= 0:
            index, register, below = registers
            guard = self._follower.guards[index]
            if guard.kind == "characters":
                if register.mode:
                    return None
                counted = plain_characters(guard, register, self._suspects.characters[token])
                changed = self._follower.within(guard, counted, after[0])
                if changed is None:
                    return None
                registers = (index, changed, below)
        reached: Place = (after[0], after[1], registers)
        return (reached,) if self._follower.alive(reached) else None

    # -- masks ---------------------------------------------------------------------------------------------------

    def fill_bitmask(self, bitmask: Any, row: int = 0, budget: int | None = None) -> None:
        """Write the allowed tokens into ``bitmask[row]``, see `Matcher.fill_bitmask`."""
        super().fill_bitmask(bitmask, row)
        if self._now is ENDED:
            return
        self._whole_keys = self._suspects.may_hold_key(self._out)
        if self._suspects.remembers_items:
            in_string = all(self._follower.tables.in_string_of[place[0]] for place in self._places)
            self._whole_items = self._suspects.may_begin_item(self._out, in_string=in_string)
        key = tuple(map(self._circumstances, self._places))
        near = any(part != FAR for place in key for part in place[2])
        if near or (self._suspects.may_enter(self._out) and any(map(self._may_enter, self._places))):
            if key != self._last[0]:
                self._last = key, self._forbidden_at(key, near)
            if self._last[1] is not None:
                apply_operation(self._out, self._last[1])
        if budget is not None:
            self._keep_within(self._out, budget)

    def _forbidden_at(self, key: tuple[_Circumstances, ...], near: bool) -> Operation | None:
        """The step that takes away what guards forbid, remembered for this request, and for others of the program."""
        if key in self._forbidden:
            return self._forbidden[key]
        shared, name = self._suspects.forbidden, self._name(key)
        if name in shared:
            found = shared[name]
        else:
            found = self._find_forbidden(self._out) if near else self._find_entering(self._out)
        for known, mine in ((self._forbidden, key), (shared, name)):
            if len(known) >= _REMEMBERED:
                known.clear()
            if mine is not None:
                known[mine] = found
        return found

    def _name(self, key: tuple[_Circumstances, ...]) -> Hashable:
        """Circumstances in words that all matchers of the program share; None where those are long."""
        parts: list[Hashable] = [self.stop_ids]
        for state, stack, registers in key:
            path, below = [state], stack
            while below.parent is not None and len(path) <= _LONG_PLACE:
                path.append(below.ret)
                below = below.parent
            if below.ret != EMPTY_STACK:
                return None
            parts.append((tuple(path), registers))
        return tuple(parts)

    def _circumstances(self, place: Place) -> _Circumstances:
        """What the forbidden tokens depend on, and no more: registers far from their bounds are all alike."""
        state, stack, registers = place
        if registers is None:
            return state, stack, ()
        if registers[2] is None:
            return state, stack, (self._circumstance(registers[0], registers[1]),)
        return state, stack, tuple(self._circumstance(index, register) for index, register in chain(registers))

    def _circumstance(self, index: int, register: Register) -> Hashable:
        """The same of one register; `FAR` if it forbids nothing."""
        guard = self._follower.guards[index]
        number = self._suspects.near(index, register)
        if guard.kind == "characters":
            return number if number == FAR else (number, register.mode)
        if not guard.distinct:
            return number
        distinct = self._suspects.distinct
        text = self._text_of(register)
        if guard.kind == "members":
            return distinct.circumstance_of_keys(index, register, number, text, whole=self._whole_keys, far=FAR)
        return distinct.circumstance_of_items(index, register, number, text or b"", whole=self._whole_items, far=FAR)

    def _text_of(self, register: Register) -> bytes | None:
        """The text of the item or key that is being read, without whitespace before it."""
        return self._follower.text_of(register) if register.start >= 0 else None

    def _find_entering(self, out: Int32) -> Operation | None:
        """The same where only tokens that enter a guarded frame could break a guard."""
        tokens = self._suspects.entering_ids
        groups = self._alike(_among(out, tokens))
        refused = self._refused([token for token, _ in groups])
        gone = [like for token, like in groups if token in refused]
        if not gone:
            return None
        found = np.concatenate(gone)
        words, bits, _ = tokens_operation(found[~np.isin(found, list(self.stop_ids))])
        return words, ~bits, True

    def _find_forbidden(self, out: Int32) -> Operation | None:
        """The step that takes away the tokens of a mask that guards forbid."""
        suspects = [self._suspects_at(place) for place in self._places]
        doubtful, certain = suspects[0]
        if len(suspects) == 1:
            doubtful, certain = _among(out, doubtful), _among(out, certain)
        else:  # what is beyond doubt at one place is so at all of them
            allowed = unpack(out[: self.program.words], self.program.vocab_size)
            doubtful = np.flatnonzero(allowed & ~self._beyond_doubt(suspects)).astype(np.int64)
            for _, surely in suspects[1:]:
                certain = np.intersect1d(certain, surely)
        gone = [self._without_stops(certain)]
        if self._at_end(self._now) and not self._follower.ends(self._places):
            gone.append(np.array(sorted(self.stop_ids), dtype=np.int64))
        if len(doubtful):
            groups = self._alike(self._without_stops(doubtful))
            refused = self._refused([token for token, _ in groups])
            gone += [like for token, like in groups if token in refused]
        tokens = np.concatenate(gone) if len(gone) > 1 else gone[0]
        if not len(tokens):
            return None
        words, bits, _ = tokens_operation(tokens)
        return words, ~bits, True

    def _without_stops(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if not len(tokens):
            return tokens
        stops = np.array(sorted(self.stop_ids), dtype=np.int64)
        return tokens[~np.isin(tokens, stops)] if len(stops) > _FEW_STOPS else tokens[(tokens != stops[:, None]).all(0)]

    def _beyond_doubt(
        self, suspects: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
    ) -> npt.NDArray[np.bool_]:
        """bool [V]: the tokens that some place allows and no guard could forbid there."""
        found = np.zeros(self.program.vocab_size, dtype=np.bool_)
        for (state, stack, _), (mine, surely) in zip(self._places, suspects, strict=True):
            row = np.zeros(self.program.words, dtype=np.int32)
            or_mask(row, stack.masks.get(state) or self._mask(state, stack))
            allowed = unpack(row, self.program.vocab_size)
            allowed[mine] = False
            allowed[surely] = False
            found |= allowed
        return found

    def _refused(self, tokens: Sequence[int]) -> set[int]:
        """Those of some tokens that cannot be read here; what several of them begin with is read once."""
        special = {token for token in tokens if token in self._follower.tables.label_symbol}
        refused = {token for token in special if self._after_token(self._places, token) is None}
        others = [token for token in tokens if token not in special]
        return refused | (set(others) - {token for token, _ in after_tokens(self._follower, self._places, others)})

    def _alike(self, tokens: npt.NDArray[np.int64]) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """Tokens with those that fare alike: one class of tokens, as long in characters, within one string."""
        if self._suspects.by_spelling and len(tokens) > _GROUPED_FROM:
            return [(int(group[0]), group) for group in self._suspects.alike(tokens)]
        registers = self._places[0][2]
        same = np.zeros(len(tokens), dtype=np.bool_)
        if len(self._places) == 1 and registers is not None and not registers[1].mode:
            state = self._places[0][0]
            if self._follower.tables.guard_of[state] >= 0 and self._follower.guards[registers[0]].kind == "characters":
                same = ~self._follower.tables.texts.quoted[tokens]
        found = [(int(token), np.array([token])) for token in tokens[~same]]
        tokens = tokens[same]
        if not len(tokens):
            return found
        characters = self._follower.tables.texts.characters[tokens]
        key = self.program.tables.token_class[tokens] * np.int64(1 << 16) + characters
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        return found + _grouped(tokens, first, inverse.reshape(-1))

    def _suspects_at(self, place: Place) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        state, _, registers = place
        levels: list[Level] = []
        again: list[Doubt] = []
        in_string = bool(self._follower.tables.in_string[state])
        inside = self._follower.tables.guard_of[state] >= 0
        starts = self._starting(*place[:2]) if self._suspects.repeated else 0
        unmet = self._unmet(registers) if self._suspects.repeated else None
        for index, register in chain(registers):
            text = self._text_of(register)
            few = inside and text is not None and self._follower.tables.rest_of[state] < MANY
            if text is not None and self._follower.guards[index].distinct:
                again.append(self._repeating(index, register, state if inside else -1, text, in_string=in_string))
                few = few and again[-1].narrowing is not None
            if index in self._suspects.repeated:
                few = len(levels) < starts
            levels.append((index, register, text, few))
            inside = False
        doubtful, certain = self._suspects.at(levels, in_string=in_string, enters=self._may_enter(place))
        every = len(doubtful) == self.program.vocab_size  # sorting all of them takes milliseconds
        for doubt in again:
            if len(doubt.surely):
                certain = np.union1d(certain, doubt.surely) if len(certain) else doubt.surely
            if len(doubt.maybe) and not every:
                doubtful = np.union1d(doubtful, doubt.maybe)
            if doubt.narrowing is not None and not every:
                narrowing = self._suspects.narrowing(self.program, state)
                doubtful = np.union1d(doubtful, narrowing[doubt.narrowing[narrowing]])
        if unmet is not None:
            return self._with_unmet(place, unmet, doubtful, certain)
        return doubtful, certain

    def _repeating(self, index: int, register: Register, state: int, text: bytes, *, in_string: bool) -> Doubt:
        distinct = self._suspects.distinct
        if self._follower.guards[index].kind == "members":
            return distinct.keys(index, register, state, text)
        return distinct.items(register, state, text, in_string=in_string)

    # -- limits on the number of tokens --------------------------------------------------------------------------

    def tokens_needed(self) -> int:
        """How many tokens suffice to finish the text from here, see `Matcher.tokens_needed`."""
        return 0 if self._now is ENDED else 1 + min(map(self._needs.of, self._places))

    def _keep_within(self, out: Int32, budget: int) -> None:
        """Take away the tokens after which the text could not be finished in time, see `Matcher`."""
        needs = self._needs
        if not self._history and budget < self.tokens_needed():
            needed = self.tokens_needed()
            raise MatcherError(f"{budget} tokens are not enough to finish this text: it needs {needed}")
        left = budget - 2  # after this token, before the stop token
        far = all(needs.most_after(place) <= left for place in self._places)
        # What is left by tokens that enter a frame and go on in it is in no reach.
        if far and (not self._suspects.may_enter(out) or needs.most_entered + self.tokens_needed() <= left):
            return
        program = self.program
        allowed = np.unpackbits(out[: program.words].view(np.uint8), bitorder="little")[: program.vocab_size] > 0
        token_class = program.tables.token_class
        sure = np.zeros(program.classes, dtype=np.bool_)
        nearest = np.full(program.classes, UNREACHABLE, dtype=np.int64)
        for symbol_class in np.unique(token_class[allowed]).tolist():
            found = [self._left_after(place, symbol_class) for place in self._places]
            nearest[symbol_class] = min(near for near, _ in found)
            sure[symbol_class] = any(most <= left for _, most in found)
        keep = sure[token_class] & allowed
        for token, like in self._alike(self._read_in_several_ways(keep)):
            keep[like] = self._needs_after(token) <= left
        hasty = np.zeros(0, dtype=np.int64)
        if self._suspects.entering is not None and any(map(self._may_enter, self._places)):
            # What they leave in a frame that they enter is not in the tables.
            hasty = np.flatnonzero(keep & self._suspects.entering)
            keep[hasty] = False
        best, least = -1, UNREACHABLE * 2
        rest = np.flatnonzero(allowed & ~keep)
        lengths = np.diff(self._follower.tables.token_start)[rest]
        order = np.lexsort((lengths, nearest[token_class[rest]]))  # what tables take for the shortest way comes first
        tried = rest[order[:_TRIED_TOKENS]].tolist()
        spelling = [token for place in self._places for token in needs.next_of_required(place) if token >= 0]
        tried = dict.fromkeys([*(token for token in spelling if allowed[token]), *hasty.tolist(), *tried])
        alike: dict[int, Any] = {token: token for token in tried}
        if self._suspects.by_spelling:
            alike = dict(self._alike(np.array(list(tried), dtype=np.int64)))
        for token, needed in self._needs_after_each(list(alike)):
            keep[alike[token]] |= needed <= left
            if needed < least:
                best, least = token, needed
        ends = self._follower.ends(self._places)
        if best >= 0 and not ends and not keep.any():
            keep[best] = True  # the tokens that were accepted so far leave too few: on to the nearest end
        packed = np.zeros(program.words * 4, dtype=np.uint8)
        bits = np.packbits(keep, bitorder="little")
        packed[: len(bits)] = bits
        out[: program.words] = packed.view(np.int32)
        if ends:
            apply_operation(out, self._stop)

    def _left_after(self, place: Place, symbol_class: int) -> tuple[int, int]:
        """The tokens needed after one of a class: at best, and however it is read.

        In repetitions the latter holds if no guard forbids how it is read.
        """
        state, stack, registers = place
        left_after, repeated = self._needs.left_after, bool(self._suspects.repeated)
        local, rests = self._local(state, stack, symbol_class)
        ways: list[tuple[int, int]] = []
        unmet = None
        if repeated and rests:
            ways = [left_after(place, 0, after, reached) for after, reached in local]
            unmet = self._unmet(registers)
        if unmet is not None:  # that frame cannot end yet
            above, below = self._cut(state, stack, unmet)
            for after, reached in () if above is None else self._after(state, above, symbol_class):
                near, most = left_after(place, unmet, after, reached)
                ways.append((near + below.needs, most + below.needs))
        else:
            kept = len(chain(registers)) if rests else 0  # a frame that ends takes its credit with it
            ways += [left_after(place, kept, *after) for after in self._after(state, stack, symbol_class)]
        if not ways:
            return UNREACHABLE, UNREACHABLE
        return min(near for near, _ in ways), (min if repeated else max)(most for _, most in ways)

    def _needs_after(self, token: int) -> int:
        """How many tokens are needed after one, but for the one that ends the text; many if it is refused."""
        length = len(self._follower.text)
        after = self._after_token(self._places, token)
        needed = 2 * UNREACHABLE if after is None else min(map(self._needs.of, after), default=-1)
        del self._follower.text[length:]
        return needed

    def _needs_after_each(self, tokens: list[int]) -> Iterator[tuple[int, int]]:
        """The same for several tokens; those that are refused are left out."""
        special = [token for token in tokens if token in self._follower.tables.label_symbol]
        for token in special:
            yield token, self._needs_after(token)
        for token, after in after_tokens(self._follower, self._places, tokens):
            yield token, min(map(self._needs.of, after))

    # -- the past ------------------------------------------------------------------------------------------------

    def validate(self, tokens: Iterable[int]) -> int:
        """How many of the given tokens could be accepted in a row. Changes nothing."""
        count, places, length = 0, self._places, len(self._follower.text)
        for token in tokens:
            after = self._after_token(places, index_of(token))
            if after is None:
                break
            places, count = after, count + 1
        del self._follower.text[length:]
        return count

    def rollback(self, count: int) -> None:
        """Undo the last `count` accepted tokens, see `Matcher.rollback`."""
        super().rollback(count)
        if count:
            self._places, length = self._places_history[-count]
            del self._places_history[-count:]
            del self._follower.text[length:]

    def reset(self) -> None:
        """Back to the start of a text."""
        super().reset()
        self._begin()

    def fork(self) -> Matcher:
        """An independent matcher at the same place, history included."""
        other = super().fork()
        assert isinstance(other, GuardedMatcher)
        other._follower, other._suspects = self._follower.copy(), self._suspects
        other._nowhere, other._whole_items = self._nowhere, self._whole_items
        other._forbidden, other._last, other._whole_keys = self._forbidden, self._last, self._whole_keys
        other._needs = Needs(other._follower)
        other._places, other._places_history = self._places, list(self._places_history)
        return other

    def is_complete(self) -> bool:
        """Whether the text so far is a whole one (it may also go on)."""
        return self._now is ENDED or self._follower.ends(self._places)

    @property
    def configurations(self) -> int:
        """In how many places at once the text may stand."""
        return len(self._places)


def _among(out: Int32, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Those of some tokens that a mask allows."""
    allowed: npt.NDArray[np.bool_] = out[tokens >> 5].view(np.uint32) >> (tokens & 31).astype(np.uint32) & 1 > 0
    return tokens[allowed]


def _grouped(
    tokens: npt.NDArray[np.int64], first: npt.NDArray[np.intp], inverse: npt.NDArray[np.intp]
) -> list[tuple[int, npt.NDArray[np.int64]]]:
    """(one token, all of its group) for each group, from what `np.unique` says of them."""
    if not len(tokens):
        return []
    order = np.argsort(inverse, kind="stable")
    groups = np.split(tokens[order], np.searchsorted(inverse[order], np.arange(1, len(first))))
    return [(int(tokens[index]), group) for index, group in zip(first, groups, strict=True)]
