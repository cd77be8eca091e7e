"""Candidate plans of a region without a contraction on a GPU: points, rows or tiles.

points  every thread computes points of its own
rows    a team of threads computes a row
tiles   a block transposes a tile through shared memory
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from codegen.plan.gpu.nest_tiling import (
    GpuNestPlan,
    can_split,
    crossing_reads,
    dear_values,
    kept_buffers,
    points_of,
    row_axes,
    row_length,
    row_scans,
    row_values,
    rows_of,
    scanned_buffers,
    tiles_of,
)
from codegen.plan.gpu.nest_work import GpuNestWork
from codegen.plan.gpu.plan_time import plan_time
from codegen.plan.region_loops import Axes, RegionLoops
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import HIDING_THREADS, MAX_THREADS, VECTOR_BYTES
from ir.kernel.gpu.occupancy import shared_limit
from ir.plan.gpu_nest import AT_A_TIME, GpuPointsPlan, GpuRowsPlan, GpuTilesPlan, Keep, Points, Rows, Tiles
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target

MOST = 16
"""Candidates returned, at most."""
_KEPT = 64
"""Registers of a thread for elements of a row, at most."""
_REGISTERS, _OTHER_REGISTERS = 65536, 32
"""Registers of a block; and registers that a thread needs besides the elements that it keeps."""
_SHARED = 0.75
"""The share of a block's shared memory that rows may fill."""
_BLOCK = 256
"""Threads of a block."""
_SHARED_TEAM = 128
"""Threads of a team, at least, where neighbouring threads have neighbouring elements and several blocks share a row."""
_SCAN_TURNS = 8
"""Turns of a scan that are written out, at most, so that registers hold the elements: a turn has some 30 instructions
with 256 threads, in SASS (CUDA 13.0, sm_80)."""
_SCAN_PARTS = 1024
"""Parts of a row's scan, at most, beyond one for every block that has room: every part awaits all earlier ones."""
_TEAMS = (8, 32, 128, 256, 512, 1024)
"""Threads that share a row."""
_KINDS = frozenset({"ewise", "unary", "cast", "copy", "reduce", "scan", "gather", "index"})
"""Kinds of ops that nests compute."""


def nest_candidates(
    region: Region,
    core: PolyCore,
    target: Target,
    *,
    ordered: bool = False,
    relative: bool = False,
    most: int = MOST,
) -> list[tuple[GpuNestPlan, Work]]:
    """The candidates, the fastest arithmetic first, since all move the same bytes. None where the region is not legal
    as one kernel, has an op that no nest computes, or would compute a sum in two orders. `ordered`: plans take the
    terms of floating-point sums and products in index order. `relative`: parts of sums of exponentials may be relative
    to their own maxima."""
    if not core.legal or any(let.op.kind not in _KINDS for let in region.body):
        return []
    loops = RegionLoops(region, core, ordered)
    if loops.sums_in_two_orders:
        return []
    work = GpuNestWork(loops, target)
    rows = [*_rows(loops, work, target.arch)]
    rows += [*_shared_rows(loops, work, rows, relative)]
    how: Any = {"arch": target.arch, "ordered": ordered}
    priced: list[tuple[GpuNestPlan, Work]] = []
    priced += [(GpuPointsPlan(points=points, **how), work.of_points(points)) for points in _points(loops, work)]
    priced += [(GpuTilesPlan(tiles=tiles, **how), work.of_tiles(tiles)) for tiles in _tiles(loops)]
    priced += [(GpuRowsPlan(rows=team_rows, **how), work.of_rows(team_rows)) for team_rows in rows]
    priced.sort(key=lambda candidate: plan_time(candidate[1], target).arithmetic)
    return priced[:most]


# --- points ---


def _points(loops: RegionLoops, work: GpuNestWork) -> Iterator[Points]:
    shape = loops.shape
    if 0 in shape or not shape:
        yield points_of(loops, [[axis] for axis in range(len(shape))], (WARP_LANES, 1), 1)
        return
    if loops.scan_axes(shape):
        return
    groups = loops.output_groups(shape)
    for lane in _lanes(loops, groups):
        order = [*(group for number, group in enumerate(groups) if number != lane), groups[lane]]
        sizes = work.neighbours(groups[lane][-1])
        extent = math.prod(shape[axis] for axis in groups[lane])
        for width in _widths(loops, sizes, extent, alone=len(order) == 1):
            yield from _points_in_blocks(loops, order, width)
        if len(order) > 1 and lane == len(groups) - 1 and extent % (VECTOR_BYTES // min(sizes, default=VECTOR_BYTES)):
            flat = [[axis for group in groups for axis in group]]  # vectors that cross the ends of rows
            for width in _widths(loops, sizes, math.prod(shape), alone=True)[:1]:
                yield from _points_in_blocks(loops, flat, width)


def _points_in_blocks(loops: RegionLoops, order: Sequence[Axes], width: int) -> Iterator[Points]:
    for tile in ((_BLOCK, 1), (_BLOCK // 2, 1), (_BLOCK, 2)):
        if tile[1] == 1 or math.prod(loops.shape) >= width * tile[0] * tile[1] * 64:
            yield points_of(loops, order, tile, width)


def _lanes(loops: RegionLoops, groups: Sequence[Axes]) -> list[int]:
    """The loops along which lanes may run: the best one, the loop over neighbours of the output, the longest one."""
    extents = [math.prod(loops.shape[axis] for axis in group) for group in groups]
    longest = max(range(len(groups)), key=lambda number: extents[number])
    best = loops.best_lane(loops.shape, groups)
    return list(dict.fromkeys(lane for lane in (best, len(groups) - 1, longest) if lane is not None))


def _widths(loops: RegionLoops, sizes: Sequence[int], extent: int, *, alone: bool) -> list[int]:
    """The numbers of neighbours that a thread may compute: as many as fill its widest loads, with the smallest and with
    the largest elements. They divide the loop unless the nest has no other."""
    own = sizes or [DTYPES[loops.region.outputs[0].memref.dtype].bytes]
    wanted = (VECTOR_BYTES // min(own), VECTOR_BYTES // max(own), 1)
    widths = {
        next(part for part in (width, width // 2, 1) if part == 1 or extent % part == 0 or (alone and part <= extent))
        for width in wanted
        if width
    }
    return sorted(widths, reverse=True)


# --- tiles ---


def _tiles(loops: RegionLoops) -> Iterator[Tiles]:
    shape = loops.shape
    if 0 in shape or any(op.reduced or op.kind == "scan" for op in loops.ops.values()):
        return
    groups = loops.output_groups(shape)
    for across in groups[:-1]:
        order = [*(group for group in groups[:-1] if group is not across), across, groups[-1]]
        if crossing_reads(loops, order):
            for tile in ((WARP_LANES, WARP_LANES), (2 * WARP_LANES, WARP_LANES), (2 * WARP_LANES, 2 * WARP_LANES)):
                yield tiles_of(loops, order, tile)


# --- rows ---


def _rows(loops: RegionLoops, work: GpuNestWork, arch: str) -> Iterator[Rows]:
    shape = loops.shape
    scans = bool(loops.scan_axes(shape)) if 0 not in shape else False
    if 0 in shape or not (scans or row_values(loops)):
        return
    axes, _ = row_axes(loops)
    length, count = row_length(loops), math.prod(shape[axis] for axis in axes)
    if any(loops.in_order(name) for name, op in loops.ops.items() if op.reduced or op.kind == "scan"):
        yield rows_of(loops, (WARP_LANES, 1), near=True, keep="none", width=1)
        return
    if scans:
        yield rows_of(loops, (_BLOCK // 2, 1), near=True, keep="none", width=1)
    widths = [1] if scans else _row_widths(loops, length)
    for width in widths:
        for team in _TEAMS:
            if team > WARP_LANES and team * width >= 2 * length:
                continue
            height = max(1, _BLOCK // 2 // team) if count > 1 else max(1, WARP_LANES // team)
            kept = _fits_registers(work, length, height, team, width)
            if team == MAX_THREADS and not kept and len(widths) > 1 and width == 1:
                continue
            keep: Keep = "reg" if kept and not scans else "none"
            yield rows_of(loops, (height, team), near=True, keep=keep, width=width)
            if not kept and not scans and team >= _BLOCK:
                rows = rows_of(loops, (1, team), near=True, keep="smem", width=width)
                if 0 < rows.held * work.kept_bytes <= _SHARED * shared_limit(arch, work.target):
                    yield rows
    if not scans:
        for height, team in ((WARP_LANES, 8), (WARP_LANES, 32), (8, 32), (8, 128)):  # neighbouring rows fill sectors
            kept = _fits_registers(work, length, height, team, 1)
            yield rows_of(loops, (height, team), near=False, keep="reg" if kept else "none", width=1)


def _shared_rows(loops: RegionLoops, work: GpuNestWork, alone: Sequence[Rows], relative: bool) -> Iterator[Rows]:
    """Rows shared by several blocks, where whole rows leave multiprocessors idle: so many blocks that every SM has one,
    or enough to hide its latencies. A part that is read twice stays in registers if it fits; for scans, parts may be
    made as short as that takes."""
    if not alone or not can_split(loops, relative=relative):
        return
    target, dear, scans = work.target, dear_values(loops), row_scans(loops)
    reads_twice = bool(kept_buffers(loops) or scanned_buffers(loops))
    seen: set[tuple[object, ...]] = set()
    for rows in alone:
        turns = rows.turns(rows.length)
        if (rows.near and rows.team < _SHARED_TEAM) or (scans and rows.height > 1):
            continue
        short = [rows.blocks * -(-turns // _SCAN_TURNS)] if scans and turns <= _SCAN_PARTS * _SCAN_TURNS else []
        for blocks in (target.units, target.units * max(1, HIDING_THREADS // rows.threads), *short):
            wanted = max(1, min(blocks // rows.blocks, turns // AT_A_TIME))
            own = msgspec.structs.replace(rows, split=wanted).own_turns(rows.length)
            split = -(-turns // own)
            fits = _fits_registers(work, own * rows.team * rows.width, rows.height, rows.team, rows.width)
            if scans:  # ptxas loads the totals of all warps early, for which blocks of 1,024 have no registers
                fits = fits and own <= _SCAN_TURNS and rows.team < MAX_THREADS
            key = (rows.height, rows.team, rows.near, rows.width, split)
            if split > 1 and key not in seen:
                seen.add(key)
                keep: Keep = "reg" if reads_twice and fits else "none"
                own_dear = dear if keep == "reg" else ()
                yield msgspec.structs.replace(rows, keep=keep, split=split, dear=own_dear, shared=(), scans=scans)


def _fits_registers(work: GpuNestWork, length: int, height: int, team: int, width: int) -> bool:
    """Whether the registers of the threads hold a row, or their part of it."""
    registers = -(-length // (team * width)) * width * work.kept_words
    return registers <= min(_KEPT, _REGISTERS // (height * team) - _OTHER_REGISTERS)


def _row_widths(loops: RegionLoops, length: int) -> list[int]:
    """Elements of a vector of a row: the length of every pass is a multiple of them."""
    sizes = [DTYPES[buffer.memref.dtype].bytes for buffer in loops.region.inputs]
    _, inner = row_axes(loops)
    lengths = {length, math.prod(loops.shape[axis] for axis in inner)} - {1}
    lengths |= {math.prod(op.domain[len(op.shape) :]) for op in loops.ops.values() if op.reduced} - {1}
    wanted = {VECTOR_BYTES // max(sizes, default=4), VECTOR_BYTES // min(sizes, default=4)}
    fit = {width for width in wanted if all(length % width == 0 for length in lengths)}
    return sorted(fit | {1}, reverse=True)[:2]
