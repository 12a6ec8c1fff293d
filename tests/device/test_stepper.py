"""Decoding on the device: the texts of a matcher, within their budgets, with no host in the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-device)")

from schemac_runtime import DeviceError, allocate_bitmask, apply_bitmask  # noqa: E402
from schemac_runtime.device import DeviceStepper, step_tables  # noqa: E402
from tests.device.programs import PLAIN, linked  # noqa: E402

NAMES = list(PLAIN)


def by_matcher(program: Any, logits: Any, budget: int | None) -> list[int]:
    """The tokens of a greedy decoding on the host, float [steps, V] for one request."""
    matcher, tokens = program.matcher(), []
    mask = allocate_bitmask(1, program.vocab_size)
    for row in logits:
        if matcher.is_terminated():
            break
        matcher.fill_bitmask(mask, 0, None if budget is None else budget - len(tokens))
        masked = row.clone()[None]
        apply_bitmask(masked, torch.from_numpy(mask))
        tokens.append(int(masked[0].argmax()))
        assert matcher.accept(tokens[-1])
    return tokens


@pytest.mark.parametrize("vocabulary", ["small", "bytes"])
def test_greedy_steps_write_what_a_matcher_writes(vocabulary: str) -> None:
    programs = [linked(*PLAIN[name], vocabulary) for name in NAMES]
    tables = step_tables(programs)
    generator = torch.Generator().manual_seed(1)
    stepper = DeviceStepper(tables, requests=9, history=40)
    for request in range(8):
        stepper.start(request, request % len(programs))
    logits = torch.randn((40, 9, tables.vocab_size), generator=generator)
    for step in logits:
        before = step.clone()
        stepper.greedy(step)
        assert step.equal(before)
    answers = stepper.read()
    for request in range(8):
        answer = answers[request]
        program = programs[request % len(programs)]
        assert list(answer.tokens) == by_matcher(program, logits[:, request], None)
        assert answer.count == len(answer.tokens) and not answer.failed
        assert answer.ended == (answer.tokens[-1] in program.stop_ids)
    free = answers[8]
    assert list(free.tokens) == logits[:, 8].argmax(1).tolist() and not free.ended and not free.failed


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spare", [0, 1, 3])
def test_a_budget_is_always_kept(name: str, spare: int) -> None:
    program = linked(*PLAIN[name], "bytes")
    tables = step_tables([program])
    budget = tables.min_tokens(0) + spare
    stepper = DeviceStepper(tables, requests=30, history=64)
    for request in range(30):
        stepper.start(request, 0, budget)
    generator = torch.Generator().manual_seed(2)
    for _ in range(budget):
        stepper.greedy(torch.randn((30, tables.vocab_size), generator=generator))
    for answer in stepper.read():
        assert answer.ended and not answer.failed and answer.count <= budget
        matcher = program.matcher()
        assert matcher.accept_all(answer.tokens) and matcher.is_terminated()


def test_mask_sample_and_advance() -> None:
    programs = [linked(*PLAIN[name], "bytes") for name in NAMES]
    tables = step_tables(programs)
    stepper = DeviceStepper(tables, requests=12, history=50)
    for request in range(12):
        stepper.start(request, request % len(programs), 45)
    generator = torch.Generator().manual_seed(3)
    for _ in range(45):
        logits = torch.randn((12, tables.vocab_size), generator=generator)
        stepper.mask(logits)
        tokens = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0].to(torch.int32)
        stepper.advance(tokens)
    for request, answer in enumerate(stepper.read()):
        assert answer.ended and not answer.failed
        assert programs[request % len(programs)].matcher().accept_all(answer.tokens)


def test_a_token_that_is_not_allowed_is_refused_and_reported() -> None:
    program = linked(*PLAIN["regex"], "small")
    stepper = DeviceStepper(step_tables([program]), requests=3, history=4)
    stepper.start(0, 0)
    stepper.start(1, 0, 3)
    wrong = torch.tensor([5, -1, 1 << 20], dtype=torch.int32)
    stepper.advance(wrong)
    answers = stepper.read()
    assert [(a.failed, a.count) for a in answers] == [(True, 0), (True, 0), (True, 0)]
    stepper.start(0, 0)
    assert not stepper.read()[0].failed


def test_starting_again_and_refusals() -> None:
    program = linked(*PLAIN["choice"], "small")
    tables = step_tables([program])
    stepper = DeviceStepper(tables, requests=2, history=2)
    for match, arguments in {"no request 2": (2, 0), "no program 1": (0, 1), "not enough": (0, 0, 1)}.items():
        with pytest.raises(DeviceError, match=match):
            stepper.start(*arguments)
    for _ in range(2):
        stepper.start(0, 0)
        for _ in range(6):
            stepper.greedy(torch.zeros((2, tables.vocab_size)))
        answer = stepper.read()[0]
        assert answer.ended and len(answer.tokens) <= 2
        assert list(answer.tokens) == by_matcher(program, torch.zeros((6, tables.vocab_size)), None)[:2]
        stepper.start(1, None)


def test_tables_are_not_written() -> None:
    tables = step_tables([linked(*PLAIN["choice"], "small")])
    stepper = DeviceStepper(tables, requests=1, history=8)
    stepper.start(0, 0)
    copies = [np.array(a) for a in (tables.info, tables.start, tables.classes, tables.following, tables.rows)]
    for _ in range(5):
        stepper.greedy(torch.zeros((1, tables.vocab_size)))
    for one, other in zip(copies, (tables.info, tables.start, tables.classes, tables.following, tables.rows),
                          strict=True):  # fmt: skip
        np.testing.assert_array_equal(one, other)
