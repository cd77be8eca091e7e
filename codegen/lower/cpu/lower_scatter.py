"""A scatter and a CpuScatterPlan → a CPU kernel: a nest writes the source, then updates are combined in their order,
then a nest applies the region's functions to the elements of the result.

    plan   loops i0 (positions) and i1 in blocks of 256, which are tasks, lanes along i1
    kernel phase t in 0 .. 4: …                                    the nest
           phase u in 0 .. 4: for k in 0 .. K
             at = 1 + index[k]
             if 1 <= at < N + 1: for i1 in 256*u .. 256*u + 256 step lanes
               y[at - 1, i1 : unit] = add(y[at - 1, i1 : unit], updates[k, i1 : unit])

No two tasks write one element, and a task combines the updates of an element in their order: the bits are those of a
plain loop, for every plan. Where tasks divide the positions, each task goes through all updates and takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.lower.cpu.builder import CpuBlock, CpuWriter, LaneAxis
from codegen.lower.cpu.lane_evaluator import LaneEvaluator
from codegen.lower.cpu.lane_values import convert
from codegen.lower.cpu.lower_nest import nest_comment, nest_phases
from codegen.lower.points import Point
from codegen.plan.cpu.scatter_tiling import UpdateLoop, update_loops
from codegen.plan.scatter_view import ScatterView
from ir.index.expr import ZERO, AxisExpr, coordinates
from ir.kernel.cpu.kernel import CpuKernel, Phase
from ir.kernel.nodes import Bind, Pick, Within
from ir.plan.cpu import CpuScatterPlan
from ir.target import LANES

_Place = dict[int, AxisExpr]
"""Axis of the result → the coordinate along it."""


def lower_scatter(view: ScatterView, plan: CpuScatterPlan, name: str = "eq_k") -> CpuKernel:
    """The kernel `name` that runs a scatter by a plan that fits."""
    writer = CpuWriter(LANES[plan.arch])
    params = writer.params(view.region)
    phases, comments = [], [str(view.region)]
    if plan.source is not None:
        phases += nest_phases(view.source, plan.source, writer)
        comments.append(nest_comment(view.source.region, plan.source))
    phases.append(_Updates(view, plan, writer).phase())
    comments.append(_comment(plan))
    if view.finish is not None and plan.finish is not None:
        writer.share_buffer(view.before, view.result)
        phases += nest_phases(view.finish, plan.finish, writer)
        comments.append(nest_comment(view.finish.region, plan.finish))
    return writer.kernel(name, params, phases, "\n".join(comments))


class _Updates:
    """The phase that combines the updates with the source."""

    def __init__(self, view: ScatterView, plan: CpuScatterPlan, writer: CpuWriter) -> None:
        self.view, self.writer = view, writer
        self.ev = LaneEvaluator(view.loops, writer)
        self.loops = update_loops(view, plan)
        self.start = ZERO
        """The first point of this task's block, along the loop whose blocks are tasks."""

    def phase(self) -> Phase:
        divided = self.loops.divided
        tasks = divided.blocks if divided is not None else 1
        task = self.writer.variable("u", 0, tasks - 1)
        root = CpuBlock(self.writer, None, {task})
        if divided is not None:
            start = self.writer.variable("uo", 0, (tasks - 1) * divided.tile)
            root.add(Bind(start, self.writer.axis(task) * divided.tile))
            root.variables.add(start)
            self.start = self.writer.axis(start)
        self._columns(self.loops.outer, {}, root)
        return Phase(task, tasks, tuple(root.statements))

    def _columns(self, loops: Sequence[UpdateLoop], place: _Place, block: CpuBlock) -> None:
        """The loops outside of that over the updates."""
        if not loops:
            variable = self.writer.variable("k", 0, self.view.count - 1)
            body = block.inner({variable})
            self._positions(self.loops.indexed, place, self.writer.axis(variable), body)
            block.loop(body, variable, ZERO, AxisExpr(self.view.count))
            return
        loop, *rest = loops
        body, variable, place = self._body(loop, place, block)
        self._columns(rest, place, body)
        self._close(loop, body, variable, block)

    def _positions(self, loops: Sequence[UpdateLoop], place: _Place, update: AxisExpr, block: CpuBlock) -> None:
        """The loops over elements of one update with positions of their own, then the position."""
        if loops:
            loop, *rest = loops
            body, variable, place = self._body(loop, place, block)
            self._positions(rest, place, update, body)
            self._close(loop, body, variable, block)
            return
        view, ev = self.view, self.ev
        index = ev.operand(view.index, self._update_point(place, update), block)
        at = self.writer.variable("at", 0, view.slots + 1)
        block.add(Pick(at, ev.position_after(index, view.index, view.slots)))
        block.variables.add(at)
        inside = [Within(self.writer.axis(at), 1, view.slots + 1)]
        if self.loops.axis.blocks > 1:
            inside.append(Within(self.writer.axis(at).shift(-1) - self.start, 0, self.loops.axis.tile))
        body = block.inner(barrier=True, facts=inside)
        self._elements(self.loops.inner, {**place, view.axis: self.writer.axis(at).shift(-1)}, update, body)
        block.guard(body, inside)

    def _elements(self, loops: Sequence[UpdateLoop], place: _Place, update: AxisExpr, block: CpuBlock) -> None:
        """The loops over elements with one position, then the combination."""
        if not loops:
            self._combine(place, update, block)
            return
        loop, *rest = loops
        if loop.vector:
            self._vectors(loop, rest, place, update, block)
            return
        body, variable, place = self._body(loop, place, block)
        self._elements(rest, place, update, body)
        self._close(loop, body, variable, block)

    def _vectors(
        self, loop: UpdateLoop, rest: Sequence[UpdateLoop], place: _Place, update: AxisExpr, block: CpuBlock
    ) -> None:
        """Whole registers of elements, then the elements that remain."""
        lanes = self.writer.lanes
        whole = loop.extent - loop.extent % lanes
        for start, stop in ((0, whole), (whole, loop.extent)):
            if start == stop:
                continue
            variable = self.writer.variable(loop.group.name, start, whole - 1 if start < whole else start + lanes - 1)
            count = None if start < whole else stop - start
            body = block.inner({variable}, lane_axis=LaneAxis(variable, count))
            self._elements(rest, self._with(place, loop, self.writer.counter(variable)), update, body)
            if loop.blocks > 1:
                first = self.start if start < whole else AxisExpr(start)
                block.loop(body, variable, first, self.start.shift(loop.tile), lanes, stop)
            else:
                block.loop(body, variable, AxisExpr(start), AxisExpr(stop), lanes)

    def _combine(self, place: _Place, update: AxisExpr, block: CpuBlock) -> None:
        view, ev = self.view, self.ev
        dtype, result = view.op.dtype, view.result
        value = ev.operand(view.updates, self._update_point(place, update), block)
        value = convert(value, ev.operand_dtype(view.updates), dtype)
        point = tuple(place[axis] for axis in range(len(view.shape)))
        value = ev.combine(view.combination, lambda: ev.load_now(result, point, block), value, dtype)
        block.store(result, ev.offset(result, point), value)

    def _update_point(self, place: _Place, update: AxisExpr) -> Point:
        """The point of the scatter's domain at which operands of an update are read; they do not depend on the axes
        that have no place yet, nor on the position."""
        own = {**place, self.view.axis: ZERO}
        return (*(own.get(axis, ZERO) for axis in range(len(self.view.shape))), update)

    def _body(self, loop: UpdateLoop, place: _Place, block: CpuBlock) -> tuple[CpuBlock, int, _Place]:
        """The body of a loop, its variable, and the place in it."""
        variable = self.writer.variable(loop.group.name, 0, max(0, loop.extent - 1))
        body = block.inner({variable})
        return body, variable, self._with(place, loop, self.writer.axis(variable))

    def _close(self, loop: UpdateLoop, body: CpuBlock, variable: int, block: CpuBlock) -> None:
        """Adds a finished loop, or this task's block of it."""
        if loop.blocks > 1:
            block.loop(body, variable, self.start, self.start.shift(loop.tile), 1, loop.extent)
        else:
            block.loop(body, variable, ZERO, AxisExpr(loop.extent))

    def _with(self, place: _Place, loop: UpdateLoop, at: AxisExpr) -> _Place:
        """The place with the coordinates of a loop's point."""
        group = loop.group
        return {**place, **dict(zip(group.axes, coordinates(at, group.sizes, self.writer.box), strict=True))}


def _comment(plan: CpuScatterPlan) -> str:
    """The line above the kernel in the C text that says how updates are combined."""
    text = f"updates: loops {' '.join(loop.name for loop in plan.loops)}"
    if plan.threads is not None:
        loop = plan.loops[plan.threads]
        text += f", tasks of {loop.tile} along {loop.name}"
    return text + (f", lanes along {plan.loops[plan.lanes].name}" if plan.lanes is not None else "")
