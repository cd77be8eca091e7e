"""A contraction that no template covers is still compiled: extraction takes another cover."""

from __future__ import annotations

from typing import Any

import pytest

from codegen.plan.cpu.candidates import candidates
from codegen.poly.analyse import analyse
from eqsat import optimize_and_compile
from eqsat import tensor as t
from eqsat.find_target import find_target
from eqsat.nn import softmax
from eqsat.tensor import Tensor
from tests.support.programs import regions

M, N, K = 20, 20, 33


def operands(count: int) -> list[Tensor]:
    return [t.input(name, (M, K) if n % 2 == 0 else (K, N)) for n, name in enumerate("abcd"[:count])]


def two_sums() -> Tensor:
    """A·B + C·D: two accumulators over one domain, legal as one kernel."""
    a, b, c, d = operands(4)
    return a @ b + c @ d


def both_ways() -> Tensor:
    """A·B + (A·B)ᵀ: one contraction read at two maps."""
    product = operands(1)[0] @ operands(2)[1]
    return product + product.permute(1, 0)


def softmax_of_product() -> Tensor:
    a, b = operands(2)
    return softmax(a @ b)


def product_of_sums() -> Tensor:
    """An operand that is an accumulator itself."""
    a, b = operands(2)
    return (a - a.sum(1, keepdims=True)) @ b


PROGRAMS = [two_sums, both_ways, softmax_of_product, product_of_sums]


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_a_program_that_holds_one_is_right(make: Any) -> None:
    program = optimize_and_compile(make())
    assert program.verify()


def test_the_planner_declines_what_the_template_does_not_cover() -> None:
    region = regions.matmul((), 3, 4, 5, dtype="bool")
    assert analyse(region).core.legal
    assert candidates(region, analyse(region).core, find_target("cpu")) == []
