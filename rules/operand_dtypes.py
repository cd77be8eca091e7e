"""The dtypes that operands of ops and sums may have, for random instances of rules."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import product

from ir.diagnostics import EqsatError
from ir.dtype import DTYPES, TensorType, dtype
from ir.term.language import App
from ir.uop.table import FUNCTIONS, UOpKind
from ir.uop.types import TypeRule


def operands_of(op: str, result: str) -> tuple[tuple[str, ...], ...]:
    """The dtypes of operands for which an op gives the dtype `result`."""
    row = FUNCTIONS[op]
    if row.kind is UOpKind.CAST:
        return tuple((element,) for element in DTYPES)
    return _operands_by_result(row.infer, row.arity).get(result, ())


@cache
def _operands_by_result(infer: TypeRule, arity: int) -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Every dtype that a type rule gives, with the dtypes of operands for which the rule gives it."""
    fitting: dict[str, tuple[tuple[str, ...], ...]] = {}
    for elements in product(DTYPES, repeat=arity):
        with suppress(EqsatError):
            type_ = infer([TensorType.of(element, ()) for element in elements], {})
            fitting[type_.dtype.name] = (*fitting.get(type_.dtype.name, ()), elements)
    return fitting


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
