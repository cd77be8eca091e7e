"""Matrix products."""

from __future__ import annotations

from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import Number
from eqsat.tensor import Tensor


@aten("mm", "bmm", "mv", "dot", "matmul")
def _product(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


@aten("addmm", "baddbmm", "addmv")
def _add_product(start: Tensor, x: Tensor, y: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta · start + alpha · x y. With beta = 0, NaN in `start` counts for nothing."""
    product = x @ y if alpha == 1 else (x @ y) * alpha
    if beta == 0:
        return product
    return (start if beta == 1 else start * beta) + product
