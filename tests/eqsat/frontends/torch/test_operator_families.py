"""Families of ATen operators through their lowerings, played back, beside eager: cases at the edges of each family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the torch door needs torch")

from tests.support.torch.beside_eager import agree, normal  # noqa: E402 - only where torch is installed

F = torch.nn.functional
torch.manual_seed(0)


WITH_NAN = torch.tensor([[3.0, float("nan"), -1.0, 3.0, 2.0], [1.0, 1.0, 0.0, -2.0, float("nan")]])
SIGNED = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 2.5])
WHOLE = torch.tensor([-7, -2, -1, 0, 1, 2, 7])
FLOATS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}
INDEX = torch.tensor([[0, 2, 1], [1, 1, 0]])

Case = tuple[Callable[..., Any], tuple[Any, ...]]
CASES: dict[str, Case] = {
    "lookups": (
        lambda x, i: (x[i[0]], x[:, i], x[i, :, i], x[-1:, i[0] - 3], x.take(i)),
        (normal(3, 3, 3), INDEX),
    ),
    "known positions": (
        lambda x: (
            x[:, torch.arange(0, 6, 2)],
            x[torch.arange(4)[:, None] // 2, torch.arange(8) % 7],
            x[torch.arange(3)[:, None], torch.arange(4) + 1],
            x[torch.tensor(-2), torch.arange(5)],
            x[torch.arange(-3, 0), torch.arange(3)],
            x[torch.tensor([[1]]), torch.tensor([2])],
            x[torch.arange(0), :],
            x[torch.arange(3, -1, -1)],
        ),
        (normal(4, 7),),
    ),
    "an index without elements": (lambda x, i: (x[i], x.gather(1, i)), (normal(3, 2), INDEX[0, :0])),
    "writes at positions": (
        lambda x, y, i: (x.clone().index_put_((i[0],), y), x.index_put((i[1],), y, accumulate=True)),
        (normal(3, 4), normal(3, 4), INDEX),
    ),
    "writes between axes": (
        lambda x, y, i: torch.ops.aten.index_put(x, [None, i], y),
        (normal(2, 3, 4), normal(2, 3, 4), INDEX[0]),
    ),
    "writes under a mask": (lambda x, y: x.masked_fill(x > 0, 1.0).index_put((x < 0,), y), (normal(5), normal())),
    "scatters": (
        lambda x, y, i: (x.scatter(1, i.sort(1).values[:1], y), x.scatter(0, i, 2.0), x.scatter_add(0, i, y)),
        (normal(3, 3), normal(2, 4), INDEX),
    ),
    "scatters that combine": (
        lambda x, y, i: [
            x.scatter_reduce(0, i, y, reduce, include_self=own)
            for reduce in ("sum", "prod", "mean", "amax", "amin")
            for own in (True, False)
        ],
        (normal(3, 3), normal(2, 3), INDEX),
    ),
    "slices that are combined": (
        lambda x, y, i: (
            x.index_add(0, i[0, :2], y, alpha=2),
            x.index_copy(0, i[0, :2], y),
            x.index_reduce(0, i[1, :2], y, "mean", include_self=False),
        ),
        (normal(3, 3), normal(2, 3), INDEX),
    ),
    "masked scatter": (lambda x, y: x.masked_scatter(x > 0, y), (normal(3, 3), normal(3, 3))),
    "places of others than 0": (
        lambda x: (torch.nonzero_static(x, size=3), torch.nonzero_static(x, size=9, fill_value=7)),
        (torch.tensor([[0, 1, 0], [2, 0, 3]]),),
    ),
    "orders": (lambda x: (*x.sort(1), *x.topk(2), *x.kthvalue(2, 1)), (normal(3, 5),)),
    "orders of long axes": (lambda x: (*x.sort(0), *x.topk(3, 0), x.median()), (torch.randperm(5000).float(),)),
    "orders of equal elements and NaN": (
        lambda x: (*x.sort(dim=1, stable=True), *x.sort(dim=1, stable=True, descending=True), x.topk(2).values),
        (WITH_NAN,),
    ),
    "medians": (lambda x: (x.nanmedian(1).values, x.median(), x.nanmedian(), *x.median(0)), (WITH_NAN,)),
    "modes": (lambda x: x.mode(1), (torch.tensor([[1, 2, 2, 1, 0], [3, 3, 3, 0, 0]]),)),
    "running extrema": (lambda x: (*x.cummax(1), *x.cummin(1)), (WITH_NAN,)),
    "running extrema of ints": (lambda x: (*x.cummax(0), *x.cummin(0)), (torch.tensor([3, -(2**63), 3, 2**63 - 1]),)),
    "running log of sums": (lambda x: (x.logcumsumexp(1), x.logcumsumexp(0)), (normal(3, 37) * 50,)),
    "running log of infinities": (
        lambda x: x.logcumsumexp(0),
        (
            torch.tensor(
                [[-torch.inf, -torch.inf, 1.0, 2.0], [1.0, torch.inf, 2.0, -torch.inf], [1.0, torch.nan, 2.0, 3.0]]
            ).T,
        ),
    ),
    "search": (
        lambda x, y: (torch.searchsorted(x, y), torch.searchsorted(x, y, right=True), torch.bucketize(y, x[0])),
        (normal(2, 5).sort(1).values, normal(2, 3)),
    ),
    "search for NaN, in integers, and in nothing": (
        lambda x, y, i: (
            *(torch.searchsorted(x, y, right=right) for right in (False, True)),
            torch.searchsorted(i, y.isnan().int()),
            torch.searchsorted(x[:0], y, out_int32=True),
        ),
        (
            torch.tensor([1.0, 2.0, 2.0, 3.0]),
            torch.tensor([math.nan, 2.0, 9.0, -math.inf]),
            torch.tensor([0, 0, 1, 7]).int(),
        ),
    ),
    "histograms": (lambda x: (x.histc(4), x.histc(3, -1, 1), *torch.histogram(x, 4)), (normal(30),)),
    "quotients that are rounded": (
        lambda x, y: [torch.div(x, y, rounding_mode=mode) for mode in ("floor", "trunc")],
        (normal(40) * 9, normal(40)),
    ),
    "remainders": (lambda x, y: (x % y, torch.fmod(x, y)), (normal(40) * 9, normal(40))),
    "remainders of edges": (lambda x: (x % 2, torch.fmod(x, 2), 2 % x[2:4]), (SIGNED,)),
    "remainders of ints": (lambda x: (x % 3, x % -3, torch.fmod(x, 3), torch.fmod(x, -3), x // -2), (WHOLE,)),
    "numbers beside fp64": (
        lambda x, m: (
            x.masked_fill(m, 0.1),
            (x + 1.7e9) % 86400.1,
            torch.xlogy(x, 0.1),
            0.1 ** x[0],
            torch.where(m, x, 0.1),
        ),
        (torch.tensor([[0.1, 2.0, 3.3], [1e4, 0.7, 9999.95]], dtype=torch.float64), torch.tensor([[True], [False]])),
    ),
    "the least fp64": (
        lambda x, m: x.masked_fill(m, torch.finfo(x.dtype).min).softmax(-1),
        (torch.ones(2, 3, dtype=torch.float64), torch.tensor([[True], [False]])),
    ),
    "constants in order": (
        lambda x: (x[torch.tensor([3, 1, 2, 0]).argsort()], x[torch.arange(4.0).topk(2).indices]),
        (normal(4, 5),),
    ),
    "remainders of the least int": (
        lambda x, y: (torch.fmod(x, 3), torch.fmod(x, y), x % y),
        (torch.tensor([-(2**31), 2**31 - 1, -7, 7], dtype=torch.int32), torch.tensor([7, -(2**31), 3, -3]).int()),
    ),
    "powers of ints": (lambda x: (x**3, x ** x.abs(), 2 ** x.abs()), (WHOLE,)),
    "divisors and multiples": (
        lambda x, y: (x.gcd(y), x.lcm(y), y.short().gcd(x), y[:, :0].lcm(x), (y * 37).to(torch.int8).lcm(x[0, 0])),
        (
            torch.tensor([0, 1, -6, 12, 7540113804746346429, 4660046610375530309, 2**63 - 1, 1 - 2**63])[:, None],
            torch.tensor([[0, 1, 4, -9, 36]]),
        ),
    ),
    "the longest way to a divisor": (
        lambda x, y: (
            x.gcd(y),
            x.int().gcd(y.int()),
            x.short().gcd(y.short()),
            x.to(torch.uint8).gcd(y.to(torch.uint8)),
        ),
        (torch.tensor([2**62, 2**63 - 1, 2**31 - 1, 255, 128]), torch.tensor([2**61 - 1, 2**62, 2**30, 254, 127])),
    ),
    "neighbours of floats": (
        lambda x: [torch.nextafter(x[:, None].to(dtype), x.to(dtype)).view(word) for dtype, word in FLOATS.items()],
        (torch.cat([SIGNED, torch.tensor([1e-45, -1e-45, 6e-8, 1.1754944e-38, 3.4028235e38])]),),
    ),
    "fractions and exponents": (
        lambda x: [
            part.view(word)
            for dtype, word in FLOATS.items()
            for part in (x.to(dtype).frexp().mantissa, x.to(dtype).frexp().exponent.to(word))
        ],
        (torch.cat([SIGNED, torch.tensor([1e-45, -1.7e-40, 6e-8, 1.1754944e-38, 3.4028235e38, 0.3])]),),
    ),
    "products of bytes": (
        torch._int_mm,
        (torch.arange(18 * 16).view(18, 16).to(torch.int8), torch.arange(16 * 8).view(16, 8).to(torch.int8) * 5),
    ),
    "shifts": (lambda x: (x << 2, x >> 1), (WHOLE,)),
    "signs": (lambda x: (x.signbit(), x.sgn(), torch.copysign(torch.ones(8), x), x.angle()), (SIGNED,)),
    "signs of NaN": (lambda x: torch.copysign(x, torch.tensor([1.0, -1.0])).signbit(), (torch.full((3, 2), math.nan),)),
    "bits": (
        lambda x: (x.view(torch.int32), (x + 1).view(torch.uint8), x.view(torch.float64), x.view(torch.int16) >> 3),
        (normal(3, 6),),
    ),
    "extrema of numbers": (lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)), (SIGNED, SIGNED.flip(0))),
    "angles": (torch.atan2, (SIGNED.repeat(8), SIGNED.repeat_interleave(8))),
    "rounding to digits": (lambda x: (x.round(decimals=2), x.round(decimals=-1)), (normal(9) * 50,)),
    "special functions": (lambda x: (x.lgamma(), x.digamma(), x.erfc(), torch.i0(x), x.tanh().erfinv()), (normal(9),)),
    "Bessel functions": (
        lambda x: [
            getattr(torch.special, name)(x)
            for name in ("bessel_j0", "bessel_y1", "modified_bessel_i1", "modified_bessel_k0", "spherical_bessel_j0")
        ],
        (SIGNED * 4,),
    ),
    "diagonals": (
        lambda x: (x.diagonal(), x.diagonal(1, 1, 2), x.diagonal(-2, 0, 2), x.diagonal(9)),
        (normal(3, 4, 5),),
    ),
    "strides of memory": (
        lambda x: (
            x.as_strided((2, 2), (3, 1), 4),
            (x.t() * 2).as_strided((4, 3), (1, 4), 0),
            x.mean((0, 1), keepdim=True).as_strided((1, 1), (7, 7)),
            (x + 1).as_strided((2, 3, 2), (3, 1, 0), 1),
        ),
        (normal(3, 4),),
    ),
    "writes by strides": (
        lambda x, y: (
            x.as_strided_scatter(y, (2, 2), (3, 1), 4),
            (x.t() * 2).as_strided_scatter(y, (2, 2), (1, 4)),
            (x[:1] * 2).as_strided_scatter(y[0], (2,), (3,), 0),
            x.as_strided_scatter(y[:0], (0, 2), (3, 1)),
            x.clone().fill_diagonal_(7.0),
            (x + 1).sum().as_strided_scatter(y[0, 0], (), ()),
        ),
        (normal(3, 4), normal(2, 2)),
    ),
    "products with sums": (lambda x, y, z: torch.ops.prims.fma(x, y, z), (normal(4, 3), normal(4, 3), normal(4, 3))),
    "writes on a diagonal": (
        lambda x, y: (x.diagonal_scatter(y), x.diagonal_scatter(y, -1), x.t().diagonal_scatter(y, 1)),
        (normal(4, 3), normal(3)),
    ),
    "windows of an axis": (lambda x: (x.unfold(0, 2, 1), x.unfold(1, 3, 2)), (normal(4, 5, 2),)),
    "padding with the image": (
        lambda x: (F.pad(x, (1, 2), mode="reflect"), F.pad(x, (2, -1, 1, 0), mode="replicate")),
        (normal(1, 4, 5),),
    ),
    "windows as columns": (
        lambda x: (F.unfold(x, 2, padding=1), F.fold(F.unfold(x, 2, stride=2), (4, 4), 2, stride=2)),
        (normal(1, 2, 4, 4),),
    ),
    "pools of a number of windows": (
        lambda x: (*F.adaptive_max_pool2d(x, (2, 3), return_indices=True), F.adaptive_avg_pool2d(x, 3)),
        (normal(2, 3, 5, 7),),
    ),
    "bags of embeddings": (
        lambda w, i, o: [F.embedding_bag(i, w, o, mode=m) for m in ("sum", "mean", "max")],
        (normal(4, 3), torch.arange(6) % 4, torch.tensor([0, 2, 2])),
    ),
    "segments": (
        lambda x, n: [torch.segment_reduce(x, r, lengths=n) for r in ("sum", "max", "mean")],
        (normal(5, 2), torch.tensor([2, 0, 3])),
    ),
    "distances of pairs": (
        lambda x: [F.pdist(x[rows], p) for rows in (slice(9), slice(1), slice(2)) for p in (0.0, 1.0, 3.0, math.inf)],
        (torch.cat([normal(7, 3), torch.tensor([[1.0, math.nan, 2.0]])]),),
    ),
    "distances from NaN": (lambda x, y: [torch.cdist(x, y, p) for p in (0.0, 1.0, 3.0)], (WITH_NAN, normal(3, 5))),
    "distances of integers": (
        lambda x, i: (torch.dist(x, i), torch.dist(i, x.half(), 1), torch.dist(i, x[0, 0].double())),
        (normal(2, 3), INDEX),
    ),
    "distances": (lambda x, y: [torch.cdist(x, y, p) for p in (0.0, 1.0, 2.0, 3.0)], (normal(3, 4), normal(5, 4))),
    "norms": (
        lambda x: [torch.linalg.vector_norm(x, p, 1) for p in (0, 1, 2, 3.5, float("inf"), -float("inf"))],
        (normal(3, 4),),
    ),
    "softmax of masked rows": (
        lambda x: torch.ops.aten._safe_softmax(x, -1),
        (torch.tensor([[1.0, -float("inf")], [-float("inf"), -float("inf")]]),),
    ),
    "triangles as indices": (lambda x: (x[0], torch.tril_indices(3, 4, 1), torch.triu_indices(3, 4)), (normal(2),)),
    "no elements": (lambda x: (x.sum(0), x.cumsum(0), x.sort(0).values, x.amax(1), x @ x.T), (normal(0, 3),)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_family_computes_what_eager_computes(case: Case) -> None:
    function, arguments = case
    agree(function, *arguments, kernels=False)


@pytest.mark.parametrize("order", [0.0, 1.0, 2.0, 3.0, math.inf])
def test_gradients_of_distances_of_pairs(order: float) -> None:
    agree(lambda x: F.pdist(x, order), normal(5, 3), kernels=False, gradients=True)
