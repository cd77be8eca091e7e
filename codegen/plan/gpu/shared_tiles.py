"""The shared memory of a contraction's plan: a ring of tiles of both operands, and over it the tile of results.

tensor cores  along k   As[rows, k]               along rows   As[panel, k, 64 rows]       swizzled
CUDA cores    along k   As[rows, k], padded       along rows   As[k, rows]
"""

from __future__ import annotations

from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_tile import Tile
from codegen.plan.gpu.operand_read import Staging
from ir.dtype import DTYPES
from ir.gpu import SWIZZLE_ATOM, Shared

LHS, RHS, RESULT = "As", "Bs", "Cs"


def shared_tiles(view: Contraction, tile: Tile, swizzled: tuple[bool, bool] = (True, True)) -> tuple[Shared, ...]:
    """The rings of the operand with the rows and of that with the columns, and the results' tile where it is staged."""
    rows = _ring(LHS, tile, tile.lhs, 0, swizzled[0])
    columns = _ring(RHS, tile, tile.rhs, rows.end, swizzled[1])
    if tile.store != "staged":
        return rows, columns
    dtype = view.region.outputs[0].memref.dtype
    panel = min(tile.bn, SWIZZLE_ATOM // DTYPES[dtype].bytes)
    return rows, columns, _swizzled(RESULT, dtype, (tile.bn // panel, tile.bm, panel), 0, 1, True)


def shared_bytes(view: Contraction, tile: Tile) -> int:
    """Of a block."""
    return max(each.end for each in shared_tiles(view, tile))


def _ring(name: str, tile: Tile, staged: Staging, start: int, swizzled: bool) -> Shared:
    extent = tile.extent(staged)
    if tile.tensor_cores:
        panel = min(extent, SWIZZLE_ATOM // DTYPES[staged.dtype].bytes)
        shape = (extent, tile.bk) if staged.along_k else (extent // panel, tile.bk, panel)
        return _swizzled(name, staged.dtype, shape, start, tile.stages, swizzled)
    if staged.along_k:
        pitch = tile.bk + 16 // DTYPES[staged.dtype].bytes
        return Shared(name, staged.dtype, (extent, tile.bk), -(-start // 16) * 16, tile.stages, pitch)
    return Shared(name, staged.dtype, (tile.bk, extent), -(-start // 16) * 16, tile.stages)


def _swizzled(name: str, dtype: str, shape: tuple[int, ...], start: int, stages: int, swizzled: bool) -> Shared:
    bits = {32: 1, 64: 2, 128: 3}.get(shape[-1] * DTYPES[dtype].bytes, 0) if swizzled else 0
    period = SWIZZLE_ATOM << bits
    return Shared(name, dtype, shape, -(-start // period) * period, stages, swizzle=bits)
