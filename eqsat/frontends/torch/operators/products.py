"""Matrix products. fp16 and bf16 are multiplied and added in fp32, and the result is rounded once."""

from __future__ import annotations

from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import Number
from eqsat.tensor import Tensor


@aten("mm", "bmm", "mv", "dot", "matmul")
def _product(x: Tensor, y: Tensor) -> Tensor:
    return _wide_product(x, y).cast(x.dtype)


@aten("addmm", "baddbmm", "addmv")
def _add_product(start: Tensor, x: Tensor, y: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta · start + alpha · x y. With beta = 0, NaN in `start` counts for nothing."""
    product = _wide_product(x, y)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled.cast(x.dtype)
    wide = start.cast(product.dtype)
    return ((wide if beta == 1 else wide * beta) + scaled).cast(x.dtype)


def _wide_product(x: Tensor, y: Tensor) -> Tensor:
    return x.cast(x.dtype.accumulator) @ y.cast(y.dtype.accumulator)
