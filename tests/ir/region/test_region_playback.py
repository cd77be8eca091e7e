"""Regions on arrays, against NumPy written out by hand."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir.diagnostics import EqsatError, Kind
from ir.dtype import dtype
from ir.region.playback import play_region
from ir.region.region import Number, Region
from tests.support.programs import regions


def arrays(region: Region, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    results = {}
    for buffer in region.inputs:
        element = dtype(buffer.memref.dtype)
        values = (
            rng.standard_normal(buffer.memref.shape) if element.is_float else rng.integers(-3, 13, buffer.memref.shape)
        )
        results[buffer.name] = np.asarray(values).astype(element.numpy)
    return results


def play(region: Region, given: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    (result,) = play_region(region, given, wide=True).values()
    return result


@pytest.mark.parametrize("sizes", [(4, 6, 5), (1, 1, 1), (0, 6, 5), (4, 0, 5), (4, 6, 0), (33, 17, 65)])
def test_gemm_bias_relu(sizes: tuple[int, int, int]) -> None:
    region = regions.gemm_bias_relu(*sizes)
    given = arrays(region)
    wanted = np.maximum(given["A"].astype(np.float64) @ given["B"] + given["bias"], 0)
    np.testing.assert_allclose(play(region, given), wanted, rtol=1e-12)


@pytest.mark.parametrize("lhs_t", [False, True])
@pytest.mark.parametrize("rhs_t", [False, True])
@pytest.mark.parametrize("out_t", [False, True])
def test_batched_products_in_any_order(lhs_t: bool, rhs_t: bool, out_t: bool) -> None:
    region = regions.matmul((2, 3), lhs_t=lhs_t, rhs_t=rhs_t, out_t=out_t)
    given = arrays(region)
    a = given["A"].swapaxes(-1, -2) if lhs_t else given["A"]
    b = given["B"].swapaxes(-1, -2) if rhs_t else given["B"]
    wanted = np.matmul(a.astype(np.float64), b)
    np.testing.assert_allclose(play(region, given), wanted.swapaxes(-1, -2) if out_t else wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "how", [{}, {"stride": 1, "pad": 0}, {"dilation": 2, "pad": 2, "stride": 1}, {"kernel": 1, "pad": 0}]
)
def test_convolution_with_padding_as_a_guard(how: dict[str, int]) -> None:
    settings: dict[str, Any] = {"kernel": 3, "stride": 2, "pad": 1, "dilation": 1} | how
    region = regions.conv(batch=2, **settings)
    given = arrays(region)
    np.testing.assert_allclose(play(region, given), convolved(given["X"], given["W"], **settings), rtol=1e-6, atol=1e-9)


def convolved(
    x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], kernel: int, stride: int, pad: int, dilation: int
) -> np.ndarray[Any, Any]:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    rows, cols = ((size - dilation * (kernel - 1) - 1) // stride + 1 for size in padded.shape[2:])
    out = np.zeros((len(x), len(w), rows, cols))
    for i in range(kernel):
        for j in range(kernel):
            top, left = i * dilation, j * dilation
            window = padded[:, :, top : top + stride * rows : stride, left : left + stride * cols : stride]
            out += np.einsum("ncyx,oc->noyx", window, w[:, :, i, j].astype(np.float64))
    return out


def test_pointwise_movement_and_indices() -> None:
    region = regions.pointwise((3, 5))
    given = arrays(region)
    np.testing.assert_allclose(play(region, given), np.exp(given["X"].astype(np.float64) + given["bias"]) * 2)
    region = regions.transpose(5, 7)
    given = arrays(region)
    np.testing.assert_array_equal(play(region, given), given["X"].T)
    region = regions.pad2d(4, 5, 1, 2, fill=-7)
    given = arrays(region)
    np.testing.assert_array_equal(play(region, given), np.pad(given["X"], (1, 2), constant_values=-7))
    region = regions.iota(3, 5)
    given = arrays(region)
    np.testing.assert_allclose(play(region, given), given["X"].astype(np.float64) + np.arange(5))


def test_gather_clamps() -> None:
    region = regions.gather(rows=10, width=4, count=60)
    given = arrays(region)
    assert given["index"].min() < 0
    assert given["index"].max() > 9
    np.testing.assert_array_equal(play(region, given), given["T"][np.clip(given["index"], 0, 9)])


@pytest.mark.parametrize(("fn", "by"), [("sum", np.sum), ("max", np.max), ("min", np.min), ("prod", np.prod)])
def test_reductions(fn: str, by: Any) -> None:
    region = regions.row_reduce(4, 7, fn)
    given = arrays(region)
    np.testing.assert_allclose(play(region, given), by(given["X"].astype(np.float64), axis=1))
    region = regions.column_reduce(4, 7, fn)
    given = arrays(region)
    np.testing.assert_allclose(play(region, given), by(given["X"].astype(np.float64), axis=0))


def test_reductions_of_nothing_give_their_identity() -> None:
    for fn, identity in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)):
        region = regions.row_reduce(4, 0, fn)
        np.testing.assert_array_equal(play(region, arrays(region)), np.full(4, identity))


def test_a_maximum_passes_nan_on() -> None:
    region = regions.row_reduce(2, 3, "max")
    given = {"X": np.array([[1, np.nan, 2], [3, 4, 5]], np.float32)}
    np.testing.assert_array_equal(play(region, given), [np.nan, 5])


@pytest.mark.parametrize("axis", [0, 1])
def test_scans(axis: int) -> None:
    region = regions.cumsum(3, 6, axis)
    given = arrays(region)
    np.testing.assert_allclose(play(region, given), np.cumsum(given["X"].astype(np.float64), axis=axis))


def test_every_op_rounds_to_its_dtype() -> None:
    half = np.dtype(ml_dtypes.bfloat16)
    shape = (1,)
    body = [
        regions.ewise("A", "add", shape, regions.same("X", shape), Number(1.0, "bf16"), dtype="bf16"),
        regions.ewise("B", "sub", shape, regions.same("A", shape), Number(1.0, "bf16"), dtype="bf16"),
    ]
    region = regions.region("steps", [regions.buffer("X", shape, "bf16")], body, shape, dtype="bf16")
    given = {"X": np.array([2.0**-9], half)}
    assert float(play_region(region, given)["Y"][0]) == 0.0
    assert float(play_region(region, given, wide=True)["Y"][0]) == 2.0**-9


def test_a_contraction_of_halves_accumulates_in_fp32() -> None:
    region = regions.gemm_bias_relu(1, 1, 4096, "fp16")
    given = {
        "A": np.full((1, 4096), 0.1, np.float16),
        "B": np.ones((4096, 1), np.float16),
        "bias": np.zeros(1, np.float16),
    }
    outputs = play_region(region, given)["C"]
    assert outputs.dtype == np.float16
    assert float(outputs[0, 0]) == float(np.float16(4096 * float(np.float16(0.1))))


def test_integers_wrap() -> None:
    region = regions.matmul((), 1, 1, 2, dtype="i8")
    given = {"A": np.array([[100, 100]], np.int8), "B": np.array([[1], [1]], np.int8)}
    assert play_region(region, given)["Y"][0, 0] == np.int8(-56)


def test_a_missing_or_misshapen_input_is_a_diagnostic() -> None:
    region = regions.transpose()
    for given in ({}, {"X": np.zeros((1, 2), np.float32)}):
        with pytest.raises(EqsatError) as caught:
            play_region(region, given)
        assert caught.value.kind is Kind.INPUT_MISMATCH


@pytest.mark.parametrize("region", regions.corpus(), ids=lambda r: f"{r.name}{list(r.outputs[0].memref.shape)}")
def test_results_have_the_output_s_type(region: Region) -> None:
    results = play_region(region, arrays(region))
    for output in region.outputs:
        assert results[output.name].shape == output.memref.shape
        assert results[output.name].dtype == dtype(output.memref.dtype).numpy
