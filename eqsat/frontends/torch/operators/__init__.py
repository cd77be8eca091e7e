"""The lowerings of ATen's operators, by what they do. A file of this folder registers its operators when imported."""

from eqsat.frontends.torch.operators import (
    comparisons,
    creation,
    gathers,
    movements,
    norms,
    orders,
    pointwise,
    products,
    reductions,
    scatters,
    segments,
    special,
    windows,
)

__all__ = [
    "comparisons",
    "creation",
    "gathers",
    "movements",
    "norms",
    "orders",
    "pointwise",
    "products",
    "reductions",
    "scatters",
    "segments",
    "special",
    "windows",
]
