"""The end of a task of streams: the ops on the final sums, register by register, and the stores.

Lanes run along the columns of the products, or along the rows where there are no products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, lanes_along
from codegen.lower.cpu.lane_values import convert
from codegen.lower.cpu.score_tile import ScoreTile
from codegen.lower.cpu.stream_at_point import nan_if_infinite
from ir.index.expr import ZERO, AxisExpr, constant
from ir.kernel.cpu.nodes import Load, Value


def stream_tile_epilogue(
    frame: CpuContractionFrame, block: CpuBlock, tile: ScoreTile, sums: Mapping[str, str], m0: AxisExpr
) -> None:
    """Finishes the rows of the task that starts at row `m0`; `sums` are the buffers of the products' sums."""
    view, lanes, size = tile.view, frame.lanes, tile.blocks.bm
    r = frame.writer.variable("r", 0, max(view.m - 1, 0))
    row = frame.writer.axis(r)
    body = block.inner({r}, barrier=not row.terms)  # a lone row: values would be hoisted above the sums that they need
    ending = _Ending(tile, sums, frame.with_digits(frame.along(view.roles.rows, row)), row - m0)
    in_lanes = not view.products and view.lead.out_step(view.roles.rows) is not None
    if in_lanes:
        left = [m0.shift(size) - row, constant(view.m) - row]
        lanes_along(body, r, left, whole=size % lanes == 0 and view.m % lanes == 0)
    if view.products:
        ending.columns(body)
    else:
        ending.rows(body)
    block.loop(body, r, m0, m0.shift(size), lanes if in_lanes else 1, view.m)


@dataclass(frozen=True)
class _Ending:
    """One row of a task, or a register of rows. `row`: its number in the task."""

    tile: ScoreTile
    sums: Mapping[str, str]
    frame: CpuContractionFrame
    row: AxisExpr

    def rows(self, block: CpuBlock) -> None:
        """Stores with rows as lanes, or one row in all lanes."""
        self._store(self.frame, block, self.tile.totals(block, self.row))

    def columns(self, block: CpuBlock) -> None:
        """Stores with the columns of one row as lanes, which are evenly spaced in the outputs."""
        view, writer = self.tile.view, self.frame.writer
        top, given = self.tile.top_of(block, self.row), self.tile.totals(block, self.row)
        outer, run = self._run_of_columns()
        count = view.extent(outer)
        o = writer.variable("o", 0, count - 1)
        around = block.inner({o}) if count > 1 else block
        self._run(around, writer.axis(o), outer, run, given, top)
        if count > 1:
            block.loop(around, o, ZERO, constant(count))

    def _run(
        self,
        block: CpuBlock,
        number: AxisExpr,
        outer: tuple[int, ...],
        run: tuple[int, ...],
        given: dict[str, Value],
        top: Value,
    ) -> None:
        """Run `number` of the columns, over the loops `run`."""
        view, writer, lanes = self.tile.view, self.frame.writer, self.frame.lanes
        size = view.extent(run)
        j = writer.variable("j", 0, size - 1)
        at = writer.axis(j)
        body = block.inner({j})
        lanes_along(body, j, [constant(size) - at], whole=size % lanes == 0)
        count = body.lane_axis.count if body.lane_axis else None
        for product in view.products:
            offset = self.row * self.tile.blocks.sum_stride(product.n) + number * size + at
            load = Load(self.sums[product.name], offset, view.kind, count=count)
            given[product.name] = body.let(product.name, nan_if_infinite(load, top))
        place = {**self.frame.along(outer, number), **self.frame.along(run, at)}
        self._store(self.frame.with_digits(place), body, given)
        block.loop(body, j, ZERO, constant(size), lanes)

    def _run_of_columns(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The loops of the columns in two parts; the second is the longest along which outputs are evenly spaced."""
        view, columns = self.tile.view, self.tile.view.roles.columns
        starts = (start for start in range(len(columns)) if view.lead.out_step(columns[start:]) is not None)
        start = next(starts, len(columns))
        return columns[:start], columns[start:]

    def _store(self, frame: CpuContractionFrame, block: CpuBlock, given: dict[str, Value]) -> None:
        """Stores one register per output, from the values of the streams and maxima."""
        ev, region = frame.evaluator, self.tile.view.region
        for name, value in given.items():
            ev.provide(name, convert(value, self.tile.view.kind, ev.dtype(name)))
        place = frame.place(self.tile.view.lead.roles.out.exprs)
        for result in region.yields:
            block.store(result.buffer, ev.offset(result.buffer, place), ev.stored_value(result, place, block, ()))
