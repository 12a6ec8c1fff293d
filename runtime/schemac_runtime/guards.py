"""The part of a program that its guards need: the automaton over bytes, and the bytes of the tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.errors import PackageError
from schemac_runtime.program import UNREACHABLE
from schemac_runtime.registers import ACTIONS, KINDS, NEXT, Guard, canonical_value
from schemac_runtime.token_texts import TokenTexts

Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]
Arrays = Mapping[str, npt.NDArray[Any]]
#: The arrays that every guarded program shares with the automaton of its package, and those of its own.
_SHARED = (
    *("accepting", "owner", "entry", "call_start", "call_procedure", "call_return", "byte_class", "actions"),
    *("rest", "whole", "needed", "in_string"),
)
_EDGES = ("edge_start", "edge_symbol", "edge_target")
#: What `rest` and `whole` say of more texts than can be counted, and of endlessly many.
MANY = (1 << 31) - 1
OWN = ("unit", "again", "key_cost", "token_start", "token_bytes", "label_token")


@dataclass(frozen=True, eq=False)
class GuardTables:
    """A guarded automaton over bytes, with N states, K symbols, P procedures; and the bytes of V tokens.

    Attributes:
        byte_class: uint8 [256]; next_state: int32 [N, K]; accepting: uint8 [N]; owner: int32 [N]; entry: int32 [P];
            call_start: int32 [N + 1]; call_procedure, call_return: int32 [E]; actions: int32 [A, 3]: see
            `schemac.ir.automaton`.
        rest: int32 [N], how many texts lead to the end of the item or key that is being read; whole: int32 [N], to the
            end of the frame.
        needed: int32 [N], the characters still to come at least before a counted string can end.
        in_string: uint8 [N], 1 where nothing can happen to a register before a quotation mark, but for counting.
        guards: (procedure, guard), ascending.
        unit: int32 [len(guards)], tokens for one more character, item or key; again: int32 [len(guards)], for one that
            must differ from others; key_cost: int32, for each required key, by guard, then by key: see
            `schemac.codegen.costs`.
        token_start: int32 [V + 1]; token_bytes: uint8: the bytes of token t are ``token_start[t]..token_start[t + 1]``;
            none for tokens that add nothing to a text.
        label_token: int32 [labels], the special tokens that the last symbols stand for, or -1.
    """

    byte_class: npt.NDArray[np.uint8]
    next_state: Int32
    accepting: npt.NDArray[np.uint8]
    owner: Int32
    entry: Int32
    call_start: Int32
    call_procedure: Int32
    call_return: Int32
    actions: Int32
    rest: Int32
    whole: Int32
    needed: Int32
    in_string: npt.NDArray[np.uint8]
    guards: tuple[tuple[int, Guard], ...]
    unit: Int32
    again: Int32
    key_cost: Int32
    token_start: Int32
    token_bytes: npt.NDArray[np.uint8]
    label_token: Int32

    # -- looked up one by one ------------------------------------------------------------------------------------

    @cached_property
    def symbols(self) -> int:
        """The number of symbols K."""
        return int(self.next_state.shape[1])

    @cached_property
    def flat(self) -> memoryview:
        """`next_state`, flat."""
        return np.ascontiguousarray(self.next_state).reshape(-1).data

    @cached_property
    def guard_of(self) -> list[int]:
        """[N]: the index into `guards` of the procedure that a state belongs to, or -1."""
        of_procedure = np.full(len(self.entry), -1, dtype=np.int64)
        of_procedure[[procedure for procedure, _ in self.guards]] = np.arange(len(self.guards))
        found: list[int] = of_procedure[self.owner].tolist()
        return found

    @cached_property
    def rest_of(self) -> memoryview:
        """`rest`, one by one."""
        return np.ascontiguousarray(self.rest).data

    @cached_property
    def whole_of(self) -> memoryview:
        """`whole`, one by one."""
        return np.ascontiguousarray(self.whole).data

    @cached_property
    def needed_of(self) -> memoryview:
        """`needed`, one by one."""
        return np.ascontiguousarray(self.needed).data

    @cached_property
    def in_string_of(self) -> memoryview:
        """`in_string`, one by one."""
        return np.ascontiguousarray(self.in_string).data

    @cached_property
    def unit_of(self) -> list[int]:
        """`unit`, one by one."""
        found: list[int] = self.unit.tolist()
        return found

    @cached_property
    def again_of(self) -> list[int]:
        """`again`, one by one."""
        found: list[int] = self.again.tolist()
        return found

    @cached_property
    def key_costs(self) -> list[dict[bytes, int]]:
        """By guard: required key -> `key_cost`."""
        costs = iter(self.key_cost.tolist())
        return [{key: next(costs) for key in sorted(guard.required)} for _, guard in self.guards]

    @cached_property
    def added_at_start(self) -> list[int]:
        """By guard: the tokens that distances have for it, see `schemac.codegen.costs.GuardCosts.needed`."""
        found = []
        for (_, guard), unit, again, keys in zip(self.guards, self.unit_of, self.again_of, self.key_costs, strict=True):
            if guard.kind == "members":
                added = sum(keys.values()) + max(guard.low - len(guard.required), 0) * again
            elif guard.distinct:
                added = min(guard.low, 1) * unit + max(guard.low - 1, 0) * again
            else:
                added = (guard.low - (guard.kind == "repeats")) * unit
            found.append(min(added, UNREACHABLE))
        return found

    @cached_property
    def class_of(self) -> bytes:
        """`byte_class`, one by one."""
        return self.byte_class.tobytes()

    @cached_property
    def acts(self) -> dict[int, str]:
        """State * K + symbol -> action."""
        return {state * self.symbols + symbol: ACTIONS[action] for state, symbol, action in self.actions.tolist()}

    @cached_property
    def calls(self) -> dict[int, tuple[tuple[int, int, int], ...]]:
        """State -> (entry, index of the callee's guard or -1, return state) of its calls."""
        found: dict[int, list[tuple[int, int, int]]] = {}
        source = np.repeat(np.arange(len(self.owner)), np.diff(self.call_start)).tolist()
        for state, procedure, ret in zip(source, self.call_procedure.tolist(), self.call_return.tolist(), strict=True):
            entry = int(self.entry[procedure])
            found.setdefault(state, []).append((entry, self.guard_of[entry], ret))
        return {state: tuple(edges) for state, edges in found.items()}

    @cached_property
    def special(self) -> list[bool]:
        """[N]: states that may end their frame, or call."""
        calls: Bool = np.diff(self.call_start) > 0
        found: list[bool] = (calls | (self.accepting > 0)).tolist()
        return found

    @cached_property
    def behind_commas(self) -> list[list[int]]:
        """By guard: the states behind the commas of its frames, ascending."""
        found: list[set[int]] = [set() for _ in self.guards]
        for state, symbol, action in self.actions.tolist():
            if ACTIONS[action] == NEXT and self.guard_of[state] >= 0:
                found[self.guard_of[state]].add(int(self.next_state[state, symbol]))
        return [sorted(states) for states in found]

    def commas_ahead(self, index: int, state: int) -> list[int]:
        """Those of `behind_commas` that can be reached from a state of the guard's frame, ascending."""
        found = self._commas_ahead.get(state)
        if found is None:
            reached = {state: None}
            pending = [state]
            for here in pending:  # grows while we walk it
                after = {self.flat[here * self.symbols + symbol] for symbol in range(self.symbols)}
                for target in sorted(after | {ret for _, _, ret in self.calls.get(here, ())}):
                    if target >= 0 and target not in reached:
                        reached[target] = None
                        pending.append(target)
            found = self._commas_ahead[state] = [root for root in self.behind_commas[index] if root in reached]
        return found

    @cached_property
    def _commas_ahead(self) -> dict[int, list[int]]:
        return {}

    @cached_property
    def forks(self) -> list[bool]:
        """[N]: states that do nothing but enter one of several frames, some of them objects or arrays with a guard.

        A text does not rest there, so that what the frames forbid at once is known.
        """
        kinds = [self.guards[index][1].kind if index >= 0 else "" for index in self.guard_of]
        found = [False] * len(kinds)
        for state, calls in self.calls.items():
            if len(calls) > 1 and not self.accepting[state] and not kinds[state]:
                entered = any(kinds[entry] in ("items", "members") for entry, _, _ in calls)
                found[state] = entered and bool((self.next_state[state] < 0).all())
        return found

    def bytes_of(self, state: int) -> list[int]:
        """The bytes that a state reads."""
        found = self._bytes_of.get(state)
        if found is None:
            found = self._bytes_of[state] = np.flatnonzero(self.next_state[state][self.byte_class] >= 0).tolist()
        return found

    @cached_property
    def _bytes_of(self) -> dict[int, list[int]]:
        return {}

    @cached_property
    def endings(self) -> dict[tuple[int, bool | str], object]:
        """What `schemac_runtime.endings` has worked out."""
        return {}

    @cached_property
    def key_tokens(self) -> dict[tuple[int, bool | str], object]:
        """The same of tokens."""
        return {}

    @cached_property
    def label_symbol(self) -> dict[int, int]:
        """Special token -> symbol."""
        first = self.symbols - len(self.label_token)
        return {token: first + index for index, token in enumerate(self.label_token.tolist()) if token >= 0}

    @cached_property
    def texts(self) -> TokenTexts:
        """The bytes of the tokens, and facts about them."""
        return TokenTexts.shared(self.token_start, self.token_bytes)

    @cached_property
    def _translation(self) -> tuple[bytes, list[int], bytes]:
        return self.texts.text, self.texts.starts, self.byte_class.tobytes()

    def piece(self, token: int) -> tuple[bytes, bytes]:
        """(the bytes of a token, their symbols)."""
        text, start, byte_class = self._translation
        piece = text[start[token] : start[token + 1]]
        return piece, piece.translate(byte_class)

    # -- reading -------------------------------------------------------------------------------------------------

    @staticmethod
    def read(arrays: Arrays, manifest: Mapping[str, Any], prefix: str, vocab: int) -> GuardTables:
        """Of a package: from its arrays, the automaton's part of the manifest, and the path of the program.

        Raises:
            PackageError: an array is missing or damaged.
        """
        a = {name: _array(arrays, f"automaton/{name}") for name in (*_SHARED, *_EDGES)}
        own = {name: _array(arrays, f"{prefix}/{name}") for name in OWN}
        states, symbols = len(a["owner"]), manifest["symbols"]
        guards = _guards(manifest["guards"])
        _check_edges(a, states, symbols)
        next_state = np.full((states, symbols), -1, dtype=np.int32)
        next_state[np.repeat(np.arange(states), np.diff(a["edge_start"])), a["edge_symbol"]] = a["edge_target"]
        shared = {name: a[name] for name in _SHARED} | {"actions": a["actions"].reshape(-1, 3)}
        tables = GuardTables(**shared, **own, next_state=next_state, guards=guards)
        _check(tables, vocab, len(manifest["labels"]))
        return tables


def _guards(described: Sequence[Sequence[Any]]) -> tuple[tuple[int, Guard], ...]:
    try:
        return tuple((procedure, Guard.read(guard)) for procedure, *guard in described)
    except (TypeError, ValueError) as error:
        raise PackageError(f"damaged guards: {error}", construct="guards") from None


def _array(arrays: Arrays, name: str) -> npt.NDArray[Any]:
    wanted = "uint8" if name.endswith(("byte_class", "token_bytes", "accepting", "in_string")) else "int32"
    array = arrays.get(name)
    if array is None or array.dtype != wanted or array.ndim != 1:
        raise PackageError(f"{name}: expected {wanted} values", construct=name)
    return array


def _check_edges(a: Arrays, states: int, symbols: int) -> None:
    start, symbol, target = a["edge_start"], a["edge_symbol"], a["edge_target"]
    _offsets("edge_start", start, states, len(symbol))
    if len(symbol) != len(target) or not isinstance(symbols, int) or not 0 < symbols <= 1 << 20:
        raise PackageError("edges that do not fit each other", construct="automaton")
    _within("edge_symbol", symbol, 0, symbols)
    _within("edge_target", target, 0, states)


def _check(t: GuardTables, vocab: int, labels: int) -> None:
    """Every index range, so that following the automaton cannot go astray."""
    states, procedures = len(t.owner), len(t.entry)
    _within("byte_class", t.byte_class, 0, t.symbols - labels)
    _length("byte_class", t.byte_class, 256)
    _within("owner", t.owner, 0, procedures)
    _within("entry", t.entry, 0, states)
    _offsets("call_start", t.call_start, states, len(t.call_procedure))
    _length("call_return", t.call_return, len(t.call_procedure))
    _within("call_procedure", t.call_procedure, 0, procedures)
    _within("call_return", t.call_return, 0, states)
    _within("actions", t.actions[:, 0], 0, states)
    _within("actions", t.actions[:, 1], 0, t.symbols)
    _within("actions", t.actions[:, 2], 0, len(ACTIONS))
    _length("accepting", t.accepting, states)
    _length("rest", t.rest, states)
    _length("whole", t.whole, states)
    _length("in_string", t.in_string, states)
    _length("needed", t.needed, states)
    _length("unit", t.unit, len(t.guards))
    _within("unit", t.unit, 0, 1 << 31)
    _length("again", t.again, len(t.guards))
    _within("again", t.again, 0, 1 << 31)
    _length("key_cost", t.key_cost, sum(len(guard.required) for _, guard in t.guards))
    _within("key_cost", t.key_cost, 0, 1 << 31)
    _length("label_token", t.label_token, labels)
    _within("label_token", t.label_token, -1, vocab)
    _offsets("token_start", t.token_start, vocab, len(t.token_bytes))
    source, symbol = np.nonzero(t.next_state >= 0)
    _same_procedure("edges", t.owner[source], t.owner[t.next_state[source, symbol]])
    caller = np.repeat(np.arange(states), np.diff(t.call_start))
    _same_procedure("call_return", t.owner[caller], t.owner[t.call_return])
    _same_procedure("entry", np.arange(procedures), t.owner[t.entry])
    calls = np.diff(t.call_start) > 0
    for procedure, guard in t.guards:
        numbers = (procedure, guard.low, guard.low if guard.high is None else guard.high)
        if not all(isinstance(number, int) and number >= 0 for number in numbers) or procedure >= procedures:
            raise PackageError("a guard out of range", construct="guards")
        if procedure == 0:
            raise PackageError("a guard of the whole text, which is no frame", construct="guards")
        if guard.kind not in KINDS or not isinstance(guard.distinct, bool):
            raise PackageError("a guard of no known kind", construct="guards")
        if guard.kind == "repeats":
            _check_repetition(t, procedure, guard, calls)
        if guard.required and (guard.kind != "members" or not guard.distinct):
            raise PackageError("required keys that are not remembered", construct="guards")
        if not all(map(_is_key, guard.required)):
            raise PackageError("required keys that are not in their canonical spelling", construct="guards")


def _is_key(key: bytes) -> bool:
    try:
        return key[:1] == b'"' and canonical_value(key) == key
    except ValueError:
        return False


def _check_repetition(t: GuardTables, procedure: int, guard: Guard, calls: Bool) -> None:
    """Its frame does nothing but call, and ends after a call."""
    states = np.flatnonzero(t.owner == procedure)
    entry = int(t.entry[procedure])
    high = guard.low if guard.high is None else guard.high
    alone = calls[states].all() and not (t.next_state[states] >= 0).any() and not t.accepting[entry]
    if not alone or not 1 <= guard.low <= high:
        raise PackageError("a repetition that does something else", construct="guards")


def _length(name: str, array: npt.NDArray[Any], expected: int) -> None:
    if len(array) != expected:
        raise PackageError(f"{name}: {len(array)} values, expected {expected}", construct=name)


def _same_procedure(name: str, here: npt.NDArray[Any], there: npt.NDArray[Any]) -> None:
    if not np.array_equal(here, there):
        raise PackageError(f"{name}: lead into another procedure", construct=name)


def _within(name: str, array: npt.NDArray[Any], low: int, high: int) -> None:
    if array.size and (int(array.min()) < low or int(array.max()) >= high):
        raise PackageError(f"{name}: values must lie in {low}..{high - 1}", construct=name)


def _offsets(name: str, array: npt.NDArray[Any], count: int, total: int) -> None:
    _length(name, array, count + 1)
    if array[0] != 0 or array[-1] != total or (np.diff(array) < 0).any():
        raise PackageError(f"{name}: not the offsets of its list", construct=name)


def guard_arrays(t: GuardTables) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a program of its own, by name."""
    return {name: getattr(t, name) for name in OWN}
