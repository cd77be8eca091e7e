"""Steps of training: the next values of tensors, from their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from eqsat.frontends.onnx.operator_table import operator
from eqsat.tensor import Tensor, where

_DOMAIN = "ai.onnx.preview.training"
_Step = Callable[..., tuple[Tensor, ...]]


def _for_every_tensor(step: _Step, operands: tuple[Tensor, ...], kinds: int) -> tuple[Tensor, ...]:
    """The results of a step for several tensors. operands: all tensors, then all gradients, then states, by `kinds`."""
    count = len(operands) // kinds
    results = [step(*operands[place::count]) for place in range(count)]
    return tuple(result for kind in zip(*results, strict=True) for result in kind)


@operator("Adagrad", domain=_DOMAIN)
def _adagrad(
    rate: Tensor,
    time: Tensor,
    *operands: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    adjusted = rate / (time.cast(rate.dtype) * decay_factor + 1)

    def step(x: Tensor, gradient: Tensor, squares: Tensor) -> tuple[Tensor, ...]:
        regular = x * norm_coefficient + gradient
        total = squares + regular * regular
        return x - adjusted * regular / (total.sqrt() + epsilon), total

    return _for_every_tensor(step, operands, 3)


@operator("Momentum", domain=_DOMAIN)
def _momentum(
    rate: Tensor,
    time: Tensor,
    *operands: Tensor,
    alpha: float,
    beta: float,
    mode: Literal["standard", "nesterov"],
    norm_coefficient: float,
) -> tuple[Tensor, ...]:
    share = where(time > 0, beta, 1.0).cast(rate.dtype)

    def step(x: Tensor, gradient: Tensor, velocity: Tensor) -> tuple[Tensor, ...]:
        regular = x * norm_coefficient + gradient
        after = velocity * alpha + share * regular
        return x - rate * (after if mode == "standard" else regular + after * alpha), after

    return _for_every_tensor(step, operands, 3)


@operator("Adam", domain=_DOMAIN)
def _adam(
    rate: Tensor,
    time: Tensor,
    *operands: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    steps = time.cast(rate.dtype)
    corrected = rate * (1 - beta**steps).sqrt() / (1 - alpha**steps)
    adjusted = where(time > 0, corrected, rate)

    def step(x: Tensor, gradient: Tensor, mean: Tensor, squares: Tensor) -> tuple[Tensor, ...]:
        regular = x * norm_coefficient + gradient
        first = mean * alpha + regular * (1 - alpha)
        second = squares * beta + regular * regular * (1 - beta)
        after = x - adjusted * (first / (second.sqrt() + epsilon))
        return after * (1 - norm_coefficient_post), first, second

    return _for_every_tensor(step, operands, 4)
