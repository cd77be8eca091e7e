"""The lowerings of ATen's operators, by what they do. A file of this folder registers its operators when imported."""

from eqsat.frontends.torch.operators import (
    attention,
    comparisons,
    convolutions,
    creation,
    gathers,
    movements,
    norms,
    orders,
    pointwise,
    pools,
    products,
    random_numbers,
    reductions,
    resizing,
    scatters,
)

__all__ = [
    "attention",
    "comparisons",
    "convolutions",
    "creation",
    "gathers",
    "movements",
    "norms",
    "orders",
    "pointwise",
    "pools",
    "products",
    "random_numbers",
    "reductions",
    "resizing",
    "scatters",
]
