"""The programs of the ablation and fidelity benches: building blocks of models, and whole light models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from eqsat import nn
from eqsat.tensor import Tensor, constant
from eqsat.tensor import input as input_
from eqsat.zoo import light_model

Source = Callable[[], Any]


def programs(models: Sequence[str] = ()) -> dict[str, Source]:
    """All programs by name, as functions that build them; with `models`, light models, which take long, too."""
    sources: dict[str, Source] = {
        "gemm+epilogue": gemm_epilogue,
        "linear+gelu": linear_gelu,
        "mlp": mlp,
        "gated mlp": gated_mlp,
        "conv block": conv_block,
        "bottleneck": bottleneck,
        "softmax": softmax,
        "log-softmax+nll": log_softmax_loss,
        "layer norm": layer_norm,
        "rms norm+linear": rms_norm_linear,
        "pointwise": pointwise,
        "attention": attention,
        "transformer block": transformer_block,
    }
    return sources | {name: _model(name) for name in models}


def _model(name: str) -> Source:
    return lambda: light_model(name)


class _Weights:
    """Constant seeded weights, scaled so that activations stay near unit size."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def __call__(self, *shape: int) -> Tensor:
        scale = np.float32(1 / np.sqrt(max(1, int(np.prod(shape[:-1])))))
        return constant(self._rng.standard_normal(shape, dtype=np.float32) * scale)

    def several(self, count: int, *shape: int) -> Iterator[Tensor]:
        return (self(*shape) for _ in range(count))


def gemm_epilogue() -> Tensor:
    """(A·B)·scale + bias, SiLU, + residual, GELU: 256 × 256 × 512; B is an input."""
    a, b, residual = input_("a", (256, 512)), input_("b", (512, 256)), input_("residual", (256, 256))
    scale, bias = input_("scale", (256,)), input_("bias", (256,))
    return nn.gelu(nn.silu((a @ b) * scale + bias) + residual, approximate=True)


def linear_gelu() -> Tensor:
    """GELU by tanh of a linear layer, 128 × 768 × 768."""
    weights = _Weights()
    return nn.gelu(input_("x", (128, 768)) @ weights(768, 768) + weights(768), approximate=True)


def mlp() -> Tensor:
    """Two linear layers with GELU between, and a residual: 64 tokens of 256, hidden 1024."""
    weights, x = _Weights(), input_("x", (64, 256))
    return x + nn.gelu(x @ weights(256, 1024) + weights(1024)) @ weights(1024, 256)


def gated_mlp() -> Tensor:
    """x + (silu(x·W + b) ∘ (x·V + c))·U: 64 tokens of 256, hidden 512."""
    weights, x = _Weights(), input_("x", (64, 256))
    gate, up = (x @ weights(256, 512) + weights(512) for _ in range(2))
    return x + (nn.silu(gate) * up) @ weights(512, 256)


def conv_block() -> Tensor:
    """ResNet's basic block, two 3×3 convolutions with batch norm, and the residual: 16 channels at 28 × 28."""
    weights, x = _Weights(), input_("x", (1, 16, 28, 28))
    y = nn.relu(_batch_norm(nn.conv2d(x, weights(16, 16, 3, 3), padding=1), weights))
    return nn.relu(_batch_norm(nn.conv2d(y, weights(16, 16, 3, 3), padding=1), weights) + x)


def bottleneck() -> Tensor:
    """ResNet's bottleneck: 1×1 to 32 channels, 3×3, 1×1 to 128, each with batch norm, and the residual; 14 × 14."""
    weights, x = _Weights(), input_("x", (1, 128, 14, 14))
    y = nn.relu(_batch_norm(nn.conv2d(x, weights(32, 128, 1, 1)), weights))
    y = nn.relu(_batch_norm(nn.conv2d(y, weights(32, 32, 3, 3), padding=1), weights))
    return nn.relu(_batch_norm(nn.conv2d(y, weights(128, 32, 1, 1)), weights) + x)


def _batch_norm(x: Tensor, weights: _Weights) -> Tensor:
    scale, shift, mean, spread = weights.several(4, x.shape[1])
    return nn.batch_norm(x, mean=mean, var=spread * spread + 1.0, weight=scale, bias=shift)


def softmax() -> Tensor:
    """Softmax of scaled and biased scores, 256 × 512."""
    return nn.softmax(input_("x", (256, 512)) * 0.125 + input_("bias", (512,)))


def log_softmax_loss() -> Tensor:
    """The mean over rows of −log_softmax at one-hot labels, 256 × 512."""
    x, label = input_("x", (256, 512)), input_("label", (256, 512))
    return -(nn.log_softmax(x) * label).sum(1)


def layer_norm() -> Tensor:
    """Layer norm of a sum, GELU after it: 256 × 384."""
    x, y = input_("x", (256, 384)), input_("y", (256, 384))
    return nn.gelu(nn.layer_norm(x + y, input_("weight", (384,)), input_("bias", (384,))))


def rms_norm_linear() -> Tensor:
    """RMS norm, then a linear layer: 128 × 256 × 256."""
    weights = _Weights()
    return nn.rms_norm(input_("x", (128, 256)), weights(256)) @ weights(256, 256)


def pointwise() -> Tensor:
    """Elementwise work over 256 Ki numbers, one operand read across memory."""
    x, y, z = (input_(name, (512, 512)) for name in "xyz")
    gate = z.sigmoid() + y.tanh()
    return nn.silu(x * 0.5 + y.T) * x + ((y * z).exp2().recip() - abs(x - z).sqrt()) * gate


def attention() -> Tensor:
    """Softmax attention, 4 heads, 128 tokens, 32 per head."""
    q, k, v = (input_(name, (4, 128, 32)) for name in "qkv")
    return nn.attention(q, k, v)


def transformer_block() -> Tensor:
    """Pre-norm block: attention with 4 heads and an MLP, 64 tokens of 128."""
    weights, x = _Weights(), input_("x", (64, 128))
    normed = nn.layer_norm(x, weights(128), weights(128))
    q, k, v = ((normed @ weights(128, 128)).reshape(64, 4, 32).permute(1, 0, 2) for _ in range(3))
    x = x + nn.attention(q, k, v).permute(1, 0, 2).reshape(64, 128) @ weights(128, 128)
    hidden = nn.gelu(nn.layer_norm(x, weights(128), weights(128)) @ weights(128, 512) + weights(512))
    return x + hidden @ weights(512, 128)
