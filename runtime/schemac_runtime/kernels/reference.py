"""What each kernel does, in NumPy, request by request: the oracle of every other form of it.

The functions are named as in `schemac_runtime.kernels.source` and take the same arguments, with arrays in the place of
pointers and strides. B requests, V columns of logits, R rows of an arena of W words, S device states.

    logits     float [B, V], any strides; changed in place by the masks
    arena      int32 [R, pitch]; the first `words` words of a row are its mask, bit = 1 allowed
    row_id     int32 [B]; 0 leaves a row alone, a number outside the arena allows nothing
    first      the token of column 0
    info       int32 [S, 4]: arena row, class table, tokens that suffice to the end, most that any one token leaves
    start      int64 [S]: where the state's list of next states begins in `following`
    classes    int32 [P, V]: the class of each token
    following  int32: the next state by class, -1 for none
    state      int32 [B]; budget int32 [B]: tokens left, the one that ends the text included
    flags      int32 [B]: `MAY_END`, `ENDED`, `FAILED`
    position   int32 [B]: tokens read; history int32 [B, width]: which
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from schemac_runtime.kernels.table import CLASSES, ENDED, FAILED, MAY_END, MOST, NEED, NO_KEY, ROW

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Logits = npt.NDArray[Any]


def allowed_columns(row: Int32, first: int, vocab: int) -> Bool:
    """bool [vocab]: the columns that a packed row allows; what lies past it is forbidden."""
    bits = np.zeros(first + vocab, dtype=np.bool_)
    unpacked = np.unpackbits(np.ascontiguousarray(row).view(np.uint8), bitorder="little")[: first + vocab]
    bits[: len(unpacked)] = unpacked > 0
    return bits[first:]


def _row(table: Int32, row: int, words: int) -> Int32:
    return table[row, :words] if 0 <= row < len(table) else np.zeros(words, dtype=np.int32)


def mask_rows(logits: Logits, arena: Int32, row_id: Int32, alive: Int32, words: int, first: int) -> None:
    """Mask row b of the logits with row ``row_id[b]``; ``alive[b]`` becomes 1 if any column is allowed."""
    for request, row in enumerate(row_id.tolist()):
        allowed = np.ones(logits.shape[1], dtype=np.bool_)
        if row != 0:
            allowed = allowed_columns(_row(arena, row, words), first, logits.shape[1])
        logits[request, ~allowed] = -np.inf
        if allowed.any():
            alive[request] = 1


def mask_packed(
    logits: Logits, mask: Int32, logit_row: Int32, mask_row: Int32, alive: Int32, words: int, first: int
) -> None:
    """Mask row ``logit_row[i]`` of the logits with row ``mask_row[i]`` of the mask."""
    for item, (request, row) in enumerate(zip(logit_row.tolist(), mask_row.tolist(), strict=True)):
        if 0 <= request < len(logits):
            allowed = allowed_columns(_row(mask, row, words), first, logits.shape[1])
            logits[request, ~allowed] = -np.inf
            if allowed.any():
                alive[item] = 1


def key_of(value: float, token: int) -> int:
    """A number that is the larger the greater the logit (float32), then the lower the token."""
    bits = int(np.array([0.0 if value == 0 else value], dtype=np.float32).view(np.int32)[0])
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (order << 32) | (0x7FFFFFFF - token)


def _greatest(logits: Logits, allowed: Bool) -> int:
    """The allowed column with the greatest logit, of equal ones the lowest, -1 for none. NaN counts as -inf."""
    columns = np.flatnonzero(allowed)
    if not len(columns):
        return -1
    values = logits[columns].astype(np.float32)
    values[np.isnan(values)] = -np.inf
    return int(columns[values.argmax()])


def argmax_rows(
    logits: Logits, arena: Int32, row_id: Int32, key: Int64, token: Int32, words: int, first: int
) -> None:
    """The greedy choice among the allowed tokens: ``token[b]``, -1 for none, and its ``key[b]``."""
    for request, row in enumerate(row_id.tolist()):
        allowed = np.ones(logits.shape[1], dtype=np.bool_)
        if row != 0:
            allowed = allowed_columns(_row(arena, row, words), first, logits.shape[1])
        column = _greatest(logits[request], allowed)
        token[request] = first + column if column >= 0 else -1
        value = float(logits[request, column]) if column >= 0 else 0.0
        key[request] = key_of(-np.inf if np.isnan(value) else value, first + column) if column >= 0 else NO_KEY


def next_state(info: Int32, start: Int64, classes: Int32, following: Int32, state: int, token: int) -> int:
    """The state after a token, -1 for none."""
    if not (0 <= state < len(info) and 0 <= token < classes.shape[1]):
        return -1
    return int(following[start[state] + classes[info[state, CLASSES], token]])


def allowed_in(
    arena: Int32, info: Int32, start: Int64, classes: Int32, following: Int32, state: int, budget: int, words: int
) -> Bool:
    """bool [V]: the tokens after which the text can be finished in ``budget - 1`` tokens."""
    vocab = classes.shape[1]
    if not 0 <= state < len(info):
        return np.zeros(vocab, dtype=np.bool_)
    allowed = np.ones(vocab, dtype=np.bool_)
    if info[state, ROW] != 0:
        allowed = allowed_columns(_row(arena, int(info[state, ROW]), words), 0, vocab)
    if 0 < budget <= info[state, MOST]:
        for token in np.flatnonzero(allowed).tolist():
            after = next_state(info, start, classes, following, state, token)
            allowed[token] = after >= 0 and info[after, NEED] < budget
    return allowed


def step_mask(
    logits: Logits, arena: Int32, info: Int32, start: Int64, classes: Int32, following: Int32, state: Int32,
    budget: Int32, words: int,
) -> None:  # fmt: skip
    """Write -inf to what may not come next."""
    for request, (here, left) in enumerate(zip(state.tolist(), budget.tolist(), strict=True)):
        allowed = allowed_in(arena, info, start, classes, following, here, left, words)
        logits[request, ~allowed] = -np.inf


def step_advance(
    token: Int32, info: Int32, start: Int64, classes: Int32, following: Int32, state: Int32, budget: Int32,
    flags: Int32, position: Int32, history: Int32,
) -> None:  # fmt: skip
    """Read ``token[b]`` in every request: next state, one token less, flags, history.

    A token that is not allowed, or after which the budget would not suffice, sets `FAILED` and changes nothing else.
    After the end nothing changes.
    """
    for request, chosen in enumerate(token.tolist()):
        if flags[request] & ENDED:
            continue
        after = next_state(info, start, classes, following, int(state[request]), chosen)
        if after < 0 or info[after, NEED] >= budget[request]:
            flags[request] |= FAILED
            continue
        if 0 <= position[request] < history.shape[1]:
            history[request, position[request]] = chosen
        position[request] += 1
        budget[request] -= 1
        state[request] = after
        ends = {0: ENDED, 1: MAY_END}.get(int(info[after, NEED]), 0)
        flags[request] = (flags[request] & FAILED) | ends


def step_greedy(
    logits: Logits, arena: Int32, info: Int32, start: Int64, classes: Int32, following: Int32, state: Int32,
    budget: Int32, token: Int32, flags: Int32, position: Int32, history: Int32, words: int,
) -> None:  # fmt: skip
    """Mask by state, take the greatest logit, advance. Where no token is allowed ``token[b]`` stays as it was."""
    chosen = np.full(len(logits), -1, dtype=np.int32)
    for request, (here, left) in enumerate(zip(state.tolist(), budget.tolist(), strict=True)):
        allowed = allowed_in(arena, info, start, classes, following, here, left, words)
        chosen[request] = _greatest(logits[request], allowed)
    token[chosen >= 0] = chosen[chosen >= 0]
    step_advance(chosen, info, start, classes, following, state, budget, flags, position, history)
