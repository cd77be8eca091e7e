"""The affine map of a layer."""

from __future__ import annotations

from eqsat.lazy.argument_checks import refuse
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, tensor_of
from eqsat.tensor import Tensor
from ir.diagnostics import Kind


@takes_torchs_names
def linear(x: Operand, weight: Operand, bias: Operand | None = None) -> Tensor:
    """x [..., in] @ weightᵀ + bias, for a weight [out, in], as torch stores it, and a bias [out]. A weight [in] gives
    one number per row of x.

    Raises:
        EqsatError: AxisSizeMismatch for other sizes, such as those of a weight [in, out].
    """
    x, table = tensor_of("linear", "x", x), tensor_of("linear", "weight", weight)
    shapes = (x.shape, table.shape)
    if not x.ndim or table.ndim not in (1, 2) or x.shape[-1] != table.shape[-1]:
        turned = table.ndim == 2 and x.ndim and x.shape[-1] == table.shape[0]
        hint = "weight.T, or x @ weight + bias" if turned else "x […, in] and weight [out, in]"
        message = "the weight is [in, out], and must be [out, in]" if turned else "x and weight do not fit one another"
        refuse(Kind.AXIS_SIZE_MISMATCH, "linear", message, *shapes, hint=hint)
    product = x @ (table.T if table.ndim == 2 else table)
    if bias is None:
        return product
    shift = tensor_of("linear", "bias", bias)
    if shift.shape != table.shape[:-1]:
        hint = f"a bias {list(table.shape[:-1])}"
        refuse(
            Kind.BROADCAST_MISMATCH, "linear", "the bias has not one number per output", *shapes, shift.shape, hint=hint
        )
    return product + shift
