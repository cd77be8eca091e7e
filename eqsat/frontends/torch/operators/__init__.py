"""The lowerings of ATen's operators, by what they do. A file of this folder registers its operators when imported."""

from eqsat.frontends.torch.operators import (
    comparisons,
    creation,
    movements,
    pointwise,
    products,
    reductions,
)

__all__ = [
    "comparisons",
    "creation",
    "movements",
    "pointwise",
    "products",
    "reductions",
]
