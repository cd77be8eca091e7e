"""The shared memory of a contraction's plan: a ring of tiles per operand; the tile of results uses the same bytes.

                memory order along k                         memory order along rows
tensor cores    As[rows, k], swizzled; or                    As[panel, k, 64 rows], swizzled
                As[panel, rows, 64 of k] where fibers are longer than the 128 bytes of a swizzle
  with tf32     as above                                     As[k, rows], padded
CUDA cores      As[rows, k], padded                          As[k, rows]
"""

from __future__ import annotations

import math

from codegen.plan.contraction_view import Contraction
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import SWIZZLE_ATOM, Shared
from ir.kernel.gpu.limits import least_arch
from ir.plan.gpu import ContractionTile, Staging

LHS, RHS, RESULT = "As", "Bs", "Cs"
_APART = 8
"""Floats of padding after a fiber. The lanes of a warp read 8 elements from each of 4 fibers. With a multiple of 16
plus these between fibers, all 32 lie in banks of their own."""


def shared_tiles(view: Contraction, tile: ContractionTile) -> tuple[Shared, ...]:
    """The ring of the operand with the rows, that of the operand with the columns, and the tile of results if results
    are staged."""
    rows = operand_ring(LHS, tile, tile.lhs, 0, tile.stages)
    columns = operand_ring(RHS, tile, tile.rhs, rows.end, tile.stages)
    return (rows, columns, *result_tile(view, tile))


def shared_bytes(view: Contraction, tile: ContractionTile) -> int:
    """Bytes of shared memory of a block."""
    return max(buffer.end for buffer in shared_tiles(view, tile))


def kernel_arch(view: Contraction, tile: ContractionTile) -> str:
    """The least architecture whose blocks may have so much shared memory, and the one that has warpgroups."""
    if tile.warpgroups and not view.is_empty:
        return "sm90a"
    return least_arch(0 if view.is_empty else shared_bytes(view, tile))


def result_tile(view: Contraction, tile: ContractionTile) -> tuple[Shared, ...]:
    """The tile of results, in the bytes of the rings; () unless results are staged."""
    if tile.store != "staged":
        return ()
    dtype = view.region.outputs[0].memref.dtype
    panel = _panel(tile.bn, dtype)
    return (_make_shared(RESULT, dtype, (tile.bn // panel, tile.bm, panel), 0, 1),)


def fills_banks(tile: ContractionTile, staged: Staging) -> bool:
    """Whether copies to an operand's ring have no bank conflicts: fibers are swizzled, or as long as all banks."""
    return tile.is_swizzled(staged) or tile.extent(staged) * DTYPES[staged.dtype].bytes % SWIZZLE_ATOM == 0


def operand_ring(
    name: str, tile: ContractionTile, staged: Staging, start: int, stages: int, apart: int = _APART
) -> Shared:
    """The ring of one operand with so many stages, from byte `start` on, or from the next byte that is aligned.
    `apart`: floats of padding after a fiber of floats that is not swizzled."""
    extent = tile.extent(staged)
    if tile.is_swizzled(staged):
        fibers, length = (extent, tile.bk) if staged.along_k else (tile.bk, extent)
        panel = _panel(length, staged.dtype)
        shape = (fibers, length) if staged.along_k and panel == length else (length // panel, fibers, panel)
        return _make_shared(name, staged.dtype, shape, start, stages)
    start = -(-start // 16) * 16
    if staged.along_k:
        return Shared(name, staged.dtype, (extent, tile.bk), start, stages, tile.bk + 16 // DTYPES[staged.dtype].bytes)
    return Shared(name, staged.dtype, (tile.bk, extent), start, stages, extent + apart if tile.tf32 else None)


def _panel(length: int, dtype: str) -> int:
    """Elements of a panel of a fiber: as many as one swizzle permutes, or a divisor of that."""
    return math.gcd(length, SWIZZLE_ATOM // DTYPES[dtype].bytes)


def _make_shared(name: str, dtype: str, shape: tuple[int, ...], start: int, stages: int) -> Shared:
    bits = {32: 1, 64: 2, 128: 3}.get(shape[-1] * DTYPES[dtype].bytes, 0)
    period = SWIZZLE_ATOM << bits
    return Shared(name, dtype, shape, -(-start // period) * period, stages, swizzle=bits)
