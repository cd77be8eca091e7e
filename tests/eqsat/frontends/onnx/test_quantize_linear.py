"""QuantizeLinear and DequantizeLinear of both domains, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir.diagnostics import EqsatError, Kind
from tests.support.oracles.runtime_operator import run_both

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 7, 5)).astype(np.float32) * 50
ENDS = {dtype: (np.iinfo(dtype).min, np.iinfo(dtype).max) for dtype in ("int8", "uint8", "int16", "uint16")}


def integers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    low, high = ENDS[dtype]
    return RNG.integers(low, high + 1, shape).astype(dtype)


def signed_scale(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def agree(op: str, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, domain: str, **attrs: Any) -> None:
    scale = scale if op == "DequantizeLinear" else abs(scale)
    actual, expected = run_both(op, {"x": x, "x_scale": scale, "x_zero": zero}, attrs, domain)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("dtype", ENDS)
def test_both_domains_agree_with_onnxruntime(dtype: str, domain: str) -> None:
    """Zero points at the ends of the range; one for all, and one for each slice along an axis."""
    scale, ends = signed_scale(7), RNG.choice([*ENDS[dtype], 3], 7).astype(dtype)
    for op, x in (("QuantizeLinear", X), ("DequantizeLinear", integers(dtype, X.shape))):
        agree(op, x, scale, ends, domain, axis=1)
        agree(op, x, scale[0], ends[0], domain)
        agree(op, x, scale[0], None, domain)


@pytest.mark.parametrize(("axis", "size"), [(1, 4), (1, 7), (1, 16), (0, 2), (-1, 2)])
def test_the_last_block_may_be_shorter(axis: int, size: int) -> None:
    shape = list(X.shape)
    shape[axis] = -(-shape[axis] // size)
    scale, zero = signed_scale(*shape), integers("uint8", tuple(shape))
    agree("QuantizeLinear", X, scale, zero, "", axis=axis, block_size=size)
    agree("DequantizeLinear", integers("uint8", X.shape), scale, zero, "", axis=axis, block_size=size)


def test_scales_of_other_blocks_are_refused_with_both_shapes() -> None:
    from tests.eqsat.frontends.onnx.test_onnx import bind, one

    model = one("DequantizeLinear", {"x": X.astype(np.uint8)}, {"s": signed_scale(3, 2, 4)}, 21, axis=1, block_size=4)
    with pytest.raises(EqsatError) as caught:
        bind(model)
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    assert "blocks of 4 along axis 1 of [3, 7, 5] need scales [3, 2, 5], not [3, 2, 4]" in str(caught.value)
