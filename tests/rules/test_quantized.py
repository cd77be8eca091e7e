"""Products of dequantized tensors multiply integers: the results stay, and kernels multiply bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.find_target import find_target
from eqsat.runtime.program import Program
from eqsat.tensor import Tensor
from ir.plan.cpu import CpuContractionPlan
from ir.target import VNNI
from rules.primitives import SHORT, byte, byte_fills, short_sum

RNG = np.random.default_rng(0)
WEIGHTS = RNG.integers(-128, 127, (70, 48), np.int8, endpoint=True)
SCALES = RNG.uniform(0.01, 0.02, 48).astype(np.float32)


FILTERS = RNG.integers(-128, 127, (32, 37, 3, 3), np.int8, endpoint=True)


def x(dtype: str = "u8", terms: int = 70) -> Tensor:
    return tensor.input("x", (37, terms), dtype)


def dequantized(q: Tensor, zero: Tensor | int, scale: Tensor | float) -> Tensor:
    """(q − zero point)·scale."""
    return (q.cast("i32") - zero).cast("fp32") * scale


def weights() -> Tensor:
    return dequantized(tensor.constant(WEIGHTS), 0, tensor.constant(SCALES))


INTEGERS: dict[str, Callable[[], Tensor]] = {
    "numbers": lambda: dequantized(x(), 128, 0.03) @ weights(),
    "factors before": lambda: (0.03 * (x().cast("i32") - 128).cast("fp32")) @ weights(),
    "arguments": lambda: (
        dequantized(x(), tensor.input("z", (37, 1), "u8").cast("i32"), tensor.input("s", (37, 1))) @ weights()
    ),
    "signed": lambda: dequantized(x("i8"), -5, 0.03) @ weights(),
    "no zero points": lambda: (x("i8").cast("fp32") * 0.03) @ weights(),
    "no scales": lambda: x().cast("fp32") @ tensor.constant(WEIGHTS).cast("fp32"),
    "difference of two": lambda: dequantized(x(), tensor.input("z", (37, 70), "i8").cast("i32"), 0.5) @ weights(),
    "a padded image": lambda: nn.conv2d(
        dequantized(x().reshape(1, 37, 7, 10), 128, 0.03),
        dequantized(tensor.constant(FILTERS), 0, 0.02),
        None,
        1,
        1,
    ),
}
FLOATS: dict[str, Callable[[], Tensor]] = {
    "a scale along the terms": lambda: dequantized(x(), 128, tensor.input("s", (70,))) @ weights(),
    "differences of differences": lambda: (
        dequantized(x(), tensor.input("z", (37, 70), "i8").cast("i32") - 3, 0.5) @ weights()
    ),
    "a zero point that no byte has": lambda: dequantized(x(), 300, 0.5) @ weights(),
    "wider integers": lambda: (x("i16").cast("fp32") * 0.03) @ weights(),
    "a float": lambda: x("fp32") @ weights(),
    "too many terms": lambda: x(terms=14_640).cast("fp32") @ tensor.input("w", (14_640, 2), "i8").cast("fp32"),
}


def limits(program: Program) -> dict[str, np.ndarray]:
    """Arguments whose numbers are the least and the greatest of their dtype in turns."""
    arrays = {}
    for name, array in program.random_inputs().items():
        ends = [np.iinfo(array.dtype).min, np.iinfo(array.dtype).max] if array.dtype.kind in "iu" else [0.5, 2]
        arrays[name] = np.array(ends, array.dtype)[RNG.integers(0, 2, array.shape)]
    return arrays


def of_bytes() -> set[str]:
    """The algorithms of products of bytes on this machine. Without VNNI, bytes multiply no faster than floats."""
    return {"pairs", "quads", "matrix"} | (set() if find_target("cpu").arch in VNNI else {"outer"})


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_multiply(name: str) -> None:
    program = optimize_and_compile(INTEGERS[name](), cache=False)
    assert program.stats.saturation.matches["product_of_short_integers"]
    plans = [program.plans(place)[0].plan for place in range(len(program.kernels))]
    algorithms = {plan.blocks.algorithm for plan in plans if isinstance(plan, CpuContractionPlan)}
    assert algorithms <= ({"outer"} if name == "difference of two" else of_bytes())
    assert algorithms
    program.verify()
    program.verify(limits(program))


@pytest.mark.parametrize("name", FLOATS)
def test_floats_multiply(name: str) -> None:
    program = optimize_and_compile(FLOATS[name](), cache=False)
    assert not program.stats.saturation.matches["product_of_short_integers"]
    program.verify(limits(program))


@pytest.mark.parametrize("element", ["u8", "i8", "u16"])
@pytest.mark.parametrize(("size", "padding"), [((7, 10), 1), ((8, 6), 0)])
def test_the_greatest_of_a_window_is_a_byte(element: str, size: tuple[int, int], padding: int) -> None:
    """A max pool of a dequantized image reads the image, also at the level exact."""
    image = tensor.input("x", (1, 5, *size), element)
    pooled = nn.max_pool2d(image.cast("fp32") * 0.03, 3, 2, padding)
    program = optimize_and_compile(pooled, cache=False, exactness="exact")
    assert program.stats.saturation.matches["extremum_of_dequantized"]
    assert [kernel.reads for kernel in program.kernels] == [("x",)]
    for arrays in (program.random_inputs(), limits(program), {"x": np.zeros_like(limits(program)["x"])}):
        program.verify(arrays)


def test_the_greatest_of_negative_multiples_is_no_greatest_byte() -> None:
    pooled = nn.max_pool2d(tensor.input("x", (1, 5, 7, 10), "u8").cast("fp32") * -0.03, 3, 2, 1)
    program = optimize_and_compile(pooled, cache=False)
    assert not program.stats.saturation.matches["extremum_of_dequantized"]
    program.verify(limits(program))


def test_exact_programs_keep_their_floats() -> None:
    program = optimize_and_compile(INTEGERS["no scales"](), cache=False, exactness="exact")
    assert "product_of_short_integers" not in program.stats.saturation.matches


def test_the_bounds_of_short_integers() -> None:
    """Differences of bytes reach `SHORT`, and the longest sum of their products is an i32."""
    ends = [np.iinfo(dtype).min for dtype in (np.uint8, np.int8)] + [
        np.iinfo(dtype).max for dtype in (np.uint8, np.int8)
    ]
    assert max(abs(a - b) for a in ends for b in ends) == SHORT
    assert short_sum.answer("[14639]")
    assert not short_sum.answer("[14640]")
    assert [number for number in ("-129", "-128", "255", "256", "0.5", "inf", "nan") if byte.answer(number)] == [
        "-128",
        "255",
    ]
    assert byte_fills.answer("[4] -> [i0 - 1] if 1<=i0<3 else 255")
    assert not byte_fills.answer("[4] -> [i0 - 1] if 1<=i0<3 else 256")


@pytest.mark.parametrize(("dtype", "zero"), [("u8", 128), ("u8", 0), ("i8", 0), ("i8", -7), ("u8", 255)])
def test_bytes_that_are_quantized_again_are_the_bytes(dtype: str, zero: int) -> None:
    """Also through a movement; every byte is tried."""
    q = tensor.input("q", (16, 16), dtype)
    low, high = (0.0, 255.0) if dtype == "u8" else (-128.0, 127.0)
    moved = dequantized(q, zero, 0.0371).permute(1, 0)
    again = ((moved / 0.0371).round() + float(zero)).maximum(low).minimum(high).cast(dtype)
    program = optimize_and_compile(again, cache=False)
    assert all(program.stats.saturation.matches[name] for name in ("rounded_again", "bytes_again"))
    every = np.arange(low, high + 1).astype(np.uint8 if dtype == "u8" else np.int8).reshape(16, 16)
    np.testing.assert_array_equal(program(every), every.T)
    assert "round" not in program.kernels[0].name


def test_other_scales_and_bounds_round_anew() -> None:
    q = tensor.input("q", (16, 16), "u8")
    for scale, high in ((0.04, 255.0), (0.0371, 200.0)):
        again = (dequantized(q, 0, 0.0371) / scale).round().maximum(0.0).minimum(high).cast("u8")
        program = optimize_and_compile(again, cache=False)
        assert not program.stats.saturation.matches["bytes_again"]
        program.verify()


def test_bytes_that_a_product_reads_are_stored() -> None:
    """Bytes are a quarter of the floats from which they are computed. Elementwise readers compute them."""
    x, w = tensor.input("x", (64, 64)), tensor.constant(WEIGHTS[:64])
    rounded = (x / 0.02).round().maximum(-128.0).minimum(127.0).cast("i8")
    product = optimize_and_compile(rounded.cast("i32") @ w.cast("i32"), cache=False)
    assert [kernel.reads for kernel in product.kernels if "x" in kernel.reads] == [("x",)]
    assert len(product.kernels) == 2
    assert "rounds floats to bytes, which are stored" in str(product.why_not(0, 1))
    assert len(optimize_and_compile(rounded.cast("fp32") * 0.02 + 1, cache=False).kernels) == 1


def quantized(p: Tensor, scale: float, zero: float) -> Tensor:
    """p / scale + zero point, as a byte without a sign."""
    return ((p / scale).round() + zero).maximum(0.0).minimum(255.0).cast("u8")


def test_both_products_of_a_sum_of_quantized_ones_multiply_bytes() -> None:
    """As in a block of ResNet whose shortcut is a convolution: a kernel that computes both multiplies floats."""
    other = tensor.input("y", (37, 70), "u8")
    parts = [dequantized(source, 128, 0.03) @ weights() for source in (x(), other)]
    first, second = (
        dequantized(quantized(part, 0.9, zero), int(zero), 0.9)
        for part, zero in zip(parts, (127.0, 126.0), strict=True)
    )
    program = optimize_and_compile(quantized((first + second).relu(), 0.3, 0.0), cache=False)
    plans = [program.plans(place)[0].plan for place in range(len(program.kernels))]
    algorithms = [plan.blocks.algorithm for plan in plans if isinstance(plan, CpuContractionPlan)]
    assert len(algorithms) == 2
    assert {*algorithms} <= of_bytes()
    program.verify()
    program.verify(limits(program))
