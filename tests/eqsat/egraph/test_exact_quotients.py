"""A quotient that a step reads is rounded once, at every level of exactness."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat import optimize_and_compile, tensor
from eqsat.egraph.exact_quotients import exact_quotients
from eqsat.model import read_model
from eqsat.tensor import Tensor

WHOLE = np.arange(2000, dtype="f4")
DIVISORS = [3, 41, 47, 55, 82, 97]
"""For most of them, n · (1 / n) is not 1 in fp32."""

STEPS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "floor": (lambda x: x.floor(), np.floor),
    "ceil": (lambda x: (-x).ceil(), lambda x: np.ceil(-x)),
    "cast": (lambda x: x.cast("i32"), lambda x: x.astype("i4")),
    "comparison": (lambda x: x >= 1, lambda x: x >= 1),
    "movement": (lambda x: x.reshape(40, 50).T.floor(), lambda x: np.floor(x.reshape(40, 50).T)),
    "maximum": (lambda x: x.reshape(1000, 2).max(axis=1).floor(), lambda x: np.floor(x.reshape(1000, 2).max(1))),
}


@pytest.mark.parametrize("step", STEPS)
def test_whole_quotients_stay_whole(step: str) -> None:
    steps_of_tensor, steps_of_array = STEPS[step]
    x, y = tensor.input("x", WHOLE.shape), tensor.input("y", (1,))
    by_argument = optimize_and_compile(steps_of_tensor(x / y), target="cpu", threads=1)
    by_numbers = optimize_and_compile([steps_of_tensor(x / divisor) for divisor in DIVISORS], target="cpu", threads=1)
    for divisor, by_number in zip(DIVISORS, by_numbers(WHOLE), strict=True):
        expected = steps_of_array(WHOLE / np.float32(divisor))
        np.testing.assert_array_equal(by_number, expected)
        np.testing.assert_array_equal(by_argument(WHOLE, np.array([divisor], "f4")), expected)


@pytest.mark.parametrize(
    ("program", "count"),
    [
        (lambda x: (x / 3).floor(), 1),
        (lambda x: (x / 3 / 7 + 1).round(), 2),
        (lambda x: (x / 3).exp().floor(), 0),
        (lambda x: (x / 3).sum(), 0),
        (lambda x: x / 3, 0),
        (lambda x: tensor.where(x > 1, x / 3, x), 0),
        (lambda x: (x * 0.1 / 3).round(), 0),
        (lambda x: (x * 0.1).reshape(2, 4).sum(1).cast("fp16").cast("fp32").relu().__truediv__(3).round(), 0),
        (lambda x: (x * 0.75 / 3).round(), 1),
        (lambda x: (x / (x * 0.1)).round(), 1),
        (lambda x: (x * 0.1).maximum(x).__truediv__(3).round(), 1),
        (lambda x: (x * 0.1 / 3).floor(), 1),
        (lambda x: (x * 0.1 / 3).round() + (x * 0.1 / 3).cast("i32"), 1),
        (lambda x: (x * float("inf") / 3).round(), 1),
    ],
)
def test_quotients_that_reach_a_step(program: Callable[[Tensor], Tensor], count: int) -> None:
    graph = read_model(program(tensor.input("x", (8,)))).bind({}, False).graph
    assert len(exact_quotients(graph)) == count
