"""The points, rows and tiles of a nest's plan on a GPU, and the check that a plan fits the region."""

from __future__ import annotations

import math
from collections.abc import Sequence

from codegen.plan.plan_check import STAGE, check_gpu
from codegen.plan.region_loops import RegionLoops
from codegen.plan.relative_sums import relative_sums
from ir.diagnostics import Kind, fail
from ir.index.map import AxisMap, support
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import MAX_THREADS
from ir.plan.gpu_nest import GpuPointsPlan, GpuRowsPlan, GpuTilesPlan, Keep, Points, Rows, Tiles
from ir.poly.core import MemoryAccess
from ir.region.region import behind
from ir.region.work import flops_per_point

DEAR_FLOPS = 8
"""Additions per element from which the threads of a row keep a value instead of computing it again."""
GpuNestPlan = GpuPointsPlan | GpuRowsPlan | GpuTilesPlan


def points_of(loops: RegionLoops, groups: Sequence[Sequence[int]], tile: tuple[int, int], width: int) -> Points:
    """Points along loops over `groups` of axes. `tile`: threads of a block, vectors of a thread."""
    return Points(tuple(map(tuple, groups)), _extents(loops, groups), width, *tile)


def rows_of(loops: RegionLoops, tile: tuple[int, int], *, near: bool, keep: Keep, width: int, split: int = 1) -> Rows:
    """Rows of a region; `split` blocks share a row. `tile`: rows of a block, threads of a team."""
    axes, inner = row_axes(loops)
    count = math.prod(loops.shape[axis] for axis in axes)
    dear = dear_values(loops) if keep == "reg" else ()
    shared = kept_buffers(loops) if keep == "smem" else ()
    scans = row_scans(loops) if split > 1 else ()
    return Rows(axes, inner, count, row_length(loops), *tile, near, keep, width, split, dear, shared, scans)


def tiles_of(loops: RegionLoops, groups: Sequence[Sequence[int]], tile: tuple[int, int]) -> Tiles:
    """Tiles along the last two of the loops over `groups` of axes. `tile`: the sizes of a tile."""
    return Tiles(tuple(map(tuple, groups)), _extents(loops, groups), *tile)


def _extents(loops: RegionLoops, groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(math.prod(loops.shape[axis] for axis in group) for group in groups)


def check_nest_plan(loops: RegionLoops, plan: GpuNestPlan) -> None:
    """Raises EqsatError where a plan does not fit: UnknownTarget for another machine's plan; AlignmentMismatch where
    vectors do not divide a loop; MalformedGraph where the plan contradicts the region; UnsupportedOp where the template
    does not have the choice."""
    check_gpu(plan.arch)
    match plan:
        case GpuPointsPlan():
            _check_points(loops, plan.points)
        case GpuRowsPlan():
            _check_rows(loops, plan.rows)
        case GpuTilesPlan():
            _check_tiles(loops, plan.tiles)


def _check_points(loops: RegionLoops, points: Points) -> None:
    _check_loops(loops, points)
    if min(points.threads, points.turns, points.width) < 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{points} have no points")
    if points.width > 1 and (not points.axes or (len(points.axes) > 1 and points.extents[-1] % points.width)):
        message = f"{points.width} neighbours at once along the last loop"
        fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, extents=points.extents)
    _check_block(points.threads)
    if loops.scan_axes(loops.shape) and 0 not in loops.shape:
        fail(Kind.UNSUPPORTED_OP, STAGE, "threads with points of their own can not carry a scan", hint="nest: rows")


def _check_rows(loops: RegionLoops, rows: Rows) -> None:
    near, keep, width, team = rows.near, rows.keep, rows.width, rows.team
    if min(rows.height, team, width) < 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{rows} have no rows")
    if rows != rows_of(loops, (rows.height, team), near=near, keep=keep, width=width, split=rows.split):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{rows} are not the rows of the region", shape=loops.shape)
    _check_block(rows.threads)
    if near and team > 1 and (team & (team - 1) if team < WARP_LANES else team % WARP_LANES):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a team of {team}: a power of two, or whole warps")
    if not near and width > 1:
        fail(Kind.UNSUPPORTED_OP, STAGE, "threads on neighbouring rows move one element at a time")
    if rows.in_shared and near and team <= WARP_LANES:
        fail(Kind.UNSUPPORTED_OP, STAGE, "a team within one warp keeps its row in registers", hint="keep: reg")
    if loops.scan_axes(loops.shape) and (width > 1 or not near):
        fail(Kind.UNSUPPORTED_OP, STAGE, "a scan is carried from neighbour to neighbour", hint="team: near, width 1")
    if rows.split != 1:
        _check_split(loops, rows)


def _check_tiles(loops: RegionLoops, tiles: Tiles) -> None:
    _check_loops(loops, tiles)
    pointwise = not any(op.reduced or op.kind == "scan" for op in loops.ops.values())
    if len(tiles.axes) < 2 or 0 in tiles.extents or not pointwise:
        message = "tiles need two loops over the outputs, and a region without reductions"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, loops=tiles.axes)
    if min(tiles.across, tiles.along) < 1 or tiles.across % WARP_LANES or tiles.along % WARP_LANES:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a tile of {tiles.across} x {tiles.along}: multiples of {WARP_LANES}")


def _check_loops(loops: RegionLoops, nest: Points | Tiles) -> None:
    covers = sorted(axis for group in nest.axes for axis in group) == list(range(len(loops.shape)))
    if not covers or nest.extents != _extents(loops, nest.axes):
        message = "the plan's loops do not cover the output"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, loops=nest.axes, extents=nest.extents, shape=loops.shape)


def crossing_reads(loops: RegionLoops, axes: Sequence[Sequence[int]]) -> tuple[MemoryAccess, ...]:
    """The reads whose neighbours in memory lie along the last loop but one; equal reads are one."""
    across, along = axes[-2][-1], axes[-1][-1]
    reads: dict[tuple[str, AxisMap], MemoryAccess] = {}
    for access in loops.core.accesses:
        if access.scope == loops.scope and access.input >= 0 and not access.indirect and not access.map.guards:
            steps = access.strides[across].step, access.strides[along].step
            if steps[0] == 1 and steps[1] not in (0, 1):
                reads.setdefault((access.buffer, access.map), access)
    return tuple(reads.values())


def row_axes(loops: RegionLoops) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The outer axes that number the rows, and the outer axes inside a row. A row has one result per reduction; scans
    run inside a row."""
    shape, carried = loops.shape, loops.scan_axes(loops.shape)
    needed = {axis for value in row_values(loops) for axis in loops.core.finished[value]}
    if carried:
        needed = {axis for axis in range(len(shape)) if axis not in carried}
    rows = tuple(axis for axis in range(len(shape)) if axis in needed)
    return rows, tuple(axis for axis in range(len(shape)) if axis not in needed)


def row_values(loops: RegionLoops) -> tuple[str, ...]:
    """The reductions of the outer scope, in the body's order."""
    names = (let.name for let in loops.region.body if let.op.kind == "reduce")
    return tuple(name for name in names if loops.core.finished.get(name) is not None)


def row_scans(loops: RegionLoops) -> tuple[str, ...]:
    """The scans of more than one element, in the body's order."""
    scans = ((name, op) for name, op in loops.ops.items() if op.kind == "scan" and name in loops.core.scopes)
    return tuple(name for name, op in scans if op.domain[op.axis or 0] > 1)


def can_split(loops: RegionLoops, *, relative: bool = True) -> bool:
    """Whether several blocks may share a row: its reductions, or its scans, can be computed in parts."""
    return _can_split_scans(loops) if row_scans(loops) else _can_split_reductions(loops, relative=relative)


def _can_split_scans(loops: RegionLoops) -> bool:
    """Whether a block that has the totals of the parts before its own can compute its part of the scans and of all
    outputs: nothing needs a reduction of the row, scans take their terms in any order, and every output has elements of
    its own in every part. (No scan in a nest needs another scan.)"""
    carried = loops.scan_axes(loops.shape)
    in_parts = all(result.at is None or not support(result.at).isdisjoint(carried) for result in loops.region.yields)
    return in_parts and not row_values(loops) and not any(map(loops.in_order, row_scans(loops)))


def _can_split_reductions(loops: RegionLoops, *, relative: bool) -> bool:
    """Whether the reductions of a row do not need each other, except, if `relative`, sums that are relative to a
    maximum; take their terms in any order; and everything after them is computed once a row."""
    names, (_, inner) = row_values(loops), row_axes(loops)
    bases = {name: {base.maximum} for name, base in relative_sums(loops.region).items()} if relative else {}
    below = {name: set(behind(loops.ops, name)) & (set(names) - {name}) for name in names}
    independent = all(below[name] == bases.get(name, set()) or not below[name] for name in names)
    alike = len({terms_of(loops, name) for name in names}) == 1
    of_row = all(loops.shape[axis] == 1 for axis in inner)
    ordered = any(loops.in_order(name) for name, op in loops.ops.items() if op.reduced)
    return independent and alike and of_row and not ordered


def row_length(loops: RegionLoops) -> int:
    """Elements of the longest pass over a row."""
    _, inner = row_axes(loops)
    lengths = [math.prod(loops.shape[axis] for axis in inner)]
    lengths += [terms_of(loops, name) for name in row_values(loops)]
    return max(lengths)


def dear_values(loops: RegionLoops) -> tuple[str, ...]:
    """The pointwise values that a thread keeps instead of computing them again."""
    pointwise = ((name, op) for name, op in loops.ops.items() if op.kind in ("ewise", "unary", "cast"))
    return tuple(name for name, op in pointwise if flops_per_point(op.kind, op.fn) >= DEAR_FLOPS)


def kept_buffers(loops: RegionLoops) -> tuple[str, ...]:
    """The inputs that several passes over a row read, element by element."""
    return tuple(name for name, scopes in row_passes(loops).items() if len(scopes) > 1)


def scanned_buffers(loops: RegionLoops) -> tuple[str, ...]:
    """The inputs whose elements scans take, which blocks that share the scans read twice."""
    scans = row_scans(loops)
    reads = (access for access in loops.core.accesses if access.input >= 0 and access.scope in scans)
    moving = (access.buffer for access in reads if loops.ops[access.scope].axis in support(access.map))
    return tuple(dict.fromkeys(moving))


def row_passes(loops: RegionLoops) -> dict[str, set[str]]:
    """Input that passes over a row read element by element → the scopes of these passes."""
    passes: dict[str, set[str]] = {}
    _, inner = row_axes(loops)
    for access in loops.core.accesses:
        if access.input >= 0 and access.scope in (loops.scope, *row_values(loops)):
            rank = len(loops.ops[access.scope].shape) if access.scope in loops.ops else 0
            along = inner if access.scope == loops.scope else range(rank, len(access.map.sizes))
            if not support(access.map).isdisjoint(along):
                passes.setdefault(access.buffer, set()).add(access.scope)
    return passes


def terms_of(loops: RegionLoops, name: str) -> int:
    """Terms of one result of a reduction."""
    op = loops.ops[name]
    return math.prod(op.domain[len(op.shape) :])


def _check_split(loops: RegionLoops, rows: Rows) -> None:
    turns, own = rows.turns(rows.length), rows.own_turns(rows.length) if rows.split > 0 else 0
    if 0 in loops.shape or not can_split(loops) or rows.in_shared:
        message = (
            "blocks can share a row only if its reductions or scans are independent, unordered and not kept in shared "
            "memory"
        )
        fail(Kind.UNSUPPORTED_OP, STAGE, message, keep=rows.keep)
    if rows.scans and (rows.height > 1 or rows.team < WARP_LANES):
        message = f"blocks that share a scan have one row each, not {rows.height}, and whole warps"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, team=rows.team, hint="height 1")
    if rows.split < 1 or (rows.split - 1) * own >= turns:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{rows.split} blocks can not share {turns} turns")


def _check_block(threads: int) -> None:
    if threads % WARP_LANES or threads > MAX_THREADS:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a block of {threads} threads: whole warps, at most {MAX_THREADS}")
