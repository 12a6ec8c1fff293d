"""Masking batches: row ids, packed masks, choices, shards; by torch operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-device)")

from schemac_runtime import DeviceError, apply_bitmask  # noqa: E402
from schemac_runtime.device import DeviceMasks, token_of  # noqa: E402

VOCAB = 300
WORDS = (VOCAB + 31) // 32


def random_masks(rng: np.random.Generator, count: int, vocab: int = VOCAB) -> np.ndarray:
    bits = rng.random((count, -(-vocab // 32) * 32)) < rng.choice([0.02, 0.5, 0.98], (count, 1))
    bits[:, vocab:] = False
    bits[:, 5] = True
    return np.packbits(bits, axis=1, bitorder="little").view(np.int32)


def expected(logits: Any, masks: np.ndarray) -> Any:
    copy = logits.clone()
    apply_bitmask(copy, torch.from_numpy(masks))
    return copy


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_row_ids_and_packed_masks_do_the_same(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    device = DeviceMasks(VOCAB, rows=20, requests=16)
    masks = random_masks(rng, 12)
    rows = [device.arena.acquire(index, lambda index=index: masks[index]) for index in range(12)]
    logits = torch.randn(12, VOCAB).to(dtype)
    one, other = logits.clone(), logits.clone()
    device.mask(one, rows)
    device.mask_packed(other, masks, range(12))
    assert one.equal(expected(logits, masks)) and other.equal(one)
    device.mask(one := logits.clone(), [0] * 12)
    assert one.equal(logits), "row 0 touches nothing"


def test_packed_masks_for_some_rows_only() -> None:
    rng = np.random.default_rng(2)
    device = DeviceMasks(VOCAB, requests=8)
    logits = torch.randn(6, VOCAB)
    masks = random_masks(rng, 3)
    out = logits.clone()
    device.mask_packed(out, torch.from_numpy(masks), [4, 0, 2])
    for row in (1, 3, 5):
        assert out[row].equal(logits[row])
    assert out[[4, 0, 2]].equal(expected(logits[[4, 0, 2]], masks))
    device.mask_packed(out, masks[:0], [])
    with pytest.raises(DeviceError, match="int32"):
        device.mask_packed(out, masks, [1])
    with pytest.raises(DeviceError, match="room for 8"):
        device.mask_packed(out, np.zeros((9, WORDS), np.int32), range(9))


def test_a_row_in_which_nothing_is_allowed_is_reported() -> None:
    device = DeviceMasks(VOCAB, requests=4)
    masks = np.zeros((3, WORDS), np.int32)
    masks[1, 2] = 4
    logits = torch.randn(3, VOCAB)
    device.clear_alive()
    device.mask_packed(logits, masks, range(3))
    assert device.alive(3).tolist() == [0, 1, 0]
    assert torch.isneginf(logits[0]).all() and not torch.isnan(logits).any()


def test_choices_are_allowed_whatever_the_logits_are() -> None:
    rng = np.random.default_rng(3)
    device = DeviceMasks(VOCAB, rows=64, requests=40)
    masks = random_masks(rng, 40)
    rows = [device.arena.acquire(index, lambda index=index: masks[index]) for index in range(40)]
    logits = torch.randn(40, VOCAB)
    logits[5:10] = float("nan")
    logits[10:15] = float("-inf")
    before = logits.clone()
    token, key = device.choose(logits, rows)
    assert logits.equal(before) or torch.equal(logits.nan_to_num(), before.nan_to_num()), "nothing is written"
    masked = expected(logits, masks)
    plain = [*range(5), *range(15, 40)]
    assert token[plain].tolist() == masked[plain].argmax(1).tolist()
    for row in range(5, 15):
        lowest = int(np.flatnonzero(np.unpackbits(masks[row].view(np.uint8), bitorder="little"))[0])
        assert token[row] == lowest, "argmax of a row of NaN or -inf would be token 0, allowed or not"
    assert token_of(key).equal(token)


def test_a_row_id_outside_the_arena_allows_nothing() -> None:
    device = DeviceMasks(VOCAB, rows=4, requests=4)
    logits = torch.zeros(2, VOCAB)
    device.mask(logits, [4, -1])
    assert torch.isneginf(logits).all()
    token, _ = device.choose(torch.zeros(2, VOCAB), [4, -1])
    assert token.tolist() == [-1, -1]


@pytest.mark.parametrize("cuts", [(0, 100, 200, 300), (0, 64, 300), (0, 150, 300), (0, 1, 33, 299, 300)])
def test_shards_together_do_what_one_rank_does(cuts: tuple[int, ...]) -> None:
    """Each rank masks its columns with its slice of the row; the greatest key is the choice among all."""
    rng = np.random.default_rng(4)
    masks = random_masks(rng, 9)
    logits = torch.randn(9, VOCAB).round(decimals=1)
    ranks = [DeviceMasks(VOCAB, rows=16, requests=16, first=first) for first in cuts[:-1]]
    parts, keys = [], []
    for rank, first, last in zip(ranks, cuts, cuts[1:], strict=False):
        rows = [rank.arena.acquire(index, lambda index=index: masks[index]) for index in range(9)]
        part = logits[:, first:last].clone()
        keys.append(rank.choose(part, rows)[1].clone())
        rank.mask(part, rows)
        packed = logits[:, first:last].clone()
        rank.mask_packed(packed, masks, range(9))
        assert packed.equal(part)
        parts.append(part)
    assert torch.cat(parts, 1).equal(expected(logits, masks))
    assert token_of(torch.stack(keys).amax(0)).tolist() == expected(logits, masks).argmax(1).tolist()


def test_logits_wider_than_the_vocabulary() -> None:
    """Columns past the vocabulary are forbidden; a row without constraint keeps them."""
    device = DeviceMasks(VOCAB, rows=4)
    row = device.arena.acquire("a", lambda: random_masks(np.random.default_rng(5), 1)[0])
    logits = torch.zeros(2, VOCAB + 84)
    device.mask(logits, [row, 0])
    assert torch.isneginf(logits[0, VOCAB:]).all() and torch.isfinite(logits[1]).all()
