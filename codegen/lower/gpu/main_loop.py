"""The loop over the terms: a ring of stages, which are filled some turns before products use them.

fill the stages of the first turns
for every turn:
  wait for this turn's stage; barrier: all threads have it, and all have read the stage of the turn before
  fill the stage of the turn before, for a later turn
  products of this turn's stage
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.operand_tile import OperandTile
from ir.index.expr import ZERO, AxisExpr, constant, mod
from ir.kernel.gpu.nodes import Barrier, CommitGroup, WaitGroup
from ir.kernel.nodes import Comment, Within


class Fragment(Protocol):
    """A thread's accumulators, and their rows and columns."""

    @property
    def acc(self) -> str:
        """The name of the array of registers."""
        ...

    @property
    def count(self) -> int:
        """The number of registers."""
        ...

    @property
    def neighbours(self) -> int:
        """Neighbouring columns in a thread's registers."""
        ...

    def place(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        """Row and column in the block's tile of accumulator register `element`."""
        ...


class TurnRange(NamedTuple):
    """The turns of one block: from turn `first` of the tile on, at most `most` (0: all), and at most `stop`, which is 1
    at least."""

    first: AxisExpr
    most: int
    stop: AxisExpr | None = None


WHOLE = TurnRange(ZERO, 0)


def main_loop(
    block: GpuBlock,
    operands: Sequence[OperandTile],
    multiply: Callable[[GpuBlock, AxisExpr, AxisExpr], None],
    stages: int,
    turns: int,
    part: TurnRange = WHOLE,
    filled: Callable[[GpuBlock], None] = lambda _: None,
) -> None:
    """Writes the main loop, with multiply(body, turn, stage) in every turn: the turn's operands are in that stage. The
    tile has `turns` turns, the block runs those of `part`. `filled` writes code before the first turn, after the copies
    of the first stages have started."""
    ahead = max(stages - 1, 1)
    copied = any(operand.is_copied for operand in operands)
    first, own = part.first, part.most or turns
    is_cut = turns % own != 0

    def exists(turn: AxisExpr) -> tuple[Within, ...]:
        before_stop = [] if part.stop is None else [Within(part.stop - turn, 1, own + 1)]
        return (Within(turn, 0, own), *([Within(first + turn, 0, turns)] if is_cut else []), *before_stop)

    def fetch(body: GpuBlock, turn: AxisExpr) -> None:
        with body.guard(*exists(turn)) as inside:
            for operand in operands:
                operand.fetch(inside, first + turn, mod(turn, stages, body.writer.box))
        if copied:
            body.add(CommitGroup())

    def put(body: GpuBlock, turn: AxisExpr) -> None:
        with body.guard(*exists(turn)) as inside:
            for operand in operands:
                operand.put(inside, mod(turn, stages, body.writer.box))

    block.add(Comment("fill the ring"))
    with block.loop("stage", constant(ahead)) as (body, stage):
        fetch(body, stage)
        put(body, stage)
    filled(block)
    block.add(Comment("the products"))
    stop = part.stop
    if stop is None:
        stop = block.bind("turns", constant(turns) - first, own) if is_cut else constant(own)
    with block.loop("turn", stop) as (body, turn):
        if copied:
            body.add(WaitGroup(ahead - 1))
        body.add(Barrier())
        if own > ahead:
            fetch(body, turn.shift(ahead))
        elif copied and own > 1:
            body.add(CommitGroup())  # an empty group: a wait counts the groups committed since
        multiply(body, first + turn, mod(turn, stages, body.writer.box))
        if own > ahead:
            put(body, turn.shift(ahead))
