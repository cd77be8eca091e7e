"""Pointwise operators: torch's type promotion around functions of lazy tensors.

torch computes fp16 and bf16 in fp32 and rounds the result of each operator once. So a lowering gets operands that are
cast to the dtype of the computation, and its result is cast to the dtype of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Literal, cast

from eqsat.frontends.torch.element_types import element_type, torch_dtype
from eqsat.frontends.torch.operator_table import L, aten
from eqsat.lazy.argument_checks import Number, is_number
from eqsat.tensor import Tensor, constant
from ir.dtype import DType

Promotion = Literal["default", "no_opmath", "int_to_float", "always_bool", "bool_to_long"]
"""How torch finds the dtypes (ELEMENTWISE_TYPE_PROMOTION_KIND). default: the common dtype of the operands; fp16 and
bf16 are computed in fp32. no_opmath: the same without the wider computation. int_to_float: integers and bools become
the default float. always_bool: computed in the common dtype, the result is bool. bool_to_long: bools become i64."""


def pointwise(*names: str, promotion: Promotion = "default", operands: int = 1) -> Callable[[L], L]:
    """Registers a pointwise lowering.

    operands: how many of its first arguments decide the dtypes. Tensors among them are cast to the dtype of the
        computation, and numbers are converted to its kind.
    """

    def register(lowering: L) -> L:
        @wraps(lowering)
        def promoted(*arguments: Any, **keywords: Any) -> Any:
            computation, result = common_dtypes(promotion, *arguments[:operands])
            converted = [_operand(argument, computation) for argument in arguments[:operands]]
            computed = lowering(*converted, *arguments[operands:], **keywords)
            return computed.cast(result)

        return aten(*names)(cast("L", promoted))

    return register


def common_dtypes(promotion: Promotion, *operands: Any) -> tuple[DType, DType]:
    """The dtypes of the computation and of the result for tensors and numbers, by torch's rules. Tensors with axes
    count before tensors of rank 0, and these before numbers, unless the kind of the latter is wider."""
    return _common_dtypes(promotion, *(_spec(operand) for operand in operands if operand is not None))


def _spec(operand: Any) -> tuple[DType, bool] | type:
    """The facts that decide: of a tensor the dtype and whether it has axes, of a number its type."""
    return (operand.dtype, operand.ndim > 0) if isinstance(operand, Tensor) else type(operand)


def in_dtype(value: Tensor | Number, element: DType) -> Tensor:
    """A tensor of this dtype. A number beside floats is rounded to their dtype alone, not to fp32 before."""
    if isinstance(value, Tensor):
        return value.cast(element)
    return constant(value, element) if element.is_float else constant(value).cast(element)


@cache
def _common_dtypes(promotion: Promotion, *specs: tuple[DType, bool] | type) -> tuple[DType, DType]:
    import torch
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    stand_ins = [
        spec(0) if isinstance(spec, type) else torch.empty((1,) * spec[1], dtype=torch_dtype(spec[0])) for spec in specs
    ]
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND[promotion.upper()]
    computation, result = elementwise_dtypes(*stand_ins, type_promotion_kind=kind)
    return element_type(computation), element_type(result)


def _operand(value: Any, computation: DType) -> Any:
    if isinstance(value, Tensor):
        return value.cast(computation)
    if not is_number(value) or computation.is_bool:
        return value
    return float(value) if computation.is_float else wrapped(int(value), computation)


def wrapped(value: int, element: DType) -> int:
    """The number of an integer dtype with the lowest bits of this one: torch computes uint8 + 300 as + 44."""
    lowest = value & ((1 << element.bits) - 1)
    return lowest - (1 << element.bits) if element.is_signed and lowest >> (element.bits - 1) else lowest
