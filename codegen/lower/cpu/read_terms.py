"""The terms that a register tile takes: those that one of its rows reads inside the image, or all terms.

A tile takes all terms where the panel of columns has a number that is not finite: zero times that number is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, bound
from codegen.plan.cpu.unread_terms import tile_range
from codegen.plan.window_digits import WindowDigit
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, interval, mod
from ir.kernel.nodes import Within


@dataclass(frozen=True)
class ReadTerms:
    """The window's digits of one tile, and the first and the last number of the tile's rows along each. infinite: 1
    where the tile takes all terms, else 0."""

    windows: tuple[tuple[WindowDigit, AxisExpr, AxisExpr], ...]
    infinite: AxisExpr

    def has(self, digit: int) -> bool:
        """Whether the tile leaves out terms by this digit of k."""
        return any(window.digit == digit for window, _, _ in self.windows)

    def conditions(self, frame: CpuContractionFrame, *digits: int) -> tuple[Within, ...]:
        """The conditions under which a row reads a term at the current numbers of these digits."""
        return tuple(
            condition
            for window, first, last in self.windows
            if window.digit in digits
            for condition in self._of_window(frame, window, first, last)
        )

    def _of_window(
        self, frame: CpuContractionFrame, window: WindowDigit, first: AxisExpr, last: AxisExpr
    ) -> tuple[Within, Within]:
        """The greatest place is not below the image, and the least one not above."""
        box = frame.writer.box
        least, greatest = (first, last) if window.row_step >= 0 else (last, first)
        place = frame.at[window.digit] * window.step
        low, high = place + least * window.row_step, place + greatest * window.row_step
        start, stop = interval(low, box)[0], interval(high, box)[1] + 1
        everything = max(0, window.low - start, stop - window.high)
        return (
            Within(high + self.infinite * everything, window.low, stop + everything),
            Within(low - self.infinite * everything, start - everything, window.high),
        )


def read_terms(
    frame: CpuContractionFrame, block: CpuBlock, windows: Sequence[WindowDigit], row: AxisExpr, infinite: AxisExpr
) -> ReadTerms:
    """The terms that the tile from `row` on takes. `block` gets the variables of the tile's rows."""
    ranges = {window.row: _range_of(frame, block, window.row, row) for window in windows}
    return ReadTerms(tuple((window, *ranges[window.row]) for window in windows), infinite)


def _range_of(
    frame: CpuContractionFrame, block: CpuBlock, digit: int | None, row: AxisExpr
) -> tuple[AxisExpr, AxisExpr]:
    """The first and the last number of the tile's rows along a digit of the rows."""
    view, mr, box = frame.view, frame.blocks.mr, frame.writer.box
    if digit is None:
        return ZERO, ZERO
    size, inner, whole = tile_range(view, digit, mr)
    if whole:
        return ZERO, constant(size - 1)
    first = bound(block, "first", mod(floordiv(row, inner, box), size, box), size - 1)
    if inner % mr == 0:
        return first, first
    steps = -(-(view.m + mr) // inner)
    last = floordiv(row.shift(mr - 1), inner, box)
    if view.extent(view.rows[: view.rows.index(digit)]) > 1:
        return first, bound(block, "last", mod(last, size, box), size - 1)
    return first, bound(block, "last", last, steps)
