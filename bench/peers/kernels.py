"""The kernels of `bench.peers`: a computation is written once for eqsat and torch, whose functions have the same names,
and once for XLA, through JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

BF16_TOLERANCE = 2e-2
"""bf16 has eight bits; sums are in fp32 everywhere."""
TOLERANCE = 1e-4
"""Relative to the largest value, for fp32."""


@dataclass(frozen=True)
class Kernel:
    """One computation on seeded inputs.

    compute: takes `eqsat.nn` or `torch.nn.functional` and the tensors in the order of `shapes`.
    in_xla: takes the module `jax` and JAX's arrays.
    flops: the useful work of a call; 0 where the bytes bound the time.
    constants: the tensors that do not change between calls. Every system may lay them out once.
    counts: a tensor of positions → the number that its values stay below.
    dtype: NumPy's name of the dtype of the tensors that are no positions.
    """

    name: str
    flops: float
    shapes: Mapping[str, Sequence[int]]
    compute: Callable[..., Any]
    in_xla: Callable[..., Any]
    constants: tuple[str, ...] = ()
    counts: Mapping[str, int] | None = None
    dtype: str = "float32"

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Seeded values: unit normal, scaled for constants so that results stay near unit size."""
        import ml_dtypes

        rng = np.random.default_rng(0)
        dtype = np.dtype(ml_dtypes.bfloat16) if self.dtype == "bfloat16" else np.dtype(self.dtype)
        arrays = {}
        for name, shape in self.shapes.items():
            if self.counts and name in self.counts:
                arrays[name] = rng.integers(0, self.counts[name], shape)
            else:
                scale = 1 / np.sqrt(max(1, math.prod(shape[1:]))) if name in self.constants else 1.0
                arrays[name] = (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(dtype)
        return arrays

    @property
    def tolerance(self) -> float:
        return BF16_TOLERANCE if self.dtype == "bfloat16" else TOLERANCE


def kernels() -> dict[str, Kernel]:
    """All kernels by name."""
    listed = [
        *(matmul(n) for n in (256, 1024)),
        linear(1, 4096, 4096, "relu"),
        linear(8, 1024, 1024),
        linear(128, 768, 768),
        linear(128, 768, 3072, "gelu"),
        linear(128, 768, 768, dtype="bfloat16"),
        convolution(64, 64, 56, 3),
        convolution(512, 512, 7, 3),
        convolution(64, 256, 56, 1),
        convolution(1024, 256, 14, 1),
        convolution(144, 144, 56, 3, groups=144),
        stem(),
        softmax(512, 1024),
        layer_norm(4096, 768),
        rms_norm(4096, 768),
        attention(12, 512, 512, 64),
        attention(12, 512, 512, 64, causal=True),
        attention(32, 1, 2048, 128),
        pointwise(1 << 22),
        cumsum(1024, 4096),
        gather(30522, 768, 4096),
        *(sums(axis, 4096, 1024) for axis in (0, 1)),
    ]
    return {kernel.name: kernel for kernel in listed}


def matmul(n: int) -> Kernel:
    return Kernel(f"gemm {n}³", 2.0 * n**3, {"a": (n, n), "b": (n, n)}, lambda f, a, b: a @ b, lambda jax, a, b: a @ b)


def linear(rows: int, k: int, n: int, activation: str = "", dtype: str = "float32") -> Kernel:
    """x·Wᵀ + bias, and an activation; the weights are constants."""

    def compute(f: Any, x: Any, weight: Any, bias: Any) -> Any:
        result = f.linear(x, weight, bias)
        return getattr(f, activation)(result) if activation else result.float()

    def in_xla(jax: Any, x: Any, weight: Any, bias: Any) -> Any:
        result = x @ weight.T + bias
        activations = {"relu": jax.nn.relu, "gelu": lambda x: jax.nn.gelu(x, approximate=False)}
        return activations[activation](result) if activation else result.astype("float32")

    name = f"linear{'+' if activation else ''}{activation} {rows}×{k}×{n}{' bf16' if dtype == 'bfloat16' else ''}"
    shapes = {"x": (rows, k), "weight": (n, k), "bias": (n,)}
    return Kernel(name, 2.0 * rows * k * n, shapes, compute, in_xla, ("weight", "bias"), dtype=dtype)


def convolution(c_in: int, c_out: int, size: int, width: int, groups: int = 1) -> Kernel:
    """A convolution that keeps the size, and ReLU."""
    weight = (c_out, c_in // groups, width, width)

    def compute(f: Any, x: Any, w: Any) -> Any:
        return f.relu(f.conv2d(x, w, padding=width // 2, groups=groups))

    def in_xla(jax: Any, x: Any, w: Any) -> Any:
        return jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=groups))

    name = f"{'depthwise' if groups > 1 else 'conv'} {width}×{width} {c_in}→{c_out} @{size}"
    flops = 2.0 * size**2 * float(np.prod(weight))
    return Kernel(name, flops, {"x": (1, c_in, size, size), "w": weight}, compute, in_xla, ("w",))


def stem() -> Kernel:
    """The beginning of ResNet: a convolution of 7×7 by steps of 2, ReLU, and a max pool of 3×3 by steps of 2."""

    def compute(f: Any, x: Any, w: Any) -> Any:
        return f.max_pool2d(f.relu(f.conv2d(x, w, stride=2, padding=3)), 3, stride=2, padding=1)

    def in_xla(jax: Any, x: Any, w: Any) -> Any:
        result = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (2, 2), ((3, 3), (3, 3))))
        least, pads = -np.inf, ((0, 0), (0, 0), (1, 1), (1, 1))
        return jax.lax.reduce_window(result, least, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), pads)

    shapes = {"x": (1, 3, 224, 224), "w": (64, 3, 7, 7)}
    return Kernel("stem 7×7/2+relu+maxpool", 2.0 * 112**2 * 64 * 3 * 49, shapes, compute, in_xla, ("w",))


def softmax(rows: int, columns: int) -> Kernel:
    def compute(f: Any, x: Any) -> Any:
        return f.softmax(x, dim=-1)

    return Kernel(f"softmax {rows}×{columns}", 0, {"x": (rows, columns)}, compute, lambda jax, x: jax.nn.softmax(x))


def layer_norm(rows: int, columns: int) -> Kernel:
    def compute(f: Any, x: Any, weight: Any, bias: Any) -> Any:
        return f.layer_norm(x, (columns,), weight, bias)

    def in_xla(jax: Any, x: Any, weight: Any, bias: Any) -> Any:
        return jax.nn.standardize(x, epsilon=1e-5) * weight + bias

    shapes = {"x": (rows, columns), "weight": (columns,), "bias": (columns,)}
    return Kernel(f"layer norm {rows}×{columns}", 0, shapes, compute, in_xla)


def rms_norm(rows: int, columns: int) -> Kernel:
    def compute(f: Any, x: Any, weight: Any) -> Any:
        return f.rms_norm(x, (columns,), weight, eps=1e-5)

    def in_xla(jax: Any, x: Any, weight: Any) -> Any:
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight

    return Kernel(f"rms norm {rows}×{columns}", 0, {"x": (rows, columns), "weight": (columns,)}, compute, in_xla)


def attention(heads: int, queries: int, keys: int, width: int, causal: bool = False) -> Kernel:
    """One query a head is a decode step over a cache of keys and values."""

    def compute(f: Any, q: Any, k: Any, v: Any) -> Any:
        return f.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def in_xla(jax: Any, q: Any, k: Any, v: Any) -> Any:
        turned = (array.swapaxes(1, 2) for array in (q, k, v))
        return jax.nn.dot_product_attention(*turned, is_causal=causal).swapaxes(1, 2)

    shapes = {"q": (1, heads, queries, width), "k": (1, heads, keys, width), "v": (1, heads, keys, width)}
    flops = 4.0 * heads * queries * keys * width / (2 if causal else 1)
    name = f"attention H{heads} {queries}×{keys} D{width}{' causal' if causal else ''}"
    return Kernel(name, flops, shapes, compute, in_xla)


def pointwise(size: int) -> Kernel:
    def compute(f: Any, x: Any, a: Any, b: Any, z: Any) -> Any:
        return f.gelu(x * a + b) * z + x

    def in_xla(jax: Any, x: Any, a: Any, b: Any, z: Any) -> Any:
        return jax.nn.gelu(x * a + b, approximate=False) * z + x

    return Kernel(f"gelu(x·a+b)·z+x {size >> 20}M", 0, dict.fromkeys("xabz", (size,)), compute, in_xla)


def cumsum(rows: int, columns: int) -> Kernel:
    def compute(f: Any, x: Any) -> Any:
        return x.cumsum(-1)

    return Kernel(f"cumsum {rows}×{columns}", 0, {"x": (rows, columns)}, compute, lambda jax, x: x.cumsum(-1))


def gather(words: int, width: int, count: int) -> Kernel:
    """Rows of a table of embeddings."""
    shapes = {"index": (count,), "table": (words, width)}

    def compute(f: Any, index: Any, table: Any) -> Any:
        return f.embedding(index, table)

    def in_xla(jax: Any, index: Any, table: Any) -> Any:
        return table[index]

    name = f"gather {count} of {words}×{width}"
    return Kernel(name, 0, shapes, compute, in_xla, ("table",), {"index": words})


def sums(axis: int, rows: int, columns: int) -> Kernel:
    def compute(f: Any, x: Any) -> Any:
        return x.sum(axis)

    shapes = {"x": (rows, columns)}
    return Kernel(f"sum axis {axis} {rows}×{columns}", 0, shapes, compute, lambda jax, x: x.sum(axis))
