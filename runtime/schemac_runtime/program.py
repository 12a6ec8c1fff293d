"""A linked program: one grammar bound to one vocabulary, as arrays, and what is derived from them on first use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from schemac_runtime.guards import GuardTables
    from schemac_runtime.matcher import Matcher

Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

#: `row` value of a state or context that allows nothing.
NO_ROW = np.iinfo(np.int32).min
#: `multi_context` value of an exit.
EXIT = -1
#: `distance` of a state from which no end of its frame can be reached; also the largest sum of distances.
UNREACHABLE = 1 << 30
#: `edge_value` of a (state, class) pair without outcome that hides an outcome of the default state.
NO_EDGE = np.iinfo(np.int32).min


@dataclass(frozen=True, eq=False)
class Tables:
    """The arrays of a linked program. N states, C classes, V token ids, W = ceil(V / 32) words per mask row.

    A *class* numbers a relation: what reading a text does to every state. Tokens with the same relation share a class;
    class 0 is the tokens that no state allows. Classes without tokens are the rests of tokens that end a frame.

    Attributes:
        token_class: int32 [V].
        default_state, default_return: int32 [N]: for classes that it has no edge of its own for, a state does what its
            default state does with `default_return` pushed below (-1: nothing pushed); -1 for no default.
        edge_start: int32 [N + 1]; edge_class, edge_value: int32 [E], CSR by state, classes ascending. A value v >= 0
            is the next state; v < 0 is the list ``multi_start[-1 - v] .. multi_start[-v]`` of outcomes; `NO_EDGE` is
            none.
        multi_start: int32 [M + 1]; multi_context, multi_target: int32. With context >= 0: push its returns, be in
            state `target`. With context = `EXIT`: pop a return state r, then read class `target` there.
        context_parent, context_top: int32 [X]; context 0 pushes nothing.
        accepting: uint8 [N], where a frame, or the text, may end.
        enter_state, enter_return: int32 [N]; -1, or: push `enter_return` and be in `enter_state` (a state that can
            do nothing but call).
        returns_only: uint8 [N]; a state that can do nothing but return.
        state_row: int32 [N], the mask of the tokens that a state allows whatever the stack holds: r >= 0 is a dense
            row, r < 0 the sparse row -1 - r, `NO_ROW` none.
        clear_row: int32 [N], for states with a default, coded alike: their mask is that of the default without these
            tokens, and with those of `state_row`.
        dense: int32 [D, W], bit t % 32 of word t // 32 = token t is allowed.
        sparse_start: int32 [S + 1]; sparse_word: int64, sparse_bits: int32, the non-zero words of a row. (NumPy indexes
            with int64 ten times as fast as with int32.)
        below_start: int32 [N + 1]; below_return, below_row: int32 [Q], CSR by state: what a state allows in addition
            when the return state on top of the stack is `below_return` (ascending), coded as in `state_row`.
        deep_start: int32 [Q + 1]; deep_row, deep_rest: int32: rows of tokens that also end that frame, or skip it,
            allowed if class `deep_rest` is allowed by what lies below.
        below_on_use: int32 [1]; 1: the `below` and `deep` arrays are empty, and exits are followed on first use.
        distance: int32 [N], tokens from each state to an end of its frame, `UNREACHABLE` for none; an upper bound that
            can be kept to. reach: int32 [N], the most that any one token leaves to be done, beside the frames below.
        start: int32 [1], the state a text starts in (already settled, see `start_context`).
        start_context: int32 [1].
        stop_ids: int32, the ids that end a text, ascending.
    """

    token_class: Int32
    default_state: Int32
    default_return: Int32
    edge_start: Int32
    edge_class: Int32
    edge_value: Int32
    multi_start: Int32
    multi_context: Int32
    multi_target: Int32
    context_parent: Int32
    context_top: Int32
    accepting: npt.NDArray[np.uint8]
    enter_state: Int32
    enter_return: Int32
    returns_only: npt.NDArray[np.uint8]
    state_row: Int32
    clear_row: Int32
    dense: Int32
    sparse_start: Int32
    sparse_word: npt.NDArray[np.int64]
    sparse_bits: Int32
    below_start: Int32
    below_return: Int32
    below_row: Int32
    deep_start: Int32
    deep_row: Int32
    deep_rest: Int32
    below_on_use: Int32
    distance: Int32
    reach: Int32
    start: Int32
    start_context: Int32
    stop_ids: Int32

    @classmethod
    def names(cls) -> list[str]:
        """The array names, in the order of the file format."""
        return [field.name for field in fields(cls)]


#: The dtypes of the arrays that are not int32.
TABLE_DTYPES = {"accepting": "uint8", "returns_only": "uint8", "sparse_word": "int64"}

#: One step of writing a mask: words of the row (None: all of them), values, and whether to AND instead of OR.
Operation = tuple["npt.NDArray[np.int64] | None", Int32, bool]


class Mask(NamedTuple):
    """How to write a mask: copy `dense`, set some words, then do what `more` says.

    Attributes:
        dense: int32 [W], the row to start from.
        words, values: int64 [n], int32 [n]: words of the row and what they become; None where there are none.
        more: further operations in order; almost always none.
    """

    dense: Int32
    words: npt.NDArray[np.int64] | None = None
    values: Int32 | None = None
    more: tuple[Operation, ...] = ()


class Program:
    """A grammar for one vocabulary. Immutable and shared; a `Matcher` holds the state of one request.

    Attributes:
        tables: the arrays.
        vocab_size: the number of token ids V, padding included.
        fingerprint: of the vocabulary it was linked for.
        tokenizer: the built-in name of that vocabulary, or "".
        guards: what registers need, if frames have any.
    """

    def __init__(
        self, tables: Tables, fingerprint: str = "", tokenizer: str = "", guards: GuardTables | None = None
    ) -> None:
        self.tables = tables
        self.guards = guards
        self.fingerprint = fingerprint
        self.tokenizer = tokenizer
        self.vocab_size = len(tables.token_class)
        self.words = (self.vocab_size + 31) // 32
        self.nothing: Int32 = np.zeros(self.words, dtype=np.int32)
        self.nothing.flags.writeable = False
        # Plain sequences of Python ints: several times faster to index one by one than arrays.
        self.token_class = tables.token_class.data
        self.default_state = tables.default_state.data
        # A return state that can only return again need not be pushed: what is below can take the return itself.
        tail = (tables.default_return >= 0) & (tables.returns_only[tables.default_return] > 0)
        self.default_return = np.where(tail, np.int32(-1), tables.default_return).data
        self.edge_start = tables.edge_start.data
        self.edge_class = tables.edge_class.data
        self.edge_value = tables.edge_value.data
        self.multi_start = tables.multi_start.data
        self.multi_context = tables.multi_context.data
        self.multi_target = tables.multi_target.data
        self.accepting = tables.accepting.data
        self.returns_only = tables.returns_only.data
        self.enter_state = tables.enter_state.data
        self.enter_return = tables.enter_return.data
        self.state_row = tables.state_row.data
        self.clear_row = tables.clear_row.data
        self.sparse_start = tables.sparse_start.data
        self.below_start = tables.below_start.data
        self.below_return = tables.below_return.data
        self.below_row = tables.below_row.data
        self.deep_start = tables.deep_start.data
        self.deep_row = tables.deep_row.data
        self.deep_rest = tables.deep_rest.data
        self.below_on_use = bool(tables.below_on_use[0])
        below = (np.diff(tables.below_start) > 0) | (tables.default_state >= 0)
        #: uint8 [N]: states whose mask depends on the stack.
        self.stacked = (below | (tables.accepting > 0) | self.below_on_use).astype(np.uint8).data
        self.distance = tables.distance.data
        self.reach = tables.reach.data
        self.stop_ids: tuple[int, ...] = tuple(tables.stop_ids.tolist())
        self.state_masks: dict[int, Mask] = {}
        self._chains: dict[int, tuple[int, ...]] = {0: ()}

    @property
    def states(self) -> int:
        """The number of states N."""
        return len(self.accepting)

    @cached_property
    def classes(self) -> int:
        """The number of classes, class 0 included."""
        return 1 + max((int(a.max(initial=0)) for a in (self.tables.token_class, self.tables.edge_class)), default=0)

    @cached_property
    def most_reach(self) -> int:
        """The most that any one token leaves to be done, beside what needed to be done before it."""
        return int(self.tables.reach.max(initial=0))

    def matcher(self, stop_ids: tuple[int, ...] = ()) -> Matcher:
        """A matcher at the start of a text. `stop_ids` are allowed at its end beside the vocabulary's own."""
        from schemac_runtime.guarded import GuardedMatcher
        from schemac_runtime.matcher import Matcher

        return Matcher(self, stop_ids) if self.guards is None else GuardedMatcher(self, stop_ids)

    def min_tokens(self) -> int:
        """How many tokens the shortest text takes, the one that ends it included: no lower limit can work."""
        ret = int(self.tables.start_context[0])
        needed = int(self.distance[int(self.tables.start[0])])
        return 1 + needed + sum(self.distance[state] for state in self.chain(ret))

    def edge(self, state: int, symbol_class: int) -> int:
        """The position of (state, class) among the edges of the state itself, or -1. It may hold `NO_EDGE`."""
        low, high = self.edge_start[state], self.edge_start[state + 1]
        found = bisect_left(self.edge_class, symbol_class, low, high)
        return found if found < high and self.edge_class[found] == symbol_class else -1

    def outcomes(self, edge: int) -> Iterator[tuple[int, int]]:
        """(context or `EXIT`, target) of an edge."""
        value = self.edge_value[edge]
        if value >= 0:
            yield 0, value
        if value >= 0 or value == NO_EDGE:
            return
        for index in range(self.multi_start[-1 - value], self.multi_start[-value]):
            yield self.multi_context[index], self.multi_target[index]

    def only_outcome(self, state: int, symbol_class: int) -> tuple[int, int] | None:
        """(context or `EXIT`, target) of what a state itself does with a class, if that is one thing."""
        edge = self.edge(state, symbol_class)
        value = self.edge_value[edge] if edge >= 0 else NO_EDGE
        if value >= 0:
            return 0, value
        if value == NO_EDGE:
            return None
        first = self.multi_start[-1 - value]
        return (self.multi_context[first], self.multi_target[first]) if self.multi_start[-value] == first + 1 else None

    def exits(self, state: int) -> Iterator[tuple[int, int]]:
        """(class, class of the rest) of the texts that end the frame of `state`."""
        for edge in range(self.edge_start[state], self.edge_start[state + 1]):
            for context, target in self.outcomes(edge):
                if context == EXIT:
                    yield self.edge_class[edge], target

    def chain(self, context: int) -> tuple[int, ...]:
        """The return states that a context pushes, first pushed first; without those that can only return again."""
        found = self._chains.get(context)
        if found is None:
            parts, here = [], context
            while here:
                top = int(self.tables.context_top[here])
                if not self.returns_only[top]:
                    parts.append(top)
                here = int(self.tables.context_parent[here])
            found = self._chains[context] = tuple(reversed(parts))
        return found

    def row_mask(self, row: int) -> Mask:
        """The mask of a coded row number, see `Tables.state_row`."""
        if row >= 0:
            return Mask(self.tables.dense[row])
        if row == NO_ROW:
            return Mask(self.nothing)
        low, high = self.sparse_start[-1 - row], self.sparse_start[-row]
        return Mask(self.nothing, self.tables.sparse_word[low:high], self.tables.sparse_bits[low:high])

    def row_operation(self, row: int, *, clear: bool = False) -> Operation:
        """The step that allows the tokens of a coded row (not `NO_ROW`), or takes them away."""
        if row >= 0:
            values = self.tables.dense[row]
            return None, ~values if clear else values, clear
        low, high = self.sparse_start[-1 - row], self.sparse_start[-row]
        bits = self.tables.sparse_bits[low:high]
        return self.tables.sparse_word[low:high], ~bits if clear else bits, clear

    def state_mask(self, state: int) -> Mask:
        """What a state allows whatever lies below."""
        found = self.state_masks.get(state)
        if found is None:
            found = self.state_masks[state] = self.row_mask(self.state_row[state])
        return found

    @cached_property
    def _tokens_by_class(self) -> tuple[npt.NDArray[np.int64], Int32]:
        order = np.argsort(self.tables.token_class, kind="stable")
        return order, self.tables.token_class[order]

    def tokens_of_class(self, symbol_class: int) -> npt.NDArray[np.int64]:
        """The ids of one class, ascending."""
        order, classes = self._tokens_by_class
        return order[classes.searchsorted(symbol_class) : classes.searchsorted(symbol_class, "right")]


def tokens_operation(tokens: npt.NDArray[np.int64]) -> Operation:
    """The step that allows a set of token ids."""
    words, inverse = np.unique(tokens >> 5, return_inverse=True)
    bits = np.zeros(len(words), dtype=np.uint32)
    np.bitwise_or.at(bits, inverse.reshape(-1), np.uint32(1) << (tokens & 31).astype(np.uint32))
    return words, bits.view(np.int32), False
