"""torch's dtypes and eqsat's."""

from __future__ import annotations

from functools import cache
from typing import Any

from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DType, dtype
from ir.frontend import STAGE


@cache
def element_type(given: Any) -> DType:
    """The DType of a torch.dtype. Raises EqsatError, UnsupportedOp, for complex and quantized ones."""
    try:
        return dtype(str(given).removeprefix("torch."))
    except EqsatError:
        hint = "floats of 16, 32 and 64 bits, integers and bools"
        return fail(Kind.UNSUPPORTED_OP, STAGE, f"elements of {given} are not supported", hint=hint)


@cache
def part_type(given: Any) -> DType:
    """The DType of a torch.dtype; of complex numbers, that of a part. Raises EqsatError, UnsupportedOp, for others."""
    import torch

    return element_type({torch.complex64: torch.float32, torch.complex128: torch.float64}.get(given, given))


@cache
def torch_dtype(element: DType) -> Any:
    """The torch.dtype of a DType."""
    import torch

    return next(getattr(torch, name) for name in (*element.aliases, element.name) if hasattr(torch, name))
