"""Convolutions, transposed convolutions, unfold and fold against their definitions, written as loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from eqsat import Program, nn, optimize_and_compile, tensor
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError
from tests.eqsat.lazy.test_tensor import randn, run

Pads = Sequence[tuple[int, int]]
TRANSPOSED = {1: nn.conv_transpose1d, 2: nn.conv_transpose2d, 3: nn.conv_transpose3d}


def scatter(
    x: Any, w: Any, stride: Sequence[int], pads: Pads, extra: Sequence[int], groups: int, dilation: Any
) -> np.ndarray:
    """The transposed convolution: every product is added at its place."""
    sizes, kernel = x.shape[2:], w.shape[2:]
    whole = [
        (i - 1) * s + (k - 1) * d + 1 + e for i, s, k, d, e in zip(sizes, stride, kernel, dilation, extra, strict=True)
    ]
    out: Any = np.zeros((x.shape[0], w.shape[1] * groups, *whole), x.dtype)
    c_in, c_out = x.shape[1] // groups, w.shape[1]
    for tap in itertools.product(*map(range, kernel)):
        for window in itertools.product(*map(range, sizes)):
            place = tuple(i * s + k * d for i, s, k, d in zip(window, stride, tap, dilation, strict=True))
            for group in range(groups):
                read = x[(slice(None), slice(group * c_in, (group + 1) * c_in), *window)]
                filters = w[(slice(group * c_in, (group + 1) * c_in), slice(None), *tap)]
                out[(slice(None), slice(group * c_out, (group + 1) * c_out), *place)] += read @ filters
    return np.asarray(out[(..., *(slice(a, size - b) for (a, b), size in zip(pads, whole, strict=True)))])


def correlate(x: Any, w: Any, stride: int, pad: int, dilation: int, groups: int) -> np.ndarray:
    axes = x.ndim - 2
    padded: Any = np.pad(x, [(0, 0)] * 2 + [(pad, pad)] * axes)
    places = [(p - (k - 1) * dilation - 1) // stride + 1 for p, k in zip(padded.shape[2:], w.shape[2:], strict=True)]
    out: Any = np.zeros((x.shape[0], w.shape[0], *places), x.dtype)
    c_in, c_out = w.shape[1], w.shape[0] // groups
    for place in itertools.product(*map(range, places)):
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = tuple(p * stride + t * dilation for p, t in zip(place, tap, strict=True))
            for group in range(groups):
                read = padded[(slice(None), slice(group * c_in, (group + 1) * c_in), *at)]
                filters = w[(slice(group * c_out, (group + 1) * c_out), slice(None), *tap)]
                out[(slice(None), slice(group * c_out, (group + 1) * c_out), *place)] += read @ filters.T
    return np.asarray(out)


@pytest.mark.parametrize(
    ("function", "sizes", "arguments"),
    [
        (nn.conv1d, (9,), (2, 1, 1, 1)),
        (nn.conv1d, (9,), (1, 0, 3, 2)),
        (nn.conv2d, (5, 6), (2, 1, 1, 2)),
        (nn.conv3d, (4, 5, 3), (1, 1, 1, 1)),
        (nn.conv3d, (5, 3, 4), (2, 1, 2, 2)),
        (nn.conv, (7,), (1, 2, 1, 1)),
    ],
)
def test_convolutions_are_their_definition(
    function: Callable[..., Tensor], sizes: tuple[int, ...], arguments: tuple[int, int, int, int]
) -> None:
    groups = arguments[-1]
    x, w, b = randn(2, 4, *sizes), randn(6, 4 // groups, *(3, 2, 2)[: len(sizes)]), randn(6)
    got = run(lambda x, w, b: function(x, w, b, *arguments), x, w, b)
    expected = correlate(x, w, *arguments) + b.reshape(-1, *(1,) * len(sizes))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_paddings_by_name() -> None:
    x, w = randn(1, 1, 7), randn(1, 1, 4)

    def padded(*widths: int, stride: int = 1) -> np.ndarray:
        return correlate(np.pad(x, [(0, 0), (0, 0), widths]), w, stride, 0, 1, 1)

    for padding, stride, widths in (
        ("valid", 1, (0, 0)),
        ("same", 1, (1, 2)),
        ("same_upper", 2, (1, 2)),
        ("same_lower", 2, (2, 1)),
    ):
        got = run(lambda x, w, s=stride, p=padding: nn.conv1d(x, w, None, s, p), x, w)
        np.testing.assert_allclose(got, padded(*widths, stride=stride), rtol=1e-4, atol=1e-5)


CASES = [
    case
    for case in itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2, 3, 5), ((0, 0), (1, 0), (4, 1)), (0, 1, 2), (1, 4))
    if (case[5] - 1) * case[0] + (case[2] - 1) * case[1] + 1 - sum(case[3]) + case[4] > 0
]
"""stride, dilation, kernel, padding, output padding and size of one axis"""


def check_one_axis(case: tuple[int, int, int, tuple[int, int], int, int]) -> None:
    stride, dilation, kernel, padding, extra, size = case
    x, w, b = randn(2, 2, size), randn(2, 3, kernel), randn(3)
    got = run(lambda x, w, b: nn.conv_transpose1d(x, w, b, stride, [padding], extra, 1, dilation), x, w, b)
    expected = scatter(x, w, (stride,), [padding], (extra,), 1, (dilation,)) + b[:, None]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=str(case))


@pytest.mark.slow
def test_transposed_convolutions_of_one_axis() -> None:
    for case in CASES[::13]:
        check_one_axis(case)


@pytest.mark.slow
def test_all_transposed_convolutions_of_one_axis() -> None:
    for case in CASES:
        check_one_axis(case)


@pytest.mark.parametrize(
    ("sizes", "kernel", "stride", "pads", "extra", "groups", "dilation"),
    [
        ((3, 2), (3, 2), (2, 3), [(1, 1), (0, 0)], (1, 2), 2, (1, 2)),
        ((3, 4), (4, 4), (2, 2), [(1, 1), (1, 1)], (0, 0), 4, (1, 1)),
        ((1, 1), (3, 1), (2, 3), [(0, 1), (0, 0)], (0, 0), 1, (3, 1)),
        ((2, 2, 3), (3, 2, 3), (2, 2, 2), [(1, 1)] * 3, (1, 1, 1), 2, (1, 1, 1)),
        ((2, 1, 3), (2, 2, 1), (3, 1, 2), [(0, 0), (1, 0), (0, 0)], (0, 1, 1), 1, (2, 1, 1)),
    ],
)
def test_transposed_convolutions_of_more_axes(
    sizes: Any, kernel: Any, stride: Any, pads: Any, extra: Any, groups: int, dilation: Any
) -> None:
    x, w = randn(2, 4, *sizes), randn(4, 3, *kernel)
    expected = scatter(x, w, stride, pads, extra, groups, dilation)
    for function in (TRANSPOSED[len(sizes)], nn.conv_transpose):
        got = run(lambda x, w, f=function: f(x, w, None, stride, pads, extra, groups, dilation), x, w)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_a_transposed_convolution_of_nothing_is_its_bias() -> None:
    x, w, b = randn(1, 2, 0), randn(2, 3, 4), randn(3)
    got = run(lambda x, w, b: nn.conv_transpose1d(x, w, b, 2, 0, 1), x, w, b)
    np.testing.assert_array_equal(got, np.broadcast_to(b[:, None], (1, 3, 3)))
    assert run(lambda x, w: nn.conv_transpose1d(x, w), randn(0, 2, 3), w).shape == (0, 3, 6)


def test_infinities_stay_at_their_taps() -> None:
    x, w = np.array([[[1, np.inf, 2]]], np.float32), np.ones((1, 1, 3), np.float32)
    got = run(lambda x, w: nn.conv_transpose1d(x, w, None, 2), x, w)
    np.testing.assert_array_equal(got[0, 0], [1, 1, np.inf, np.inf, np.inf, 2, 2])
    got = run(lambda x, w: nn.conv_transpose1d(x, w[..., :1], None, 3, 0, 1), x, w)
    np.testing.assert_array_equal(got[0, 0], [1, 0, 0, np.inf, 0, 0, 2, 0])


def compiled(build: Callable[[Tensor], Tensor], x: np.ndarray) -> tuple[Program, np.ndarray]:
    program = optimize_and_compile(build(tensor.input("x", x.shape)))
    return program, program(x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "arguments"), [(4, (2, 1, 0, 1, 1)), (3, (2, 1, 1, 1, 1)), (2, (2, 0, 0, 2, 1)), (3, (1, 1, 0, 1, 2))]
)
def test_a_transposed_convolution_is_one_kernel(kernel: int, arguments: tuple[int, int, int, int, int]) -> None:
    """The kernel multiplies each element of the image by each tap once, and by taps that fill up the phases. Copies of
    images to another order of axes compute no uop."""
    stride, padding, extra, groups, dilation = arguments
    x, w, b = randn(2, 32, 8, 8), randn(32, 16, kernel, kernel), randn(16 * groups)
    program, got = compiled(lambda x: nn.conv_transpose2d(x, w, b, *arguments).relu(), x)
    pair = ((padding, padding),) * 2
    expected = scatter(x, w, (stride,) * 2, pair, (extra,) * 2, groups, (dilation,) * 2) + b[:, None, None]
    np.testing.assert_allclose(got, np.maximum(expected, 0), rtol=1e-3, atol=1e-4)
    (computing,) = (report for report in program.kernels if report.uops)
    assert computing.name == "dot_add_relu"
    taps = (-(-kernel // stride)) ** 2 * 32 // groups
    assert computing.flops < 2 * got.size * (2 * taps + 16)


@pytest.mark.parametrize("arguments", [(3, 0, 0, 1, 2), (2, 1, 1, 1, 3), (4, 3, 2, 1, 6)])
def test_strides_and_dilations_without_a_common_step(arguments: tuple[int, int, int, int, int]) -> None:
    stride, padding, extra, groups, dilation = arguments
    x, w = randn(1, 3, 5), randn(3, 2, 4)
    _, got = compiled(lambda x: nn.conv_transpose1d(x, w, None, *arguments), x)
    expected = scatter(x, w, (stride,), [(padding, padding)], (extra,), groups, (dilation,))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


FOLDS: list[tuple[Any, Any, Any, Any, Any]] = [
    ((5, 6), 3, 1, 0, 1),
    ((5, 6), (2, 3), 1, 1, 2),
    ((7, 7), 2, 2, 1, 3),
    ((7, 6), 3, 2, 0, 2),
    ((9,), 4, 3, 2, 2),
    ((4, 3, 5), 2, 1, (1, 0, 1), 2),
    ((5, 5), 1, 1, 0, 3),
]


@pytest.mark.parametrize("case", FOLDS, ids=str)
def test_fold_is_the_adjoint_of_unfold(case: tuple[Any, Any, Any, Any, Any]) -> None:
    """⟨unfold x, c⟩ = ⟨x, fold c⟩ for all x and c, and unfold lists the windows."""
    size, *window = case
    x = randn(2, 3, *size)
    columns = run(lambda x: nn.unfold(x, *window), x)
    c = randn(*columns.shape)
    folded = run(lambda c: nn.fold(c, size, *window), c)
    assert folded.shape == x.shape
    np.testing.assert_allclose((columns * c).sum(), (x * folded).sum(), rtol=1e-3)


def test_unfold_lists_channels_then_taps() -> None:
    x = np.arange(2 * 3 * 4, dtype=np.float32).reshape(1, 2, 3, 4)
    got = run(lambda x: nn.unfold(x, 2, 1, 0, 1), x)
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    np.testing.assert_array_equal(got, windows.transpose(0, 1, 4, 5, 2, 3).reshape(1, 8, 6))
    assert run(lambda x: nn.fold(nn.unfold(x, 2, 1, 0, 2), (4,), 2, 1, 0, 2), x[..., 0, :]).shape == (1, 2, 4)


image, filters = tensor.input("i", (1, 4, 5)), tensor.input("f", (4, 4, 3))


@pytest.mark.parametrize(
    ("call", "way_out"),
    [
        (lambda: nn.conv2d(image, filters), "[N, C, H, W]"),
        (lambda: nn.conv1d(image, filters, None, 2, "same"), "same_upper"),
        (lambda: nn.conv1d(image, filters, None, 1, "full"), "same_lower"),  # type: ignore[arg-type]
        (lambda: nn.conv1d(image, filters, None, 1, (1, 2)), "(before, after)"),
        (lambda: nn.conv1d(image, filters, None, 0), "from 1 on"),
        (lambda: nn.conv1d(image, filters, None, (1, 2)), "for 1 spatial axis"),
        (lambda: nn.conv_transpose1d(image, filters, None, 1, 6), "smaller padding"),
        (lambda: nn.conv_transpose1d(image, filters, None, 1, 0, -1), "from 0 on"),
        (lambda: nn.conv_transpose1d(image, filters, groups=3), "weight [groups·Cin"),
        (lambda: nn.conv_transpose1d(image, filters, groups=0), "0 groups"),
        (lambda: nn.conv_transpose1d(image, filters, None, 1, "same"), "numbers"),
        (lambda: nn.fold(image, (3, 3), 2), "x [N, C·4, 4]"),
        (lambda: nn.fold(image[0], (3, 3), 2), "windows"),
    ],
)
def test_impossible_convolutions_are_refused(call: Callable[[], Any], way_out: str) -> None:
    with pytest.raises(EqsatError) as caught:
        call()
    assert way_out in str(caught.value)
