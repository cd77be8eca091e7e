"""TensorProto.DataType → element types."""

from __future__ import annotations

from eqsat.frontends.onnx.operands import refuse
from ir.diagnostics import EqsatError
from ir.dtype import DType, dtype

_ELEMENT_TYPES = {
    1: "fp32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "fp16", 11: "fp64", 12: "u32",
    13: "u64", 16: "bf16",
}  # fmt: skip
"""The names of TensorProto.DataType's numbers."""
_OTHER_TYPES = {
    8: "strings", 14: "complex64", 15: "complex128", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2",
    20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip


def element_type(number: int) -> DType:
    """The element type of a TensorProto.DataType. Raises EqsatError, UnsupportedOp."""
    if number not in _ELEMENT_TYPES:
        refuse(f"the element type {_OTHER_TYPES.get(number, number)}")
    try:
        return dtype(_ELEMENT_TYPES[number])
    except EqsatError:
        refuse(f"the element type {_ELEMENT_TYPES[number]}")
