"""Which HLO operators a module for Neuron may hold.

AWS lists the operators of XLA that its compilers take, with their restrictions: `neuronx-cc list-operators --framework
XLA` prints the list of an installed compiler, and the Neuron documentation prints one under "Supported operators
[XLA]". What stands here is the part of the printed list that this project's modules use, in the spelling of HLO's
opcodes. A module with any other operator is refused at compile time and never shipped.
"""

from __future__ import annotations

from schemac.codegen.neuron.hlo_proto import instructions
from schemac.errors import TargetError

#: HLO opcode -> its name in AWS's list.
SUPPORTED = {
    "add": "Add",
    "and": "LogicalAnd",
    "broadcast": "BroadcastInDim",
    "compare": "Compare",
    "constant": "Constant",
    "gather": "Gather",
    "iota": "Iota",
    "maximum": "Max",
    "minimum": "Min",
    "multiply": "Mul",
    "reduce": "Reduce",
    "reshape": "Reshape",
    "select": "Select",
    "shift-right-logical": "ShiftRightLogical",
    "slice": "Slice",
    "subtract": "Sub",
    "tuple": "Tuple",
}
#: No operator, but what every module is held together by.
STRUCTURE = frozenset({"parameter"})
#: Numbers of XLA's `PrimitiveType` -> name. Neuron devices have no 64-bit types.
ELEMENT_TYPES = {1: "pred", 4: "s32", 10: "f16", 11: "f32", 16: "bf16"}
#: Ids must fit the signed 32-bit integers that the Neuron compiler keeps them in.
LARGEST_ID = (1 << 31) - 1


def check_operators(module: bytes) -> None:
    """Refuse a serialized `HloModuleProto` that the Neuron compiler is not documented to take.

    Raises:
        TargetError: an operator, an element type or an instruction id is outside what is documented.
    """
    for instruction in instructions(module):
        if instruction.opcode not in SUPPORTED and instruction.opcode not in STRUCTURE:
            raise TargetError(
                f"the operator is not among those that Neuron is documented to support: {instruction.name}",
                construct=instruction.opcode,
                hint="install the version of jax that the extra `neuron` pins",
            )
        for number in instruction.element_types:
            if number not in ELEMENT_TYPES:
                raise TargetError(f"{instruction.name} has element type {number}, which no Neuron module may use")
        if not 0 < instruction.identifier <= LARGEST_ID:
            raise TargetError(f"{instruction.name} has the id {instruction.identifier}, which needs more than 32 bits")
