"""Rows on chip: a value is stored where the terms of a reduction compute it, and loaded where it is read again.

Rows lie in the workspace, or in the output where each element of the output is the last reader of the value's element:
the output then comes into the cache while the value is computed, which takes longer than to finish it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from codegen.lower.cpu.builder import CpuWriter
from codegen.lower.points import axes_of
from codegen.plan.cpu.kept_rows import KeptRow
from codegen.plan.cpu.nest_tiling import kept_rows_of, nest_loops
from codegen.plan.region_loops import RegionLoops
from ir.index.expr import AxisExpr
from ir.index.map import identity
from ir.kernel.cpu.kernel import Scratch
from ir.kernel.nodes import register_type
from ir.plan.cpu import CpuNestPlan
from ir.region.region import Buffer, MemRef


@dataclass(frozen=True)
class Row:
    """The rows of the value `kept`: those that are filled together in the workspace's `buffer`, or all of them in the
    output `buffer`."""

    kept: KeptRow
    buffer: Buffer
    in_output: bool = False
    _numbers: dict[frozenset[int], dict[tuple[AxisExpr, ...], int]] = field(default_factory=dict)

    def place(self, point: tuple[AxisExpr, ...]) -> tuple[AxisExpr, ...]:
        """The coordinates of the value at `point` in `buffer`: in the workspace rows are numbered in the order of first
        use."""
        if self.in_output:
            return point
        of = self.filler_point(point)
        numbers = self._numbers.setdefault(axes_of(of), {})
        number = numbers.setdefault(of, len(numbers)) % self.buffer.memref.shape[0]
        return (AxisExpr(number), *(point[position] for position in self.kept.row))

    def filler_point(self, point: tuple[AxisExpr, ...]) -> tuple[AxisExpr, ...]:
        """The point of the reduction whose terms fill the row of the value at `point`."""
        return tuple(AxisExpr() if position is None else point[position] for position in self.kept.own)


def place_rows(loops: RegionLoops, plan: CpuNestPlan, writer: CpuWriter) -> dict[str, Row]:
    """Value that the plan keeps → its rows: `plan.rows` of them in a thread's workspace. The rows of one value lie in
    the output, if they fit there."""
    rows: dict[str, Row] = {}
    kept = kept_rows_of(loops, plan)
    last = next((row for row in reversed(kept) if _fits_output(row, loops, plan)), None)
    for row in kept:
        if row is last:
            rows[row.value] = Row(row, loops.region.outputs[0], in_output=True)
            continue
        memref = MemRef((plan.rows, *row.sizes), register_type(loops.ops[row.value].dtype))
        buffer = Buffer(f"{row.value}_row", memref)
        writer.private.append(Scratch(writer.buffer(buffer.name), memref.dtype, math.prod(memref.shape)))
        rows[row.value] = Row(row, buffer)
    return rows


def _fits_output(row: KeptRow, loops: RegionLoops, plan: CpuNestPlan) -> bool:
    """Whether the output can hold the value: it has the same elements, is alone, and is written row by row."""
    region, point = loops.region, identity(loops.shape)
    (output, *others), (result, *_) = region.outputs, region.yields
    last = [site for site in loops.core.sites if site.scope == loops.scope]
    reads = [site.map for site in last if site.value == row.value]
    same = (output.memref.shape, output.memref.dtype) == (loops.shape, loops.ops[row.value].dtype)
    if others or not same or reads != [point] or result.map != point or result.at is not None:
        return False
    if any(site.map.guards for site in last):
        return False  # a branch would fill the row again
    if row.own.count(None) or loops.ops[row.value].shape != loops.shape:
        return False
    along = [loop for loop in nest_loops(loops, plan) if not set(loop.group.axes).isdisjoint(row.row)]
    return all(loop.blocks == 1 and set(loop.group.axes) <= {*row.row} for loop in along)
