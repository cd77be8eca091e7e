"""The loop over the terms: a ring of stages, filled ahead of the products that use them.

fill the stages that the first turns use
for each turn:
  wait for the oldest stage; barrier: all have it, and all have read the one before it
  fill that one for a turn ahead
  products of the oldest
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from codegen.lower.gpu.builder import Block
from codegen.lower.gpu.operand_tile import OperandTile
from ir.axis_expr import AxisExpr, constant, mod
from ir.gpu_nodes import Barrier, CommitGroup, WaitGroup
from ir.kernel_nodes import Comment, Within


class Product(Protocol):
    """What multiplies fragments: its accumulators, and where they stand."""

    acc: str
    count: int

    @property
    def neighbours(self) -> int:
        """Columns side by side in a thread's registers."""
        ...

    def place(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        """Row and column in the block's tile of accumulator register `element`."""
        ...

    def multiply(self, block: Block, stage: AxisExpr) -> None:
        """Adds the products of all terms of a stage."""
        ...


def main_loop(block: Block, operands: Sequence[OperandTile], product: Product, stages: int, turns: int) -> None:
    """Sums all terms into the accumulators."""
    ahead = max(stages - 1, 1)
    copied = any(each.is_copied for each in operands)

    def fetch(body: Block, turn: AxisExpr) -> None:
        with body.guard(Within(turn, 0, turns)) as inside:
            for each in operands:
                each.fetch(inside, turn, mod(turn, stages, body.writer.box))
        if copied:
            body.add(CommitGroup())

    def put(body: Block, turn: AxisExpr) -> None:
        with body.guard(Within(turn, 0, turns)) as inside:
            for each in operands:
                each.put(inside, mod(turn, stages, body.writer.box))

    block.add(Comment("fill the ring"))
    with block.loop("stage", constant(ahead)) as (body, stage):
        fetch(body, stage)
        put(body, stage)
    block.add(Comment("the products"))
    with block.loop("turn", constant(turns)) as (body, turn):
        if copied:
            body.add(WaitGroup(ahead - 1))
        body.add(Barrier())
        if turns > ahead:
            fetch(body, turn.shift(ahead))
        product.multiply(body, mod(turn, stages, body.writer.box))
        if turns > ahead:
            put(body, turn.shift(ahead))
