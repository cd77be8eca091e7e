"""Matrix products. fp16 and bf16 are multiplied and added in fp32, and the result is rounded once."""

from __future__ import annotations

import math

from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import Number
from eqsat.tensor import Tensor, where
from ir.dtype import i32


@aten("mm", "bmm", "mv", "dot", "matmul")
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
    difference = abs(x.unsqueeze(-2) - y.unsqueeze(-3))
    return difference.norm(order, -1)


@aten("_cdist_backward")
def _distance_gradient(gradient: Tensor, x: Tensor, y: Tensor, order: float, distances: Tensor) -> Tensor:
    """The gradient of x: the slope of the distance along each axis is ±(|difference| / distance)^(order − 1), and 0 at
    the distance 0."""
    difference = x.unsqueeze(-2) - y.unsqueeze(-3)
    sizes, whole = abs(difference), distances.unsqueeze(-1)
    if order == 0:
        slope = sizes * 0
    elif order == math.inf:
        slope = (sizes == whole).cast(x.dtype)
    else:
        slope = where((sizes == 0) | (whole == 0), 0.0, (sizes / whole) ** (order - 1))
    return (gradient.unsqueeze(-1) * slope * difference.sign()).sum(-2)


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
