"""Layers through their lowerings, forward and backward, beside eager."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

from tests.support.torch.beside_eager import agree, normal

F = torch.nn.functional
torch.manual_seed(0)


def image(*shape: int) -> Any:
    """Distinct elements, so that every window has one maximum."""
    return torch.randperm(torch.Size(shape).numel()).reshape(shape) / 10


IMAGE = image(2, 4, 8, 7)
IDS = torch.tensor([[1, 5, 1], [0, 2, 5]])

Case = tuple[Callable[..., Any], tuple[Any, ...]]
CASES: dict[str, Case] = {
    "softmax": (lambda x: (F.softmax(x, -1), F.log_softmax(x, 0)), (normal(3, 5),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (5,), w, b), (normal(2, 3, 5), normal(5), normal(5))),
    "rms norm": (lambda x, w: F.rms_norm(x, (5,), w), (normal(2, 3, 5), normal(5))),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (IMAGE, normal(4), normal(4))),
    "batch norm of a batch": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (IMAGE, normal(4), normal(4))),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), (IMAGE, normal(6, 4, 3, 3), normal(6))),
    "convolution by groups": (
        lambda x, w: F.conv2d(x, w, None, (1, 2), (0, 2), (2, 1), groups=2),
        (IMAGE, normal(6, 2, 3, 2)),
    ),
    "convolution 1d": (lambda x, w: F.conv1d(x, w, padding=1), (normal(2, 3, 9), normal(4, 3, 3))),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=4), (IMAGE, normal(4, 1, 3, 3))),
    "transposed convolution": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, dilation=1),
        (IMAGE, normal(4, 3, 3, 3), normal(3)),
    ),
    "transposed convolution by groups": (
        lambda x, w: F.conv_transpose2d(x, w, None, 3, groups=2),
        (IMAGE, normal(4, 3, 2, 2)),
    ),
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1), (IMAGE,)),
    "avg pool": (
        lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)),
        (IMAGE,),
    ),
    "avg pool of windows beyond the image": (
        lambda x: (
            F.avg_pool2d(x, 3, 2, 0, True),
            F.avg_pool2d(x, (2, 3), (3, 2), 1, True, count_include_pad=False),
            F.avg_pool2d(x, 3, 2, 1, True, divisor_override=5),
        ),
        (IMAGE,),
    ),
    "adaptive pool": (lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 7))), (IMAGE,)),
    "adaptive pools of windows that overlap": (
        lambda x: (F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_max_pool2d(x, (3, 5)), F.adaptive_max_pool1d(x[0], 3)),
        (IMAGE,),
    ),
    "samples at the points of a grid": (
        lambda x, g: [F.grid_sample(x, g, mode, "zeros", False) for mode in ("bilinear", "nearest", "bicubic")],
        (IMAGE, 1.3 * normal(2, 3, 5, 2)),
    ),
    "samples inside the image": (
        lambda x, g: [F.grid_sample(x, g, padding_mode=mode, align_corners=True) for mode in ("border", "reflection")],
        (IMAGE, 1.3 * normal(2, 3, 5, 2)),
    ),
    "samples of an image that is moved": (
        lambda x, m: F.grid_sample(x, F.affine_grid(m, [2, 4, 8, 7], align_corners=False), align_corners=False),
        (IMAGE, torch.eye(2, 3).repeat(2, 1, 1)),
    ),
    "samples of three axes": (
        lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=False),
        (normal(2, 3, 4, 5, 6), 1.3 * normal(2, 2, 3, 4, 3)),
    ),
    "nearest resizing": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 9))), (IMAGE,)),
    "bilinear resizing": (
        lambda x: (
            F.interpolate(x, scale_factor=2.0, mode="bilinear"),
            F.interpolate(x, size=(5, 9), mode="bilinear", align_corners=True),
        ),
        (IMAGE,),
    ),
    "bicubic resizing": (lambda x: F.interpolate(x, size=(11, 9), mode="bicubic"), (IMAGE,)),
    "smooth resizing": (
        lambda x: (
            F.interpolate(x, size=(3, 9), mode="bilinear", antialias=True),
            F.interpolate(x, scale_factor=(0.5, 0.7), mode="bilinear", antialias=True),
            F.interpolate(x, size=(5, 4), mode="bicubic", antialias=True, align_corners=True),
            F.interpolate(x, size=(1, 3), mode="bilinear", antialias=True, align_corners=True),
        ),
        (IMAGE,),
    ),
    "padding with edges": (
        lambda x: (
            F.pad(x, (1, 2), mode="replicate"),
            F.pad(x, (-1, 2, 1, -2), mode="replicate"),
            F.pad(x[:, :, :1], (0, 1, 2, 3), mode="replicate"),
        ),
        (IMAGE[0],),
    ),
    "elements under a mask": (
        lambda x, y: (x.masked_scatter(x > 0, y), x.masked_scatter(x[:, :1] > 0, y)),
        (normal(3, 4), normal(4, 5)),
    ),
    "embedding": (lambda i, w: F.embedding(i, w, padding_idx=5), (IDS, normal(7, 4))),
    "bags of an embedding": (
        lambda i, o, w, s: (
            F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
            *(F.embedding_bag(i, w, o, mode=mode) for mode in ("sum", "mean", "max")),
            *(F.embedding_bag(i, w, o, mode=mode, padding_idx=0) for mode in ("sum", "mean", "max")),
            *(F.embedding_bag(i, w, o, mode=mode, include_last_offset=True) for mode in ("mean", "max")),
        ),
        (torch.tensor([1, 2, 0, 4, 5, 1, 0]), torch.tensor([0, 3, 3, 5, 7]), normal(7, 4), normal(7)),
    ),
    "bags without rows": (
        lambda i, o, w: [F.embedding_bag(i, w, o, mode=mode) for mode in ("sum", "mean", "max")],
        (torch.zeros(0, dtype=torch.long), torch.tensor([0, 0]), normal(7, 4)),
    ),
    "bags of one size": (lambda i, w: F.embedding_bag(i, w, mode="mean"), (IDS, normal(7, 4))),
    "weight norm": (
        lambda v, g, h: (torch._weight_norm(v, g, 0), torch._weight_norm(v, h, 2)),
        (normal(4, 3, 2), normal(4, 1, 1), normal(1, 1, 2)),
    ),
    "lookup": (lambda i, x: (x[:, i], x[i, i], x[i[0], :, i], x[i - 7]), (IDS, normal(7, 6, 6))),
    "gather": (lambda i, x: x.gather(1, i), (IDS, normal(2, 6))),
    "scatter": (
        lambda i, x, y: (x.scatter(1, i[:, 1:], y[:, 1:]), x.scatter_add(1, i, y), x.index_add(1, i[1], y)),
        (IDS, normal(2, 6), normal(2, 3)),
    ),
    "attention": (F.scaled_dot_product_attention, (normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 4))),
    "attention of grouped heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        (normal(2, 6, 5, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)),
    ),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
        (normal(2, 3, 5, 4), normal(2, 3, 5, 4), normal(2, 3, 5, 4)),
    ),
    "cross entropy": (lambda x, i: F.cross_entropy(x, i), (normal(3, 5), torch.tensor([1, 4, 0]))),
    "activations": (
        lambda x: [f(x) for f in (F.gelu, F.silu, F.hardswish, F.hardsigmoid, F.elu, F.softplus, F.leaky_relu, F.mish)],
        (normal(30),),
    ),
    "distances of rows": (
        lambda x, y: [torch.cdist(x, y, p) for p in (0.0, 0.7, 1.0, 1.5, 2.0, 3.0, math.inf)],
        (torch.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 2.0]]), torch.tensor([[1.0, 2.0], [3.0, -2.0]])),
    ),
    "the greatest elements": (lambda x: x.topk(3), (normal(4, 7),)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_layer_and_its_gradients_are_those_of_eager(case: Case) -> None:
    function, arguments = case
    agree(function, *arguments, kernels=False, gradients=True, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_updates_its_running_statistics(training: bool) -> None:
    def function(x: Any, w: Any, b: Any, mean: Any, variance: Any) -> Any:
        return F.batch_norm(x, mean, variance, w, b, training), mean, variance

    agree(function, IMAGE, normal(4), normal(4), normal(4), normal(4).abs(), kernels=False)


@pytest.mark.parametrize("mask", ["bools", "floats"])
def test_attention_hides_what_the_mask_hides_and_a_row_without_scores_is_zero(mask: str) -> None:
    shown = torch.rand(2, 1, 5, 7) > 0.4
    shown[0, 0, 2] = False

    def attention(q: Any, k: Any, v: Any, shown: Any) -> Any:
        given = shown if mask == "bools" else torch.zeros(shown.shape).masked_fill(~shown, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=given)

    operands = (normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 4))
    agree(attention, *operands, shown, kernels=False, gradients=True, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("element", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_where_eager_rounds(element: Any) -> None:
    x, y, w = (value.to(element) for value in (normal(3, 8), normal(5, 8), normal(8)))
    agree(lambda x, y, w: (x * w + 1 / x, F.gelu(x), F.layer_norm(x, (8,), w), x.mean(1)), x, y, w, kernels=False)
    agree(lambda x, y, w: (x @ y.T).softmax(-1), x, y, w, kernels=False)


def test_bools_choose_in_place() -> None:
    def function(x: Any) -> Any:
        y = x.clone()
        y[x > 0] = 7.0
        return y

    agree(function, normal(4, 5), kernels=False)
