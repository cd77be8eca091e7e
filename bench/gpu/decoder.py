"""A block of a language model as a case: RMS norm, causal attention with rotary positions, RMS norm, SwiGLU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.gpu.case import Case, Shape


def decoder(tokens: int, width: int = 2048, heads: int = 16, hidden: int = 5632, dtype: str = "bf16") -> Case:
    """The case of `tokens` tokens."""
    size = width // heads
    inputs: dict[str, Shape] = {"x": (tokens, width), "norm1": (width,), "norm2": (width,)}
    inputs |= dict.fromkeys(("wq", "wk", "wv", "wo"), (width, width)) | {"cos": (tokens, size), "sin": (tokens, size)}
    inputs |= {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}

    def ours(*given: Any) -> Any:
        from eqsat import nn

        return _decoder(nn.rms_norm, _rotate, lambda q, k, v: nn.attention(q, k, v, causal=True), nn.silu, heads, given)

    def theirs(torch: Any, *given: Any) -> Any:
        functional = torch.nn.functional

        def rotate(x: Any, cos: Any, sin: Any) -> Any:
            low, high = x.chunk(2, -1)
            return x * cos + torch.cat((-high, low), -1) * sin

        def attend(q: Any, k: Any, v: Any) -> Any:
            return functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]

        def norm(x: Any, weight: Any) -> Any:
            return functional.rms_norm(x, (width,), weight, 1e-6)

        return _decoder(norm, rotate, attend, functional.silu, heads, given)

    flops = 2.0 * tokens * width * (4 * width + 3 * hidden) + 2.0 * tokens**2 * width
    return Case(
        f"decoder block {dtype} {tokens}×{width}, {heads} heads, SwiGLU {hidden}",
        "model",
        dtype,
        inputs,
        ours,
        theirs,
        flops,
        (tokens, width),
        lambda: decoder(17, 32, 2, 40, dtype),
        {"wq": width**-0.5, "wk": width**-0.5, "wv": width**-0.5, "wo": width**-0.5}
        | {"gate": width**-0.5, "up": width**-0.5, "down": hidden**-0.5},
    )


def _rotate(x: Any, cos: Any, sin: Any) -> Any:
    """Rotary positions (Su et al., 2021): pairs (i, i + half) rotated by the angles of their row."""
    from eqsat.tensor import concatenate

    half = x.shape[-1] // 2
    return x * cos + concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin


def _decoder(
    norm: Callable[..., Any],
    rotate: Callable[..., Any],
    attend: Callable[..., Any],
    silu: Callable[..., Any],
    heads: int,
    given: tuple[Any, ...],
) -> Any:
    """The block, in operations that lazy tensors and torch share, and the four given functions."""
    x, norm1, norm2, wq, wk, wv, wo, cos, sin, gate, up, down = given
    tokens, width = x.shape

    def split(y: Any) -> Any:
        return y.reshape(tokens, heads, width // heads).permute(1, 0, 2)

    normal = norm(x, norm1)
    q, k, v = (split(normal @ weight) for weight in (wq, wk, wv))
    mixed = attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
    x = x + mixed.permute(1, 0, 2).reshape(tokens, width) @ wo
    normal = norm(x, norm2)
    return x + (silu(normal @ gate) * (normal @ up)) @ down
