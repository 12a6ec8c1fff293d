"""Row ids in a server: what the scheduler fills, what travels, what the workers apply."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-device)")

from schemac_runtime import DeviceError, apply_bitmask  # noqa: E402
from schemac_runtime.device import RowSource, StepMasks, StepReceiver, fill_row, logit_rows  # noqa: E402
from tests.device.programs import PLAIN, STACKED, linked  # noqa: E402
from tests.device.test_steps import walk  # noqa: E402
from tests.runtime.programs import SMALL  # noqa: E402

WORDS = (SMALL.size + 31) // 32


def fill_as_vllm_does(bitmask: Any, requests: list[tuple[Any, list[int]]]) -> np.ndarray:
    """One row per draft token and one more for each request, in vLLM's way; a matcher of None is no constraint."""
    index = 0
    for matcher, drafts in requests:
        read, failed = 0, None
        for token in [*drafts, None]:
            if failed is not None:
                bitmask[index].copy_(bitmask[failed])
            elif matcher is None:
                bitmask[index].fill_(torch.tensor(-1, dtype=torch.int32))
            else:
                fill_row(bitmask, index, matcher)
                if token is not None and matcher.accept(token):
                    read += 1
                elif token is not None:
                    failed = index
            index += 1
        if read:
            matcher.rollback(read)
    return bitmask[:index].numpy()


@pytest.mark.parametrize("rows", [3, 500])
def test_drafts_bad_drafts_and_free_requests(rows: int) -> None:
    generator = random.Random(rows)
    programs = [linked(*PLAIN["object"], "small"), linked(*PLAIN["regex"], "small"),
                linked(*STACKED["recursive"][:2], "small")]  # fmt: skip
    masks, receiver = StepMasks(RowSource(rows, SMALL.size), 40), StepReceiver()
    matchers: list[Any] = [generator.choice([*programs, None]) for _ in range(8)]
    matchers = [None if p is None else p.matcher() for p in matchers]
    for _ in range(60):
        names = [f"r{index}" for index in range(8)]
        drafts = {name: [generator.randrange(SMALL.size) for _ in range(generator.randrange(3))] for name in names}
        constrained = generator.sample(names, 6)
        requests = [(matchers[int(name[1:])], drafts[name]) for name in constrained]
        packed = fill_as_vllm_does(torch.zeros((40, WORDS), dtype=torch.int32), requests).copy()
        sent = fill_as_vllm_does(masks, requests)
        batch = generator.sample(names, 7)
        targets = logit_rows(constrained, batch, drafts)
        logits = torch.randn(sum(1 + len(drafts[name]) for name in batch), SMALL.size)
        wanted = logits.clone()
        for row, target in enumerate(targets):
            if target >= 0 and not (packed[row] == -1).all():
                apply_bitmask(wanted[target : target + 1], packed[row][None])
        assert receiver.apply(sent, logits, targets)
        assert logits.equal(wanted)
        for matcher in matchers:
            if matcher is not None:
                if matcher.is_terminated():
                    matcher.reset()
                else:
                    walk(matcher, None, generator)
    assert (masks.source.packed_masks > 0) == (rows == 3)


def test_what_travels_is_small_once_the_rows_are_known() -> None:
    program = linked(*PLAIN["object"], "small")
    masks = StepMasks(RowSource(100, SMALL.size), 16)
    sizes = []
    for _ in range(3):
        for row in range(16):
            masks.fill(row, program.matcher())
        sizes.append(masks.finish(16).nbytes)
    assert sizes[1:] == [4 * (7 + 16)] * 2 and sizes[0] > sizes[1]


def test_packed_masks_are_left_to_others() -> None:
    receiver, logits = StepReceiver(), torch.zeros((2, SMALL.size))
    assert not receiver.apply(np.zeros((2, WORDS), np.int32), logits)
    assert receiver.masks is None and logits.eq(0).all()


def test_a_step_that_went_missing_is_noticed() -> None:
    masks, receiver = StepMasks(RowSource(9, SMALL.size), 2), StepReceiver()
    logits = torch.zeros((2, SMALL.size))
    assert receiver.apply(masks.finish(2), logits)
    masks.finish(2)
    with pytest.raises(DeviceError, match="step 2 arrived, expected 1"):
        receiver.apply(masks.finish(2), logits)


def test_masks_that_no_matcher_made() -> None:
    masks, receiver = StepMasks(RowSource(9, SMALL.size), 3), StepReceiver()
    row = np.zeros(WORDS, np.int32)
    row[3] = 1 << 11
    masks.fill_mask(1, row)
    masks.fill_mask(2, row)
    masks.free(2)
    logits = torch.zeros((3, SMALL.size))
    receiver.apply(masks.numpy(), logits)
    assert torch.isfinite(logits[1]).nonzero().flatten().tolist() == [107]
    assert logits[[0, 2]].eq(0).all()
    with pytest.raises(DeviceError, match="must be int32"):
        masks.fill_mask(0, row[:2])
    with pytest.raises(DeviceError, match="filled with ones"):
        masks[0].fill_(0)


def test_many_threads_fill_one_step() -> None:
    programs = [linked(*PLAIN[name], "small") for name in PLAIN]
    matchers = [programs[index % len(programs)].matcher() for index in range(64)]
    masks, receiver = StepMasks(RowSource(100, SMALL.size), 64), StepReceiver()
    for _ in range(20):
        threads = [
            threading.Thread(target=lambda part=part: [masks.fill(row, matchers[row]) for row in range(part, 64, 4)])
            for part in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        logits = torch.zeros((64, SMALL.size))
        assert receiver.apply(masks.numpy(), logits)
        for row, matcher in enumerate(matchers):
            packed = np.zeros((1, WORDS), np.int32)
            matcher.fill_bitmask(packed)
            wanted = torch.zeros((1, SMALL.size))
            apply_bitmask(wanted, packed)
            assert logits[row : row + 1].equal(wanted)


def test_the_rows_of_logits() -> None:
    drafts = {"b": [1, 2], "c": [3]}
    assert logit_rows(["c", "a", "x", "b"], ["a", "b", "c"], drafts) == [4, 5, 0, -1, 1, 2, 3]
