"""Candidate plans of a scatter on a GPU, with their work.

More parts of the positions are more threads, each of which goes through all updates of its column: the positions of
updates are then read more often, by warps that read them together.
"""

from __future__ import annotations

import math

from codegen.plan.gpu.scatter_parts import blocks_of, owners
from codegen.plan.scatter_view import ScatterView, scatter_view
from ir.dtype import dtype
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import HIDING_THREADS
from ir.plan.gpu_nest import GpuScatterPlan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.region.work import region_bytes, region_flops
from ir.target import Target

_THREADS = 128
"""Threads of a block."""
_SECTOR_BYTES = 32
"""Bytes that memory moves at least."""
_REGISTERS = 24
"""Registers of a thread: indices, addresses, a position and an element; estimated."""
_POSITION_CLOCKS = 20
"""Clocks of one thread from one update's position to the next, which the nearest cache holds; estimated."""
_ELEMENT_CLOCKS = 60
"""Clocks of one thread to write an element of the source, several of which are in flight; estimated."""


def scatter_candidates(region: Region, core: PolyCore, target: Target) -> list[tuple[GpuScatterPlan, Work]]:
    """The candidates with their work; none of a region that is not legal, or that holds no scatter."""
    view = scatter_view(region, core) if core.legal else None
    if view is None:
        return []
    columns = math.prod(view.shape) // view.slots
    wanted = [target.units * HIDING_THREADS * more // columns for more in (0, 1, 2, 8)]
    parts = dict.fromkeys(max(1, min(view.slots, count)) for count in wanted)
    plans = [GpuScatterPlan(arch=target.arch, parts=count, threads=_THREADS) for count in parts]
    return [(plan, _work(view, target, plan)) for plan in plans]


def _work(view: ScatterView, target: Target, plan: GpuScatterPlan) -> Work:
    """The work of a plan. The turns of a thread count as waits, once per wave of blocks."""
    blocks = blocks_of(view, plan)
    waves = -(-blocks * plan.threads // (target.units * HIDING_THREADS))
    clocks = -(-view.slots // plan.parts) * _ELEMENT_CLOCKS + view.count * _POSITION_CLOCKS
    occupancy = min(1.0, blocks / target.units)
    size = dtype(view.op.dtype).bytes
    updates = math.prod(view.shape) // view.slots * view.count
    beyond = updates * (_SECTOR_BYTES - size) * 2 if view.axis == len(view.shape) - 1 else 0
    cycle = target.cycle_ns / target.units
    again = max(0, math.prod(owners(view, plan)) // WARP_LANES * view.count - updates) * size
    return Work(
        flops=max(1.0, float(region_flops(view.region))),
        bytes=float(region_bytes(view.region)),
        compute_dtype="fp32",
        occupancy=occupancy,
        efficiency=0.5,
        reread=again / target.cache_bandwidth * 1e9 / cycle,
        layout=beyond / target.cache_bandwidth * 1e9 / cycle + clocks * waves * 2 * target.units * occupancy,
        block_threads=plan.threads,
        thread_registers=_REGISTERS,
    )
