"""A GPU plan → the waits of the threads of its kernel.

cp.async.commit_group / wait_group   copies into a ring, by the thread that started them
bar.sync                             all threads of a block
bar.warp.sync                        the lanes of a warp
wgmma.commit_group / wait_group      products of a warpgroup, by its threads
"""

from __future__ import annotations

from collections.abc import Iterator

from codegen.plan.contraction_view import Contraction
from codegen.plan.fit_plan import TemplateView
from codegen.plan.gpu.nest_tiling import crossing_reads, row_values
from codegen.plan.region_loops import RegionLoops
from codegen.plan.stream_view import StreamView
from ir.kernel.gpu.kernel import WARP_LANES
from ir.plan.gpu import GpuContractionPlan, GpuStreamPlan
from ir.plan.gpu_nest import GpuRowsPlan, GpuTilesPlan
from ir.plan.plan import Plan
from ir.poly.report import BarrierKind, BarrierNeed
from ir.region.region import Region

_Need = tuple[BarrierKind, str]


def barriers(region: Region, view: TemplateView, plan: Plan) -> tuple[BarrierNeed, ...]:
    """The waits of a kernel, each kind at each place once; none on a CPU, nor where the outputs have no elements."""
    if 0 in region.outputs[0].memref.shape:
        return ()
    return tuple(BarrierNeed(plan.arch, kind, at) for kind, at in dict.fromkeys(_needs(region, view, plan)))


def _needs(region: Region, view: TemplateView, plan: Plan) -> Iterator[_Need]:
    match plan, view:
        case GpuContractionPlan(), Contraction():
            if 0 not in view.sizes:
                yield from _ring(f"{plan.sums}.k", copied=any(staging.copied for staging in plan.tile.stagings))
                if plan.tile.warpgroups:
                    yield "wgmma.commit_group / wait_group", f"{plan.sums}.k"
            yield from _after(region, f"{plan.sums}.k.o", plan.tile.store == "staged", plan.tile.split)
        case GpuStreamPlan(), StreamView():
            yield from _of_stream(region, view.roles.score, plan)
        case GpuRowsPlan(), RegionLoops():
            rows = plan.rows
            apart = rows.split > 1 or rows.team > (WARP_LANES if rows.near else 1)
            scans = [let.name for let in region.body if let.op.kind == "scan"]
            yield from (("bar.sync", name) for name in (*row_values(view), *scans) if apart)
        case GpuTilesPlan(), RegionLoops():
            yield from (("bar.sync", read.buffer) for read in crossing_reads(view, plan.tiles.axes))
        case _:
            pass


def _of_stream(region: Region, score: str, plan: GpuStreamPlan) -> Iterator[_Need]:
    tile, terms = plan.tile, f"{score}.k"
    ring = [product.rhs for product in tile.sums] if plan.values else []
    ring += [tile.scores.rhs] if plan.scored is not None else []
    copied = any(staging.copied for staging in ring)
    if plan.scored is not None:  # which the first stage's group takes along, where nobody needs them before
        if tile.scores.lhs.copied and (tile.held or not copied):
            yield "cp.async.commit_group / wait_group", plan.scored[0]
        if tile.held:
            yield "bar.sync", plan.scored[0]
    yield from _ring(terms, copied=copied)
    if plan.values and not tile.tensor_cores:
        yield "bar.warp.sync", terms
    yield from _after(region, f"{terms}.o", tile.lead.store == "staged", tile.split)


def _ring(loop: str, *, copied: bool) -> Iterator[_Need]:
    """Of a loop over stages."""
    if copied:
        yield "cp.async.commit_group / wait_group", loop
    yield "bar.sync", loop


def _after(region: Region, parts: str, staged: bool, split: int) -> Iterator[_Need]:
    """The barriers after the sums: blocks that share a tile meet, and results are put together."""
    if split > 1:
        yield "bar.sync", parts
    if staged:
        yield "bar.sync", region.outputs[0].name
