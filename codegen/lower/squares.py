"""Reads across memory, in squares: lanes × lanes elements are read along the inner loop and turned to the lanes around.

    Y[j, i] = f(X[i, j]), lanes along i
      for j in 0 .. n step lanes
        square = X[i .. i + lanes, j .. j + lanes], turned
        for j2 in j .. j + lanes
          Y[j2, i : unit] = f(square[j2 - j : unit])

What is only copied is turned straight into the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.lower.blocks import Block
from codegen.lower.lane_values import Point
from codegen.lower.lower_value import Evaluator
from codegen.plan.region_loops import View
from ir.axis_expr import ZERO, AxisExpr, substitute
from ir.cpu import Load, Scratch, Transpose, register_type
from ir.region import Operand


@dataclass(frozen=True)
class Square:
    """Where one square starts: along lanes where `block` stands, from `corner` on along the inner loop. `point_at`
    gives the outputs' point at a place of the inner loop."""

    ev: Evaluator
    reads: Sequence[View]
    corner: AxisExpr
    point_at: Callable[[AxisExpr], Point]

    def offset(self, read: View, at: AxisExpr) -> AxisExpr:
        """The element read at `at` of the inner loop."""
        point = self.point_at(at)
        return self.ev.offset(read.buffer, tuple(substitute(e, point, self.ev.writer.box) for e in read.map.exprs))

    def step(self, read: View, block: Block) -> int:
        """Elements between the neighbours of a read along lanes."""
        found = self.offset(read, self.corner).coeff(_lane(block))
        assert found is not None
        return found


def turned_copy(square: Square, block: Block) -> bool:
    """Turns the square into the only output, where the region is nothing but a copy; whether it is."""
    ev, writer = square.ev, square.ev.writer
    if len(square.reads) != 1 or len(ev.region.yields) != 1 or not _only_copies(ev):
        return False
    (read,), (stored,) = square.reads, ev.region.yields
    here, beyond = (ev.offset(stored.buffer, square.point_at(square.corner.shift(n))) for n in (0, 1))
    step = beyond - here
    if step.terms or here.coeff(_lane(block)) != 1:
        return False
    source = writer.buffer(read.buffer), square.offset(read, square.corner), square.step(read, block)
    block.add(Transpose(writer.buffer(stored.buffer), here, step.const, *source))
    return True


def turned_reads(square: Square, block: Block) -> list[str]:
    """Turns the square of each read into scratch of its own; the scratch by read."""
    writer, found = square.ev.writer, []
    for read in square.reads:
        name = writer.fresh("square")
        writer.private.append(Scratch(name, square.ev.dtype(read.buffer), writer.lanes**2))
        source = writer.buffer(read.buffer), square.offset(read, square.corner), square.step(read, block)
        block.add(Transpose(name, ZERO, writer.lanes, *source))
        found.append(name)
    return found


def read_from(square: Square, scratch: Sequence[str], block: Block, at: AxisExpr) -> None:
    """From here on, `block` finds what it reads at `at` of the inner loop in the turned squares."""
    ev = square.ev
    for read, name in zip(square.reads, scratch, strict=True):
        row = (at - square.corner) * ev.writer.lanes
        register = register_type(ev.dtype(read.buffer))
        ev.hold(read.buffer, square.offset(read, at), block, Load(name, row, register))


def _only_copies(ev: Evaluator) -> bool:
    """Whether the output's elements are those of an input, as they are."""
    (stored,) = ev.region.yields
    name, kinds = stored.value, {ev.dtype(stored.buffer)}
    while name in ev.ops:
        op = ev.ops[name]
        if op.kind != "copy" or not isinstance(op.inputs[0], Operand):
            return False
        kinds.add(op.dtype)
        name = op.inputs[0].value
    return kinds == {ev.dtype(name)}


def _lane(block: Block) -> int:
    assert block.lane_axis is not None
    return block.lane_axis.variable
