"""Softmax and attention where rules find that scores, masks or values are one number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.tensor import Tensor
from tests.support.sampling import first_few

Program = Callable[[float], Tensor]


def x(*shape: int) -> Tensor:
    return tensor.input("x", shape)


def w(*shape: int) -> Tensor:
    return tensor.input("w", shape)


def padding(number: float) -> Tensor:
    """Of x nothing but what it is padded with: a number, as rules find."""
    return x(6, 8).pad([(0, 0), (8, 0)], number)[:, :8]


PROGRAMS: dict[str, Program] = {
    "softmax": lambda number: nn.softmax(padding(number)),
    "log-softmax": lambda number: nn.log_softmax(padding(number)) + w(6, 8),
    "weights of a product": lambda number: nn.softmax(padding(number)) @ w(8, 5),
    "weights of a mean": lambda number: (nn.softmax(padding(number)) * w(6, 8)).sum(1),
    "queries and keys": lambda number: nn.attention(padding(number), tensor.full((7, 8), number), w(7, 3)),
    "mask": lambda number: nn.attention(w(6, 3), tensor.input("k", (8, 3)), tensor.input("v", (8, 4)), padding(number)),
    "values": lambda number: nn.attention(w(5, 8), tensor.input("k", (6, 8)), padding(number)),
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "sm_80", pytest.param("sm_90", marks=pytest.mark.exhaustive)])
@first_few(4, "kind", PROGRAMS)
def test_programs_of_constant_scores(kind: str, target: str) -> None:
    for number in (0.5, float("-inf")):
        with np.errstate(invalid="ignore"):
            optimize_and_compile(PROGRAMS[kind](number), target=target, emulate=target != "cpu").verify()
