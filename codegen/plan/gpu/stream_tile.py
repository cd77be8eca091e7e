"""How a GPU plan cuts streams whose scores are tiles, and whether that fits them.

m   tile BM: rows of a block, of which each warp has WM
n   tile BN: columns of the products of a block; without a product, the lanes that share a row
k   tile BK: terms of a stage, which are the columns of a tile of scores

algo_choice {"attention": "mma" | "fma"}: both products on tensor cores, or on CUDA cores. A warp has whole rows, whose
maxima and sums it finds alone. layout_hints {"split_k": 8}: so many blocks share the terms of a tile's rows.
"""

from __future__ import annotations

import math
from typing import NoReturn

import msgspec

from codegen.plan.contraction_view import STAGE, Contraction
from codegen.plan.gpu.contraction_tile import (
    BLOCK_AXES,
    STORES,
    WARP,
    ContractionTile,
    made_tile,
    parts_hold,
    turns_of,
    turns_of_block,
)
from codegen.plan.gpu.operand_read import MATRIX_DTYPES, Staging, exact_dtype, on_tensor_cores, staging
from codegen.plan.gpu.stream_mask import LastSeen, last_seen
from codegen.plan.plan_check import TemplateChoices, check_open_fields, rows_by_columns
from codegen.plan.stream_view import StreamView, stream_epilogue
from codegen.where.tails import Steps, check_tails, tail_axes
from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.gpu_limits import LIMITS, MAX_THREADS
from ir.plan import Cached, Plan, Vectorize
from ir.region import Operand

ALGORITHM = "attention"
KERNEL_ARCH = "sm80"
"""Whose instructions and limits the template's kernels keep to, on later architectures too."""
QUERIES = ("registers", "shared")
"""Where the fragments of the queries stay between tiles of scores."""
UNSEEN = ("skipped",)
"""What becomes of terms that no row of a tile sees (`stream_mask`); else they are computed as all others."""
HEADS = ("together",)
"""Points of the batch that share keys and values, as rows of one tile; else each has tiles of its own."""
FRAGMENTS = ("ahead", "in time")
"""Whether those of keys and values are loaded a step before their use."""
WARPS = {"m.i.o": "warp.x"}
CHOICES = TemplateChoices(
    algo_choice={ALGORITHM: ("mma", "fma")},
    layout_hints={
        "C_store": STORES,
        "thread_tile": None,
        "queries": QUERIES,
        "fragments": FRAGMENTS,
        "unseen": UNSEEN,
        "heads": HEADS,
        "split_k": None,
    },
    bind=("batch", "m.o", "n.o", "k.o", *WARPS),
)
_COARSENESS = {"fp16": 1, "bf16": 2}
"""What is rounded to the one may have been rounded to a lesser one before."""
_STEP = 16
"""Terms of one step of a tensor core."""


class StreamTile(msgspec.Struct, frozen=True):
    """The tiles of both products: `scores`, BM × BK, over the whole depth; `sums`, BM × BN over the BK terms of a
    stage, one for each product, or one for what is summed along rows where there is none. On tensor cores, `held`: the
    fragments of the queries stay in registers; `ahead`: those of keys and values are loaded a step before their use.
    `bound`: the last terms that rows see, where places alone decide it; `stops`: a tile ends with that of its rows."""

    scores: ContractionTile
    sums: tuple[ContractionTile, ...]
    held: bool = False
    ahead: bool = False
    bound: LastSeen | None = None
    stops: bool = False

    @property
    def lead(self) -> ContractionTile:
        return self.sums[0]

    @property
    def tensor_cores(self) -> bool:
        return self.scores.tensor_cores

    @property
    def threads(self) -> int:
        return self.scores.threads

    @property
    def terms(self) -> int:
        """Of a stage."""
        return self.scores.bn

    @property
    def split(self) -> int:
        """Blocks that share the terms of a tile's rows."""
        return self.lead.split

    @property
    def across(self) -> int:
        """Lanes that share a row."""
        return 4 if self.tensor_cores else self.scores.lanes[1]


def stream_products(view: StreamView) -> tuple[Contraction, ...]:
    """What the sums' tiles are of: the products, or the first stream where there are none."""
    return view.products or (view.lead,)


def streams_on_tensor_cores(view: StreamView) -> bool:
    """Whether queries, keys and values are halves there, and all sums are of fp32. The weights are rounded to the
    values' dtype: so are then the results that are made of them."""
    values = {exact_dtype(each, 1) for each in view.products}
    if view.kind != "fp32" or not values <= {*MATRIX_DTYPES}:
        return False
    if any(_COARSENESS[value] > _COARSENESS.get(result, 0) for value in values for result in _results(view)):
        return False
    return on_tensor_cores(view.scores) if view.scores is not None else bool(values)


def _results(view: StreamView) -> set[str]:
    """The dtypes of the outputs that depend on a product."""
    after = {each.name for each in view.products}
    for let in view.region.body:
        if any(isinstance(each, Operand) and each.value in after for each in let.op.inputs):
            after.add(let.name)
    made = {each.buffer for each in view.region.yields if each.value in after}
    return {each.memref.dtype for each in view.region.outputs if each.name in made}


def stream_turns(view: StreamView, tile: StreamTile) -> tuple[int, int]:
    """Stages of keys and values: of all blocks that share a tile's rows together, and of one of them at most."""
    return turns_of(view.lead, tile.lead), turns_of_block(view.lead, tile.lead)


def depth_of(view: StreamView) -> int:
    """Terms of a score."""
    return max(view.scores.depth, 1) if view.scores is not None else 1


def made_stream_tile(
    view: StreamView,
    tile: tuple[int, int, int],
    warp_m: int,
    stages: int,
    *,
    thread_m: int | None = None,
    held: bool = False,
    ahead: bool = False,
    bound: LastSeen | None = None,
    stops: bool = False,
) -> StreamTile:
    """The tiles of these sizes, operands and results moved as widely as they allow; `thread_m` are the rows of a thread
    on CUDA cores; `bound`: of the view, which may not hold for tiles of as many rows."""
    bm, bn, bk = tile
    across = 4 if thread_m is None else WARP * thread_m // warp_m
    unit = _STEP if thread_m is None else 16 // DTYPES[view.kind].bytes
    depth = -(-depth_of(view) // unit) * unit
    thread = None if thread_m is None else (thread_m, bk // across)
    lhs, rhs = _queries_and_keys(view, (bm, bk, depth), matrix=thread_m is None)
    scores = ContractionTile(bm, bk, depth, warp_m, bk, stages, lhs, rhs, "elements", 1, thread)
    own = None if thread_m is None else (thread_m, bn // across)
    sums = tuple(_sums(view, (bm, bn, bk), warp_m, stages, own))
    weights = _weights(view.lead)
    alone = ContractionTile(bm, across, bk, warp_m, across, stages, weights, weights, "elements", 1, own and (1, 1))
    known = bound if bound is not None and bound.holds_for(view, bm) else None
    return StreamTile(scores, sums or (alone,), held, ahead, known, stops and known is not None)


def shared_stream_tile(view: StreamView, tile: StreamTile, split: int, stages: int) -> StreamTile:
    """The tile with a ring of `stages`, shared by `split` blocks. Registers hold neighbours where parts are joined, so
    that no results are staged."""
    scores = msgspec.structs.replace(tile.scores, stages=stages)
    sums = [msgspec.structs.replace(each, stages=stages, split=split) for each in tile.sums]
    if split > 1 and tile.lead.store == "staged":
        width = min(tile.lead.store_width, part_width(view, tile))
        sums = [msgspec.structs.replace(each, store="vectors", store_width=width) for each in sums]
    return msgspec.structs.replace(tile, scores=scores, sums=tuple(sums))


def part_width(view: StreamView, tile: StreamTile) -> int:
    """Columns side by side that a thread has of the parts that several blocks leave: 16 bytes at the most."""
    own = tile.lead.bm * tile.lead.bn // tile.threads
    return math.gcd(own, tile.lead.bn, 16 // DTYPES[view.kind].bytes) if view.products else 1


def _sums(
    view: StreamView, tile: tuple[int, int, int], warp_m: int, stages: int, thread: tuple[int, int] | None
) -> list[ContractionTile]:
    """The tiles of the products, whose registers stand at the same columns in all of them."""
    found = [made_tile(each, tile, (warp_m, tile[1]), stages, thread=thread) for each in view.products]
    found = [msgspec.structs.replace(made, lhs=_weights(each)) for made, each in zip(found, view.products, strict=True)]
    if thread is None or len({each.rhs.along_k for each in found}) < 2:
        return found
    return [
        msgspec.structs.replace(each, rhs=_along_terms(each.rhs), store="elements", store_width=1) for each in found
    ]


def _queries_and_keys(view: StreamView, tile: tuple[int, int, int], *, matrix: bool) -> tuple[Staging, Staging]:
    """Their ways into tiles of so many queries, keys and terms."""
    queries, keys, depth = tile
    if view.scores is None:
        none = _weights(view.lead)
        return none, none
    side = view.scores.vector
    rows, columns = (staging(view.scores, each, matrix) for each in (1 - side, side))
    if not matrix:  # rows of a thread are those of its weights, which lie along the terms
        rows = _along_terms(rows)
    return rows.fitted(queries, depth), columns.fitted(keys, depth)


def _along_terms(staged: Staging) -> Staging:
    """The way of an operand that lies along its terms, if need be element by element."""
    if staged.along_k:
        return staged
    return msgspec.structs.replace(staged, along_k=True, width=1, read=None, digits=1, axes=1)


def _weights(view: Contraction) -> Staging:
    """What stands for the left side of a product: it comes from the scores' registers."""
    return Staging(0, view.rows, view.accumulator, along_k=True, width=1, read=None)


# --- what a plan says -----------------------------------------------------------------------------


def stream_tile(view: StreamView, plan: Plan) -> StreamTile:
    """The tiles of a plan, every field of it checked against the streams.

    Raises:
        EqsatError: AlignmentMismatch where tiles do not divide as the plan says; MalformedGraph where it contradicts
            the region; UnsupportedOp where the template has no such choice; UnknownTarget for another machine's plan;
            ResourceExceeded for more threads than a block has.
    """
    if plan.arch not in LIMITS:
        fail(Kind.UNKNOWN_TARGET, STAGE, f"a plan for {plan.arch} on a GPU", hint=", ".join(LIMITS))
    check_open_fields(plan, CHOICES, STAGE, (*BLOCK_AXES, *WARPS.values()))
    if len(plan.tile) != 3 or min(plan.tile) < 1:
        _malformed(view, f"tile {plan.tile} is not [BM, BN, BK]")
    if plan.ordered:
        fail(Kind.UNSUPPORTED_OP, STAGE, "the terms of a stream are not taken in index order", at=view.region.name)
    matrix = plan.algo_choice.get(ALGORITHM) == "mma"
    if matrix and not streams_on_tensor_cores(view):
        _malformed(view, "tensor cores multiply halves, and sum in fp32")
    warp_m, columns = rows_by_columns(plan.warp_tile, "warp_tile", STAGE, view.region.name)
    own = str(plan.layout_hints.get("thread_tile", ""))
    thread_m = None if matrix else rows_by_columns(own, "thread_tile", STAGE, view.region.name)[0]
    _check_shape(view, plan, warp_m, thread_m)
    held, ahead = plan.layout_hints.get("queries") == "registers", plan.layout_hints.get("fragments") == "ahead"
    stops, split = "unseen" in plan.layout_hints, int(plan.layout_hints.get("split_k", 1))
    tile = made_stream_tile(
        view,
        plan.tile,
        warp_m,
        plan.stages,
        thread_m=thread_m,
        held=held,
        ahead=ahead,
        bound=last_seen(view),
        stops=stops,
    )
    tile = shared_stream_tile(view, tile, split, plan.stages)
    if split < 1 or not parts_hold(view.lead, tile.lead):
        _malformed(view, f"{split} blocks cannot share {turns_of(view.lead, tile.lead)} turns")
    if plan.stages < 1 or (plan.stages == 1 and stream_turns(view, tile)[1] > 1):
        _malformed(view, f"{plan.stages} stages do not hold one that is used and one that is filled")
    if stops and not tile.stops:
        _malformed(view, "the rows of a tile may see all terms")
    if columns != tile.lead.bn:
        _misaligned(view, f"a warp has whole rows of {tile.lead.bn} columns, not {columns}")
    _check_fixed(view, tile, plan)
    check_tails(stream_steps(view, tile), plan.predicate_tail, STAGE, view.region.name)
    return tile


def stream_steps(view: StreamView, tile: StreamTile) -> tuple[Steps, ...]:
    """The loops that a tail may cut."""
    return (
        Steps("m", view.m, tile.lead.bm),
        Steps("n", stream_products(view)[0].n, tile.lead.bn),
        Steps("k", view.terms, tile.terms),
    )


def score_tails(view: StreamView, tile: StreamTile) -> tuple[str, ...]:
    """The axes of the scores' product whose last tile is cut, by the names that a contraction has for them."""
    depth = depth_of(view)
    return tail_axes(
        (
            Steps("m", view.m, tile.scores.bm),
            Steps("n", view.terms, tile.scores.bn),
            Steps("k", depth, tile.scores.bk),
        )
    )


def stream_caches(view: StreamView, tile: StreamTile) -> tuple[Cached, ...]:
    """Queries on chip for the whole of a block, keys and values filled anew for each stage."""
    found = []
    if view.scores is not None:
        side = view.scores.vector
        queries, keys = (view.scores.operand(each).value for each in (1 - side, side))
        found = [Cached(queries, "smem", "m.o"), Cached(keys, "smem", "k.o", pingpong=tile.scores.stages > 1)]
    return (*found, *(Cached(each.operand(1).value, "smem", "k.o", tile.lead.stages > 1) for each in view.products))


def stream_stores(tile: StreamTile) -> Vectorize:
    """The columns that are stored at once."""
    return Vectorize("n.i.i", tile.lead.store_width)


def _check_shape(view: StreamView, plan: Plan, warp_m: int, thread_m: int | None) -> None:
    bm, bn, bk = plan.tile
    if bm % warp_m:
        _misaligned(view, f"warps of {warp_m} rows do not divide a tile of {bm}")
    if WARP * (bm // warp_m) > MAX_THREADS:
        fail(Kind.RESOURCE_EXCEEDED, STAGE, f"{WARP * (bm // warp_m)} threads a block", at=view.region.name)
    if thread_m is None:
        if warp_m % _STEP or bk % _STEP or (view.products and bn % _STEP):
            _misaligned(view, "tensor cores take tiles of 16 x 16 x 16")
        return
    lanes = warp_m // thread_m if warp_m % thread_m == 0 else 0
    if not lanes or WARP % lanes or bk % (WARP // lanes) or (view.products and bn % (WARP // lanes)):
        _misaligned(view, f"threads of {thread_m} rows are not {WARP} in a warp of {warp_m} rows")
    if math.gcd(bk, bk // (WARP // lanes) * 4) % (16 // DTYPES[view.kind].bytes):
        _misaligned(view, f"a stage of {bk} terms is no whole number of vectors")


def _check_fixed(view: StreamView, tile: StreamTile, plan: Plan) -> None:
    """What the template does in one way only."""
    if plan.epilogue != stream_epilogue(view):
        _malformed(view, f"the plan's epilogue {plan.epilogue} is not the region's {stream_epilogue(view)}")
    if plan.vectorize != stream_stores(tile):
        _misaligned(view, f"results leave by {tile.lead.store_width} columns at once, not as {plan.vectorize}")
    axes = {piece: (WARPS[piece],) if piece in WARPS else BLOCK_AXES for piece in plan.bind}
    astray = [f"{piece}: {place}" for piece, place in plan.bind.items() if place not in axes[piece]]
    for field, given, does in (
        ("cache", plan.cache, stream_caches(view, tile)),
        ("local_edges", plan.local_edges, ()),
        ("C_store", plan.layout_hints.get("C_store"), tile.lead.store),
        ("bind", astray, []),
    ):
        if given != does:
            fail(Kind.UNSUPPORTED_OP, STAGE, f"this template does not know {field} {given}", at=view.region.name)


def _malformed(view: StreamView, message: str) -> NoReturn:
    fail(Kind.MALFORMED_GRAPH, STAGE, message, at=view.region.name)


def _misaligned(view: StreamView, message: str) -> NoReturn:
    fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, at=view.region.name)
