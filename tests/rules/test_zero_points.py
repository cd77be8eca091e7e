"""Zero points leave products of integers: the bits stay, and matrix registers multiply the stored numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.cost.targets import cpu_target
from eqsat.egraph.saturate import saturate
from eqsat.extraction.extract import extract
from eqsat.model import read_model
from eqsat.options import Options
from eqsat.planning.target_pricer import pricer_for
from eqsat.tensor import Tensor
from ir.plan.cpu import CpuContractionPlan
from rules import select
from tests.support.cpu.nest_kernels import available

RNG = np.random.default_rng(0)
WEIGHTS = RNG.integers(-128, 127, (70, 48), np.int8, endpoint=True)
ZEROS: dict[str, tuple[Callable[[], Tensor | int], Callable[[], Tensor | int]]] = {
    "two constants": (lambda: 128, lambda: 3),
    "one constant": (lambda: 128, lambda: 0),
    "arguments": (lambda: tensor.input("za", (), "u8").cast("i32"), lambda: tensor.input("zb", (), "i8").cast("i32")),
    "of rows and columns": (
        lambda: tensor.input("za", (37, 1), "u8").cast("i32"),
        lambda: tensor.input("zb", (48,), "i8").cast("i32"),
    ),
}


def quantized(name: str, constant: bool) -> Tensor:
    """(a − za)·(w − zw) of 8-bit numbers, with sums of 32 bits."""
    za, zb = (zero() for zero in ZEROS[name])
    weights = tensor.constant(WEIGHTS) if constant else tensor.input("w", WEIGHTS.shape, "i8")
    return (tensor.input("a", (37, 70), "u8").cast("i32") - za) @ (weights.cast("i32") - zb)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", ZEROS)
def test_products_have_the_bits_of_their_definition(name: str, constant: bool) -> None:
    program = optimize_and_compile(quantized(name, constant), cache=False)
    arrays = {"a": RNG.integers(0, 255, (37, 70), np.uint8, endpoint=True), "w": WEIGHTS}
    shape = {"of rows and columns": ((37, 1), (48,))}.get(name, ((), ()))
    arrays |= {"za": RNG.integers(0, 255, shape[0], np.uint8), "zb": RNG.integers(-128, 127, shape[1], np.int8)}
    za, zb = (128, {"two constants": 3}.get(name, 0)) if "constant" in name else (arrays["za"], arrays["zb"])
    expected = (arrays["a"].astype(np.int32) - za) @ (WEIGHTS.astype(np.int32) - zb)
    given = {name: array for name, array in arrays.items() if name in program.arguments}
    np.testing.assert_array_equal(program(given), expected)
    assert any(program.stats.saturation.matches[f"zero_{kind}_of_left_operand"] for kind in ("point", "number"))


@pytest.mark.slow
@pytest.mark.skipif(available("amx") is None, reason="this machine has no amx")
@pytest.mark.parametrize("name", ZEROS)
def test_matrix_registers_multiply_the_stored_numbers(name: str) -> None:
    program = optimize_and_compile(quantized(name, True), cache=False)
    plans = [program.plans(place)[0].plan for place in range(len(program.kernels))]
    products = [plan for plan in plans if isinstance(plan, CpuContractionPlan)]
    assert [plan.blocks.algorithm for plan in products] == ["matrix"]
    program.verify()


def test_a_zero_point_that_changes_along_the_terms_stays() -> None:
    zeros = tensor.input("z", (70,), "u8").cast("i32")
    product = (tensor.input("a", (37, 70), "u8").cast("i32") - zeros) @ tensor.constant(WEIGHTS).cast("i32")
    program = optimize_and_compile(product, cache=False)
    assert not program.stats.saturation.matches["zero_point_of_left_operand"]
    program.verify()


def test_floats_keep_their_subtraction() -> None:
    product = (tensor.input("a", (37, 70)) - tensor.input("z", ())) @ tensor.constant(WEIGHTS.astype(np.float32))
    program = optimize_and_compile(product, cache=False)
    assert "zero_point_of_left_operand" not in {
        name for name, matches in program.stats.saturation.matches.items() if matches
    }


def test_the_planner_of_a_machine_with_matrix_registers_takes_the_stored_numbers() -> None:
    """Extraction keeps the product of narrow numbers beside the product of centred numbers, which computes less."""
    target = cpu_target(arch="amx", cores=2, lanes=16, clock_hz=3e9)
    bound = read_model(quantized("two constants", constant=True)).bind({}, False)
    view, _ = saturate(bound.graph, select())
    pricer = pricer_for(target, Options(), bound.graph)
    cover = extract(view, bound.graph.outputs, pricer, constants=sorted(bound.constants))
    plans = [kernel.price.plan for kernel in cover.kernels if kernel.price]
    products = [plan for plan in plans if isinstance(plan, CpuContractionPlan)]
    assert [plan.blocks.algorithm for plan in products] == ["matrix"]


def test_products_of_integers_are_contractions_at_every_level() -> None:
    product = tensor.input("a", (64, 96), "i32") @ tensor.input("b", (96, 64), "i32")
    program = optimize_and_compile(product, cache=False, exactness="exact")
    assert isinstance(program.plans(0)[0].plan, CpuContractionPlan)
    program.verify()


def test_padding_around_a_zero_point_stays_outside_of_the_image() -> None:
    """A convolution reads the stored image with the zero point around it, and one kernel rounds its sums to bytes."""
    image = tensor.input("x", (1, 16, 12, 12), "u8").cast("i32") - 128
    weights = tensor.constant(RNG.integers(-128, 127, (32, 16, 3, 3), np.int8)).cast("i32")
    sums = nn.conv2d(image, weights, None, 1, 1).cast("fp32") * 0.002
    rounded = (sums.round() + 128.0).maximum(0.0).minimum(255.0).cast("u8")
    program = optimize_and_compile(rounded, cache=False)
    (kernel,) = [kernel for kernel in program.kernels if "x" in kernel.reads]
    assert kernel.writes == program.kernels[-1].writes
    program.verify()
