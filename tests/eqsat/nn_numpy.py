"""Neural-network ops written out in NumPy, as references: slow, short, and of no kin to what they test."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

Pads = Sequence[tuple[int, int]]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def windows(
    x: np.ndarray, kernel: Sequence[int], stride: Sequence[int], pads: Pads, dilation: Sequence[int], fill: float
) -> np.ndarray:
    """[N, C, Oy, Ox, Kh, Kw], one output place at a time."""
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    counts = [(size - span) // step + 1 for size, span, step in zip(padded.shape[2:], spans, stride, strict=True)]
    out = np.empty((*x.shape[:2], *counts, *kernel), x.dtype)
    for oy, ox in itertools.product(*map(range, counts)):
        top, left = oy * stride[0], ox * stride[1]
        out[:, :, oy, ox] = padded[:, :, top : top + spans[0] : dilation[0], left : left + spans[1] : dilation[1]]
    return out


def conv2d(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    stride: Sequence[int],
    pads: Pads,
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    patches = windows(x, w.shape[2:], stride, pads, dilation, 0)
    each, result = x.shape[1] // groups, w.shape[0] // groups
    parts = [
        np.einsum("ncyxhw,ochw->noyx", patches[:, g * each : (g + 1) * each], w[g * result : (g + 1) * result])
        for g in range(groups)
    ]
    return np.asarray(np.concatenate(parts, 1) + b[:, None, None])


def max_pool(x: np.ndarray, kernel: Sequence[int], stride: Sequence[int], pads: Pads) -> np.ndarray:
    results: np.ndarray = windows(x, kernel, stride, pads, (1, 1), -math.inf).max((4, 5))
    return results


def average_pool(x: np.ndarray, kernel: Sequence[int], stride: Sequence[int], pads: Pads) -> np.ndarray:
    """Padded places do not count."""
    return np.asarray(np.nanmean(windows(x, kernel, stride, pads, (1, 1), math.nan), (4, 5), dtype=x.dtype))


def batch_norm(x: np.ndarray, *per_channel: np.ndarray, eps: float) -> np.ndarray:
    scale, bias, mean, var = (channel[:, None, None] for channel in per_channel)
    return np.asarray((x - mean) / np.sqrt(var + np.float32(eps)) * scale + bias)


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    centred = x - x.mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt(x.var(axes, keepdims=True) + np.float32(1e-5)) * weight + bias)


def local_response_norm(x: np.ndarray, size: int, alpha: float, beta: float, bias: float) -> np.ndarray:
    out = np.empty_like(x)
    for channel in range(x.shape[1]):
        first, last = max(0, channel - (size - 1) // 2), channel + size // 2
        total = (x[:, first : last + 1] ** 2).sum(1)
        out[:, channel] = x[:, channel] / (bias + alpha / size * total) ** beta
    return out


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    raised = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(raised / raised.sum(axis, keepdims=True))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | float) -> np.ndarray:
    return np.asarray(softmax(q @ np.swapaxes(k, -1, -2) / np.float32(math.sqrt(q.shape[-1])) + mask) @ v)


def gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray((0.5 * x * (1 + _erf(x * math.sqrt(0.5)))).astype(x.dtype))


def causal(size: int) -> np.ndarray:
    """0 where a row may look, −∞ above the diagonal."""
    return np.triu(np.full((size, size), -np.inf, np.float32), 1)
