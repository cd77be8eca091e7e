"""Products on CUDA cores: each thread multiplies rows by columns that it keeps in registers.

    a[…] := As[stage][k, rows…]      vectors along rows where they lie along rows, along k where they lie along k
    b[…] := Bs[stage][k, columns…]
    acc[i, j] := fma(a[i], b[j], acc[i, j])

The lanes of a warp share its tile out in steps of a vector, so that neighbouring lanes read neighbouring vectors.
"""

from __future__ import annotations

import math

from codegen.lower.gpu.builder import Block
from codegen.lower.gpu.contraction_frame import Frame
from codegen.lower.gpu.operand_tile import OperandTile
from ir.axis_expr import AxisExpr, constant
from ir.dtype import DTYPES
from ir.gpu_nodes import At, Call, Element, LdSharedVec, LoadShared, SetElement, Value


class _Fragment:
    """A thread's rows or columns: `count` of them for `terms` terms."""

    def __init__(self, frame: Frame, tile: OperandTile, name: str, count: int, terms: int, vector: int) -> None:
        self.writer, self.tile, self.count, self.terms = frame.writer, tile, count, terms
        along_k = tile.staged.along_k
        self.vector = terms if along_k else math.gcd(vector, count)
        self.step = 1 if along_k else self.vector
        self.dtype = tile.staged.dtype
        self.name = self.writer.array(name, self.dtype, count * terms)

    def own(self, number: AxisExpr, lane: AxisExpr, lanes: int) -> AxisExpr:
        """Which row or column of the warp's tile a lane's number `number` is."""
        vector, inside = self.writer.split(number, self.step)
        return vector * (self.step * lanes) + lane * self.step + inside

    def element(self, number: AxisExpr, term: AxisExpr) -> Element:
        index = number * self.terms + term if self.tile.staged.along_k else term * self.count + number
        return Element(self.name, index, self.dtype)

    def load(self, block: Block, first: AxisExpr, lane: AxisExpr, lanes: int, term: AxisExpr, stage: AxisExpr) -> None:
        """The rows or columns from `first` on of the block's tile, for the terms from `term` on."""
        name, vector = self.tile.shared.name, self.vector
        along_k = self.tile.staged.along_k
        outer, inner = (self.count, 1) if along_k else (self.terms, self.count // vector)
        with (
            block.loop(f"{self.name}_i", constant(outer), unroll=True) as (body, i),
            body.loop(f"{self.name}_j", constant(inner), unroll=True) as (each, j),
        ):
            number, at_term = (i, term) if along_k else (j * vector, term + i)
            place = At(name, self.tile.place(first + self.own(number, lane, lanes), at_term), stage)
            index = i * self.terms if along_k else i * self.count + j * vector
            if vector > 1:
                each.add(LdSharedVec(self.name, index, vector, place))
            else:
                each.add(SetElement(self.name, index, LoadShared(place, self.dtype)))


class CudaCore:
    """The accumulators of a thread's tile, and what adds products to them."""

    def __init__(self, frame: Frame, rows: OperandTile, columns: OperandTile) -> None:
        tile, view, self.writer = frame.tile, frame.view, frame.writer
        assert tile.thread is not None
        self.tm, self.tn = tile.thread
        self.dtype, self.bk = view.accumulator, tile.bk
        vector = 16 // DTYPES[self.dtype].bytes
        self.terms = vector if rows.staged.along_k or columns.staged.along_k else 1
        warp_row, warp_column = self.writer.split(self.writer.warp, tile.warps[1])
        self.row, self.column = warp_row * tile.warp_m, warp_column * tile.warp_n
        self.lanes = tile.lanes
        self.lane_row, self.lane_column = self.writer.split(self.writer.lane, self.lanes[1])
        self.count = self.tm * self.tn
        self.acc = self.writer.array("acc", self.dtype, self.count, zero=True)
        self.a = _Fragment(frame, rows, "a", self.tm, self.terms, vector)
        self.b = _Fragment(frame, columns, "b", self.tn, self.terms, vector)

    @property
    def neighbours(self) -> int:
        """Columns side by side in a thread's registers."""
        return self.b.step

    def place(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        """Row and column in the block's tile of accumulator register `element`."""
        i, j = self.writer.split(element, self.tn)
        row = self.row + self.a.own(i, self.lane_row, self.lanes[0])
        return row, self.column + self.b.own(j, self.lane_column, self.lanes[1])

    def multiply(self, block: Block, stage: AxisExpr) -> None:
        """Adds the products of all terms of a stage, in their order."""
        with block.loop("step", constant(self.bk // self.terms), unroll=True) as (body, step):
            first = step * self.terms
            self.a.load(body, self.row, self.lane_row, self.lanes[0], first, stage)
            self.b.load(body, self.column, self.lane_column, self.lanes[1], first, stage)
            with (
                body.loop("t", constant(self.terms), unroll=True) as (inner, term),
                inner.loop("i", constant(self.tm), unroll=True) as (row, i),
                row.loop("j", constant(self.tn), unroll=True) as (each, j),
            ):
                index = i * self.tn + j
                each.add(SetElement(self.acc, index, self._sum(index, i, j, term)))

    def _sum(self, index: AxisExpr, i: AxisExpr, j: AxisExpr, term: AxisExpr) -> Value:
        a, b, acc = self.a.element(i, term), self.b.element(j, term), Element(self.acc, index, self.dtype)
        if DTYPES[self.dtype].is_float:
            return Call("fma", (a, b, acc), self.dtype)
        return Call("add", (acc, Call("mul", (a, b), self.dtype)), self.dtype)
