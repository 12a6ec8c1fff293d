"""Matching: where one text stands in a program, and which tokens may come next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import index as index_of
from typing import Any

import numpy as np

from schemac_runtime.errors import MatcherError
from schemac_runtime.masks import apply_operation, composed, count_allowed, mask_rows, or_mask, write_mask, written
from schemac_runtime.program import (
    EXIT,
    NO_EDGE,
    NO_ROW,
    UNREACHABLE,
    Int32,
    Mask,
    Operation,
    Program,
    tokens_operation,
)
from schemac_runtime.stacks import EMPTY_STACK, SEVERAL, Stack, StackPool

Configuration = tuple[int, Stack]
#: A text (by class) that is to be read at a return state, above a stack.
_Reading = tuple[int, Stack, int]
#: All the places where the text read so far may stand; the empty tuple means that it has ended with a stop token.
Configurations = tuple[Configuration, ...]
ENDED: Configurations = ()
#: Stands for the mask filled last, before the first one.
_NO_BITMASK = object()
#: A mask with more operations than this is written out where it becomes a part of others.
_LONG_MASK = 4
#: Deeper stacks are not worth looking a mask up by.
_LONG_PLACE = 24
#: How many readings below the top of a stack a matcher remembers.
_REMEMBERED = 50_000


class Matcher:
    """The state of one request: a history of immutable configurations, so that rollback is exact.

    A matcher and its forks belong to one thread at a time; any number of matchers may use one program from any number
    of threads.

    Args:
        program: what to match.
        stop_ids: ids that end the text, beside those of the vocabulary.
    """

    __slots__ = ("_bitmask", "_history", "_known", "_now", "_out", "_pool", "_row", "_stop", "program", "stop_ids")

    def __init__(self, program: Program, stop_ids: Sequence[int] = ()) -> None:
        self.program = program
        for token in stop_ids:
            if not 0 <= token < program.vocab_size:
                raise MatcherError(f"stop id {token} is outside 0..{program.vocab_size - 1}")
        self.stop_ids = frozenset((*program.stop_ids, *stop_ids))
        self._stop = tokens_operation(np.array(sorted(self.stop_ids), dtype=np.int64))
        self._pool = StackPool(self.program.distance)
        self._known: dict[_Reading, tuple[Configuration, ...]] = {}
        self._history: list[Configurations] = []
        self._now: Configurations = self._start()
        self._bitmask: object = _NO_BITMASK  # the mask and row filled last: checked once, not at every step
        self._row = -1
        self._out: Int32 = self.program.nothing

    def _start(self) -> Configurations:
        stack = self._pool.bottom
        for ret in self.program.chain(int(self.program.tables.start_context[0])):
            stack = self._pool.push(stack, ret)
        return ((int(self.program.tables.start[0]), stack),)

    # -- masks -------------------------------------------------------------------------------------------------

    def fill_bitmask(self, bitmask: Any, row: int = 0, budget: int | None = None) -> None:
        """Write the allowed tokens into ``bitmask[row]``.

        Args:
            bitmask: int32 [rows, words] NumPy array or CPU torch tensor, words >= ceil(V / 32), bit = 1 allowed; words
                past the vocabulary are cleared. A 1-D array of words is row 0.
            row: the row to write.
            budget: how many tokens may still be read, this one and the stop token included. A token is then allowed
                only if the text can be finished in what remains. Far from the limit this costs a comparison.

        Raises:
            MatcherError: the mask is too narrow or of another type, or the budget is less than `tokens_needed`.
        """
        if bitmask is not self._bitmask or row != self._row:
            self._find_row(bitmask, row)
        out = self._out
        now = self._now
        if len(now) == 1:
            state, stack = now[0]
            mask = stack.masks.get(state) or self._mask(state, stack)
            dense, words, values, more = mask
            if more or len(out) != len(dense):
                write_mask(out, mask)
            else:  # the common case of it
                out[:] = dense
                if words is not None and values is not None:
                    out[words] = values
        else:
            out.fill(0)
            if now is ENDED:
                apply_operation(out, self._stop)
            for state, stack in now:
                or_mask(out, stack.masks.get(state) or self._mask(state, stack))
        if budget is not None and now is not ENDED:
            self._keep_within(out, budget)

    def _find_row(self, bitmask: Any, row: int) -> None:
        rows = mask_rows(bitmask, self.program.words)
        try:
            out = rows[row]
        except IndexError:
            raise MatcherError(f"there is no row {row} in a mask of {len(rows)} rows") from None
        self._bitmask, self._row, self._out = bitmask, row, out

    def place(self, budget: int | None = None) -> tuple[int, ...] | None:
        """Where the text stands, for caches that many matchers share; None where that is no short answer.

        Matchers of one program with the same stop ids and equal places allow the same tokens. None too where a budget
        of so many tokens, see `fill_bitmask`, takes some of them away.
        """
        if type(self) is not Matcher:  # a subclass knows more of a text than its configurations
            return None
        if self._now is ENDED:
            return (-1,)
        if len(self._now) != 1:
            return None
        state, stack = self._now[0]
        if budget is not None and self._reach(state, stack) > budget - 2:
            return None
        path = [state]
        while stack.parent is not None and len(path) <= _LONG_PLACE:
            path.append(stack.ret)
            stack = stack.parent
        return tuple(path) if stack.ret == EMPTY_STACK else None

    def tokens_needed(self) -> int:
        """How many tokens suffice to finish the text from here, the stop token included; 0 after it.

        It is an upper bound that can be kept to: some token leads to a place that needs one less.
        """
        if self._now is ENDED:
            return 0
        return 1 + min(self.program.distance[state] + stack.needs for state, stack in self._now)

    def _keep_within(self, out: Int32, budget: int) -> None:
        """Take away the tokens after which the text could not be finished within `budget` tokens, this one included."""
        if budget < self.tokens_needed():
            raise MatcherError(f"{budget} tokens are not enough to finish this text: it needs {self.tokens_needed()}")
        left = budget - 2  # after this token, before the stop token
        if all(self._reach(state, stack) <= left for state, stack in self._now):
            return
        program = self.program
        allowed = np.unpackbits(out[: program.words].view(np.uint8), bitorder="little")[: program.vocab_size]
        token_class = program.tables.token_class
        fits = np.zeros(program.classes, dtype=np.uint8)
        for symbol_class in np.flatnonzero(np.bincount(token_class[allowed > 0], minlength=program.classes)).tolist():
            after = [c for state, stack in self._now for c in self._after(state, stack, symbol_class)]
            fits[symbol_class] = any(program.distance[state] + stack.needs <= left for state, stack in after)
        packed = np.zeros(program.words * 4, dtype=np.uint8)
        bits = np.packbits(fits[token_class] & allowed, bitorder="little")
        packed[: len(bits)] = bits
        ending = bool(self._at_end(self._now))
        out[: program.words] = packed.view(np.int32)
        if ending:
            apply_operation(out, self._stop)

    def _reach(self, state: int, stack: Stack) -> int:
        """The most tokens that may be left to do after one more, in any way that the configuration can go on."""
        program = self.program
        if stack.ret == SEVERAL:
            return UNREACHABLE  # the frames of different readings need different numbers: look at each token
        most = program.reach[state] + stack.needs
        pending = list(stack.tops) if program.accepting[state] else []
        for ret, below in pending:  # grows while we walk it
            if below.ret == SEVERAL:
                return UNREACHABLE
            most = max(most, program.reach[ret] + below.needs)
            if program.accepting[ret]:
                pending += [item for item in below.tops if item not in pending]
        return most

    def _mask(self, state: int, stack: Stack) -> Mask:
        """The mask of one configuration; kept at its stack."""
        # A state that may end its frame allows what the frames below allow too: work out the lowest one first.
        pending = [(state, stack)]
        while pending:
            here, below = pending[-1]
            if here in below.masks:
                pending.pop()
                continue
            missing = [item for item in self._needed_masks(here, below) if item[0] not in item[1].masks]
            if missing:
                pending.extend(missing)
            else:
                below.masks[here] = self._composed_mask(here, below)
                pending.pop()
        return stack.masks[state]

    def _needed_masks(self, state: int, stack: Stack) -> list[Configuration]:
        """The configurations whose masks a mask is made of."""
        program = self.program
        if not program.stacked[state]:
            return []
        needed = list(stack.tops) if program.accepting[state] else []
        default = program.default_state[state]
        if default >= 0:
            needed.append((default, self._above_default(state, stack)))
        return needed

    def _above_default(self, state: int, stack: Stack) -> Stack:
        ret = self.program.default_return[state]
        return stack if ret < 0 else self._pool.push(stack, ret)

    def _composed_mask(self, state: int, stack: Stack) -> Mask:
        program = self.program
        if not program.stacked[state]:
            return program.state_mask(state)
        default = program.default_state[state]
        base = Mask(program.nothing)
        operations: list[Operation] = []
        if default >= 0:
            base = self._above_default(state, stack).masks[default]
            self._add_row(program.clear_row[state], operations, clear=True)
        row = program.state_row[state]
        if row >= 0 and default < 0:
            base = program.state_mask(state)
        else:
            self._add_row(row, operations)
        for ret, parent in stack.tops:
            self._add_below(state, ret, parent, operations)
        if program.accepting[state]:
            if stack.empty:
                operations.append(self._stop)
            for ret, parent in stack.tops:
                lower = parent.masks[ret]
                if lower.dense is not program.nothing or len(lower.more) > _LONG_MASK:
                    operations.append((None, written(lower), False))
                else:
                    operations += ([(lower.words, lower.values, False)] if lower.values is not None else [])
                    operations += lower.more
        if default >= 0:
            return base._replace(more=(*base.more, *operations)) if operations else base
        return composed(base.dense, operations)

    def _add_below(self, state: int, ret: int, parent: Stack, operations: list[Operation]) -> None:
        """Add what the return state on top of the stack allows at `state` besides."""
        program = self.program
        if program.below_on_use:
            exits = list(program.exits(state))
            allowed = [program.tokens_of_class(c) for c, rest in exits if self._allows(ret, parent, rest)]
            if allowed:
                operations.append(tokens_operation(np.concatenate(allowed)))
        low, high = program.below_start[state], program.below_start[state + 1]
        index = bisect_left(program.below_return, ret, low, high)
        if index < high and program.below_return[index] == ret:
            self._add_row(program.below_row[index], operations)
            for deep in range(program.deep_start[index], program.deep_start[index + 1]):
                rest = program.deep_rest[deep]
                if any(self._allows(top, below, rest) for top, below in parent.tops):
                    self._add_row(program.deep_row[deep], operations)

    def _add_row(self, row: int, operations: list[Operation], *, clear: bool = False) -> None:
        if row != NO_ROW:
            operations.append(self.program.row_operation(row, clear=clear))

    def _allows(self, state: int, stack: Stack, symbol_class: int) -> bool:
        """Whether the text of a class can be read at a return state, above a stack."""
        pending = [(state, stack, symbol_class)]
        for item in pending:  # grows while we walk it, and holds nothing twice
            here, rests = self._local(*item)
            if here:
                return True
            pending += [rest for rest in rests if rest not in pending]
        return False

    # -- steps -------------------------------------------------------------------------------------------------

    def accept(self, token: int) -> bool:
        """Read one token. A refusal (not allowed, out of range, after the end) returns False and changes nothing."""
        token = index_of(token)  # a 0-d tensor or array equals no id of a set
        now = self._now
        if len(now) == 1:
            configuration = self._one_step(*now[0], token)
            if configuration is not None:
                self._history.append(now)
                self._now = (configuration,)
                return True
        after = self._step(now, token)
        if after is None:
            return False
        self._history.append(now)
        self._now = after
        return True

    def _one_step(self, state: int, stack: Stack, token: int) -> Configuration | None:
        """The common case of `_step`, and nothing else: there is one outcome, and one stack it can come from."""
        program = self.program
        if not 0 <= token < program.vocab_size or (program.accepting[state] and token in self.stop_ids):
            return None
        symbol_class = program.token_class[token]
        while True:
            edge = program.edge(state, symbol_class)
            if program.accepting[state] and stack.tops:  # it may also be read below
                if stack.parent is None:
                    return None
                if edge < 0:
                    state, stack = stack.ret, stack.parent
                    continue
                if program.accepting[stack.ret] or program.edge(stack.ret, symbol_class) >= 0:
                    return None
            if edge < 0:
                default = program.default_state[state]
                if default < 0:
                    return None
                stack = self._above_default(state, stack)
                edge = program.edge(default, symbol_class)
                if edge < 0:
                    return None
            target = program.edge_value[edge]
            if target < 0:
                if target == NO_EDGE:
                    return None
                first = program.multi_start[-1 - target]
                if program.multi_start[-target] != first + 1:
                    return None
                context, target = program.multi_context[first], program.multi_target[first]
                if context == EXIT:
                    if stack.parent is None:
                        return None
                    state, stack, symbol_class = stack.ret, stack.parent, target
                    continue
                for ret in program.chain(context):
                    stack = self._pool.push(stack, ret)
            return self._settled_once(target, stack)

    def _settled_once(self, state: int, stack: Stack) -> Configuration | None:
        """As `_settled`, where that is one configuration; None otherwise."""
        program = self.program
        while True:
            if program.returns_only[state]:
                if stack.parent is None:
                    return (state, stack) if stack.ret == EMPTY_STACK else None
                state, stack = stack.ret, stack.parent
            elif program.enter_state[state] >= 0:
                state, stack = program.enter_state[state], self._pool.push(stack, program.enter_return[state])
            else:
                return state, stack

    def _step(self, now: Configurations, token: int) -> Configurations | None:
        """The configurations after `token`, or None if it is not allowed."""
        program = self.program
        if not 0 <= token < program.vocab_size or now is ENDED:
            return None
        if token in self.stop_ids and self._at_end(now):
            return ENDED
        token_class = program.token_class[token]
        if not token_class:
            return None
        after: dict[int, list[Stack]] = {}
        for state, stack in now:
            for target, reached in self._after(state, stack, token_class):
                after.setdefault(target, []).append(reached)
        return self._merged(after) or None

    def _merged(self, after: dict[int, list[Stack]]) -> Configurations:
        """One configuration per state."""
        return tuple((state, self._pool.union(stacks)) for state, stacks in after.items())

    def _after(self, state: int, stack: Stack, symbol_class: int) -> tuple[Configuration, ...]:
        """The configurations after the text of a class, each state once.

        What is read below the top of the stack is remembered: an ambiguous text asks for it again at every token.
        """
        top = (state, stack, symbol_class)
        local, rests = self._local(*top)
        if not rests:
            return local
        known = self._known
        pending = [(top, local, rests)]
        while pending:
            item, local, rests = pending[-1]
            missing = [rest for rest in rests if rest not in known]
            if missing:  # rests lie lower in the stack, so this ends
                pending.extend((rest, *self._local(*rest)) for rest in missing)
                continue
            after: dict[int, list[Stack]] = {}
            for target, reached in (*local, *(c for rest in rests for c in known[rest])):
                after.setdefault(target, []).append(reached)
            known[item] = self._merged(after)
            pending.pop()
        if len(known) > _REMEMBERED:
            self._known = {top: known[top]}
        return known[top]

    def _local(self, state: int, stack: Stack, symbol_class: int) -> tuple[tuple[Configuration, ...], list[_Reading]]:
        """What reading the text of a class leads to within the frame, and what is left to read in the frames below."""
        program = self.program
        rests: list[_Reading] = []
        if program.accepting[state]:
            rests = [(ret, parent, symbol_class) for ret, parent in stack.tops]
        edge = program.edge(state, symbol_class)
        if edge < 0 and program.default_state[state] >= 0:
            stack = self._above_default(state, stack)
            edge = program.edge(program.default_state[state], symbol_class)
        if edge < 0:
            return (), rests
        local: list[Configuration] = []
        for context, target in program.outcomes(edge):
            if context == EXIT:
                rests += [(ret, parent, target) for ret, parent in stack.tops]
            else:
                reached = stack
                for ret in program.chain(context):
                    reached = self._pool.push(reached, ret)
                local += self._settled(target, reached)
        return tuple(local), rests

    def _settled(self, state: int, stack: Stack) -> list[Configuration]:
        """Return where there is nothing else to do, enter where there is only a call."""
        program = self.program
        settled: list[Configuration] = []
        pending = [(state, stack)]
        while pending:
            state, stack = pending.pop()
            if program.returns_only[state]:
                pending.extend(stack.tops)
                if stack.empty:
                    settled.append((state, self._pool.bottom))
            elif program.enter_state[state] >= 0:
                pending.append((program.enter_state[state], self._pool.push(stack, program.enter_return[state])))
            else:
                settled.append((state, stack))
        return settled

    def _at_end(self, now: Configurations) -> bool:
        program = self.program
        pending = [item for item in now if program.accepting[item[0]]]
        seen = set(pending)
        while pending:
            _, stack = pending.pop()
            if stack.empty:
                return True
            for item in stack.tops:
                if program.accepting[item[0]] and item not in seen:
                    seen.add(item)
                    pending.append(item)
        return False

    def accept_all(self, tokens: Iterable[int]) -> bool:
        """Read several tokens, or none of them: False leaves the matcher where it was."""
        mark = len(self._history)
        for token in tokens:
            if not self.accept(token):
                self.rollback(len(self._history) - mark)
                return False
        return True

    def validate(self, tokens: Iterable[int]) -> int:
        """How many of the given tokens could be accepted in a row. Changes nothing."""
        now, count = self._now, 0
        for token in tokens:
            after = self._step(now, index_of(token))
            if after is None:
                break
            now, count = after, count + 1
        return count

    def rollback(self, count: int) -> None:
        """Undo the last `count` accepted tokens.

        Raises:
            MatcherError: fewer tokens than that were accepted.
        """
        if not 0 <= count <= len(self._history):
            raise MatcherError(f"cannot roll back {count} of {len(self._history)} tokens")
        if count:
            self._now = self._history[-count]
            del self._history[-count:]

    def reset(self) -> None:
        """Back to the start of a text."""
        self._history.clear()
        self._pool, self._known = StackPool(self.program.distance), {}
        self._now = self._start()

    def fork(self) -> Matcher:
        """An independent matcher at the same place, history included."""
        other = type(self).__new__(type(self))
        other.program, other.stop_ids, other._stop = self.program, self.stop_ids, self._stop
        other._pool, other._known = self._pool, self._known
        other._history, other._now = list(self._history), self._now
        other._bitmask, other._row, other._out = _NO_BITMASK, -1, self.program.nothing
        return other

    # -- questions ---------------------------------------------------------------------------------------------

    @property
    def accepted(self) -> int:
        """How many tokens have been accepted since the start, stop token included."""
        return len(self._history)

    @property
    def configurations(self) -> int:
        """In how many places at once the text may stand: 1 on nearly all real input, 0 after the end."""
        return len(self._now)

    def is_terminated(self) -> bool:
        """Whether a stop token has been accepted."""
        return self._now is ENDED

    def is_complete(self) -> bool:
        """Whether the text so far is a whole one (it may also go on)."""
        return self._now is ENDED or self._at_end(self._now)

    def forced_tokens(self, limit: int = 256) -> list[int]:
        """The longest run of tokens with exactly one choice each, at most `limit`; stop ids end the run."""
        probe = self.fork()
        run: list[int] = []
        row: Int32 = np.zeros((1, self.program.words), dtype=np.int32)
        while len(run) < limit and not probe.is_complete():
            probe.fill_bitmask(row)
            if count_allowed(row[0]) != 1:
                break
            word = int(np.flatnonzero(row[0])[0])
            token = word * 32 + int(row[0, word : word + 1].view(np.uint32)[0]).bit_length() - 1
            probe.accept(token)
            run.append(token)
        return run
