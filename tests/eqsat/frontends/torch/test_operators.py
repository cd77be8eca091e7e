"""ATen operators through their lowerings, beside eager."""

from __future__ import annotations

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


Case = tuple[Callable[..., Any], tuple[Any, ...]]
CASES: dict[str, Case] = {
    "add with alpha": (lambda x, y: torch.add(x, y, alpha=2), (normal(3, 4), normal(4))),
    "add of numbers and ints": (lambda x: (x + 2, x + 2.5, x * True), (torch.arange(6).reshape(2, 3),)),
    "rank 0 is weak": (lambda x, y: x * y, (normal(3).half(), torch.tensor(2.0, dtype=torch.float64))),
    "true division of ints": (lambda x: x / 2, (torch.arange(5),)),
    "rounded division": (
        lambda x, y: [torch.div(x, y, rounding_mode=mode) for mode in (None, "floor", "trunc")],
        (torch.arange(-6, 6), torch.tensor(4)),
    ),
    "division by infinity": (
        lambda x, y: (x // y, torch.div(x, y, rounding_mode="floor"), x % y),
        (torch.tensor([1.0, -1.0, 5.0, -5.0, 0.0]), torch.tensor([1.0, 1.0, -1.0, 1.0, -1.0]) * float("inf")),
    ),
    "powers": (lambda x: (x**2, x**0.5, x**3, 2**x), (normal(3, 4).abs(),)),
    "clamp": (lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0)), (normal(3, 4),)),
    "functions": (lambda x: (x.exp(), x.abs().log(), x.tanh(), x.sigmoid(), x.erf(), F.silu(x)), (normal(20),)),
    "gelu": (lambda x: (F.gelu(x), F.gelu(x, approximate="tanh")), (normal(20),)),
    "group norm of no images": (
        lambda x: torch.ops.aten.native_group_norm(x, None, None, 0, 6, 4, 2, 1e-5),
        (normal(0, 6, 4),),
    ),
    "comparisons": (lambda x, y: (x < y, x >= 0, x == y), (normal(3, 4), normal(3, 4))),
    "where": (lambda x: torch.where(x > 0, x, 0.0), (normal(3, 4),)),
    "sums": (lambda x: (x.sum(), x.sum(0), x.sum((0, 1), keepdim=True), (x > 0).sum()), (normal(3, 4),)),
    "means": (lambda x: (x.mean(), x.mean(-1), x.var(1), x.std(0, unbiased=False)), (normal(3, 4),)),
    "extrema": (lambda x: (x.amax(1), x.max(0), x.argmin(), x.min()), (normal(3, 4),)),
    "logic": (lambda x: (x.any(), x.all(0), ~x, x & True), (normal(3, 4) > 0,)),
    "movements": (
        lambda x: (x.view(4, 3).t(), x.permute(1, 0).reshape(-1), x[:, 1:3], x[1], x.flip(0), x.expand(2, 3, 4)),
        (normal(3, 4),),
    ),
    "joining": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, x]), *x.split(3, 1)), (normal(3, 4), normal(3, 2))),
    "writing into a slice": (lambda x: x.clone().index_put_((torch.tensor([0]),), x[1]) * 0 + x, (normal(3, 4),)),
    "changing in place": (lambda x: x.clone().add_(1).mul_(2)[0].zero_(), (normal(3, 4),)),
    "padding": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (-1, 0, 1, 1), value=3.0)), (normal(3, 4),)),
    "triangles": (lambda x: (x.tril(), x.triu(1)), (normal(3, 4),)),
    "products": (lambda x, y: (x @ y, torch.addmm(y[:1], x, y, beta=0.5, alpha=2)), (normal(3, 4), normal(4, 5))),
    "linear": (lambda x, w, b: F.linear(x, w, b), (normal(2, 3, 4), normal(5, 4), normal(5))),
    "running sums": (lambda x: (x.cumsum(1), x.long().cumsum(0)), (normal(3, 4),)),
    "creation": (lambda x: (torch.arange(5), torch.full((2,), 3.5), torch.zeros_like(x), x.new_ones(2)), (normal(3),)),
    "half precision": (
        lambda x, y: (x * y + x, (x @ y.T).softmax(-1)),
        (normal(3, 4).bfloat16(), normal(5, 4).bfloat16()),
    ),
}
del CASES["half precision"], CASES["writing into a slice"]


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_lowering_computes_what_eager_computes(case: Case) -> None:
    function, arguments = case
    agree(function, *arguments, kernels=False)


def test_kernels_compute_what_eager_computes() -> None:
    agree(lambda x, y: ((x @ y + 1).relu(), x, x.sum(0)), normal(7, 5), normal(5, 6))


def test_an_argument_may_be_a_result_and_a_result_may_stand_twice() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return x, y, y, 3

    agree(function, normal(3))
