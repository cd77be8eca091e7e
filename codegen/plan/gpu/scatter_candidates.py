"""Candidate plans of a scatter on a GPU, with their work.

More parts of the positions are more threads, each of which goes through all updates of its column: the positions of
updates are then read more often, by warps that read them together.
"""

from __future__ import annotations

import math

from codegen.plan.gpu.scatter_parts import blocks_of
from codegen.plan.scatter_view import ScatterView, scatter_view
from ir.dtype import dtype
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import HIDING_THREADS, SECTOR_BYTES
from ir.plan.gpu_nest import GpuScatterPlan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.region.work import cold_bytes, region_bytes, region_flops
from ir.target import Target

_THREADS = 128
"""Threads of a block."""
_REGISTERS = 24
"""Registers of a thread: indices, addresses, a position and an element; estimated."""
_POSITION_CLOCKS, _POSITION_SLOTS = 20, 10
"""Clocks of one thread from one update's position to the next, which the nearest cache holds; and the issue slots of a
warp that they take. Estimated."""
_ELEMENT_CLOCKS = 60
"""Clocks of one thread to write an element of the source, several of which are in flight; estimated."""
_SCHEDULERS = 4
"""Warps of an SM that issue an instruction in one clock."""


def scatter_candidates(region: Region, core: PolyCore, target: Target) -> list[tuple[GpuScatterPlan, Work]]:
    """The candidates with their work; none of a region that is not legal, or that holds no scatter."""
    view = scatter_view(region, core) if core.legal else None
    if view is None:
        return []
    columns = math.prod(view.shape) // view.slots
    wanted = [target.units * threads // columns for threads in (0, _THREADS, 2 * _THREADS, HIDING_THREADS)]
    parts = dict.fromkeys(max(1, min(view.slots, count)) for count in wanted)
    plans = [GpuScatterPlan(arch=target.arch, parts=count, threads=_THREADS) for count in parts]
    return [(plan, _work(view, target, plan)) for plan in plans]


def _work(view: ScatterView, target: Target, plan: GpuScatterPlan) -> Work:
    """The work of a plan. The turns of threads count as waits."""
    blocks = blocks_of(view, plan)
    size, index = dtype(view.op.dtype).bytes, dtype(view.index_dtype).bytes
    updates = math.prod(view.shape) // view.slots * view.count
    apart = view.axis == len(view.shape) - 1
    beyond = updates * 2 * (SECTOR_BYTES - size) if apart else 0
    again = updates * index * (-(-plan.parts // plan.threads) - 1) if apart else updates * index * (plan.parts - 1)
    if view.region.yields[0].value != view.scatter.name:  # the result is read and written again
        again += 2 * view.region.outputs[0].memref.nbytes
    occupancy = min(1.0, blocks / target.units)
    cycle = target.cycle_ns / target.units
    return Work(
        flops=max(1.0, float(region_flops(view.region))),
        bytes=float(region_bytes(view.region)),
        cold_bytes=float(cold_bytes(view.region)),
        compute_dtype="fp32",
        occupancy=occupancy,
        efficiency=0.5,
        reread=again / target.cache_bandwidth * 1e9 / cycle,
        layout=beyond / target.cache_bandwidth * 1e9 / cycle + _clocks(view, target, plan) * target.units * occupancy,
        block_threads=plan.threads,
        thread_registers=_REGISTERS,
    )


def _clocks(view: ScatterView, target: Target, plan: GpuScatterPlan) -> float:
    """Clocks of an SM: those of one thread after another, or the slots of all its warps if they are more."""
    blocks = -(-blocks_of(view, plan) // target.units)
    threads = blocks * plan.threads
    waves = -(-threads // HIDING_THREADS)
    written = waves * -(-view.slots // plan.parts) * _ELEMENT_CLOCKS
    slots = threads // WARP_LANES * _POSITION_SLOTS / _SCHEDULERS
    return written + view.count * max(waves * _POSITION_CLOCKS, slots)
