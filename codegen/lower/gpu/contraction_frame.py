"""The tile of a contraction that a block works on, and the digits of the tile's points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.thread_evaluator import ThreadEvaluator
from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_tiling import GRID_AXES, tiles_of
from codegen.poly.tail_axes import Steps
from ir.index.expr import ZERO, AxisExpr
from ir.index.text import bounds
from ir.kernel.nodes import Within
from ir.plan.gpu import BlockPlaces, ContractionTile

Digits = dict[int, AxisExpr]


@dataclass(frozen=True)
class GpuContractionFrame:
    """The state with which every part of the template writes. `row`, `column`: the first of the block's tile. `at`: the
    digits that are the same in the whole tile. `tails`: the axes whose last tile is cut."""

    view: Contraction
    tile: ContractionTile
    tails: tuple[str, ...]
    epilogue: tuple[str, ...]
    writer: GpuWriter
    evaluator: ThreadEvaluator
    row: AxisExpr
    column: AxisExpr
    at: Mapping[int, AxisExpr]

    def with_digits(self, digits: Mapping[int, AxisExpr]) -> GpuContractionFrame:
        """The frame with more digits known."""
        return replace(self, at={**self.at, **digits})

    def digits(self, *parts: Mapping[int, AxisExpr]) -> tuple[AxisExpr, ...]:
        """All digits; digits of one point are 0."""
        digits = dict(self.at)
        for part in parts:
            digits |= part
        return tuple(digits.get(position, ZERO) for position in range(len(self.view.sizes)))

    def along(
        self, block: GpuBlock, group: Sequence[int], counter: AxisExpr, width: int = 1, together: int = 1
    ) -> Digits:
        """The digits of `group` at point number `width`·`counter` of their row-major box; a number beyond the box gives
        some point inside. The last `together` digits are taken as one number, under the last of them."""
        if not group:
            return {}
        single, last = group[: len(group) - together], group[len(group) - together :]
        sizes = [*(self.view.sizes[position] for position in single), self.view.extent(last) // width]
        positions = (*single, group[-1])
        digits: Digits = {}
        for position, size in reversed(list(zip(positions, sizes, strict=True))[1:]):
            counter = block.bind("at", counter, bounds(counter, self.writer.box)[1])
            counter, digit = self.writer.split(counter, size)
            digits[position] = block.bind(self._name(position), digit, size - 1)
        digits[positions[0]] = block.bind(self._name(positions[0]), counter, sizes[0] - 1)
        digits[group[-1]] *= width
        return digits

    def _name(self, position: int) -> str:
        return "".join(name if name.isalnum() else "_" for name in self.view.roles.names[position])

    def inside(self, steps: Steps, counter: AxisExpr) -> tuple[Within, ...]:
        """The condition that a point exists; () where the plan says that the last tile is not cut."""
        return (Within(counter, 0, steps.extent),) if steps.axis in self.tails else ()


def block_place(
    view: Contraction, tile: ContractionTile, places: BlockPlaces, writer: GpuWriter
) -> tuple[AxisExpr, AxisExpr, AxisExpr]:
    """The numbers of the product, of the tile of rows and of the tile of columns that a block works on."""
    digits = _block_pieces(view, tile, places, writer)
    return digits["batch"], digits["rows"], digits["columns"]


def block_part(view: Contraction, tile: ContractionTile, places: BlockPlaces, writer: GpuWriter) -> AxisExpr:
    """The number of the part of the terms that a block adds up."""
    return _block_pieces(view, tile, places, writer)["parts"]


def _block_pieces(
    view: Contraction, tile: ContractionTile, places: BlockPlaces, writer: GpuWriter
) -> dict[str, AxisExpr]:
    sizes = dict(zip(("parts", "batch", "rows", "columns"), (tile.split, *tiles_of(view, tile)), strict=True))
    digits: dict[str, AxisExpr] = {}
    for axis, place in zip(GRID_AXES, writer.block, strict=True):
        pieces = [piece for piece in sizes if getattr(places, piece) == axis]
        if tile.raster > 1 and {"rows", "columns"} <= set(pieces):
            place, inner = writer.split(place, tile.raster)
            counts = [sizes[piece] // (tile.raster if piece == "rows" else 1) for piece in pieces]
            digits |= zip(pieces, writer.coordinates(place, counts), strict=True)
            digits["rows"] = digits["rows"] * tile.raster + inner
        else:
            digits |= zip(pieces, writer.coordinates(place, [sizes[piece] for piece in pieces]), strict=True)
    return digits


def exact_quotient(expr: AxisExpr, by: int) -> AxisExpr:
    """`expr` / `by`, for an expression all of whose numbers are multiples of `by`."""
    return AxisExpr(expr.const // by, tuple((term, c // by) for term, c in expr.terms))
