"""The command ``schemac neff``: finish the Neuron targets of a package on a machine that has AWS's compiler."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schemac.codegen.neuron.neuronx import DEFAULT_TIMEOUT, WAYS, find_compiler
from schemac.errors import TargetError

if TYPE_CHECKING:
    from schemac.api import Compiled


@click.command("neff")
@click.argument("package", metavar="PKG", type=click.Path(path_type=Path))
@click.option("--target", "targets", metavar="T", multiple=True, help="Only for this target, such as neuron:trn1.")
@click.option("--way", type=click.Choice(WAYS), default="auto", show_default=True, help="Which compiler to use.")
@click.option(
    "--compiler",
    "program",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The neuronx-cc to run, in place of the one on the PATH.",
)
@click.option(
    "--timeout",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_TIMEOUT,
    show_default=True,
    help="Seconds that the compiler may take for one module.",
)
@click.option(
    "--work-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the compiler works and what it writes stays; without it in a temporary folder.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The package to write, in place of PKG."
)
def neff_command(
    package: Path,
    targets: tuple[str, ...],
    way: str,
    program: Path | None,
    timeout: float,
    work_dir: Path | None,
    output: Path | None,
) -> None:
    """Compile the HLO modules of the package PKG to NEFF files, and store them in it.

    Modules that have one are left alone. If one fails, those made before it are kept.
    """
    import schemac
    import schemac_runtime
    from schemac.codegen.targets.neuron import with_neff
    from schemac_runtime.neuron.modules import neff_blob

    compiled = schemac.open_package(schemac_runtime.load(package))
    held = tuple(dict.fromkeys(a.target for a in compiled.targets if a.family == "neuron"))
    for target in targets:
        if target not in held:
            names = ", ".join(held) or "none"
            raise TargetError(f"{package} holds nothing for {target} (Neuron targets held: {names})")
    if not held:
        raise TargetError(
            f"{package} has no Neuron target", hint=f"schemac link {package} --target neuron:trn1 -o {package}"
        )
    compiler = find_compiler(way, program)
    made = 0
    try:
        for index, name in _missing(compiled, targets or held):
            artifact = compiled.targets[index]
            start = time.monotonic()
            done = with_neff(artifact, name, compiler, timeout=timeout, folder=work_dir)
            compiled = replace(compiled, targets=(*compiled.targets[:index], done, *compiled.targets[index + 1 :]))
            made += 1
            took, size = time.monotonic() - start, len(done.blobs[neff_blob(name)])
            click.echo(f"{artifact.target} {name}: {size:,} bytes in {took:.1f} s", err=True)
    except BaseException:
        if made:
            schemac.save(compiled, output or package)
        raise
    if made or output is not None:
        schemac.save(compiled, output or package)
    click.echo(f"{output or package}: {made} NEFF by {compiler.name} {compiler.version}".rstrip())


def _missing(compiled: Compiled, targets: tuple[str, ...]) -> list[tuple[int, str]]:
    """(index among the targets, module) of what has no NEFF yet."""
    from schemac.codegen.targets.neuron import missing_neffs

    return [
        (index, name)
        for index, artifact in enumerate(compiled.targets)
        if artifact.target in targets
        for name in missing_neffs(artifact)
    ]
