"""The tiles of a contraction's plan on a GPU, and the check that a plan fits the contraction."""

from __future__ import annotations

import math

import msgspec

from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_shared import kernel_arch
from codegen.plan.gpu.operand_read import fits_tf32, neighbours, on_tensor_cores, staging
from codegen.plan.plan_check import STAGE, check_gpu, fail_malformed, fail_misaligned
from codegen.poly.tail_axes import Steps, check_tails
from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import LIMITS, MAX_GRID, MAX_THREADS, WARPGROUP_COLUMNS, WARPGROUP_ROWS
from ir.kernel.nodes import register_type
from ir.plan.gpu import MMA_BYTES, MMA_ROWS, BlockPlaces, ContractionTile, GpuContractionPlan, GridAxis, Staging, Store

GRID_AXES: tuple[GridAxis, ...] = ("x", "y", "z")
STORES: tuple[Store, ...] = ("staged", "vectors", "elements")
"""How results are stored, the fastest way first."""
_MOST_BYTES = 128
"""Bytes of a row of a stage on tensor cores, at most: a swizzle permutes so many."""
_STAGED_BYTES = 8
"""Bytes of a store from which shared memory makes results leave faster."""


def turns_of(view: Contraction, tile: ContractionTile) -> int:
    """Turns of the main loop, over all blocks that share a tile: a turn uses one stage of terms."""
    return -(-view.depth // tile.bk)


def turns_of_block(view: Contraction, tile: ContractionTile) -> int:
    """Turns of one block, at most."""
    return -(-turns_of(view, tile) // tile.split)


def has_terms_for_all_blocks(view: Contraction, tile: ContractionTile) -> bool:
    """Whether every block that shares a tile has terms."""
    return (tile.split - 1) * turns_of_block(view, tile) < turns_of(view, tile)


def tiles_of(view: Contraction, tile: ContractionTile) -> tuple[int, int, int]:
    """Numbers of products, of tiles of rows, and of tiles of columns."""
    return view.extent(view.batch), -(-view.m // tile.bm), -(-columns_of(view) // tile.bn)


def pieces_of(tile: ContractionTile, staged: Staging) -> int:
    """Copies, or elements, that one thread moves per stage of an operand, at most."""
    return -(-tile.extent(staged) * tile.bk // (staged.width * tile.threads))


def columns_of(view: Contraction) -> int:
    """All columns, also those that are not one affine run of the output."""
    return view.extent((*view.outer, *view.columns))


def steps_of(view: Contraction, tile: ContractionTile) -> tuple[Steps, ...]:
    """The loops that a tail may cut."""
    return Steps("m", view.m, tile.bm), Steps("n", columns_of(view), tile.bn), Steps("k", view.depth, tile.bk)


def make_tile(
    view: Contraction,
    tile: tuple[int, int, int],
    warp: tuple[int, int],
    stages: int = 1,
    *,
    thread: tuple[int, int] | None = None,
    tf32: bool = False,
    raster: int = 1,
    warpgroups: bool = False,
) -> ContractionTile:
    """The tile of these sizes; operands and results move as many elements at once as they allow. With `thread` the tile
    is for CUDA cores, with `tf32` for tensor cores with fp32 operands, else for tensor cores with 16-bit operands, with
    `warpgroups` by four warps together."""
    bm, bn, bk = tile
    sides = zip((1 - view.vector, view.vector), (bm, bn), strict=True)
    narrow = thread is None and not tf32
    rows, columns = (staging(view, side, narrow).fit(extent, bk) for side, extent in sides)
    neighbours = 2
    if thread is not None:
        neighbours = 1 if columns.along_k else math.gcd(thread[1], 16 // DTYPES[view.accumulator].bytes)
    store, width = _store(view, neighbours, thread is None)
    return ContractionTile(
        bm, bn, bk, *warp, stages, rows, columns, store, width, thread, raster, warpgroups=warpgroups
    )


def _store(view: Contraction, side_by_side: int, tensor_cores: bool) -> tuple[Store, int]:
    """How a thread with so many neighbouring results stores the first output, and how many it stores at once."""
    first = next(output for output in view.region.outputs if output.name == view.region.yields[0].buffer).memref
    size = DTYPES[first.dtype].bytes
    width = neighbours(view.roles.out, first.shape, (*view.outer, *view.columns), view.sizes, size)
    if register_type(first.dtype) != view.accumulator or min(width, side_by_side) == 1:
        return "elements", 1
    if tensor_cores and size == 2 and width * size >= _STAGED_BYTES:
        return "staged", width
    return "vectors", min(width, side_by_side)


def check_contraction_plan(view: Contraction, plan: GpuContractionPlan) -> None:
    """Raises EqsatError where a plan does not fit: UnknownTarget for another machine's plan; AlignmentMismatch where
    tiles do not divide; MalformedGraph where the plan contradicts the region; ResourceExceeded for more threads than a
    block may have."""
    check_gpu(plan.arch)
    tile = plan.tile
    if min(tile.bm, tile.bn, tile.bk, tile.warp_m, tile.warp_n, tile.raster, *(tile.thread or ())) < 1:
        fail_malformed(view, f"{tile} has a tile without elements")
    if plan.pattern != view.pattern:
        fail_malformed(view, f"the region is a {view.pattern}, the plan is of a {plan.pattern}")
    if plan.epilogue != view.epilogue:
        fail_malformed(view, f"the plan's epilogue {plan.epilogue} is not the region's {view.epilogue}")
    if tile.tensor_cores and not tile.tf32 and not on_tensor_cores(view):
        fail_malformed(view, "tensor cores need both operands in fp16 or in bf16, and fp32 sums in any order")
    if tile.tf32 and not fits_tf32(view):
        fail_malformed(view, "tf32 needs operands that fp16 and bf16 do not hold exactly, and fp32 sums in any order")
    if tile.warpgroups and not LIMITS[plan.arch].warpgroup_columns:
        fail(Kind.UNKNOWN_TARGET, STAGE, f"{plan.arch} has no warpgroups", at=view.region.name, hint="sm90a")
    _check_shape(view, tile)
    _check_moves(view, tile)
    if (plan.operands, plan.sums, plan.result) != (operands_of(view, tile), view.name, view.region.yields[0].value):
        fail_malformed(view, f"{plan.operands}, {plan.sums}, {plan.result} are not the values of the region")
    if plan.kernel_arch != kernel_arch(view, tile):
        fail_malformed(view, f"{kernel_arch(view, tile)} is the least architecture for {tile}, not {plan.kernel_arch}")
    check_tails(steps_of(view, tile), plan.tails, STAGE, view.region.name)
    check_grid(view, tile, plan.places)


def grid_of(view: Contraction, tile: ContractionTile, places: BlockPlaces) -> tuple[int, int, int]:
    """Blocks along x, y and z."""
    grid = dict.fromkeys(GRID_AXES, 1)
    for piece, count in zip(("batch", "rows", "columns", "parts"), (*tiles_of(view, tile), tile.split), strict=True):
        grid[getattr(places, piece)] *= count
    return grid["x"], grid["y"], grid["z"]


def check_grid(view: Contraction, tile: ContractionTile, places: BlockPlaces) -> None:
    """Raises EqsatError where the blocks do not make a grid: MalformedGraph where tiles of rows that stand side by side
    are numbered along another axis than tiles of columns; ResourceExceeded where an axis is too long."""
    if tile.raster > 1 and places.rows != places.columns:
        fail_malformed(view, f"{tile.raster} tiles of rows stand side by side, but not along the axis of the columns")
    grid = grid_of(view, tile, places)
    if any(size > most for size, most in zip(grid, MAX_GRID, strict=True)):
        hint = f"at most {MAX_GRID}"
        fail(Kind.RESOURCE_EXCEEDED, STAGE, f"a grid of {[*grid]} blocks", at=view.region.name, hint=hint)


def operands_of(view: Contraction, tile: ContractionTile) -> tuple[str, str]:
    """The tensors with the rows and with the columns."""
    return view.operand(tile.lhs.side).value, view.operand(tile.rhs.side).value


def _check_moves(view: Contraction, tile: ContractionTile) -> None:
    """Operands and results move as the region allows; results may also be stored in a slower way."""
    sizes, warp = (tile.bm, tile.bn, tile.bk), (tile.warp_m, tile.warp_n)
    kinds = {"tf32": tile.tf32, "warpgroups": tile.warpgroups}
    allowed = make_tile(view, sizes, warp, tile.stages, thread=tile.thread, raster=tile.raster, **kinds)
    if STORES.index(tile.store) < STORES.index(allowed.store):
        fail_malformed(view, f"results can not leave {tile.store}: {allowed.store} at the most")
    if tile.store != allowed.store:
        allowed = msgspec.structs.replace(allowed, store=tile.store, store_width=2 if tile.store == "vectors" else 1)
    if tile != msgspec.structs.replace(allowed, split=tile.split):
        fail_misaligned(view, f"operands and results move as in {allowed}, not as in {tile}")


def _check_warpgroups(view: Contraction, tile: ContractionTile) -> None:
    whole = tile.bm % WARPGROUP_ROWS == 0 and tile.bn in WARPGROUP_COLUMNS and tile.warp_n == tile.bn
    if not whole or tile.warp_m != MMA_ROWS or tile.bk * DTYPES[tile.rhs.dtype].bytes != _MOST_BYTES:
        fail_misaligned(
            view,
            f"warpgroups take tiles of {WARPGROUP_ROWS} rows and {WARPGROUP_COLUMNS} columns, {MMA_ROWS} rows and all "
            f"columns a warp, and rows of {_MOST_BYTES} bytes a stage",
        )
    if tile.stages < min(tile.lag + 2, turns_of_block(view, tile)):
        fail_malformed(view, f"{tile.stages} stages are too few: products of the turn before still read one of them")


def _check_shape(view: Contraction, tile: ContractionTile) -> None:
    if tile.bm % tile.warp_m or tile.bn % tile.warp_n:
        fail_misaligned(view, f"warps of {tile.warp_m} x {tile.warp_n} do not divide a tile of {tile.bm} x {tile.bn}")
    if tile.threads > MAX_THREADS:
        fail(Kind.RESOURCE_EXCEEDED, STAGE, f"{tile.threads} threads a block", at=view.region.name)
    if tile.split != 1 and (tile.split < 1 or view.ordered or not has_terms_for_all_blocks(view, tile)):
        fail_malformed(view, f"{tile.split} blocks cannot share {turns_of(view, tile)} turns, ordered: {view.ordered}")
    if tile.stages < 1 or (tile.stages == 1 and turns_of_block(view, tile) > 1):
        fail_malformed(view, f"{tile.stages} stages are too few: one is used while another is filled")
    if tile.raster > 1 and tiles_of(view, tile)[1] % tile.raster:
        fail_misaligned(view, f"{tile.raster} tiles of rows side by side do not divide {tiles_of(view, tile)[1]}")
    if tile.warpgroups:
        _check_warpgroups(view, tile)
    if tile.tensor_cores:
        fiber = tile.bk * DTYPES[tile.rhs.dtype].bytes
        if tile.warp_m % 16 or tile.warp_n % 16 or fiber % MMA_BYTES or fiber > _MOST_BYTES:
            fail_misaligned(
                view,
                f"tensor cores take tiles of 16 x 16 and rows of {MMA_BYTES} bytes, at most {_MOST_BYTES} a stage",
            )
        return
    assert tile.thread is not None
    rows, columns = tile.thread
    if tile.warp_m % rows or tile.warp_n % columns or math.prod(tile.lanes) != WARP_LANES:
        fail_misaligned(
            view,
            f"threads of {rows} x {columns} are not {WARP_LANES} in a warp of {tile.warp_m} x {tile.warp_n}",
        )
    vector = 16 // DTYPES[view.accumulator].bytes
    if tile.bk % vector:
        fail_misaligned(view, f"a stage of {tile.bk} terms is no whole number of vectors of {vector}")
