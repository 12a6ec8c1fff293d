"""The kernels, in Triton: the only source, for ahead-of-time, just-in-time and interpreted runs alike.

Importing this module needs triton. `schemac_runtime.kernels.table` describes every kernel's arguments without it, and
`schemac_runtime.kernels.reference` says in NumPy and torch what each must do.

A mask row has bit t % 32 of word t // 32 for token t, 1 = allowed. Column c of the logits is token ``first + c``; with
a vocabulary cut into shards, ``first`` is where a rank's slice begins (any number if ``SHIFTED``, else a multiple of
32). What lies past the words of a row is forbidden. Nothing is read or written outside ``vocab`` columns of a row.

Logits are never read to mask them, and -inf is written to forbidden ones only. Words that allow nothing, nearly all of
a row inside JSON punctuation or numbers, are written 16 bytes at a time; where a word allows some tokens, one by one.
"""

from __future__ import annotations

import triton
import triton.language as tl

from schemac_runtime.kernels import table

# As in `schemac_runtime.kernels.table`, which says what they are.
NO_KEY = tl.constexpr(table.NO_KEY)
ROW = tl.constexpr(table.ROW)
CLASSES = tl.constexpr(table.CLASSES)
NEED = tl.constexpr(table.NEED)
MOST = tl.constexpr(table.MOST)
INFO = tl.constexpr(table.INFO)
MAY_END = tl.constexpr(table.MAY_END)
ENDED = tl.constexpr(table.ENDED)
FAILED = tl.constexpr(table.FAILED)


@triton.jit
def _valid(at, vocab):
    """The bits of word `at` that are columns of the logits."""
    tail = (1 << (vocab % 32)) - 1
    return tl.where(at < vocab // 32, -1, tl.where(at == vocab // 32, tail, 0))


@triton.jit
def _length(row, rows, words):
    """The words of a row: none if it is not in the table."""
    return tl.where((row >= 0) & (row < rows), words, 0)


@triton.jit
def _words(row, at, words, first, SHIFTED: tl.constexpr):
    """Words `at` of the slice of a mask row that begins at token `first`; 0 past its `words`."""
    index = first // 32 + at
    low = tl.load(row + index, mask=index < words, other=0)
    if SHIFTED:
        high = tl.load(row + index + 1, mask=index + 1 < words, other=0)
        shift = (first % 32).to(tl.uint32)
        low = low.to(tl.uint32, bitcast=True) >> shift
        high = (high.to(tl.uint32, bitcast=True) << 1) << (31 - shift)
        low = (low | high).to(tl.int32, bitcast=True)
    return low


@triton.jit
def _forbid(logits, word, at, vocab, BLOCK: tl.constexpr):
    """Write -inf where `word` has no bit."""
    column = at[:, None] * 32 + tl.arange(0, 32)[None, :]
    nothing = tl.full([BLOCK, 32], float("-inf"), tl.float32).to(logits.dtype.element_ty)
    valid = _valid(at, vocab)
    whole = (word == 0) & (valid == -1)
    tl.store(logits + column, nothing, mask=whole[:, None])
    some = ((word & valid) != valid) & (whole == 0)
    if tl.max(some.to(tl.int32), 0) > 0:
        forbidden = ((word[:, None] >> tl.arange(0, 32)[None, :]) & 1) == 0
        tl.store(logits + column, nothing, mask=forbidden & some[:, None] & (column < vocab))


@triton.jit
def _report(alive, word, at, vocab):
    """Store 1 in `alive` if `word` allows a column; never store 0."""
    if tl.max(((word & _valid(at, vocab)) != 0).to(tl.int32), 0) > 0:
        tl.store(alive, 1)


@triton.jit
def mask_rows(
    logits, arena, row_id, alive, stride, rows, pitch, words, first, vocab, BLOCK: tl.constexpr, SHIFTED: tl.constexpr
):
    """Mask row b of the logits with row ``row_id[b]`` of the arena; row 0 leaves it alone.

    A row id outside the arena allows nothing. ``alive[b]`` becomes 1 if any column is allowed.
    """
    request = tl.program_id(1).to(tl.int64)
    row = tl.load(row_id + request).to(tl.int64)
    if row != 0:
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        word = _words(arena + row * pitch, at, _length(row, rows, words), first, SHIFTED)
        _forbid(logits + request * stride, word, at, vocab, BLOCK)
        _report(alive + request, word, at, vocab)
    else:
        tl.store(alive + request, 1)


@triton.jit
def mask_packed(
    logits, mask, logit_row, mask_row, alive, stride, batch, rows, pitch, words, first, vocab,
    BLOCK: tl.constexpr, SHIFTED: tl.constexpr,
):  # fmt: skip
    """Mask row ``logit_row[i]`` of the logits with row ``mask_row[i]`` of `mask`.

    A logits row outside the batch is left out; a mask row outside the mask allows nothing. ``alive[i]`` becomes 1 if
    any column is allowed.
    """
    item = tl.program_id(1).to(tl.int64)
    request = tl.load(logit_row + item).to(tl.int64)
    row = tl.load(mask_row + item).to(tl.int64)
    if (request >= 0) & (request < batch):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        word = _words(mask + row * pitch, at, _length(row, rows, words), first, SHIFTED)
        _forbid(logits + request * stride, word, at, vocab, BLOCK)
        _report(alive + item, word, at, vocab)


@triton.jit
def _keys(value, index):
    """Int64 keys in the order of the values, of equal ones the lowest index first: so the largest key is the choice.

    The upper half is the float's bits as an integer of the same order, the lower half counts down.
    """
    value = tl.where(value == 0.0, 0.0, value)  # -0.0 is no less than 0.0
    bits = value.to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (order.to(tl.int64) << 32) | (0x7FFFFFFF - index).to(tl.int64)


@triton.jit
def _fits(allowed, token, classes, following, info, left):
    """Of the `allowed` tokens those after which the text can be finished in ``left - 1`` tokens."""
    kind = tl.load(classes + token, mask=allowed, other=0)
    after = tl.load(following + kind, mask=allowed, other=0)
    need = tl.load(info + after.to(tl.int64) * INFO + NEED, mask=allowed & (after >= 0), other=1 << 30)
    return allowed & (need < left)


@triton.jit
def _greatest(
    logits, row, free, begin, end, words, first, vocab, classes, following, info, left,
    BLOCK: tl.constexpr, SHIFTED: tl.constexpr, BUDGETED: tl.constexpr,
):  # fmt: skip
    """The greatest key of the allowed columns in words `begin` to `end`; NaN counts as -inf."""
    best = tl.full([BLOCK, 32], float("-inf"), tl.float32)
    chosen = tl.full([BLOCK, 32], -1, tl.int32)
    for start in range(begin, end, BLOCK):
        at = start + tl.arange(0, BLOCK)
        word = tl.where(free, -1, _words(row, at, words, first, SHIFTED)) & _valid(at, vocab)
        column = at[:, None] * 32 + tl.arange(0, 32)[None, :]
        # Sixteen bytes at a time, and only where a word allows something; the bits are looked at afterwards.
        used = (word != 0)[:, None] & (column < vocab)
        value = tl.load(logits + column, mask=used, other=float("-inf")).to(tl.float32)
        value = tl.where(value == value, value, float("-inf"))
        allowed = ((word[:, None] >> tl.arange(0, 32)[None, :]) & 1) != 0
        if BUDGETED:
            if left > 0:
                allowed = _fits(allowed, first + column, classes, following, info, left)
        better = allowed & ((value > best) | (chosen < 0))
        best = tl.where(better, value, best)
        chosen = tl.where(better, column, chosen)
    keys = tl.where(chosen >= 0, _keys(best, first + chosen), NO_KEY)
    return tl.max(tl.max(keys, 1), 0)


@triton.jit
def _token(key):
    """The token of a key, -1 for `NO_KEY`."""
    return tl.where(key == NO_KEY, -1, 0x7FFFFFFF - (key & 0x7FFFFFFF)).to(tl.int32)


@triton.jit
def _joined(partial, count, found):
    """The greatest key of all parts of a row, and whether this part is the last to be done and so knows it.

    ``partial`` must be `NO_KEY` and ``count`` 0; they are so again once all parts are done.
    """
    parts = tl.num_programs(0)
    last = parts == 1
    if parts > 1:
        tl.atomic_max(partial, found)
        last = tl.atomic_add(count, 1) == parts - 1
        if last:
            found = tl.atomic_max(partial, NO_KEY)
            tl.store(partial, NO_KEY)
            tl.store(count, 0)
    return found, last


@triton.jit
def argmax_rows(
    logits, arena, row_id, partial, count, key, token, stride, rows, pitch, words, first, vocab, per,
    BLOCK: tl.constexpr, SHIFTED: tl.constexpr,
):  # fmt: skip
    """``token[b]``: the allowed token of row b with the greatest logit, of equal ones the lowest; -1 if there is none.

    One read of the logits, of those words of a row that allow anything; they are not changed. ``key[b]`` is the same as
    a number: its maximum over ranks is the choice among all shards.
    """
    request = tl.program_id(1).to(tl.int64)
    row = tl.load(row_id + request).to(tl.int64)
    begin = tl.program_id(0) * per
    end = tl.minimum(begin + per, (vocab + 31) // 32)
    found = _greatest(
        logits + request * stride, arena + row * pitch, row == 0, begin, end, _length(row, rows, words), first, vocab,
        row_id, row_id, row_id, 0, BLOCK, SHIFTED, False,
    )  # fmt: skip
    found, last = _joined(partial + request, count + request, found)
    if last:
        tl.store(key + request, found)
        tl.store(token + request, _token(found))


@triton.jit
def _place(info, start, classes, following, budget, state, states, vocab):
    """Where a request stands: arena row, classes, next states, and the tokens left if they matter here, else 0."""
    inside = (state >= 0) & (state < states)
    here = info + state.to(tl.int64) * INFO
    row = tl.load(here + ROW, mask=inside, other=-1).to(tl.int64)
    kinds = classes + tl.load(here + CLASSES, mask=inside, other=0).to(tl.int64) * vocab
    after = following + tl.load(start + state, mask=inside, other=0)
    left = tl.where(tl.load(here + MOST, mask=inside, other=0) < budget, 0, budget)
    return row, kinds, after, left


@triton.jit
def _advance(
    info, start, classes, following, state, budget, flags, position, history, chosen, states, width, vocab, request
):
    """Read `chosen` where request `request` stands: its next state, one token less, its flags and its history.

    A token that is not allowed, or after which the budget would not suffice, sets `FAILED` and changes nothing else.
    After the end nothing changes.
    """
    here = tl.load(state + request)
    left = tl.load(budget + request)
    inside = (chosen >= 0) & (chosen < vocab) & (here >= 0) & (here < states)
    table = info + here.to(tl.int64) * INFO
    kinds = classes + tl.load(table + CLASSES, mask=inside, other=0).to(tl.int64) * vocab
    kind = tl.load(kinds + chosen, mask=inside, other=0)
    after = tl.load(following + tl.load(start + here, mask=inside, other=0) + kind, mask=inside, other=-1)
    need = tl.load(info + after.to(tl.int64) * INFO + NEED, mask=after >= 0, other=1 << 30)
    before = tl.load(flags + request)
    if (before & ENDED) == 0:
        if (after < 0) | (need >= left):
            tl.store(flags + request, before | FAILED)
        else:
            at = tl.load(position + request)
            tl.store(history + request * width + at, chosen, mask=(at >= 0) & (at < width))
            tl.store(position + request, at + 1)
            tl.store(budget + request, left - 1)
            tl.store(state + request, after)
            ends = tl.where(need == 1, MAY_END, 0) | tl.where(need == 0, ENDED, 0)
            tl.store(flags + request, (before & FAILED) | ends)


@triton.jit
def step_greedy(
    logits, arena, info, start, classes, following, state, budget, partial, count, token, flags, position, history,
    stride, rows, pitch, words, vocab, states, width, per, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of every request on the device: mask by state, take the greatest logit, advance.

    ``token[b]`` is what was chosen; it stays as it was if no token is allowed, which sets `FAILED`.
    """
    request = tl.program_id(1).to(tl.int64)
    here = tl.load(state + request)
    row, kinds, after, left = _place(
        info, start, classes, following, tl.load(budget + request), here, states, vocab
    )  # fmt: skip
    begin = tl.program_id(0) * per
    end = tl.minimum(begin + per, (vocab + 31) // 32)
    found = _greatest(
        logits + request * stride, arena + row * pitch, row == 0, begin, end, _length(row, rows, words), 0, vocab,
        kinds, after, info, left, BLOCK, False, True,
    )  # fmt: skip
    found, last = _joined(partial + request, count + request, found)
    if last:
        chosen = _token(found)
        tl.store(token + request, chosen, mask=chosen >= 0)
        _advance(
            info, start, classes, following, state, budget, flags, position, history, chosen, states, width, vocab,
            request,
        )  # fmt: skip


@triton.jit
def step_mask(
    logits, arena, info, start, classes, following, state, budget, stride, rows, pitch, words, vocab, states,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The first half of `step_greedy`, for a sampler of the caller's: write -inf to what may not come next."""
    request = tl.program_id(1).to(tl.int64)
    here = tl.load(state + request)
    row, kinds, after, left = _place(
        info, start, classes, following, tl.load(budget + request), here, states, vocab
    )  # fmt: skip
    if (row != 0) | (left > 0):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        word = tl.where(row == 0, -1, _words(arena + row * pitch, at, _length(row, rows, words), 0, False))
        if left > 0:
            column = at[:, None] * 32 + tl.arange(0, 32)[None, :]
            bit = ((word[:, None] >> tl.arange(0, 32)[None, :]) & 1) != 0
            bit = _fits(bit & (column < vocab), column, kinds, after, info, left)
            word = tl.sum(bit.to(tl.int32) << tl.arange(0, 32)[None, :], 1)
        _forbid(logits + request * stride, word, at, vocab, BLOCK)


@triton.jit
def step_advance(
    token, info, start, classes, following, state, budget, flags, position, history, vocab, states, width
):
    """The second half of `step_greedy`: read ``token[b]``, the sampler's choice, for every request."""
    request = tl.program_id(0).to(tl.int64)
    _advance(
        info, start, classes, following, state, budget, flags, position, history, tl.load(token + request), states,
        width, vocab, request,
    )  # fmt: skip
