"""The loop over the terms: a ring of stages, which are filled some turns before products use them.

fill the stages of the first turns
for every turn but the last ones:
  wait for this turn's stage; barrier: all threads have it, and all have read the stage of the turn before
  products of this turn's stage, between whose steps the stage of the turn before is filled for a later turn
for the last turns, whose stages are filled: the same without copies

Products that load fragments a step ahead may do so across turns: then the wait for the next turn's stage, the barrier
and the load of its first fragments stand before the last step's products, which hide them.

Products that run by themselves may lag: those of a turn still read its stage in the next turn. A stage is then filled a
turn later, and threads show their writes to the products before the barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.operand_tile import OperandTile
from ir.index.expr import ZERO, AxisExpr, constant, mod
from ir.kernel.gpu.nodes import Barrier, CommitGroup, ProxyFence, WaitGroup
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
Between = Callable[[GpuBlock, AxisExpr, int], None]
"""Writes, into a block within step number `step` of so many steps, the step's share of a turn's copies."""


def no_copies(block: GpuBlock, step: AxisExpr, steps: int) -> None:
    """The share of a turn that copies nothing."""


Multiply = Callable[[GpuBlock, AxisExpr, AxisExpr, Between], None]
"""multiply(body, turn, stage, between) writes the products of a turn, whose operands are in that stage, and calls
`between` once, in each of its steps or before them."""


class StepsAhead(Protocol):
    """Products whose fragments are loaded a step ahead, also where the next step is the first one of the next turn."""

    def load_first(self, block: GpuBlock, stage: AxisExpr) -> None:
        """Loads the fragments of a stage's first step."""
        ...

    def multiply_but_last(self, block: GpuBlock, stage: AxisExpr, between: Between) -> None:
        """Adds the products of all steps but the last; fragments of the first step are loaded, those of the last step
        are at the end. Every step writes its share of copies."""
        ...

    def multiply_last(self, block: GpuBlock) -> None:
        """Adds the products of the last step, whose fragments are loaded."""
        ...


def main_loop(
    block: GpuBlock,
    operands: Sequence[OperandTile],
    products: Multiply | StepsAhead,
    stages: int,
    turns: int,
    part: TurnRange = WHOLE,
    filled: Callable[[GpuBlock], None] = lambda _: None,
    lag: int = 0,
) -> None:
    """Writes the main loop. The tile has `turns` turns, and the block runs the turns of `part`. `filled` writes code
    before the first turn, after the copies of the first stages have started. `StepsAhead` need operands that are all
    copied. `lag`: turns whose products may still run when those of the next turn are started."""
    _MainLoop(block, operands, products, stages, turns, part, lag).write(filled)


@dataclass(frozen=True)
class _MainLoop:
    block: GpuBlock
    operands: Sequence[OperandTile]
    products: Multiply | StepsAhead
    stages: int
    turns: int
    part: TurnRange
    lag: int

    @property
    def own(self) -> int:
        """Turns of a block, at most."""
        return self.part.most or self.turns

    @property
    def ahead(self) -> int:
        """Turns before its products in which a stage is filled."""
        return max(self.stages - 1 - self.lag, 1)

    @property
    def copied(self) -> bool:
        return any(operand.is_copied for operand in self.operands)

    @property
    def is_known(self) -> bool:
        """Whether every block runs the same number of turns, known when the kernel is written."""
        return self.part.stop is None and self.turns % self.own == 0

    def write(self, filled: Callable[[GpuBlock], None]) -> None:
        block = self.block
        block.add(Comment("fill the ring"))
        with block.loop("stage", constant(self.ahead)) as (body, stage):
            with body.guard(*self._exists(stage)) as inside:
                self._fetch(inside, stage)
                self._copy(inside, stage, ZERO, 1)
            self._commit(body)
            self._put(body, stage)
        filled(block)
        block.add(Comment("the products"))
        if not callable(self.products):
            self._load_first(block, ZERO, self.products)
        if not self.is_known:
            self._turns(ZERO, self._count(), fills=self.own > self.ahead)
            return
        filling = max(0, self.own - self.ahead)
        if filling:
            self._turns(ZERO, constant(filling), fills=True)
            block.add(Comment("the last turns, whose stages are filled"))
        self._turns(constant(filling), constant(self.own), fills=False)

    def _turns(self, start: AxisExpr, stop: AxisExpr, *, fills: bool) -> None:
        """Writes turns. `fills`: each fills the stage of a later turn, if there is one."""
        is_last = stop == start.shift(1) and not fills
        with self.block.loop("turn", stop, start=start) as (body, turn):
            if callable(self.products):
                self._turn(body, turn, self.products, fills=fills, is_last=is_last)
            else:
                self._turn_ahead(body, turn, self.products, fills=fills, is_last=is_last)

    def _turn(self, body: GpuBlock, turn: AxisExpr, multiply: Multiply, *, fills: bool, is_last: bool) -> None:
        later = turn.shift(self.ahead)
        self._await_stage(body)
        if fills:
            with body.guard(*self._exists(later)) as inside:
                self._fetch(inside, later)
        multiply(body, self.part.first + turn, self._stage(turn), self._copies(turn, fills=fills))
        if not is_last:
            self._commit(body)  # perhaps an empty group: a later wait counts the groups committed since
        if fills:
            self._put(body, later)

    def _turn_ahead(self, body: GpuBlock, turn: AxisExpr, products: StepsAhead, *, fills: bool, is_last: bool) -> None:
        products.multiply_but_last(body, self._stage(turn), self._copies(turn, fills=fills))
        if not is_last:
            self._commit(body)
            self._load_first(body, turn.shift(1), products)
        products.multiply_last(body)

    def _load_first(self, block: GpuBlock, turn: AxisExpr, products: StepsAhead) -> None:
        """If there is such a turn: waits for its stage, and loads the fragments of its first step."""
        with block.guard(*self._exists(turn)) as inside:
            self._await_stage(inside)
            products.load_first(inside, self._stage(turn))

    def _await_stage(self, block: GpuBlock) -> None:
        """Waits until all threads have the stage of the next products, and have read the stage before."""
        if self.copied:
            block.add(WaitGroup(self.ahead - 1))
        if self.lag:
            block.add(ProxyFence())
        block.add(Barrier())

    def _copies(self, turn: AxisExpr, *, fills: bool) -> Between:
        """The copies of a turn, which fill the stage of a later turn."""
        later = turn.shift(self.ahead)

        def between(block: GpuBlock, step: AxisExpr, steps: int) -> None:
            with block.guard(*self._exists(later)) as inside:
                self._copy(inside, later, step, steps)

        return between if fills else no_copies

    def _count(self) -> AxisExpr:
        """The turns of the block."""
        if self.part.stop is not None:
            return self.part.stop
        return self.block.bind("turns", constant(self.turns) - self.part.first, self.own)

    def _exists(self, turn: AxisExpr) -> tuple[Within, ...]:
        stop, is_cut = self.part.stop, self.turns % self.own != 0
        before_stop = [] if stop is None else [Within(stop - turn, 1, self.own + 1)]
        cut = [Within(self.part.first + turn, 0, self.turns)] if is_cut else []
        return (Within(turn, 0, self.own), *cut, *before_stop)

    def _stage(self, turn: AxisExpr) -> AxisExpr:
        return mod(turn, self.stages, self.block.writer.box)

    def _fetch(self, block: GpuBlock, turn: AxisExpr) -> None:
        """Starts to compute the operands that are not copied."""
        for operand in self.operands:
            if not operand.is_copied:
                operand.fetch(block, self.part.first + turn, self._stage(turn))

    def _copy(self, block: GpuBlock, turn: AxisExpr, step: AxisExpr, steps: int) -> None:
        """Starts the copies of one of so many steps."""
        for operand in self.operands:
            if operand.is_copied:
                operand.fetch(block, self.part.first + turn, self._stage(turn), step, steps)

    def _commit(self, block: GpuBlock) -> None:
        if self.copied:
            block.add(CommitGroup())

    def _put(self, block: GpuBlock, turn: AxisExpr) -> None:
        """Stores the operands that are not copied."""
        with block.guard(*self._exists(turn)) as inside:
            for operand in self.operands:
                operand.put(inside, self._stage(turn))
