"""Whether all numbers of a buffer are finite: zero times each of them, summed, is zero or NaN."""

from __future__ import annotations

from codegen.lower.cpu.builder import CpuBlock
from ir.index.expr import AxisExpr
from ir.kernel.cpu.nodes import CpuCall, Value
from ir.kernel.nodes import Const, Pick, Reg


def start_zeros(block: CpuBlock, dtype: str) -> Reg:
    """A register for the sum of zeros."""
    zeros = block.let("zeros", Const(0, dtype), mutable=True)
    assert isinstance(zeros, Reg)
    return zeros


def add_zeros(block: CpuBlock, zeros: Reg, numbers: Value) -> None:
    """Adds zero times each of the numbers."""
    block.accumulate(zeros, "add", CpuCall("mul", (numbers, Const(0, zeros.dtype)), zeros.dtype))


def sum_zeros(block: CpuBlock, zeros: Reg) -> Value:
    """The sum over all lanes: zero where all numbers were finite, else NaN."""
    return block.let("total", CpuCall("hsum", (zeros,), zeros.dtype))


def is_nan(block: CpuBlock, number: Value) -> AxisExpr:
    """A variable that is 1 where the number is NaN, else 0."""
    flags = Const(1, "i64"), Const(0, "i64")
    variable = block.writer.variable("infinite", 0, 1)
    block.add(Pick(variable, CpuCall("where", (CpuCall("cmpne", (number, number), "bool"), *flags), "i64")))
    block.variables.add(variable)
    return block.writer.axis(variable)
