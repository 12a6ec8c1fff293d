"""Packed masks: one contract for NumPy and torch."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from schemac_runtime import BatchMatcher, MatcherError, allocate_bitmask, apply_bitmask, unpack
from tests.runtime.programs import SMALL, rules_program, token

WORD = "s = 'a' [b-c]* 'd'"


@pytest.fixture
def torch() -> ModuleType:
    return pytest.importorskip("torch", reason="not run: needs torch")


@pytest.mark.parametrize(("vocabulary", "words"), [(1, 1), (31, 1), (32, 1), (33, 2), (131_072, 4096)])
def test_a_fresh_mask_allows_everything(vocabulary: int, words: int) -> None:
    mask = allocate_bitmask(3, vocabulary)
    assert (mask.shape, mask.dtype) == ((3, words), np.int32)
    assert unpack(mask, vocabulary).all()


def test_unpack_reads_bits_from_the_low_end() -> None:
    mask = np.array([[1, -(2**31)], [-2, 5]], dtype=np.int32)
    expected = np.zeros((2, 64), dtype=np.bool_)
    expected[0, [0, 63]] = True
    expected[1, 1:32] = True
    expected[1, [32, 34]] = True
    assert np.array_equal(unpack(mask, 64), expected)
    assert np.array_equal(unpack(mask, 40), expected[:, :40])
    assert np.array_equal(unpack(mask[1], 40), expected[1, :40])
    assert np.array_equal(unpack(mask[:, ::-1], 32), expected[:, 32:])


@pytest.mark.parametrize("vocabulary", [1, 31, 64, 100])
@pytest.mark.parametrize("columns", [20, 64, 100, 150])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_forbidden_logits_become_minus_infinity(vocabulary: int, columns: int, kind: str) -> None:
    generator = np.random.default_rng(vocabulary)
    words = (vocabulary + 31) // 32
    mask = generator.integers(-(2**31), 2**31, size=(3, words), dtype=np.int64).astype(np.int32)
    logits = generator.normal(size=(3, columns)).astype(np.float32)
    allowed = np.zeros((3, columns), dtype=np.bool_)
    for row in range(3):
        for column in range(min(columns, 32 * words)):
            allowed[row, column] = bool(int(mask[row, column // 32]) >> column % 32 & 1)
    expected = np.where(allowed, logits, -np.inf)
    if kind == "numpy":
        apply_bitmask(logits, mask)
        assert np.array_equal(logits, expected)
        return
    torch = pytest.importorskip("torch", reason="not run: needs torch")
    for packed in (mask, torch.from_numpy(mask.copy())):
        tensor = torch.from_numpy(logits.copy())
        apply_bitmask(tensor, packed)
        assert np.array_equal(tensor.numpy(), expected)
        half = torch.from_numpy(logits.copy()).to(torch.bfloat16)
        apply_bitmask(half, packed)
        assert np.array_equal(half.isfinite().numpy(), allowed)


def test_numpy_logits_take_a_torch_mask(torch: ModuleType) -> None:
    mask = allocate_bitmask(2, 40)
    mask[0] = [5, 1]
    one, other = np.zeros((2, 40)), np.zeros((2, 40))
    apply_bitmask(one, mask)
    apply_bitmask(other, torch.from_numpy(mask))
    assert np.array_equal(one, other)
    assert np.flatnonzero(one[0] == 0).tolist() == [0, 2, 32]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_logits_and_mask_must_fit(kind: str) -> None:
    def of(array: np.ndarray) -> Any:
        if kind == "numpy":
            return array
        return pytest.importorskip("torch", reason="not run: needs torch").from_numpy(array)

    with pytest.raises(MatcherError, match="2 mask rows for 3 rows"):
        apply_bitmask(of(np.zeros((3, 32), np.float32)), of(allocate_bitmask(2, 32)))
    with pytest.raises(MatcherError, match="a mask must be int32"):
        apply_bitmask(of(np.zeros((3, 32), np.float32)), of(np.zeros((3, 1), np.int64)))
    single = of(np.zeros((1, 32), np.float32))
    apply_bitmask(single, of(np.array([1], dtype=np.int32)))  # a mask of words is one row
    assert [float(value) for value in single[0][:2]] == [0.0, -np.inf]


# -- torch masks of matchers -----------------------------------------------------------------------------------


def test_a_torch_mask_is_written_in_place(torch: ModuleType) -> None:
    matcher = rules_program(WORD).matcher()
    mask = torch.full((2, (SMALL.size + 31) // 32 + 2), -1, dtype=torch.int32)
    expected = allocate_bitmask(2, SMALL.size)
    for data in (b"ab", b"c", b"d"):
        matcher.fill_bitmask(mask, 1)
        matcher.fill_bitmask(expected, 1)
        width = expected.shape[1]
        assert np.array_equal(mask.numpy()[1, :width], expected[1])
        assert (mask[0] == -1).all()
        assert (mask[1, width:] == 0).all()
        assert matcher.accept(token(data))


def test_a_torch_row_of_words_is_row_0(torch: ModuleType) -> None:
    mask = torch.zeros((SMALL.size + 31) // 32, dtype=torch.int32)
    rules_program(WORD).matcher().fill_bitmask(mask)
    assert np.flatnonzero(unpack(mask.numpy(), SMALL.size)).tolist() == [token(b"a"), token(b"ab")]


def test_another_torch_type_is_refused(torch: ModuleType) -> None:
    matcher = rules_program(WORD).matcher()
    wrong = [
        torch.zeros((1, 4), dtype=torch.int64),
        torch.zeros((1, 4), dtype=torch.bool),
        torch.zeros((1, 3), dtype=torch.int32),
        torch.zeros((1, 1, 4), dtype=torch.int32),
        torch.zeros((1, 4), dtype=torch.int32, device="meta"),
        torch.zeros((1, 4), requires_grad=True),
        torch.zeros((1, 4), dtype=torch.bfloat16),
        torch.zeros((1, 4), dtype=torch.int32).to_sparse(),
    ]
    for mask in wrong:
        with pytest.raises(MatcherError):
            matcher.fill_bitmask(mask)


# -- batches ---------------------------------------------------------------------------------------------------


def test_a_batch_fills_and_advances_every_row() -> None:
    word, lists = rules_program(WORD), rules_program("s = '[' s ']' | 'a'")
    batch = BatchMatcher([word.matcher(), None, lists.matcher()])
    mask = np.zeros((4, word.words + 1), dtype=np.int32)
    batch.fill_bitmask(mask)
    assert np.flatnonzero(unpack(mask, SMALL.size)[0]).tolist() == [token(b"a"), token(b"ab")]
    assert (mask[1] == -1).all()
    assert np.flatnonzero(unpack(mask, SMALL.size)[2]).tolist() == sorted(token(b) for b in (b"[", b"a", b"[["))
    assert (mask[[0, 2], -1] == 0).all()
    assert (mask[3] == 0).all(), "a row past the requests is left alone"
    accepted = batch.accept([token(b"a"), 12_345_678, token(b"b")])
    assert (accepted.dtype, accepted.tolist()) == (np.bool_, [True, True, False])
    assert batch.accept(np.array([token(b"d"), 0, token(b"a")], dtype=np.int32)).all()
    assert batch.accept([107, 0, 107]).all()
    assert batch.is_terminated().tolist() == [True, False, True]
    batch.rollback([3, 99, 1])
    assert batch.is_terminated().tolist() == [False, False, False]
    assert [m and m.accepted for m in batch.matchers] == [0, None, 1]


def test_a_batch_of_torch_rows(torch: ModuleType) -> None:
    batch = BatchMatcher([None, rules_program(WORD).matcher()])
    mask = torch.zeros((2, 4), dtype=torch.int32)
    batch.fill_bitmask(mask)
    assert (mask[0] == -1).all()
    assert np.flatnonzero(unpack(mask.numpy(), SMALL.size)[1]).tolist() == [token(b"a"), token(b"ab")]
    assert batch.accept(torch.tensor([0, token(b"a")])).all()


def test_a_batch_refuses_what_does_not_fit() -> None:
    batch = BatchMatcher([rules_program(WORD).matcher(), None])
    with pytest.raises(MatcherError, match="1 rows for 2 requests"):
        batch.fill_bitmask(allocate_bitmask(1, SMALL.size))
    with pytest.raises(MatcherError, match="a mask must be"):
        batch.fill_bitmask(np.zeros((2, 3), dtype=np.int32))
    with pytest.raises(MatcherError, match="1 tokens for 2 requests"):
        batch.accept([0])
    with pytest.raises(MatcherError, match="3 counts for 2 requests"):
        batch.rollback([0, 0, 0])
    assert batch.accept([token(b"a"), 0]).all()
    second = BatchMatcher([*batch.matchers, rules_program(WORD).matcher()])
    with pytest.raises(MatcherError, match="cannot roll back 1 of 0"):
        second.rollback([1, 1, 1])
    assert second.matchers[0] is not None and second.matchers[0].accepted == 1, "no row has changed"


def test_an_empty_batch_and_one_without_constraints() -> None:
    BatchMatcher([]).fill_bitmask(np.zeros((0, 1), dtype=np.int32))
    assert BatchMatcher([]).accept([]).tolist() == []
    mask = np.zeros((2, 3), dtype=np.int32)
    BatchMatcher([None, None]).fill_bitmask(mask)
    assert (mask == -1).all()
