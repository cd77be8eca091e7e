"""Tiles: reads along another axis than the axis of the stores go through shared memory.

plan   tile, loops "i0 i2 i1", tile [32, 32]                  Y[i0, i1] = relu(X[i1, i0])
kernel for i in 0 .. 4: tile[ty + 8*i][tx] = X[w0 + ty + 8*i, c0 + tx]        lanes along X's rows
       barrier
       for i in 0 .. 4: Y[c0 + ty + 8*i, w0 + tx] = relu(tile[tx][ty + 8*i])  lanes along Y's rows
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from codegen.lower.gpu.buffer_axes import merged_axes
from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.lower_points import write
from codegen.lower.gpu.nest_evaluator import NestEvaluator
from codegen.lower.points import Point, Where
from codegen.plan.gpu.nest_tiling import crossing_reads
from codegen.plan.region_loops import RegionLoops
from ir.index.expr import ZERO, AxisExpr
from ir.kernel.gpu.kernel import WARP_LANES, Shared
from ir.kernel.gpu.nodes import At, Barrier, LoadGlobal, LoadShared, StShared
from ir.kernel.nodes import Within, register_type
from ir.plan.gpu_nest import Tiles


def lower_tiles(loops: RegionLoops, tiles: Tiles, *, approximate: bool) -> tuple[NestEvaluator, GpuBlock]:
    """The evaluator, which holds the parts of the kernel, and the kernel's body."""
    writer = GpuWriter(tiles.threads, (tiles.blocks, 1, 1))
    ev = NestEvaluator(loops, writer, merged_axes(loops, tiles.axes, lambda value: []), approximate=approximate)
    body = GpuBlock(writer)
    _TileTemplate(ev, tiles, body).lower()
    return ev, body


@dataclass(frozen=True)
class _TileElement:
    """An element of the tile: its position in the tile, the point of the outputs, and when the point exists."""

    across: AxisExpr
    along: AxisExpr
    point: Point
    where: Where


class _TileTemplate:
    def __init__(self, ev: NestEvaluator, tiles: Tiles, block: GpuBlock) -> None:
        self.ev, self.tiles, self.block = ev, tiles, block
        writer = ev.writer
        *self.outer, across, along = writer.coordinates(writer.block[0], tiles.counts)
        self.first = (across * tiles.across, along * tiles.along)
        self.warps = tiles.threads // WARP_LANES

    def lower(self) -> None:
        """Fills a tile per read that crosses the outputs, then computes the outputs."""
        reads = crossing_reads(self.ev.loops, self.tiles.axes)
        buffers = [self._allocate(read.buffer) for read in reads]
        with self._elements(lanes_across=True) as (body, place):
            for read, shared in zip(reads, buffers, strict=True):
                at = self.ev.axes.place(read.buffer, self.ev.writer.at(read.map.exprs, place.point))
                dtype = register_type(self.ev.dtype(read.buffer))
                value = LoadGlobal(self.ev.writer.buffer(read.buffer), at, dtype, place.where)
                body.add(StShared(At(shared, (place.along, place.across)), value))
        self.block.add(Barrier())
        with self._elements(lanes_across=False) as (body, place):
            for read, shared in zip(reads, buffers, strict=True):
                at = self.ev.axes.place(read.buffer, self.ev.writer.at(read.map.exprs, place.point))
                dtype = register_type(self.ev.dtype(read.buffer))
                self.ev.staged[read.buffer, at] = LoadShared(At(shared, (place.along, place.across)), dtype)
            for result in self.ev.region.yields:
                write(self.ev, result, place.point, body, place.where)

    def _allocate(self, buffer: str) -> str:
        writer, dtype = self.ev.writer, self.ev.dtype(buffer)
        start = max((buffer.end for buffer in writer.shared), default=0)
        shape = (self.tiles.along, self.tiles.across)
        pitch = self.tiles.across + self.tiles.padding(dtype)
        return writer.allocate(Shared(f"{buffer}_tile", dtype, shape, start, pitch=pitch)).name

    @contextmanager
    def _elements(self, *, lanes_across: bool) -> Iterator[tuple[GpuBlock, _TileElement]]:
        """The elements of this thread, in loops over the elements of its warp."""
        writer, tiles = self.ev.writer, self.tiles
        fast, slow = (tiles.across, tiles.along) if lanes_across else (tiles.along, tiles.across)
        with (
            self.block.loop("i", AxisExpr(slow // self.warps), unroll=True) as (outer, step),
            outer.loop("j", AxisExpr(fast // WARP_LANES), unroll=True) as (body, chunk),
        ):
            near, far = chunk * WARP_LANES + writer.lane, step * self.warps + writer.warp
            across, along = (near, far) if lanes_across else (far, near)
            places = self.first[0] + across, self.first[1] + along
            numbers = [*self.outer, self.ev.named(body, "across", places[0]), self.ev.named(body, "along", places[1])]
            limits = (Within(at, 0, extent) for at, extent in zip(numbers[-2:], tiles.extents[-2:], strict=True))
            where = tuple(limit for limit in limits if not writer.proves(limit))
            yield body, _TileElement(across, along, self._point(numbers), where)

    def _point(self, numbers: list[AxisExpr]) -> Point:
        shape = self.ev.loops.shape
        coordinates = [ZERO] * len(shape)
        for group, at in zip(self.tiles.axes, numbers, strict=True):
            sizes = [shape[axis] for axis in group]
            for axis, coordinate in zip(group, self.ev.writer.coordinates(at, sizes), strict=True):
                coordinates[axis] = coordinate
        return tuple(coordinates)
