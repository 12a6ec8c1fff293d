"""The HLO of Neuron targets: run by XLA on the CPU it equals the reference, and it holds nothing Neuron cannot take."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemac.codegen.neuron.hlo_proto import canonical, instructions
from schemac.codegen.neuron.lowering import DTYPES, KINDS, Shape, lower
from schemac.codegen.neuron.operators import LARGEST_ID, STRUCTURE, SUPPORTED, check_operators
from schemac.codegen.targets.neuron import BATCHES
from schemac.errors import TargetError
from schemac_runtime.kernels import reference as kernels
from schemac_runtime.neuron.modules import NeuronModule
from tests.neuron import reference, xla

pytest.importorskip("jax", reason="not run: needs jax, extra neuron (make test-neuron)")


ROOT = Path(__file__).parent.parent.parent
SIZES = [(batch, size) for batch in BATCHES for size in (32, 70)] + [(1, 1000), (16, 1000)]
SHAPES = [Shape(batch, size, 11, 7, 2, 7 * 5) for batch, size in SIZES]
GOLDEN = ROOT / "golden" / "neuron_greedy.hlo"


def same(got: reference.Array, expected: reference.Array) -> None:
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))  # NaN equals NaN


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"b{s.batch}-v{s.vocab_size}")
@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_and_tokens_equal_the_reference(dtype: str, shape: Shape) -> None:
    run = {kind: xla.load(lower(kind, dtype, shape).hlo) for kind in ("mask", "greedy")}
    rng = np.random.default_rng([shape.batch, shape.vocab_size, DTYPES.index(dtype)])
    arena = reference.random_arena(rng, shape.rows, shape.vocab_size)
    for _ in range(40):
        logits = reference.random_logits(rng, shape.batch, shape.vocab_size, dtype)
        rows = rng.integers(-1, shape.rows + 1, size=shape.batch, dtype=np.int32)  # one beyond either end too
        same(run["mask"]([logits, rows, arena])[0], reference.mask(logits, rows, arena))
        same(run["greedy"]([logits, rows, arena])[0], reference.greedy(logits, rows, arena))
    free = np.zeros(shape.batch, dtype=np.int32)
    assert run["mask"]([logits, free, arena])[0].tobytes() == logits.tobytes()  # row 0 changes no bit


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"b{s.batch}-v{s.vocab_size}")
@pytest.mark.parametrize("dtype", DTYPES)
def test_device_steps_equal_the_reference(dtype: str, shape: Shape) -> None:
    run = xla.load(lower("step", dtype, shape).hlo)
    rng = np.random.default_rng([shape.batch, shape.vocab_size, DTYPES.index(dtype)])
    tables = reference.random_tables(rng, shape.rows, shape.vocab_size, shape.states, 5)
    left, flags, states = (np.zeros(shape.batch, dtype=np.int32) for _ in range(3))
    for turn in range(40):
        if turn % 8 == 0:
            states = rng.integers(-1, shape.states + 1, size=shape.batch, dtype=np.int32)
            left = rng.integers(0, 12, size=shape.batch, dtype=np.int32)
            flags = rng.choice(np.array([0, 1, 2, 4, 5, 6], dtype=np.int32), shape.batch)
        logits = reference.random_logits(rng, shape.batch, shape.vocab_size, dtype)
        expected = reference.step(logits, states, left, flags, tables)
        for got, wanted in zip(run((logits, states, left, flags, *tables)), expected, strict=True):
            same(got, wanted)
        tokens, after, budgets, ends = (np.array(a) for a in (np.full_like(states, -9), states, left, flags))
        kernels.step_greedy(
            logits.copy(), tables.arena, tables.info, tables.start.astype(np.int64),
            tables.token_class.reshape(2, -1), tables.following, after, budgets, tokens, ends, np.zeros_like(states),
            np.zeros((shape.batch, 1), dtype=np.int32), tables.arena.shape[1],
        )  # fmt: skip
        for got, wanted in zip((after, budgets, ends), expected[1:], strict=True):  # the kernels' oracle agrees
            same(got, wanted)
        _, states, left, flags = expected


@pytest.mark.parametrize("kind", ["mask", "greedy"])
def test_a_vocabulary_of_a_real_size(kind: str) -> None:
    shape = Shape(4, 131_072, 32)
    run, rng = xla.load(lower(kind, "bfloat16", shape).hlo), np.random.default_rng(9)
    arena = reference.random_arena(rng, shape.rows, shape.vocab_size)
    for _ in range(3):
        logits = reference.random_logits(rng, shape.batch, shape.vocab_size, "bfloat16")
        rows = rng.integers(shape.rows, size=shape.batch, dtype=np.int32)
        same(run([logits, rows, arena])[0], getattr(reference, kind)(logits, rows, arena))


def every_module() -> list[NeuronModule]:
    return [lower(kind, dtype, Shape(3, 70, 4, 6, 2, 30)) for kind in KINDS for dtype in DTYPES]


def test_modules_hold_only_documented_operators() -> None:
    used: set[str] = set()
    for module in every_module():
        found = instructions(module.hlo)
        assert {item.opcode for item in found} <= SUPPORTED.keys() | STRUCTURE
        used |= {item.opcode for item in found}
        names = [item.name for item in found]
        assert len(set(names)) == len(names)
        assert sorted(item.identifier for item in found) == list(range(1, len(found) + 1))
        assert len(found) < LARGEST_ID
        check_operators(module.hlo)
        text = xla.text(module.hlo)
        assert "custom-call" not in text
        assert "metadata" not in text
        # AWS: a reduction computes Min, Max, Add or Mul, from a constant.
        for body in re.findall(r"^%computation\.\d+ .*?^}", text, re.MULTILINE | re.DOTALL):
            assert re.search(r"ROOT %\S+ = \S+ (maximum|minimum)\(", body), body
        for start in re.findall(r" reduce\(%\S+, %([\w.-]+)\)", text):
            assert start.startswith("constant.")
        # AWS: the dimensions that a gather looks up and those that it copies are disjoint.
        for line in re.findall(r".* gather\(.*", text):
            offsets = re.search(r"offset_dims=\{([\d,]*)\}, collapsed_slice_dims=\{0\}, start_index_map=\{0\}", line)
            assert offsets and offsets[1] in {"", "1"}
    assert used == SUPPORTED.keys() | STRUCTURE  # nothing is listed that no module uses


def serialized(function: Any, dtype: str = "float32") -> bytes:
    """What JAX itself writes for a function of one vector."""
    import jax

    lowered = jax.jit(function).lower(jax.ShapeDtypeStruct((4,), dtype))
    return lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()


def test_nothing_names_the_machine_that_compiled() -> None:
    import jax

    raw = serialized(lambda values: jax.lax.add(values, values))
    assert b"test_hlo.py" in raw  # so there is something to take out
    for module in (canonical(raw, "twice", ("values",)), *(module.hlo for module in every_module())):
        for trace in (b".py", str(ROOT).encode(), b"lambda", b"jit"):
            assert trace not in module


def test_the_bytes_are_the_same_in_another_process() -> None:
    program = (
        "import hashlib, sys\n"
        "from schemac.codegen.neuron.lowering import Shape, lower\n"
        "for kind in ('step', 'mask', 'greedy'):\n"
        "    print(kind, hashlib.sha256(lower(kind, 'bfloat16', Shape(3, 70, 4, 6, 2, 30)).hlo).hexdigest())\n"
    )
    outputs = []
    for seed in ("0", "77"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}", "PATH": "", "HOME": "/"}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") == 3


def test_the_text_is_the_golden_one(pytestconfig: pytest.Config) -> None:
    text = xla.text(lower("greedy", "bfloat16", Shape(2, 70, 3)).hlo)
    if pytestconfig.getoption("--update-golden"):
        GOLDEN.write_text(text, "utf-8")
    assert text == GOLDEN.read_text("utf-8")


def test_64_bit_ids_and_other_operators_are_refused() -> None:
    import jax

    raw = serialized(jax.numpy.sort)
    assert max(item.identifier for item in instructions(raw)) > LARGEST_ID
    with pytest.raises(TargetError, match="holds field 60 of instruction `sort`"):
        canonical(raw, "sort", ("values",))
    with pytest.raises(TargetError, match="`exponential`: the operator is not among"):
        check_operators(canonical(serialized(jax.lax.exp), "exponential", ("values",)))
    with pytest.raises(TargetError, match="needs more than 32 bits"):
        check_operators(serialized(lambda values: jax.lax.add(values, values)))
    with pytest.raises(TargetError, match="element type 15"):
        check_operators(canonical(serialized(lambda v: jax.lax.add(v, v), "complex64"), "double", ("values",)))


def test_what_is_no_module_is_refused() -> None:
    module = lower("mask", "float32", Shape(3, 70, 4)).hlo
    for damaged in (module[:-1], module[: len(module) // 2], b"\xff" * 40, b"\x0b"):
        with pytest.raises(TargetError, match="not an HLO module"):
            instructions(damaged)


def test_an_input_that_no_output_needs_keeps_its_place() -> None:
    for module in every_module():
        parameters = [item.name for item in instructions(module.hlo) if item.opcode == "parameter"]
        assert {tensor.name for tensor in module.inputs} <= set(parameters)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_computation_in_torch_gives_the_same(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="not run: needs torch (make test-neuron)")
    from schemac_runtime.neuron.traced import TRACED

    shape = Shape(16, 70, 11, 7, 2, 35)
    module = lower(kind, "float32", shape)
    run, traced, rng = xla.load(module.hlo), TRACED[kind](), np.random.default_rng(KINDS.index(kind))
    for turn in range(30):
        tables = reference.random_tables(rng, shape.rows, shape.vocab_size, shape.states, 5)
        values = {
            "logits": reference.random_logits(rng, shape.batch, shape.vocab_size, "float32"),
            "mask_rows": rng.integers(-1, shape.rows + 1, size=shape.batch, dtype=np.int32),
            "arena": tables.arena,
            "states": rng.integers(-1, shape.states + 1, size=shape.batch, dtype=np.int32),
            "tokens_left": rng.integers(0, 9, size=shape.batch, dtype=np.int32),
            "flags": rng.integers(0, 8, size=shape.batch, dtype=np.int32),
            "state_info": tables.info, "state_start": tables.start, "token_class": tables.token_class,
            "following": tables.following,
        }  # fmt: skip
        inputs = [values[tensor.name] for tensor in module.inputs]
        outputs = traced(*map(torch.from_numpy, inputs))
        for got, wanted, tensor in zip(
            outputs if kind == "step" else [outputs], run(inputs), module.outputs, strict=True
        ):
            assert (str(got.dtype), tuple(got.shape)) == (f"torch.{tensor.dtype}", tensor.shape), turn
            same(got.numpy(), wanted)
