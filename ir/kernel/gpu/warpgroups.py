"""The operands and sums of products of warpgroups (wgmma): the checks of their places in shared memory.

terms side by side               [row or column, term]         rows of 128 bytes, groups of 8 swizzled
rows or columns side by side     [panel, term, 64 of them]     the same, for every term of a panel
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ir.diagnostics import Kind
from ir.dtype import DTYPES
from ir.index.expr import AxisExpr, interval
from ir.kernel.gpu.kernel import SWIZZLE_ATOM, WARP, WARP_LANES, GpuKernel, Registers, Shared
from ir.kernel.gpu.limits import WARPGROUP, WARPGROUP_ROWS, WARPGROUP_TERMS
from ir.kernel.gpu.nodes import At
from ir.kernel.gpu.places import Facts, divisor, outside
from ir.kernel.gpu.uniform import Spread, spread

_SWIZZLED_ROWS = 8
"""Rows of 128 bytes that a swizzle permutes as one."""


class Matrix(NamedTuple):
    """An operand of a `Wgmma`: `extent` rows or columns from the element `at` of `shared` on."""

    at: At
    shared: Shared
    extent: int
    dtype: str

    @property
    def in_panels(self) -> bool:
        """Whether rows or columns lie side by side, and not terms."""
        return len(self.shared.shape) == 3


def warpgroup_columns(acc: Registers) -> int:
    """The columns whose sums a warpgroup has in an array of accumulators."""
    return acc.count * WARPGROUP * WARP_LANES // WARPGROUP_ROWS


def panel_bytes(shared: Shared) -> int:
    """Bytes from one panel of a matrix to the next; 0 where terms lie side by side."""
    return shared.strides[0] * DTYPES[shared.dtype].bytes if len(shared.shape) == 3 else 0


def matrix_problems(
    matrix: Matrix, kernel: GpuKernel, facts: Facts, variables: dict[int, Spread]
) -> Iterator[tuple[Kind, str]]:
    """Problems of an operand, whose indices are bound: its layout, its bounds, the alignment of its start, and warps of
    a warpgroup that do not agree on it."""
    shared, at = matrix.shared, matrix.at
    if len(at.at) != len(shared.shape):
        return
    row_bytes = shared.shape[-1] * DTYPES[shared.dtype].bytes
    swizzled = shared.swizzle == 3 and shared.pitch is None and row_bytes == SWIZZLE_ATOM
    if not swizzled or shared.dtype != matrix.dtype or len(shared.shape) not in (2, 3):
        yield Kind.MALFORMED_GRAPH, f"{shared.name} is no operand of a Wgmma of {matrix.dtype}"
        return
    length = shared.shape[-1]
    last = (matrix.extent // length - 1, WARPGROUP_TERMS - 1, 0) if matrix.in_panels else (matrix.extent - 1, 0)
    count = length if matrix.in_panels else WARPGROUP_TERMS
    end = tuple(expr.shift(more) for expr, more in zip(at.at, last, strict=True))
    for problem in dict.fromkeys(
        (*outside(at.at, shared.shape, count, facts, kernel.box), *outside(end, shared.shape, count, facts, kernel.box))
    ):
        yield Kind.MALFORMED_GRAPH, f"{shared.name}: {problem}"
    units = (1, _SWIZZLED_ROWS, length) if matrix.in_panels else (_SWIZZLED_ROWS, WARPGROUP_TERMS)
    if any(divisor(expr) % unit for expr, unit in zip(at.at, units, strict=True)):
        yield Kind.ALIGNMENT_MISMATCH, f"a matrix of {shared.name} that starts inside a group of rows"
    if not all(_agrees(expr, kernel, variables) for expr in at.at):
        yield Kind.MALFORMED_GRAPH, f"a matrix of {shared.name} whose place differs between the warps of a warpgroup"


def _agrees(expr: AxisExpr, kernel: GpuKernel, variables: dict[int, Spread]) -> bool:
    """Whether the four warps of every warpgroup compute the same value."""
    parts = [AxisExpr(0, ((term, 1),)) for term, _ in expr.terms]
    varying = [part for part in parts if spread((part,), variables) is not Spread.BLOCK]
    if any(part.axes != {WARP} for part in varying):
        return False
    groups = range(0, kernel.threads // WARP_LANES, WARPGROUP)
    boxes = [(*kernel.box[:WARP], (first, first + WARPGROUP - 1), *kernel.box[WARP + 1 :]) for first in groups]
    return all(low == high for part in varying for low, high in (interval(part, box) for box in boxes))
