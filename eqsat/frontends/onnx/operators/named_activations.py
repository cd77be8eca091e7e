"""Activations that other operators apply by name, with numbers that their lists `alpha` and `beta` hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from eqsat import nn, tensor
from eqsat.frontends.onnx.operands import refuse
from eqsat.tensor import Tensor

Activation = Callable[[Tensor], Tensor]


class _Named(NamedTuple):
    """A function of x, then alpha, then beta; `defaults` holds one number for each that it takes."""

    function: Callable[..., Tensor]
    defaults: tuple[float, ...] = ()


_ACTIVATIONS = {
    "sigmoid": _Named(lambda x: x.sigmoid()),
    "tanh": _Named(lambda x: x.tanh()),
    "relu": _Named(lambda x: x.relu()),
    "softsign": _Named(lambda x: x / (1 + abs(x))),
    "softplus": _Named(lambda x: nn.softplus(x)),
    "elu": _Named(lambda x, alpha: nn.elu(x, alpha), (1.0,)),
    "leakyrelu": _Named(lambda x, alpha: nn.leaky_relu(x, alpha), (0.01,)),
    "thresholdedrelu": _Named(lambda x, alpha: tensor.where(x > alpha, x, 0.0), (1.0,)),
    "affine": _Named(lambda x, alpha, beta: x * alpha + beta, (1.0, 0.0)),
    "scaledtanh": _Named(lambda x, alpha, beta: alpha * (beta * x).tanh(), (1.0, 1.0)),
    "hardsigmoid": _Named(lambda x, alpha, beta: (x * alpha + beta).maximum(0).minimum(1), (0.2, 0.5)),
}
"""By name in lower case: ONNX reads any case. Their numbers are alpha, or alpha and beta."""


def activations_by_name(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None
) -> list[Activation]:
    """The activations of these names. Those with an alpha, and those with a beta, take the next number of the lists,
    and their defaults where the lists end. Raises EqsatError, UnsupportedOp, for other names."""
    lists = [iter(alphas or ()), iter(betas or ())]
    activations: list[Activation] = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            refuse(f"the activation {name}", f"one of {', '.join(_ACTIVATIONS)}")
        function, defaults = _ACTIVATIONS[name.lower()]
        numbers = [next(rest, default) for rest, default in zip(lists, defaults, strict=False)]
        activations.append(partial(_apply, function, numbers))
    return activations


def _apply(function: Callable[..., Tensor], numbers: Sequence[float], x: Tensor) -> Tensor:
    return function(x, *numbers)
