"""The printed form of a CPU kernel."""

from __future__ import annotations

from ir.index.expr import AxisExpr
from ir.kernel.cpu.nodes import (
    CompilerFence,
    CopyElements,
    CpuCall,
    CpuFor,
    Inside,
    Lanes,
    Load,
    MatrixEnd,
    MatrixLoad,
    MatrixMultiply,
    MatrixSetup,
    MatrixStore,
    MatrixZero,
    Prefetch,
    Store,
    Transpose,
)
from ir.kernel.nodes import For, KernelNode, Pick
from ir.kernel.text import KernelPrinter


class CpuPrinter(KernelPrinter):
    """Statements and values of a CPU kernel as text."""

    def _line(self, stmt: KernelNode) -> str:
        match stmt:
            case Store():
                how = self._lanes_of(stmt.count, stmt.step)
                return f"{stmt.buffer}[{self.index(stmt.offset)} : {how}] := {self.value(stmt.value)}"
            case Pick():
                return f"{self.variable(stmt.variable)} = first lane of {self.value(stmt.value)}, held inside"
            case CopyElements(buffer, offset, source, start, count):
                return f"{buffer}[{self.index(offset)} : {count}] := {source}[{self.index(start)} : {count}]"
            case Transpose():
                to, source = self.index(stmt.offset), self.index(stmt.source_offset)
                turned = f"transpose {stmt.source}[{source} : rows {stmt.source_step} apart]"
                return f"{stmt.buffer}[{to} : rows {stmt.step} apart] := {turned}"
            case Prefetch():
                return f"prefetch {stmt.buffer}[{self.index(stmt.offset)}]"
            case CompilerFence():
                return "compiler fence"
            case MatrixSetup():
                return f"matrix registers: {stmt.rows} rows of the first {stmt.count}"
            case MatrixEnd():
                return "matrix registers end"
            case MatrixZero():
                return f"matrix {stmt.number} := 0"
            case MatrixLoad():
                return f"matrix {stmt.number} := {self._matrix_rows(stmt)}"
            case MatrixStore():
                return f"{self._matrix_rows(stmt)} := matrix {stmt.number}"
            case MatrixMultiply():
                left, right = stmt.dtypes
                return f"matrix {stmt.sums} += {left} matrix {stmt.rows} · {right} matrix {stmt.columns}"
        raise AssertionError(stmt)

    def _matrix_rows(self, stmt: MatrixLoad | MatrixStore) -> str:
        return f"{stmt.buffer}[{self.index(stmt.offset)} : {stmt.rows} rows {stmt.step} apart]"

    def _bounds(self, loop: For) -> str:
        limit = f", below {loop.limit}" if isinstance(loop, CpuFor) and loop.limit is not None else ""
        unroll = f", {loop.unroll} turns at once" if isinstance(loop, CpuFor) and loop.unroll != 1 else ""
        return f"{limit}{f' step {loop.step}' if loop.step != 1 else ''}{unroll}"

    def _dialect_value(self, value: KernelNode) -> str:
        match value:
            case Lanes():
                along = f" along {self.variable(value.variable)}" if value.variable is not None else ""
                along += f" + [{', '.join(map(str, value.growth))}]" if value.growth else ""
                return f"index({self.index(value.expr)}{along})"
            case Inside():
                conditions = [f"first {self._count(value.count)}"] if value.count is not None else []
                conditions += [self.all(value.conditions)] if value.conditions else []
                return f"lanes({' and '.join(conditions)})"
            case CpuCall():
                fn = f"cast<{value.dtype}>" if value.fn == "cast" else value.fn
                return f"{fn}({', '.join(map(self.value, value.args))})"
            case Load():
                return self._load(value)
        raise AssertionError(value)

    def _load(self, load: Load) -> str:
        mask = f" where {self.value(load.mask)}" if load.mask is not None else ""
        if load.mode == "gather" and load.index is not None:
            base = "" if load.offset == AxisExpr() else f"{self.index(load.offset)} + "
            return f"{load.buffer}[{base}{self.value(load.index)} : gather{mask}]"
        how = load.mode if load.mode in ("splat", "cell") else self._lanes_of(load.count, load.step)
        return f"{load.buffer}[{self.index(load.offset)} : {how}{mask}]"

    def _lanes_of(self, count: int | AxisExpr | None, step: int) -> str:
        how = "unit" if step == 1 else f"step {step}"
        return how if count is None else f"{how} first {self._count(count)}"

    def _count(self, count: int | AxisExpr) -> str:
        return str(count) if isinstance(count, int) else self.index(count)
