"""Calls in the argument order of torch, ONNX, NumPy or JAX mean what they mean there, or are refused in plain words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.lazy.promotion import UFUNCS, UOP_OF, uops_by_ufunc
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.dtype import TensorType
from ir.uop.table import UOPS
from tests.eqsat.lazy.test_tensor import randn, run

X, W, B = randn(2, 3, 4, 8), randn(8), randn(8)
IMAGE = randn(1, 2, 6, 6)


def normed(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    centred = x - x.mean(axes, keepdims=True)
    normal: np.ndarray = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)
    return normal


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w, b: nn.layer_norm(x, w, b),
        lambda x, w, b: nn.layer_norm(x, (8,), w, b),
        lambda x, w, b: nn.layer_norm(x, [8], w, b, 1e-5),
        lambda x, w, b: nn.layer_norm(x, 8, w, b),
        lambda x, w, b: nn.layer_norm(x, normalized_shape=(8,), weight=w, bias=b),
        lambda x, w, b: nn.layer_norm(x, (np.int64(8),), weight=w, bias=b, eps=1e-5),
        lambda x, w, b: nn.layer_norm(x, (8,)) * w + b,
    ],
)
def test_a_layer_norm_in_torchs_order(call: Callable[..., Tensor]) -> None:
    np.testing.assert_allclose(run(call, X, W, B), normed(X, (3,)) * W + B, rtol=1e-4, atol=1e-5)


def test_norms_over_several_axes() -> None:
    over = (1, 2, 3)
    got = run(lambda x: nn.layer_norm(x, X.shape[1:]), X)
    np.testing.assert_allclose(got, normed(X, over), rtol=1e-4, atol=1e-5)
    mean = (X**2).mean(over, keepdims=True)
    for call in (lambda x: nn.rms_norm(x, X.shape[1:]), lambda x: nn.rms_norm(x, axes=3)):
        np.testing.assert_allclose(run(call, X), X / np.sqrt(mean + 1e-6), rtol=1e-4)
    got = run(lambda x, w: nn.rms_norm(x, (8,), w, 0.5), X, W)
    np.testing.assert_allclose(got, X / np.sqrt((X**2).mean(-1, keepdims=True) + 0.5) * W, rtol=1e-4)


def test_a_batch_norm_by_names() -> None:
    mean, var, w, b = randn(3), randn(3) ** 2 + 1, randn(3), randn(3)
    got = run(lambda x, m, v, w, b: nn.batch_norm(x, mean=m, var=v, weight=w, bias=b), X, mean, var, w, b)
    channels = (slice(None), None, None)
    np.testing.assert_allclose(
        got, (X - mean[channels]) / np.sqrt(var[channels] + 1e-5) * w[channels] + b[channels], rtol=1e-3, atol=1e-4
    )
    plain = run(lambda x, m, v: nn.batch_norm(x, mean=m, var=v), X, mean, var)
    np.testing.assert_allclose(plain, (X - mean[channels]) / np.sqrt(var[channels] + 1e-5), rtol=1e-3, atol=1e-4)


def test_a_mask_of_bools_hides_where_it_is_false() -> None:
    q = randn(1, 4, 8)
    causal = np.tril(np.ones((4, 4), bool))
    got = run(lambda q: nn.attention(q, q, q, causal), q)
    np.testing.assert_allclose(got, run(lambda q: nn.attention(q, q, q, causal=True), q), rtol=1e-6)


def test_pools_and_activations_in_torchs_order() -> None:
    padded = run(lambda x: nn.avg_pool2d(x, 3, 2, 1, False, False), IMAGE)
    np.testing.assert_array_equal(padded, run(lambda x: nn.avg_pool2d(x, 3, 2, 1, count_include_pad=False), IMAGE))
    np.testing.assert_array_equal(
        run(lambda x: nn.max_pool2d(x, 2, 2, 0, 1, False), IMAGE), run(lambda x: nn.max_pool2d(x, 2), IMAGE)
    )
    for torchs, ours in (("tanh", True), ("none", False)):
        np.testing.assert_array_equal(
            run(lambda x, a=torchs: nn.gelu(x, a), X), run(lambda x, a=ours: nn.gelu(x, a), X)
        )


x, w, b, image = (
    tensor.input("x", (2, 8)),
    tensor.input("w", (8,)),
    tensor.input("b", (8,)),
    tensor.input("i", (1, 2, 6, 6)),
)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "another normalized shape": (lambda: nn.layer_norm(x, (7,), w, b), "the last sizes of x"),
    "no normalized shape": (lambda: nn.layer_norm(x, (), w, b), "the last sizes of x"),
    "more axes than there are": (lambda: nn.layer_norm(x, axes=3), "axes= from 0 to 2"),
    "a shape for a bias": (lambda: nn.layer_norm(x, w, (8,)), "normalized_shape"),  # type: ignore[call-overload]
    "a bias for an epsilon": (lambda: nn.layer_norm(x, w, b, w), "eps is a number"),  # type: ignore[call-overload]
    "a weight that enlarges x": (lambda: nn.layer_norm(x, tensor.input("u", (3, 1, 8))), "the last sizes"),
    "rms_norm of another shape": (lambda: nn.rms_norm(x, (4,), w), "the last sizes of x"),
    "batch_norm in torch's order": (lambda: nn.batch_norm(x, w, b, w, b), "mean=, var="),
    "batch_norm without statistics": (lambda: nn.batch_norm(x, weight=w, bias=b), "mean=, var="),
    "a mask of whole numbers": (lambda: nn.attention(x, x, x, tensor.input("m", (2, 2), "i64")), "a mask of bools"),
    "a dropout for a causal mask": (lambda: nn.attention(x, x, x, None, 0.0), "True or False"),  # type: ignore[arg-type]
    "a dilation for ceil_mode": (lambda: nn.max_pool2d(image, 3, 2, 1, 1, 1), "True or False"),  # type: ignore[call-overload]
    "a running mean for a weight": (lambda: nn.instance_norm(image, w, w), "by name"),
    "torch's flat pad": (lambda: x.pad((1, 2)), "before and after axis 0"),  # type: ignore[arg-type]
    "numpy's dtype for keepdims": (lambda: x.sum(0, np.float64), "True or False"),  # type: ignore[arg-type]
    "a bias of other channels": (
        lambda: nn.conv2d(image, tensor.input("f", (1, 2, 3, 3)), tensor.input("c", (6,))),
        "number",
    ),
    "statistics of other channels": (lambda: nn.batch_norm(x[:, :1], mean=w, var=w), "number"),
    "another approximation": (lambda: nn.gelu(x, "erf"), "True or False"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_another_number_is_refused(name: str) -> None:
    call, way_out = REFUSED[name]
    with pytest.raises(EqsatError) as caught:
        call()
    assert way_out in str(caught.value)


def test_a_function_of_numpy_is_the_uop_of_its_meaning() -> None:
    values = np.array([1, 2, 3, 5], np.float64), np.array([4, 1, 2, 2], np.float64)
    for ufunc, uop in UOP_OF.items():
        row = UOPS[uop]
        for element in ("fp64", "i32", "bool"):
            operands = [value.astype(TensorType.of(element, ()).dtype.numpy) for value in values[: row.arity]]
            try:
                out = row.type_of([TensorType.of(element, (4,))] * row.arity, {})
            except EqsatError:
                continue
            np.testing.assert_allclose(row.apply(operands, {}, out), ufunc(*operands), rtol=1e-12)
    assert UOP_OF[np.exp] == "EXP"
    assert UOP_OF[np.sqrt] == "SQRT"
    assert UOP_OF[np.rint] == "ROUND"
    assert np.floor in UOP_OF


@pytest.mark.parametrize(
    ("careless", "why"),
    [
        ({"SIGMOID": np.exp}, "EXP and SIGMOID cannot both be np.exp"),
        ({"EXPM1": np.expm1}, "no elementwise uop"),
        ({"REDUCE": np.expm1}, "no elementwise uop"),
    ],
)
def test_a_careless_row_is_refused(careless: dict[str, np.ufunc], why: str) -> None:
    for table in ({**UFUNCS, **careless}, {**careless, **UFUNCS}):
        with pytest.raises(ValueError, match=r"no elementwise uop|cannot both be"):
            uops_by_ufunc(table)
    with pytest.raises(ValueError, match=why):
        uops_by_ufunc({**UFUNCS, **careless})


def test_kinds_of_refusals() -> None:
    with pytest.raises(EqsatError) as caught:
        nn.layer_norm(x, (7,), w, b)
    assert caught.value.kind is Kind.AXIS_SIZE_MISMATCH


def test_a_tensor_may_be_the_count_of_a_shift() -> None:
    x = tensor.input("x", (3,), "i32")
    counts = np.array([0, 3, 31], np.int32)
    left, right = optimize_and_compile([1 << x, 64 >> x])(x=counts)
    np.testing.assert_array_equal(left, np.int32(1) << counts)
    np.testing.assert_array_equal(right, np.int32(64) >> counts)
