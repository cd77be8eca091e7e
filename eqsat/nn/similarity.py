"""Vectors of length 1, and the cosine between vectors."""

from __future__ import annotations

from typing import SupportsIndex, Unpack

from eqsat.lazy.argument_checks import Axis, axis_in, number
from eqsat.lazy.keyword_names import Dim, takes_torchs_names
from eqsat.nn.operands import Operand, floats_of, tensor_of
from eqsat.tensor import Tensor


@takes_torchs_names
def normalize(x: Operand, p: float = 2.0, axis: Axis = 1, eps: float = 1e-12, **torch: Unpack[Dim]) -> Tensor:
    """x divided by its norm along `axis`, or by eps if the norm is less."""
    floats = floats_of(tensor_of("normalize", "x", x))
    return floats / floats.norm(p, axis, keepdims=True).maximum(number(eps, "eps"))


@takes_torchs_names
def cosine_similarity(
    x1: Operand, x2: Operand, axis: SupportsIndex = 1, eps: float = 1e-8, **torch: Unpack[Dim]
) -> Tensor:
    """x1 · x2 / (|x1| |x2|) along `axis`; norms are eps at least. x1 and x2 broadcast."""
    first, second = (floats_of(tensor_of("cosine_similarity", name, x)) for name, x in (("x1", x1), ("x2", x2)))
    products = first * second
    place = axis_in(axis, products.shape)
    lengths = [
        x.expand(products.shape).norm(2, place, keepdims=True).maximum(number(eps, "eps")) for x in (first, second)
    ]
    return ((first / lengths[0]) * (second / lengths[1])).sum(place)
