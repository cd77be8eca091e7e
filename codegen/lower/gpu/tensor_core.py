"""Products on tensor cores: fragments by ldmatrix, one step of 16 terms ahead of the mma that use them.

    ldmatrix x4 a[4*i] := As[stage][…]        16 rows × 16 terms of tile i
    ldmatrix x4 b[4*j] := Bs[stage][…]        16 terms × 16 columns of tiles 2j and 2j + 1
    mma m16n8k16 acc[…] += a[4*i] · b[2*j]

Tiles that lie along rows or columns in shared memory are transposed on the way. Layouts: `ir.device_functions`.
"""

from __future__ import annotations

from codegen.lower.gpu.builder import Block
from codegen.lower.gpu.contraction_frame import Frame
from codegen.lower.gpu.operand_tile import OperandTile
from ir.axis_expr import AxisExpr, constant, mod
from ir.gpu import WORD
from ir.gpu_nodes import At, LdMatrix, MmaSync
from ir.kernel_nodes import Within

SHAPE = "m16n8k16"
ROWS, COLUMNS, TERMS = 16, 8, 16
"""Of one mma."""
_ACC, _A, _B = 4, 4, 2
"""Registers of a lane."""


class TensorCore:
    """The accumulators of a warp's tile, and what adds products to them."""

    neighbours = 2
    """Columns side by side in a lane's registers."""

    def __init__(self, frame: Frame, rows: OperandTile, columns: OperandTile) -> None:
        tile, self.writer = frame.tile, frame.writer
        self.rows, self.columns, self.steps = rows, columns, tile.bk // TERMS
        self.mi, self.ni = tile.warp_m // ROWS, tile.warp_n // COLUMNS
        warp_row, warp_column = self.writer.split(self.writer.warp, tile.warps[1])
        self.row, self.column = warp_row * tile.warp_m, warp_column * tile.warp_n
        halves = min(self.steps, 2)
        self.count = _ACC * self.mi * self.ni
        self.acc = self.writer.array("acc", "fp32", self.count, zero=True)
        self.a = self.writer.array("a", WORD, halves * _A * self.mi)
        self.b = self.writer.array("b", WORD, halves * _B * self.ni)

    def place(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        """Row and column in the block's tile of accumulator register `element`."""
        split = self.writer.split
        fragment, inside = split(element, _ACC)
        i, j = split(fragment, self.ni)
        low, right = split(inside, 2)
        group, quad = split(self.writer.lane, 4)
        return self.row + i * ROWS + low * 8 + group, self.column + j * COLUMNS + quad * 2 + right

    def multiply(self, block: Block, stage: AxisExpr) -> None:
        """Adds the products of all terms of a stage."""
        self._load(block, constant(0), stage)
        with block.loop("step", constant(self.steps), unroll=True) as (body, step):
            if self.steps > 1:
                ahead = step.shift(1)
                with body.guard(Within(ahead, 0, self.steps)) as inside:
                    self._load(inside, ahead, stage)
            with (
                body.loop("i", constant(self.mi), unroll=True) as (row, i),
                row.loop("j", constant(self.ni), unroll=True) as (inner, j),
            ):
                acc = i * (_ACC * self.ni) + j * _ACC
                a, b = self._half(step, _A * self.mi) + i * _A, self._half(step, _B * self.ni) + j * _B
                inner.add(MmaSync(SHAPE, self.rows.staged.dtype, self.acc, acc, self.a, a, self.b, b))

    def _half(self, step: AxisExpr, registers: int) -> AxisExpr:
        """Where the fragments of a step lie: those of the next one are loaded beside them."""
        return mod(step, 2, self.writer.box) * registers

    def _load(self, block: Block, step: AxisExpr, stage: AxisExpr) -> None:
        self._matrices(block, self.rows, self.a, self.mi, self._half(step, _A * self.mi), step, stage)
        self._matrices(block, self.columns, self.b, self.ni // 2, self._half(step, _B * self.ni), step, stage)

    def _matrices(
        self,
        block: Block,
        tile: OperandTile,
        registers: str,
        count: int,
        first: AxisExpr,
        step: AxisExpr,
        stage: AxisExpr,
    ) -> None:
        """16 rows or columns × 16 terms at once: four matrices, in the order in which mma takes them."""
        of_rows = tile is self.rows
        warp = self.row if of_rows else self.column
        split, lane = self.writer.split, self.writer.lane
        upper, lower = split(lane, 16)
        middle, line = split(lower, 8)
        along_k = tile.staged.along_k
        if of_rows == along_k:  # lanes 0…15 run through the lines of two matrices
            near, far = lower, upper * 8
        else:
            near, far = upper * 8 + line, middle * 8
        with block.loop("i" if of_rows else "j", constant(count), unroll=True) as (body, number):
            own, term = (near, far) if along_k else (far, near)
            at = tile.place(warp + number * 16 + own, step * TERMS + term)
            place = At(tile.shared.name, at, stage)
            body.add(LdMatrix(registers, first + number * 4, place, 4, trans=not along_k))
