"""Losses of a classification."""

from __future__ import annotations

from typing import Literal

from eqsat import nn, tensor
from eqsat.frontends.onnx.operator_table import operator
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
    return likelihood_loss(x, target, weight, ignore_index, reduction)


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
    return likelihood_loss(log_probabilities, target, weight, ignore_index, reduction), log_probabilities


def likelihood_loss(
    x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int | None, reduction: Reduction
) -> Tensor:
    """-weight[target] · x[n, target, …] for x [N, C, …]; a target of `ignore_index` counts nothing. The mean divides by
    the sum of the weights."""
    index = target.cast("i64")
    ignored = None if ignore_index is None else index == ignore_index
    safe = index if ignored is None else tensor.where(ignored, 0, index)
    picked = x.gather(1, safe.unsqueeze(1)).squeeze(1)
    weights = tensor.full(target.shape, 1.0, x.dtype) if weight is None else weight.take(safe)
    if ignored is not None:
        weights = tensor.where(ignored, 0, weights)
        picked = tensor.where(ignored, 0, picked)
    loss = -picked * weights
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / weights.sum()
