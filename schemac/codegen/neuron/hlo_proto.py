"""HLO modules as the protocol buffers that compilers exchange: read, checked and brought to one canonical form.

JAX writes a `HloModuleProto` that the Neuron compiler cannot take as it stands, and that is not reproducible:

* Instruction ids are 64 bits wide since the computation's number moved into their upper half. The Neuron compiler keeps
  them in an ``int`` and fails on the first one (pytorch/xla issue 9685). Here they are numbered anew from 1.
* The stack frames and metadata name source files of the machine that compiled.

So a module is taken apart field by field, every field that this project's modules need is kept, and one that carries
something else is an error. Field numbers are those of ``xla/service/hlo.proto``; that format never renumbers a field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schemac.errors import TargetError

#: (field number, wire type, value): an int for varints, else the bytes.
Field = tuple[int, int, "int | bytes"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# HloModuleProto
_MODULE_NAME, _ENTRY_NAME, _COMPUTATIONS, _HOST_SHAPE, _MODULE_ID, _ENTRY_ID = 1, 2, 3, 4, 5, 6
#: Which input donates its buffer to which output, the stack frames, buffer donors, attributes: never needed here.
_MODULE_DROPPED = {8, 17, 18, 19}

# HloComputationProto
_NAME, _INSTRUCTIONS, _PROGRAM_SHAPE, _COMPUTATION_ID, _ROOT_ID = 1, 2, 4, 5, 6

# ProgramShapeProto
_PARAMETER_NAMES = 3

# HloInstructionProto
_OPCODE, _SHAPE, _PARAMETER_NUMBER, _ID, _OPERANDS, _CALLED = 2, 3, 9, 35, 36, 38
#: Literal, parameter number, tuple index, dimensions, slices, gather numbers and sizes, comparison, sortedness.
_INSTRUCTION_KEPT = {_OPCODE, _SHAPE, 8, _PARAMETER_NUMBER, 13, 14, 17, 33, 34, 63, 67, 72}
#: Metadata, frontend attributes, original values: names of things in the source.
_INSTRUCTION_DROPPED = {7, 68, 82}


@dataclass(frozen=True)
class Instruction:
    """One instruction, as far as checks need it.

    Attributes:
        name: unique in the module.
        opcode: as XLA spells it, such as ``shift-right-logical``.
        element_types: numbers of XLA's `PrimitiveType` in its shape, those of a tuple's parts included.
        identifier: its id.
    """

    name: str
    opcode: str
    element_types: tuple[int, ...]
    identifier: int


def canonical(module: bytes, name: str, inputs: tuple[str, ...]) -> bytes:
    """`module` with the name `name`, ids from 1, instructions named by opcode, and nothing of the compiling machine.

    Args:
        module: a serialized `HloModuleProto`.
        name: the new name of the module.
        inputs: the names of the entry computation's parameters, in order.

    Raises:
        TargetError: the module holds a field that is none of the known ones.
    """
    fields = list(_fields(module))
    entry = next(int(value) for number, _, value in fields if number == _ENTRY_ID)
    computations = [list(_fields(_bytes(value))) for number, _, value in fields if number == _COMPUTATIONS]
    numbers = {_number(parts, _COMPUTATION_ID): index for index, parts in enumerate(computations, 1)}
    identifiers: dict[int, int] = {}
    for parts in computations:
        for instruction in _instructions(parts):
            identifiers[_number(instruction, _ID)] = len(identifiers) + 1
    written = []
    for parts in computations:
        number = _number(parts, _COMPUTATION_ID)
        names = inputs if number == entry else None
        title = name if number == entry else f"computation.{numbers[number]}"
        written.append(_computation(parts, title, names, numbers, identifiers))
    out: list[Field] = [(_MODULE_NAME, _BYTES, name.encode()), (_ENTRY_NAME, _BYTES, name.encode())]
    out += [(_COMPUTATIONS, _BYTES, data) for data in written]
    for number, kind, value in fields:
        if number == _HOST_SHAPE:
            out.append((number, kind, _program_shape(_bytes(value), inputs)))
        elif number not in {_MODULE_NAME, _ENTRY_NAME, _COMPUTATIONS, _MODULE_ID, _ENTRY_ID, *_MODULE_DROPPED}:
            _refuse("the module", number, value)
    out += [(_MODULE_ID, _VARINT, 1), (_ENTRY_ID, _VARINT, numbers[entry])]
    return _encode(out)


def instructions(module: bytes) -> list[Instruction]:
    """Every instruction of every computation of a serialized `HloModuleProto`."""
    found = []
    for number, _, value in _fields(module):
        if number != _COMPUTATIONS:
            continue
        for parts in _instructions(list(_fields(_bytes(value)))):
            types = tuple(_element_types(_bytes(_only(parts, _SHAPE))))
            text = {n: _bytes(_only(parts, n)).decode() for n in (_NAME, _OPCODE)}
            found.append(Instruction(text[_NAME], text[_OPCODE], types, _number(parts, _ID)))
    return found


def _computation(
    parts: list[Field],
    title: str,
    inputs: tuple[str, ...] | None,
    numbers: Mapping[int, int],
    identifiers: Mapping[int, int],
) -> bytes:
    out: list[Field] = [(_NAME, _BYTES, title.encode())]
    names = []
    for instruction in _instructions(parts):
        data, name = _instruction(instruction, inputs, numbers, identifiers)
        out.append((_INSTRUCTIONS, _BYTES, data))
        if _bytes(_only(instruction, _OPCODE)) == b"parameter":
            names.append((_number(instruction, _PARAMETER_NUMBER), name))
    for number, kind, value in parts:
        if number == _PROGRAM_SHAPE:
            out.append((number, kind, _program_shape(_bytes(value), tuple(name for _, name in sorted(names)))))
        elif number not in {_NAME, _INSTRUCTIONS, _COMPUTATION_ID, _ROOT_ID}:
            _refuse("a computation", number, value)
    out.append((_COMPUTATION_ID, _VARINT, numbers[_number(parts, _COMPUTATION_ID)]))
    out.append((_ROOT_ID, _VARINT, identifiers[_number(parts, _ROOT_ID)]))
    return _encode(out)


def _instruction(
    parts: list[Field], inputs: tuple[str, ...] | None, numbers: Mapping[int, int], identifiers: Mapping[int, int]
) -> tuple[bytes, str]:
    """The bytes and the new name of one instruction."""
    opcode = _bytes(_only(parts, _OPCODE)).decode()
    identifier = identifiers[_number(parts, _ID)]
    named = inputs is not None and opcode == "parameter"
    name = inputs[_number(parts, _PARAMETER_NUMBER)] if inputs is not None and named else f"{opcode}.{identifier}"
    out: list[Field] = [(_NAME, _BYTES, name.encode())]
    for number, kind, value in parts:
        if number in {_OPERANDS, _CALLED}:
            new = identifiers if number == _OPERANDS else numbers
            packed = b"".join(_varint(new[old]) for old in _packed(value))
            out.append((number, _BYTES, packed))
        elif number in _INSTRUCTION_KEPT:
            out.append((number, kind, value))
        elif number not in {_NAME, _ID, *_INSTRUCTION_DROPPED}:
            _refuse(f"instruction `{opcode}`", number, value)
    out.append((_ID, _VARINT, identifier))
    return _encode(sorted(out, key=lambda field: field[0])), name


def _program_shape(data: bytes, names: tuple[str, ...]) -> bytes:
    kept = [field for field in _fields(data) if field[0] != _PARAMETER_NAMES]
    return _encode([*kept, *((_PARAMETER_NAMES, _BYTES, name.encode()) for name in names)])


def _element_types(shape: bytes) -> Iterator[int]:
    """The element types of a ShapeProto: of itself (field 2), or of the parts of a tuple (field 4)."""
    pending = [shape]
    for data in pending:  # grows while we walk it
        parts = [_bytes(value) for number, _, value in _fields(data) if number == 4]
        pending += parts
        if not parts:
            yield next((int(value) for number, _, value in _fields(data) if number == 2), 0)


def _refuse(where: str, number: int, value: int | bytes) -> None:
    if value in {0, b""}:
        return  # a default: says nothing
    raise TargetError(
        f"the lowered module holds field {number} of {where}, which no module of this project needs",
        hint="install the version of jax that the extra `neuron` pins",
    )


# -- wire format -------------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[Field]:
    at, end = 0, len(data)
    while at < end:
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield number, kind, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(data, at)
        elif kind in {_FIXED64, _FIXED32}:
            size = 8 if kind == _FIXED64 else 4
        else:
            raise TargetError(f"not an HLO module: wire type {kind}")
        if at + size > end:
            raise TargetError("not an HLO module: truncated")
        yield number, kind, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise TargetError("not an HLO module: truncated")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _packed(value: int | bytes) -> Iterator[int]:
    """The numbers of a repeated field, packed or one by one."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = _read_varint(value, at)
        yield number


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode(fields: list[Field]) -> bytes:
    out = bytearray()
    for number, kind, value in fields:
        out += _varint(number << 3 | kind)
        if isinstance(value, int):
            out += _varint(value)
        else:
            out += _varint(len(value)) * (kind == _BYTES) + value
    return bytes(out)


def _instructions(parts: list[Field]) -> list[list[Field]]:
    return [list(_fields(_bytes(value))) for number, _, value in parts if number == _INSTRUCTIONS]


def _only(parts: list[Field], number: int) -> int | bytes:
    return next((value for n, _, value in parts if n == number), b"")


def _number(parts: list[Field], number: int) -> int:
    """A scalar field; protocol buffers leave out zeros."""
    return next((int(value) for n, _, value in parts if n == number), 0)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TargetError("not an HLO module: a number where a message belongs")
    return value
