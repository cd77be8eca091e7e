"""TensorProto.DataType → element types, and the packed integers that stand for no element type of eqsat."""

from __future__ import annotations

from typing import NamedTuple

from eqsat.frontends.onnx.operands import refuse
from ir.diagnostics import EqsatError
from ir.dtype import DType, dtype, i8, u8

_ELEMENT_TYPES = {
    1: "fp32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "fp16", 11: "fp64", 12: "u32",
    13: "u64", 16: "bf16",
}  # fmt: skip
"""The names of TensorProto.DataType's numbers."""
_OTHER_TYPES = {
    8: "strings", 14: "complex64", 15: "complex128", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2",
    20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip


class PackedType(NamedTuple):
    """Integers of less than 8 bits, which tensors store several to a byte. In programs their numbers are bytes."""

    bits: int
    signed: bool

    @property
    def dtype(self) -> DType:
        """The element type of the numbers."""
        return i8 if self.signed else u8

    @property
    def lowest(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def highest(self) -> int:
        return self.lowest + (1 << self.bits) - 1


PACKED_TYPES = {21: PackedType(4, False), 22: PackedType(4, True), 25: PackedType(2, False), 26: PackedType(2, True)}
"""By TensorProto.DataType's numbers."""


def element_type(number: int) -> DType:
    """The element type of a TensorProto.DataType. Raises EqsatError, UnsupportedOp."""
    if number not in _ELEMENT_TYPES:
        refuse(f"the element type {_OTHER_TYPES.get(number, number)}")
    try:
        return dtype(_ELEMENT_TYPES[number])
    except EqsatError:
        refuse(f"the element type {_ELEMENT_TYPES[number]}")
