"""Losses of a classification."""

from __future__ import annotations

from typing import Literal

from eqsat import nn
from eqsat.frontends.onnx.operator_table import operator
from eqsat.nn.losses import likelihood_loss
from eqsat.tensor import Tensor

Reduction = Literal["none", "sum", "mean"]


@operator("NegativeLogLikelihoodLoss", since=12)
def _negative_log_likelihood(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    return likelihood_loss("NegativeLogLikelihoodLoss", x, target, weight, ignore_index, reduction)


@operator("SoftmaxCrossEntropyLoss", since=12)
def _cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> tuple[Tensor, Tensor]:
    """The loss, and the logarithms of the probabilities."""
    log_probabilities = nn.log_softmax(x, 1)
    loss = likelihood_loss("SoftmaxCrossEntropyLoss", log_probabilities, target, weight, ignore_index, reduction)
    return loss, log_probabilities
