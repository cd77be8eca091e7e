"""The loops around a contraction's register tile, as kernel variables: tasks, blocks of k, and the current digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.lower.cpu.builder import CpuBlock, CpuWriter, LaneAxis
from codegen.lower.cpu.lane_evaluator import LaneEvaluator
from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.contraction_tiling import block_axis
from ir.index.expr import ZERO, AxisExpr, constant, coordinates, floordiv, interval, mod, substitute, weighted_sum
from ir.kernel.nodes import Bind
from ir.plan.cpu import Blocks

Digits = dict[int, AxisExpr]
"""Digit of the contraction → its current value, an expression over kernel variables."""


@dataclass(frozen=True)
class CpuContractionFrame:
    """The state with which every part of the template writes. `at`: the digits that are bound. `aligned`: every panel
    of columns starts at a multiple of the register tile's columns."""

    view: Contraction
    blocks: Blocks
    writer: CpuWriter
    evaluator: LaneEvaluator
    at: Mapping[int, AxisExpr]
    aligned: bool = True

    @property
    def lanes(self) -> int:
        return self.writer.lanes

    def with_digits(self, digits: Mapping[int, AxisExpr]) -> CpuContractionFrame:
        """The frame with more digits bound."""
        return replace(self, at={**self.at, **digits})

    def view_as(self, view: Contraction, blocks: Blocks | None = None, *, aligned: bool = True) -> CpuContractionFrame:
        """The frame of another contraction with the same numbering of digits, at the current digits."""
        return replace(self, view=view, blocks=blocks or self.blocks, aligned=aligned)

    def digits(self) -> tuple[AxisExpr, ...]:
        """All current digits; digits that are not bound have one point, 0."""
        return tuple(self.at.get(position, ZERO) for position in range(len(self.view.sizes)))

    def point(self) -> tuple[AxisExpr, ...]:
        """The current point of the op's domain."""
        return self.place(self.view.roles.point.exprs)

    def place(self, exprs: Sequence[AxisExpr]) -> tuple[AxisExpr, ...]:
        """Expressions over the digits as expressions over kernel variables."""
        count = self.digits()
        return tuple(substitute(expr, count, self.writer.box) for expr in exprs)

    def along(self, group: Sequence[int], counter: AxisExpr) -> Digits:
        """The digits of `group` at point `counter` of their row-major box."""
        sizes = [self.view.sizes[position] for position in group]
        return dict(zip(group, coordinates(counter, sizes, self.writer.box), strict=True))

    def index(self, group: Sequence[int]) -> AxisExpr:
        """The inverse of `along`: the row-major position of the digits of `group`."""
        weight, parts = 1, []
        for position in reversed(group):
            parts.append((self.at.get(position, ZERO), weight))
            weight *= self.view.sizes[position]
        return weighted_sum(0, parts)


@dataclass(frozen=True)
class DepthBlock:
    """One block of k: `count` terms from term `first` on.

    Digits before `axis` are fixed. `axis`, of size `limit`, goes from `start` for `step` steps, fewer in the last
    block. The digits `inner` after it run over all their points: `terms` terms per step.
    """

    axis: int | None
    inner: tuple[int, ...]
    terms: int
    start: AxisExpr
    step: int
    limit: int
    first: AxisExpr
    count: AxisExpr

    @property
    def most(self) -> int:
        """Terms of the longest block."""
        return self.step * self.terms


def bound(block: CpuBlock, name: str, expr: AxisExpr, high: int) -> AxisExpr:
    """`expr`, which lies in [0, high], as a variable `name`."""
    if not expr.terms:
        return expr
    writer = block.writer
    variable = writer.variable(name, 0, high)
    block.add(Bind(variable, expr))
    block.variables.add(variable)
    return writer.axis(variable)


def least(block: CpuBlock, name: str, exprs: Sequence[AxisExpr], high: int, low: int = 0) -> AxisExpr:
    """The least of `exprs` and `high`, but at least `low`."""
    writer = block.writer
    constants = [expr.const for expr in exprs if not expr.terms]
    high = min([high, *constants])
    moving = [expr for expr in exprs if expr.terms]
    if not moving or high <= low:
        return constant(max(high, low))
    variable = writer.variable(name, low, high)
    floor = () if all(interval(expr, writer.box)[0] >= low for expr in moving) else (constant(low),)
    block.add(Bind(variable, moving[0], most=(*moving[1:], constant(high)), least=floor))
    block.variables.add(variable)
    return writer.axis(variable)


def greatest(block: CpuBlock, name: str, exprs: Sequence[AxisExpr], high: int) -> AxisExpr:
    """The greatest of `exprs` and 0, but at most `high`."""
    moving = [expr for expr in exprs if expr.terms]
    low = max([0, *(expr.const for expr in exprs if not expr.terms)])
    if not moving or low >= high:
        return constant(min(low, high))
    writer = block.writer
    variable = writer.variable(name, low, high)
    block.add(Bind(variable, moving[0], most=(constant(high),), least=(*moving[1:], constant(low))))
    block.variables.add(variable)
    return writer.axis(variable)


def tail_lanes(block: CpuBlock, left: Sequence[AxisExpr], *, whole: bool) -> AxisExpr | None:
    """How many lanes exist when so many elements are left; None when all lanes exist (`whole`)."""
    if whole:
        return None
    lanes = block.writer.lanes
    count = least(block, "n", left, lanes)
    return None if count == constant(lanes) else count


def lanes_along(block: CpuBlock, variable: int, left: Sequence[AxisExpr], *, whole: bool) -> None:
    """Makes the lanes of `block` run along `variable`: as many lanes as `left` says, all when `whole`."""
    block.lane_axis = LaneAxis(variable, tail_lanes(block, left, whole=whole))


def depth_blocks(view: Contraction, blocks: Blocks) -> int:
    """How many blocks of k there are; 1 for an empty sum."""
    if not view.k or not view.depth:
        return 1
    axis, terms = block_axis(view, blocks.bk)
    step = blocks.bk // terms
    return view.depth // (terms * view.sizes[axis]) * -(-view.sizes[axis] // step)


def depth_block(
    frame: CpuContractionFrame, block: CpuBlock, number: AxisExpr
) -> tuple[CpuContractionFrame, DepthBlock]:
    """Block `number` of k; the frame has the digits before its axis."""
    view, box = frame.view, frame.writer.box
    if not view.k or not view.depth:
        zero = constant(0)
        return frame, DepthBlock(None, (), 1, zero, 1, 1, zero, constant(min(view.depth, 1)))
    axis, terms = block_axis(view, frame.blocks.bk)
    place = view.k.index(axis)
    before, inner = view.k[:place], view.k[place + 1 :]
    size, step = view.sizes[axis], frame.blocks.bk // terms
    per_axis = -(-size // step)
    outer = floordiv(number, per_axis, box)
    start = bound(block, "k0", mod(number, per_axis, box) * step, (per_axis - 1) * step)
    frame = frame.with_digits(frame.along(before, outer))
    first = outer * (size * terms) + start * terms
    left = (constant(size) - start) * terms
    count = constant(step * terms) if size % step == 0 else least(block, "kc", [left], step * terms)
    return frame, DepthBlock(axis, inner, terms, start, step, size, first, count)
