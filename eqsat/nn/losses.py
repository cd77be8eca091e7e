"""Losses, in torch's order of arguments: the prediction, then the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

from eqsat.lazy.argument_checks import STAGE, flag, integer, number, one_of, refuse
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.activations import log_softmax
from eqsat.nn.operands import Operand, floats_of, tensor_of
from eqsat.tensor import Tensor, full, where
from ir.diagnostics import Kind, fail

_REDUCTIONS = ("none", "sum", "mean")


@takes_torchs_names
def mse_loss(x: Operand, target: Operand, *, reduction: str = "mean", weight: Operand | None = None) -> Tensor:
    """(x − target)²"""
    return _elementwise("mse_loss", lambda a, b: (a - b) * (a - b), x, target, reduction, weight, weighted_mean=True)


@takes_torchs_names
def l1_loss(x: Operand, target: Operand, *, reduction: str = "mean", weight: Operand | None = None) -> Tensor:
    """|x − target|"""
    return _elementwise("l1_loss", lambda a, b: abs(a - b), x, target, reduction, weight, weighted_mean=True)


@takes_torchs_names
def smooth_l1_loss(x: Operand, target: Operand, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d² / 2β where d = |x − target| is below β, else d − β / 2"""
    edge = number(beta, "beta")
    if edge < 0:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"beta is {edge}", op="smooth_l1_loss", hint="a number from 0 on")

    def smooth(a: Tensor, b: Tensor) -> Tensor:
        distance = abs(a - b)
        return where(distance < edge, distance * distance * (0.5 / edge), distance - 0.5 * edge) if edge else distance

    return _elementwise("smooth_l1_loss", smooth, x, target, reduction, None)


@takes_torchs_names
def huber_loss(
    x: Operand, target: Operand, *, reduction: str = "mean", delta: float = 1.0, weight: Operand | None = None
) -> Tensor:
    """d² / 2 where d = |x − target| is at most δ, else δ (d − δ / 2)"""
    edge = number(delta, "delta")
    if edge <= 0:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"delta is {edge}", op="huber_loss", hint="a number above 0")

    def huber(a: Tensor, b: Tensor) -> Tensor:
        distance = abs(a - b)
        return where(distance <= edge, distance * distance * 0.5, (distance - 0.5 * edge) * edge)

    return _elementwise("huber_loss", huber, x, target, reduction, weight)


@takes_torchs_names
def binary_cross_entropy(
    x: Operand, target: Operand, weight: Operand | None = None, *, reduction: str = "mean"
) -> Tensor:
    """−(target · log x + (1 − target) · log(1 − x)) for probabilities x; logarithms are −100 at least, as in torch."""

    def entropy(p: Tensor, t: Tensor) -> Tensor:
        return (t - 1) * (1 - p).log().maximum(-100.0) - t * p.log().maximum(-100.0)

    return _elementwise("binary_cross_entropy", entropy, x, target, reduction, weight)


@takes_torchs_names
def binary_cross_entropy_with_logits(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Operand | None = None,
) -> Tensor:
    """`binary_cross_entropy` of σ(x), without overflow. pos_weight: the weight of the targets that are 1, which
    broadcasts."""

    def entropy(logits: Tensor, t: Tensor) -> Tensor:
        softness = ((-abs(logits)).exp() + 1).log() + (-logits).maximum(0)
        if pos_weight is None:
            return (1 - t) * logits + softness
        factor = (tensor_of("binary_cross_entropy_with_logits", "pos_weight", pos_weight) - 1) * t + 1
        return (1 - t) * logits + factor * softness

    return _elementwise("binary_cross_entropy_with_logits", entropy, x, target, reduction, weight)


@takes_torchs_names
def kl_div(x: Operand, target: Operand, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target · (log target − x) for log-probabilities x; "batchmean" divides the sum by the size of axis 0."""

    def divergence(a: Tensor, t: Tensor) -> Tensor:
        if flag(log_target, "log_target"):
            return t.exp() * (t - a)
        return where(t > 0, t * (where(t > 0, t, 1.0).log() - a), where(t != t, t, 0.0))

    if reduction == "batchmean":
        total = _elementwise("kl_div", divergence, x, target, "sum", None)
        return total * (1.0 / max(tensor_of("kl_div", "x", x).shape[0], 1))
    return _elementwise("kl_div", divergence, x, target, reduction, None)


@takes_torchs_names
def nll_loss(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: SupportsIndex = -100,
    reduction: str = "mean",
) -> Tensor:
    """−weight[target] · x[n, target, …] for log-probabilities x [N, C, …] or [C], and a target of class numbers [N, …]
    or []. A target of `ignore_index` counts nothing. The mean divides by the sum of the weights."""
    logarithms = floats_of(tensor_of("nll_loss", "x", x))
    classes = _class_numbers("nll_loss", logarithms, tensor_of("nll_loss", "target", target))
    return likelihood_loss("nll_loss", logarithms, classes, weight, integer(ignore_index, "ignore_index"), reduction)


@takes_torchs_names
def cross_entropy(
    x: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: SupportsIndex = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """−Σ p · log softmax(x) over the classes of x [N, C, …] or [C].

    target: class numbers [N, …] or [], or the probabilities p of the classes, floats in the shape of x. A class number
        of `ignore_index` counts nothing.
    weight: one number per class. The mean divides by the sum of the weights of the classes that count; with
        probabilities, by the number of rows.
    label_smoothing: this part of the probability is spread over all classes.

    Raises:
        EqsatError: DtypeMismatch or AxisSizeMismatch, for x and target in another order, and for other shapes.
    """
    op = "cross_entropy"
    logits, goal = tensor_of(op, "x", x), tensor_of(op, "target", target)
    if not logits.dtype.is_float:
        hint = "cross_entropy(x, target): the scores of the classes come first"
        message = f"scores are floats, not {logits.dtype}"
        refuse(Kind.DTYPE_MISMATCH, op, message, logits.shape, goal.shape, hint=hint)
    smoothing = number(label_smoothing, "label_smoothing")
    if not 0 <= smoothing <= 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"label_smoothing is {smoothing}", op=op, hint="a number from 0 to 1")
    logarithms = log_softmax(logits, _class_axis(op, logits))
    if goal.dtype.is_float:
        if goal.shape != logits.shape:
            hint = "integers for class numbers; floats in the shape of x for probabilities"
            message = "probabilities have the shape of x"
            refuse(Kind.AXIS_SIZE_MISMATCH, op, message, logits.shape, goal.shape, hint=hint)
        return _of_probabilities(op, logarithms, goal, weight, smoothing, reduction)
    classes = _class_numbers(op, logits, goal)
    ignored = integer(ignore_index, "ignore_index")
    loss = likelihood_loss(op, logarithms, classes, weight, ignored, reduction)
    if not smoothing:
        return loss
    spread = _smoothed(op, logarithms, classes, weight, ignored, reduction)
    return loss * (1 - smoothing) + spread * (smoothing / logits.shape[_class_axis(op, logits)])


def likelihood_loss(
    op: str, x: Tensor, target: Tensor, weight: Operand | None, ignore_index: int | None, reduction: str
) -> Tensor:
    """−weight[target] · x[n, target, …] for x [N, C, …]; a target of `ignore_index` counts nothing. The mean divides by
    the sum of the weights."""
    axis = _class_axis(op, x)
    weights, counted, safe = _weights_of(op, x, target, weight, ignore_index)
    picked = x.gather(axis, safe.unsqueeze(axis)).squeeze(axis)
    loss = -(picked if counted is None else where(counted, picked, 0)) * weights
    if one_of(reduction, _REDUCTIONS, "reduction") == "mean":
        return loss.sum() / weights.sum()
    return loss if reduction == "none" else loss.sum()


def _weights_of(
    op: str, x: Tensor, target: Tensor, weight: Operand | None, ignore_index: int | None
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The weight of each target, whether it counts (None: all do), and a class number that exists."""
    index = target.cast("i64")
    counted = None if ignore_index is None else index.ne(ignore_index)
    safe = index if counted is None else where(counted, index, 0)
    by_class = _class_weights(op, x, weight)
    weights = full(target.shape, 1.0, x.dtype) if by_class is None else by_class.take(safe, 0)
    return weights if counted is None else where(counted, weights, 0), counted, safe


def _smoothed(op: str, x: Tensor, target: Tensor, weight: Operand | None, ignore_index: int, reduction: str) -> Tensor:
    """−Σ weight · x over the classes, for every target that counts, reduced as the loss is."""
    axis = _class_axis(op, x)
    weights, counted, _ = _weights_of(op, x, target, weight, ignore_index)
    by_class = _class_weights(op, x, weight)
    scaled = x if by_class is None else x * by_class.reshape(-1, *(1,) * (x.ndim - axis - 1))
    total = -scaled.sum(axis)
    total = total if counted is None else where(counted, total, 0)
    if reduction == "none":
        return total
    return total.sum() if reduction == "sum" else total.sum() / weights.sum()


def _of_probabilities(
    op: str, x: Tensor, target: Tensor, weight: Operand | None, smoothing: float, reduction: str
) -> Tensor:
    axis = _class_axis(op, x)
    goal = target * (1 - smoothing) + smoothing / x.shape[axis] if smoothing else target
    by_class = _class_weights(op, x, weight)
    scaled = goal if by_class is None else goal * by_class.reshape(-1, *(1,) * (x.ndim - axis - 1))
    loss = -(x * scaled).sum(axis)
    if one_of(reduction, _REDUCTIONS, "reduction") == "mean":
        return loss.sum() * (1.0 / max(loss.size, 1))
    return loss if reduction == "none" else loss.sum()


def _class_axis(op: str, x: Tensor) -> int:
    if not x.ndim:
        refuse(Kind.AXIS_SIZE_MISMATCH, op, "x has no classes", x.shape, hint="x [N, C, …] or [C]")
    return 0 if x.ndim == 1 else 1


def _class_numbers(op: str, x: Tensor, target: Tensor) -> Tensor:
    """The target, after a check that it holds a class number per row of x."""
    axis = _class_axis(op, x)
    wanted = (*x.shape[:axis], *x.shape[axis + 1 :])
    if not target.dtype.is_int:
        message = f"class numbers are integers, not {target.dtype}"
        refuse(Kind.DTYPE_MISMATCH, op, message, x.shape, target.shape, hint=f"{op}(x, target)")
    if target.shape != wanted:
        hint = f"a target {list(wanted)}: the sizes of x without the classes, which are axis {axis}"
        refuse(Kind.AXIS_SIZE_MISMATCH, op, "x and target do not fit one another", x.shape, target.shape, hint=hint)
    return target


def _class_weights(op: str, x: Tensor, weight: Operand | None) -> Tensor | None:
    if weight is None:
        return None
    numbers, count = tensor_of(op, "weight", weight), x.shape[_class_axis(op, x)]
    if numbers.shape != (count,):
        hint = f"a weight [{count}]"
        refuse(Kind.AXIS_SIZE_MISMATCH, op, "the weight has one number per class", x.shape, numbers.shape, hint=hint)
    return numbers


def _elementwise(
    op: str,
    loss: Callable[[Any, Any], Tensor],
    x: Operand,
    target: Operand,
    reduction: str,
    weight: Operand | None,
    weighted_mean: bool = False,
) -> Tensor:
    """The loss of every element, times its weight, and reduced. x and target have one shape: a target that broadcasts
    is most often a mistake. weighted_mean: the mean divides by the sum of the weights."""
    first, second = floats_of(tensor_of(op, "x", x)), floats_of(tensor_of(op, "target", target))
    if first.shape != second.shape:
        hint = "target.expand(x.shape), or unsqueeze, if it is meant to broadcast"
        refuse(Kind.BROADCAST_MISMATCH, op, "x and target have different shapes", first.shape, second.shape, hint=hint)
    value = loss(first, second)
    if weight is not None:
        weights = tensor_of(op, "weight", weight).expand(value.shape)
        value = value * weights
        if weighted_mean and reduction == "mean":
            return value.sum() / weights.sum()
    if one_of(reduction, _REDUCTIONS, "reduction") == "mean":
        return value.mean()
    return value if reduction == "none" else value.sum()
