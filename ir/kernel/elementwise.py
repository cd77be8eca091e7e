"""The functions of registers that the table of uops asks of every prelude: `eq_<fn>_<type of the last operand>`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from ir.diagnostics import EqsatError
from ir.dtype import DTYPES, TensorType
from ir.uop.table import FUNCTIONS, UOp, UOpKind

REGISTERS = tuple(name for name in DTYPES if name not in ("fp16", "bf16"))
"""The dtypes of registers."""


class ElementwiseFunction(msgspec.Struct, frozen=True):
    """A function of registers of these dtypes. row: the uop that it computes, with its attribute fixed."""

    fn: str
    row: UOp
    operands: tuple[str, ...]
    result: str

    @property
    def name(self) -> str:
        """The name in both preludes: "eq_exp_f32"."""
        return f"eq_{self.fn}_{self.operands[-1].replace('fp', 'f')}"


def elementwise_functions() -> Iterator[ElementwiseFunction]:
    """The functions of all elementwise uops, for every dtype of a register that the uop takes. CAST and BITCAST are
    conversions, which are named by two types, and a uop that is `called` as another one needs none."""
    for fn, row in FUNCTIONS.items():
        if row.called is None and row.kind is not UOpKind.CAST and not row.keeps_bits:
            for operands in _operands(row):
                with suppress(EqsatError):
                    result = row.type_of([TensorType.of(dtype, ()) for dtype in operands], {})
                    yield ElementwiseFunction(fn, row, operands, result.dtype.name)


def _operands(row: UOp) -> Iterator[tuple[str, ...]]:
    """Dtypes of operands: one for all, but a condition is a bool."""
    for dtype in REGISTERS:
        yield ("bool", dtype, dtype) if row.has_condition else (dtype,) * row.arity
