"""The printed form of a CPU kernel: what people read beside the plan and the C text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ir.axis_expr import AxisExpr
from ir.cpu_nodes import (
    CpuAssign,
    CpuCall,
    CpuFence,
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
from ir.index_text import Writing
from ir.kernel_nodes import Bind, Comment, Const, Reg, Variable, Within


class CpuPrinter:
    """Statements and values of a kernel with these variables as text."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._variables = variables
        self._index = Writing(self.variable).text

    def block(self, body: tuple[Stmt, ...], depth: int) -> list[str]:
        return [line for stmt in body for line in self._stmt(stmt, depth)]

    def variable(self, number: int) -> str:
        return self._variables[number].name

    def _stmt(self, stmt: Stmt, depth: int) -> Iterator[str]:
        pad = "  " * depth
        match stmt:
            case Comment():
                yield f"{pad}# {stmt.text}"
            case CpuLet():
                yield f"{pad}{stmt.name}: {stmt.value.dtype} {':=' if stmt.mutable else '='} {self._value(stmt.value)}"
            case CpuAssign():
                yield f"{pad}{stmt.name} := {self._value(stmt.value)}"
            case Store():
                how = self._lanes_of(stmt.count, stmt.step, "stream" if stmt.stream else "unit")
                yield f"{pad}{stmt.buffer}[{self._index(stmt.offset)} : {how}] := {self._value(stmt.value)}"
            case Bind():
                parts = [self._index(stmt.expr)]
                parts += [f"at most {self._index(each)}" for each in stmt.most]
                parts += [f"at least {self._index(each)}" for each in stmt.least]
                yield f"{pad}{self.variable(stmt.variable)} = {', '.join(parts)}"
            case CpuPick():
                yield f"{pad}{self.variable(stmt.variable)} = first lane of {self._value(stmt.value)}, held inside"
            case CpuFor():
                limit = f", below {stmt.limit}" if stmt.limit is not None else ""
                step = f" step {stmt.step}" if stmt.step != 1 else ""
                bounds = f"{self._index(stmt.start)} .. {self._index(stmt.stop)}{limit}{step}"
                yield f"{pad}for {self.variable(stmt.variable)} in {bounds}"
                yield from self.block(stmt.body, depth + 1)
            case CpuIf():
                yield f"{pad}if {' and '.join(map(self._within, stmt.conditions)) or 'true'}"
                yield from self.block(stmt.then, depth + 1)
                if stmt.orelse:
                    yield f"{pad}else"
                    yield from self.block(stmt.orelse, depth + 1)
            case CpuFence():
                yield f"{pad}fence"
            case Transpose():
                to, source = self._index(stmt.offset), self._index(stmt.source_offset)
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
                return f"index({self._index(value.expr)}{along})"
            case Inside():
                conditions = [f"first {self._count(value.count)}"] if value.count is not None else []
                return f"lanes({' and '.join([*conditions, *map(self._within, value.conditions)])})"
            case CpuCall():
                fn = f"cast<{value.dtype}>" if value.fn == "cast" else value.fn
                return f"{fn}({', '.join(map(self._value, value.args))})"
            case Load():
                return self._load(value)

    def _load(self, load: Load) -> str:
        mask = f" where {self._value(load.mask)}" if load.mask is not None else ""
        if load.mode == "gather" and load.index is not None:
            base = "" if load.offset == AxisExpr() else f"{self._index(load.offset)} + "
            return f"{load.buffer}[{base}{self._value(load.index)} : gather{mask}]"
        how = load.mode if load.mode == "splat" else self._lanes_of(load.count, load.step, "unit")
        return f"{load.buffer}[{self._index(load.offset)} : {how}{mask}]"

    def _lanes_of(self, count: int | AxisExpr | None, step: int, unit: str) -> str:
        how = unit if step == 1 else f"step {step}"
        return how if count is None else f"{how} first {self._count(count)}"

    def _count(self, count: int | AxisExpr) -> str:
        return str(count) if isinstance(count, int) else self._index(count)

    def _within(self, within: Within) -> str:
        return f"{within.low} <= {self._index(within.expr)} < {within.high}"
