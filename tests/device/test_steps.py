"""From matchers to row ids and back to masked logits; what travels to the device in a step."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="not run: needs torch (make test-device)")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import schemac  # noqa: E402
from schemac_runtime import DeviceError, allocate_bitmask, apply_bitmask, unpack  # noqa: E402
from schemac_runtime.device import DeviceMasks, DeviceStepper, RowSource, apply_step, decode, step_tables  # noqa: E402
from schemac_runtime.program import Program  # noqa: E402
from tests.device.programs import COUNTED, PLAIN, STACKED, linked  # noqa: E402
from tests.runtime.programs import SMALL, rules_program  # noqa: E402

AMBIGUOUS = "s = 'a' s s | 'a'"


def programs() -> list[Program]:
    plain = [linked(*PLAIN[name], "small") for name in PLAIN]
    return [*plain, linked(*STACKED["recursive"][:2], "small"), linked(*COUNTED, "small")]


def masked(logits: Any, matchers: list[Any], budgets: list[int | None]) -> Any:
    """The logits as the host's masks leave them."""
    mask = allocate_bitmask(len(matchers), SMALL.size)
    for row, matcher in enumerate(matchers):
        if matcher is None:
            mask[row] = -1
        else:
            matcher.fill_bitmask(mask, row, budgets[row])
    out = logits.clone()
    apply_bitmask(out, torch.from_numpy(mask))
    for row, matcher in enumerate(matchers):
        if matcher is None:
            out[row] = logits[row]
    return out


def walk(matcher: Any, budget: int | None, generator: random.Random) -> None:
    mask = allocate_bitmask(1, SMALL.size)
    matcher.fill_bitmask(mask, 0, budget)
    assert matcher.accept(generator.choice(np.flatnonzero(unpack(mask, SMALL.size)[0]).tolist()))


@pytest.mark.parametrize("rows", [3, 8, 4096])
@pytest.mark.parametrize("limited", [False, True])
def test_random_batches_are_masked_as_on_the_host(rows: int, limited: bool) -> None:
    """With an arena of any size, over a wire, with budgets, requests coming and going."""
    generator = random.Random(rows)
    source, device = RowSource(rows, SMALL.size), DeviceMasks(SMALL.size, rows=rows, requests=16)
    matchers: list[Any] = [None] * 6
    budgets: list[int | None] = [None] * 6
    for _ in range(120):
        slot = generator.randrange(6)
        if matchers[slot] is None or generator.random() < 0.2:
            program = generator.choice(programs())
            matchers[slot] = generator.choice([program.matcher(), program.matcher((3,)), None])
            budgets[slot] = program.min_tokens() + generator.randrange(6) if limited else None
        step = source.step(matchers, [b if m is not None else None for m, b in zip(matchers, budgets, strict=True)])
        received, capacity = decode(step.encode(rows)) or (step, 0)
        assert received is not step and received.number == step.number and capacity == rows
        logits = torch.randn(6, SMALL.size)
        wanted = masked(logits, matchers, budgets)
        apply_step(device, received, logits)
        assert logits.equal(wanted)
        for index, matcher in enumerate(matchers):
            if matcher is not None and not matcher.is_terminated():
                walk(matcher, budgets[index], generator)
                if budgets[index] is not None:
                    budgets[index] -= 1  # type: ignore[operator]
            elif matcher is not None:
                matchers[index] = None
    assert (source.packed_masks > 0) == (rows == 3)


def test_ambiguous_texts_have_rows_too() -> None:
    program = rules_program(AMBIGUOUS)
    matcher, source = program.matcher(), RowSource(9, SMALL.size)
    device = DeviceMasks(SMALL.size, rows=9)
    token = SMALL.ids_of(b"a")[0]
    for _ in range(5):
        logits = torch.zeros(1, SMALL.size)
        wanted = masked(logits, [matcher], [None])
        apply_step(device, source.step([matcher]), logits)
        assert logits.equal(wanted)
        assert matcher.accept(token)


def test_rows_of_drafts_one_by_one() -> None:
    """A speculative runner reads drafts between the rows and takes them back."""
    program = linked(*PLAIN["regex"], "small")
    matcher, source = program.matcher(), RowSource(20, SMALL.size)
    device = DeviceMasks(SMALL.size, rows=20)
    a, b = (SMALL.ids_of(data)[0] for data in (b"a", b"b"))
    logits, wanted = torch.randn(4, SMALL.size), []
    builder = source.begin()
    for index, draft in enumerate((a, b, a, None)):
        wanted.append(masked(logits[index : index + 1], [matcher], [None]))
        builder.add(matcher)
        if draft is not None:
            assert matcher.accept(draft)
    matcher.rollback(3)
    apply_step(device, builder.finish(), logits)
    assert logits.equal(torch.cat(wanted))


def test_rows_go_to_the_logits_of_their_requests() -> None:
    program = linked(*PLAIN["regex"], "small")
    source, device = RowSource(20, SMALL.size), DeviceMasks(SMALL.size, rows=20)
    logits = torch.zeros(5, SMALL.size)
    apply_step(device, source.step([program.matcher(), None]), logits, [3, 1])
    assert [bool(torch.isneginf(row).any()) for row in logits] == [False, False, False, True, False]
    logits.zero_()
    apply_step(device, source.step([program.matcher(), program.matcher()]), logits, [-1, 2])
    assert [bool(torch.isneginf(row).any()) for row in logits] == [False, False, True, False, False]
    for rows in ([5, 0], [-2, 0]):
        with pytest.raises(DeviceError, match="rows of logits"):
            apply_step(device, source.step([program.matcher(), None]), logits, rows)
    with pytest.raises(DeviceError, match="rows of logits"):
        apply_step(device, source.step([program.matcher()]), logits, [1, 2])


def test_the_mask_of_a_place_is_made_once_for_all_requests() -> None:
    program, source = linked(*PLAIN["object"], "small"), RowSource(400, SMALL.size)
    made = []
    for _ in range(3):
        matcher, generator = program.matcher(), random.Random(7)
        for _ in range(12):
            source.step([matcher])
            if matcher.is_terminated():
                break
            walk(matcher, None, generator)
        made.append(source.masks_made)
    assert made[0] > 3 and made == [made[0]] * 3


def test_a_source_keeps_no_program_alive() -> None:
    import gc
    import weakref

    program = schemac.link(schemac.compile("a+", kind="regex"), SMALL).programs[0]
    source, gone = RowSource(9, SMALL.size), weakref.ref(program)
    source.step([program.matcher()])
    del program
    gc.collect()
    assert gone() is None


def test_what_a_failed_step_made_goes_with_the_next() -> None:
    program, source = linked(*PLAIN["regex"], "small"), RowSource(9, SMALL.size)
    device = DeviceMasks(SMALL.size, rows=9)
    with pytest.raises(DeviceError, match="tokens, expected"):
        source.step([program.matcher(), linked(*PLAIN["regex"], "bytes").matcher()])
    assert source.book.held == 0
    logits = torch.zeros(1, SMALL.size)
    step = source.step([program.matcher()])
    apply_step(device, step, logits)
    assert logits.equal(masked(torch.zeros(1, SMALL.size), [program.matcher()], [None]))


def test_what_is_no_step_is_left_alone_and_a_damaged_one_refused() -> None:
    source = RowSource(9, SMALL.size)
    step = source.step([linked(*PLAIN["regex"], "small").matcher(), None])
    good = step.encode(9)
    assert decode(np.zeros((3, source.words), np.int32)) is None
    for index in (0, 3, 4, 5, 6):
        for value in (-1, 5, 1 << 30):
            damaged = good.copy()
            damaged[0, 0, index] = value
            with pytest.raises(DeviceError, match=r"damaged|version"):
                decode(damaged)
    for length in (0, 3, good.shape[2] - 1):
        with pytest.raises(DeviceError, match=r"damaged|version"):
            decode(good[:, :, :length])


# -- bytes -------------------------------------------------------------------------------------------------------


class Copies(TorchDispatchMode):
    """Counts the bytes of every copy between tensors: on the CPU these stand for copies to the device."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.made: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        self.made.add(name)
        result = func(*args, **(kwargs or {}))
        if name.startswith(("aten.copy_", "aten._to_copy")):
            self.bytes += result.numel() * result.element_size()
        return result


class NoKernels:
    """Kernels that do nothing: what is left is what the host does for a step."""

    def run(self, _call: Any) -> None:
        pass


def counted(work: Any) -> int:
    with Copies() as copies:
        work()
    return copies.bytes


def test_bytes_per_request_and_step() -> None:
    """Four bytes with row ids, none when the device steps; a packed mask has 16 KB and a boolean one 128 KB."""
    vocab, batch = 131_072, 32
    device = DeviceMasks(vocab, rows=64, requests=batch, kernels=NoKernels())
    masks = np.random.default_rng(1).integers(1, 1 << 31, (batch, vocab // 32)).astype(np.int32)
    rows = [device.arena.acquire(index, lambda index=index: masks[index]) for index in range(batch)]
    logits = torch.zeros((batch, vocab), dtype=torch.float16)
    device.mask(logits, rows)

    before = device.bytes_moved
    # The ids are written into the pinned buffer, then copied to the device: half of the bytes cross.
    assert counted(lambda: device.mask(logits, rows)) / 2 / batch == 4
    assert (device.bytes_moved - before) / batch == 4
    resident = device.row_ids.tensor
    assert counted(lambda: device.mask(logits, resident)) == 0, "row ids that are on the device already"
    assert counted(lambda: device.choose(logits, resident)) == 0

    before = device.bytes_moved
    device.mask_packed(logits, masks, range(batch))
    assert (device.bytes_moved - before) / batch == 16_384 + 8, "the mask, its row of logits and its own"
    assert torch.ones((batch, vocab), dtype=torch.bool).numel() / batch == 131_072


def test_no_bytes_when_the_device_steps() -> None:
    tables = step_tables([linked(*PLAIN["object"], "bytes")])
    stepper = DeviceStepper(tables, requests=8, history=32, kernels=NoKernels())
    stepper.start(0, 0)
    logits = torch.zeros((8, tables.vocab_size))

    def steps() -> None:
        for _ in range(20):
            stepper.greedy(logits)
            stepper.mask(logits)
            stepper.advance(stepper.token)

    with Copies() as copies:
        steps()
    assert copies.bytes == 0 and copies.made == set(), "not one tensor operation of the host's"


def test_a_step_sends_each_new_row_once() -> None:
    program, source = linked(*PLAIN["object"], "small"), RowSource(64, SMALL.size)
    device = DeviceMasks(SMALL.size, rows=64, kernels=NoKernels())
    logits = torch.zeros((16, SMALL.size))
    moved = []
    for _ in range(3):
        before = device.bytes_moved
        apply_step(device, source.step([program.matcher() for _ in range(16)]), logits)
        moved.append(device.bytes_moved - before)
    assert moved == [64 + 64, 64, 64]  # one row of 16 words, padded; 16 ids of 4 bytes
