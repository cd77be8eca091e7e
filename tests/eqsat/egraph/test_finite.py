"""Which values a program itself makes infinite, and what takes that over."""

from __future__ import annotations

import math

import pytest

from eqsat import nn, tensor
from eqsat.egraph.finite import find_finite
from eqsat.model import read_model
from eqsat.tensor import Tensor


def x(*shape: int) -> Tensor:
    return tensor.input("x", shape or (1, 3, 6, 6))


def masked() -> Tensor:
    return tensor.where(tensor.input("m", (4, 4), "bool"), x(4, 4), -math.inf)


CASES = {
    "an input": (x(), True),
    "a convolution": (nn.relu(nn.conv2d(x(), tensor.input("w", (2, 3, 3, 3)), padding=1)), True),
    "a number beside it": (x() + 1.0, True),
    "an infinity beside it": (x() - math.inf, False),
    "a NaN beside it": (x() * math.nan, False),
    "padded by zeros": (x().pad([(0, 0), (0, 0), (1, 1), (1, 1)]), True),
    "padded by an infinity": (x().pad([(0, 0), (0, 0), (1, 1), (1, 1)], -math.inf), False),
    "the greatest of a padded window": (nn.max_pool2d(x(), 3, 2, padding=1), True),
    "the sum of what is padded by an infinity": (x(4, 4).pad([(0, 0), (0, 1)], math.inf).sum(1), False),
    "a mask": (masked(), False),
    "what is filled where a mask is": (x(4, 4).masked_fill(x(4, 4) > 0, math.inf), False),
    "what is made of a mask": (masked().exp() * 2.0, False),
    "the greatest of what is masked": (masked().max(axis=1), True),
    "the greatest of nothing": ((x(4, 0) - math.inf).max(axis=1), False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_program_makes_infinite(name: str) -> None:
    value, answer = CASES[name]
    graph = read_model([value]).bind({}, False).graph
    assert (graph.outputs[0] in find_finite(graph)) == answer
