"""How a GPU plan cuts a contraction, and whether that fits it.

m, n   tile BM, BN: of a block; warp_tile WMxWN: of a warp, which divides them; thread_tile (CUDA cores): of a thread
k      tile BK: the terms of a stage
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NoReturn

import msgspec

from codegen.plan.contraction_view import STAGE, Contraction
from codegen.plan.gpu.operand_read import Staging, fits_tf32, neighbours, on_tensor_cores, staging
from codegen.plan.plan_check import TemplateChoices, check_open_fields, rows_by_columns
from codegen.where.tails import Steps, check_tails
from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.gpu_limits import LIMITS, MAX_GRID, MAX_THREADS
from ir.kernel_nodes import register_type
from ir.plan import TF32, Cached, LocalEdge, Plan, Vectorize

WARP = 32
ALGORITHMS = ("mma", TF32, "fma")
"""Products on tensor cores, of halves or of floats rounded to tf32, or multiply-adds of each thread."""
STORES = ("staged", "vectors", "elements")
"""How results leave: as rows of 16 bytes put together in shared memory, as neighbours in a thread's registers, or one
by one."""
BLOCK_AXES = ("block.x", "block.y", "block.z")
WARP_AXES: Mapping[str, str] = {"m.i.o": "warp.y", "n.i.o": "warp.x"}
MMA_BYTES = 32
"""Of a row of one mma: 16 halves, or 8 floats."""
_MOST_BYTES = 128
"""Of a row of a stage on tensor cores: what a swizzle permutes."""
_STAGED_BYTES = 8
"""Stores narrower than this gain nothing from shared memory."""
CHOICES = TemplateChoices(
    algo_choice={"matmul": ALGORITHMS, "conv": ALGORITHMS},
    layout_hints={
        "lhs_swizzle": (True, False),
        "rhs_swizzle": (True, False),
        "C_store": STORES,
        "thread_tile": None,
        "raster": None,
        "split_k": None,
    },
    bind=("batch", "m.o", "n.o", "k.o", *WARP_AXES),
)


class ContractionTile(msgspec.Struct, frozen=True, dict=True):
    """The tiles of a plan in elements. `thread`: rows and columns of a thread on CUDA cores; None on tensor cores.
    `raster`: so many tiles of rows stand beside each other in the order of blocks, so that they share columns in the
    second-level cache. `split`: so many blocks share a tile of the result, each with a part of the terms."""

    bm: int
    bn: int
    bk: int
    warp_m: int
    warp_n: int
    stages: int
    lhs: Staging
    rhs: Staging
    store: str
    store_width: int
    thread: tuple[int, int] | None = None
    raster: int = 1
    split: int = 1

    @property
    def tensor_cores(self) -> bool:
        return self.thread is None

    @property
    def tf32(self) -> bool:
        """Whether tensor cores multiply floats, rounded to tf32."""
        return self.tensor_cores and self.rhs.dtype == "fp32"

    @property
    def multiplied(self) -> str:
        """What tensor cores multiply: "fp16", "bf16" or "tf32"."""
        return "tf32" if self.tf32 else self.rhs.dtype

    @property
    def algorithm(self) -> str:
        """Of `ALGORITHMS`."""
        if not self.tensor_cores:
            return "fma"
        return TF32 if self.tf32 else "mma"

    @property
    def steps(self) -> int:
        """Of a stage on tensor cores: each the terms of one mma."""
        return self.bk * DTYPES[self.rhs.dtype].bytes // MMA_BYTES

    @property
    def warps(self) -> tuple[int, int]:
        """Of a block, along rows and columns."""
        return self.bm // self.warp_m, self.bn // self.warp_n

    @property
    def threads(self) -> int:
        return WARP * math.prod(self.warps)

    @cached_property
    def stagings(self) -> tuple[Staging, Staging]:
        """That of the operand with the rows, then that with the columns."""
        return self.lhs, self.rhs

    def extent(self, staged: Staging) -> int:
        """Rows or columns of an operand's tile."""
        return self.bm if staged is self.lhs else self.bn

    @property
    def lanes(self) -> tuple[int, int]:
        """Of a warp on CUDA cores, along rows and columns."""
        assert self.thread is not None
        return self.warp_m // self.thread[0], self.warp_n // self.thread[1]


def turns_of(view: Contraction, tile: ContractionTile) -> int:
    """Stages that are filled and used, one after another, by all blocks that share a tile."""
    return -(-view.depth // tile.bk)


def turns_of_block(view: Contraction, tile: ContractionTile) -> int:
    """Those of one block, at most."""
    return -(-turns_of(view, tile) // tile.split)


def parts_hold(view: Contraction, tile: ContractionTile) -> bool:
    """Whether each of the blocks that share a tile has terms."""
    return (tile.split - 1) * turns_of_block(view, tile) < turns_of(view, tile)


def tiles_of(view: Contraction, tile: ContractionTile) -> tuple[int, int, int]:
    """Products, tiles of rows and tiles of columns."""
    return view.extent(view.batch), -(-view.m // tile.bm), -(-columns_of(view) // tile.bn)


def pieces_of(tile: ContractionTile, staged: Staging) -> int:
    """Copies, or elements, of a thread for one stage of an operand, at most."""
    return -(-tile.extent(staged) * tile.bk // (staged.width * tile.threads))


def columns_of(view: Contraction) -> int:
    """All columns, whatever the output's order."""
    return view.extent((*view.outer, *view.columns))


def is_empty(view: Contraction) -> bool:
    """Whether the output has no elements."""
    return 0 in view.sizes[: view.roles.rank]


def steps_of(view: Contraction, tile: ContractionTile) -> tuple[Steps, ...]:
    """The loops that a tail may cut."""
    return Steps("m", view.m, tile.bm), Steps("n", columns_of(view), tile.bn), Steps("k", view.depth, tile.bk)


def made_tile(
    view: Contraction,
    tile: tuple[int, int, int],
    warp: tuple[int, int],
    stages: int = 1,
    *,
    thread: tuple[int, int] | None = None,
    tf32: bool = False,
    raster: int = 1,
) -> ContractionTile:
    """The tile of these sizes, its operands and results moved as widely as they allow; on CUDA cores where `thread` is
    given, with `tf32` on tensor cores for floats, else on those for halves."""
    bm, bn, bk = tile
    sides = zip((1 - view.vector, view.vector), (bm, bn), strict=True)
    narrow = thread is None and not tf32
    rows, columns = (staging(view, side, narrow).fitted(extent, bk) for side, extent in sides)
    neighbours = 2
    if thread is not None:
        neighbours = 1 if columns.along_k else math.gcd(thread[1], 16 // DTYPES[view.accumulator].bytes)
    store, width = _store(view, neighbours, thread is None)
    return ContractionTile(bm, bn, bk, *warp, stages, rows, columns, store, width, thread, raster)


def _store(view: Contraction, side_by_side: int, tensor_cores: bool) -> tuple[str, int]:
    """How the first output leaves a thread that has so many neighbours, and those stored at once."""
    first = next(each for each in view.region.outputs if each.name == view.region.yields[0].buffer).memref
    size = DTYPES[first.dtype].bytes
    width = neighbours(view.roles.out, first.shape, (*view.outer, *view.columns), view.sizes, size)
    if register_type(first.dtype) != view.accumulator or min(width, side_by_side) == 1:
        return "elements", 1
    if tensor_cores and size == 2 and width * size >= _STAGED_BYTES:
        return "staged", width
    return "vectors", min(width, side_by_side)


def tile_of(view: Contraction, plan: Plan) -> ContractionTile:
    """The tiles of a plan, every field of it checked against the contraction.

    Raises:
        EqsatError: AlignmentMismatch where tiles do not divide as the plan says; MalformedGraph where it contradicts
            the region; UnsupportedOp where the template has no such choice; UnknownTarget for another machine's plan;
            ResourceExceeded for more threads or shared memory than a block has.
    """
    if plan.arch not in LIMITS:
        fail(Kind.UNKNOWN_TARGET, STAGE, f"a plan for {plan.arch} on a GPU", hint=", ".join(LIMITS))
    check_open_fields(plan, CHOICES, STAGE, (*BLOCK_AXES, *WARP_AXES.values()))
    if list(plan.algo_choice) != [view.pattern]:
        _malformed(view, f"the region is a {view.pattern}, the plan's algo_choice is of {', '.join(plan.algo_choice)}")
    if len(plan.tile) != 3 or min(plan.tile) < 1:
        _malformed(view, f"tile {plan.tile} is not [BM, BN, BK]")
    bm, bn, bk = plan.tile
    if plan.epilogue != view.epilogue:
        _malformed(view, f"the plan's epilogue {plan.epilogue} is not the region's {view.epilogue}")
    algorithm = plan.algo_choice[view.pattern]
    if algorithm == "mma" and not on_tensor_cores(view):
        _malformed(view, "tensor cores multiply fp16 or bf16 by the same, and sum in fp32 in an order of their own")
    if algorithm == TF32 and not fits_tf32(view):
        _malformed(view, "what is rounded to tf32 are floats that are no halves, summed in fp32 in any order")
    warp_m, warp_n = rows_by_columns(plan.warp_tile, "warp_tile", STAGE, view.region.name)
    own = str(plan.layout_hints.get("thread_tile", ""))
    thread = rows_by_columns(own, "thread_tile", STAGE, view.region.name) if algorithm == "fma" else None
    raster, tf32 = int(plan.layout_hints.get("raster", 1)), algorithm == TF32
    tile = made_tile(view, (bm, bn, bk), (warp_m, warp_n), plan.stages, thread=thread, tf32=tf32, raster=raster)
    tile = msgspec.structs.replace(tile, split=int(plan.layout_hints.get("split_k", 1)))
    asked = str(plan.layout_hints.get("C_store", tile.store))
    if STORES.index(asked) < STORES.index(tile.store):
        _malformed(view, f"results can not leave {asked}: {tile.store} at the most")
    if asked != tile.store:
        width = 2 if asked == "vectors" else 1
        tile = msgspec.structs.replace(tile, store=asked, store_width=width)
    _check_shape(view, tile)
    _check_fixed(view, tile, plan)
    check_tails(steps_of(view, tile), plan.predicate_tail, STAGE, view.region.name)
    return tile


def grid_of(view: Contraction, tile: ContractionTile, bind: Mapping[str, str]) -> tuple[int, int, int]:
    """Blocks along x, y and z.

    Raises:
        EqsatError: ResourceExceeded where these are too many.
    """
    counts = dict(zip(("batch", "m.o", "n.o", "k.o"), (*tiles_of(view, tile), tile.split), strict=True))
    grid = [1, 1, 1]
    for piece, count in counts.items():
        grid[BLOCK_AXES.index(bind.get(piece, "block.x"))] *= count
    if any(size > most for size, most in zip(grid, MAX_GRID, strict=True)):
        fail(Kind.RESOURCE_EXCEEDED, STAGE, f"a grid of {grid} blocks", at=view.region.name, hint=f"at most {MAX_GRID}")
    return grid[0], grid[1], grid[2]


def caches_of(view: Contraction, tile: ContractionTile) -> tuple[Cached, ...]:
    """Both operands in shared memory, filled anew for each turn."""
    names = (view.operand(each.side).value for each in tile.stagings)
    return tuple(Cached(name, "smem", "k.o", pingpong=tile.stages > 1) for name in names)


def stores_of(tile: ContractionTile) -> Vectorize:
    """The columns that are stored at once."""
    return Vectorize("n.i.i", tile.store_width)


def edges_of(view: Contraction) -> tuple[LocalEdge, ...]:
    """The sums go to the epilogue in registers."""
    return (LocalEdge(view.name, view.region.yields[0].value),) if view.epilogue else ()


def _check_fixed(view: Contraction, tile: ContractionTile, plan: Plan) -> None:
    """What the template does in one way only."""
    if plan.vectorize != stores_of(tile):
        _misaligned(view, f"results leave by {tile.store_width} columns at once, not as {plan.vectorize}")
    axes = {piece: (WARP_AXES[piece],) if piece in WARP_AXES else BLOCK_AXES for piece in plan.bind}
    astray = [f"{piece}: {place}" for piece, place in plan.bind.items() if place not in axes[piece]]
    for field, given, does in (
        ("cache", plan.cache, caches_of(view, tile)),
        ("local_edges", plan.local_edges, edges_of(view)),
        ("bind", astray, []),
    ):
        if given != does:
            fail(Kind.UNSUPPORTED_OP, STAGE, f"this template does not know {field} {given}", at=view.region.name)


def _check_shape(view: Contraction, tile: ContractionTile) -> None:
    if tile.bm % tile.warp_m or tile.bn % tile.warp_n:
        _misaligned(view, f"warps of {tile.warp_m} x {tile.warp_n} do not divide a tile of {tile.bm} x {tile.bn}")
    if tile.threads > MAX_THREADS:
        fail(Kind.RESOURCE_EXCEEDED, STAGE, f"{tile.threads} threads a block", at=view.region.name)
    if tile.split != 1 and (tile.split < 1 or view.ordered or not parts_hold(view, tile)):
        _malformed(view, f"{tile.split} blocks cannot share {turns_of(view, tile)} turns, ordered: {view.ordered}")
    if tile.stages < 1 or (tile.stages == 1 and turns_of_block(view, tile) > 1):
        _malformed(view, f"{tile.stages} stages do not hold one that is used and one that is filled")
    if tile.raster > 1 and tiles_of(view, tile)[1] % tile.raster:
        _misaligned(view, f"{tile.raster} tiles of rows beside each other do not divide {tiles_of(view, tile)[1]}")
    if tile.tensor_cores:
        line = tile.bk * DTYPES[tile.rhs.dtype].bytes
        if tile.warp_m % 16 or tile.warp_n % 16 or line % MMA_BYTES or line > _MOST_BYTES:
            _misaligned(
                view, f"tensor cores take tiles of 16 x 16 and rows of {MMA_BYTES} bytes, at most {_MOST_BYTES} a stage"
            )
        return
    assert tile.thread is not None
    rows, columns = tile.thread
    if tile.warp_m % rows or tile.warp_n % columns or math.prod(tile.lanes) != WARP:
        _misaligned(view, f"threads of {rows} x {columns} are not {WARP} in a warp of {tile.warp_m} x {tile.warp_n}")
    vector = 16 // DTYPES[view.accumulator].bytes
    if tile.bk % vector:
        _misaligned(view, f"a stage of {tile.bk} terms is no whole number of vectors of {vector}")


def _malformed(view: Contraction, message: str) -> NoReturn:
    fail(Kind.MALFORMED_GRAPH, STAGE, message, at=view.region.name)


def _misaligned(view: Contraction, message: str) -> NoReturn:
    fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, at=view.region.name)
