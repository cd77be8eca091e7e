"""Points: a thread has a few vectors of the outputs, and computes all that they need alone.

plan   points, loops "i0i1", 256 threads, 4 elements along i0i1
kernel p = 256*block_x + thread, where p < 1000: for v in 0 .. 4 unrolled: y[4*p + v] = …
"""

from __future__ import annotations

from codegen.lower.gpu.buffer_axes import merged_axes
from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.nest_evaluator import NestEvaluator
from codegen.lower.points import Point, Where
from codegen.plan.region_loops import RegionLoops
from ir.index.expr import ZERO, AxisExpr
from ir.index.map import support
from ir.kernel.nodes import Within
from ir.plan.gpu_nest import Points
from ir.region.region import Yield


def lower_points(loops: RegionLoops, points: Points, *, approximate: bool) -> tuple[NestEvaluator, GpuBlock]:
    """The evaluator, which holds the parts of the kernel, and the kernel's body."""
    writer = GpuWriter(points.threads, (points.blocks, 1, 1))
    runs = [axis for group in points.axes for axis in group]

    def terms(value: str) -> list[tuple[int, ...]]:
        return [group.axes for group in loops.reduce_groups(value)]

    ev = NestEvaluator(loops, writer, merged_axes(loops, [runs], terms), approximate=approximate)
    body = GpuBlock(writer)
    if 0 not in loops.shape:
        _turns(ev, points, body)
    return ev, body


def _turns(ev: NestEvaluator, points: Points, block: GpuBlock) -> None:
    """Writes the vectors of one thread."""
    writer = ev.writer
    with block.loop("turn", AxisExpr(points.turns), unroll=True) as (body, turn):
        chunk = points.threads * points.turns
        number = ev.named(body, "p", writer.block[0] * chunk + turn * points.threads + writer.thread)
        inside = Within(number, 0, points.whole)
        if points.rest:
            with body.guard(inside) as full:
                _vector(ev, points, number, full, ())
            with (
                body.guard(Within(number, points.whole, points.count)) as last,
                last.loop("left", AxisExpr(points.rest), unroll=True) as (inner, left),
            ):
                _write_all(ev, _point(ev, points, AxisExpr(points.whole), left), inner, ())
        else:
            _vector(ev, points, number, body, () if writer.proves(inside) else (inside,))


def _vector(ev: NestEvaluator, points: Points, number: AxisExpr, block: GpuBlock, where: Where) -> None:
    lane = ev.writer.variable("v", 0, points.width - 1)
    with ev.neighbours(block, lane, points.width) as body:
        _write_all(ev, _point(ev, points, number, ev.writer.axis(lane)), body, where)


def _write_all(ev: NestEvaluator, point: Point, block: GpuBlock, where: Where) -> None:
    for result in ev.region.yields:
        write(ev, result, point, block, where)


def _point(ev: NestEvaluator, points: Points, number: AxisExpr, neighbour: AxisExpr) -> Point:
    """The point of the outputs of one neighbour in a vector."""
    writer, shape = ev.writer, ev.loops.shape
    numbers = writer.coordinates(number, points.sizes)
    if numbers:
        numbers[-1] = numbers[-1] * points.width + neighbour
    coordinates = [ZERO] * len(shape)
    for group, at in zip(points.axes, numbers, strict=True):
        for axis, coordinate in zip(group, writer.coordinates(at, [shape[digit] for digit in group]), strict=True):
            coordinates[axis] = coordinate
    return tuple(coordinates)


def write(ev: NestEvaluator, result: Yield, point: Point, block: GpuBlock, where: Where) -> None:
    """Writes one element of an output. Of several points with one element, the first writes it."""
    if result.at is not None:
        where = (*where, *_is_first(ev, result, point))
        point = ev.writer.at(result.at.exprs, point)
    ev.store(result.buffer, point, ev.stored_value(result, point, block, where), block, where)


def _is_first(ev: NestEvaluator, result: Yield, point: Point) -> Where:
    """The conditions under which a point is the first of those that write one element of an output."""
    assert result.at is not None
    used = support(result.at)
    others = (Within(expr, 0, 1) for axis, expr in enumerate(point) if axis not in used)
    return tuple(condition for condition in others if not ev.writer.proves(condition))
