"""The decompositions for `aot_autograd`: torch's core ones, without the operators that eqsat lowers itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from eqsat.frontends.torch import operators as operators  # registers the lowerings
from eqsat.frontends.torch.draws import random_decompositions
from eqsat.frontends.torch.encoder_layers import encoder_decompositions
from eqsat.frontends.torch.foreach import foreach_decompositions
from eqsat.frontends.torch.operator_table import COMPLEX_LOWERINGS, LOWERINGS, name_of

_DECOMPOSED = frozenset({"transpose.int"})
"""Operators that torch decomposes although eqsat lowers them: torch's partition of a training graph computes `permute`
again in the backward graph, but would store a transposed copy."""


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Decompositions by overload."""
    from torch._decomp import core_aten_decompositions

    own = {**random_decompositions(), **encoder_decompositions(), **foreach_decompositions()}
    rules = {**core_aten_decompositions(), **own}
    lowered = (LOWERINGS.keys() | COMPLEX_LOWERINGS.keys()) - _DECOMPOSED
    return {target: rule for target, rule in rules.items() if name_of(target) not in lowered}
