"""The printed form of a GPU kernel."""

from __future__ import annotations

from ir.index.expr import ZERO, AxisExpr
from ir.kernel.gpu.nodes import (
    AnyLane,
    AnyThread,
    At,
    AwaitTicket,
    Barrier,
    Call,
    CommitGroup,
    CpAsync,
    Element,
    Epilogue,
    Fence,
    GpuFor,
    Holds,
    Index,
    LdGlobalVec,
    LdMatrix,
    LdSharedVec,
    LoadGlobal,
    LoadShared,
    MmaSync,
    ProxyFence,
    SetElement,
    Shuffle,
    StGlobal,
    StGlobalVec,
    StShared,
    StSharedVec,
    SyncWarp,
    TakeTicket,
    WaitGroup,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from ir.kernel.nodes import For, KernelNode, Pick, Within
from ir.kernel.text import KernelPrinter


class GpuPrinter(KernelPrinter):
    """Statements and values of a GPU kernel as text."""

    def _bounds(self, loop: For) -> str:
        step = f" step {loop.step}" if loop.step != 1 else ""
        return step + (" unrolled" if isinstance(loop, GpuFor) and loop.unroll else "")

    def _line(self, stmt: KernelNode) -> str:
        match stmt:
            case Epilogue():
                ops = ", ".join(stmt.ops) or "none"
                return f"epilogue {ops}: each {self.variable(stmt.variable)} of {stmt.acc}"
            case Pick():
                return f"{self.variable(stmt.variable)} = {self.value(stmt.value)}, held inside"
            case SetElement():
                return f"{stmt.registers}[{self.index(stmt.index)}] := {self.value(stmt.value)}"
            case ProxyFence():
                return "proxy_fence"
            case WgmmaFence():
                return f"wgmma_fence {stmt.acc}"
            case WgmmaCommit():
                return "wgmma_commit"
            case WgmmaWait():
                return f"wgmma_wait {stmt.acc} {stmt.pending}"
            case Wgmma():
                return f"wgmma {stmt.dtype} {stmt.acc} += {self.at(stmt.rows)} · {self.at(stmt.columns)}"
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
            case AnyLane():
                return f"{self.variable(stmt.variable)} = any lane {self.value(stmt.value)}"
            case Fence():
                return "fence"
            case TakeTicket():
                return f"{stmt.name}: i32 = ticket {self._buffer(stmt.buffer, stmt.at)} of {self.index(stmt.count)}"
            case AwaitTicket():
                return f"await {self._buffer(stmt.buffer, stmt.at)}, ticket of {self.index(stmt.count)}"
        return self._move(stmt)

    def _move(self, stmt: KernelNode) -> str:
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

    def _dialect_value(self, value: KernelNode) -> str:
        match value:
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
        raise AssertionError(value)

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
