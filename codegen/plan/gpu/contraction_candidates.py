"""Candidate plans of a contraction on a GPU: tile × warp tile × stages, for warpgroups, tensor cores or CUDA cores.

A plan that does not fit is reduced in the order of seed 000 §8: fewer stages, then a smaller warp tile, then narrower
vectors. Every reduction is a note of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from codegen.plan.contraction_view import Contraction, contraction_of
from codegen.plan.gpu.contraction_shared import fills_banks, kernel_arch, shared_bytes
from codegen.plan.gpu.contraction_tiling import (
    columns_of,
    make_tile,
    operands_of,
    steps_of,
    tiles_of,
    turns_of,
)
from codegen.plan.gpu.contraction_work import GpuContractionWork, registers_of
from codegen.plan.gpu.operand_read import fits_tf32, on_tensor_cores
from codegen.plan.gpu.plan_time import plan_time
from codegen.plan.gpu.split_k import splits_of
from codegen.poly.tail_axes import tail_axes
from ir.kernel.gpu.limits import LIMITS, MAX_GRID, MAX_THREADS, most_registers
from ir.kernel.gpu.occupancy import shared_limit
from ir.plan.gpu import MMA_ROWS, BlockPlaces, ContractionTile, GpuContractionPlan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target

_CANDIDATES = 16
"""Candidates returned, at most."""
_STAGES = (4, 3, 2)
"""Stages of a ring, the best first."""
_RASTER = 8
"""Tiles of rows side by side in the order of blocks, at most."""
_PADDED = 4
"""Points of a tiling, padding included, at most: times those of the tiling with the least padding."""
_SM80_PATHS = {"sm90": "no TMA and no wgmma", "sm100": "no TMA and no tcgen05"}
"""By architecture: its own instructions for products, which no template uses."""

_MATRIX_TILES = (
    (128, 256, 32, 64, 64),
    (256, 128, 32, 64, 64),
    (128, 256, 64, 64, 64),
    (256, 128, 64, 64, 64),
    (128, 128, 32, 64, 64),
    (128, 128, 32, 64, 32),
    (128, 128, 64, 64, 64),
    (128, 128, 64, 64, 32),
    (64, 256, 64, 32, 64),
    (128, 64, 32, 64, 32),
    (64, 128, 32, 32, 64),
    (128, 64, 64, 32, 32),
    (64, 128, 64, 32, 32),
    (64, 64, 64, 32, 32),
    (64, 64, 32, 32, 32),
    (128, 32, 32, 32, 32),
    (32, 128, 32, 32, 32),
    (64, 32, 64, 32, 16),
    (32, 64, 64, 16, 32),
    (32, 32, 64, 16, 16),
    (16, 128, 64, 16, 32),
    (128, 16, 64, 32, 16),
    (16, 64, 64, 16, 16),
    (64, 16, 64, 16, 16),
    (16, 32, 64, 16, 16),
    (32, 16, 64, 16, 16),
)
"""Tensor cores: BM, BN, BK in fp16 or bf16 (half as many of fp32), rows and columns of a warp."""
_WARPGROUP_TILES = (
    (128, 256, 64),
    (256, 128, 64),
    (128, 128, 64),
    (64, 256, 64),
    (64, 128, 64),
    (128, 64, 64),
    (64, 64, 64),
)
"""Warpgroups: BM, BN, BK in fp16 or bf16."""
_THREAD_TILES = (
    (128, 128, 16, 32, 64, 8, 8),
    (128, 64, 16, 32, 32, 4, 8),
    (64, 128, 16, 32, 32, 8, 4),
    (64, 64, 16, 32, 32, 8, 4),
    (64, 64, 32, 16, 32, 4, 4),
    (32, 64, 32, 16, 32, 4, 4),
    (64, 32, 32, 32, 16, 4, 4),
    (32, 32, 32, 16, 16, 2, 4),
    (16, 64, 32, 8, 32, 2, 4),
    (64, 16, 32, 32, 8, 4, 2),
    (8, 128, 32, 8, 32, 2, 4),
    (128, 8, 32, 32, 8, 4, 2),
    (4, 128, 32, 4, 32, 4, 1),
    (128, 4, 32, 32, 4, 1, 4),
    (1, 128, 32, 1, 32, 1, 1),
    (128, 1, 32, 32, 1, 1, 1),
    (1, 32, 128, 1, 32, 1, 1),
    (32, 1, 128, 32, 1, 1, 1),
)
"""CUDA cores: BM, BN, BK, rows and columns of a warp, rows and columns of a thread."""


def contraction_candidates(
    region: Region, core: PolyCore, target: Target, *, ordered: bool = False, tf32: bool = False
) -> list[tuple[GpuContractionPlan, Work]]:
    """The candidates, the fastest first; none if the region is no contraction that the template covers, or nothing
    fits. `ordered`: plans take the terms of floating-point sums in index order. `tf32`: plans may round fp32 to tf32;
    plans that do and are slower than the best exact plan are left out."""
    view = contraction_of(region, core, ordered=ordered)
    if view is None:
        return []
    priced = fitting_tiles(view, target, tf32=tf32)
    exact = next((number for number, (tile, *_) in enumerate(priced) if not tile.tf32), len(priced))
    faster = [candidate for number, candidate in enumerate(priced) if number < exact or not candidate[0].tf32]
    kept = faster[: 1 if view.is_empty else _CANDIDATES]
    return [(contraction_plan(view, tile, notes, target), work) for tile, notes, work in kept]


def fitting_tiles(
    view: Contraction, target: Target, *, tf32: bool = False
) -> list[tuple[ContractionTile, tuple[str, ...], Work]]:
    """The tiles that fit the machine, with the notes of their plans and their work, the fastest first; of equally fast
    tiles, those that round to tf32 last."""
    tiles: list[tuple[ContractionTile, tuple[str, ...], Work]] = []
    seen: set[tuple[object, ...]] = set()
    work = GpuContractionWork(view, target)
    for whole_shape in _shapes(view, target, tf32):
        for whole, notes in _fitting_stages(view, whole_shape, target):
            for tile in (whole, *splits_of(view, whole, target)):
                shape = (tile.bm, tile.bn, tile.bk, tile.warp_m, tile.warp_n, tile.thread, tile.stages, tile.split)
                if (*shape, tile.warpgroups) not in seen:
                    seen.add((*shape, tile.warpgroups))
                    tiles.append((tile, notes, work.of(tile)))
    return sorted(tiles, key=lambda candidate: (plan_time(candidate[2], target).whole, candidate[0].tf32))


# --- tiles ----------------------------------------------------------------------------------------


def _shapes(view: Contraction, target: Target, tf32: bool) -> Iterator[ContractionTile]:
    """Tiles of one stage that are not mostly padding: for tensor cores where these are exact; else for CUDA cores, and
    with `tf32` for tensor cores too."""
    if on_tensor_cores(view):
        for bm, bn, bk, warp_m, warp_n in _without_padding(view, _MATRIX_TILES):
            yield make_tile(view, (bm, bn, bk), (warp_m, warp_n))
        if LIMITS[target.arch].warpgroup_columns:
            for bm, bn, bk in _without_padding(view, _WARPGROUP_TILES):
                yield make_tile(view, (bm, bn, bk), (MMA_ROWS, bn), warpgroups=True)
        return
    if tf32 and fits_tf32(view):
        for bm, bn, bk, warp_m, warp_n in _without_padding(view, _MATRIX_TILES):
            tile = make_tile(view, (bm, bn, bk // 2), (warp_m, warp_n), tf32=True)
            if all(fills_banks(tile, staging) for staging in tile.stagings):
                yield tile
    for bm, bn, bk, warp_m, warp_n, *own in _without_padding(view, _THREAD_TILES):
        yield make_tile(view, (bm, bn, bk), (warp_m, warp_n), thread=(own[0], own[1]))


def _without_padding(view: Contraction, shapes: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The shapes that are not mostly padding."""
    m, n = max(view.m, 1), max(columns_of(view), 1)
    padded = [-(-m // bm) * bm * -(-n // bn) * bn for bm, bn, *_ in shapes]
    return [shape for shape, points in zip(shapes, padded, strict=True) if points <= _PADDED * min(padded)]


def _fitting_stages(
    view: Contraction, tile: ContractionTile, target: Target
) -> Iterator[tuple[ContractionTile, tuple[str, ...]]]:
    """The tile with as many stages as fit, and with one less; with smaller warp tiles where registers run out."""
    notes: tuple[str, ...] = _width_notes(view, tile)
    while registers_of(view, tile) > most_registers(tile.threads, target):
        smaller = _with_smaller_warps(view, tile)
        if smaller is None or smaller.threads > MAX_THREADS:
            return
        notes += (f"warp_tile {tile.warp_m}x{tile.warp_n} → {smaller.warp_m}x{smaller.warp_n}: registers",)
        tile = smaller
    turns = turns_of(view, tile)
    least = 2 + tile.lag
    wanted = [stages for stages in _STAGES if min(least, turns) <= stages <= max(turns, 2)] if turns > 1 else [1]
    limit = shared_limit(target.arch, target)
    fitting = [stages for stages in wanted if shared_bytes(view, _with_stages(view, tile, stages)) <= limit]
    for stages in fitting[:2]:
        fewer = (f"stages {wanted[0]} → {stages}: shared memory",) if fitting[0] < wanted[0] else ()
        yield _with_stages(view, tile, stages), (*notes, *fewer)


def _with_stages(view: Contraction, tile: ContractionTile, stages: int) -> ContractionTile:
    """The tile with a ring of `stages`, and with tiles of rows side by side where there are many."""
    _, rows, _ = tiles_of(view, tile)
    raster = next(count for count in range(min(_RASTER, rows), 0, -1) if rows % count == 0) if rows else 1
    return msgspec.structs.replace(tile, stages=stages, raster=raster)


def _with_smaller_warps(view: Contraction, tile: ContractionTile) -> ContractionTile | None:
    """The tile with warps of half their rows or columns."""
    if tile.warpgroups:
        return None
    sizes, least = (tile.warp_m, tile.warp_n), 16 if tile.thread is None else 1
    thread = tile.thread or (sizes[0] // 16, sizes[1] // 16)
    if max(thread) <= 1:
        return None
    rows = thread[0] >= thread[1]
    warp = (max(sizes[0] // 2, least), sizes[1]) if rows else (sizes[0], max(sizes[1] // 2, least))
    own = (thread[0] // 2, thread[1]) if rows else (thread[0], thread[1] // 2)
    return make_tile(view, (tile.bm, tile.bn, tile.bk), warp, thread=tile.thread and own, tf32=tile.tf32)


def _width_notes(view: Contraction, tile: ContractionTile) -> tuple[str, ...]:
    """Notes on operands that do not move 16 bytes at once."""
    return tuple(
        f"{view.operand(way.side).value}: "
        + ("by element, as it is no aligned run of memory" if not way.copied else f"vectors of {way.nbytes} bytes")
        for way in tile.stagings
        if not way.copied or way.nbytes < 16
    )


# --- plans ----------------------------------------------------------------------------------------


def contraction_plan(
    view: Contraction, tile: ContractionTile, notes: tuple[str, ...], target: Target
) -> GpuContractionPlan:
    """The plan with this tile."""
    places = _places(view, tile)
    if places.rows != places.columns:
        tile = msgspec.structs.replace(tile, raster=1)
    return GpuContractionPlan(
        arch=target.arch,
        pattern=view.pattern,
        tile=tile,
        places=places,
        operands=operands_of(view, tile),
        kernel_arch=kernel_arch(view, tile),
        sums=view.name,
        result=view.region.yields[0].value,
        tails=tail_axes(steps_of(view, tile)),
        epilogue=view.epilogue,
        ordered=view.ordered,
        notes=(*notes, *sm80_path_notes(target.arch)),
    )


def sm80_path_notes(arch: str) -> tuple[str, ...]:
    """The note on a plan for an architecture that has faster instructions than the plan's."""
    if arch not in _SM80_PATHS:
        return ()
    return (f"sm_{arch.removeprefix('sm')} takes the sm_80 path: cp.async and mma.sync, {_SM80_PATHS[arch]}",)


def _places(view: Contraction, tile: ContractionTile) -> BlockPlaces:
    """The grid axes of tiles: all along x where tiles of rows stand side by side, or where an axis of the grid is too
    short."""
    products, rows, columns = tiles_of(view, tile)
    beside = (tile.raster > 1 and columns > 1) or rows > MAX_GRID[1]
    return BlockPlaces(
        batch="x" if products > MAX_GRID[2] else "z",
        rows="x" if beside else "y",
        columns="x",
        parts="z" if tile.split > 1 else "x",
    )
