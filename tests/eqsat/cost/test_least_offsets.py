"""Prices of regions that differ in constant offsets and in names."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.plan.cpu.candidates import candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse, checked_core
from eqsat import optimize_and_compile, tensor
from eqsat.cost.least_offsets import at_least_offsets
from eqsat.cost.own_terms import KernelEstimate
from eqsat.cost.pricing import PlanPricer
from ir.pricer import Price
from ir.region.region import Region, canonical, verify
from tests.support.programs.regions import buffer, contraction, ewise, read, region, same
from tests.support.programs.usual_cpu import usual_cpu

OUT = (16, 128)


def step(number: int, width: int = 64) -> Region:
    """One step of 32, whose values have names of their own."""
    domain = (*OUT, width)
    x, w = read("X", domain, "i0", str(number), "i2"), read("W", domain, "i1", "i2")
    body = [contraction(f"d{number}", domain, 1, x, w), ewise(f"t{number}", "tanh", OUT, same(f"d{number}", OUT))]
    return region(f"step{number}", [buffer("X", (16, 32, width)), buffer("W", (128, width))], body, OUT)


def moved(*coordinates: str, size: int = 500, pad: bool = False) -> list[str]:
    """Where the sum of elements of one vector at these coordinates reads, at the least offsets."""
    reads = [read("X", (100,), one, pad={0: size} if pad else None) for one in coordinates]
    given = region("sum", [buffer("X", (size,))], [ewise("s", "add", (100,), *reads)], (100,))
    result = at_least_offsets(given)
    verify(result)
    return [str(operand.map.exprs[0]) for operand in result.body[0].op.operands]


def test_steps_have_one_form() -> None:
    assert len({canonical(at_least_offsets(step(number))) for number in (0, 5, 31)}) == 1
    assert at_least_offsets(step(0)) == step(0)


def test_steps_that_are_aligned_otherwise_keep_the_rest_of_their_offset() -> None:
    forms = {canonical(at_least_offsets(step(number, 63))) for number in range(32)}
    assert len(forms) == 32  # a row of 63 fp32 starts elsewhere in a line in each of 32 steps
    assert len({canonical(at_least_offsets(step(number, 72))) for number in range(32)}) == 4


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("i0 + 64", "i0 + 64"), ["i0", "i0"]),
        (("i0 + 70", "i0 + 65"), ["i0 + 6", "i0 + 1"]),
        (("i0 + 70", "i0 + 3"), ["i0 + 70", "i0 + 3"]),
        (("-i0 + 299", "2*i0 + 256"), ["-i0 + 107", "2*i0 + 64"]),
    ],
)
def test_reads_of_a_buffer_move_together(given: tuple[str, ...], expected: list[str]) -> None:
    assert moved(*given) == expected


def test_padding_stays_where_it_is() -> None:
    assert moved("i0 + 420", "i0 + 64", pad=True) == ["i0 + 356", "i0"]
    assert moved("i0 - 3", "i0 + 64", pad=True) == ["i0 - 3", "i0 + 64"]


def test_a_price_has_the_names_of_its_region() -> None:
    """The plan is the region's own, and its time is that of the region alone."""
    target = usual_cpu()
    shared = PlanPricer(target, analyse, candidates)
    for number in (3, 31):
        one = step(number)
        price, own = shared.price(one), PlanPricer(target, analyse, candidates).rank(one)[0]
        assert isinstance(price, Price)
        assert price == own
        fit_plan(one, checked_core(one), price.plan)
    assert len(shared.known) == 1


def test_a_callers_term_sees_the_names_of_the_region() -> None:
    x = tensor.input("x", (64,))
    plain = optimize_and_compile(x.exp(), cache=False).cost

    def term(kernel: KernelEstimate) -> float:
        return 100.0 * (kernel.region.inputs[0].name == "x")

    assert optimize_and_compile(x.exp(), cost_model={"mine": term}, cache=False).cost == pytest.approx(plain + 100)


@pytest.mark.slow
def test_parts_of_a_projection_are_softmaxes_on_a_gpu() -> None:
    """Their plans hold names that are made of those of the regions."""
    x, w = tensor.input("x", (32, 48)), tensor.input("w", (48, 192))
    parts = [(x @ w)[:, 64 * k : 64 * k + 64].softmax(-1) for k in range(3)]
    rng = np.random.default_rng(0)
    given = {"x": rng.standard_normal((32, 48), np.float32), "w": rng.standard_normal((48, 192), np.float32)}
    found = optimize_and_compile(parts, target="sm_90", emulate=True, cache=False)(**given)
    for one, other in zip(found, optimize_and_compile(parts, target="cpu")(**given), strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-4, atol=1e-5)
