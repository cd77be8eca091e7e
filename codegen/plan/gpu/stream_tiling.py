"""The tiles of a plan of streams in tiles on a GPU, and the check that a plan fits the streams."""

from __future__ import annotations

import math

import msgspec

from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_tiling import (
    check_grid,
    has_terms_for_all_blocks,
    make_tile,
    turns_of,
    turns_of_block,
)
from codegen.plan.gpu.operand_read import MATRIX_DTYPES, exact_dtype, on_tensor_cores, staging
from codegen.plan.plan_check import STAGE, check_gpu, fail_malformed, fail_misaligned
from codegen.plan.stream_mask import LastSeen, last_seen
from codegen.plan.stream_view import StreamView, stream_epilogue
from codegen.poly.tail_axes import Steps, check_tails, tail_axes
from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import MAX_THREADS
from ir.plan.gpu import MMA_BYTES, MMA_LANES, GpuStreamPlan, Staging, Store, StreamTile

_COARSENESS = {"fp16": 1, "bf16": 2}
"""Rank by rounding: a result in one dtype may have been rounded to a dtype of no higher rank before."""
_MMA_UNIT = 16
"""Rows, columns and terms of a tile of a tensor core: sizes are multiples of it."""


def stream_products(view: StreamView) -> tuple[Contraction, ...]:
    """The products whose sums have tiles; the first stream where there are no products."""
    return view.products or (view.lead,)


def streams_on_tensor_cores(view: StreamView) -> bool:
    """Whether tensor cores can run the streams: queries, keys and values are exact in fp16 or bf16, and sums are in
    fp32. The weights are rounded to the dtype of the values, so all results must be rounded at least as much."""
    values = {exact_dtype(product, 1) for product in view.products}
    if view.kind != "fp32" or not values <= {*MATRIX_DTYPES}:
        return False
    if any(_COARSENESS[value] > _COARSENESS.get(result, 0) for value in values for result in _results(view)):
        return False
    return on_tensor_cores(view.scores) if view.scores is not None else bool(values)


def streams_fit_tf32(view: StreamView) -> bool:
    """Whether tensor cores can run the streams with all operands and weights rounded to tf32: sums are in fp32, there
    is a product, and tensor cores do not run the streams in 16 bits."""
    has_product = view.scores is not None or bool(view.products)
    return view.kind == "fp32" and has_product and not streams_on_tensor_cores(view)


def _results(view: StreamView) -> set[str]:
    """The dtypes of the outputs that depend on a product."""
    after = {product.name for product in view.products}
    for let in view.region.body:
        if not after.isdisjoint(let.op.reads):
            after.add(let.name)
    written = {result.buffer for result in view.region.yields if result.value in after}
    return {output.memref.dtype for output in view.region.outputs if output.name in written}


def stream_turns(view: StreamView, tile: StreamTile) -> tuple[int, int]:
    """Turns of the main loop: of all blocks that share a tile's rows, and of one such block at most."""
    return turns_of(view.lead, tile.lead), turns_of_block(view.lead, tile.lead)


def depth_of(view: StreamView) -> int:
    """Terms of a score."""
    return max(view.scores.depth, 1) if view.scores is not None else 1


def make_stream_tile(
    view: StreamView,
    sizes: tuple[int, int, int],
    warp_m: int,
    stages: int,
    *,
    thread_m: int | None = None,
    held: bool = False,
    ahead: bool = False,
    stops: bool = False,
    tf32: bool = False,
) -> StreamTile:
    """The tiles of these sizes (rows and columns of a block, terms of a stage); operands and results move as many
    elements at once as they allow. `thread_m`: rows of a thread on CUDA cores; None on tensor cores. `tf32`: tensor
    cores multiply floats."""
    bm, bn, terms = sizes
    across = MMA_LANES if thread_m is None else WARP_LANES * thread_m // warp_m
    unit = MMA_BYTES // (4 if tf32 else 2) if thread_m is None else 16 // DTYPES[view.kind].bytes
    depth = -(-depth_of(view) // unit) * unit
    queries, keys = _queries_and_keys(view, (bm, terms, depth), matrix=thread_m is None, narrow=not tf32)
    thread = None if thread_m is None else (thread_m, bn // across)
    products = [make_tile(product, sizes, (warp_m, bn), stages, thread=thread, tf32=tf32) for product in view.products]
    values = [product.rhs for product in products]
    store: Store = "elements"
    store_width = 1
    if thread is not None and len({staged.along_k for staged in values}) > 1:
        values = [_along_terms(staged) for staged in values]  # a thread has the same columns of all products
    elif products:
        store, store_width = products[0].store, products[0].store_width
    return StreamTile(
        bm=bm,
        bn=bn if products else across,
        terms=terms,
        depth=depth,
        warp_m=warp_m,
        thread_m=thread_m,
        stages=stages,
        kind=view.kind,
        queries=queries,
        keys=keys,
        values=tuple(values),
        store=store,
        store_width=store_width,
        held=held,
        ahead=ahead,
        stops=stops,
    )


def split_stream_tile(view: StreamView, tile: StreamTile, split: int, stages: int) -> StreamTile:
    """The tile with a ring of `stages`, shared by `split` blocks. Results of joined parts are not staged in shared
    memory, since registers then hold neighbours."""
    shared = msgspec.structs.replace(tile, stages=stages, split=split)
    if split == 1 or tile.store != "staged":
        return shared
    width = min(tile.store_width, part_width(view, tile))
    return msgspec.structs.replace(shared, store="vectors", store_width=width)


def part_width(view: StreamView, tile: StreamTile) -> int:
    """Neighbouring columns of a part that a thread has: 16 bytes at most."""
    own = tile.bm * tile.bn // tile.threads
    return math.gcd(own, tile.bn, 16 // DTYPES[view.kind].bytes) if view.products else 1


def _queries_and_keys(
    view: StreamView, tile: tuple[int, int, int], *, matrix: bool, narrow: bool
) -> tuple[Staging | None, Staging | None]:
    """How queries and keys move to tiles of so many queries, keys and terms; None where scores are no products.
    `matrix`: to tensor cores; `narrow`: in 16 bits there."""
    queries, keys, depth = tile
    if view.scores is None:
        return None, None
    side = view.scores.vector
    rows, columns = (staging(view.scores, operand, matrix and narrow) for operand in (1 - side, side))
    if not matrix:  # the weights of a thread's rows lie along the terms
        rows = _along_terms(rows)
    return rows.fit(queries, depth), columns.fit(keys, depth)


def _along_terms(staged: Staging) -> Staging:
    """The same operand laid out along its terms, moved element by element where it was not."""
    if staged.along_k:
        return staged
    return msgspec.structs.replace(staged, along_k=True, width=1, copied=False, digits=1, axes=1)


# --- whether a plan fits --------------------------------------------------------------------------


def check_stream_plan(view: StreamView, plan: GpuStreamPlan) -> None:
    """Raises EqsatError where a plan does not fit: UnknownTarget for another machine's plan; AlignmentMismatch where
    tiles do not divide; MalformedGraph where the plan contradicts the region; ResourceExceeded for more threads than a
    block may have."""
    check_gpu(plan.arch)
    if 0 in view.roles.sizes:
        fail(Kind.UNSUPPORTED_OP, STAGE, "streams without points or terms have no tiles", at=view.region.name)
    tile = plan.tile
    if min(tile.bm, tile.bn, tile.terms, tile.warp_m, 1 if tile.thread_m is None else tile.thread_m) < 1:
        fail_malformed(view, f"{tile} has a tile without elements")
    if tile.tensor_cores and not tile.tf32 and not streams_on_tensor_cores(view):
        fail_malformed(view, "tensor cores need operands in fp16 or bf16, and fp32 sums")
    if tile.tf32 and not streams_fit_tf32(view):
        fail_malformed(view, "tf32 needs operands that fp16 and bf16 do not hold exactly, and fp32 sums")
    _check_shape(view, tile)
    if tile.split < 1 or not has_terms_for_all_blocks(view.lead, tile.lead):
        fail_malformed(view, f"{tile.split} blocks cannot share {turns_of(view.lead, tile.lead)} turns")
    if tile.stages < 1 or (tile.stages == 1 and stream_turns(view, tile)[1] > 1):
        fail_malformed(view, f"{tile.stages} stages are too few: one is used while another is filled")
    if tile.stops and bound_of(view, tile.bm) is None:
        fail_malformed(view, "the rows of a tile may see all terms")
    expected = make_stream_tile(
        view,
        (tile.bm, tile.bn, tile.terms),
        tile.warp_m,
        tile.stages,
        thread_m=tile.thread_m,
        held=tile.held,
        ahead=tile.ahead,
        stops=tile.stops,
        tf32=tile.tf32,
    )
    expected = split_stream_tile(view, expected, tile.split, tile.stages)
    if tile != expected:
        fail_misaligned(view, f"the tiles of these sizes are {expected}, not {tile}")
    if plan.epilogue != stream_epilogue(view):
        fail_malformed(view, f"the plan's epilogue {plan.epilogue} is not the region's {stream_epilogue(view)}")
    if (plan.together, plan.scored, plan.values) != (view.together, scored_of(view), values_of(view)):
        fail_malformed(view, f"{plan.scored} and {plan.values} are not the tensors of the streams")
    check_tails(stream_steps(view, tile), plan.tails, STAGE, view.region.name)
    check_grid(stream_products(view)[0], tile.lead, plan.places)


def stream_steps(view: StreamView, tile: StreamTile) -> tuple[Steps, ...]:
    """The loops that a tail may cut."""
    return (
        Steps("m", view.m, tile.bm),
        Steps("n", stream_products(view)[0].n, tile.bn),
        Steps("k", view.terms, tile.terms),
    )


def score_tails(view: StreamView, tile: StreamTile) -> tuple[str, ...]:
    """The axes of the product of queries and keys whose last tile is cut, named as for a contraction."""
    depth = depth_of(view)
    return tail_axes(
        (
            Steps("m", view.m, tile.bm),
            Steps("n", view.terms, tile.terms),
            Steps("k", depth, tile.depth),
        )
    )


def scored_of(view: StreamView) -> tuple[str, str] | None:
    """The tensors of queries and keys; None where scores are no products."""
    if view.scores is None:
        return None
    side = view.scores.vector
    return view.scores.operand(1 - side).value, view.scores.operand(side).value


def values_of(view: StreamView) -> tuple[str, ...]:
    """The tensors of values, in the order of the products."""
    return tuple(product.operand(1).value for product in view.products)


def bound_of(view: StreamView, bm: int) -> LastSeen | None:
    """The bound of the terms that rows of tiles of `bm` rows see; None where there is none."""
    bound = last_seen(view)
    return bound if bound is not None and bound.holds_for(view, bm) else None


def _check_shape(view: StreamView, tile: StreamTile) -> None:
    bm, bn, bk, warp_m, thread_m = tile.bm, tile.bn, tile.terms, tile.warp_m, tile.thread_m
    if bm % warp_m:
        fail_misaligned(view, f"warps of {warp_m} rows do not divide a tile of {bm}")
    if WARP_LANES * (bm // warp_m) > MAX_THREADS:
        fail(Kind.RESOURCE_EXCEEDED, STAGE, f"{WARP_LANES * (bm // warp_m)} threads a block", at=view.region.name)
    if thread_m is None:
        if warp_m % _MMA_UNIT or bk % _MMA_UNIT or (view.products and bn % _MMA_UNIT):
            fail_misaligned(view, "tensor cores take tiles of 16 x 16 x 16")
        return
    lanes = warp_m // thread_m if warp_m % thread_m == 0 else 0
    if not lanes or WARP_LANES % lanes or bk % (WARP_LANES // lanes) or (view.products and bn % (WARP_LANES // lanes)):
        fail_misaligned(view, f"threads of {thread_m} rows are not {WARP_LANES} in a warp of {warp_m} rows")
    if math.gcd(bk, bk // (WARP_LANES // lanes) * 4) % (16 // DTYPES[view.kind].bytes):
        fail_misaligned(view, f"a stage of {bk} terms is no whole number of vectors")
