"""Conversions between element types."""

from __future__ import annotations

from eqsat.frontends.onnx.element_types import element_type
from eqsat.frontends.onnx.operands import malformed, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.tensor import Tensor


@operator("Cast", since=6)
def _cast(x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return x.cast(element_type(to))


@operator("CastLike", since=15)
def _cast_like(x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return x.cast(like.dtype)


@operator("BitCast", since=26)
def _bit_cast(x: Tensor, *, to: int) -> Tensor:
    """The same bits as another type."""
    target = element_type(to)
    if x.dtype.bytes != target.bytes:
        malformed(f"BitCast of {x.dtype} to {target}, which has another size")
    if x.dtype != target and target.is_bool:
        refuse(f"the bits of {x.dtype} as {target}")
    return x.bitcast(target)


@operator("Identity")
def _identity(x: Tensor) -> Tensor:
    return x
