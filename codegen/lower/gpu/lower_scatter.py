"""A scatter and a GpuScatterPlan → a GPU kernel: a thread writes the source at its own positions of one column, then
combines the updates of these positions in their order, then applies the region's functions to them.

    plan   2 parts of [N, 64], 128 threads
    kernel (part, i1) = 128*block_x + thread, where below 2*64
           for turn in 0 .. N/2: y[2*turn + part, i1] = source[2*turn + part, i1]
           for k in 0 .. K: n = index[k, i1]
             where 0 <= n < N and n % 2 = part: y[n, i1] = add(y[n, i1], updates[k, i1])

No two threads write one element, so that nothing is atomic, and the bits are those of a plain loop for every plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from codegen.lower.gpu.buffer_axes import separate_axes
from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.nest_evaluator import NestEvaluator
from codegen.lower.gpu.thread_evaluator import convert
from codegen.lower.points import Point
from codegen.plan.gpu.scatter_parts import blocks_of, owners
from codegen.plan.scatter_view import ScatterView
from ir.index.expr import ZERO, AxisExpr
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.nodes import Pick, Within
from ir.plan.gpu_nest import GpuScatterPlan


def lower_scatter(view: ScatterView, plan: GpuScatterPlan, name: str = "eq_k") -> GpuKernel:
    """The kernel `name` that runs a scatter by a plan that fits."""
    writer = GpuWriter(plan.threads, (blocks_of(view, plan), 1, 1))
    ev = NestEvaluator(view.loops, writer, separate_axes(view.loops), approximate=plan.approximate)
    body = GpuBlock(writer)
    own = owners(view, plan)
    number = ev.named(body, "p", writer.block[0] * plan.threads + writer.thread)
    with body.guard(Within(number, 0, math.prod(own))) as inside:
        place = writer.coordinates(number, own)
        thread = _Thread(view, plan, ev, tuple(place))
        thread.write_source(inside)
        thread.combine_updates(inside)
        thread.finish(inside)
    comment = f"{view.region}\nplan {plan.arch}: scatter, {plan.parts} parts of {view.slots} positions"
    return writer.kernel(name, plan.kernel_arch, ev.params(), body, comment)


class _Thread:
    """The statements of one thread. `place`: its column, with its part in place of the position."""

    def __init__(self, view: ScatterView, plan: GpuScatterPlan, ev: NestEvaluator, place: Point) -> None:
        self.view, self.parts, self.ev, self.place = view, plan.parts, ev, place
        self.writer = ev.writer

    @property
    def part(self) -> AxisExpr:
        return self.place[self.view.axis]

    def write_source(self, block: GpuBlock) -> None:
        """Writes the source at the thread's positions."""
        view, ev = self.view, self.ev
        source = view.op.inputs[0]
        with self._positions(block) as (inside, point):
            value = ev.operand(source, (*point, ZERO), inside)
            value = convert(value, ev.operand_dtype(source), view.op.dtype)
            ev.store(view.result, point, value, inside, ())

    def combine_updates(self, block: GpuBlock) -> None:
        """Combines the updates at the thread's positions."""
        view, ev = self.view, self.ev
        with block.loop("k", AxisExpr(view.count)) as (body, update):
            read = (*self._at(ZERO), update)
            index = ev.operand(view.index, read, body)
            at = self.writer.variable("at", 0, view.slots + 1)
            body.add(Pick(at, ev.position_after(index, view.index, view.slots)))
            body.variables.add(at)
            position = self.writer.axis(at)
            with body.guard(Within(position, 1, view.slots + 1)) as inside:
                slot = inside.bind("slot", position.shift(-1), view.slots - 1)
                part = self.writer.split(slot, self.parts)[1]
                with inside.guard(Within(part - self.part, 0, 1)) as own:
                    self._combine(read, self._at(slot), own)

    def finish(self, block: GpuBlock) -> None:
        """Applies the region's functions to the elements at the thread's positions."""
        view, ev = self.view, self.ev
        (end,) = view.region.yields
        if end.value == view.scatter.name:
            return
        ev.provided[view.scatter.name] = lambda point, inside, _: ev.load_now(view.result, point, inside)
        with self._positions(block) as (inside, point):
            value = ev.yielded_value(end.value, end.map, point, inside, ())
            ev.store(view.result, point, convert(value, ev.dtype(end.value), view.op.dtype), inside, ())

    @contextmanager
    def _positions(self, block: GpuBlock) -> Iterator[tuple[GpuBlock, Point]]:
        """The body of a loop over the thread's positions, and the point there."""
        with block.loop("turn", AxisExpr(-(-self.view.slots // self.parts))) as (body, turn):
            slot = self.ev.named(body, "n", turn * self.parts + self.part)
            with body.guard(Within(slot, 0, self.view.slots)) as inside:
                yield inside, self._at(slot)

    def _combine(self, read: Point, point: Point, block: GpuBlock) -> None:
        view, ev = self.view, self.ev
        dtype = view.op.dtype
        value = ev.operand(view.updates, read, block)
        value = convert(value, ev.operand_dtype(view.updates), dtype)
        value = ev.combine(view.combination, lambda: ev.load_now(view.result, point, block), value, dtype)
        ev.store(view.result, point, value, block, ())

    def _at(self, slot: AxisExpr) -> Point:
        """The point of the column at a position."""
        return (*self.place[: self.view.axis], slot, *self.place[self.view.axis + 1 :])
