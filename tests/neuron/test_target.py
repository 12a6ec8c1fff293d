"""``--target neuron:...``: what a package holds, that it runs after a load, and what `schemac neff` adds."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import schemac
import schemac_runtime
from schemac.cli import run
from schemac.codegen.neuron.lowering import DTYPES
from schemac.codegen.targets import check_target
from schemac.codegen.targets.neuron import BATCHES, FEWEST_ROWS, program_rows
from schemac.errors import PackageError, TargetError
from schemac_runtime.device import step_tables
from schemac_runtime.neuron.modules import hlo_blob, module_for, neff_blob, neuron_modules, step_inputs
from schemac_runtime.targets import TargetArtifact
from tests.neuron import reference, xla
from tests.runtime.programs import SMALL

pytest.importorskip("jax", reason="not run: needs jax, extra neuron (make test-neuron)")

ROOT = Path(__file__).parent.parent.parent
OPTIONS = "batch=1+4,dtype=float32+bfloat16,rows=32"


@pytest.fixture(scope="module")
def compiled() -> schemac.Compiled:
    linked = schemac.link(schemac.compile('"[a-c]{2,4}x?"', kind="regex"), SMALL)
    return schemac.add_target(schemac.add_target(linked, f"neuron:trn1,{OPTIONS}"), f"neuron:inf2,{OPTIONS}")


@pytest.fixture
def path(compiled: schemac.Compiled, tmp_path: Path) -> Path:
    schemac.save(compiled, tmp_path / "grammar.pkg")
    return tmp_path / "grammar.pkg"


def test_loaded_modules_run_on_xla_and_equal_the_reference(tmp_path: Path) -> None:
    linked = schemac.link(schemac.compile('"[a-c]{2,4}x?"', kind="regex"), SMALL)
    every = "+".join(DTYPES)
    schemac.save(schemac.add_target(linked, f"neuron:trn1,dtype={every},rows=32,kind=mask+greedy"), tmp_path / "g.pkg")
    modules = neuron_modules(schemac_runtime.load(tmp_path / "g.pkg").target("neuron:trn1"))
    assert {(m.kind, m.dtype, m.batch) for m in modules.values()} == {
        (kind, dtype, batch) for kind in ("mask", "greedy") for dtype in DTYPES for batch in BATCHES
    }
    rng = np.random.default_rng(0)
    for module in modules.values():
        run_module = xla.load(module.hlo)
        sizes = {tensor.name: tensor.shape for tensor in module.inputs}
        assert sizes == {"logits": (module.batch, 110), "mask_rows": (module.batch,), "arena": (32, 4)}
        for _ in range(5):
            arena = reference.random_arena(rng, 32, 110)
            logits = reference.random_logits(rng, module.batch, 110, module.dtype)
            rows = rng.integers(-1, 33, size=module.batch, dtype=np.int32)
            wanted = {"mask": reference.mask, "greedy": reference.greedy}[module.kind](logits, rows, arena)
            [got] = run_module([logits, rows, arena])
            np.testing.assert_array_equal(got.astype(np.float64), np.asarray(wanted).astype(np.float64))


def test_device_steps_of_a_loaded_package_write_what_the_matcher_allows(tmp_path: Path) -> None:
    linked = schemac.link(schemac.compile('"[a-c]{2,4}x?"', kind="regex"), SMALL)
    schemac.save(schemac.add_target(linked, "neuron:trn1,batch=4,dtype=float32,kind=step"), tmp_path / "g.pkg")
    package = schemac_runtime.load(tmp_path / "g.pkg")
    module = module_for(package.target("neuron:trn1"), "step", "float32", 3)
    program = package.program()
    tables = step_tables([program])
    constant, run_module = step_inputs(module, tables), xla.load(module.hlo)
    assert {name: table.shape for name, table in constant.items()}["state_info"][0] >= program.states
    rng = np.random.default_rng(1)
    ended = 0
    for _ in range(8):
        matchers = [program.matcher() for _ in range(3)]
        state = {
            "states": np.array([*[tables.entry[0]] * 3, 0], dtype=np.int32),  # the last row is free
            "tokens_left": np.full(4, 60, dtype=np.int32),
            "flags": np.zeros(4, dtype=np.int32),
        }
        for _ in range(40):
            logits = rng.normal(size=(4, program.vocab_size)).astype(np.float32)
            values = {"logits": logits, **state, **constant}
            tokens, *after = run_module([values[tensor.name] for tensor in module.inputs])
            state = dict(zip(state, after, strict=True))
            assert tokens[3] == logits[3].argmax()
            for index, matcher in enumerate(matchers):
                if matcher.is_terminated():
                    assert tokens[index] == -1
                    continue
                mask = schemac_runtime.allocate_bitmask(1, program.vocab_size)
                matcher.fill_bitmask(mask)
                allowed = np.flatnonzero(schemac_runtime.unpack(mask, program.vocab_size)[0])
                assert tokens[index] == allowed[logits[index, allowed].argmax()]
                assert matcher.accept(int(tokens[index]))
                assert bool(state["flags"][index] & 2) == matcher.is_terminated()
                ended += matcher.is_terminated()
    assert ended == 24


def test_a_program_that_needs_a_stack_has_no_steps() -> None:
    nested = schemac.link(schemac.compile('root ::= "a" | "(" root ")"', kind="gbnf"), SMALL)
    made = schemac.add_target(nested, "neuron:trn1,batch=1").targets[0]
    assert {module.kind for module in neuron_modules(made).values()} == {"mask", "greedy"}
    with pytest.raises(TargetError) as failure:
        schemac.add_target(nested, "neuron:trn1,kind=step")
    assert "neuron:trn1: kind=step: the program cannot be stepped on a device" in str(failure.value)


def test_tables_of_another_program_do_not_fit(compiled: schemac.Compiled) -> None:
    larger = schemac.link(schemac.compile('"[a-z]{900}"', kind="regex"), SMALL).programs[0]
    module = module_for(compiled.targets[0], "step", "float32", 1)
    with pytest.raises(PackageError, match="the module takes"):
        step_inputs(module, step_tables([larger]))


def test_the_smallest_batch_that_fits_is_chosen(path: Path) -> None:
    artifact = schemac_runtime.load(path).target("neuron:inf2")
    assert module_for(artifact, "greedy", "float32", 1).batch == 1
    assert module_for(artifact, "greedy", "float32", 2).batch == 4
    with pytest.raises(PackageError) as failure:
        module_for(artifact, "greedy", "float32", 9)
    assert "no module greedy for 9 rows of float32 logits (batches held: 1, 4)" in str(failure.value)
    assert "--target neuron:inf2,batch=9,dtype=float32" in str(failure.value)


def test_the_same_modules_are_stored_once(path: Path) -> None:
    manifest = schemac_runtime.load(path).manifest
    trn, inf = (entry["blobs"] for entry in manifest["targets"])
    assert trn == inf
    assert len(manifest["blobs"]) == len(trn)


def test_packages_are_the_same_bytes(compiled: schemac.Compiled, path: Path, tmp_path: Path) -> None:
    again = schemac.add_target(schemac.add_target(compiled, f"neuron:trn1,{OPTIONS}"), f"neuron:inf2,{OPTIONS}")
    schemac.save(again, tmp_path / "again.pkg")
    assert (tmp_path / "again.pkg").read_bytes() == path.read_bytes()


def test_the_arena_holds_the_programs_rows() -> None:
    linked = schemac.link(schemac.compile('["a", "b", "ca"]', kind="choice"), SMALL)
    made = schemac.add_target(linked, "neuron:trn2,batch=1,kind=mask").targets[0]
    assert made.manifest["rows"] == FEWEST_ROWS
    needed = program_rows(linked.programs[0])
    exact = schemac.add_target(linked, f"neuron:trn2,batch=1,kind=mask,rows={needed}").targets[0]
    assert exact.manifest["rows"] == needed
    with pytest.raises(TargetError, match=f"the program has {needed} mask rows"):
        schemac.add_target(linked, f"neuron:trn2,kind=mask,rows={needed - 1}")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("neuron:trn9", "there is no machine 'trn9' (one of trn1, trn2, inf2)"),
        ("neuron:trn1,batch=0", "batch=0: expected numbers, at most 64, joined by +, each from 1 to 16,384"),
        ("neuron:trn1,batch=1+", "batch=1+: expected numbers"),
        ("neuron:trn1,batch=99999999999999999999", "expected numbers"),
        ("neuron:trn1,rows=1+2", "rows=1+2: expected a number from 1 to"),
        ("neuron:trn1,rows=-1", "rows=-1: expected a number from 1 to"),
        ("neuron:trn1,dtype=int8", "dtype=int8: there is no 'int8' (float32, bfloat16, float16)"),
        ("neuron:trn1,kind=all", "kind=all: there is no 'all' (mask, greedy, step)"),
        ("neuron:trn1,size=3", "neuron:trn1 has no option 'size=3' (known: batch, dtype, kind, rows)"),
        ("triton:sm_90,batch=1", "triton:sm_90 has no option 'batch=1' (triton has none)"),
    ],
)
def test_what_is_asked_for_wrongly(compiled: schemac.Compiled, target: str, message: str) -> None:
    with pytest.raises(TargetError) as failure:
        schemac.add_target(compiled, target)
    assert message in str(failure.value)


def test_damaged_entries_are_refused(compiled: schemac.Compiled) -> None:
    good = compiled.targets[0]
    check_target(good)
    name = "greedy_b4_float32"

    def changed(**fields: object) -> TargetArtifact:
        modules = {**good.manifest["modules"], name: {**good.manifest["modules"][name], **fields}}
        return replace(good, manifest={**good.manifest, "modules": modules})

    other = good.blobs[hlo_blob("mask_b4_float32")]
    for bad in (
        changed(kind="mask"),
        changed(kind="other"),
        changed(batch=5),
        changed(batch="x"),
        changed(inputs=[]),
        changed(inputs=[["logits", "float32", [4]]]),
        changed(outputs=[["token_ids", "int64", [4]]]),
        replace(good, manifest={**good.manifest, "machine": "trn9"}),
        replace(good, manifest={}),
        replace(good, manifest={**good.manifest, "modules": [name]}),
        replace(good, blobs={**good.blobs, "other": b""}),
        replace(good, blobs={n: b for n, b in good.blobs.items() if n != hlo_blob(name)}),
        replace(good, blobs={**good.blobs, hlo_blob(name): good.blobs[hlo_blob(name)][:-9]}),
        replace(good, blobs={**good.blobs, hlo_blob(name): b""}),
        replace(good, blobs={**good.blobs, hlo_blob(name): other.replace(b"mask_rows", b"mask_raws")}),
    ):
        with pytest.raises(PackageError):
            check_target(bad)


# -- schemac neff ------------------------------------------------------------------------------------------------


@pytest.fixture
def standin(tmp_path: Path) -> Path:
    program = tmp_path / "bin" / "neuronx-cc"
    program.parent.mkdir()
    paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" -m tests.neuron.standin "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_neff_finishes_a_package(path: Path, standin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = schemac_runtime.load(path)
    count = len(neuron_modules(before.target("neuron:trn1")))
    assert run(["neff", str(path), "--compiler", str(standin), "--target", "neuron:inf2"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{path}: {count} NEFF by neuronx-cc NeuronX Compiler version 0.stand-in\n"
    assert captured.err.count("\n") == count
    after = schemac_runtime.load(path)
    artifact = after.target("neuron:inf2")
    for module in neuron_modules(artifact).values():
        assert module.neff is not None
        assert module.neff.startswith(b"NEFF inf2 none ")
        assert artifact.manifest["neff"][module.name] == ["neuronx-cc", "NeuronX Compiler version 0.stand-in"]
    assert after.target("neuron:trn1").blobs == before.target("neuron:trn1").blobs
    assert run(["verify", str(path)]) == 0
    assert run(["inspect", str(path)]) == 0
    assert f"{count} NEFF by neuronx-cc NeuronX Compiler" in capsys.readouterr().out
    assert run(["neff", str(path), "--compiler", str(standin), "-o", str(path.with_name("whole.pkg"))]) == 0
    whole = schemac_runtime.load(path.with_name("whole.pkg"))
    assert all(m.neff for t in whole.targets for m in neuron_modules(t).values())


def test_a_compile_with_the_compiler_on_the_path_has_neffs(
    compiled: schemac.Compiled, standin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{standin.parent}{os.pathsep}{os.environ['PATH']}")
    made = schemac.add_target(compiled, "neuron:trn2,batch=1,kind=greedy,dtype=float32,rows=32").targets[-1]
    assert made.blob(neff_blob("greedy_b1_float32")).startswith(b"NEFF trn2 none ")


def test_what_was_made_before_a_failure_is_kept(
    path: Path, standin: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, second, *_ = neuron_modules(schemac_runtime.load(path).target("neuron:trn1"))
    counter = tmp_path / "calls"
    inner = standin.read_text().partition("\n")[2]
    standin.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || echo >> "{counter}"\n'
        f'[ -f "{counter}" ] && [ $(wc -l < "{counter}") -gt 1 ] && {{ echo "ERROR: no space left" >&2; exit 28; }}\n'
        f"{inner}"
    )
    assert run(["neff", str(path), "--compiler", str(standin)]) == 1
    error = capsys.readouterr().err
    assert f"neuronx-cc for trn1, module {second}: exit status 28: ERROR: no space left" in error
    modules = neuron_modules(schemac_runtime.load(path).target("neuron:trn1"))
    assert [name for name, module in modules.items() if module.neff] == [first]


def test_neff_says_what_is_missing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "torch_neuronx", None)
    before = path.read_bytes()
    assert run(["neff", str(path)]) == 1
    assert "no Neuron compiler: neuronx-cc is not installed" in capsys.readouterr().err
    assert run(["neff", str(path), "--target", "neuron:trn2"]) == 1
    assert "holds nothing for neuron:trn2 (Neuron targets held: neuron:trn1, neuron:inf2)" in capsys.readouterr().err
    assert path.read_bytes() == before
    plain = schemac.link(schemac.compile('["a"]', kind="choice"), SMALL)
    schemac.save(plain, tmp_path / "plain.pkg")
    assert run(["neff", str(tmp_path / "plain.pkg")]) == 1
    assert "has no Neuron target (schemac link" in capsys.readouterr().err
