"""Matching: where one text stands in a program, and which tokens may come next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.errors import MatcherError
from schemac_runtime.masks import apply_operation, composed, count_allowed, mask_rows, or_mask, write_mask
from schemac_runtime.program import EXIT, NO_ROW, Int32, Mask, Operation, Program, tokens_operation


class Frame:
    """One return state on a stack. Frames with the same content are one object, so that equality is identity."""

    __slots__ = ("children", "masks", "parent", "ret")

    def __init__(self, ret: int, parent: Frame | None) -> None:
        self.ret = ret
        self.parent = parent
        self.children: dict[int, Frame] = {}
        self.masks: dict[int, Mask] = {}  # by state, for a configuration with this stack

    def push(self, ret: int) -> Frame:
        """The stack with `ret` on top."""
        child = self.children.get(ret)
        if child is None:
            child = self.children[ret] = Frame(ret, self)
        return child


Configuration = tuple[int, Frame]
#: All the places where the text read so far may stand; the empty tuple means that it has ended with a stop token.
Configurations = tuple[Configuration, ...]
ENDED: Configurations = ()


class Matcher:
    """The state of one request: a history of immutable configurations, so that rollback is exact.

    Not thread-safe by itself; any number of matchers may use one program from any number of threads.

    Args:
        program: what to match.
        stop_ids: ids that end the text, beside those of the vocabulary.
    """

    __slots__ = ("_bitmask", "_bottom", "_history", "_now", "_rows", "_stop", "program", "stop_ids")

    def __init__(self, program: Program, stop_ids: Sequence[int] = ()) -> None:
        self.program = program
        for token in stop_ids:
            if not 0 <= token < program.vocab_size:
                raise MatcherError(f"stop id {token} is outside 0..{program.vocab_size - 1}")
        self.stop_ids = frozenset((*program.stop_ids, *stop_ids))
        self._stop = tokens_operation(np.array(sorted(self.stop_ids), dtype=np.int64))
        self._bottom = Frame(-1, None)
        self._history: list[Configurations] = []
        self._now: Configurations = self._start()
        self._bitmask: object = None  # the mask filled last, and its rows: checked once, not at every step
        self._rows: Int32 = self.program.nothing[None]

    def _start(self) -> Configurations:
        frame = self._bottom
        for ret in self.program.chain(int(self.program.tables.start_context[0])):
            frame = frame.push(ret)
        return ((int(self.program.tables.start[0]), frame),)

    # -- masks -------------------------------------------------------------------------------------------------

    def fill_bitmask(self, bitmask: Any, row: int = 0) -> None:
        """Write the allowed tokens into ``bitmask[row]``.

        Args:
            bitmask: int32 [rows, words] NumPy array or CPU torch tensor, words >= ceil(V / 32), bit = 1 allowed; words
                past the vocabulary are cleared. A 1-D array of words is row 0.
            row: the row to write.

        Raises:
            MatcherError: the mask is too narrow or of another type.
        """
        if bitmask is self._bitmask:
            out = self._rows[row]
        else:
            rows = mask_rows(bitmask, self.program.words)
            self._bitmask, self._rows, out = bitmask, rows, rows[row]
        now = self._now
        if len(now) == 1:
            state, frame = now[0]
            write_mask(out, frame.masks.get(state) or self._mask(state, frame))
            return
        out.fill(0)
        if now is ENDED:
            apply_operation(out, self._stop)
        for state, frame in now:
            or_mask(out, frame.masks.get(state) or self._mask(state, frame))

    def _mask(self, state: int, frame: Frame) -> Mask:
        """The mask of one configuration; kept at its frame."""
        program = self.program
        if not program.stacked[state]:
            mask = program.state_mask(state)
        else:
            own = self._own_operations(state, frame)
            default = program.default_state[state]
            if default < 0:
                row = program.state_row[state]
                dense = program.tables.dense[row] if row >= 0 else program.nothing
                mask = composed(dense, own[1:] if row >= 0 else own)
            else:
                ret = program.default_return[state]
                below = frame if ret < 0 else frame.push(ret)
                mask = below.masks.get(default) or self._mask(default, below)
                if program.clear_row[state] != NO_ROW:
                    own.insert(0, program.row_operation(program.clear_row[state], clear=True))
                if own:
                    mask = mask._replace(more=(*mask.more, *own))
        frame.masks[state] = mask
        return mask

    def _own_operations(self, state: int, frame: Frame) -> list[Operation]:
        """What a configuration allows without its default; first the row of its state, if it has one."""
        operations: list[Operation] = []
        self._add_row(self.program.state_row[state], operations)
        here: Configuration | None = (state, frame)
        while here is not None:
            here = self._add_below(*here, operations)
        return operations

    def _add_below(self, state: int, frame: Frame, operations: list[Operation]) -> Configuration | None:
        """Add what the stack allows at `state`; returns the configuration below if `state` may end its frame."""
        program = self.program
        parent = frame.parent
        if parent is None:
            if program.accepting[state]:
                operations.append(self._stop)
            return None
        if program.below_on_use:
            tokens = [program.tokens_of_class(c) for c, rest in program.exits(state) if self._allows(rest, frame)]
            if tokens:
                operations.append(tokens_operation(np.concatenate(tokens)))
        low, high = program.below_start[state], program.below_start[state + 1]
        index = bisect_left(program.below_return, frame.ret, low, high)
        if index < high and program.below_return[index] == frame.ret:
            self._add_row(program.below_row[index], operations)
            for deep in range(program.deep_start[index], program.deep_start[index + 1]):
                if self._allows(program.deep_rest[deep], parent):
                    self._add_row(program.deep_row[deep], operations)
        if not program.accepting[state]:
            return None
        # A state that may be returned to has no default.
        self._add_row(program.state_row[frame.ret], operations)
        return frame.ret, parent

    def _add_row(self, row: int, operations: list[Operation]) -> None:
        if row != NO_ROW:
            operations.append(self.program.row_operation(row))

    def _allows(self, symbol_class: int, frame: Frame) -> bool:
        """Whether the text of a class can be read after returning to the top of the stack `frame`."""
        program = self.program
        work = {(symbol_class, frame): None}
        pending = list(work)
        while pending:
            symbol_class, frame = pending.pop()
            parent = frame.parent
            if parent is None:
                continue
            edge = program.edge(frame.ret, symbol_class)
            if edge >= 0:
                for context, target in program.outcomes(edge):
                    if context != EXIT:
                        return True
                    if (target, parent) not in work:
                        work[target, parent] = None
                        pending.append((target, parent))
            if program.accepting[frame.ret] and (symbol_class, parent) not in work:
                work[symbol_class, parent] = None
                pending.append((symbol_class, parent))
        return False

    # -- steps -------------------------------------------------------------------------------------------------

    def accept(self, token: int) -> bool:
        """Read one token. A refusal (not allowed, out of range, after the end) returns False and changes nothing."""
        now = self._now
        if len(now) == 1:
            # The common case: one configuration, and the token stays in its frame.
            program = self.program
            state, frame = now[0]
            if 0 <= token < program.vocab_size and not program.accepting[state]:
                symbol_class = program.token_class[token]
                low, high = program.edge_start[state], program.edge_start[state + 1]
                edge = bisect_left(program.edge_class, symbol_class, low, high)
                if edge < high and program.edge_class[edge] == symbol_class:
                    target = program.edge_value[edge]
                    if target >= 0:
                        self._history.append(now)
                        if program.returns_only[target] or program.enter_state[target] >= 0:
                            self._now = (self._settled(target, frame),)
                        else:
                            self._now = ((target, frame),)
                        return True
        after = self._step(now, token)
        if after is None:
            return False
        self._history.append(now)
        self._now = after
        return True

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
        after: list[Configuration] = []
        work = [(state, frame, token_class) for state, frame in now]
        for state, frame, symbol_class in work:  # grows while we walk it, and holds nothing twice
            edge = program.edge(state, symbol_class)
            parent = frame.parent
            if edge < 0 and program.default_state[state] >= 0:
                ret = program.default_return[state]
                work.append((program.default_state[state], frame if ret < 0 else frame.push(ret), symbol_class))
            elif edge >= 0:
                for context, target in program.outcomes(edge):
                    if context == EXIT:
                        if parent is not None and (rest := (frame.ret, parent, target)) not in work:
                            work.append(rest)
                    else:
                        stack = frame
                        for ret in program.chain(context):
                            stack = stack.push(ret)
                        configuration = self._settled(target, stack)
                        if configuration not in after:
                            after.append(configuration)
            if parent is not None and program.accepting[state]:
                below = (frame.ret, parent, symbol_class)
                if below not in work:
                    work.append(below)
        return tuple(after) if after else None

    def _settled(self, state: int, frame: Frame) -> Configuration:
        """Return where there is nothing else to do, enter where there is only a call."""
        program = self.program
        while True:
            if program.returns_only[state]:
                if frame.parent is None:
                    return state, frame
                state, frame = frame.ret, frame.parent
            elif program.enter_state[state] >= 0:
                state, frame = program.enter_state[state], frame.push(program.enter_return[state])
            else:
                return state, frame

    def _at_end(self, now: Configurations) -> bool:
        program = self.program
        for state, frame in now:
            here, stack = state, frame
            while program.accepting[here]:
                if stack.parent is None:
                    return True
                here, stack = stack.ret, stack.parent
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
            after = self._step(now, token)
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
        self._bottom = Frame(-1, None)
        self._now = self._start()

    def fork(self) -> Matcher:
        """An independent matcher at the same place, history included."""
        other = Matcher.__new__(Matcher)
        other.program, other.stop_ids, other._stop = self.program, self.stop_ids, self._stop
        other._bottom, other._history, other._now = self._bottom, list(self._history), self._now
        other._bitmask, other._rows = None, self._rows
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
        probe, run = self.fork(), []
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


class BatchMatcher:
    """Matchers of one or more programs, filled and advanced together.

    Args:
        matchers: one per row, or None for a row without constraint.
    """

    def __init__(self, matchers: Sequence[Matcher | None]) -> None:
        self.matchers = list(matchers)

    def fill_bitmask(self, bitmask: Any) -> None:
        """Write all rows: int32 [len(matchers), words]; a row without constraint allows everything (-1)."""
        width = max((m.program.words for m in self.matchers if m is not None), default=1)
        rows = mask_rows(bitmask, width)
        if len(rows) < len(self.matchers):
            raise MatcherError(f"a mask of {len(rows)} rows for {len(self.matchers)} requests")
        free = [index for index, matcher in enumerate(self.matchers) if matcher is None]
        if free:
            rows[free] = -1
        for index, matcher in enumerate(self.matchers):
            if matcher is not None:
                matcher.fill_bitmask(rows, index)

    def accept(self, tokens: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """One token per row, int [len(matchers)]; bool [len(matchers)]: which were accepted."""
        ids = np.asarray(tokens, dtype=np.int64).tolist()
        if len(ids) != len(self.matchers):
            raise MatcherError(f"{len(ids)} tokens for {len(self.matchers)} requests")
        return np.array([m is None or m.accept(t) for m, t in zip(self.matchers, ids, strict=True)], dtype=np.bool_)

    def rollback(self, counts: npt.ArrayLike) -> None:
        """Undo `counts[i]` tokens of row i."""
        for matcher, count in zip(self.matchers, np.asarray(counts).tolist(), strict=True):
            if matcher is not None:
                matcher.rollback(count)

    def is_terminated(self) -> npt.NDArray[np.bool_]:
        """bool [len(matchers)]."""
        return np.array([m is not None and m.is_terminated() for m in self.matchers], dtype=np.bool_)
