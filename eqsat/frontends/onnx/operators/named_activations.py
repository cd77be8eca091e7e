"""Activations that other operators apply by name, with numbers that their lists `alpha` and `beta` hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from eqsat.frontends.onnx.operands import refuse
from eqsat.frontends.onnx.operators import activations
from eqsat.tensor import Tensor

Activation = Callable[[Tensor], Tensor]


def _affine(x: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
    return x * alpha + beta


def _scaled_tanh(x: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    return alpha * (beta * x).tanh()


class _Named(NamedTuple):
    """A function of x, and of as many of the numbers alpha and beta."""

    function: Callable[..., Tensor]
    numbers: int = 0


_ACTIVATIONS = {
    "sigmoid": _Named(Tensor.sigmoid),
    "tanh": _Named(Tensor.tanh),
    "relu": _Named(Tensor.relu),
    "softsign": _Named(activations.softsign),
    "softplus": _Named(activations.softplus),
    "elu": _Named(activations.elu, 1),
    "leakyrelu": _Named(activations.leaky_relu, 1),
    "thresholdedrelu": _Named(activations.thresholded_relu, 1),
    "affine": _Named(_affine, 2),
    "scaledtanh": _Named(_scaled_tanh, 2),
    "hardsigmoid": _Named(activations.hard_sigmoid, 2),
}
"""By name in lower case: ONNX reads any case."""


def activations_by_name(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None
) -> list[Activation]:
    """The activations of these names. Those with an alpha, and those with a beta, take the next number of the lists,
    and their defaults where the lists end. Raises EqsatError, UnsupportedOp, for other names."""
    lists = {"alpha": iter(alphas or ()), "beta": iter(betas or ())}
    bound: list[Activation] = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            refuse(f"the activation {name}", f"one of {', '.join(_ACTIVATIONS)}")
        function, numbers = _ACTIVATIONS[name.lower()]
        taken = {letter: next(lists[letter], None) for letter in [*lists][:numbers]}
        bound.append(partial(function, **{letter: number for letter, number in taken.items() if number is not None}))
    return bound
