"""Softmax over rows, written by hand in the GPU dialect, as an example of a row kernel. One block computes one row."""

from __future__ import annotations

from collections.abc import Iterator

from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, mod
from ir.kernel.gpu.kernel import (
    BLOCK_X,
    LANE,
    THREAD,
    WARP,
    WARP_LANES,
    GpuKernel,
    GpuParam,
    Registers,
    Shared,
    id_variables,
)
from ir.kernel.gpu.nodes import (
    At,
    Barrier,
    Call,
    Element,
    GpuFor,
    GpuIf,
    Holds,
    LdGlobalVec,
    LoadGlobal,
    LoadShared,
    SetElement,
    Shuffle,
    StGlobal,
    StGlobalVec,
    Stmt,
    StShared,
    Value,
)
from ir.kernel.nodes import Assign, Const, Let, Reg, Variable, Within


def softmax_kernel(rows: int, columns: int, *, dtype: str = "fp16", threads: int = 128) -> GpuKernel:
    """y[r, c] = exp(x[r, c] − max_c x[r, c]) / Σ_c …; a row lies in the block's registers."""
    return _Rows(rows, columns, dtype, threads).kernel()


class _Rows:
    def __init__(self, rows: int, columns: int, dtype: str, threads: int) -> None:
        self.rows, self.columns, self.dtype, self.threads = rows, columns, dtype, threads
        widest = 16 // DTYPES[dtype].bytes
        self.width = widest if columns % widest == 0 else 1
        self.turns = -(-columns // (self.width * threads))
        self.warps = threads // WARP_LANES
        self.variables = list(id_variables(threads, (rows, 1, 1)))

    def axis(self, number: int) -> AxisExpr:
        low, high = self.variables[number].low, self.variables[number].high
        return constant(low) if low == high else AxisExpr(0, ((number, 1),))

    def loop(self, name: str, count: int) -> tuple[int, AxisExpr]:
        self.variables.append(Variable(name, 0, count - 1))
        return len(self.variables) - 1, self.axis(len(self.variables) - 1)

    def kernel(self) -> GpuKernel:
        body = (
            *self._load(),
            *self._row("m", "max", Const("-inf", "fp32"), self._held),
            *self._row("s", "add", Const(0, "fp32"), self._exponential),
            *self._store(),
        )
        return GpuKernel(
            f"eq_softmax_{self.rows}x{self.columns}_{self.dtype}",
            "sm80",
            self.threads,
            (self.rows, 1, 1),
            (
                GpuParam("x", self.dtype, (self.rows, self.columns)),
                GpuParam("y", self.dtype, (self.rows, self.columns), written=True),
            ),
            tuple(self.variables),
            body,
            (Shared("m_warps", "fp32", (self.warps,), 0), Shared("s_warps", "fp32", (self.warps,), 128)),
            (Registers("row", "fp32", self.turns * self.width),),
            comment=f"softmax over the rows of [{self.rows}, {self.columns}]",
        )

    def _at(self, turn: AxisExpr, inner: AxisExpr = ZERO) -> tuple[tuple[AxisExpr, AxisExpr], Within]:
        column = (self.axis(THREAD) + turn * self.threads) * self.width + inner
        return (self.axis(BLOCK_X), column), Within(column, 0, self.columns)

    def _load(self) -> Iterator[Stmt]:
        number, turn = self.loop("piece", self.turns)
        at, inside = self._at(turn)
        move: Stmt
        if self.width > 1:
            move = LdGlobalVec("row", turn * self.width, self.width, "x", at, (inside,))
        else:
            move = SetElement("row", turn, LoadGlobal("x", at, "fp32", (inside,)))
        yield GpuFor(number, ZERO, constant(self.turns), (move,), unroll=True)

    def _each(self, name: str) -> tuple[int, AxisExpr, Within]:
        number, element = self.loop(name, self.turns * self.width)
        box = tuple((variable.low, variable.high) for variable in self.variables)
        turn, inner = floordiv(element, self.width, box), mod(element, self.width, box)
        return number, element, self._at(turn, inner)[1]

    def _held(self, element: AxisExpr, inside: Within) -> tuple[tuple[Stmt, ...], Value]:
        value = Element("row", element, "fp32")
        return (), Call("where", (Holds((inside,)), value, Const("-inf", "fp32")), "fp32")

    def _exponential(self, element: AxisExpr, inside: Within) -> tuple[tuple[Stmt, ...], Value]:
        shifted = Call("sub", (Element("row", element, "fp32"), Reg("m", "fp32")), "fp32")
        kept = Call("where", (Holds((inside,)), Call("exp", (shifted,), "fp32"), Const(0, "fp32")), "fp32")
        return (SetElement("row", element, kept),), Element("row", element, "fp32")

    def _row(self, name: str, fn: str, start: Const, term: object) -> Iterator[Stmt]:
        """The reduction of a row: a thread's elements, the lanes of a warp, then the warps."""
        own = f"{name}_own"
        yield Let(own, start, mutable=True)
        number, element, inside = self._each(f"{name}_i")
        before, value = term(element, inside)  # type: ignore[operator]
        step = Assign(own, Call(fn, (Reg(own, "fp32"), value), "fp32"))
        yield GpuFor(number, ZERO, constant(self.turns * self.width), (*before, step), unroll=True)
        for by in (16, 8, 4, 2, 1):
            other = Shuffle("xor", Reg(own, "fp32"), constant(by), "fp32")
            yield Assign(own, Call(fn, (Reg(own, "fp32"), other), "fp32"))
        place = At(f"{name}_warps", (self.axis(WARP),))
        yield GpuIf((Within(self.axis(LANE), 0, 1),), (StShared(place, Reg(own, "fp32")),))
        yield Barrier()
        yield Let(name, start, mutable=True)
        warp, which = self.loop(f"{name}_warp", self.warps)
        total = Call(fn, (Reg(name, "fp32"), LoadShared(At(f"{name}_warps", (which,)), "fp32")), "fp32")
        yield GpuFor(warp, ZERO, constant(self.warps), (Assign(name, total),), unroll=True)

    def _store(self) -> Iterator[Stmt]:
        number, element, _ = self._each("o")
        quotient = Call("fdiv", (Element("row", element, "fp32"), Reg("s", "fp32")), "fp32")
        scale = SetElement("row", element, quotient)
        yield GpuFor(number, ZERO, constant(self.turns * self.width), (scale,), unroll=True)
        number, turn = self.loop("out_piece", self.turns)
        at, inside = self._at(turn)
        move: Stmt
        if self.width > 1:
            move = StGlobalVec("y", at, "row", turn * self.width, self.width, (inside,))
        else:
            move = StGlobal("y", at, Element("row", turn, "fp32"), (inside,))
        yield GpuFor(number, ZERO, constant(self.turns), (move,), unroll=True)
