"""What each kernel takes and how it is launched; needs no triton, so that a stored binary can be launched without it.

A package's binaries were compiled for this table: `SIGNATURES` goes into the digest by which a runtime tells whether a
binary is for the kernels that it knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

#: The dtypes of logits by Triton's name for them.
LOGITS = ("fp32", "fp16", "bf16")
#: Bytes per logit.
ITEM_SIZE = {"fp32": 4, "fp16": 2, "bf16": 2}
#: The key of "no token", below that of any logit; see `schemac_runtime.kernels.reference.key_of`.
NO_KEY = -9223372036854775807
#: The columns of the table of device states: arena row, class table, how many tokens suffice to the end (the one that
#: ends the text included), the most that any one token leaves to be done.
ROW, CLASSES, NEED, MOST = range(4)
INFO = 4
#: Bits of a request's flags: the text may end here; it has ended; a token was refused, or none was allowed.
MAY_END, ENDED, FAILED = 1, 2, 4
#: `NEED` of what cannot be finished.
NEVER = 1 << 30


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    Attributes:
        name: of the function in `schemac_runtime.kernels.source`.
        arguments: (name, type) in order, without compile-time constants. ``*x`` is a pointer; the logits' element type
            is written ``?``.
        constants: the compile-time constants but ``SHIFTED``, with their values.
        sliced: whether it can mask a shard of the vocabulary, and so has the constant ``SHIFTED``.
        warps: of 32 threads (64 on AMD) in a block.
    """

    name: str
    arguments: tuple[tuple[str, str], ...]
    constants: Mapping[str, int]
    sliced: bool = True
    warps: int = 4

    @property
    def takes_logits(self) -> bool:
        """Whether there is one variant per dtype of the logits."""
        return self.arguments[0][0] == "logits"


def _arguments(text: str) -> tuple[tuple[str, str], ...]:
    """``name:type`` pairs; a name alone is an i32."""
    pairs = (part.partition(":") for part in text.split())
    return tuple((name, kind or "i32") for name, _, kind in pairs)


#: Words per block: 128 words are 4,096 columns, 32 for each of 128 threads; a choice looks at half as many at a time,
#: since it keeps a value and an index for each.
_MASK_BLOCK, _CHOICE_BLOCK = 128, 64

_TABLES = "arena:*i32 info:*i32 start:*i64 classes:*i32 following:*i32 state:*i32 budget:*i32"

KERNELS: Mapping[str, Kernel] = MappingProxyType({
    kernel.name: kernel
    for kernel in (
        Kernel(
            "mask_rows",
            _arguments("logits:*? arena:*i32 row_id:*i32 alive:*i32 stride:i64 rows pitch words first vocab"),
            {"BLOCK": _MASK_BLOCK},
        ),
        Kernel(
            "mask_packed",
            _arguments(
                "logits:*? mask:*i32 logit_row:*i32 mask_row:*i32 alive:*i32 stride:i64 batch rows pitch words first "
                "vocab"
            ),
            {"BLOCK": _MASK_BLOCK},
        ),
        Kernel(
            "argmax_rows",
            _arguments(
                "logits:*? arena:*i32 row_id:*i32 partial:*i64 count:*i32 key:*i64 token:*i32 stride:i64 rows pitch "
                "words first vocab per"
            ),
            {"BLOCK": _CHOICE_BLOCK},
        ),
        Kernel(
            "step_greedy",
            _arguments(
                f"logits:*? {_TABLES} partial:*i64 count:*i32 token:*i32 flags:*i32 position:*i32 history:*i32 "
                "stride:i64 rows pitch words vocab states width per"
            ),
            {"BLOCK": _CHOICE_BLOCK},
            sliced=False,
        ),
        Kernel(
            "step_mask",
            _arguments(f"logits:*? {_TABLES} stride:i64 rows pitch words vocab states"),
            {"BLOCK": _MASK_BLOCK},
            sliced=False,
        ),
        Kernel(
            "step_advance",
            _arguments(
                "token:*i32 info:*i32 start:*i64 classes:*i32 following:*i32 state:*i32 budget:*i32 flags:*i32 "
                "position:*i32 history:*i32 vocab states width"
            ),
            {},
            sliced=False,
            warps=1,
        ),
    )
})


def arguments_of(kernel: Kernel, logits: str | None) -> tuple[str, ...]:
    """The types of a kernel's arguments for one dtype of logits."""
    return tuple(kind.replace("?", logits or "") for _, kind in kernel.arguments)


#: Arguments that are multiples of 16 in the fast variants: addresses in bytes, the rest in elements.
ALIGNED = ("logits", "arena", "mask", "stride", "pitch", "vocab")


def variant_name(kernel: str, logits: str | None, fast: bool) -> str:
    """The name of one compiled variant, such as ``mask_rows.fp16.fast``."""
    return ".".join((kernel, *((logits, "fast" if fast else "any") if logits else ())))


def source_digest() -> str:
    """SHA-256 (hex) of the kernels' source and of this table: a binary of another digest is not for this runtime."""
    digest = hashlib.sha256()
    for name in ("source.py", "table.py"):
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()
