"""Rows of a table by their numbers, and numbers as rows of zeros and a one."""

from __future__ import annotations

from typing import Any, SupportsIndex

from eqsat.lazy.argument_checks import STAGE, flag, integer, refuse
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, tensor_of
from eqsat.tensor import Tensor, iota
from ir.diagnostics import Kind, fail


@takes_torchs_names
def embedding(
    x: Operand,
    weight: Operand,
    padding_idx: SupportsIndex | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of the table `weight` [rows, width] whose numbers are in x: a tensor [*shape of x, width]. Numbers
    outside are an error in a constant, and are clamped to the nearest end at run time.

    padding_idx, scale_grad_by_freq, sparse: say something of gradients alone.

    Raises:
        EqsatError: DtypeMismatch for an x of floats, as in `embedding(weight, x)`; UnsupportedOp for `max_norm`.
    """
    index, table = tensor_of("embedding", "x", x), tensor_of("embedding", "weight", weight)
    flag(scale_grad_by_freq, "scale_grad_by_freq")
    flag(sparse, "sparse")
    if not index.dtype.is_int:
        message = f"row numbers are integers, not {index.dtype}"
        refuse(Kind.DTYPE_MISMATCH, "embedding", message, index.shape, table.shape, hint="embedding(x, weight)")
    if table.ndim != 2:
        hint = "embedding(x, weight) with a weight [rows, width]"
        refuse(Kind.AXIS_SIZE_MISMATCH, "embedding", "the table has two axes", index.shape, table.shape, hint=hint)
    if max_norm is not None:
        fail(Kind.UNSUPPORTED_OP, STAGE, "max_norm= changes the table", op="embedding", hint="scale the table first")
    return table.take(index, 0)


@takes_torchs_names
def one_hot(x: Operand, num_classes: SupportsIndex = -1) -> Tensor:
    """Per element of x `num_classes` numbers, i64: 1 at the place that the element says, else 0. An element outside has
    zeros alone."""
    index: Any = tensor_of("one_hot", "x", x)
    count = integer(num_classes, "num_classes")
    if not index.dtype.is_int:
        refuse(
            Kind.DTYPE_MISMATCH,
            "one_hot",
            f"classes are integers, not {index.dtype}",
            index.shape,
            hint='x.cast("i64")',
        )
    if count < 1:
        message = "the number of classes must be known: it is a size of the result"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, op="one_hot", hint="one_hot(x, num_classes)")
    shape = (*index.shape, count)
    wide = index.cast("i64").unsqueeze(-1).expand(shape)
    return (wide == iota(shape, index.ndim)).cast("i64")  # type: ignore[no-any-return]
