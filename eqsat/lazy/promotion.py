"""The dtype in which operands meet: what NumPy's own loops take, Python numbers being weak (NEP 50).

bf16, which NumPy lacks, stands where fp16 does; the two together meet in fp32, as the loader has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ir.diagnostics import Kind, fail
from ir.dtype import DType, bf16, bool_, dtype, fp16, fp32, fp64
from ir.uop.table import UOPS

Weak = type[int] | type[float]
"""A Python number, which takes the dtype beside it as long as that is of its kind."""

STAGE = "tensor"

UFUNCS: Mapping[str, np.ufunc] = MappingProxyType(
    {
        "ADD": np.add,
        "SUB": np.subtract,
        "MUL": np.multiply,
        "FDIV": np.true_divide,
        "IDIV": np.floor_divide,
        "MOD": np.remainder,
        "POW": np.power,
        "MAX": np.maximum,
        "MIN": np.minimum,
        "CMPLT": np.less,
        "CMPLE": np.less_equal,
        "CMPGT": np.greater,
        "CMPGE": np.greater_equal,
        "CMPEQ": np.equal,
        "CMPNE": np.not_equal,
        "AND": np.bitwise_and,
        "OR": np.bitwise_or,
        "XOR": np.bitwise_xor,
        "NOT": np.invert,
        "NEG": np.negative,
        "ABS": np.absolute,
        "RECIP": np.reciprocal,
        "SQRT": np.sqrt,
        "EXP": np.exp,
        "EXP2": np.exp2,
        "LOG": np.log,
        "LOG2": np.log2,
        "SIN": np.sin,
        "COS": np.cos,
        "TANH": np.tanh,
        "FLOOR": np.floor,
        "CEIL": np.ceil,
        "ROUND": np.rint,
    }
)
"""The NumPy function that a uop is."""

LIKE: Mapping[str, np.ufunc] = MappingProxyType(
    {"RSQRT": np.sqrt, "ERF": np.exp, "SIGMOID": np.exp, "RELU": np.positive, "ROUND": np.floor}
)
"""The NumPy function whose dtypes a uop follows, where NumPy has not the uop itself, or has other dtypes for it:
`ndarray.round` keeps integers, as `np.floor` does."""


def uops_by_ufunc(ufuncs: Mapping[str, np.ufunc]) -> Mapping[np.ufunc, str]:
    """The uop that a NumPy function is, from the NumPy function that each uop is.

    Raises:
        ValueError: two uops are said to be one function, or what is named is no elementwise uop.
    """
    found: dict[np.ufunc, str] = {}
    for uop, ufunc in ufuncs.items():
        if uop not in UOPS or not UOPS[uop].kind.is_elementwise:
            raise ValueError(f"{uop}, which stands for np.{ufunc.__name__}, is no elementwise uop")
        if ufunc in found:
            both = f"{found[ufunc]} and {uop} cannot both be np.{ufunc.__name__}"
            raise ValueError(f"{both}: a uop that only follows its dtypes is in LIKE")
        found[ufunc] = uop
    return MappingProxyType(found)


UOP_OF = uops_by_ufunc(UFUNCS)
"""The uop that a NumPy function is."""


def dtypes_of(uop: str) -> np.ufunc:
    """The NumPy function whose dtypes a uop follows."""
    return LIKE.get(uop) or UFUNCS[uop]


def loop(ufunc: np.ufunc, operands: Sequence[DType | Weak]) -> DType:
    """The dtype in which `ufunc` takes these operands.

    Raises:
        EqsatError: DtypeMismatch where NumPy has no such loop: the negative of a bool, the bits of a float.
    """
    specs, short = _as_fp16(operands)
    try:
        found = ufunc.resolve_dtypes((*specs, *(None,) * ufunc.nout))[0]
    except TypeError:
        types = ", ".join(each.__name__ if isinstance(each, type) else each.name for each in operands)
        fail(Kind.DTYPE_MISMATCH, STAGE, f"not defined for {types}, as in NumPy", hint="cast an operand first")
    return short if found == np.float16 else dtype(found)


def common(operands: Sequence[DType | Weak]) -> DType:
    """The dtype that holds all operands, as in `np.where` and `np.concatenate`."""
    specs, short = _as_fp16(operands)
    found = np.result_type(*(each(0) if isinstance(each, type) else each for each in specs))
    return short if found == np.float16 else dtype(found)


def floating(element: DType) -> DType:
    """The dtype of a mean or a quotient: floats keep theirs, integers and bools take fp64."""
    return element if element.is_float else fp64


def weak(value: bool | int | float) -> DType | Weak:
    """A Python number as an operand; a bool is no weak number."""
    return bool_ if isinstance(value, bool) else type(value)


def _as_fp16(operands: Sequence[DType | Weak]) -> tuple[list[Any], DType]:
    """The operands as NumPy knows them, and what its fp16 stands for."""
    stand_in = fp32 if fp16 in operands else fp16
    known = [stand_in if each == bf16 else each for each in operands]
    return [each.numpy if isinstance(each, DType) else each for each in known], bf16 if bf16 in operands else fp16
