"""Winograd's convolutions: the matrices, the sums that slide, and models that are compiled with tiles."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.explanation.explore import explore
from eqsat.runtime.program import Program
from ir.index.expr import axis, constant, substitute
from ir.index.map import parse_map
from rules.tiles import SMALL, TERMS, convolution_by_tiles
from rules.winograd import FAMILY, SHAPES, matrices

WEIGHTS = "[16,9,9,32,3,3] -> [i0, i3, i4, i5]"
"""Weights of 16 filters over 32 channels and 3 × 3 taps."""


@pytest.mark.parametrize(("tile", "taps"), SHAPES)
def test_the_matrices_compute_a_sliding_product_exactly(tile: int, taps: int) -> None:
    rng = np.random.default_rng(0)
    x = [Fraction(int(number), 7) for number in rng.integers(-50, 50, tile + taps - 1)]
    w = [Fraction(int(number), 3) for number in rng.integers(-50, 50, taps)]
    inputs, weights, results = (np.array(matrix, object) for matrix in matrices(tile, taps))
    result = results @ ((weights @ np.array(w, object)) * (inputs @ np.array(x, object)))
    assert list(result) == [sum(w[r] * x[i + r] for r in range(taps)) for i in range(tile)]


def test_the_terms_of_small_tiles_are_those_of_the_matrices() -> None:
    inputs, _, results = matrices(*SMALL)
    for matrix, terms in ((inputs, TERMS["inputs"]), (results, TERMS["results"])):
        box = ((0, len(matrix) - 1),)
        for row, numbers in enumerate(matrix):
            *added, last = [substitute(term(axis(0, box), box), (constant(row),), box).const for term in terms]
            sums = [Fraction(column in added) for column in range(len(numbers))]
            sums[last] += -1 if min(numbers) < 0 else 1
            assert sums == [*numbers]


@pytest.mark.parametrize(
    ("read", "slides"),
    [
        ("[16,9,9,32,3,3] -> [i3, i1 + i4, i2 + i5]", True),
        ("[16,9,9,32,3,3] -> [i3, i1 + i4 - 1, i2 + i5 - 1] if 1<=i1 + i4<10 and 1<=i2 + i5<10 else 0", True),
        ("[16,9,9,32,3,3] -> [i3, i2 + i5, i1 + i4]", True),
        ("[16,9,9,32,3,3] -> [i3, -i1 - i4 + 10, i2 + i5]", True),  # a flipped image
        ("[16,9,9,32,3,3] -> [i3, 2*i1 + 2*i4, i2 + i5]", True),  # every second line
        ("[16,9,9,32,3,3] -> [i3, 2*i1 + i4, i2 + i5]", False),  # a stride along one axis
        ("[16,9,9,32,3,3] -> [i3, i1 + 2*i4, i2 + i5]", False),  # a dilation
        ("[16,9,9,32,3,3] -> [i3, i1 - i4 + 2, i2 + i5]", False),  # a reversed window
        ("[16,9,9,32,3,3] -> [i3, i1 + i4, i2 + i5] if 0<=i0 + i1<12 else 0", False),  # other padding for each filter
        ("[16,9,9,32,3,3] -> [i3, i1 + i4 - 1, i2 + i5] if 1<=i1 + i4<10 else inf", False),
    ],
)
def test_tiles_are_found_where_a_product_slides_along_two_axes(read: str, slides: bool) -> None:
    result = convolution_by_tiles(parse_map(read), parse_map(WEIGHTS), 3, tile=4, taps=3, steps=2)
    assert (result is not None) is slides
    assert convolution_by_tiles(parse_map(read), parse_map(WEIGHTS), 3, tile=4, taps=5, steps=2) is None


def test_tiles_need_channels_to_sum_and_fewer_products() -> None:
    depthwise = parse_map("[16,9,9,3,3] -> [i0, i1 + i3, i2 + i4]"), parse_map("[16,9,9,3,3] -> [i0, i3, i4]")
    assert convolution_by_tiles(*depthwise, 2, tile=4, taps=3, steps=2) is None
    narrow = parse_map("[16,3,3,32,3,3] -> [i3, i1 + i4, i2 + i5]"), parse_map("[16,3,3,32,3,3] -> [i0, i3, i4, i5]")
    result = convolution_by_tiles(*narrow, 3, tile=4, taps=3, steps=2)
    assert result is not None  # 36 products for 9 results of 9
    assert result["product"]["sizes"] == "[6,6,1,1,16]"
    assert convolution_by_tiles(*narrow, 3, tile=4, taps=3, steps=1) is None


def _convolution(
    channels: int, filters: int, size: tuple[int, ...], taps: tuple[int, ...]
) -> tuple[Program, dict[str, np.ndarray], np.ndarray]:
    """A convolution with tiles, a random image, and what it computes without any rule of ours."""
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((filters, channels, *taps)).astype("float32") / np.float32(channels)
    x = tensor.input("x", (2, channels, *size))
    convolve = nn.conv2d if len(size) == 2 else nn.conv1d
    y = convolve(x, tensor.constant(weights), tensor.constant(np.ones(filters, "float32")), padding=taps[0] // 2)
    inputs = {"x": rng.standard_normal((2, channels, *size)).astype("float32")}
    expected = optimize_and_compile(y.relu(), exactness="exact", threads=1)(**inputs)
    program = optimize_and_compile(y.relu(), exactness="range", threads=1)
    return program, inputs, expected


@pytest.mark.parametrize(
    ("channels", "filters", "size", "taps"),
    [
        pytest.param(48, 64, (30, 33), (3, 3), marks=pytest.mark.slow),  # tiles that reach beyond the image
        (32, 64, (13, 14), (5, 5)),
        pytest.param(96, 96, (257,), (3,), marks=pytest.mark.slow),
        pytest.param(96, 96, (28, 28), (3, 1), marks=pytest.mark.slow),  # slides along one axis only
    ],
)
def test_convolutions_by_tiles_compute_the_convolution(
    channels: int, filters: int, size: tuple[int, ...], taps: tuple[int, ...]
) -> None:
    program, inputs, expected = _convolution(channels, filters, size, taps)
    assert program.stats.saturation.families[FAMILY]
    np.testing.assert_allclose(program(**inputs), expected, rtol=0, atol=2e-5 * np.abs(expected).max())
    program.verify()


def _computing(program: Program) -> int:
    """The kernels that rules led to: not those that copy images to another order of axes."""
    return sum(bool(kernel.rules) for kernel in program.kernels)


@pytest.mark.slow
def test_tiles_are_chosen_where_they_pay_the_larger_ones_only_at_level_range() -> None:
    x = tensor.input("x", (2, 64, 28, 28))
    weights = tensor.constant(np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype("float32"))

    def compiled(**options: Any) -> tuple[int, set[str]]:
        program = optimize_and_compile(nn.conv2d(x, weights, padding=1), **options)
        program.verify()
        sizes = {rule.split("_")[2] for kernel in program.kernels for rule in kernel.rules if "tiles_of" in rule}
        return _computing(program), sizes

    assert compiled(exactness="range") == (5, {"4x4"})
    assert compiled() == (2, {"2x2"})
    assert compiled(exactness="reassociate") == (1, set())
    assert compiled(exactness="range", rules=[f"-{FAMILY}"]) == (1, set())


@pytest.mark.slow
def test_infinities_stay_in_the_results_that_read_them() -> None:
    x = tensor.input("x", (1, 64, 28, 28))
    weights = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype("float32")
    y = nn.conv2d(x, tensor.constant(weights), padding=1)
    image = np.random.default_rng(1).standard_normal((1, 64, 28, 28)).astype("float32")
    image[0, 3, 4, 5], image[0, 60, 27, 0], image[0, 9, 13, 22] = np.inf, -np.inf, np.nan
    program = optimize_and_compile(y)
    assert any("tiles_of_2x2" in rule for kernel in program.kernels for rule in kernel.rules)
    actual, expected = program(image), optimize_and_compile(y, exactness="exact")(image)
    np.testing.assert_array_equal(np.isfinite(actual), np.isfinite(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(actual[finite], expected[finite], rtol=0, atol=1e-4)


@pytest.mark.slow
def test_a_cover_is_no_dearer_with_tiles_where_a_norm_reads_the_convolution() -> None:
    """The convolution stays a buffer that the norm may read, though each reader could compute the tiles' sums."""
    weights = tensor.constant(np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype("float32"))
    y = nn.conv2d(tensor.input("x", (2, 64, 32, 32)), weights, padding=1).reshape(1, 128, 32, 32)
    centred = y - y.mean((0, 2, 3), keepdims=True)
    normed = centred * ((centred * centred).mean((0, 2, 3), keepdims=True) + 1e-5).rsqrt()
    with_tiles, without = (explore(normed, rules=rules, target="cpu") for rules in (None, [f"-{FAMILY}"]))
    assert with_tiles.estimated_ns <= 1.001 * without.estimated_ns
