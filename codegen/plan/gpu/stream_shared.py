"""The shared memory of streams in tiles. The tile of results uses the bytes of the other buffers.

Qs                    queries: one stage, laid out as an operand of a contraction (`contraction_shared`)
Ks, Vs, Vs_2, …       keys and values: one ring per operand
Ps                    CUDA cores: the weights of a warp's rows, between the two products
"""

from __future__ import annotations

import msgspec

from codegen.plan.gpu.contraction_shared import operand_ring, result_tile
from codegen.plan.gpu.stream_tiling import stream_products
from codegen.plan.stream_view import StreamView
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import Shared
from ir.plan.gpu import StreamTile

_PAIRS_APART = 4
"""Floats of padding after a fiber of values of fp32. The lanes of a warp read 8 columns of every second of 8 terms.
With a multiple of 16 plus these between fibers, all 32 lie in banks of their own."""


class StreamShared(msgspec.Struct, frozen=True):
    """The buffers of a plan; None where the plan has no such buffer."""

    queries: Shared | None
    keys: Shared | None
    values: tuple[Shared, ...]
    weights: Shared | None
    result: Shared | None

    @property
    def nbytes(self) -> int:
        """Bytes of shared memory of a block."""
        buffers = (self.queries, self.keys, *self.values, self.weights, self.result)
        return max((buffer.end for buffer in buffers if buffer is not None), default=0)


def stream_shared(view: StreamView, tile: StreamTile) -> StreamShared:
    """The buffers of a plan's tiles."""
    end = 0
    queries = keys = weights = None
    if view.scores is not None:
        queries = operand_ring("Qs", tile.scores, tile.scores.lhs, 0, 1)
        keys = operand_ring("Ks", tile.scores, tile.scores.rhs, queries.end, tile.stages)
        end = keys.end
    values = []
    for product_tile in tile.sums if view.products else ():
        values.append(operand_ring("Vs", product_tile, product_tile.rhs, end, product_tile.stages, _PAIRS_APART))
        end = values[-1].end
    if view.products and not tile.tensor_cores:
        pitch = tile.terms + 16 // DTYPES[view.kind].bytes
        start = -(-end // 16) * 16
        weights = Shared("Ps", view.kind, (tile.bm, tile.terms), start, pitch=pitch, scope="warp")
    result = next(iter(result_tile(stream_products(view)[0], tile.lead)), None)
    return StreamShared(queries, keys, tuple(values), weights, result)
