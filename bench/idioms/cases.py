"""The functions and their arguments: rows, shapes, products, convolutions, attention, positions (gathers, scatters,
sorts), science, complex numbers, updates (functions that write into their arguments)."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

Idiom = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]
"""A function, and what builds its arguments."""


def idioms() -> dict[str, Idiom]:
    """All functions by name."""
    layers = {**_rows(), **_shapes(), **_products(), **_convolutions(), **_attention()}
    return {**layers, **_positions(), **_science(), **_complex_numbers(), **_updates()}


def _r(*sizes: int) -> Any:
    return torch.randn(sizes)


def _c(*sizes: int) -> Any:
    return torch.randn(sizes, dtype=torch.complex64)


def _places(below: int, *sizes: int) -> Any:
    return torch.randint(0, below, sizes)


def _rows() -> dict[str, Idiom]:
    return {
        "softmax 8192×1000": (lambda x: x.softmax(-1), lambda: (_r(8192, 1000),)),
        "log-softmax 512×30522": (lambda x: x.log_softmax(-1), lambda: (_r(512, 30522),)),
        "layer norm 16384×512": (
            lambda x, w, b: F.layer_norm(x, (512,), w, b),
            lambda: (_r(16384, 512), _r(512), _r(512)),
        ),
        "group norm + silu 4×128@64": (
            lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)),
            lambda: (_r(4, 128, 64, 64), _r(128), _r(128)),
        ),
        "instance norm 8×64@64": (lambda x: F.instance_norm(x), lambda: (_r(8, 64, 64, 64),)),
        "cross entropy 1024×10000": (
            lambda x, t: F.cross_entropy(x, t),
            lambda: (_r(1024, 10000), _places(10000, 1024)),
        ),
        "sum of 8M": (lambda x: x.sum(), lambda: (_r(8192, 1024),)),
        "mean of planes 32×256@28": (lambda x: x.mean((2, 3)), lambda: (_r(32, 256, 28, 28),)),
        "standard deviation 4096×2048": (lambda x: x.std(-1), lambda: (_r(4096, 2048),)),
        "argmax 8192×1024": (lambda x: x.argmax(-1), lambda: (_r(8192, 1024),)),
        "cumsum 512×16384": (lambda x: x.cumsum(-1), lambda: (_r(512, 16384),)),
        "clip by norm 8M": (lambda x: x * (1 / (x.norm() + 1e-6)).clamp(max=1), lambda: (_r(8192, 1024),)),
        "rotary 16×1024×128": (
            lambda x, c, s: x * c + torch.cat([-x[..., 64:], x[..., :64]], -1) * s,
            lambda: (_r(16, 1024, 128), _r(1024, 128), _r(1024, 128)),
        ),
    }


def _shapes() -> dict[str, Idiom]:
    return {
        "transpose 4096×4096": (lambda x: x.t().contiguous(), lambda: (_r(4096, 4096),)),
        "heads apart 16×512×12×64": (lambda x: x.permute(0, 2, 1, 3).contiguous(), lambda: (_r(16, 512, 12, 64),)),
        "channels last 8×64@112": (lambda x: x.permute(0, 2, 3, 1).contiguous(), lambda: (_r(8, 64, 112, 112),)),
        "pixel shuffle 8×64@64": (lambda x: F.pixel_shuffle(x, 2), lambda: (_r(8, 64, 64, 64),)),
        "unfold 3×3 4×32@64": (lambda x: F.unfold(x, 3, padding=1), lambda: (_r(4, 32, 64, 64),)),
        "twice as large, nearest 8×64@56": (lambda x: F.interpolate(x, scale_factor=2), lambda: (_r(8, 64, 56, 56),)),
        "twice as large, bilinear 8×64@56": (
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
            lambda: (_r(8, 64, 56, 56),),
        ),
        "15/28 as large, bilinear 8×32@56": (
            lambda x: F.interpolate(x, size=(30, 30), mode="bilinear"),
            lambda: (_r(8, 32, 56, 56),),
        ),
        "reflections around 8×32@56": (
            lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"),
            lambda: (_r(8, 32, 56, 56),),
        ),
        "roll 2048×2048": (lambda x: x.roll((3, 5), (0, 1)), lambda: (_r(2048, 2048),)),
        "flip 2048×2048": (lambda x: x.flip(1), lambda: (_r(2048, 2048),)),
        "lower triangle 2048×2048": (torch.tril, lambda: (_r(2048, 2048),)),
        "concatenation": (lambda x, y: torch.cat([x, y], 1), lambda: (_r(2048, 1024), _r(2048, 2048))),
    }


def _products() -> dict[str, Idiom]:
    return {
        "512 products 32³": (torch.bmm, lambda: (_r(512, 32, 32), _r(512, 32, 32))),
        "64 products 100³": (torch.bmm, lambda: (_r(64, 100, 100), _r(64, 100, 100))),
        "1000³": (torch.mm, lambda: (_r(1000, 1000), _r(1000, 1000))),
        "xᵀ·y 512×2048×512": (lambda x, y: x.t() @ y, lambda: (_r(2048, 512), _r(2048, 512))),
        "4096×64×64": (torch.mm, lambda: (_r(4096, 64), _r(64, 64))),
        "16×4096×16": (torch.mm, lambda: (_r(16, 4096), _r(4096, 16))),
        "LoRA 256×1024, rank 16": (
            lambda x, w, a, b: x @ w + (x @ a) @ b,
            lambda: (_r(256, 1024), _r(1024, 1024), _r(1024, 16), _r(16, 1024)),
        ),
        "four rows 4096×2048": (torch.mm, lambda: (_r(4, 4096), _r(4096, 2048))),
        "LSTM cell 64×512": (
            _lstm_cell,
            lambda: (_r(64, 512), _r(64, 512), _r(64, 512), _r(512, 2048), _r(512, 2048), _r(2048)),
        ),
        "squared distances 1000×1000×64": (
            lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
            lambda: (_r(1000, 64), _r(1000, 64)),
        ),
    }


def _convolutions() -> dict[str, Idiom]:
    return {
        "3×3 16×32→32@64": (lambda x, w: F.conv2d(x, w, padding=1), lambda: (_r(16, 32, 64, 64), _r(32, 32, 3, 3))),
        "3×3 of 32 groups 4×128@28": (
            lambda x, w: F.conv2d(x, w, padding=1, groups=32),
            lambda: (_r(4, 128, 28, 28), _r(128, 4, 3, 3)),
        ),
        "depthwise 7×7 4×96@56": (
            lambda x, w: F.conv2d(x, w, padding=3, groups=96),
            lambda: (_r(4, 96, 56, 56), _r(96, 1, 7, 7)),
        ),
        "depthwise 3×3/2 4×144@56": (
            lambda x, w: F.conv2d(x, w, padding=1, stride=2, groups=144),
            lambda: (_r(4, 144, 56, 56), _r(144, 1, 3, 3)),
        ),
        "causal depthwise + silu 1536×1024": (
            lambda x, w, b: F.silu(F.conv1d(x, w, b, padding=3, groups=1536)[..., :1024]),
            lambda: (_r(1, 1536, 1024), _r(1536, 1, 4), _r(1536)),
        ),
        "transposed 4×4/2 4×64→32@32": (
            lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
            lambda: (_r(4, 64, 32, 32), _r(64, 32, 4, 4)),
        ),
        "along time 5, 8×64×4096": (lambda x, w: F.conv1d(x, w, padding=2), lambda: (_r(8, 64, 4096), _r(64, 64, 5))),
        "in space 3³ 2×16→16@16×32×32": (
            lambda x, w: F.conv3d(x, w, padding=1),
            lambda: (_r(2, 16, 16, 32, 32), _r(16, 16, 3, 3, 3)),
        ),
        "largest of 2×2 32×64@56": (lambda x: F.max_pool2d(x, 2), lambda: (_r(32, 64, 56, 56),)),
    }


def _attention() -> dict[str, Idiom]:
    attend = F.scaled_dot_product_attention
    return {
        "attention 2×8×384×64": (attend, lambda: (_r(2, 8, 384, 64), _r(2, 8, 384, 64), _r(2, 8, 384, 64))),
        "attention 2×8×1024×40": (attend, lambda: (_r(2, 8, 1024, 40), _r(2, 8, 1024, 40), _r(2, 8, 1024, 40))),
        "attention to 77 words": (attend, lambda: (_r(2, 8, 1024, 40), _r(2, 8, 77, 40), _r(2, 8, 77, 40))),
        "attention with biases": (
            lambda q, k, v, m: attend(q, k, v, attn_mask=m),
            lambda: (_r(4, 12, 197, 64), _r(4, 12, 197, 64), _r(4, 12, 197, 64), _r(12, 197, 197)),
        ),
        "linear attention 16×1024×64": (
            lambda q, k, v: q.softmax(-1) @ (k.softmax(-2).transpose(-1, -2) @ v),
            lambda: (_r(16, 1024, 64), _r(16, 1024, 64), _r(16, 1024, 64)),
        ),
    }


def _positions() -> dict[str, Idiom]:
    return {
        "histogram 100,000 of 1000": (
            lambda x, i, y: x.scatter_add(0, i, y),
            lambda: (torch.zeros(1000), _places(1000, 100_000), _r(100_000)),
        ),
        "index_add 20,000 of 2000×64": (
            lambda x, i, y: x.index_add(0, i, y),
            lambda: (torch.zeros(2000, 64), _places(2000, 20_000), _r(20_000, 64)),
        ),
        "products of edges 20,000 of 2000×64": (
            lambda x, i, j: (x[i] * x[j]).sum(-1),
            lambda: (_r(2000, 64), _places(2000, 20_000), _places(2000, 20_000)),
        ),
        "embedding 8192 of 50,000×512": (
            lambda w, i: F.embedding(i, w),
            lambda: (_r(50_000, 512), _places(50_000, 8192)),
        ),
        "sort 1000×1000": (lambda x: x.sort(-1)[0], lambda: (_r(1000, 1000),)),
        "sort 50,000": (lambda x: x.sort(-1)[0], lambda: (_r(50_000),)),
        "10 greatest 1000×1000": (lambda x: x.topk(10)[0], lambda: (_r(1000, 1000),)),
        "50 greatest 8×50257": (lambda x: x.topk(50), lambda: (_r(8, 50257),)),
        "100 greatest 1000×1000": (lambda x: x.topk(100), lambda: (_r(1000, 1000),)),
        "median of 1M": (lambda x: x.median(), lambda: (_r(1_000_000),)),
        "medians 4096×512": (lambda x: x.median(1)[0], lambda: (_r(4096, 512),)),
        "sort 200,000 i64": (lambda x: x.argsort(), lambda: (torch.randint(0, 1 << 40, (200_000,)),)),
        "gather in rows 1024×1024": (
            lambda x, at: x.gather(1, at),
            lambda: (_r(1024, 1024), torch.randint(0, 1024, (1024, 1024))),
        ),
        "2 of 8 experts 4096": (lambda x: x.topk(2), lambda: (_r(4096, 8),)),
        "search 10,000 in 100,000": (torch.searchsorted, lambda: (_r(100_000).sort()[0], _r(10_000))),
        "nearest of 64 centres 4096×32": (lambda x, c: torch.cdist(x, c).argmin(1), lambda: (_r(4096, 32), _r(64, 32))),
    }


def _science() -> dict[str, Idiom]:
    return {
        "heat 1024×1024": (_heat, lambda: (_r(1024, 1024),)),
        "Mandelbrot 256×1024": (_mandelbrot, lambda: (_r(256, 1024) * 0.5, _r(256, 1024) * 0.5)),
        "gravity of 1024": (_gravity, lambda: (_r(1024, 3), _r(1024).abs())),
        "angles of 1M": (torch.atan2, lambda: (_r(1024, 1024), _r(1024, 1024))),
        "Black-Scholes 1M": (
            _black_scholes,
            lambda: (torch.rand(1_000_000) * 50 + 50, torch.rand(1_000_000) * 50 + 50, torch.rand(1_000_000) + 0.1),
        ),
    }


def _complex_numbers() -> dict[str, Idiom]:
    return {
        "rotary by complex numbers 512×32×128": (_rotate, lambda: (_r(1, 512, 32, 128), _c(512, 64))),
        "layer in frequencies 4×32×64×64": (_filter_spectrum, lambda: (_r(4, 32, 64, 64), _c(32, 32, 16, 16))),
        "sizes of complex products 1M": (
            lambda x, y: (x * y + y.conj()).abs(),
            lambda: (_c(1024, 1024), _c(1024, 1024)),
        ),
        "Julia set 256×1024": (_julia_set, lambda: (_c(256, 1024) * 0.5,)),
    }


def _rotate(x: Any, turns: Any) -> Any:
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[:, None]).flatten(3)


def _filter_spectrum(x: Any, weight: Any) -> Any:
    low = torch.fft.rfft2(x)[..., : weight.shape[2], : weight.shape[3]]
    return torch.fft.irfft2(torch.einsum("bixy,ioxy->boxy", low, weight), s=x.shape[-2:])


def _julia_set(z: Any) -> Any:
    steps = torch.zeros(z.shape)
    for _ in range(20):
        z = z * z + (-0.8 + 0.156j)
        steps = steps + (z.abs() < 2)
    return steps


def _updates() -> dict[str, Idiom]:
    return {
        "a token and caches of 16×4096×64": (
            _write_caches,
            lambda: (_r(1, 16, 4096, 64), _r(1, 16, 4096, 64), _r(1, 16, 1, 64), torch.tensor([77])),
        ),
        "AdamW over 4M weights": (_adamw, lambda: tuple([_r(1024, 1024).abs() for _ in range(4)] for _ in range(4))),
        "means of weights over 4M": (
            lambda means, weights: torch._foreach_lerp_(means, weights, 0.01),
            lambda: tuple([_r(1024, 1024) for _ in range(4)] for _ in range(2)),
        ),
    }


def _write_caches(keys: Any, values: Any, token: Any, at: Any) -> Any:
    keys.index_copy_(2, at, token)
    values.index_copy_(2, at, token)
    hidden = torch.arange(keys.shape[2]) > at
    return F.scaled_dot_product_attention(token, keys, values, attn_mask=~hidden[None])


def _adamw(weights: Any, gradients: Any, means: Any, squares: Any) -> Any:
    torch._foreach_mul_(weights, 0.99999)
    torch._foreach_lerp_(means, gradients, 0.1)
    torch._foreach_mul_(squares, 0.999)
    torch._foreach_addcmul_(squares, gradients, gradients, 0.001)
    roots = torch._foreach_add(torch._foreach_sqrt(squares), 1e-8)
    torch._foreach_addcdiv_(weights, means, roots, -0.001)
    return weights[0][0].clone()


def _lstm_cell(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    i, f, o, g = (x @ w + h @ u + b).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh()


def _heat(u: Any) -> Any:
    inner = u[1:-1, 1:-1]
    return inner + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner)


def _mandelbrot(a: Any, b: Any) -> Any:
    x, y, steps = torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(a)
    for _ in range(20):
        x, y = (x * x - y * y + a).clamp(-10, 10), (2 * x * y + b).clamp(-10, 10)
        steps = steps + ((x * x + y * y) < 4)
    return steps


def _gravity(places: Any, masses: Any) -> Any:
    apart = places[None] - places[:, None]
    squared = (apart * apart).sum(-1) + 0.01
    return (apart * (masses[None] / (squared * squared.sqrt()))[..., None]).sum(1)


def _black_scholes(price: Any, strike: Any, years: Any) -> Any:
    spread = 0.2 * years.sqrt()
    d = ((price / strike).log() + 0.05 * years) / spread
    normal = lambda x: 0.5 * (1 + torch.erf(x / 2**0.5))  # noqa: E731
    return price * normal(d) - strike * (-0.03 * years).exp() * normal(d - spread)
