"""Narrowings that results of sums lose on the way to a wider dtype, and casts that stay."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat import Program, nn, optimize_and_compile
from eqsat import tensor as t
from ir.region.region import Op


def ops(program: Program) -> list[Op]:
    return [let.op for call in program._compiled.artifact.module.running for let in call.region.body]


def scores_of(exactness: str) -> list[Op]:
    """The ops of bf16 attention before the exponentials."""
    q, k, v = (t.input(name, (2, 32, 16), "bf16") for name in "qkv")
    program = optimize_and_compile(
        nn.attention(q, k, v, causal=True), target="sm_80", emulate=True, exactness=exactness
    )
    assert program.verify()
    result = ops(program)
    return [op for op in result if op.kind in ("ewise", "cast") and len(op.domain) == 3 and op.domain[-1] == 32]


@pytest.mark.slow
def test_scores_are_not_rounded_between_their_product_and_the_exponential() -> None:
    assert {op.dtype for op in scores_of("rounding")} == {"fp32"}
    assert "bf16" in {op.dtype for op in scores_of("reassociate")}


def test_an_input_that_is_narrowed_and_widened_stays_narrowed() -> None:
    """As programs do that split a number in two parts of 16 bits."""
    x = t.input("x", (64,))
    low = x - x.cast("bf16").cast("fp32")
    values = np.linspace(1, 2, 64, dtype=np.float32)
    result = optimize_and_compile(low)(x=values)
    assert 0 < np.abs(result).max() < 2**-7
