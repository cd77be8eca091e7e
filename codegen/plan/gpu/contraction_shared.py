"""The shared memory of a contraction's plan: a ring of tiles of both operands, and over it the tile of results.

tensor cores  along k   As[rows, k]               along rows   As[panel, k, 64 rows]       swizzled
              As[panel, rows, 64 of k] where lines are longer than the swizzle's 128 bytes
of floats     along k   as above                  along rows   As[k, rows], padded
CUDA cores    along k   As[rows, k], padded       along rows   As[k, rows]
"""

from __future__ import annotations

import math

from codegen.plan.contraction_view import Contraction
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import SWIZZLE_ATOM, Shared
from ir.plan.gpu import ContractionTile, Staging

LHS, RHS, RESULT = "As", "Bs", "Cs"
_APART = 8
"""Floats between lines of which the lanes of a warp read 8 each from 4: a multiple of 16 and these apart, all 32 lie in
banks of their own."""


def shared_tiles(
    view: Contraction, tile: ContractionTile, swizzled: tuple[bool, bool] = (True, True)
) -> tuple[Shared, ...]:
    """The rings of the operand with the rows and of that with the columns, and the results' tile where it is staged."""
    rows = operand_ring(LHS, tile, tile.lhs, 0, tile.stages, swizzled[0])
    columns = operand_ring(RHS, tile, tile.rhs, rows.end, tile.stages, swizzled[1])
    return (rows, columns, *result_tile(view, tile))


def shared_bytes(view: Contraction, tile: ContractionTile) -> int:
    """Of a block."""
    return max(each.end for each in shared_tiles(view, tile))


def result_tile(view: Contraction, tile: ContractionTile) -> tuple[Shared, ...]:
    """The tile of results over the rings, where they are staged."""
    if tile.store != "staged":
        return ()
    dtype = view.region.outputs[0].memref.dtype
    panel = _panel(tile.bn, dtype)
    return (_swizzled(RESULT, dtype, (tile.bn // panel, tile.bm, panel), 0, 1, True),)


def is_swizzled(tile: ContractionTile, staged: Staging) -> bool:
    """Whether an operand lies as `ldmatrix` reads it: it transposes halves alone."""
    return tile.tensor_cores and (staged.along_k or not tile.tf32)


def fills_banks(tile: ContractionTile, staged: Staging) -> bool:
    """Whether copies to an operand's ring meet in no bank: where no swizzle parts its lines, each is as long as all
    banks together."""
    return is_swizzled(tile, staged) or tile.extent(staged) * DTYPES[staged.dtype].bytes % SWIZZLE_ATOM == 0


def operand_ring(
    name: str, tile: ContractionTile, staged: Staging, start: int, stages: int, swizzled: bool = True
) -> Shared:
    """So many stages of one operand's tile, from byte `start` on or a little later."""
    extent = tile.extent(staged)
    if is_swizzled(tile, staged):
        lines, length = (extent, tile.bk) if staged.along_k else (tile.bk, extent)
        panel = _panel(length, staged.dtype)
        shape = (lines, length) if staged.along_k and panel == length else (length // panel, lines, panel)
        return _swizzled(name, staged.dtype, shape, start, stages, swizzled)
    start = -(-start // 16) * 16
    if staged.along_k:
        return Shared(name, staged.dtype, (extent, tile.bk), start, stages, tile.bk + 16 // DTYPES[staged.dtype].bytes)
    return Shared(name, staged.dtype, (tile.bk, extent), start, stages, extent + _APART if tile.tf32 else None)


def _panel(length: int, dtype: str) -> int:
    """Elements of a line that stand together: what a swizzle permutes, or less where that divides the line."""
    return math.gcd(length, SWIZZLE_ATOM // DTYPES[dtype].bytes)


def _swizzled(name: str, dtype: str, shape: tuple[int, ...], start: int, stages: int, swizzled: bool) -> Shared:
    bits = {32: 1, 64: 2, 128: 3}.get(shape[-1] * DTYPES[dtype].bytes, 0) if swizzled else 0
    period = SWIZZLE_ATOM << bits
    return Shared(name, dtype, shape, -(-start // period) * period, stages, swizzle=bits)
