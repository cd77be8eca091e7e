"""The type of a lazy tensor from its uop, operands and attributes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqsat.lazy.argument_checks import STAGE
from eqsat.lazy.base import LazyTensor
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import TensorType
from ir.dtype import dtype as as_dtype
from ir.tiny.graph import check_arg, exact_immediate
from ir.uop.table import UOPS


def infer_type(tensor: Any) -> TensorType:
    """The type of a tensor, after a check of the uop's operands and attributes.

    Raises:
        EqsatError: MalformedGraph, UnknownUop, or what the uop says of its operands; located at their types.
    """
    if tensor.array is not None:
        name = tensor.arg.get("tensor_id", "_")
        if not isinstance(name, str) or not name:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"the name of a constant is a text that is not empty, not {name!r:.60}")
        return TensorType.of(as_dtype(tensor.array.dtype), tensor.array.shape)
    op = UOPS.get(tensor.uop) or fail(Kind.UNKNOWN_UOP, STAGE, f"there is no uop {tensor.uop!r}")
    types = [operand.type for operand in tensor.src if isinstance(operand, LazyTensor)]
    operands = [operand.type if isinstance(operand, LazyTensor) else types[-1] for operand in tensor.src]
    try:
        arg = check_arg(op, tensor.arg, bound=True)
        result = op.type_of(operands, arg)
        for operand, type_ in zip(tensor.src, operands, strict=True):
            if not isinstance(operand, LazyTensor):
                exact_immediate(operand, type_.dtype)
        if "value" in arg:
            exact_immediate(arg["value"], result.dtype)
    except EqsatError as error:
        raise error.locate(at=types_text(tensor.src), op=op.label(tensor.arg)) from None
    return result


def types_text(operands: Iterable[Any]) -> str:
    """The types of the tensors among operands."""
    return ", ".join(str(operand.type) for operand in operands if isinstance(operand, LazyTensor))
