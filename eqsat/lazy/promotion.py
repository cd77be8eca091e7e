"""Type promotion: operands are cast to the dtype of NumPy's own loops, where Python numbers are weak (NEP 50).

bf16, which NumPy lacks, is promoted as fp16 would be. bf16 and fp16 together are promoted to fp32, as in the loader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ir.diagnostics import Kind, fail
from ir.dtype import DType, bf16, bool_, dtype, fp16, fp32, fp64, i64, u64
from ir.uop.table import UOPS

Weak = type[int] | type[float]
"""A Python number; it takes the dtype of the other operand if that is of the same kind."""

STAGE = "tensor"

UFUNCS: Mapping[str, np.ufunc] = MappingProxyType({name: uop.ufunc for name, uop in UOPS.items() if uop.ufunc})
"""The NumPy function that is the same as a uop."""


def uops_by_ufunc(ufuncs: Mapping[str, np.ufunc]) -> Mapping[np.ufunc, str]:
    """Inverts a mapping from uops to NumPy functions.

    Raises:
        ValueError: two uops have the same function, or a name is no elementwise uop.
    """
    uops: dict[np.ufunc, str] = {}
    for uop, ufunc in ufuncs.items():
        if uop not in UOPS or not UOPS[uop].kind.is_elementwise:
            raise ValueError(f"{uop}, which stands for np.{ufunc.__name__}, is no elementwise uop")
        if ufunc in uops:
            both = f"{uops[ufunc]} and {uop} cannot both be np.{ufunc.__name__}"
            raise ValueError(f"{both}: a uop that only follows its dtypes names it as `like`")
        uops[ufunc] = uop
    return MappingProxyType(uops)


UOP_OF = uops_by_ufunc(UFUNCS)
"""The uop that is the same as a NumPy function."""


def dtypes_of(uop: str) -> np.ufunc:
    """The NumPy function that determines a uop's dtypes on lazy tensors.

    Raises:
        ValueError: the uop's row names none.
    """
    row = UOPS[uop]
    function = row.like or row.ufunc
    if function is None:
        raise ValueError(f"the row of {uop} in ir/uop/table.py names no NumPy function (`ufunc` or `like`)")
    return function


def loop(ufunc: np.ufunc, operands: Sequence[DType | Weak]) -> DType:
    """The dtype to which `ufunc` casts these operands.

    Raises:
        EqsatError: DtypeMismatch if NumPy has no such loop, as for the negative of a bool or the bits of a float.
    """
    specs, half = _as_fp16(operands)
    try:
        numpy_dtype = ufunc.resolve_dtypes((*specs, *(None,) * ufunc.nout))[0]
    except TypeError:
        types = ", ".join(operand.__name__ if isinstance(operand, type) else operand.name for operand in operands)
        fail(Kind.DTYPE_MISMATCH, STAGE, f"not defined for {types}, as in NumPy", hint="cast an operand first")
    return half if numpy_dtype == np.float16 else dtype(numpy_dtype)


def common(operands: Sequence[DType | Weak]) -> DType:
    """The dtype that holds all operands, as in `np.where` and `np.concatenate`."""
    specs, half = _as_fp16(operands)
    numpy_dtype = np.result_type(*(spec(0) if isinstance(spec, type) else spec for spec in specs))
    return half if numpy_dtype == np.float16 else dtype(numpy_dtype)


def floating(element: DType) -> DType:
    """The dtype of a mean or a quotient: fp64 for integers and bools, the same for floats."""
    return element if element.is_float else fp64


def summing(element: DType) -> DType:
    """The dtype of a sum or a product: i64 for bools and for integers that i64 holds, else the same."""
    return element if element.is_float or element == u64 else i64


def weak(value: bool | int | float) -> DType | Weak:
    """The type of a Python number as an operand; a bool is not weak."""
    return bool_ if isinstance(value, bool) else int if isinstance(value, int) else float


def _as_fp16(operands: Sequence[DType | Weak]) -> tuple[list[Any], DType]:
    """The operands with fp16 in place of bf16 (fp32 if both occur), and the dtype that a resulting fp16 means."""
    stand_in = fp32 if fp16 in operands else fp16
    known = [stand_in if operand == bf16 else operand for operand in operands]
    return [
        operand.numpy if isinstance(operand, DType) else operand for operand in known
    ], bf16 if bf16 in operands else fp16
