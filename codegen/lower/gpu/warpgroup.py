"""Products on the tensor cores of Hopper: a warpgroup multiplies 64 rows by all columns of the block's tile, straight
from shared memory, while its threads go on.

    proxy_fence; barrier                           the stage is filled, and products may read it
    wgmma_fence acc
    wgmma acc += As[stage][64*(warp/4), …] · Bs[stage][…]    16 terms, four times
    wgmma_commit
    copies for a later turn
    wgmma_wait acc 1                               the products of the turn before are complete

The products of one turn are still running when those of the next one are started.
"""

from __future__ import annotations

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.contraction_frame import GpuContractionFrame
from codegen.lower.gpu.main_loop import Between
from codegen.lower.gpu.operand_tile import OperandTile
from codegen.lower.gpu.tensor_core import MatrixFragment
from ir.index.expr import ZERO, AxisExpr, constant
from ir.kernel.gpu.limits import WARPGROUP, WARPGROUP_ROWS
from ir.kernel.gpu.nodes import Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait


class WarpgroupCore(MatrixFragment):
    """A fragment, with the code that has products added to it."""

    def __init__(
        self, frame: GpuContractionFrame, rows: OperandTile, columns: OperandTile, *, name: str = "acc"
    ) -> None:
        super().__init__(frame.writer, frame.tile, name)
        self.rows, self.columns, self.tile = rows, columns, frame.tile
        self.first_row = self.writer.split(self.writer.warp, WARPGROUP)[0] * WARPGROUP_ROWS

    def multiply(self, block: GpuBlock, stage: AxisExpr, between: Between) -> None:
        """Starts the products of all terms of a stage and a turn's copies, and waits for the products of the turn
        before."""
        terms = self.tile.bk // self.tile.steps
        block.add(WgmmaFence(self.acc))
        with block.loop("step", constant(self.tile.steps), unroll=True) as (body, step):
            rows = self.rows.at(self.first_row, step * terms, stage)
            body.add(Wgmma(self.tile.multiplied, self.acc, rows, self.columns.at(ZERO, step * terms, stage)))
        block.add(WgmmaCommit())
        between(block, ZERO, 1)
        block.add(WgmmaWait(self.acc, self.tile.lag))

    def finish(self, block: GpuBlock) -> None:
        """Waits for all products."""
        block.add(WgmmaWait(self.acc, 0))
