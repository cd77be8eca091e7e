"""The tiles of a GPU's plans of streams in tiles, and whether a plan fits the streams."""

from __future__ import annotations

import math
from typing import NoReturn

import msgspec

from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_tiling import WARP, made_tile, parts_hold, turns_of, turns_of_block
from codegen.plan.gpu.operand_read import MATRIX_DTYPES, exact_dtype, on_tensor_cores, staging
from codegen.plan.gpu.stream_mask import LastSeen, last_seen
from codegen.plan.plan_check import STAGE, check_gpu
from codegen.plan.stream_view import StreamView, stream_epilogue
from codegen.poly.tail_axes import Steps, check_tails, tail_axes
from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.kernel.gpu.limits import MAX_THREADS
from ir.plan.gpu import ContractionTile, GpuStreamPlan, Staging, StreamTile
from ir.region.region import Operand

KERNEL_ARCH = "sm80"
"""Whose instructions and limits the template's kernels keep to, on later architectures too."""
_COARSENESS = {"fp16": 1, "bf16": 2}
"""What is rounded to the one may have been rounded to a lesser one before."""
_STEP = 16
"""Terms of one step of a tensor core."""


def stream_products(view: StreamView) -> tuple[Contraction, ...]:
    """What the sums' tiles are of: the products, or the first stream where there are none."""
    return view.products or (view.lead,)


def streams_on_tensor_cores(view: StreamView) -> bool:
    """Whether queries, keys and values are halves there, and all sums are of fp32. The weights are rounded to the
    values' dtype: so are then the results that are made of them."""
    values = {exact_dtype(product, 1) for product in view.products}
    if view.kind != "fp32" or not values <= {*MATRIX_DTYPES}:
        return False
    if any(_COARSENESS[value] > _COARSENESS.get(result, 0) for value in values for result in _results(view)):
        return False
    return on_tensor_cores(view.scores) if view.scores is not None else bool(values)


def _results(view: StreamView) -> set[str]:
    """The dtypes of the outputs that depend on a product."""
    after = {product.name for product in view.products}
    for let in view.region.body:
        if any(isinstance(operand, Operand) and operand.value in after for operand in let.op.inputs):
            after.add(let.name)
    made = {result.buffer for result in view.region.yields if result.value in after}
    return {output.memref.dtype for output in view.region.outputs if output.name in made}


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
    stops: bool = False,
) -> StreamTile:
    """The tiles of these sizes, operands and results moved as widely as they allow; `thread_m` are the rows of a thread
    on CUDA cores."""
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
    return StreamTile(scores, sums or (alone,), held, ahead, stops)


def shared_stream_tile(view: StreamView, tile: StreamTile, split: int, stages: int) -> StreamTile:
    """The tile with a ring of `stages`, shared by `split` blocks. Registers hold neighbours where parts are joined, so
    that no results are staged."""
    scores = msgspec.structs.replace(tile.scores, stages=stages)
    sums = [msgspec.structs.replace(product_tile, stages=stages, split=split) for product_tile in tile.sums]
    if split > 1 and tile.lead.store == "staged":
        width = min(tile.lead.store_width, part_width(view, tile))
        sums = [msgspec.structs.replace(product_tile, store="vectors", store_width=width) for product_tile in sums]
    return msgspec.structs.replace(tile, scores=scores, sums=tuple(sums))


def part_width(view: StreamView, tile: StreamTile) -> int:
    """Columns side by side that a thread has of the parts that several blocks leave: 16 bytes at the most."""
    own = tile.lead.bm * tile.lead.bn // tile.threads
    return math.gcd(own, tile.lead.bn, 16 // DTYPES[view.kind].bytes) if view.products else 1


def _sums(
    view: StreamView, tile: tuple[int, int, int], warp_m: int, stages: int, thread: tuple[int, int] | None
) -> list[ContractionTile]:
    """The tiles of the products, whose registers stand at the same columns in all of them."""
    found = [made_tile(product, tile, (warp_m, tile[1]), stages, thread=thread) for product in view.products]
    found = [
        msgspec.structs.replace(made, lhs=_weights(product)) for made, product in zip(found, view.products, strict=True)
    ]
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
    return msgspec.structs.replace(staged, along_k=True, width=1, copied=False, digits=1, axes=1)


def _weights(view: Contraction) -> Staging:
    """What stands for the left side of a product: it comes from the scores' registers."""
    return Staging(0, view.accumulator, along_k=True, width=1, copied=False)


# --- whether a plan fits --------------------------------------------------------------------------


def check_stream_plan(view: StreamView, plan: GpuStreamPlan) -> None:
    """Raises EqsatError: AlignmentMismatch where tiles do not divide as the plan says; MalformedGraph where it
    contradicts the region; UnknownTarget for another machine's plan; ResourceExceeded for more threads than a block
    has."""
    check_gpu(plan.arch)
    tile = plan.tile
    lead, stages, split = tile.lead, tile.scores.stages, tile.split
    if min(lead.bm, lead.bn, tile.terms, tile.scores.warp_m, *(tile.scores.thread or ())) < 1:
        _malformed(view, f"{tile} has a tile without elements")
    if tile.tensor_cores and not streams_on_tensor_cores(view):
        _malformed(view, "tensor cores multiply halves, and sum in fp32")
    _check_shape(view, tile)
    if split < 1 or not parts_hold(view.lead, lead):
        _malformed(view, f"{split} blocks cannot share {turns_of(view.lead, lead)} turns")
    if stages < 1 or (stages == 1 and stream_turns(view, tile)[1] > 1):
        _malformed(view, f"{stages} stages do not hold one that is used and one that is filled")
    if tile.stops and bound_of(view, lead.bm) is None:
        _malformed(view, "the rows of a tile may see all terms")
    made = made_stream_tile(
        view,
        (lead.bm, lead.bn, tile.terms),
        tile.scores.warp_m,
        stages,
        thread_m=tile.scores.thread and tile.scores.thread[0],
        held=tile.held,
        ahead=tile.ahead,
        stops=tile.stops,
    )
    made = shared_stream_tile(view, made, split, stages)
    if tile != made:
        _misaligned(view, f"the tiles of these sizes are {made}, not {tile}")
    if plan.epilogue != stream_epilogue(view):
        _malformed(view, f"the plan's epilogue {plan.epilogue} is not the region's {stream_epilogue(view)}")
    if (plan.together, plan.scored, plan.values) != (view.together, scored_of(view), values_of(view)):
        _malformed(view, f"{plan.scored} and {plan.values} are not the tensors of the streams")
    check_tails(stream_steps(view, tile), plan.tails, STAGE, view.region.name)


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


def scored_of(view: StreamView) -> tuple[str, str] | None:
    """The tensors of queries and keys, where scores are products of these."""
    if view.scores is None:
        return None
    side = view.scores.vector
    return view.scores.operand(1 - side).value, view.scores.operand(side).value


def values_of(view: StreamView) -> tuple[str, ...]:
    """The tensors of values, of each product."""
    return tuple(product.operand(1).value for product in view.products)


def bound_of(view: StreamView, bm: int) -> LastSeen | None:
    """The last terms that rows of tiles of `bm` rows see, where places alone decide it."""
    found = last_seen(view)
    return found if found is not None and found.holds_for(view, bm) else None


def _check_shape(view: StreamView, tile: StreamTile) -> None:
    bm, bn, bk, warp_m = tile.lead.bm, tile.lead.bn, tile.terms, tile.scores.warp_m
    thread_m = tile.scores.thread and tile.scores.thread[0]
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


def _malformed(view: StreamView, message: str) -> NoReturn:
    fail(Kind.MALFORMED_GRAPH, STAGE, message, at=view.region.name)


def _misaligned(view: StreamView, message: str) -> NoReturn:
    fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, at=view.region.name)
