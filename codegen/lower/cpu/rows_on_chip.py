"""Rows on chip: a value is stored where the terms of a reduction compute it, and loaded where it is read again."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from codegen.lower.cpu.builder import CpuWriter
from codegen.lower.points import axes_of
from codegen.plan.cpu.kept_rows import KeptRow
from ir.index.expr import AxisExpr
from ir.kernel.cpu.kernel import Scratch
from ir.kernel.nodes import register_type
from ir.region.region import Buffer, MemRef


@dataclass(frozen=True)
class Row:
    """The rows of the value `kept` that are filled together, in the workspace's `buffer`."""

    kept: KeptRow
    buffer: Buffer
    _numbers: dict[frozenset[int], dict[tuple[AxisExpr, ...], int]] = field(default_factory=dict)

    def place(self, point: tuple[AxisExpr, ...]) -> tuple[AxisExpr, ...]:
        """The coordinates of the value at `point` in `buffer`: rows are numbered in the order of first use."""
        of = self.filler_point(point)
        numbers = self._numbers.setdefault(axes_of(of), {})
        number = numbers.setdefault(of, len(numbers)) % self.buffer.memref.shape[0]
        return (AxisExpr(number), *(point[position] for position in self.kept.row))

    def filler_point(self, point: tuple[AxisExpr, ...]) -> tuple[AxisExpr, ...]:
        """The point of the reduction whose terms fill the row of the value at `point`."""
        return tuple(AxisExpr() if position is None else point[position] for position in self.kept.own)


def workspace_rows(kept: Iterable[KeptRow], dtypes: dict[str, str], together: int, writer: CpuWriter) -> dict[str, Row]:
    """Value that is kept → `together` rows in a thread's workspace."""
    rows: dict[str, Row] = {}
    for row in kept:
        buffer = Buffer(f"{row.value}_row", MemRef((together, *row.sizes), register_type(dtypes[row.value])))
        elements = math.prod(buffer.memref.shape)
        writer.private.append(Scratch(writer.buffer(buffer.name), buffer.memref.dtype, elements))
        rows[row.value] = Row(row, buffer)
    return rows
