"""The cases of the GPU bench: products, convolutions, attention, norms, and pointwise chains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from bench.gpu.case import Case, Shape
from bench.gpu.decoder import decoder
from bench.gpu.mirage import mirage

ATTENTION_WIDTH = 2048
"""Heads times their size. With `ATTENTION_TOKENS`, the tokens of all sequences, the setting of FlashAttention's
papers."""
ATTENTION_TOKENS = 16384


def cases() -> dict[str, Case]:
    """All cases by name; the cases with a required speed come first."""
    listed = [gemm(8192), attention(16384, 128, False), gemm(4096), attention(4096, 128, True), pointwise(1 << 26)]
    listed += [softmax(16384, 4096), layer_norm(16384, 4096), rms_norm(16384, 4096)]
    listed += [
        gemm(8192, "fp32", tf32=True),
        linear(8192, 768, 3072, "gelu"),
        linear(4096, 4096, 11008, "silu"),
        linear(4096, 4096, 4096, "relu"),
    ]
    listed += [
        linear(16, 4096, 4096, "relu"),
        *map(gemm, (1024, 2048, 16384)),
        *convolutions(),
        decoder(2048),
        *mirage(),
    ]
    listed += [
        attention(tokens, size, causal)
        for tokens in (512, 2048, 4096, 16384)
        for size in (128, 64)
        for causal in (False, True)
    ]
    listed += [softmax(4096, 32768, "fp32"), sums(1, 16384, 8192), sums(0, 16384, 8192), transpose(8192)]
    return {case.name: case for case in listed}


def chosen(only: str) -> list[str]:
    """The names of the cases whose name or group contains the text."""
    return [case.name for case in cases().values() if only in case.name or only == case.group]


def gemm(n: int, dtype: str = "bf16", *, tf32: bool = False) -> Case:
    return Case(
        f"gemm {'tf32' if tf32 else dtype} {n}³",
        "gemm",
        dtype,
        {"a": (n, n), "b": (n, n)},
        lambda a, b: a @ b,
        lambda torch, a, b: a @ b,
        2.0 * n**3,
        (n, n),
        lambda: gemm(72, dtype, tf32=tf32),
        tf32=tf32,
    )


def linear(m: int, k: int, n: int, activation: str, dtype: str = "bf16") -> Case:
    """activation(x·Wᵀ + bias), with W in torch's layout."""

    def ours(x: Any, weight: Any, bias: Any) -> Any:
        from eqsat import nn

        y = x @ weight.T + bias
        return nn.gelu(y, approximate=True) if activation == "gelu" else getattr(nn, activation)(y)

    def theirs(torch: Any, x: Any, weight: Any, bias: Any) -> Any:
        functional = torch.nn.functional
        y = functional.linear(x, weight, bias)
        return functional.gelu(y, approximate="tanh") if activation == "gelu" else getattr(functional, activation)(y)

    return Case(
        f"linear {dtype} {m}×{k}×{n} + bias + {activation}",
        "gemm",
        dtype,
        {"x": (m, k), "weight": (n, k), "bias": (n,)},
        ours,
        theirs,
        2.0 * m * k * n,
        (m, n),
        lambda: linear(40, 32, 48, activation, dtype),
        {"weight": k**-0.5},
    )


def convolutions(batch: int = 32) -> Iterable[Case]:
    """The kinds of convolution in ResNet-50."""
    yield conv(batch, 3, 64, 224, 7, 2)
    yield from (conv(batch, 64 << stage, 64 << stage, 56 >> stage, 3) for stage in range(4))
    yield conv(batch, 256, 64, 56, 1)
    yield conv(batch, 1024, 256, 14, 1)
    yield conv(batch, 256, 512, 56, 1, 2)


def conv(batch: int, c_in: int, c_out: int, size: int, kernel: int, stride: int = 1, dtype: str = "bf16") -> Case:
    """relu(conv + bias), channels last: the fastest layout for both sides."""
    pad, out = kernel // 2, (size + 2 * (kernel // 2) - kernel) // stride + 1

    def ours(x: Any, weight: Any, bias: Any) -> Any:
        from eqsat import nn

        moved = nn.conv2d(x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), bias, stride, pad)
        return nn.relu(moved).permute(0, 2, 3, 1)

    def theirs(torch: Any, x: Any, weight: Any, bias: Any) -> Any:
        image, filters = x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2)
        return torch.relu(torch.nn.functional.conv2d(image, filters, bias, stride, pad)).permute(0, 2, 3, 1)

    strided = f" /{stride}" if stride > 1 else ""
    return Case(
        f"conv {dtype} {kernel}×{kernel}{strided} {c_in}→{c_out} @{size} ×{batch} + bias + relu",
        "conv",
        dtype,
        {"x": (batch, size, size, c_in), "weight": (c_out, kernel, kernel, c_in), "bias": (c_out,)},
        ours,
        theirs,
        2.0 * batch * c_in * c_out * (out * kernel) ** 2,
        (batch, out, out, c_out),
        lambda: conv(1, min(c_in, 8), 16, kernel + 4, kernel, stride, dtype),
        {"weight": (c_in * kernel**2) ** -0.5},
    )


def attention(tokens: int, size: int, causal: bool, dtype: str = "bf16", heads: int | None = None) -> Case:
    """softmax(q·kᵀ / √size)·v over [batch, heads, tokens, size]; half of the work if causal."""
    batch = max(1, ATTENTION_TOKENS // tokens) if heads is None else 1
    heads = heads or ATTENTION_WIDTH // size
    shape = (batch, heads, tokens, size)

    def ours(q: Any, k: Any, v: Any) -> Any:
        from eqsat import nn

        return nn.attention(q, k, v, causal=causal)

    def theirs(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return Case(
        f"attention {dtype} {tokens} ×{batch * heads} heads of {size}{' causal' if causal else ''}",
        "attention",
        dtype,
        dict.fromkeys(("q", "k", "v"), shape),
        ours,
        theirs,
        4.0 * batch * heads * tokens**2 * size / (2 if causal else 1),
        shape,
        lambda: attention(33, min(size, 16), causal, dtype, heads=2),
        causal=causal,
    )


def softmax(rows: int, columns: int, dtype: str = "bf16") -> Case:
    def ours(x: Any) -> Any:
        from eqsat import nn

        return nn.softmax(x)

    def theirs(torch: Any, x: Any) -> Any:
        return torch.softmax(x, -1)

    return _rows("softmax", (rows, columns), dtype, ours, theirs, 5, lambda: softmax(5, 104, dtype))


def layer_norm(rows: int, columns: int, dtype: str = "bf16") -> Case:
    def ours(x: Any, weight: Any, bias: Any) -> Any:
        from eqsat import nn

        return nn.layer_norm(x, weight, bias)

    def theirs(torch: Any, x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (columns,), weight, bias)

    def small() -> Case:
        return layer_norm(5, 104, dtype)

    return _rows("layer norm", (rows, columns), dtype, ours, theirs, 8, small, ("weight", "bias"))


def rms_norm(rows: int, columns: int, dtype: str = "bf16") -> Case:
    def ours(x: Any, weight: Any) -> Any:
        from eqsat import nn

        return nn.rms_norm(x, weight)

    def theirs(torch: Any, x: Any, weight: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (columns,), weight, 1e-6)

    return _rows("RMS norm", (rows, columns), dtype, ours, theirs, 5, lambda: rms_norm(5, 104, dtype), ("weight",))


def sums(axis: int, rows: int, columns: int, dtype: str = "bf16") -> Case:
    """Sums over rows (axis 1) or columns (axis 0)."""

    def ours(x: Any) -> Any:
        return x.sum(axis)

    def theirs(torch: Any, x: Any) -> Any:
        return x.sum(axis)

    result = (rows, columns)[1 - axis : 2 - axis]
    kind = f"sums of {('columns', 'rows')[axis]}"
    return _rows(kind, (rows, columns), dtype, ours, theirs, 1, lambda: sums(axis, 5, 104, dtype), result=result)


def transpose(n: int, dtype: str = "bf16") -> Case:
    def ours(x: Any) -> Any:
        return x.T.relu()

    def theirs(torch: Any, x: Any) -> Any:
        return torch.relu(x).T.contiguous()

    return _rows("transpose + relu", (n, n), dtype, ours, theirs, 1, lambda: transpose(40, dtype))


def _rows(
    kind: str,
    shape: Shape,
    dtype: str,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    flops: int,
    small: Callable[[], Case],
    vectors: Iterable[str] = (),
    result: Shape | None = None,
) -> Case:
    """A case over a matrix x and vectors as long as its rows, with `flops` FLOPs per element."""
    inputs = {"x": shape, **dict.fromkeys(vectors, shape[1:])}
    name = f"{kind} {dtype} {shape[0]}×{shape[1]}"
    work = float(flops * math.prod(shape))
    return Case(name, "memory", dtype, inputs, ours, theirs, work, result or shape, small)


def pointwise(size: int, dtype: str = "bf16") -> Case:
    """gelu(x·a + b)·z + x, four reads and one write."""

    def ours(x: Any, a: Any, b: Any, z: Any) -> Any:
        from eqsat import nn

        return nn.gelu(x * a + b) * z + x

    def theirs(torch: Any, x: Any, a: Any, b: Any, z: Any) -> Any:
        return torch.nn.functional.gelu(x * a + b) * z + x

    return Case(
        f"x·a+b → gelu → ·z+x {dtype} {size >> 20}M",
        "memory",
        dtype,
        dict.fromkeys("xabz", (size,)),
        ours,
        theirs,
        16.0 * size,
        (size,),
        lambda: pointwise(1031, dtype),
    )
