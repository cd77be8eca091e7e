"""Long reductions with few results, cut into parts that run in parallel.

    phase t in 0 .. 16: R_parts[t, …] = sum over the t-th sixteenth of the reduced axis
    later:              R[…] = R_parts[0, …] + R_parts[1, …] + …

The plan says the parts, and they are combined in order, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from codegen.lower.cpu import reduce_at_point as lower_reduce
from codegen.lower.cpu.builder import CpuBlock, LaneAxis
from codegen.lower.cpu.lane_evaluator import LaneEvaluator
from codegen.lower.points import Point, Where, axes_of
from ir.index.expr import AxisExpr
from ir.kernel.cpu.kernel import Phase, Scratch
from ir.kernel.cpu.nodes import CpuIf, Value
from ir.kernel.nodes import Bind, Within
from ir.region.region import Buffer, MemRef


def partial_phase(ev: LaneEvaluator, part: int, *, lanes_in_results: bool) -> Phase:
    """The phase that reduces parts of `part` terms into shared scratch. From then on `ev` combines the parts where a
    reduction is read."""
    names = ev.loops.divisible_reductions
    op, writer, groups = ev.ops[names[0]], ev.writer, ev.groups(names[0])
    kept = op.domain[: len(op.domain) - op.reduced]
    long = max(groups, key=lambda group: group.extent)
    size = min(part, long.extent)
    whole = long.extent // size
    left = long.extent - size * whole
    tasks = whole + (left > 0)
    parts = {name: _declare_shared(ev, name, (tasks, *kept)) for name in names}
    task = writer.variable("t", 0, tasks - 1)
    root = CpuBlock(writer, None, {task})
    results = _PartResults(ev, parts, writer.axis(task), lanes_in_results)

    def reduce_part(body: CpuBlock, extent: int) -> None:
        """One part of `extent` terms."""
        origin = writer.variable("part", 0, long.extent - extent)
        body.add(Bind(origin, writer.axis(task) * size))
        body.variables.add(origin)
        piece = replace(long, origin=writer.axis(origin), extent=extent)
        ev.parts |= dict.fromkeys(names, tuple(piece if group is long else group for group in groups))
        results.write((), kept, body)

    if left:
        full, short = root.inner(barrier=True), root.inner(barrier=True)
        reduce_part(full, size)
        reduce_part(short, left)
        root.add(CpuIf((Within(writer.axis(task), 0, whole),), tuple(full.statements), tuple(short.statements)))
    else:
        reduce_part(root, size)
    for name, buffer in parts.items():
        del ev.parts[name]
        ev.provided[name] = partial(_combine_parts, ev, name, buffer)
    return Phase(task, tasks, tuple(root.statements))


def _declare_shared(ev: LaneEvaluator, name: str, shape: tuple[int, ...]) -> Buffer:
    """Memory for the parts of a reduction."""
    kind = ev.joining(ev.ops[name]).dtype
    parts = Buffer(f"{name}_parts", MemRef(shape, kind))
    ev.buffers[parts.name] = parts
    ev.writer.shared.append(Scratch(ev.writer.buffer(parts.name), kind, math.prod(shape)))
    return parts


@dataclass(frozen=True)
class _PartResults:
    """The results of reductions that task `task` stores in their `parts`. Lanes run along the last axis of the results,
    or along the terms."""

    ev: LaneEvaluator
    parts: Mapping[str, Buffer]
    task: AxisExpr
    lanes_in_results: bool

    def write(self, point: Point, sizes: Sequence[int], block: CpuBlock) -> None:
        """Writes loops over the axes of `sizes`, inside the loops of `point`, and the stores."""
        writer = self.ev.writer
        if not sizes:
            totals = lower_reduce.accumulate(self.ev, list(self.parts), point, block)
            for parts, total in zip(self.parts.values(), totals, strict=True):
                block.store(parts.name, self.ev.offset(parts.name, (self.task, *point)), total)
            return
        size, *rest = sizes
        lanes = writer.lanes if self.lanes_in_results and not rest else 1
        whole = size - size % lanes
        for start, stop in ((0, whole), (whole, size)):
            if start >= stop:
                continue
            variable = writer.variable(f"i{len(point)}", start, stop - 1)
            count = min(lanes, stop - start)
            axis = LaneAxis(variable, None if count == writer.lanes else count) if lanes > 1 else None
            body = block.inner({variable}, lane_axis=axis)
            self.write((*point, writer.counter(variable)), rest, body)
            block.loop(body, variable, AxisExpr(start), AxisExpr(stop), lanes)


def _combine_parts(ev: LaneEvaluator, name: str, parts: Buffer, point: Point, block: CpuBlock, where: Where) -> Value:
    """The parts at `point`, combined in order."""
    key = ("combined", name, point, where)
    value = block.find(key)
    if value is not None:
        return value
    home = block.home(axes_of(point, where))
    total = lower_reduce.start(ev, name, home)
    tasks = parts.memref.shape[0]
    variable = ev.writer.variable("p", 0, tasks - 1)
    body = home.inner({variable})
    part = ev.value(parts.name, (ev.writer.axis(variable), *point), body, where)
    body.accumulate(total, ev.joining(ev.ops[name]).fn, part)
    home.loop(body, variable, AxisExpr(), AxisExpr(tasks))
    home.memo[key] = value = home.let(name, lower_reduce.convert_to_result(ev, name, total))
    return value
