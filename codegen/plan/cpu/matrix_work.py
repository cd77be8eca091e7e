"""The cycles of tiles of matrix registers. Loads overlap with products; a row of a register is a cache line.

Of a block of rows, the first tile reads a panel of columns from where the operand lies, the others from where the panel
lies; of the panels of a block, the first one reads the rows from where these lie.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.cache_lines import FAR_LINE, NEAR_LINE, PANEL_LINE, are_far, every_nth_set, share_of_core
from codegen.plan.cpu.cell_operands import bytes_of_term, grid_of, rows_in_memory
from ir.dtype import DTYPES
from ir.kernel.cpu.matrix import ROWS
from ir.plan.cpu import Blocks, LoopOrder, Place
from ir.target import CACHE_LINE_BYTES, Target

_LINE = 0.5
"""Cycles to load a row of a matrix register from the first-level cache."""
_UNPACKED, _SPLIT = 1.5, 2.75
"""Further cycles to load a row of a matrix register from a tensor, which may begin inside a cache line; and where rows
do not all begin at the same place of a line: such loads read two lines."""


@dataclass(frozen=True, eq=False)
class MatrixWork:
    """The products of one contraction on one machine."""

    view: Contraction
    target: Target

    def cycles(self, blocks: Blocks, order: LoopOrder, places: tuple[Place, Place]) -> float:
        """Cycles of the tiles per least cycle of their products."""
        view, item = self.view, bytes_of_term(self.view, "matrix")
        down, across, height = grid_of(blocks)
        tiles, panels = blocks.bm // blocks.mr, blocks.bn // blocks.nr
        parts = -(-view.m // blocks.bm), -(-view.n // blocks.bn)
        columns = view.n * view.depth * item
        rows = blocks.bk * item * (blocks.mr if order == "mnk" else blocks.bm)
        row_line = self._line(rows)
        if view.is_constant(1 - view.vector):
            first_row = self._first_line(view.m * view.depth * item, *parts, in_pieces=blocks.bk < view.depth)
            row_line = (first_row + (panels - 1) * row_line) / panels
        if places[1 - view.vector] == "memory":
            row_line += self._unpacked(blocks, item)
        sums = blocks.mr * blocks.nr * DTYPES[view.accumulator].bytes
        beside = (blocks.nr + blocks.mr) * blocks.bk * item + sums
        line = first_line = self._line(columns if order == "mnk" else beside)
        if places[view.vector] != "packed":
            first_line = self._first_line(columns, *parts[::-1])
        lines_of_columns, lines_of_rows = ROWS * across, height * down
        products = down * across * height
        least = max(products, (lines_of_columns + lines_of_rows) * _LINE)
        first_tile, other_tile = (
            max(least, lines_of_columns * each + lines_of_rows * row_line) for each in (first_line, line)
        )
        return (first_tile + (tiles - 1) * other_tile) / (tiles * products)

    def _unpacked(self, blocks: Blocks, item: int) -> float:
        """Further cycles to load a row of a matrix register from memory."""
        in_memory = rows_in_memory(self.view, blocks)
        assert in_memory is not None
        distance = in_memory[1] * item
        if blocks.mr * every_nth_set(distance) * CACHE_LINE_BYTES > self.target.l1_bytes:  # rows push each other out
            return _UNPACKED + NEAR_LINE
        return _SPLIT if distance % CACHE_LINE_BYTES else _UNPACKED

    def _first_line(self, operand: float, parts: int, other_parts: int, *, in_pieces: bool = False) -> float:
        """Cycles to load a cache line of an operand, of which the tasks have `parts`, for the first time in a call.
        in_pieces: a piece of a row is read, then one of the next row."""
        share = share_of_core(operand, parts, other_parts, self.target)
        if are_far(share, self.target):
            return FAR_LINE if in_pieces else PANEL_LINE
        return self._line(share)

    def _line(self, held: float) -> float:
        """Cycles to load a cache line again after `held` bytes of other loads, beyond a load from the nearest cache."""
        if held <= self.target.l1_bytes:
            return 0.0
        return max(NEAR_LINE, CACHE_LINE_BYTES * self.target.refetch_cycles(held))
