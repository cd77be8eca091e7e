"""Products of groups of rows with one matrix per group, as in a mixture of experts.

The rows of a group stand together, and `ends` [E] holds the position behind each group's last row. A group may have any
number of rows, but the shapes of a program are fixed. So the rows are copied into tiles of one height, filled up with
zeros, and each tile is multiplied by its group's matrix:

    groups of the rows:  0 0 0 0 0 1 2 2      tiles of four rows:  [0 0 0 0] [0 . . .] [1 . . .] [2 2 . .]
"""

from __future__ import annotations

from typing import NamedTuple

from eqsat.frontends.torch.operator_table import aten
from eqsat.tensor import Tensor, concatenate, full, iota, where
from ir.diagnostics import Kind, fail
from ir.dtype import DType, i64
from ir.frontend import STAGE

_TALLEST = 64
"""Rows of the tallest tile: a matrix product of so many rows runs at the full rate."""


@aten("_grouped_mm")
def _grouped_mm(
    x: Tensor, y: Tensor, ends: Tensor | None = None, bias: Tensor | None = None, dtype: DType | None = None
) -> Tensor:
    """The products of groups. Of tensors of rank 2 and 3, rows of x [S, K] meet matrices of y [E, K, N], or matrices of
    x [E, M, K] meet columns of y [K, S]. Of rank 2 and 2, columns of x [M, S] meet rows of y [S, N] in [E, M, N]. Of
    rank 3 and 3, matrices meet matrices."""
    if bias is not None:
        fail(Kind.UNSUPPORTED_OP, STAGE, "a bias of grouped products is not supported", hint="add the bias afterwards")
    result = dtype or x.dtype
    if ends is None:
        return (_wide(x) @ _wide(y)).cast(result)
    match x.ndim, y.ndim:
        case 2, 3:
            return _rows_by_matrices(x, y, ends).cast(result)
        case 3, 2:
            return _rows_by_matrices(y.permute(1, 0), x.permute(0, 2, 1), ends).permute(1, 0).cast(result)
        case _:
            return _columns_by_rows(x.permute(1, 0), y, ends).cast(result)


@aten("transformers.grouped_mm_fallback.default")
def _experts(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Hugging Face's own operator for rows of x [S, K] by matrices [E, K, N]."""
    return _rows_by_matrices(x, weights, ends).cast(x.dtype)


@aten("transformers.grouped_mm_fallback_backward.default")
def _experts_gradients(x: Tensor, weights: Tensor, ends: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x and of the matrices."""
    of_rows = _rows_by_matrices(gradient, weights.permute(0, 2, 1), ends)
    return of_rows.cast(x.dtype), _columns_by_rows(x, gradient, ends).cast(weights.dtype)


class _Tiles(NamedTuple):
    """Where rows lie in tiles. groups: of each tile, [M]. rows: the row at each place of each tile, [M, T]. is_row:
    whether the place has a row. places: of each row among the places of all tiles, [S]. is_in_group: whether the row
    belongs to any group, [S]."""

    groups: Tensor
    rows: Tensor
    is_row: Tensor
    places: Tensor
    is_in_group: Tensor

    def split(self, x: Tensor) -> Tensor:
        """The rows of x [S, K] in tiles [M, T, K], with zeros at places without a row."""
        return where(self.is_row.unsqueeze(2), x.take(self.rows, 0), 0).cast(x.dtype)

    def join(self, tiles: Tensor) -> Tensor:
        """The rows [S, N] of tiles [M, T, N]; rows that belong to no group are 0."""
        rows = tiles.flatten(0, 1).take(self.places, 0)
        return where(self.is_in_group.unsqueeze(1), rows, 0).cast(tiles.dtype)


def _tiles_of(ends: Tensor, count: int) -> _Tiles:
    """The tiles of so many rows, at least one, in groups with these ends, at least one."""
    ends, groups = ends.cast(i64), ends.shape[0]
    height = _height(count, groups)
    number = min(count, (count + groups * (height - 1)) // height)
    starts = concatenate([full((1,), 0, i64), ends[:-1]])
    tiles = (ends - starts + (height - 1)) // height
    tiles_before = tiles.cumsum(0) - tiles

    def group_at(position: Tensor, bounds: Tensor) -> Tensor:
        """The first group whose bound is above each position [P]; behind all bounds, the last group."""
        below = bounds.unsqueeze(0) <= position.unsqueeze(1)
        return below.cast(i64).sum(1).minimum(groups - 1)

    tile, row = iota((number,), 0, i64), iota((count,), 0, i64)
    of_tile, of_row = group_at(tile, tiles_before + tiles), group_at(row, ends)
    first = starts.take(of_tile, 0) + (tile - tiles_before.take(of_tile, 0)) * height
    rows = first.unsqueeze(1) + iota((number, height), 1, i64)
    places = tiles_before.take(of_row, 0) * height + row - starts.take(of_row, 0)
    return _Tiles(of_tile, rows, rows < ends.take(of_tile, 0).unsqueeze(1), places, row < ends[-1:])


def _height(count: int, groups: int) -> int:
    """The rows of a tile: a power of two, half of a group's mean or less, so that few places of tiles are empty."""
    height = 1
    while height < _TALLEST and 4 * height * groups <= count:
        height *= 2
    return height


def _rows_by_matrices(x: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Multiplies every row of x [S, K] by its group's matrix [E, K, N], in the accumulator's dtype. Rows behind the
    last end are 0."""
    wide = x.dtype.accumulator
    if not x.size or not matrices.size:
        return full((x.shape[0], matrices.shape[2]), 0, wide)
    tiles = _tiles_of(ends, x.shape[0])
    return tiles.join(_wide(tiles.split(x)) @ _wide(matrices.take(tiles.groups, 0)))


def _columns_by_rows(x: Tensor, y: Tensor, ends: Tensor) -> Tensor:
    """Of each group the sum over its rows of the products of x [S, K] and y [S, N]: [E, K, N], in the accumulator's
    dtype. A group without rows has 0."""
    none = full((ends.shape[0], x.shape[1], y.shape[1]), 0, x.dtype.accumulator)
    if not x.size or not y.size or not none.size:
        return none
    tiles = _tiles_of(ends, x.shape[0])
    products = _wide(tiles.split(x)).permute(0, 2, 1) @ _wide(tiles.split(y))
    return none.scatter(0, tiles.groups.reshape(-1, 1, 1).expand(products.shape), products, "add")


def _wide(x: Tensor) -> Tensor:
    return x.cast(x.dtype.accumulator)
