"""The small fused programs of the benchmarks of Mirage (Wu et al., "Mirage: a multi-level superoptimizer for tensor
programs", OSDI 2025) at their sizes, in fp16: attention with grouped queries, a gated MLP, an RMS norm before a
product, and LoRA."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bench.gpu.case import Case, Shape

_DTYPE = "fp16"


def mirage() -> Iterable[Case]:
    yield grouped_attention(2, 256, 4096, 64)
    yield gated_mlp(8, 4096, 4096)
    yield norm_product(2, 4096, 6144)
    yield lora(16, 256, 4096, 16)


def grouped_attention(groups: int, queries: int, tokens: int, size: int) -> Case:
    """softmax(q·kᵀ / √size)·v: the queries of all heads of a group share its keys."""

    def ours(q: Any, k: Any, v: Any) -> Any:
        from eqsat import nn

        return nn.attention(q, k.permute(0, 2, 1), v)

    def theirs(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k.transpose(1, 2), v)

    return _case(
        f"grouped attention {_DTYPE} {groups} × {queries} queries, {tokens} keys of {size}",
        {"q": (groups, queries, size), "k": (groups, size, tokens), "v": (groups, tokens, size)},
        ours,
        theirs,
        4.0 * groups * queries * tokens * size,
        (groups, queries, size),
        lambda: grouped_attention(2, 16, 40, 16),
    )


def gated_mlp(rows: int, width: int, hidden: int) -> Case:
    """silu(x·gate) · (x·up)."""

    def ours(x: Any, gate: Any, up: Any) -> Any:
        from eqsat import nn

        return nn.silu(x @ gate) * (x @ up)

    def theirs(torch: Any, x: Any, gate: Any, up: Any) -> Any:
        return torch.nn.functional.silu(x @ gate) * (x @ up)

    weights: dict[str, Shape] = {"gate": (width, hidden), "up": (width, hidden)}
    return _case(
        f"gated MLP {_DTYPE} {rows}×{width}×{hidden}",
        {"x": (rows, width), **weights},
        ours,
        theirs,
        4.0 * rows * width * hidden,
        (rows, hidden),
        lambda: gated_mlp(3, 32, 48),
        dict.fromkeys(weights, width**-0.5),
    )


def norm_product(rows: int, width: int, columns: int) -> Case:
    """rms_norm(x)·w."""

    def ours(x: Any, norm: Any, w: Any) -> Any:
        from eqsat import nn

        return nn.rms_norm(x, norm) @ w

    def theirs(torch: Any, x: Any, norm: Any, w: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (width,), norm, 1e-6) @ w

    return _case(
        f"RMS norm + product {_DTYPE} {rows}×{width}×{columns}",
        {"x": (rows, width), "norm": (width,), "w": (width, columns)},
        ours,
        theirs,
        2.0 * rows * width * columns,
        (rows, columns),
        lambda: norm_product(2, 32, 48),
        {"w": width**-0.5},
    )


def lora(rows: int, width: int, columns: int, rank: int) -> Case:
    """x·w + (x·a)·b."""

    def ours(x: Any, w: Any, a: Any, b: Any) -> Any:
        return x @ w + (x @ a) @ b

    def theirs(torch: Any, x: Any, w: Any, a: Any, b: Any) -> Any:
        return x @ w + (x @ a) @ b

    return _case(
        f"LoRA {_DTYPE} {rows}×{width}×{columns}, rank {rank}",
        {"x": (rows, width), "w": (width, columns), "a": (width, rank), "b": (rank, columns)},
        ours,
        theirs,
        2.0 * rows * (width * columns + width * rank + rank * columns),
        (rows, columns),
        lambda: lora(4, 32, 48, 8),
        {"w": width**-0.5, "a": width**-0.5, "b": rank**-0.5},
    )


def _case(
    name: str,
    inputs: dict[str, Shape],
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    flops: float,
    result: Shape,
    small: Callable[[], Case],
    scales: dict[str, float] | None = None,
) -> Case:
    return Case(name, "fused", _DTYPE, inputs, ours, theirs, flops, result, small, scales or {})
