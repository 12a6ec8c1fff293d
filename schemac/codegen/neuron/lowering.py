"""The device computations, as functions of `jax.lax` primitives lowered to HLO.

Only primitives that become one simple operator each are used, never `jax.numpy`, whose helpers lower to calls. What
each operator may look like follows the restrictions that AWS documents for XLA: a gather's start indices and offsets
address different dimensions, and a reduction computes a minimum or maximum from a constant. So the index of the largest
logit is found by two plain reductions and not by the pairwise one of `jax.lax.argmax`.

Shapes: B rows of logits, V of them in a row, R mask rows of W = ceil(V / 32) words; for `step` also N states, K class
tables, F entries of next states. `schemac_runtime.kernels.reference` says what the tables hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemac.codegen.neuron.hlo_proto import canonical
from schemac.codegen.neuron.operators import check_operators
from schemac.errors import TargetError
from schemac_runtime.kernels.table import CLASSES, ENDED, FAILED, INFO, MAY_END, NEED, ROW
from schemac_runtime.neuron.modules import NeuronModule, Tensor

#: The computations, and what each of them takes and gives.
KINDS = ("mask", "greedy", "step")
#: Types of logits: name here and in NumPy -> XLA.
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Shape:
    """The static sizes of one module.

    Attributes:
        batch: rows of logits B, padding rows included.
        vocab_size: logits in a row V; of one shard where the vocabulary is sharded.
        rows: mask rows R in the arena.
        states, class_tables, following: N, K and F; only for `step`.
    """

    batch: int
    vocab_size: int
    rows: int
    states: int = 0
    class_tables: int = 0
    following: int = 0

    @property
    def words(self) -> int:
        """The words of a mask row, W."""
        return (self.vocab_size + 31) // 32


def signature(kind: str, dtype: str, shape: Shape) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The inputs and outputs of a computation, in order."""
    rows, batch = shape.batch, (shape.batch,)
    logits = Tensor("logits", dtype, (rows, shape.vocab_size))
    arena = Tensor("arena", "int32", (shape.rows, shape.words))
    mask_rows = Tensor("mask_rows", "int32", batch)
    if kind == "mask":
        return (logits, mask_rows, arena), (Tensor("masked_logits", dtype, (rows, shape.vocab_size)),)
    if kind == "greedy":
        return (logits, mask_rows, arena), (Tensor("token_ids", "int32", batch),)
    states, left, flags = (Tensor(name, "int32", batch) for name in ("states", "tokens_left", "flags"))
    tables = (
        Tensor("state_info", "int32", (shape.states, INFO)),
        Tensor("state_start", "int32", (shape.states,)),
        Tensor("token_class", "int32", (shape.class_tables * shape.vocab_size,)),
        Tensor("following", "int32", (shape.following,)),
    )
    return (logits, states, left, flags, arena, *tables), (Tensor("token_ids", "int32", batch), states, left, flags)


def lower(kind: str, dtype: str, shape: Shape) -> NeuronModule:
    """Lower one computation for one shape.

    Raises:
        TargetError: jax is missing or another version, or the result is not what Neuron takes.
    """
    if kind not in KINDS or dtype not in DTYPES:
        raise TargetError(f"there is no computation {kind!r} for {dtype!r} logits")
    if max(shape.class_tables * shape.vocab_size, shape.following, shape.rows) >= 1 << 31:
        raise TargetError("tables of 2^31 entries cannot be indexed with 32 bits")
    jax = _jax()
    inputs, outputs = signature(kind, dtype, shape)
    computations: dict[str, Callable[..., Any]] = {"mask": _mask, "greedy": _greedy, "step": _step}
    arguments = [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in inputs]
    lowered = jax.jit(lambda *values: computations[kind](jax.lax, shape, *values), keep_unused=True).lower(*arguments)
    name = f"{kind}_b{shape.batch}_{dtype}"
    proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    module = canonical(proto, name, tuple(tensor.name for tensor in inputs))
    check_operators(module)
    return NeuronModule(name, kind, dtype, shape.batch, inputs, outputs, module)


def _jax() -> Any:
    try:
        import jax
    except ImportError:
        raise TargetError("a Neuron target needs jax", hint="pip install 'schemac[neuron]'") from None
    return jax


# -- computations ------------------------------------------------------------------------------------------------


def _mask(lax: Any, shape: Shape, logits: Any, mask_rows: Any, arena: Any) -> Any:
    """``masked_logits``: -inf where row `mask_rows[b]` of the arena forbids a token, else the logit itself."""
    return lax.select(_allowed(lax, shape, mask_rows, arena), logits, _full_like(lax, logits, -float("inf")))


def _greedy(lax: Any, shape: Shape, logits: Any, mask_rows: Any, arena: Any) -> Any:
    """``token_ids``: the allowed token with the largest logit, the first of equals; -1 if none is allowed."""
    return _select(lax, shape, logits, _allowed(lax, shape, mask_rows, arena))


def _step(
    lax: Any, shape: Shape, logits: Any, states: Any, left: Any, flags: Any, arena: Any, info: Any, start: Any,
    token_class: Any, following: Any,
) -> Any:  # fmt: skip
    """``token_ids, states, tokens_left, flags`` after one greedy step of every row.

    The token is -1, and states and tokens stay as they are, for a row that has ended, and for one that fails: no token
    is allowed, or the text could not be finished in the tokens left. (A host that looks at `tokens_left` in time, and
    masks the last tokens itself, never sees the latter.)
    """
    here = _gather(lax, info, states)
    row, table = (_column(lax, here, index) for index in (ROW, CLASSES))
    token = _select(lax, shape, logits, _allowed(lax, shape, row, arena))
    zero, one = _full_like(lax, token, 0), _full_like(lax, token, 1)
    known = lax.max(token, zero)
    symbol = _gather(lax, token_class, lax.add(lax.mul(table, _full_like(lax, table, shape.vocab_size)), known))
    after = _gather(lax, following, lax.add(_gather(lax, start, states), symbol))
    need = _column(lax, _gather(lax, info, lax.max(after, zero)), NEED)
    going = lax.eq(lax.bitwise_and(flags, _full_like(lax, flags, ENDED)), zero)
    good = lax.bitwise_and(lax.bitwise_and(lax.ge(token, zero), lax.ge(after, zero)), lax.lt(need, left))
    known_state = lax.bitwise_and(lax.ge(states, zero), lax.lt(states, _full_like(lax, states, shape.states)))
    live = lax.bitwise_and(lax.bitwise_and(going, good), known_state)
    failed = lax.bitwise_and(flags, _full_like(lax, flags, FAILED))
    ends = lax.select(lax.eq(need, zero), _full_like(lax, need, ENDED), zero)
    ends = lax.select(lax.eq(need, one), _full_like(lax, need, MAY_END), ends)
    unfit = lax.add(lax.sub(flags, failed), _full_like(lax, flags, FAILED))
    return (
        lax.select(live, token, _full_like(lax, token, -1)),
        lax.select(live, after, states),
        lax.select(live, lax.sub(left, one), left),
        lax.select(live, lax.add(failed, ends), lax.select(going, unfit, flags)),
    )


def _allowed(lax: Any, shape: Shape, mask_rows: Any, arena: Any) -> Any:
    """bool [B, V]: the bits of one arena row per row of the batch; a row outside the arena allows nothing.

    Row 0 of an arena is all ones, so it needs no case of its own.
    """
    spread = (shape.batch, shape.words, 32)
    words = _gather(lax, arena, mask_rows)
    zero, end = _full_like(lax, mask_rows, 0), _full_like(lax, mask_rows, shape.rows)
    inside = lax.bitwise_and(lax.ge(mask_rows, zero), lax.lt(mask_rows, end))
    words = lax.select(_along(lax, inside, shape.words), words, _full_like(lax, words, 0))
    shifted = lax.shift_right_logical(
        lax.broadcast_in_dim(words, spread, (0, 1)), lax.broadcasted_iota("int32", spread, 2)
    )
    bits = lax.reshape(lax.bitwise_and(shifted, _full_like(lax, shifted, 1)), (shape.batch, shape.words * 32))
    bits = lax.slice(bits, (0, 0), (shape.batch, shape.vocab_size))
    return lax.ne(bits, _full_like(lax, bits, 0))


def _select(lax: Any, shape: Shape, logits: Any, allowed: Any) -> Any:
    """int32 [B]: the allowed token with the largest logit, the first of equals; NaN counts as -inf; -1 for none."""
    known = lax.bitwise_and(lax.eq(logits, logits), allowed)
    values = lax.select(known, logits, _full_like(lax, logits, -float("inf")))
    most = _along(lax, _reduce(lax, values, "max", -float("inf")), shape.vocab_size)
    chosen = lax.bitwise_and(lax.eq(values, most), allowed)
    position = lax.broadcasted_iota("int32", logits.shape, 1)
    none = lax.full(logits.shape, shape.vocab_size, "int32")
    first = _reduce(lax, lax.select(chosen, position, none), "min", shape.vocab_size)
    return lax.select(lax.lt(first, _full_like(lax, first, shape.vocab_size)), first, _full_like(lax, first, -1))


def _column(lax: Any, table: Any, index: int) -> Any:
    """Column `index` of [B, n], as [B]."""
    return lax.reshape(lax.slice(table, (0, index), (table.shape[0], index + 1)), (table.shape[0],))


def _gather(lax: Any, table: Any, index: Any) -> Any:
    """``table[index]``, int32 [B] or [B, n]; an index outside is moved to the nearest entry first.

    XLA would move it by itself; a device that reads by address need not.
    """
    rest = tuple(range(1, table.ndim))
    numbers = lax.GatherDimensionNumbers(offset_dims=rest, collapsed_slice_dims=(0,), start_index_map=(0,))
    last = _full_like(lax, index, table.shape[0] - 1)
    inside = lax.max(_full_like(lax, index, 0), lax.min(index, last))
    return lax.gather(
        table, lax.reshape(inside, (*index.shape, 1)), numbers, (1, *table.shape[1:]), mode="promise_in_bounds"
    )


def _reduce(lax: Any, values: Any, how: str, start: float) -> Any:
    operator = {"max": lax.max, "min": lax.min}[how]
    return lax.reduce(values, lax.full((), start, values.dtype), operator, (1,))


def _along(lax: Any, column: Any, width: int) -> Any:
    """[B] -> [B, width], the same value in all of a row."""
    return lax.broadcast_in_dim(column, (*column.shape, width), (0,))


def _full_like(lax: Any, value: Any, fill: float) -> Any:
    return lax.full(value.shape, fill, value.dtype)
