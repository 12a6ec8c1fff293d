"""Targets: what a package holds for particular machines beside the tables that every machine can use.

A target is named ``family:machine``; options may follow, as in ``neuron:trn1,batch=1+8,dtype=float32``. A family is
one entry in `FAMILIES`; its module must be cheap to import, so compilers are imported in the functions that run them.
"""

from __future__ import annotations

from schemac.codegen.targets.family import Family
from schemac.codegen.targets.neuron import NEURON
from schemac.codegen.targets.triton import TRITON
from schemac.errors import TargetError
from schemac_runtime.program import Program
from schemac_runtime.targets import TARGET_NAME, TargetArtifact

#: The families by prefix.
FAMILIES: dict[str, Family] = {family.prefix: family for family in (TRITON, NEURON)}


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """The name of a target, and the options that follow it.

    Raises:
        TargetError: there is no such target, or it has no such option.
    """
    name, *texts = target.split(",")
    family = FAMILIES.get(name.partition(":")[0])
    if family is None or not TARGET_NAME.match(name):
        known = ", ".join(f"{f.prefix}:{'|'.join(f.machines)}" for f in FAMILIES.values())
        raise TargetError(f"there is no target {name!r}", construct="--target", hint=f"known: {known}")
    options = {}
    for text in texts:
        option, equals, value = text.partition("=")
        if option not in family.options or not equals:
            known = f"known: {', '.join(family.options)}" if family.options else f"{family.prefix} has none"
            raise TargetError(f"{name} has no option {text!r}", construct="--target", hint=known)
        options[option] = value
    return name, options


def build_target(target: str, program: Program) -> TargetArtifact:
    """What a package is to hold for a target, options included, and a linked program.

    Raises:
        TargetError: the target is unknown, or its compiler is missing or fails.
    """
    name, options = split_target(target)
    return FAMILIES[name.partition(":")[0]].build(name, program, **options)


def check_target(artifact: TargetArtifact) -> None:
    """Check what a package holds for a target, as far as its family is known here.

    Raises:
        PackageError: it is damaged.
    """
    family = FAMILIES.get(artifact.family)
    if family is not None:
        family.check(artifact)


def describe_target(artifact: TargetArtifact) -> str:
    """One line about what a package holds for a target."""
    family = FAMILIES.get(artifact.family)
    what = family.describe(artifact) if family else f"{len(artifact.blobs)} blobs of a family that is not known here"
    return f"{what}, {sum(map(len, artifact.blobs.values())):,} bytes"
