"""Candidate plans of streams in tiles on a GPU: rows of a block and of a warp × terms of a stage.

A plan that does not fit in registers is reduced: fragments are not loaded ahead, then queries are not held in
registers, then a warp has fewer rows. Every reduction is a note of the plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from codegen.plan.gpu.contraction_candidates import sm80_path_notes
from codegen.plan.gpu.contraction_tiling import columns_of, tiles_of
from codegen.plan.gpu.plan_time import plan_time
from codegen.plan.gpu.split_k import part_counts
from codegen.plan.gpu.stream_parts import stream_parts
from codegen.plan.gpu.stream_shared import stream_shared
from codegen.plan.gpu.stream_tiling import (
    make_stream_tile,
    scored_of,
    split_stream_tile,
    stream_products,
    stream_steps,
    stream_turns,
    streams_fit_tf32,
    streams_on_tensor_cores,
    values_of,
)
from codegen.plan.gpu.stream_work import GpuStreamWork, registers_of
from codegen.plan.stream_mask import last_seen
from codegen.plan.stream_view import StreamView, stream_epilogue, stream_views
from codegen.poly.tail_axes import tail_axes
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import MAX_GRID, MAX_THREADS, most_registers
from ir.kernel.gpu.occupancy import shared_limit
from ir.plan.gpu import MMA_LANES, STREAM_ARCH, BlockPlaces, GpuStreamPlan, Staging, StreamTile
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target

_CANDIDATES = 16
"""Candidates returned, at most."""
_MOST_VARIANTS = 2
"""Variants of one tile that are kept, at most: stages of the ring × blocks that share the tile."""
_STAGES = (2, 3, 4)
"""Stages of a ring."""
_FULL_WARPS = 8
"""Warps from which a multiprocessor is full."""
_PADDED = 4
"""Rows of a tiling, padding included, at most: times the rows of the tiling with the least padding."""
_WIDEST = 256
"""Columns of all products in one block, at most. Wider products are cut, and every block computes the scores again."""
_CUT = 128
"""Columns of a block of a product that is cut."""

_MATRIX_TILES = ((128, 32), (128, 16), (64, 32), (64, 16), (32, 16), (16, 16))
"""Tensor cores: BM, rows of a warp."""
_MATRIX_TERMS = (128, 64, 32, 16)
"""Terms of a stage on tensor cores."""
_THREAD_TILES = ((64, 16, 4), (64, 8, 2), (32, 8, 2), (16, 4, 1), (8, 2, 1), (4, 1, 1), (1, 1, 1))
"""CUDA cores: BM, rows of a warp, rows of a thread."""
_THREAD_TERMS = (64, 32)
"""Terms of a stage on CUDA cores."""


def stream_candidates(
    region: Region, core: PolyCore, target: Target, *, finite: bool = False, tf32: bool = False
) -> list[tuple[GpuStreamPlan, Work]]:
    """The candidates, the fastest first; none if the template does not cover the region, or nothing fits. `finite`:
    inputs are finite, so that terms whose weight is 0 because of their position need not be read. `tf32`: plans may
    round fp32 to tf32; plans that do and are slower than the best exact plan are left out."""
    priced = fitting_streams(region, core, target, finite=finite, tf32=tf32)
    exact = next((number for number, candidate in enumerate(priced) if not candidate.tile.tf32), len(priced))
    faster = [candidate for number, candidate in enumerate(priced) if number < exact or not candidate.tile.tf32]
    return [(stream_plan(candidate, target), candidate.work) for candidate in faster[:_CANDIDATES]]


class StreamCandidate(NamedTuple):
    """A tile that fits the machine, with the notes of its plan and its work."""

    view: StreamView
    tile: StreamTile
    notes: tuple[str, ...]
    work: Work


def fitting_streams(
    region: Region, core: PolyCore, target: Target, *, finite: bool = False, tf32: bool = False
) -> list[StreamCandidate]:
    """The tiles that fit the machine, the fastest first; of equally fast tiles, tiles that round to tf32 come last."""
    priced: list[StreamCandidate] = []
    for view in stream_views(region, core):
        priced += _view_candidates(view, target, finite, tf32)
    return sorted(priced, key=lambda candidate: (plan_time(candidate.work, target), candidate.tile.tf32))


def _view_candidates(view: StreamView, target: Target, finite: bool, tf32: bool) -> list[StreamCandidate]:
    work, candidates = GpuStreamWork(view, target), list[StreamCandidate]()
    shapes = [*_shapes(view, finite), *(_shapes(view, finite, tf32=True) if tf32 and streams_fit_tf32(view) else ())]
    for shape in shapes:
        fitted = _fitting(view, shape, target)
        if fitted is not None:
            tile, notes = fitted
            variants = [StreamCandidate(view, variant, notes, work.of(variant)) for variant in _variants(work, tile)]
            variants.sort(key=lambda variant: plan_time(variant.work, target))
            candidates += [
                variant
                for variant in variants[:_MOST_VARIANTS]
                if all(variant.tile != other.tile for other in candidates)
            ]
    return candidates


# --- tiles ----------------------------------------------------------------------------------------


def _shapes(view: StreamView, finite: bool, *, tf32: bool = False) -> Iterator[StreamTile]:
    """Tiles that are not mostly padding, with the shortest ring and the queries in registers. `tf32`: tiles that
    round to tf32."""
    matrix, m = tf32 or streams_on_tensor_cores(view), max(view.m, 1)
    shapes = _MATRIX_TILES if matrix else _THREAD_TILES
    least = min(-(-m // shape[0]) * shape[0] for shape in shapes)
    term_counts = _MATRIX_TERMS if matrix else _THREAD_TERMS
    bound = last_seen(view) if finite else None
    for bm, warp_m, *thread_m in shapes:
        if -(-m // bm) * bm > _PADDED * least:
            continue
        across = MMA_LANES if matrix else WARP_LANES * thread_m[0] // warp_m
        unit = 16 if matrix else across
        for terms in term_counts:
            if terms > term_counts[-1] and terms >= 2 * view.terms:
                continue
            stages = 2 if view.terms > terms else 1
            tile = (bm, _columns(view, unit), terms)
            yield make_stream_tile(
                view,
                tile,
                warp_m,
                stages,
                thread_m=thread_m[0] if thread_m else None,
                held=matrix,
                ahead=matrix,
                stops=bound is not None and bound.holds_for(view, bm),
                tf32=tf32,
            )


def _columns(view: StreamView, unit: int) -> int:
    """Columns of a block: all columns in whole units, or a part where they are many."""
    if not view.products:
        return unit
    n = columns_of(view.products[0])
    return _CUT if n > _WIDEST // len(view.products) else -(-n // unit) * unit


def _variants(work: GpuStreamWork, tile: StreamTile) -> Iterator[StreamTile]:
    """The tile with rings of several lengths, for one block; and for several blocks that share it, where the chip has
    room and a thread has registers to join their parts."""
    view = work.view
    blocks, turns = math.prod(tiles_of(stream_products(view)[0], tile.lead)), stream_turns(view, tile)[0]
    waves = min(work.resident(tile), max(2, _FULL_WARPS // work.busy_warps(tile)))
    for split in (1, *part_counts(blocks, turns, work.target, waves)):
        own = -(-turns // split)
        for stages in (stages for stages in _STAGES if stages <= max(own, 2)) if own > 1 else (1,):
            shared = split_stream_tile(view, tile, split, stages)
            joins = split == 1 or registers_of(view, shared) <= most_registers(shared.threads, work.target)
            if joins and stream_shared(view, shared).nbytes <= shared_limit(STREAM_ARCH, work.target):
                yield shared


def _fitting(view: StreamView, tile: StreamTile, target: Target) -> tuple[StreamTile, tuple[str, ...]] | None:
    """The tile, reduced until registers and shared memory suffice, and the notes; None where no reduction suffices."""
    notes = _width_notes(view, tile)
    for field, note in (("ahead", "fragments are loaded as they are used"), ("held", "queries stay in shared memory")):
        if registers_of(view, tile) > most_registers(tile.threads, target) and getattr(tile, field):
            tile = msgspec.structs.replace(tile, **{field: False})
            notes += (f"{note}: registers",)
    while registers_of(view, tile) > most_registers(tile.threads, target):
        warp_m, thread_m = tile.warp_m, tile.thread_m
        if warp_m <= (16 if thread_m is None else 1) or 2 * tile.threads > MAX_THREADS or thread_m == 1:
            return None
        own = None if thread_m is None else thread_m // 2
        sizes = (tile.bm, tile.bn, tile.terms)
        tile = make_stream_tile(view, sizes, warp_m // 2, tile.stages, thread_m=own, stops=tile.stops, tf32=tile.tf32)
        notes += (f"warp_tile {warp_m} → {warp_m // 2} rows: registers",)
    return (tile, notes) if stream_shared(view, tile).nbytes <= shared_limit(STREAM_ARCH, target) else None


def _width_notes(view: StreamView, tile: StreamTile) -> tuple[str, ...]:
    """Notes on operands that do not move 16 bytes at once."""
    ways: list[tuple[str, Staging]] = []
    if view.scores is not None:
        ways += [(view.scores.operand(staging.side).value, staging) for staging in tile.scores.stagings]
    ways += [(product.operand(1).value, staging) for product, staging in zip(view.products, tile.values, strict=True)]
    return tuple(
        f"{name}: "
        + ("by element, as it is no aligned run of memory" if not way.copied else f"vectors of {way.nbytes} bytes")
        for name, way in ways
        if not way.copied or way.nbytes < 16
    )


# --- plans ----------------------------------------------------------------------------------------


def stream_plan(candidate: StreamCandidate, target: Target) -> GpuStreamPlan:
    """The plan with the candidate's tile."""
    view, tile, notes, _ = candidate
    return GpuStreamPlan(
        arch=target.arch,
        tile=tile,
        places=_places(view, tile),
        parts=stream_parts(view, tile),
        together=view.together,
        scored=scored_of(view),
        values=values_of(view),
        tails=tail_axes(stream_steps(view, tile)),
        epilogue=stream_epilogue(view),
        notes=(*notes, *sm80_path_notes(target.arch)),
    )


def _places(view: StreamView, tile: StreamTile) -> BlockPlaces:
    """The grid axes of tiles. Tiles of one product are neighbours, since they share keys and values; then come the same
    parts of other products, which may share them too."""
    products, _, columns = tiles_of(stream_products(view)[0], tile.lead)
    return BlockPlaces(
        batch="x" if products > MAX_GRID[1] else "y",
        rows="x",
        columns="x" if columns > MAX_GRID[2] else "z",
        parts="z" if tile.split > 1 else "x",
    )
