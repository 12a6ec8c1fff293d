"""``neuron:trn1`` and its like: HLO modules for AWS Trainium and Inferentia, and NEFF files where a compiler is there.

The modules depend on sizes only: batch, vocabulary, arena; `step` also on the sizes of the program's tables. What a
grammar allows is in the arena, which the runtime writes, so packages for one model share their modules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemac.codegen.neuron.hlo_proto import instructions
from schemac.codegen.neuron.lowering import DTYPES, KINDS, Shape, lower, signature
from schemac.codegen.neuron.neuronx import DEFAULT_TIMEOUT, NeffCompiler, find_compiler, make_neff
from schemac.codegen.neuron.operators import check_operators
from schemac.codegen.targets.family import Family
from schemac.errors import PackageError, TargetError
from schemac_runtime.device.tables import StepTables, step_tables
from schemac_runtime.errors import DeviceError
from schemac_runtime.neuron.modules import describe_module, hlo_blob, neff_blob, neuron_modules
from schemac_runtime.program import Program
from schemac_runtime.targets import TargetArtifact

#: What `neuronx-cc --target` takes of these.
MACHINES = ("trn1", "trn2", "inf2")
OPTIONS = ("batch", "dtype", "kind", "rows")
#: Batch buckets: the server pads to the next one.
BATCHES = (1, 4, 16, 64)
#: The smallest arena: 256 rows of a vocabulary of 131,072 tokens are 4 MB.
FEWEST_ROWS = 256
_LARGEST_BATCH, _MOST_ROWS = 1 << 14, 1 << 24


@dataclass(frozen=True)
class NeuronOptions:
    """What is compiled.

    Attributes:
        batches: rows of logits.
        dtypes: of the logits.
        kinds: the computations; None for all that the program allows.
        rows: the capacity of the arena; None for the next power of two that holds the program's rows and row 0.
    """

    batches: tuple[int, ...] = BATCHES
    dtypes: tuple[str, ...] = ("bfloat16",)
    kinds: tuple[str, ...] | None = None
    rows: int | None = None


def read_options(options: dict[str, str]) -> NeuronOptions:
    """From the texts behind a target's name, lists joined by ``+``.

    Raises:
        TargetError: one is not what it should be.
    """
    read = NeuronOptions()
    if "batch" in options:
        read = replace(read, batches=_numbers("batch", options["batch"], _LARGEST_BATCH))
    if "dtype" in options:
        read = replace(read, dtypes=_names("dtype", options["dtype"], DTYPES))
    if "kind" in options:
        read = replace(read, kinds=_names("kind", options["kind"], KINDS))
    if "rows" in options:
        read = replace(read, rows=_numbers("rows", options["rows"], _MOST_ROWS, most=1)[0])
    return read


def _numbers(name: str, text: str, largest: int, most: int = 64) -> tuple[int, ...]:
    parts = text.split("+")
    good = all(part.isascii() and part.isdigit() and len(part) < 10 and 0 < int(part) <= largest for part in parts)
    if not good or len(parts) > most:
        what = "a number" if most == 1 else f"numbers, at most {most}, joined by +, each"
        raise TargetError(f"{name}={text[:80]}: expected {what} from 1 to {largest:,}", construct="--target")
    return tuple(map(int, parts))


def _names(name: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    for part in text.split("+"):
        if part not in known:
            raise TargetError(f"{name}={text}: there is no {part!r}", construct="--target", hint=", ".join(known))
    return tuple(dict.fromkeys(text.split("+")))


def build(target: str, program: Program, **options: str) -> TargetArtifact:
    """HLO modules for one machine; with NEFF files if the Neuron compiler is there."""
    machine = target.partition(":")[2]
    if machine not in MACHINES:
        known = f"one of {', '.join(MACHINES)}"
        raise TargetError(f"there is no machine {machine!r}", construct="--target", hint=known)
    chosen = read_options(options)
    kinds = chosen.kinds or KINDS
    tables = _step_tables(target, program, wanted=chosen.kinds is not None) if "step" in kinds else None
    rows = max(program_rows(program), len(tables.rows) if tables else 1)
    capacity = chosen.rows or max(FEWEST_ROWS, 1 << (rows - 1).bit_length())
    if capacity < rows:
        raise TargetError(
            f"rows={capacity}: the program has {rows} mask rows, row 0 included", construct="--target",
            hint="leave rows out, or give more",
        )  # fmt: skip
    shape = Shape(1, program.vocab_size, capacity)
    if tables is not None:
        # Rounded up, so that programs of about the same size share their modules; `step_inputs` pads the tables.
        states, following = (1 << (len(table) - 1).bit_length() for table in (tables.info, tables.following))
        shape = replace(shape, states=states, class_tables=len(tables.classes), following=following)
    modules, blobs = {}, {}
    for kind in kinds if tables is not None else [kind for kind in kinds if kind != "step"]:
        for dtype in chosen.dtypes:
            for batch in sorted(set(chosen.batches)):
                module = lower(kind, dtype, replace(shape, batch=batch))
                modules[module.name] = describe_module(module)
                blobs[hlo_blob(module.name)] = module.hlo
    manifest = {"jax": _jax_version(), "machine": machine, "rows": capacity, "modules": modules}
    artifact = TargetArtifact(target, program.fingerprint, manifest, blobs)
    try:
        compiler = find_compiler("neuronx-cc")
    except TargetError:
        return artifact  # `schemac neff` finishes it where the compiler is
    for name in missing_neffs(artifact):
        artifact = with_neff(artifact, name, compiler)
    return artifact


def _step_tables(target: str, program: Program, *, wanted: bool) -> StepTables | None:
    """The tables of device steps; None for a program that needs a stack, or is not deterministic.

    Raises:
        TargetError: there are none, and they are wanted.
    """
    try:
        return step_tables([program])
    except DeviceError as error:
        if not wanted:
            return None
        raise TargetError(f"{target}: kind=step: {error.reason}", construct="--target", hint=error.hint) from error


def program_rows(program: Program) -> int:
    """How many different mask rows the program states, and row 0."""
    tables = program.tables
    return 1 + len(tables.dense) + len(tables.sparse_start) - 1


def _jax_version() -> str:
    import jax

    return str(jax.__version__)


def missing_neffs(artifact: TargetArtifact) -> list[str]:
    """The modules that have no NEFF yet."""
    return [name for name, module in neuron_modules(artifact).items() if module.neff is None]


def with_neff(
    artifact: TargetArtifact,
    name: str,
    compiler: NeffCompiler,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    folder: Path | None = None,
) -> TargetArtifact:
    """`artifact` with a NEFF for the module `name`; see `make_neff`.

    Raises:
        TargetError: the compiler failed.
    """
    machine = artifact.target.partition(":")[2]
    neff = make_neff(compiler, neuron_modules(artifact)[name], machine, timeout=timeout, folder=folder)
    made = {**artifact.manifest.get("neff", {}), name: [compiler.name, compiler.version]}
    return replace(
        artifact, manifest={**artifact.manifest, "neff": made}, blobs={**artifact.blobs, neff_blob(name): neff}
    )


def check(artifact: TargetArtifact) -> None:
    """Refuse an artifact that is not made as `build` makes it."""
    modules = neuron_modules(artifact)
    wanted = {hlo_blob(name) for name in modules}
    extra = set(artifact.blobs) - wanted - {neff_blob(name) for name in modules}
    if not wanted <= set(artifact.blobs) or extra or artifact.manifest.get("machine") not in MACHINES:
        raise PackageError(f"{artifact.target}: modules and blobs do not agree", construct="targets")
    for name, module in modules.items():
        try:
            sizes = _shape_of(module.inputs, module.batch)
            right = signature(module.kind, module.dtype, sizes) == (module.inputs, module.outputs)
            check_operators(module.hlo)
            parameters = {i.name for i in instructions(module.hlo) if i.opcode == "parameter"}
        except (KeyError, ValueError, TargetError) as error:
            reason = error.reason if isinstance(error, TargetError) else "its inputs are not those of its kind"
            raise PackageError(f"{artifact.target}: {name}: {reason}", construct="targets") from error
        if not right or name != f"{module.kind}_b{module.batch}_{module.dtype}" or module.kind not in KINDS:
            raise PackageError(f"{artifact.target}: {name}: its inputs are not those of its kind", construct="targets")
        if not {tensor.name for tensor in module.inputs} <= parameters:
            raise PackageError(f"{artifact.target}: {name}: the HLO has other inputs", construct="targets")


def _shape_of(inputs: Any, batch: int) -> Shape:
    sizes = {tensor.name: tensor.shape for tensor in inputs}
    (_, vocab_size), (rows, _) = sizes["logits"], sizes["arena"]
    if "states" not in sizes:
        return Shape(batch, vocab_size, rows)
    (states, _), (classes,), (following,) = (sizes[n] for n in ("state_info", "token_class", "following"))
    return Shape(batch, vocab_size, rows, states, classes // vocab_size, following)


def describe(artifact: TargetArtifact) -> str:
    """What `schemac inspect` says."""
    modules = neuron_modules(artifact).values()
    made = sum(module.neff is not None for module in modules)
    by = dict.fromkeys(" ".join(map(str, entry)).strip() for entry in artifact.manifest.get("neff", {}).values())
    neffs = f"{made} NEFF by {', '.join(by)}" if made else "no NEFF yet"
    return f"{len(modules)} HLO modules by jax {artifact.manifest.get('jax')}, {neffs}"


NEURON = Family("neuron", MACHINES, build, check, describe, OPTIONS)
