"""The registers in which the last block joins the parts of streams. Vectors are dealt to threads in memory order:

vector v of a thread: number v·threads + thread of the part's vectors, row-major
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.lower.gpu.builder import GpuWriter
from ir.index.expr import AxisExpr
from ir.plan.gpu import StreamParts


@dataclass(frozen=True, eq=False)
class PartFragment:
    """A thread's vectors of `width` columns; neighbouring threads have neighbouring vectors. `acc`: the registers of a
    product's sums; "" for a fragment of row sums alone."""

    writer: GpuWriter
    parts: StreamParts
    acc: str = ""

    @property
    def count(self) -> int:
        return self.parts.vectors * self.parts.width

    @property
    def own_rows(self) -> int:
        return self.parts.vectors

    @property
    def neighbours(self) -> int:
        return self.parts.width

    @property
    def across(self) -> int:
        """Threads that share a row."""
        return self.parts.columns // self.parts.width

    def place(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        vector, inside = self.writer.split(element, self.parts.width)
        row, chunk = self._place(vector)
        return row, chunk * self.parts.width + inside

    def row_of(self, element: AxisExpr) -> AxisExpr:
        return self.writer.split(element, self.parts.width)[0]

    def row_place(self, row: AxisExpr) -> AxisExpr:
        return self._place(row)[0]

    def chunk(self, row: AxisExpr) -> AxisExpr:
        """The number of this thread among the threads that share a row."""
        return self._place(row)[1]

    def _place(self, vector: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        return self.writer.split(vector * self.writer.threads + self.writer.thread, self.across)
