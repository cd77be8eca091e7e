"""Candidate plans of streams in tiles on a GPU: rows of a block and of a warp × terms of a stage.

What does not fit in registers gives way, and is a note of the plan: fragments loaded ahead, the queries held, then a
warp's rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from codegen.plan.gpu.contraction_tiling import columns_of, tiles_of
from codegen.plan.gpu.split_k import part_counts
from codegen.plan.gpu.stream_mask import last_seen
from codegen.plan.gpu.stream_shared import stream_shared
from codegen.plan.gpu.stream_tiling import (
    KERNEL_ARCH,
    made_stream_tile,
    scored_of,
    shared_stream_tile,
    stream_products,
    stream_steps,
    stream_turns,
    streams_on_tensor_cores,
    values_of,
)
from codegen.plan.gpu.stream_work import GpuStreamWork, most_registers, registers_of
from codegen.plan.stream_view import StreamView, stream_epilogue, stream_views
from codegen.poly.tail_axes import tail_axes
from ir.kernel.gpu.limits import MAX_GRID, MAX_THREADS
from ir.kernel.gpu.occupancy import shared_limit
from ir.plan.gpu import BlockPlaces, GpuStreamPlan, StreamTile
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target

_CANDIDATES = 16
_VARIANTS = 2
"""Rings and numbers of blocks that share a tile, of each tile."""
_STAGES = (2, 3, 4)
_FULL_WARPS = 8
"""Of a multiprocessor, from which on it counts as full."""
_PADDED = 4
"""So many times the rows of the leanest tiling a tiling may have."""
_SM80_PATH = "sm_90 takes the sm_80 path: cp.async and mma.sync, no TMA and no wgmma"
_WIDEST = 256
"""Columns of a product in one block; more are cut, and each block computes the scores anew."""
_CUT = 128

_MATRIX_TILES = ((128, 32), (128, 16), (64, 32), (64, 16), (32, 16), (16, 16))
"""BM, and the rows of a warp."""
_MATRIX_TERMS = (128, 64, 32, 16)
_THREAD_TILES = ((64, 16, 4), (64, 8, 2), (32, 8, 2), (16, 4, 1), (8, 2, 1), (4, 1, 1), (1, 1, 1))
"""BM, the rows of a warp and those of a thread."""
_THREAD_TERMS = (64, 32)


def gpu_stream_candidates(
    region: Region, core: PolyCore, target: Target, *, finite: bool = False
) -> list[tuple[GpuStreamPlan, Work]]:
    """The candidates, the best first; none if the template does not cover the region, or nothing fits. `finite`: terms
    that weigh 0 by their place need not be read, whatever they are."""
    found: list[_Candidate] = []
    for view in stream_views(region, core):
        found += _of_view(view, target, finite)
    found.sort(key=lambda each: _time(each.work, target))
    return [(_plan(each, target), each.work) for each in found[:_CANDIDATES]]


class _Candidate(NamedTuple):
    view: StreamView
    tile: StreamTile
    notes: tuple[str, ...]
    work: Work


def _of_view(view: StreamView, target: Target, finite: bool) -> list[_Candidate]:
    work, found = GpuStreamWork(view, target), list[_Candidate]()
    for shape in _shapes(view, finite):
        fitted = _fitted(view, shape, target)
        if fitted is not None:
            tile, notes = fitted
            variants = [_Candidate(view, variant, notes, work.of(variant)) for variant in _variants(work, tile)]
            variants.sort(key=lambda each: _time(each.work, target))
            found += [variant for variant in variants[:_VARIANTS] if all(variant.tile != other.tile for other in found)]
    return found


def _time(work: Work, target: Target) -> tuple[float, float]:
    """§11's estimate in ns, to keep the best candidates only; where memory takes longer, the least arithmetic first."""
    peak = target.peak_flops.get(work.compute_dtype, target.peak_flops["fp32"])
    compute = work.flops / (peak * work.efficiency) * 1e9 + work.reread * target.cycle_ns / target.units
    return max(compute, work.bytes / target.bandwidth * 1e9) / work.occupancy, compute


# --- tiles ----------------------------------------------------------------------------------------


def _shapes(view: StreamView, finite: bool) -> Iterator[StreamTile]:
    """Tiles that are not mostly padding, with the least ring and the queries in registers."""
    matrix, m = streams_on_tensor_cores(view), max(view.m, 1)
    shapes = _MATRIX_TILES if matrix else _THREAD_TILES
    least = min(-(-m // shape[0]) * shape[0] for shape in shapes)
    every = _MATRIX_TERMS if matrix else _THREAD_TERMS
    bound = last_seen(view) if finite else None
    for bm, warp_m, *thread_m in shapes:
        if -(-m // bm) * bm > _PADDED * least:
            continue
        across = 4 if matrix else 32 * thread_m[0] // warp_m
        unit = 16 if matrix else across
        for terms in every:
            if terms > every[-1] and terms >= 2 * view.terms:
                continue
            stages = 2 if view.terms > terms else 1
            tile = (bm, _columns(view, unit), terms)
            yield made_stream_tile(
                view,
                tile,
                warp_m,
                stages,
                thread_m=thread_m[0] if thread_m else None,
                held=matrix,
                ahead=matrix,
                stops=bound is not None and bound.holds_for(view, bm),
            )


def _columns(view: StreamView, unit: int) -> int:
    """Of a block: all, in whole units, or a part of many."""
    if not view.products:
        return unit
    n = columns_of(view.products[0])
    return _CUT if n > _WIDEST // len(view.products) else -(-n // unit) * unit


def _variants(work: GpuStreamWork, tile: StreamTile) -> Iterator[StreamTile]:
    """The tile with rings of several lengths, for one block, or shared by several where the chip has room and a thread
    has registers to join their parts."""
    view = work.view
    blocks, turns = math.prod(tiles_of(stream_products(view)[0], tile.lead)), stream_turns(view, tile)[0]
    waves = min(work.resident(tile), max(2, _FULL_WARPS // work.busy_warps(tile)))
    for split in (1, *part_counts(blocks, turns, work.target, waves)):
        own = -(-turns // split)
        for stages in (stages for stages in _STAGES if stages <= max(own, 2)) if own > 1 else (1,):
            made = shared_stream_tile(view, tile, split, stages)
            joins = split == 1 or registers_of(view, made) <= most_registers(made, work.target)
            if joins and stream_shared(view, made).nbytes <= shared_limit(KERNEL_ARCH, work.target):
                yield made


def _fitted(view: StreamView, tile: StreamTile, target: Target) -> tuple[StreamTile, tuple[str, ...]] | None:
    """The tile with what must give way for registers and shared memory; None where that is not enough."""
    notes = _widths(view, tile)
    for field, note in (("ahead", "fragments are loaded as they are used"), ("held", "queries stay in shared memory")):
        if registers_of(view, tile) > most_registers(tile, target) and getattr(tile, field):
            tile = msgspec.structs.replace(tile, **{field: False})
            notes += (f"{note}: registers",)
    warp_m, thread = tile.scores.warp_m, tile.scores.thread
    while registers_of(view, tile) > most_registers(tile, target):
        rows = 16 if thread is None else 1
        if warp_m <= rows or 2 * tile.threads > MAX_THREADS or (thread is not None and thread[0] == 1):
            return None
        own = None if thread is None else thread[0] // 2
        sizes = (tile.lead.bm, tile.lead.bn, tile.terms)
        tile = made_stream_tile(view, sizes, warp_m // 2, tile.scores.stages, thread_m=own, stops=tile.stops)
        notes += (f"warp_tile {warp_m} → {warp_m // 2} rows: registers",)
        warp_m, thread = tile.scores.warp_m, tile.scores.thread
    return (tile, notes) if stream_shared(view, tile).nbytes <= shared_limit(KERNEL_ARCH, target) else None


def _widths(view: StreamView, tile: StreamTile) -> tuple[str, ...]:
    """Notes on operands that do not move 16 bytes at once."""
    moved = [(view.scores, staging) for staging in tile.scores.stagings] if view.scores is not None else []
    found = [(of.operand(each.side).value, each) for of, each in moved if of is not None]
    found += [
        (of.operand(1).value, product_tile.rhs) for of, product_tile in zip(view.products, tile.sums, strict=False)
    ]
    return tuple(
        f"{name}: "
        + ("by element, as it is no aligned run of memory" if not each.copied else f"vectors of {each.nbytes} bytes")
        for name, each in found
        if not each.copied or each.nbytes < 16
    )


# --- plans ----------------------------------------------------------------------------------------


def _plan(candidate: _Candidate, target: Target) -> GpuStreamPlan:
    view, tile, notes, _ = candidate
    return GpuStreamPlan(
        arch=target.arch,
        tile=tile,
        places=_places(view, tile),
        together=view.together,
        scored=scored_of(view),
        values=values_of(view),
        tails=tail_axes(stream_steps(view, tile)),
        epilogue=stream_epilogue(view),
        notes=(*notes, _SM80_PATH) if target.arch == "sm90" else notes,
    )


def _places(view: StreamView, tile: StreamTile) -> BlockPlaces:
    """Tiles to blocks: those of one product beside each other, as they share keys and values; before its other parts
    the same part of other products, which may share these."""
    products, _, columns = tiles_of(stream_products(view)[0], tile.lead)
    return BlockPlaces(
        batch="x" if products > MAX_GRID[1] else "y",
        rows="x",
        columns="x" if columns > MAX_GRID[2] else "z",
        parts="z" if tile.split > 1 else "x",
    )
