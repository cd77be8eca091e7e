"""Draws: random numbers as functions of a seed (`eqsat.frontends.torch.draws`)."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat import tensor
from eqsat.frontends.torch.operator_table import aten
from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail
from ir.dtype import DType
from ir.frontend import STAGE

DRAW = "eqsat.draw.default"
RAND, RANDN, RANDINT = "rand", "randn", "randint"
"""The kinds of draws, which are torch's names of the operators."""

_SEED_BITS = 0xFFFFFFFF
"""The bits of a seed that inductor's code for CPUs uses."""


@aten(DRAW)
def draw(seeds: Tensor, place: int, size: Sequence[int], kind: str, low: int, high: int, dtype: DType) -> Tensor:
    """Random numbers of a kind, from the seed at this place."""
    seed = seeds[place].cast("u64") & _SEED_BITS
    if kind == RANDINT:
        return tensor.randint(low, high, size, seed).cast(dtype)
    if kind not in (RAND, RANDN):
        fail(Kind.UNSUPPORTED_OP, STAGE, f"there are no draws of kind {kind!r}")
    return (tensor.rand if kind == RAND else tensor.randn)(size, seed).cast(dtype)
