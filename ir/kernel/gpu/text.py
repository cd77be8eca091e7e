"""The printed form of a GPU kernel."""

from __future__ import annotations

from collections.abc import Iterator

from ir.index.expr import ZERO, AxisExpr
from ir.kernel.gpu.nodes import (
    AnyThread,
    Assign,
    At,
    Barrier,
    Call,
    CommitGroup,
    CpAsync,
    Element,
    Epilogue,
    Fence,
    For,
    Holds,
    If,
    Index,
    LdGlobalVec,
    LdMatrix,
    LdSharedVec,
    Let,
    LoadGlobal,
    LoadShared,
    MmaSync,
    Pick,
    SetElement,
    Shuffle,
    StGlobal,
    StGlobalVec,
    Stmt,
    StShared,
    StSharedVec,
    SyncWarp,
    TakeTicket,
    Value,
    WaitGroup,
)
from ir.kernel.nodes import Bind, Comment, Const, Reg, Within
from ir.kernel.text import KernelPrinter


class GpuPrinter(KernelPrinter[Stmt]):
    """Statements and values of a GPU kernel as text."""

    def stmt(self, stmt: Stmt, depth: int = 0) -> Iterator[str]:
        pad = "  " * depth
        match stmt:
            case For():
                step = f" step {stmt.step}" if stmt.step != 1 else ""
                how = " unrolled" if stmt.unroll else ""
                bounds = f"{self.index(stmt.start)} .. {self.index(stmt.stop)}{step}{how}"
                yield f"{pad}for {self.variable(stmt.variable)} in {bounds}"
                yield from self.block(stmt.body, depth + 1)
            case If():
                yield f"{pad}if {self.all(stmt.conditions)}"
                yield from self.block(stmt.then, depth + 1)
                if stmt.orelse:
                    yield f"{pad}else"
                    yield from self.block(stmt.orelse, depth + 1)
            case Epilogue():
                ops = ", ".join(stmt.ops) or "none"
                yield f"{pad}epilogue {ops}: each {self.variable(stmt.variable)} of {stmt.acc}"
                yield from self.block(stmt.body, depth + 1)
            case _:
                yield pad + self._line(stmt)

    def _line(self, stmt: Stmt) -> str:
        match stmt:
            case Comment():
                return f"# {stmt.text}"
            case Bind():
                return self.bind(stmt)
            case Pick():
                return f"{self.variable(stmt.variable)} = {self.value(stmt.value)}, held inside"
            case Let():
                return f"{stmt.name}: {stmt.value.dtype} {':=' if stmt.mutable else '='} {self.value(stmt.value)}"
            case Assign():
                return f"{stmt.name} := {self.value(stmt.value)}"
            case SetElement():
                return f"{stmt.registers}[{self.index(stmt.index)}] := {self.value(stmt.value)}"
            case CommitGroup():
                return "commit_group"
            case WaitGroup():
                return f"wait_group {stmt.pending}"
            case Barrier():
                return "barrier"
            case SyncWarp():
                return "sync_warp"
            case AnyThread():
                return f"{self.variable(stmt.variable)} = barrier, any {self.value(stmt.value)}"
            case Fence():
                return "fence"
            case TakeTicket():
                return f"{stmt.name}: i32 = ticket {self._buffer(stmt.buffer, stmt.at)} of {self.index(stmt.count)}"
        return self._move(stmt)

    def _move(self, stmt: Stmt) -> str:
        match stmt:
            case CpAsync():
                count = f" first {self.index(stmt.count)}" if stmt.count is not None else ""
                source = f"{self._buffer(stmt.buffer, stmt.at)}{count}{self._where(stmt.where)}"
                return f"cp_async {stmt.nbytes} bytes {self.at(stmt.to)} := {source}"
            case LdMatrix():
                trans = ".trans" if stmt.trans else ""
                to = self._registers(stmt.registers, stmt.index)
                return f"ldmatrix{trans} x{stmt.matrices} {to} := {self.at(stmt.source)}"
            case MmaSync():
                a, b = self._registers(stmt.a, stmt.a_index), self._registers(stmt.b, stmt.b_index)
                return f"mma {stmt.shape} {stmt.dtype} {self._registers(stmt.acc, stmt.acc_index)} += {a} · {b}"
            case LdGlobalVec():
                source = f"{self._buffer(stmt.buffer, stmt.at)}{self._where(stmt.where)}"
                return f"{self._registers(stmt.registers, stmt.index)} x{stmt.count} := {source}"
            case StGlobalVec():
                source = f"{self._registers(stmt.registers, stmt.index)} x{stmt.count}"
                return f"{self._buffer(stmt.buffer, stmt.at)} := {source}{self._where(stmt.where)}"
            case StGlobal():
                return f"{self._buffer(stmt.buffer, stmt.at)} := {self.value(stmt.value)}{self._where(stmt.where)}"
            case LdSharedVec():
                return f"{self._registers(stmt.registers, stmt.index)} x{stmt.count} := {self.at(stmt.source)}"
            case StSharedVec():
                return f"{self.at(stmt.to)} := {self._registers(stmt.registers, stmt.index)} x{stmt.count}"
            case StShared():
                return f"{self.at(stmt.to)} := {self.value(stmt.value)}"
        raise AssertionError(stmt)

    def value(self, value: Value) -> str:
        match value:
            case Const():
                return str(value.number)
            case Reg():
                return value.name
            case Index():
                return f"index({self.index(value.expr)})"
            case Holds():
                return f"holds({self.all(value.conditions)})"
            case Call():
                fn = f"cast<{value.dtype}>" if value.fn == "cast" else value.fn
                return f"{fn}({', '.join(map(self.value, value.args))})"
            case Element():
                return self._registers(value.registers, value.index)
            case LoadGlobal():
                return f"{self._buffer(value.buffer, value.at)}{self._where(value.where)}"
            case LoadShared():
                return self.at(value.source)
            case Shuffle():
                return f"shfl_{value.way}({self.value(value.value)}, {self.index(value.by)})"

    def at(self, at: At) -> str:
        """A place in shared memory: `As[stage][row, column]`; stage 0 is left out."""
        stage = f"[{self.index(at.stage)}]" if at.stage != ZERO else ""
        return f"{at.shared}{stage}[{', '.join(map(self.index, at.at))}]"

    def _buffer(self, buffer: str, at: tuple[AxisExpr, ...]) -> str:
        return f"{buffer}[{', '.join(map(self.index, at))}]"

    def _registers(self, name: str, index: AxisExpr) -> str:
        return f"{name}[{self.index(index)}]"

    def _where(self, conditions: tuple[Within, ...]) -> str:
        return f" where {self.all(conditions)}" if conditions else ""
