"""Programs whose e-graphs once grew without end: each saturates, in e-nodes in proportion to its uops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat import nn
from eqsat import tensor as t
from eqsat.egraph.saturate import saturate
from eqsat.model import read_model
from ir.term.rule import Exactness
from rules import select


def _shifted(x: t.Tensor) -> t.Tensor:
    return x.pad([*[(0, 0)] * (x.ndim - 1), (1, 0)])[..., : x.shape[-1]]


def _norm(x: t.Tensor, axis: int) -> t.Tensor:
    centred = x - x.mean(axis, keepdims=True)
    return centred / ((centred * centred).mean(axis, keepdims=True) + 1e-5).sqrt()


def masked_norm_of_one() -> t.Tensor:
    """L1 norm, triangular mask, shift, permutation, layer norm over an axis of size 1, pad."""
    x = t.input("x", (1, 1, 4, 4), "bf16")
    x = x / abs(x).sum(keepdims=True)
    x = t.where(t.iota((4, 4), 0) >= t.iota((4, 4), 1), x, 0.0)
    return _norm(_shifted(x).permute(1, 0, 3, 2), 0).pad([(1, 1)] * 4)


def scaled_sum_of_one() -> t.Tensor:
    x = t.input("x", (3, 4, 1, 3), "bf16")
    x = x / (abs(x).sum(2, keepdims=True) + 1e-3)
    x = t.where(x > 0, x, 0.0) * 3.0
    x = (x.sum(2, keepdims=True) + x).pad([(0, 0), (1, 0), (0, 0), (0, 0)])[:, :4]
    return x - x.max(2, keepdims=True)


def softmax_of_one() -> t.Tensor:
    x = nn.softmax(t.input("x", (4, 3, 3, 1), "fp16"), -1)
    x = (x.sum(3, keepdims=True) + x).reshape(1, 4, 3, 3, 1) * 2.0
    return x - x.max(0, keepdims=True)


def centred_constant() -> t.Tensor:
    """A pooled constant, centred, normed and centred again: a mean of means is a product of itself."""
    weights = np.random.default_rng(0).standard_normal((3, 4, 2, 3)).astype("f")
    image = t.constant(np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype("f"))
    x = nn.conv2d(image, t.constant(weights), padding=1)
    x = x - x.mean((1, 2, 3), keepdims=True)
    x = (x - x.mean(keepdims=True)) * (x.var(keepdims=True) + 1e-5).sqrt()
    return x - x.mean(3, keepdims=True)


def normed_constant() -> t.Tensor:
    """All of it is known when the program is built: products and scales of it are worth no other grouping."""
    numbers = np.random.default_rng(0)
    x, gain, shift = (t.constant(numbers.standard_normal(shape).astype("f")) for shape in ((1, 2, 4, 4), (4,), (4,)))
    square = x * x
    return nn.layer_norm(square * square, gain, shift)


def norm_of_zeros() -> t.Tensor:
    """Zeros that only rules know, normed: 0 = 0·0, so that a scale could leave a product with a constant for ever."""
    zeros = (t.constant(np.arange(21, dtype="i4").reshape(7, 3)) * 0).cast("fp32")
    return nn.layer_norm(nn.rms_norm(zeros) + t.input("x", (7, 3)))


def shifted_away() -> t.Tensor:
    """Shifts that leave nothing of a constant but zeros, which are centred: zeros that are views of one another."""
    x = nn.avg_pool2d(t.constant(np.ones((5, 1, 3, 2), np.float32)), (2, 2)).permute(0, 1, 3, 2)
    x = _shifted(_shifted(x))
    x = x - x.mean(3, keepdims=True)
    return x * t.input("y", (5, 1, 1, 1)) * t.constant(np.ones(1, np.float32)) + t.input("z", (1,))


def index_beside_its_shift() -> t.Tensor:
    """The index equals its shift by one, minus one: each turn through this circle would make another fill."""
    places = (t.arange(16) + 0).unsqueeze(0).expand(2, 16)
    shifted = t.concatenate([places[:, :1] - 1, places], 1)
    return t.where(shifted[:, 1:17] - shifted[:, :16] != 1, 1.0, t.input("x", (2, 16)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "level"),
    [
        (masked_norm_of_one, Exactness.ROUNDING),
        (scaled_sum_of_one, Exactness.ROUNDING),
        (softmax_of_one, Exactness.ROUNDING),
        (centred_constant, Exactness.RANGE),
        (normed_constant, Exactness.RANGE),
        (norm_of_zeros, Exactness.RANGE),
        (shifted_away, Exactness.ROUNDING),
        (index_beside_its_shift, Exactness.ROUNDING),
    ],
)
def test_saturates(program: Callable[[], t.Tensor], level: Exactness) -> None:
    model = read_model([program()]).bind({}, strict=False)
    _, stats = saturate(model.graph, select(None, level), level, constants=sorted(model.constants))
    assert {str(phase.stop) for phase in stats.phases} == {"saturated"}
    assert stats.nodes < 200 * len(model.graph.nodes)
