"""Tiles of a stream that no row sees, as under a causal mask, are left out: their weights are 0.

A weight of 0 hides a finite value only. So a block of terms with an infinite value or a NaN is computed for all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.lower.cpu.builder import CpuWriter
from codegen.lower.cpu.contraction_frame import DepthBlock
from codegen.plan.cpu.stream_tiling import bound_of
from codegen.plan.stream_view import StreamView
from ir.index.expr import AxisExpr, constant, mod
from ir.kernel.nodes import Within
from ir.plan.cpu import StreamBlocks


@dataclass(frozen=True)
class SeenTerms:
    """The conditions under which rows see a term of the block `depth`, or one of its values is no number
    (`infinite` is 1)."""

    view: StreamView
    blocks: StreamBlocks
    depth: DepthBlock
    infinite: AxisExpr

    def by_tile(self, first: AxisExpr, writer: CpuWriter) -> Within:
        """Of the tile whose first row is `first`."""
        return self._within(self._last_of(first, self.blocks.br, writer))

    def by_task(self, first: AxisExpr, writer: CpuWriter) -> Within:
        """Of all rows of the task whose first row is `first`."""
        bound = bound_of(self.view, self.blocks)
        assert bound is not None
        if bound.holds_for(self.view, self.blocks.bm):
            return self._within(self._last_of(first, self.blocks.bm, writer))
        return self._within(constant(bound.size - 1))

    def _last_of(self, first: AxisExpr, rows: int, writer: CpuWriter) -> AxisExpr:
        """The place of the last of so many rows in the rows' innermost loop."""
        bound = bound_of(self.view, self.blocks)
        assert bound is not None
        place = first if len(self.view.roles.rows) == 1 else mod(first, bound.size, writer.box)
        return place.shift(rows - 1)

    def _within(self, last: AxisExpr) -> Within:
        """0 ≤ (the last term that row `last` sees) − (the first term of the block), or a value is no number."""
        bound = bound_of(self.view, self.blocks)
        assert bound is not None
        room = (last * bound.step).shift(bound.shift) - self.depth.first
        everything = self.view.terms + abs(bound.shift)
        most = bound.step * (bound.size + self.blocks.bm) + 2 * everything + 1
        return Within(room + self.infinite * everything, 0, most)
