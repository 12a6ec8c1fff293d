"""Load a `grammar.pkg` and mask tokens with it. Needs NumPy only.

    package = schemac_runtime.load("grammar.pkg")
    matcher = package.program().matcher()
    mask = schemac_runtime.allocate_bitmask(1, matcher.program.vocab_size)
    matcher.fill_bitmask(mask)       # which tokens may come next
    matcher.accept(token)            # the one that was sampled
"""

from __future__ import annotations

from schemac_runtime.batch import BatchMatcher
from schemac_runtime.errors import DeviceError, MatcherError, PackageError, SchemacError
from schemac_runtime.masks import allocate_bitmask, apply_bitmask, unpack
from schemac_runtime.matcher import Matcher
from schemac_runtime.package import Package, load
from schemac_runtime.program import Program

__all__ = [
    "BatchMatcher",
    "DeviceError",
    "Matcher",
    "MatcherError",
    "Package",
    "PackageError",
    "Program",
    "SchemacError",
    "allocate_bitmask",
    "apply_bitmask",
    "load",
    "unpack",
]
