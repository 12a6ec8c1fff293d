"""What a family of targets is: a record of functions. `schemac.codegen.targets` lists the families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schemac_runtime.targets import TargetArtifact


@dataclass(frozen=True)
class Family:
    """How to compile for the targets whose names begin with ``prefix:``.

    Attributes:
        prefix: the part of a target's name before the colon.
        machines: names after the colon that are known to work, for messages and documents.
        build: (target, program, options by name) to what the package is to hold for them. The same arguments give
            the same bytes in every process. Raises `TargetError` if the machine is unknown or a compiler is missing.
            What it returns need not depend on the program: equal blobs are stored once in a package.
        check: raises `PackageError` if an artifact that was read from a package is not one that `build` can have made;
            digests have been checked.
        describe: one line for `schemac inspect`.
        options: the names that may stand behind a target, as in ``neuron:trn1,batch=8``; `build` gets their texts.
    """

    prefix: str
    machines: tuple[str, ...]
    build: Callable[..., TargetArtifact]
    check: Callable[[TargetArtifact], None]
    describe: Callable[[TargetArtifact], str]
    options: tuple[str, ...] = ()
