"""eqsat.nn beside torch.nn.functional: the names and the order of arguments, the values, and calls in another order."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from eqsat import nn, tensor
from eqsat.lazy.keyword_names import NO_EFFECT
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from tests.eqsat.lazy.test_torch_habits import lazily

Call = Callable[..., Any]

torch.manual_seed(4)
SHARED = sorted(
    name for name in nn.__all__ if isinstance(getattr(nn, name), FunctionType) and hasattr(functional, name)
)
BY_NAME = {
    "batch_norm": {"running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"},
    "instance_norm": {"running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"},
    "dropout": {"training"},
    "nll_loss": {"ignore_index", "reduction"},
    "cross_entropy": {"ignore_index", "reduction", "label_smoothing"},
    "binary_cross_entropy": {"reduction"},
    "binary_cross_entropy_with_logits": {"reduction", "pos_weight"},
    "kl_div": {"reduction", "log_target"},
    "l1_loss": {"reduction", "weight"},
    "mse_loss": {"reduction", "weight"},
    "huber_loss": {"reduction", "delta", "weight"},
    "smooth_l1_loss": {"reduction", "beta"},
    "softmax": {"dtype"},
    "softmin": {"dtype"},
    "log_softmax": {"dtype"},
    "interpolate": {"recompute_scale_factor", "antialias"},
}
"""Arguments that are passed by name here: torch has others before them, or other libraries order them differently."""
LACKING = {"instance_norm": {"running_mean", "running_var", "use_input_stats", "momentum"}}
"""Arguments of torch that a function refuses by any name."""


def torchs_parameters(name: str) -> list[str]:
    """The names of a function's parameters in torch, from its signature or, of a builtin, from its docstring."""
    function = getattr(functional, f"{name}_with_indices", getattr(functional, name))
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        written = re.search(rf"^{name}\((.*?)\) ->", function.__doc__ or "", re.DOTALL | re.MULTILINE)
        assert written is not None, name
        return [part.split("=")[0].strip(" *\n") for part in written[1].split(",")]


@pytest.mark.parametrize("name", SHARED)
def test_parameters_have_torchs_names_and_order(name: str) -> None:
    ours = getattr(nn, name)
    names = {"normalized_shape", "weight", "bias", "eps"} if name in ("layer_norm", "rms_norm") else set()
    renamed = getattr(ours, "torchs_names", {})
    parameters = {**inspect.signature(ours).parameters}
    known = {*parameters, *renamed, *NO_EFFECT, *names} | ({"input"} if "x" in parameters else set())
    theirs = torchs_parameters(name)
    missing = [parameter for parameter in theirs if parameter not in known]
    assert set(missing) <= LACKING.get(name, set()), f"{name} takes no {missing}"
    order = list(parameters)
    shared = [
        renamed.get(parameter, parameter)
        for parameter in theirs
        if parameter not in NO_EFFECT and parameter not in names
    ]
    by_name = {renamed.get(parameter, parameter) for parameter in BY_NAME.get(name, ())}
    placed = [parameter for parameter in shared if parameter in parameters and parameter not in by_name]
    assert [order.index(parameter) for parameter in placed] == list(range(len(placed))), (
        f"{name}: {placed} against {order}"
    )


def same(name: str, *arguments: Any, tolerance: float = 2e-5, **keywords: Any) -> None:
    """The values of a function of eqsat.nn and of torch's function of this name agree."""
    arrays = [argument for argument in (*arguments, *keywords.values()) if isinstance(argument, torch.Tensor)]

    def call(*inputs: Any) -> Any:
        left = iter(inputs)
        given = [next(left) if isinstance(argument, torch.Tensor) else argument for argument in arguments]
        named = {key: next(left) if isinstance(keyword, torch.Tensor) else keyword for key, keyword in keywords.items()}
        return getattr(nn if isinstance(inputs[0], Tensor) else functional, name)(*given, **named)

    expected = call(*arrays)
    (actual,) = lazily(call, *arrays)
    assert actual.shape == tuple(expected.shape)
    assert actual.dtype == expected.numpy().dtype
    np.testing.assert_allclose(actual, expected.numpy(), rtol=tolerance, atol=tolerance)


X, IMAGE, LINE = torch.randn(2, 3, 4), torch.randn(2, 4, 6, 6), torch.randn(2, 4, 7)
LOGITS, CLASSES, WEIGHTS = torch.randn(5, 4), torch.tensor([0, 3, -100, 1, 3]), torch.rand(4)
Q, K, V = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 6)
W4, B4 = torch.randn(4), torch.randn(4)


@pytest.mark.parametrize(
    "name",
    [
        "relu", "sigmoid", "tanh", "silu", "gelu", "mish", "elu", "selu", "celu", "leaky_relu", "hardswish",
        "hardsigmoid", "hardtanh", "relu6", "softplus", "logsigmoid", "softsign", "tanhshrink",
    ],
)  # fmt: skip
def test_activations_are_torchs(name: str) -> None:
    same(name, X * 6)
    same(name, input=X)


def test_arguments_of_activations_are_torchs() -> None:
    same("gelu", X, approximate="tanh")
    same("leaky_relu", X, 0.1)
    same("leaky_relu", X, negative_slope=0.2, inplace=False)
    same("elu", X, alpha=0.5)
    same("celu", X, 0.5)
    same("hardtanh", X, -0.3, 0.4)
    same("softplus", X * 30, 2, 10)
    same("glu", X, dim=-1)
    same("prelu", X, torch.tensor([0.2]))
    same("prelu", X, torch.randn(3))
    same("softmax", X, dim=1)
    same("softmax", X, -1, dtype=torch.float64)
    same("softmin", X, dim=1)
    same("log_softmax", X, dim=0)
    same("normalize", X, dim=1)
    same("normalize", X, 1, -1)
    same("cosine_similarity", X, X.flip(0), dim=1)
    same("pixel_shuffle", IMAGE, 2)
    same("pixel_unshuffle", IMAGE, downscale_factor=3)


def test_layers_are_torchs() -> None:
    same("linear", X, torch.randn(7, 4), torch.randn(7))
    same("linear", X, torch.randn(4))
    same("linear", X, weight=torch.randn(7, 4), bias=torch.randn(7))
    same("embedding", torch.tensor([[0, 2], [1, 1]]), torch.randn(3, 5))
    same("embedding", torch.tensor([2, 0]), torch.randn(3, 5), padding_idx=0)
    same("one_hot", torch.tensor([[0, 2], [1, 1]]), 4)
    same("layer_norm", X, (4,), torch.randn(4), torch.randn(4))
    same("layer_norm", X, normalized_shape=(3, 4), weight=torch.randn(3, 4), bias=torch.randn(3, 4), eps=0.1)
    same("rms_norm", X * 1e-3, (4,))
    same("rms_norm", X.double() * 1e-8, (4,), torch.randn(4, dtype=torch.float64))
    same("rms_norm", X, (3, 4), eps=0.5)
    same("layer_norm", input=X, normalized_shape=(4,), weight=torch.randn(4))
    same("group_norm", IMAGE, 2, W4, B4)
    same("batch_norm", IMAGE, running_mean=W4, running_var=B4.abs(), weight=B4, bias=W4, eps=0.1)
    same("local_response_norm", IMAGE, 3)
    same("local_response_norm", IMAGE, 2, alpha=0.5, beta=0.5, k=2.0)
    same("conv2d", IMAGE, torch.randn(6, 2, 3, 3), torch.randn(6), (2, 1), (1, 2), (1, 2), 2)
    same("conv2d", input=IMAGE, weight=torch.randn(6, 4, 3, 3), padding="same")
    same("conv1d", LINE, torch.randn(3, 4, 2), None, 2)
    same("conv_transpose2d", IMAGE, torch.randn(4, 3, 2, 2), torch.randn(3), 2, 1, 1, 1, 1)
    same("max_pool2d", IMAGE, kernel_size=2, stride=1, padding=1, ceil_mode=True)
    same("avg_pool2d", IMAGE, (2, 3), 2, count_include_pad=False)
    same("lp_pool2d", IMAGE.abs(), 2.0, kernel_size=2)
    same("unfold", IMAGE, kernel_size=2, stride=2)
    same("fold", torch.randn(1, 8, 9), (6, 6), kernel_size=2, stride=2)
    same("adaptive_avg_pool2d", IMAGE, (3, None))
    same("interpolate", IMAGE, scale_factor=2, mode="nearest")
    same("interpolate", IMAGE, size=(9, 4), mode="bilinear", align_corners=True)
    same("interpolate", IMAGE, scale_factor=1.5, mode="bicubic")
    same("interpolate", IMAGE, scale_factor=1.7, mode="bilinear", align_corners=True)
    same("interpolate", IMAGE, size=(3, 9), mode="bilinear", align_corners=True, antialias=True)
    same("interpolate", IMAGE, scale_factor=0.7, mode="bicubic", antialias=True)
    same("pad", X, (1, 2))
    same("pad", X, (1, -1, 0, 2), value=3.0)
    same("pad", IMAGE, (2, 1, 0, 3), "reflect")
    same("pad", LINE, (2, 1), mode="replicate")
    same("pad", IMAGE, (2, 1, 3, 3), mode="circular")
    assert nn.dropout(tensor.input("x", (2,)), 0.5, False).shape == (2,)
    assert nn.dropout(tensor.input("x", (2,)), training=False).shape == (2,)


def test_losses_are_torchs() -> None:
    for reduction in ("none", "sum", "mean"):
        same("cross_entropy", LOGITS, CLASSES, reduction=reduction)
        same("cross_entropy", LOGITS, CLASSES, WEIGHTS, label_smoothing=0.2, reduction=reduction)
        same("cross_entropy", LOGITS, LOGITS.softmax(1), WEIGHTS, label_smoothing=0.1, reduction=reduction)
        same("nll_loss", LOGITS, CLASSES.clamp(min=0), WEIGHTS, ignore_index=3, reduction=reduction)
        same("mse_loss", X, X.flip(0), reduction=reduction)
        same("mse_loss", X, X.flip(0), reduction=reduction, weight=X.abs())
        same("l1_loss", X, X.flip(0), reduction=reduction, weight=X.abs())
        same("huber_loss", X, X.flip(0), delta=0.5, reduction=reduction, weight=X.abs())
        same("smooth_l1_loss", X, X.flip(0), beta=0.5, reduction=reduction)
        same("smooth_l1_loss", X, X.flip(0), beta=0.0, reduction=reduction)
        same("binary_cross_entropy", X.sigmoid(), (X > 0).float(), X.abs(), reduction=reduction)
        same("binary_cross_entropy_with_logits", X * 20, (X > 0).float(), reduction=reduction, pos_weight=torch.rand(4))
        same("kl_div", X.log_softmax(-1), X.flip(0).softmax(-1), reduction=reduction)
        same("kl_div", X.log_softmax(-1), X.flip(0).log_softmax(-1), log_target=True, reduction=reduction)
    same("kl_div", X.log_softmax(-1), X.flip(0).softmax(-1), reduction="batchmean")
    same("cross_entropy", LOGITS[0], torch.tensor(2))
    same("cross_entropy", IMAGE, torch.randint(0, 4, (2, 6, 6)))
    same("binary_cross_entropy", torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0]))


def test_attention_is_torchs() -> None:
    name = "scaled_dot_product_attention"
    k, v = K.repeat_interleave(2, 1), V.repeat_interleave(2, 1)
    same(name, Q, k, v)
    same(name, Q, k, v, is_causal=True)
    same(name, Q, k, v, scale=0.3)
    same(name, Q, K, V, enable_gqa=True)
    hidden = torch.tensor([[True, False, True, True, False], [False] * 5, [True] * 5])
    same(name, Q, k, v, hidden)
    same(name, Q, k, v, attn_mask=torch.where(hidden, 0.5, -math.inf))


x, w, b = tensor.input("x", (2, 8)), tensor.input("w", (8,)), tensor.input("b", (8,))
image, filters = tensor.input("image", (1, 2, 6, 6)), tensor.input("filters", (2, 2, 3, 3))
index, table = tensor.input("index", (5,), "i64"), tensor.input("table", (10, 8))
logits = tensor.input("logits", (5, 10))
NN: Any = nn
REFUSED: dict[str, tuple[Kind, Callable[[], Any], str]] = {
    "embedding(weight, index)": (Kind.DTYPE_MISMATCH, lambda: nn.embedding(table, index), "embedding(x, weight)"),
    "an embedding of a vector": (Kind.AXIS_SIZE_MISMATCH, lambda: nn.embedding(index, w), "two axes"),
    "an embedding that is renormed": (
        Kind.UNSUPPORTED_OP,
        lambda: nn.embedding(index, table, max_norm=1.0),
        "max_norm",
    ),
    "a weight [in, out]": (Kind.AXIS_SIZE_MISMATCH, lambda: nn.linear(x, tensor.input("t", (8, 3))), "[out, in]"),
    "linear(weight, x)": (Kind.AXIS_SIZE_MISMATCH, lambda: nn.linear(tensor.input("t", (3, 5)), x), "do not fit"),
    "a bias of one number": (
        Kind.BROADCAST_MISMATCH,
        lambda: nn.linear(x, tensor.input("t", (3, 8)), tensor.input("one", (1,))),
        "one number per output",
    ),
    "cross_entropy(target, logits)": (Kind.DTYPE_MISMATCH, lambda: nn.cross_entropy(index, logits), "come first"),
    "classes of another batch": (Kind.AXIS_SIZE_MISMATCH, lambda: nn.cross_entropy(logits[:4], index), "[4]"),
    "one-hot classes": (Kind.AXIS_SIZE_MISMATCH, lambda: nn.cross_entropy(logits, nn.one_hot(index, 10)), "[5]"),
    "a target that broadcasts": (Kind.BROADCAST_MISMATCH, lambda: nn.mse_loss(x, x[:, :1]), "expand"),
    "another reduction": (Kind.MALFORMED_GRAPH, lambda: nn.mse_loss(x, x, reduction="average"), "none, sum, mean"),
    "size_average": (Kind.UNSUPPORTED_OP, lambda: NN.mse_loss(x, x, size_average=True), "size_average="),
    "a stride for a bias": (Kind.MALFORMED_GRAPH, lambda: NN.conv2d(image, filters, 2), "bias"),
    "strides for a bias": (Kind.MALFORMED_GRAPH, lambda: NN.conv2d(image, filters, (2, 2)), "bias"),
    "a kernel for a weight": (Kind.MALFORMED_GRAPH, lambda: NN.conv2d(image, 3), "weight"),
    "ONNX's four pads": (Kind.MALFORMED_GRAPH, lambda: nn.conv2d(image, filters, padding=(1, 1, 1, 1)), "padding"),
    "NumPy's pads": (Kind.MALFORMED_GRAPH, lambda: NN.pad(x, ((1, 1), (0, 2))), "x.pad"),
    "too many pads": (Kind.MALFORMED_GRAPH, lambda: nn.pad(x, (1, 1, 1, 1, 1, 1)), "last axis"),
    "a reflection beyond the axis": (Kind.AXIS_SIZE_MISMATCH, lambda: nn.pad(x, (8, 0), "reflect"), "7 at most"),
    "a keyword that layer_norm lacks": (Kind.MALFORMED_GRAPH, lambda: NN.layer_norm(x, (8,), wieght=w), "weight="),
    "batch_norm by places": (Kind.MALFORMED_GRAPH, lambda: nn.batch_norm(x, w, b, w, b), "by name"),
    "batch_norm in training": (
        Kind.UNSUPPORTED_OP,
        lambda: nn.batch_norm(x, mean=w, var=b, training=True),
        "running statistics",
    ),
    "a statistic for all": (Kind.BROADCAST_MISMATCH, lambda: nn.batch_norm(x, mean=w[:1], var=w), "mean"),
    "a norm's weight of one number": (Kind.BROADCAST_MISMATCH, lambda: nn.layer_norm(x, (8,), w[:1]), "the last sizes"),
    "a norm's weight of the batch": (
        Kind.BROADCAST_MISMATCH,
        lambda: nn.layer_norm(x, tensor.input("column", (2, 1))),
        "the last sizes",
    ),
    "group_norm(x, weight)": (Kind.MALFORMED_GRAPH, lambda: NN.group_norm(image, w), "num_groups"),
    "where with one argument": (Kind.MALFORMED_GRAPH, lambda: tensor.where(x > 0), "where(condition, a, b)"),
    "where in another order": (Kind.DTYPE_MISMATCH, lambda: tensor.where(x, x > 0, 0.0), "where(condition, a, b)"),
    "a dropout without a seed": (Kind.MALFORMED_GRAPH, lambda: nn.dropout(x, 0.1), "seed"),
    "a dropout in training": (Kind.MALFORMED_GRAPH, lambda: nn.dropout(x, 0.1, True), "seed"),
    "a relu in place": (Kind.UNSUPPORTED_OP, lambda: NN.relu(x, inplace=True), "inplace="),
    "attention with dropout": (
        Kind.UNSUPPORTED_OP,
        lambda: nn.scaled_dot_product_attention(x, x, x, dropout_p=0.1),
        "seed",
    ),
    "heads that are not shared": (
        Kind.AXIS_SIZE_MISMATCH,
        lambda: nn.scaled_dot_product_attention(image, image[:, :1].expand(1, 5, 6, 6), image, enable_gqa=True),
        "divides H",
    ),
    "classes of floats": (Kind.DTYPE_MISMATCH, lambda: nn.one_hot(x, 3), "integers"),
    "classes without a number": (Kind.MALFORMED_GRAPH, lambda: nn.one_hot(index), "number of classes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_of_another_order_are_refused(name: str) -> None:
    kind, call, word = REFUSED[name]
    with pytest.raises(EqsatError) as caught:
        call()
    assert caught.value.kind is kind, str(caught.value)
    assert word in str(caught.value), str(caught.value)
