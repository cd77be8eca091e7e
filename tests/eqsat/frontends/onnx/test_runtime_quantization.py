"""The operators of onnxruntime's quantizer, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.oracles.runtime_operator import Arrays, run_both

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (2, 3, 6, 8)).astype(np.uint8)
SIGNED = RNG.integers(-128, 128, (3, 6, 8)).astype(np.int8)
FILTERS = RNG.integers(-64, 64, (8, 5)).astype(np.int8)
"""Of 7 bits: without VNNI, onnxruntime's sums of two products of bytes saturate at 16 bits."""
ROW = RNG.standard_normal(5).astype(np.float32)
COLUMN_SCALES = np.linspace(0.01, 0.02, 5, dtype=np.float32)


def tensor(name: str, integers: np.ndarray, scale: float | np.ndarray = 0.02, zero: int | np.ndarray = 0) -> Arrays:
    """A quantized tensor as three inputs."""
    return {name: integers, **spec(name, scale, zero, integers.dtype)}


def spec(name: str, scale: float | np.ndarray, zero: int | np.ndarray, dtype: Any = np.uint8) -> Arrays:
    """A scale and a zero point."""
    return {f"{name}_scale": np.asarray(scale, np.float32), f"{name}_zero": np.asarray(zero, dtype)}


X, OTHER = tensor("x", BYTES, 0.02, 120), tensor("b", BYTES[:1, :, :, ::-1].copy(), 0.011, 3)
TO, MEANS, SHARES = spec("y", 0.031, 9), spec("y", 0.013, 100), spec("y", 1 / 256, 0)
SIGNED_SUM = {
    **tensor("x", SIGNED, 0.02, -3),
    **tensor("b", SIGNED[::-1].copy(), 0.01, 7),
    **spec("y", 0.03, -9, np.int8),
}
WINDOW = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 0], "strides": [2, 1], "count_include_pad": 1}
GEMM = {**tensor("a", BYTES[0, 0], 0.02, 120), **tensor("b", FILTERS, 0.01)}
TURNED = {
    **tensor("a", BYTES[0, 0].T.copy(), 0.02, 120),
    **tensor("b", FILTERS.T.copy(), COLUMN_SCALES, np.zeros(5, np.int8)),
}
PRODUCT = {
    "a": BYTES[0, 0],
    "b": FILTERS,
    "a_scale": np.asarray(0.02, np.float32),
    "b_scale": COLUMN_SCALES,
    "a_zero": np.asarray(120, np.uint8),
    "b_zero": np.zeros(5, np.int8),
    "bias": ROW,
}
ATTENTION: Arrays = {
    "x": BYTES[0],
    "w": RNG.integers(-64, 64, (8, 24)).astype(np.int8),
    "bias": RNG.standard_normal(24).astype(np.float32),
    "x_scale": np.asarray(0.02, np.float32),
    "w_scale": np.linspace(0.005, 0.015, 24, dtype=np.float32),
    "mask": np.asarray([3, 6, 1], np.int32),
    "x_zero": np.asarray(120, np.uint8),
    "w_zero": np.zeros(24, np.int8),
}
CASES: dict[str, tuple[str, Arrays, dict[str, Any]]] = {
    "attention": ("QAttention", ATTENTION, {"num_heads": 2}),
    "causal attention": ("QAttention", ATTENTION, {"num_heads": 4, "unidirectional": 1}),
    "add": ("QLinearAdd", {**X, **OTHER, **TO}, {}),
    "add of signed": ("QLinearAdd", SIGNED_SUM, {}),
    "mul": ("QLinearMul", {**X, **OTHER, **TO}, {}),
    "sigmoid": ("QLinearSigmoid", {**X, **SHARES}, {}),
    "leaky relu": ("QLinearLeakyRelu", {**X, **TO}, {"alpha": 0.3}),
    "softmax": ("QLinearSoftmax", {**X, **SHARES}, {"axis": 2, "opset": 13}),
    "softmax of several axes": ("QLinearSoftmax", {**X, **SHARES}, {"axis": 2, "opset": 11}),
    "average pool": ("QLinearAveragePool", {**X, **MEANS}, WINDOW),
    "average pool, channels last": (
        "QLinearAveragePool",
        {**X, **MEANS},
        {"kernel_shape": [2, 3], "channels_last": 1},
    ),
    "global average pool": ("QLinearGlobalAveragePool", {**X, **MEANS}, {}),
    "global average pool, channels last": ("QLinearGlobalAveragePool", {**X, **MEANS}, {"channels_last": 1}),
    "concat": ("QLinearConcat", {**TO, **X, **OTHER}, {"axis": 0}),
    "where": ("QLinearWhere", {"c": BYTES > 100, **X, **OTHER, **TO}, {}),
    "gemm": ("QGemm", {**GEMM, "c": np.arange(-2, 3, dtype=np.int32), **TO}, {"alpha": 0.5}),
    "gemm to floats": ("QGemm", TURNED, {"transA": 1, "transB": 1}),
    "product to floats": ("MatMulIntegerToFloat", PRODUCT, {}),
    "dynamic product": (
        "DynamicQuantizeMatMul",
        {"a": RNG.standard_normal((4, 8)).astype(np.float32), **tensor("b", FILTERS, 0.01), "bias": ROW},
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_agree_with_onnxruntime(name: str) -> None:
    """Bytes differ by one step at most, and rarely: onnxruntime rounds some results after a product of scales."""
    actual, expected = run_both(*CASES[name])
    if actual.dtype == np.float32:
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
        return
    error = np.abs(actual.astype(np.int32) - expected)
    assert error.max() <= 1
    assert np.mean(error > 0) < 0.03


@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu"])
def test_a_zero_point_in_front_of_other_inputs_may_be_left_out(op: str) -> None:
    actual, expected = run_both(op, {**X, "x_zero": None, **SHARES}, {})
    assert abs(actual.astype(np.int32) - expected).max() <= 1


def test_attention_without_its_optional_inputs() -> None:
    absent: dict[str, np.ndarray | None] = dict.fromkeys(["mask", "x_zero", "w_zero"])
    operands = {**ATTENTION, "w_scale": np.asarray(0.01, np.float32), **absent}
    np.testing.assert_allclose(*run_both("QAttention", operands, {"num_heads": 2}), rtol=1e-4, atol=1e-5)
