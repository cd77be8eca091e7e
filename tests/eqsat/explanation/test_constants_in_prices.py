"""Prices of a program know its constants wherever they are asked for: of the program, its plans and its exploration."""

from __future__ import annotations

import msgspec
import numpy as np

from eqsat import optimize_and_compile, tensor
from eqsat.explanation.explore import explore
from eqsat.find_target import find_target
from eqsat.tensor import Tensor
from ir.target import Target

SMALL = msgspec.structs.replace(find_target("cpu"), l1_bytes=16 << 10, l2_bytes=32 << 10, l3_bytes=1 << 20)
"""A machine whose caches do not hold the constants of a small program."""


def layers(count: int) -> Tensor:
    x = tensor.input("x", (16, 256))
    for _ in range(count):
        x = (x @ tensor.constant(np.ones((256, 256), np.float32))).relu()
    return x


def price(count: int, target: Target = SMALL) -> float:
    return optimize_and_compile(layers(count), target=target, cache=False).cost


def test_an_exploration_chooses_at_the_prices_of_the_program() -> None:
    program = optimize_and_compile(layers(8), target=SMALL, cache=False)
    exploration = explore(layers(8), target=SMALL)
    assert [kernel.estimated_ns for kernel in program.kernels] == [one.time_ns for one in exploration.prices]
    for kernel in program.kernels:
        assert program.plans(kernel.name)[0].estimated_ns == kernel.estimated_ns


def test_constants_that_caches_hold_cost_no_waiting() -> None:
    large = msgspec.structs.replace(SMALL, l2_bytes=4 << 20)
    assert price(8) > 8 * price(1) * 1.01
    assert price(8, large) <= 8 * price(1, large)
