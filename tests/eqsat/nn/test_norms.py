"""Norms per group of channels and per channel, against their definition in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from ir.diagnostics import EqsatError
from tests.eqsat.lazy.test_tensor import randn, run


def normal(x: np.ndarray, groups: int, eps: float) -> np.ndarray:
    parts = x.reshape(x.shape[0], groups, -1).astype(np.float64)
    centred = parts - parts.mean(-1, keepdims=True)
    return np.asarray((centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)).reshape(x.shape))


@pytest.mark.parametrize("shape", [(2, 6, 5, 3), (1, 6, 7), (3, 6), (2, 6, 2, 1, 3)])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norms(shape: tuple[int, ...], groups: int) -> None:
    x, w, b = randn(*shape), randn(6), randn(6)
    channels = (6, *(1,) * (len(shape) - 2))
    got = run(lambda x, w, b: nn.group_norm(x, groups, w, b, 0.1), x, w, b)
    expected = normal(x, groups, 0.1) * w.reshape(channels) + b.reshape(channels)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        run(lambda x: nn.group_norm(x, groups), x), normal(x, groups, 1e-5), rtol=1e-3, atol=1e-3
    )


def test_instance_norms() -> None:
    x, w, b = randn(2, 3, 4, 5), randn(3), randn(3)
    got = run(lambda x, w, b: nn.instance_norm(x, weight=w, bias=b), x, w, b)
    expected = normal(x, 3, 1e-5) * w.reshape(3, 1, 1) + b.reshape(3, 1, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    half = run(lambda x: nn.instance_norm(x), (x * 100).astype(np.float16))
    assert half.dtype == np.float16
    assert np.isfinite(half).all()
    assert run(lambda x: nn.instance_norm(x), x[:0]).shape == (0, 3, 4, 5)


@pytest.mark.slow
def test_a_compiled_group_norm() -> None:
    x, w, b = randn(2, 8, 5, 6), randn(8), randn(8)
    program = optimize_and_compile(nn.group_norm(tensor.input("x", x.shape), 4, w, b))
    expected = normal(x, 4, 1e-5) * w.reshape(8, 1, 1) + b.reshape(8, 1, 1)
    np.testing.assert_allclose(program(x), expected, rtol=1e-3, atol=1e-4)


def test_groups_that_do_not_fit_are_refused() -> None:
    x = tensor.input("x", (2, 6, 4))
    for groups in (4, 0, 7):
        with pytest.raises(EqsatError, match="divides"):
            nn.group_norm(x, groups)
    with pytest.raises(EqsatError, match="number"):
        nn.group_norm(x, 2, tensor.input("w", (4,)))
