"""Programs for which kernels are usually written by hand, op by op. `docs/derived.md` shows their kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from eqsat import nn
from eqsat.tensor import Tensor, constant, iota, where
from eqsat.tensor import input as input_

Source = Callable[..., Tensor]
"""A program; its one argument, with a default, is its size."""


def weight(name: str, *shape: int) -> Tensor:
    """A constant with a name, seeded by the name and scaled so that activations stay near unit size."""
    values = np.random.default_rng(sum(map(ord, name))).standard_normal(shape)
    return constant((values / np.sqrt(max(1, int(np.prod(shape[:-1]))))).astype(np.float32), name=name)


def heads(*lead: int, tokens: int, size: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values."""
    q, k, v = (input_(name, (*lead, tokens, size)) for name in "qkv")
    return q, k, v


def attention(tokens: int = 1024) -> Tensor:
    """softmax(q·kᵀ/√d)·v, 4 heads of 1024 × 64"""
    return nn.attention(*heads(4, tokens=tokens))


def causal_attention(tokens: int = 1024) -> Tensor:
    """the same where no query sees a later key, with a bias on the scores"""
    return nn.attention(*heads(4, tokens=tokens), mask=input_("bias", (tokens, tokens)), causal=True)


def grouped_attention(tokens: int = 1024) -> Tensor:
    """4 heads of queries for each of 2 heads of keys and values, 1024 × 64"""
    q = input_("q", (2, 4, tokens, 64))
    k, v = (input_(name, (2, 1, tokens, 64)) for name in "kv")
    return nn.attention(q, k, v)


def lora(rows: int = 64) -> Tensor:
    """x·W + b + (x·A)·B·s, constants but x; 64 × 256 × 256, rank 8"""
    x = input_("x", (rows, 256))
    update = (x @ weight("A", 256, 8)) @ weight("B", 8, 256)
    return x @ weight("W", 256, 256) + weight("b", 256) + update * 0.5


def lora_beside(size: int = 256) -> Tensor:
    """x + (A·B)·x, none constant: 256 × 256, rank 8"""
    a, b, x = input_("a", (size, 8)), input_("b", (8, size)), input_("x", (size, size))
    return x + (a @ b) @ x


def self_attention(tokens: int = 64) -> Tensor:
    """queries, keys and values of x, attention, and the projection: 64 tokens of 128, 4 heads"""
    x = input_("x", (tokens, 128))
    q, k, v = ((x @ weight(name, 128, 128)).reshape(tokens, 4, 32).permute(1, 0, 2) for name in ("Wq", "Wk", "Wv"))
    return nn.attention(q, k, v).permute(1, 0, 2).reshape(tokens, 128) @ weight("Wo", 128, 128)


def rms_norm_linear(rows: int = 64) -> Tensor:
    """(x / rms x ∘ g)·W, 64 × 256 × 256"""
    return nn.rms_norm(input_("x", (rows, 256)), weight("g", 256)) @ weight("W", 256, 256)


def gated_mlp(rows: int = 64) -> Tensor:
    """(silu(x·W) ∘ (x·V))·U: 64 tokens of 256, hidden 512"""
    x = input_("x", (rows, 256))
    return (nn.silu(x @ weight("W", 256, 512)) * (x @ weight("V", 256, 512))) @ weight("U", 512, 256)


def nll(rows: int = 8192) -> Tensor:
    """−log_softmax(x) at the labels, 8192 rows of 1024"""
    labels = input_("label", (rows, 1), "i32").expand(rows, 1024)
    chosen = where(iota((rows, 1024), 1, "i32") == labels, nn.log_softmax(input_("x", (rows, 1024))), 0.0)
    return -chosen.sum(1)


def conv_block(pixels: int = 28) -> Tensor:
    """relu(batch_norm(conv(x)) + x): 3 × 3, 32 channels at 28 × 28"""
    x = input_("x", (1, 32, pixels, pixels))
    product = nn.conv2d(x, weight("F", 32, 32, 3, 3), padding=1)
    scale, shift, mean, spread = (weight(name, 32) for name in ("scale", "shift", "mean", "spread"))
    normal = nn.batch_norm(product, mean=mean, var=spread * spread + 1.0, weight=scale, bias=shift)
    return nn.relu(normal + x)


def softmax(rows: int = 8192) -> Tensor:
    """of rows, 8192 × 1024"""
    return nn.softmax(input_("x", (rows, 1024)))


def log_softmax(rows: int = 8192) -> Tensor:
    """of rows, 8192 × 1024"""
    return nn.log_softmax(input_("x", (rows, 1024)))


def argmax(rows: int = 8192) -> Tensor:
    """of rows, 8192 × 1024"""
    return input_("x", (rows, 1024)).argmax(1)


def layer_norm(rows: int = 8192) -> Tensor:
    """of rows with weight and bias, 8192 × 1024"""
    return nn.layer_norm(input_("x", (rows, 1024)), input_("weight", (1024,)), input_("bias", (1024,)))


def rms_norm_residual(rows: int = 8192) -> Tensor:
    """rms_norm(x + residual) · g as fp16, 8192 × 1024"""
    x, residual = input_("x", (rows, 1024)), input_("residual", (rows, 1024))
    return nn.rms_norm(x + residual, input_("g", (1024,))).cast("fp16")


PROGRAMS: Mapping[str, Source] = {
    "FlashAttention": attention,
    "causal, biased attention": causal_attention,
    "grouped-query attention": grouped_attention,
    "self-attention layer (QKV merged)": self_attention,
    "LoRA, weights known": lora,
    "LoRA, reassociated": lora_beside,
    "RMS norm + linear": rms_norm_linear,
    "gated MLP (SwiGLU)": gated_mlp,
    "log-softmax + NLL": nll,
    "conv + batch norm + ReLU + residual": conv_block,
    "softmax": softmax,
    "log-softmax": log_softmax,
    "argmax": argmax,
    "layer norm": layer_norm,
    "RMS norm + residual + cast": rms_norm_residual,
}
