"""Prices on a GPU: inputs and constants of a program come from memory, buffers between kernels may be in a cache."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.cost.targets import A100, H100
from ir.region.dump import dump_region, load_region
from ir.region.region import Region
from ir.target import Target


def regions(source: t.Tensor, target: str | Target) -> list[Region]:
    program = optimize_and_compile(source, target=target, emulate=target != "cpu")
    return [call.region for call in program._compiled.artifact.module.running]


def marks(regions: list[Region]) -> dict[str, bool]:
    return {buffer.name: buffer.cold for region in regions for buffer in (*region.inputs, *region.outputs)}


def chain() -> t.Tensor:
    """Three kernels: two scans, then a product with a constant."""
    x, weight = t.input("x", (64, 64)), t.constant(np.ones((64, 64), np.float32), name="weight")
    return x.cumsum(0).cumsum(1) @ weight


def test_inputs_and_constants_are_cold_and_buffers_between_kernels_are_not() -> None:
    result = marks(regions(chain(), A100))
    assert len(result) > 3
    assert {name for name, cold in result.items() if cold} == {"x", "weight"}


def test_a_cold_input_stays_one_in_the_dump_of_its_region() -> None:
    for region in regions(chain(), A100):
        assert load_region(dump_region(region)) == region


def test_prices_of_a_cpu_know_no_cold_inputs() -> None:
    assert not any(marks(regions(chain(), "cpu")).values())


def test_what_a_loop_reads_in_every_trip_is_not_cold() -> None:
    weight = t.input("weight", (32, 32))
    _, last = t.scan(
        lambda state, row: ((state @ weight).tanh() + row, state), t.input("h", (1, 32)), t.input("x", (4, 1, 32))
    )
    assert not marks(regions(last, A100)).get("weight")


@pytest.mark.slow
@pytest.mark.parametrize("target", [A100, H100], ids=lambda target: target.name)
def test_decoding_is_never_priced_below_the_time_of_its_bytes(target: Target) -> None:
    """One query for each of 32 heads reads 67 MB of keys and values, which no kernel before has written."""
    heads, keys = 32, 4096
    q, k, v = (t.input(name, (heads, rows, 128), "bf16") for name, rows in (("q", 1), ("k", keys), ("v", keys)))
    program = optimize_and_compile(nn.attention(q, k, v), target=target, emulate=True)
    assert program.cost >= 2 * 2 * heads * keys * 128 / target.bandwidth * 1e9
