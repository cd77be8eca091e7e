"""Products on CUDA cores: a thread multiplies rows by columns that it keeps in registers.

    a[…] := As[stage][k, rows…]      vectors along rows where they lie along rows, along k where they lie along k
    b[…] := Bs[stage][k, columns…]
    acc[i, j] := fma(a[i], b[j], acc[i, j])

The tile of a warp is dealt to its lanes vector by vector, so that neighbouring lanes read neighbouring vectors.
"""

from __future__ import annotations

import math

from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.contraction_frame import GpuContractionFrame
from codegen.lower.gpu.main_loop import Between, no_copies
from codegen.lower.gpu.operand_tile import OperandTile
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, constant
from ir.kernel.gpu.nodes import Call, Element, LdSharedVec, LoadShared, SetElement, Value
from ir.plan.gpu import ContractionTile

_UNROLLED = 1024
"""Multiply-adds of a thread in a stage up to which the loop over the steps is unrolled."""


class _Operand:
    """A thread's rows or columns: `count` of them for `terms` terms, `step` side by side."""

    def __init__(self, tile: OperandTile, name: str, count: int, terms: int, step: int) -> None:
        self.writer, self.tile, self.count, self.terms, self.step = tile.frame.writer, tile, count, terms, step
        self.vector = terms if tile.staged.along_k else step
        self.dtype = tile.staged.dtype
        self.name = self.writer.array(name, self.dtype, count * terms)

    def element(self, number: AxisExpr, term: AxisExpr) -> Element:
        index = number * self.terms + term if self.tile.staged.along_k else term * self.count + number
        return Element(self.name, index, self.dtype)

    def load(
        self, block: GpuBlock, first: AxisExpr, lane: AxisExpr, lanes: int, term: AxisExpr, stage: AxisExpr
    ) -> None:
        """The rows or columns from `first` on of the block's tile, for the terms from `term` on."""
        vector, along_k = self.vector, self.tile.staged.along_k
        outer, inner = (self.count, 1) if along_k else (self.terms, self.count // vector)
        with (
            block.loop(f"{self.name}_i", constant(outer), unroll=True) as (body, i),
            body.loop(f"{self.name}_j", constant(inner), unroll=True) as (vectors, j),
        ):
            number, at_term = (i, term) if along_k else (j * vector, term + i)
            own = first + _lane_index(self.writer, number, lane, lanes, self.step)
            place = self.tile.at(own, at_term, stage)
            index = i * self.terms if along_k else i * self.count + j * vector
            if vector > 1:
                vectors.add(LdSharedVec(self.name, index, vector, place))
            else:
                vectors.add(SetElement(self.name, index, LoadShared(place, self.dtype)))


class ThreadFragment:
    """The accumulators of a thread's tile, and their rows and columns. `steps`: how many neighbouring rows, and
    columns, a thread has before those of the next lane."""

    def __init__(
        self, writer: GpuWriter, tile: ContractionTile, dtype: str, steps: tuple[int, int] = (1, 1), name: str = "acc"
    ) -> None:
        assert tile.thread is not None
        self.writer, self.dtype, self.steps = writer, dtype, steps
        self.tm, self.tn = tile.thread
        warp_row, warp_column = writer.split(writer.warp, tile.warps[1])
        self.row, self.column = warp_row * tile.warp_m, warp_column * tile.warp_n
        self.lanes = tile.lanes
        self.lane_row, self.lane_column = writer.split(writer.lane, self.lanes[1])
        self.own_rows, self.count = self.tm, self.tm * self.tn
        self.acc = writer.array(name, dtype, self.count, zero=True)

    @property
    def neighbours(self) -> int:
        """Columns side by side in a thread's registers."""
        return self.steps[1]

    @property
    def across(self) -> int:
        """Lanes side by side that have the same rows."""
        return self.lanes[1]

    def place(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        """Row and column in the block's tile of accumulator register `element`."""
        i, j = self.writer.split(element, self.tn)
        return self.row_place(i), self.column + _lane_index(
            self.writer, j, self.lane_column, self.lanes[1], self.steps[1]
        )

    def row_of(self, element: AxisExpr) -> AxisExpr:
        """Which of the thread's rows a register is of."""
        return self.writer.split(element, self.tn)[0]

    def row_place(self, row: AxisExpr) -> AxisExpr:
        """Where in the block's tile a row of the thread is."""
        return self.row + _lane_index(self.writer, row, self.lane_row, self.lanes[0], self.steps[0])


class CudaCore(ThreadFragment):
    """A fragment, with the code that adds products to it."""

    def __init__(
        self, frame: GpuContractionFrame, rows: OperandTile, columns: OperandTile, *, name: str = "acc"
    ) -> None:
        tile, dtype = frame.tile, frame.view.accumulator
        assert tile.thread is not None
        vector = 16 // DTYPES[dtype].bytes
        self.bk, self.terms = tile.bk, vector if rows.staged.along_k or columns.staged.along_k else 1
        sides = zip((rows, columns), tile.thread, strict=True)
        a, b = (1 if operand.staged.along_k else math.gcd(vector, own) for operand, own in sides)
        super().__init__(frame.writer, tile, dtype, (a, b), name)
        self.a = _Operand(rows, "a", self.tm, self.terms, a)
        self.b = _Operand(columns, "b", self.tn, self.terms, b)

    def multiply(self, block: GpuBlock, stage: AxisExpr, between: Between = no_copies) -> None:
        """Adds the products of all terms of a stage, in their order. All copies come first: a step may be a turn of a
        loop that is not unrolled."""
        between(block, ZERO, 1)
        unroll_steps = self.bk * self.count <= _UNROLLED
        with block.loop("step", constant(self.bk // self.terms), unroll=unroll_steps) as (body, step):
            first = step * self.terms
            self.a.load(body, self.row, self.lane_row, self.lanes[0], first, stage)
            self.b.load(body, self.column, self.lane_column, self.lanes[1], first, stage)
            with (
                body.loop("t", constant(self.terms), unroll=True) as (inner, term),
                inner.loop("i", constant(self.tm), unroll=True) as (row, i),
                row.loop("j", constant(self.tn), unroll=True) as (innermost, j),
            ):
                index = i * self.tn + j
                innermost.add(SetElement(self.acc, index, self._sum(index, i, j, term)))

    def _sum(self, index: AxisExpr, i: AxisExpr, j: AxisExpr, term: AxisExpr) -> Value:
        a, b, acc = self.a.element(i, term), self.b.element(j, term), Element(self.acc, index, self.dtype)
        if DTYPES[self.dtype].is_float:
            return Call("fma", (a, b, acc), self.dtype)
        return Call("add", (acc, Call("mul", (a, b), self.dtype)), self.dtype)


def _lane_index(writer: GpuWriter, number: AxisExpr, lane: AxisExpr, lanes: int, step: int) -> AxisExpr:
    """The row or column of the warp's tile that is number `number` of a lane."""
    vector, inside = writer.split(number, step)
    return vector * (step * lanes) + lane * step + inside
