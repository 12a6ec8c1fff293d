"""What the device computations must give, in plain NumPy, bit by bit; and inputs that are hard to get right."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Int32 = npt.NDArray[np.int32]


def float_type(name: str) -> Any:
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def allowed(arena: Int32, row: int, size: int) -> list[int]:
    """The tokens below `size` whose bit is set; a row outside the arena allows nothing."""
    if not 0 <= row < len(arena):
        return []
    words = arena[row].view(np.uint32).tolist()
    return [token for token in range(size) if words[token // 32] >> token % 32 & 1]


def mask(logits: Array, mask_rows: Int32, arena: Int32) -> Array:
    out = np.full_like(logits, -np.inf)
    for index, row in enumerate(mask_rows.tolist()):
        kept = allowed(arena, row, logits.shape[1])
        out[index, kept] = logits[index, kept]
    return out


def greedy(logits: Array, mask_rows: Int32, arena: Int32) -> Int32:
    chosen = []
    for index, row in enumerate(mask_rows.tolist()):
        kept = allowed(arena, row, logits.shape[1])
        values = logits[index, kept].astype(np.float64)
        chosen.append(kept[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))] if kept else -1)
    return np.array(chosen, dtype=np.int32)


class Tables(NamedTuple):
    """The tables of a device step, random here, as `schemac_runtime.device.tables` makes them of a program."""

    arena: Int32
    info: Int32
    start: Int32
    token_class: Int32
    following: Int32


def random_tables(rng: np.random.Generator, rows: int, size: int, states: int, kinds: int) -> Tables:
    """Two class tables; some transitions lead nowhere, some states are ends (need 0) or may end (need 1)."""
    info = np.zeros((states, 4), dtype=np.int32)
    info[:, 0] = rng.integers(-1, rows, states)
    info[:, 1] = rng.integers(2, size=states)
    info[:, 2] = rng.integers(0, 6, states)
    start = (np.arange(states) * kinds).astype(np.int32)
    token_class = rng.integers(kinds, size=2 * size, dtype=np.int32)
    following = rng.integers(-1, states, states * kinds, dtype=np.int32)
    return Tables(random_arena(rng, rows, size), info, start, token_class, following)


def step(
    logits: Array, states: Int32, left: Int32, flags: Int32, tables: Tables
) -> tuple[Int32, Int32, Int32, Int32]:
    tokens = greedy(logits, tables.info[states.clip(0, len(tables.info) - 1), 0], tables.arena)
    states, left, flags = states.copy(), left.copy(), flags.copy()
    for index, token in enumerate(tokens.tolist()):
        tokens[index] = -1
        if flags[index] & 2:
            continue
        after = -1
        if token >= 0 and 0 <= states[index] < len(tables.info):
            table = tables.info[states[index], 1]
            kind = tables.token_class[table * logits.shape[1] + token]
            after = int(tables.following[tables.start[states[index]] + kind])
        if after < 0 or tables.info[after, 2] >= left[index]:
            flags[index] |= 4
            continue
        tokens[index], states[index] = token, after
        left[index] -= 1
        flags[index] = flags[index] & 4 | {0: 2, 1: 1}.get(int(tables.info[after, 2]), 0)
    return tokens, states, left, flags


def random_arena(rng: np.random.Generator, rows: int, size: int) -> Int32:
    """Row 0 allows everything; the others are dense, thin, single tokens, one row of nothing, words of the sign bit."""
    words = (size + 31) // 32
    arena = rng.integers(-(1 << 31), 1 << 31, (rows, words), dtype=np.int32)
    arena[0] = -1
    for row in range(1, rows):
        if row % 5 == 1:
            arena[row] = 0
        elif row % 5 == 2:
            arena[row] = 0
            token = size - 1 if row % 2 else int(rng.integers(size))
            arena[row].view(np.uint32)[token // 32] = np.uint32(1 << token % 32)
        elif row % 5 == 3:
            arena[row] = np.int32(-(1 << 31))
        elif row % 5 == 4:
            arena[row] &= rng.integers(-(1 << 31), 1 << 31, words, dtype=np.int32)
            arena[row] &= rng.integers(-(1 << 31), 1 << 31, words, dtype=np.int32)
    return arena


def random_logits(rng: np.random.Generator, batch: int, size: int, dtype: str) -> Array:
    """Ordinary rows, rows full of ties, rows with NaN, infinities of both signs, zeros of both signs."""
    values = rng.normal(size=(batch, size)).astype(np.float32)
    for row in range(batch):
        how = int(rng.integers(6))
        if how == 1:
            values[row] = rng.integers(-1, 2, size)
        elif how == 2:
            values[row, rng.random(size) < 0.3] = np.nan
        elif how == 3:
            values[row, rng.random(size) < 0.4] = -np.inf
            values[row, rng.random(size) < 0.1] = np.inf
        elif how == 4:
            values[row] = -np.inf
        elif how == 5:
            values[row] = rng.choice(np.array([0.0, -0.0], dtype=np.float32), size)
            values[row, rng.random(size) < 0.05] = np.nan
    return values.astype(float_type(dtype))
