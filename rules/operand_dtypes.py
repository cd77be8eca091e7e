"""The dtypes that operands of ops and sums may have, for random instances of rules."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from itertools import product

from ir.diagnostics import EqsatError
from ir.dtype import DTYPES, TensorType, dtype
from ir.term.language import App
from ir.uop.table import FUNCTIONS
from ir.uop.types import TypeRule


def operands_of(op: str, result: str) -> tuple[tuple[str, ...], ...]:
    """The dtypes of operands for which an op gives the dtype `result`."""
    row = FUNCTIONS[op]
    return _operands_of(row.infer, row.arity, result)


@cache
def _operands_of(infer: TypeRule, arity: int, result: str) -> tuple[tuple[str, ...], ...]:
    """The dtypes of operands for which a type rule gives the dtype `result`."""
    fitting: list[tuple[str, ...]] = []
    for elements in product(DTYPES, repeat=arity):
        with suppress(EqsatError):
            type_ = infer([TensorType.of(element, ()) for element in elements], {"to": result})
            fitting += [elements] * (type_.dtype.name == result)
    return tuple(fitting)


def summands_of(result: str) -> tuple[str, ...]:
    """The dtypes of terms that may be summed in `result`."""
    element = dtype(result)
    if element.is_float:
        return (result, result, "fp32", "fp16", "bf16", "fp64")
    return (result, result, "i8", "i32") if element.is_int else (result,)


def dtype_named(pattern: App) -> str | None:
    """The dtype that a pattern names for its value; None where it is a variable."""
    named = pattern.fields.get("dtype")
    return named if isinstance(named, str) else None
