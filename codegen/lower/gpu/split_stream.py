"""Streams whose terms several blocks share. A block stores a part: the maxima, the row sums and the product sums of its
terms. The last block joins the parts, relative to the maxima of all terms.

    tops[tile, part, row], L_parts[tile, part, row], A_parts[tile, part, row, column] := …
    the last block, a few columns of a row for each thread
      for a few parts at a time, as in a turn of the main loop
        before = top; top = max(top, tops[parts]); L, A rescaled by fn(before - top)
        for part: w = fn(tops[part] - top); L += w·L_parts[part]; A[…] += w·A_parts[part, …]

Parts are read in order, so that the bits do not depend on which block came last. Many parts are joined in two levels:
the last block of every group joins the parts of its group, and the last of these blocks joins the groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.meeting import last_block
from codegen.lower.gpu.part_fragment import PartFragment
from codegen.lower.gpu.running_maximum import base_of, weight
from codegen.lower.gpu.score_rows import RowsFragment, ScoreRows, over_registers
from codegen.lower.points import Point
from codegen.plan.gpu.contraction_tiling import tiles_of
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, constant
from ir.kernel.gpu.limits import VECTOR_BYTES
from ir.kernel.gpu.nodes import Call, Element, Holds, LdGlobalVec, LoadGlobal, SetElement, StGlobal, StGlobalVec, Value
from ir.kernel.nodes import Bind, Comment, Const, Within
from ir.plan.gpu import StreamParts


@contextmanager
def joined_streams(
    parts: StreamParts, rows: ScoreRows, products: Sequence[RowsFragment], block: GpuBlock, tile: Point, part: AxisExpr
) -> Iterator[tuple[GpuBlock, ScoreRows, Sequence[RowsFragment]]]:
    """Joins the parts of the block's `tile`, of which this block has number `part`. Yields the block of statements that
    the last block runs, and the joined rows and products."""
    writer, tiles, split = block.writer, tiles_of(rows.frame.view, rows.frame.tile), rows.frame.tile.split
    members, groups = parts.members, -(-split // parts.members)
    parts_of_blocks = _StreamParts(parts, rows, products, tile, split)
    block.add(Comment("this part, for the block that comes last"))
    parts_of_blocks.store(block, part)
    if groups == 1:
        with last_block(block, tile, tiles, constant(split)) as last:
            yield last, *parts_of_blocks.join_parts(last, ZERO, split)
        return
    group = writer.split(part, members)[0]
    variable = writer.variable("members", 1, members)
    block.add(Bind(variable, constant(split) - group * members, (constant(members),), (constant(1),)))
    block.variables.add(variable)
    with last_block(block, (*tile, group), (*tiles, groups), writer.axis(variable)) as last:
        joined = parts_of_blocks.join_parts(last, group * members, members)
        joined_parts = _StreamParts(parts, *joined, tile, groups)
        last.add(Comment("what the parts of these blocks come to, for the last of all"))
        joined_parts.store(last, group)
        with last_block(last, tile, tiles, constant(groups)) as final:
            yield final, *joined_parts.join_parts(final, ZERO, groups)


class _StreamParts:
    """The parts of all blocks of a launch in memory: `count` per tile."""

    def __init__(
        self, parts: StreamParts, rows: ScoreRows, products: Sequence[RowsFragment], tile: Point, count: int
    ) -> None:
        self.parts, self.rows, self.products, self.tile, self.count = parts, rows, products, tile, count
        self.kind, self.frame, self.writer = rows.view.kind, rows.frame, rows.frame.writer
        shape = (*tiles_of(self.frame.view, self.frame.tile), count, parts.rows)
        self.tops = self.writer.meet("tops", self.kind, shape)
        self.sums = {name: self.writer.meet(f"{name}_parts", self.kind, shape) for name in rows.sums}
        names = [product.name for product in rows.view.products]
        self.product_buffers = [self.writer.meet(f"{name}_parts", self.kind, (*shape, parts.columns)) for name in names]

    # --- stores ---

    def store(self, block: GpuBlock, part: AxisExpr) -> None:
        """Stores the block's part; the first of the threads that share a row stores the row."""
        scores = self.rows.scores
        with over_registers(block, scores.own_rows) as (body, own):
            row = scores.row_place(own)
            shares = self.writer.split(self.writer.lane, scores.across)[1]
            first = Within(scores.chunk(own) if isinstance(scores, PartFragment) else shares, 0, 1)
            for buffer, array in self._arrays(self.rows):
                at = (*self.tile, part, row)
                body.add(
                    StGlobal(buffer, at, Element(array, own, self.kind), (*self._conditions(body, row, part), first))
                )
        for buffer, product in zip(self.product_buffers, self.products, strict=True):
            self._store(block, buffer, product, part)

    def _store(self, block: GpuBlock, buffer: str, product: RowsFragment, part: AxisExpr) -> None:
        width = math.gcd(product.neighbours, product.count, VECTOR_BYTES // DTYPES[self.kind].bytes)
        with block.loop("vector", constant(product.count // width), unroll=True) as (body, vector):
            row, column = product.place(vector * width)
            at, where = (*self.tile, part, row, column), self._conditions(body, row, part)
            if width == 1:
                body.add(StGlobal(buffer, at, Element(product.acc, vector, self.kind), where))
            else:
                body.add(StGlobalVec(buffer, at, product.acc, vector * width, width, where))

    def _arrays(self, rows: ScoreRows) -> list[tuple[str, str]]:
        """The maxima and row sums of a part, as pairs (buffer, array of registers)."""
        return [(self.tops, rows.top), *((self.sums[name], array) for name, array in rows.sums.items())]

    def _conditions(self, block: GpuBlock, row: AxisExpr, part: AxisExpr) -> tuple[Within, ...]:
        inside = (Within(row, 0, self.parts.rows), Within(part, 0, self.count))
        return tuple(condition for condition in inside if not block.knows(condition))

    # --- joining ---

    def join_parts(self, block: GpuBlock, first: AxisExpr, count: int) -> tuple[ScoreRows, list[PartFragment]]:
        """Joins up to `count` parts from `first` on, in order; a few at a time, so that their loads overlap."""
        counts = self.parts.vectors * self.parts.width
        joined = [
            PartFragment(self.writer, self.parts, self.writer.array(product.name, self.kind, counts, zero=True))
            for product in self.rows.view.products
        ]
        rows = ScoreRows(self.rows.view, self.frame, PartFragment(self.writer, self.parts), self.rows.coarse, None)
        rows.start(block)
        together = min(self.parts.together, count)
        with block.loop("round", constant(count // together)) as (body, number):
            self._join(body, rows, joined, first + number * together, together)
        if count % together:
            self._join(block, rows, joined, first.shift(count - count % together), count % together)
        return rows, joined

    def _join(
        self, block: GpuBlock, rows: ScoreRows, products: Sequence[PartFragment], first: AxisExpr, count: int
    ) -> None:
        """Joins `count` parts from `first` on, as a turn of the main loop does: rescales the sums so far, then adds."""
        tops = self.writer.array("part_tops", self.kind, count)
        with over_registers(block, rows.scores.own_rows) as (body, own):
            row, top, base = rows.scores.row_place(own), self._element(rows.top, own), self._element(rows.base, own)
            body.add(SetElement(rows.base, own, top))
            with body.loop("u", constant(count), unroll=True) as (inner, u):
                inner.add(SetElement(tops, u, self._top(inner, row, first + u)))
                self._set(inner, "max", rows.base, own, self._element(tops, u))
            before, after = body.let("before", top), body.let("top", base)
            body.add(SetElement(rows.top, own, after), SetElement(rows.base, own, base_of(after)))
            shrink = body.let("shrink", weight(rows.view.fn, before, base))
            self._rescale(body, rows, products, own, shrink)
            with body.loop("u", constant(count), unroll=True) as (inner, u):
                share = inner.let("share", weight(rows.view.fn, self._element(tops, u), base))
                self._add(inner, rows, products, own, first + u, share)

    def _top(self, block: GpuBlock, row: AxisExpr, part: AxisExpr) -> Value:
        """The maximum of a row in a part; -∞ where the part does not exist."""
        where = self._conditions(block, row, part)
        value = LoadGlobal(self.tops, (*self.tile, part, row), self.kind, where)
        part_exists = tuple(condition for condition in where if condition.expr == part)
        return Call("where", (Holds(part_exists), value, Const("-inf", self.kind)), self.kind) if part_exists else value

    def _rescale(
        self, block: GpuBlock, rows: ScoreRows, products: Sequence[PartFragment], own: AxisExpr, by: Value
    ) -> None:
        for array in rows.sums.values():
            self._set(block, "mul", array, own, by)
        for product in products:
            with block.loop("i", constant(self.parts.width), unroll=True) as (body, i):
                self._set(body, "mul", product.acc, own * self.parts.width + i, by)

    def _add(
        self,
        block: GpuBlock,
        rows: ScoreRows,
        products: Sequence[PartFragment],
        own: AxisExpr,
        part: AxisExpr,
        share: Value,
    ) -> None:
        """Adds a part's sums of one row, times `share`."""
        row, width = rows.scores.row_place(own), self.parts.width
        for name, array in rows.sums.items():
            value = LoadGlobal(self.sums[name], (*self.tile, part, row), self.kind, self._conditions(block, row, part))
            self._accumulate(block, array, own, share, value)
        for buffer, product in zip(self.product_buffers, products, strict=True):
            at, where = (*self.tile, part, *product.place(own * width)), self._conditions(block, row, part)
            vector = self.writer.array("of_part", self.kind, width)
            if width > 1:
                block.add(LdGlobalVec(vector, ZERO, width, buffer, at, where))
            else:
                block.add(SetElement(vector, ZERO, LoadGlobal(buffer, at, self.kind, where)))
            with block.loop("i", constant(width), unroll=True) as (body, i):
                self._accumulate(body, product.acc, own * width + i, share, Element(vector, i, self.kind))

    def _element(self, array: str, index: AxisExpr) -> Element:
        return Element(array, index, self.kind)

    def _accumulate(self, block: GpuBlock, array: str, index: AxisExpr, one: Value, other: Value) -> None:
        """Adds one·other to an element of `array`, with one rounding."""
        block.add(SetElement(array, index, Call("fma", (one, other, self._element(array, index)), self.kind)))

    def _set(self, block: GpuBlock, fn: str, array: str, index: AxisExpr, value: Value) -> None:
        block.add(SetElement(array, index, Call(fn, (self._element(array, index), value), self.kind)))
