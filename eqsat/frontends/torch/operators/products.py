"""Matrix products. fp16 and bf16 are multiplied and added in fp32, and the result is rounded once."""

from __future__ import annotations

import math

from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import Number
from eqsat.tensor import Tensor, full, iota, where
from ir.dtype import fp64, i32, i64


@aten("mm", "bmm", "mv", "dot", "vdot", "matmul")
def _product(x: Tensor, y: Tensor) -> Tensor:
    return _wide_product(x, y).cast(x.dtype)


@aten("_int_mm")
def _product_of_bytes(x: Tensor, y: Tensor) -> Tensor:
    return x.cast(i32) @ y.cast(i32)


@aten("addmm", "baddbmm", "addmv")
def _add_product(start: Tensor, x: Tensor, y: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta · start + alpha · x y. With beta = 0, NaN in `start` counts for nothing."""
    return _add(start, _wide_product(x, y), beta, alpha).cast(x.dtype)


@aten("addbmm")
def _add_products(start: Tensor, x: Tensor, y: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta · start + alpha · the sum of the products over the batch."""
    product = _wide_product(x.permute(1, 0, 2).flatten(1), y.flatten(0, 1))
    return _add(start, product, beta, alpha).cast(x.dtype)


def _add(start: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    wide = start.cast(product.dtype)
    return (wide if beta == 1 else wide * beta) + scaled


def _wide_product(x: Tensor, y: Tensor) -> Tensor:
    return x.cast(x.dtype.accumulator) @ y.cast(y.dtype.accumulator)


@aten("_cdist_forward")
def _distances(x: Tensor, y: Tensor, order: float, compute_mode: int | None) -> Tensor:
    """The distance, in the norm of this order, of each row of x [..., M, D] from each row of y [..., N, D]."""
    return _norm_of_difference(x.unsqueeze(-2) - y.unsqueeze(-3), order)


def _norm_of_difference(difference: Tensor, order: float) -> Tensor:
    """The norm along the last axis; of order 0, how many elements are not 0, or NaN where one is NaN."""
    if order:
        return abs(difference).norm(order, -1)
    return abs(difference).ceil().minimum(1.0).sum(-1)


@aten("_cdist_backward")
def _distance_gradient(gradient: Tensor, x: Tensor, y: Tensor, order: float, distances: Tensor) -> Tensor:
    """The gradient of x: the slope of the distance along each axis is ±(|difference| / distance)^(order − 1), and 0 at
    the distance 0."""
    difference = x.unsqueeze(-2) - y.unsqueeze(-3)
    sizes, whole = abs(difference), distances.unsqueeze(-1)
    if order == 0:
        return full((*gradient.shape[:-1], x.shape[-1]), 0.0, x.dtype)
    if order == math.inf:
        slope = 1 - abs(sizes - whole).ceil().minimum(1.0)  # NaN in all elements of a row with NaN, as in torch
    else:
        slope = where((sizes == 0) | (whole == 0), 0.0, (sizes / whole) ** (order - 1))
    return (gradient.unsqueeze(-1) * slope * difference.sign()).sum(-2)


@aten("_pdist_forward")
def _pair_distances(x: Tensor, order: float) -> Tensor:
    """The distances of row i of x from row j, for i < j, in the order of (i, j)."""
    n = x.shape[0]
    pairs = n * (n - 1) // 2
    if not pairs or not x.size:
        return full((pairs,), 0.0, x.dtype)
    left = pairs - 1 - iota((pairs,), 0)  # the pairs that follow: i (i + 1) / 2 of them before row i from the end
    from_end = (((left * 8 + 1).cast(fp64).sqrt() - 1) * 0.5).floor().cast(i64)
    first = n - 2 - from_end
    second = n - 1 - (left - from_end * (from_end + 1) // 2)
    return _norm_of_difference(x[first] - x[second], order)


@aten("_pdist_backward")
def _pair_distance_gradient(gradient: Tensor, x: Tensor, order: float, distances: Tensor) -> Tensor:
    """The gradient of x, as that of the distances of all rows from all rows."""
    n = x.shape[0]
    if not gradient.size or not x.size:
        return full(x.shape, 0.0, x.dtype)
    row, column = iota((n, n), 0), iota((n, n), 1)
    least, greatest = row.minimum(column), row.maximum(column)
    pair = least * (2 * n - 3 - least) // 2 + greatest - 1
    of_pairs = [where(row == column, 0.0, values[pair]) for values in (gradient, distances)]
    return _distance_gradient(of_pairs[0], x, x, order, of_pairs[1])


@aten("_trilinear")
def _trilinear(
    x: Tensor,
    y: Tensor,
    z: Tensor,
    new_in_x: list[int],
    new_in_y: list[int],
    new_in_z: list[int],
    summed: list[int],
    unroll: int = 1,
) -> Tensor:
    """The sum over axes of x · y · z, each with new axes of size 1 at these places."""

    def spread(operand: Tensor, places: list[int]) -> Tensor:
        for place in sorted(places):
            operand = operand.unsqueeze(place)
        return operand

    products = spread(x, new_in_x) * spread(y, new_in_y) * spread(z, new_in_z)
    return products.sum(tuple(summed), dtype=products.dtype)
