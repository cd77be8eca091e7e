"""The printed form of a CPU kernel."""

from __future__ import annotations

from collections.abc import Iterator

from ir.index.expr import AxisExpr
from ir.kernel.cpu.nodes import (
    CpuAssign,
    CpuCall,
    CpuFor,
    CpuIf,
    CpuLet,
    CpuPick,
    Inside,
    Lanes,
    Load,
    Stmt,
    Store,
    Transpose,
    Value,
)
from ir.kernel.nodes import Bind, Comment, Const, Reg
from ir.kernel.text import KernelPrinter


class CpuPrinter(KernelPrinter[Stmt]):
    """Statements and values of a CPU kernel as text."""

    def stmt(self, stmt: Stmt, depth: int = 0) -> Iterator[str]:
        pad = "  " * depth
        match stmt:
            case Comment():
                yield f"{pad}# {stmt.text}"
            case CpuLet():
                yield f"{pad}{stmt.name}: {stmt.value.dtype} {':=' if stmt.mutable else '='} {self._value(stmt.value)}"
            case CpuAssign():
                yield f"{pad}{stmt.name} := {self._value(stmt.value)}"
            case Store():
                how = self._lanes_of(stmt.count, stmt.step)
                yield f"{pad}{stmt.buffer}[{self.index(stmt.offset)} : {how}] := {self._value(stmt.value)}"
            case Bind():
                yield pad + self.bind(stmt)
            case CpuPick():
                yield f"{pad}{self.variable(stmt.variable)} = first lane of {self._value(stmt.value)}, held inside"
            case CpuFor():
                limit = f", below {stmt.limit}" if stmt.limit is not None else ""
                step = f" step {stmt.step}" if stmt.step != 1 else ""
                bounds = f"{self.index(stmt.start)} .. {self.index(stmt.stop)}{limit}{step}"
                yield f"{pad}for {self.variable(stmt.variable)} in {bounds}"
                yield from self.block(stmt.body, depth + 1)
            case CpuIf():
                yield f"{pad}if {self.all(stmt.conditions)}"
                yield from self.block(stmt.then, depth + 1)
                if stmt.orelse:
                    yield f"{pad}else"
                    yield from self.block(stmt.orelse, depth + 1)
            case Transpose():
                to, source = self.index(stmt.offset), self.index(stmt.source_offset)
                turned = f"transpose {stmt.source}[{source} : rows {stmt.source_step} apart]"
                yield f"{pad}{stmt.buffer}[{to} : rows {stmt.step} apart] := {turned}"

    def _value(self, value: Value) -> str:
        match value:
            case Const():
                return str(value.number)
            case Reg():
                return value.name
            case Lanes():
                along = f" along {self.variable(value.variable)}" if value.variable is not None else ""
                return f"index({self.index(value.expr)}{along})"
            case Inside():
                conditions = [f"first {self._count(value.count)}"] if value.count is not None else []
                return f"lanes({' and '.join([*conditions, *map(self.within, value.conditions)])})"
            case CpuCall():
                fn = f"cast<{value.dtype}>" if value.fn == "cast" else value.fn
                return f"{fn}({', '.join(map(self._value, value.args))})"
            case Load():
                return self._load(value)

    def _load(self, load: Load) -> str:
        mask = f" where {self._value(load.mask)}" if load.mask is not None else ""
        if load.mode == "gather" and load.index is not None:
            base = "" if load.offset == AxisExpr() else f"{self.index(load.offset)} + "
            return f"{load.buffer}[{base}{self._value(load.index)} : gather{mask}]"
        how = load.mode if load.mode == "splat" else self._lanes_of(load.count, load.step)
        return f"{load.buffer}[{self.index(load.offset)} : {how}{mask}]"

    def _lanes_of(self, count: int | AxisExpr | None, step: int) -> str:
        how = "unit" if step == 1 else f"step {step}"
        return how if count is None else f"{how} first {self._count(count)}"

    def _count(self, count: int | AxisExpr) -> str:
        return str(count) if isinstance(count, int) else self.index(count)
