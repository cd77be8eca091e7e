"""Sums of terms that several blocks share: every block stores its accumulators in the order of its registers, and the
last block adds them up in the order of the parts.

    parts[row tile, column tile, part, vector, thread, 0 .. 4] := acc[4*vector ..]
    the last block: acc = 0; for part: acc[4*vector ..] += parts[…, part, vector, thread, 0 .. 4]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.contraction_frame import GpuContractionFrame
from codegen.lower.gpu.main_loop import Fragment
from codegen.lower.gpu.meeting import last_block
from codegen.lower.points import Point
from codegen.plan.gpu.contraction_tiling import tiles_of
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, constant
from ir.kernel.gpu.limits import VECTOR_BYTES
from ir.kernel.gpu.nodes import Call, Element, LdGlobalVec, LoadGlobal, SetElement, StGlobal, StGlobalVec
from ir.kernel.nodes import Comment, Const

_WRITTEN_OUT = 32
"""Loads up to which the loop is unrolled, so that they overlap."""


@contextmanager
def whole_sums(
    frame: GpuContractionFrame, block: GpuBlock, product: Fragment, tile: Point, part: AxisExpr
) -> Iterator[GpuBlock]:
    """The block of statements after all terms of the block's `tile`, of which it has `part`, are added up."""
    if frame.tile.split == 1:
        yield block
        return
    parts = _Parts(frame, product, tile)
    block.add(Comment("this part of the sums, for the block that comes last"))
    parts.store(block, part)
    with last_block(block, tile, tiles_of(frame.view, frame.tile), constant(frame.tile.split)) as body:
        parts.add_up(body)
        yield body


class _Parts:
    """The accumulators of all blocks of a launch in memory; neighbouring threads have neighbouring elements."""

    def __init__(self, frame: GpuContractionFrame, product: Fragment, tile: Point) -> None:
        self.frame, self.product, self.tile = frame, product, tile
        self.dtype, size = frame.view.accumulator, DTYPES[frame.view.accumulator].bytes
        width = math.gcd(product.count, VECTOR_BYTES // size)
        self.width = width if width * size >= 4 else 1
        self.vectors = product.count // self.width
        shape = (*tiles_of(frame.view, frame.tile), frame.tile.split, self.vectors, frame.tile.threads, self.width)
        self.buffer = frame.writer.meet("parts", self.dtype, shape)

    def store(self, block: GpuBlock, part: AxisExpr) -> None:
        """Stores this block's part."""
        with block.loop("vector", constant(self.vectors), unroll=True) as (body, vector):
            at = self._at(part, vector)
            if self.width == 1:
                body.add(StGlobal(self.buffer, at, Element(self.product.acc, vector, self.dtype)))
            else:
                body.add(StGlobalVec(self.buffer, at, self.product.acc, vector * self.width, self.width))

    def add_up(self, block: GpuBlock) -> None:
        """Adds up the parts of all blocks in the accumulators."""
        acc = self.product.acc
        with block.loop("e", constant(self.product.count), unroll=True) as (body, element):
            body.add(SetElement(acc, element, Const(0, self.dtype)))
        parts = self.frame.tile.split
        with (
            block.loop("part", constant(parts), unroll=parts * self.vectors <= _WRITTEN_OUT) as (around, part),
            around.loop("vector", constant(self.vectors), unroll=True) as (body, vector),
        ):
            if self.width == 1:
                self._add(body, vector, LoadGlobal(self.buffer, self._at(part, vector), self.dtype))
                return
            own = self.frame.writer.array("of_part", self.dtype, self.width)
            body.add(LdGlobalVec(own, ZERO, self.width, self.buffer, self._at(part, vector)))
            with body.loop("e", constant(self.width), unroll=True) as (inner, element):
                self._add(inner, vector * self.width + element, Element(own, element, self.dtype))

    def _add(self, block: GpuBlock, element: AxisExpr, value: Element | LoadGlobal) -> None:
        total = Element(self.product.acc, element, self.dtype)
        block.add(SetElement(self.product.acc, element, Call("add", (total, value), self.dtype)))

    def _at(self, part: AxisExpr, vector: AxisExpr) -> Point:
        return (*self.tile, part, vector, self.frame.writer.thread, ZERO)
