"""Where a block of a contraction's template stands, and the digits of the points that it works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.value_at_point import ThreadEvaluator
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
    """What every part of the template writes with. `row` and `column` are the first of the block's tile, `at` the
    digits that are the same in all of it; `tails` are the axes whose last tile is cut."""

    view: Contraction
    tile: ContractionTile
    tails: tuple[str, ...]
    epilogue: tuple[str, ...]
    writer: GpuWriter
    evaluator: ThreadEvaluator
    row: AxisExpr
    column: AxisExpr
    at: Mapping[int, AxisExpr]

    def placed(self, digits: Mapping[int, AxisExpr]) -> GpuContractionFrame:
        """The frame with more digits known."""
        return replace(self, at={**self.at, **digits})

    def digits(self, *parts: Mapping[int, AxisExpr]) -> tuple[AxisExpr, ...]:
        """All digits, those of one point at 0."""
        found = dict(self.at)
        for part in parts:
            found |= part
        return tuple(found.get(position, ZERO) for position in range(len(self.view.sizes)))

    def along(
        self, block: GpuBlock, group: Sequence[int], counter: AxisExpr, width: int = 1, together: int = 1
    ) -> Digits:
        """The digits of `group` at point number `width`·`counter` of their row-major box; those of a point beyond it
        are of some point inside. The last `together` digits are one number, which stands for the last of them."""
        if not group:
            return {}
        single, last = group[: len(group) - together], group[len(group) - together :]
        sizes = [*(self.view.sizes[position] for position in single), self.view.extent(last) // width]
        positions = (*single, group[-1])
        found: Digits = {}
        for position, size in reversed(list(zip(positions, sizes, strict=True))[1:]):
            counter = block.bind("at", counter, bounds(counter, self.writer.box)[1])
            counter, digit = self.writer.split(counter, size)
            found[position] = block.bind(self._name(position), digit, size - 1)
        found[positions[0]] = block.bind(self._name(positions[0]), counter, sizes[0] - 1)
        found[group[-1]] *= width
        return found

    def _name(self, position: int) -> str:
        return "".join(name if name.isalnum() else "_" for name in self.view.roles.names[position])

    def inside(self, steps: Steps, counter: AxisExpr) -> tuple[Within, ...]:
        """That a point exists, where the plan says that the last tile is cut."""
        return (Within(counter, 0, steps.extent),) if steps.axis in self.tails else ()


def block_place(
    view: Contraction, tile: ContractionTile, places: BlockPlaces, writer: GpuWriter
) -> tuple[AxisExpr, AxisExpr, AxisExpr]:
    """The number of the product, of the tile of rows and of that of columns that a block works on."""
    found = _block_pieces(view, tile, places, writer)
    return found["batch"], found["rows"], found["columns"]


def block_part(view: Contraction, tile: ContractionTile, places: BlockPlaces, writer: GpuWriter) -> AxisExpr:
    """The number of the part of the terms that a block adds up."""
    return _block_pieces(view, tile, places, writer)["parts"]


def _block_pieces(
    view: Contraction, tile: ContractionTile, places: BlockPlaces, writer: GpuWriter
) -> dict[str, AxisExpr]:
    sizes = dict(zip(("parts", "batch", "rows", "columns"), (tile.split, *tiles_of(view, tile)), strict=True))
    found: dict[str, AxisExpr] = {}
    for axis, place in zip(GRID_AXES, writer.block, strict=True):
        pieces = [piece for piece in sizes if getattr(places, piece) == axis]
        if tile.raster > 1 and {"rows", "columns"} <= set(pieces):
            place, inner = writer.split(place, tile.raster)
            counts = [sizes[piece] // (tile.raster if piece == "rows" else 1) for piece in pieces]
            found |= zip(pieces, writer.coordinates(place, counts), strict=True)
            found["rows"] = found["rows"] * tile.raster + inner
        else:
            found |= zip(pieces, writer.coordinates(place, [sizes[piece] for piece in pieces]), strict=True)
    return found


def divided(expr: AxisExpr, by: int) -> AxisExpr:
    """What a multiple of `by` is that times."""
    return AxisExpr(expr.const // by, tuple((term, c // by) for term, c in expr.terms))
