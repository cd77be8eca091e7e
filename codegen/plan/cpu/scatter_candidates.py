"""Candidate plans of a scatter on a CPU, with their work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.plan.cpu.nest_work import PARTS
from codegen.plan.cpu.scatter_tiling import UpdateLoops, has_own_index, update_loops
from codegen.plan.scatter_view import ScatterView, scatter_view
from ir.plan.cpu import CpuNestPlan, CpuScatterPlan, PlannedLoop
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.region.work import region_bytes, region_flops, uncached_bytes
from ir.target import Target

_POSITION_CYCLES = 2.0
"""Cycles to load a position, to compare it with the ends of the axis, and to branch; estimated."""
_SURPRISE_CYCLES = 30.0
"""Cycles that a core loses where a position lies in its block and the core expected another one, or the reverse."""
_ELEMENT_CYCLES, _REGISTER_CYCLES = 2.0, 4.0
"""Cycles to load, combine and store one element, or one register of elements, beyond those of memory; estimated."""


def scatter_candidates(region: Region, core: PolyCore, target: Target) -> list[tuple[CpuScatterPlan, Work]]:
    """The candidates with their work; none of a region that is not legal, or that holds no scatter."""
    view = scatter_view(region, core) if core.legal else None
    if view is None:
        return []
    finish, after = _finish(view, target)
    return [
        (plan, _work(view, target, plan, [work, after] if after is not None else [work]))
        for source, work in _sources(view, target)
        for plan in _plans(view, target, CpuScatterPlan(arch=target.arch, source=source, loops=(), finish=finish))
    ]


def _sources(view: ScatterView, target: Target) -> list[tuple[CpuNestPlan | None, Work]]:
    """The best plan of the nest that writes the source, and the best one without tasks, with their work. No plan, and
    no work, where the result lies over the source."""
    if view.is_in_place:
        idle = Work(flops=0.0, bytes=0.0, compute_dtype="fp32", occupancy=1.0, efficiency=1.0, parallel=False)
        return [(None, idle)]
    sources = nest_candidates(view.source.region, view.source.core, target)
    alone = [source for source in sources if not source[0].threads]
    return [*dict.fromkeys([*sources[:1], *alone[:1]])]


def _finish(view: ScatterView, target: Target) -> tuple[CpuNestPlan, Work] | tuple[None, None]:
    """The best plan of the nest that applies functions to the scatter, and its work."""
    if view.finish is None:
        return None, None
    return nest_candidates(view.finish.region, view.finish.core, target)[0]


def _plans(view: ScatterView, target: Target, nests: CpuScatterPlan) -> Iterator[CpuScatterPlan]:
    """Plans without tasks, and with the blocks of one loop as tasks. `nests`: a plan without loops over updates."""
    whole = tuple(PlannedLoop(tuple(axes), max(1, view.extent(axes))) for axes in view.groups)
    lanes = _lane_loop(view, whole)
    yield msgspec.structs.replace(nests, loops=whole, lanes=lanes)
    for position, loop in enumerate(whole):
        # all tasks go through all positions, so that few tasks divide an axis of the scatter
        tasks = target.units if loop.axes == (view.axis,) else PARTS
        step = target.lanes if position == lanes else 1
        tile = -(-loop.tile // (tasks * step)) * step
        if tile < loop.tile:
            loops = (*whole[:position], PlannedLoop(loop.axes, tile), *whole[position + 1 :])
            yield msgspec.structs.replace(nests, loops=loops, lanes=lanes, threads=position)


def _lane_loop(view: ScatterView, loops: tuple[PlannedLoop, ...]) -> int | None:
    """The innermost loop whose elements have one index."""
    usable = [
        position
        for position, loop in enumerate(loops)
        if loop.axes[0] > view.axis and loop.tile > 1 and not has_own_index(view, loop.axes)
    ]
    return usable[-1] if usable else None


def _work(view: ScatterView, target: Target, plan: CpuScatterPlan, nests: Sequence[Work]) -> Work:
    """The work of the nests and of the updates. Cycles of updates count as `layout`, as lanes that lie apart do. The
    last nest reads the result again and writes it again, from a cache that holds the result."""
    loops = update_loops(view, plan)
    divided = loops.divided
    tasks = divided.blocks if divided is not None else 1
    rows = math.prod(loop.extent for loop in (*loops.outer, *loops.indexed)) * view.count
    positions = rows * (tasks if divided in (loops.axis, *loops.inner) else 1)
    share = 1 / tasks if divided == loops.axis else 1.0
    steps = rows * math.prod(-(-loop.extent // target.lanes) if loop.vector else loop.extent for loop in loops.inner)
    result = view.region.outputs[0].memref.nbytes
    apart = target.far_cycles if result > target.l1_bytes else target.lane_cycles
    elements = rows * math.prod(loop.extent for loop in loops.inner)
    step = _REGISTER_CYCLES if any(loop.vector for loop in loops.inner) else _ELEMENT_CYCLES
    cycles = positions * (_POSITION_CYCLES + 2 * share * (1 - share) * _SURPRISE_CYCLES) + steps * (step + apart)
    cycles += elements * _reads_apart(view, loops) * target.far_cycles
    busy = tasks / (-(-tasks // target.units) * target.units)
    source = nests[0]
    others = sum(nest.layout * source.occupancy / nest.occupancy for nest in nests[1:])
    return msgspec.structs.replace(
        source,
        flops=max(sum(nest.flops for nest in nests), float(region_flops(view.region))),
        bytes=float(region_bytes(view.region)),
        reread=source.reread + 2 * result * len(nests[1:]) * target.refetch_cycles(result),
        layout=source.layout + others + cycles * source.occupancy / busy,
        parallel=tasks > 1 or any(nest.parallel for nest in nests),
        cold_bytes=float(uncached_bytes(view.region)),
    )


def _reads_apart(view: ScatterView, loops: UpdateLoops) -> int:
    """The reads of an update whose lanes are no neighbours in memory."""
    lanes = next((loop.group.axes[-1] for loop in loops.inner if loop.vector), None)
    reads = [access for access in view.core.accesses if access.scope == view.scatter.name]
    return 0 if lanes is None else sum(access.strides[lanes].step not in (0, 1) for access in reads)
