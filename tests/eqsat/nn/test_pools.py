"""Pools against their definitions, written as loops over windows, and against onnx's reference evaluator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from ir.diagnostics import EqsatError
from tests.eqsat.lazy.test_tensor import randn, run

Bounds = list[tuple[int, int, int]]


def places(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil_mode: bool) -> Bounds:
    """(start, stop, step) of the windows along an axis; the first may lie before it."""
    reach = (kernel - 1) * dilation + 1
    room = size + 2 * pad - reach
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + pad:
        count -= 1
    return [(i * stride - pad, i * stride - pad + reach, dilation) for i in range(count)]


def pool(x: Any, axes: list[Bounds], of_window: Callable[[Any, int], Any]) -> np.ndarray:
    """`of_window` of the elements of each window inside x, and of the number of padded elements in it."""
    counts = [len(bounds) for bounds in axes]
    sizes = x.shape[2:]
    out = np.zeros((*x.shape[:2], *counts))
    for at in itertools.product(*map(range, counts)):
        ranges = [range(*bounds[place]) for bounds, place in zip(axes, at, strict=True)]
        inside = [[i for i in r if 0 <= i < size] for r, size in zip(ranges, sizes, strict=True)]
        for n, c in itertools.product(*map(range, x.shape[:2])):
            elements = x[n, c][np.ix_(*inside)]
            out[(n, c, *at)] = of_window(elements, math.prod(map(len, ranges)))
    return out


def windows(x: Any, kernel: int, stride: int, pad: int, dilation: int, ceil_mode: bool) -> list[Bounds]:
    return [places(size, kernel, stride, pad, dilation, ceil_mode) for size in x.shape[2:]]


IMAGES = {1: (10,), 2: (6, 7), 3: (4, 5, 4)}
ARGUMENTS = [(2, 2, 0, 1, False), (3, 2, 1, 1, True), (2, 3, 1, 1, True), (2, 1, 1, 2, False), (2, 2, 1, 2, True)]


@pytest.mark.parametrize("axes", IMAGES)
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_pools_are_their_definition(axes: int, arguments: tuple[int, int, int, int, bool]) -> None:
    kernel, stride, pad, dilation, ceil_mode = arguments
    x = randn(2, 2, *IMAGES[axes])
    x.flat[3] = np.nan
    bounds = windows(x, *arguments)
    maximum: Any = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}[axes]
    np.testing.assert_array_equal(run(lambda x: maximum(x, *arguments), x), pool(x, bounds, lambda w, n: w.max()))
    average: Any = {1: nn.avg_pool1d, 2: nn.avg_pool2d, 3: nn.avg_pool3d}[axes]
    got = run(lambda x: average(x, kernel, stride, pad, ceil_mode, False, None, dilation), x)
    expected = pool(x, bounds, lambda w, n: w.mean()).astype(np.float32)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    norm: Any = {1: nn.lp_pool1d, 2: nn.lp_pool2d, 3: nn.lp_pool3d}[axes]
    for power in (1, 2, 3):
        got = run(lambda x, p=power: norm(x, p, kernel, stride, ceil_mode, pad, dilation), x)
        expected = (pool(np.abs(x) ** power, bounds, lambda w, n: w.sum()) ** (1 / power)).astype(np.float32)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_padding_counts_but_not_what_lies_beyond(ceil_mode: bool) -> None:
    x = randn(1, 2, 6, 7)
    got = run(lambda x: nn.avg_pool2d(x, 3, 2, 1, ceil_mode, True), x)

    def counted(bounds: Bounds, size: int) -> np.ndarray:
        return np.array([min(stop, size + 1) - start for start, stop, _ in bounds])

    bounds = windows(x, 3, 2, 1, 1, ceil_mode)
    total = pool(x, bounds, lambda w, n: w.sum()).astype(np.float32)
    np.testing.assert_allclose(got, total / np.outer(counted(bounds[0], 6), counted(bounds[1], 7)), rtol=1e-4)
    got = run(lambda x: nn.avg_pool2d(x, 3, 2, 1, ceil_mode, divisor_override=7), x)
    np.testing.assert_allclose(got, total / 7, rtol=1e-4)


def test_the_place_of_a_maximum() -> None:
    x = np.random.default_rng(1).integers(-3, 3, (2, 3, 5, 6)).astype(np.float32)
    x[0, 0, 2, 2:4] = np.nan
    x[1, 1] = -np.inf
    for arguments in ARGUMENTS:
        got = run(lambda x, a=arguments: nn.max_pool2d(x, *a, return_indices=True)[1], x)
        plane = np.arange(30).reshape(1, 1, 5, 6) + 0 * x.astype("i8")
        both = np.stack([x, plane], -1)

        def first(window: Any, n: int) -> int:
            return int(window[..., 1].ravel()[window[..., 0].argmax()])

        bounds = windows(x, *arguments)
        expected = np.zeros_like(got)
        for n, c in itertools.product(range(2), range(3)):
            for y, z in itertools.product(*(range(len(axis)) for axis in bounds)):
                rows, columns = (
                    [i for i in range(*axis[at]) if 0 <= i < size]
                    for axis, at, size in zip(bounds, (y, z), (5, 6), strict=True)
                )
                expected[n, c, y, z] = first(both[n, c][np.ix_(rows, columns)], 0)
        np.testing.assert_array_equal(got, expected)
    program = optimize_and_compile(nn.max_pool2d(tensor.input("x", x.shape), 3, 2, 1, 1, True, return_indices=True))
    values, indices = program(x)
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(2, 3, 30), indices.reshape(2, 3, -1), 2), values.reshape(2, 3, -1)
    )


@pytest.mark.parametrize("output", [1, 2, 3, 5, 7, (None, 3), (7, 11)], ids=str)
def test_adaptive_pools(output: Any) -> None:
    x = randn(2, 2, 5, 7)
    x[0, 0, 0, 0] = np.inf
    counts = [
        s if o is None else o
        for o, s in zip(output if isinstance(output, tuple) else (output,) * 2, (5, 7), strict=True)
    ]
    bounds = [
        [(i * size // count, -(-(i + 1) * size // count), 1) for i in range(count)]
        for size, count in zip((5, 7), counts, strict=True)
    ]
    got = run(lambda x: nn.adaptive_avg_pool2d(x, output), x)
    np.testing.assert_allclose(got, pool(x, bounds, lambda w, n: w.mean()).astype(np.float32), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(
        run(lambda x: nn.adaptive_max_pool2d(x, output), x), pool(x, bounds, lambda w, n: w.max())
    )
    place = run(lambda x: nn.adaptive_max_pool2d(x, output, True)[1], x)
    picked = np.take_along_axis(x.reshape(2, 2, 35), place.reshape(2, 2, -1), 2)
    np.testing.assert_array_equal(picked.reshape(place.shape), run(lambda x: nn.adaptive_max_pool2d(x, output), x))


def test_adaptive_pools_of_other_axes() -> None:
    line, volume = randn(1, 2, 9), randn(1, 2, 4, 3, 6)
    np.testing.assert_allclose(
        run(lambda x: nn.adaptive_avg_pool1d(x, 3), line), line.reshape(1, 2, 3, 3).mean(-1), rtol=1e-5
    )
    got = run(lambda x: nn.adaptive_max_pool3d(x, (2, 1, 3)), volume)
    np.testing.assert_array_equal(got, volume.reshape(1, 2, 2, 2, 3, 3, 2).max((3, 4, 6)).reshape(1, 2, 2, 1, 3))
    assert run(lambda x: nn.adaptive_avg_pool1d(x, 3), line[:0]).shape == (0, 2, 3)


def test_pools_of_integers_and_of_no_batch() -> None:
    x = np.arange(24, dtype=np.int32).reshape(1, 2, 12) - 40
    np.testing.assert_array_equal(
        run(lambda x: nn.max_pool1d(x, 3, 2, 1), x), pool(x, windows(x, 3, 2, 1, 1, False), lambda w, n: w.max())
    )
    assert run(lambda x: nn.avg_pool1d(x, 3, 2, 1), x).dtype == np.float64
    assert run(lambda x: nn.max_pool1d(x, 3, 2, 1), x[:0]).shape == (0, 2, 6)


image = tensor.input("i", (1, 2, 6, 6))


@pytest.mark.parametrize(
    ("call", "way_out"),
    [
        (lambda: nn.max_pool1d(image, 2), "[N, C, L]"),
        (lambda: nn.max_pool2d(image, 2, 1, 2, return_indices=True), "less padding"),
        (lambda: nn.avg_pool2d(image, 2, divisor_override=0), "another number"),
        (lambda: nn.lp_pool2d(image, 0, 2), "above 0"),
        (lambda: nn.adaptive_avg_pool2d(image, (2, 2, 2)), "from 1 on"),
        (lambda: nn.adaptive_avg_pool2d(image, 0), "from 1 on"),
        (lambda: nn.max_pool2d(image, 7), "smaller kernel"),
    ],
)
def test_impossible_pools_are_refused(call: Callable[[], Any], way_out: str) -> None:
    with pytest.raises(EqsatError) as caught:
        call()
    assert way_out in str(caught.value)
