"""Results that are views share memory as in eager: with arguments, and with other results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

VIEWS: dict[str, Callable[[Any], Any]] = {
    "every second row": lambda x: x.flatten(0, 1)[::2],
    "by a size": lambda x: x.view(-1, x.shape[-1])[1::2],
    "columns": lambda x: x.flatten(1)[:, 1:5],
    "halves": lambda x: x.view(-1, x.shape[1] * 4).chunk(2, 1)[1],
    "one of each pair": lambda x: x.unflatten(-1, (2, 2))[..., 0],
    "windows": lambda x: x.flatten(1).unfold(1, 4, 2),
    "repeated": lambda x: x.flatten(0, 1)[None].expand(3, -1, -1),
    "diagonal": lambda x: x.flatten(1).diagonal(),
    "turned": lambda x: x.permute(2, 0, 1)[1:],
    "rows": lambda x: x.view(-1, 4).unbind(1)[2],
}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_an_argument_is_one(name: str, dynamic: bool) -> None:
    view = VIEWS[name]
    compiled = torch.compile(view, backend="eqsat", dynamic=dynamic)
    for size in (6, 8) if dynamic else (6,):
        x = torch.arange(8.0 * size).view(2, size, 4)
        result = compiled(x)
        torch.testing.assert_close(result, view(x), rtol=0, atol=0)
        assert result.stride() == view(x).stride()
        x += 1
        torch.testing.assert_close(result, view(x), rtol=0, atol=0)


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_view_a_result_share_its_memory(dynamic: bool) -> None:
    def several(x: Any) -> Any:
        y = x * 2
        return y.flatten(1), y, y.chunk(2, 1), y.permute(2, 0, 1)[0]

    flat, y, (first, second), turned = torch.compile(several, backend="eqsat", dynamic=dynamic)(torch.ones(2, 6, 4))
    y.zero_()
    for shared in (flat, first, second, turned):
        assert not shared.any()


def test_a_written_view_is_returned() -> None:
    def write(x: Any) -> Any:
        view = x.flatten(0, 1)[::2]
        view.add_(100)
        return view

    x, y = torch.arange(48.0).view(2, 6, 4), torch.arange(48.0).view(2, 6, 4)
    result = torch.compile(write, backend="eqsat", dynamic=True)(x)
    torch.testing.assert_close(result, write(y))
    torch.testing.assert_close(x, y)


def test_gradients_pass_through_views() -> None:
    def tokens(x: Any, w: Any) -> Any:
        return (x @ w).mean(), x.flatten(2).transpose(1, 2)[:, 1:]

    for size in (4, 6):
        x, w = torch.randn(2, 3, size, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        results = torch.compile(tokens, backend="eqsat", dynamic=True)(x, w)
        wanted = tokens(x, w)
        for result, eager in zip(results, wanted, strict=True):
            torch.testing.assert_close(result, eager)
        found = torch.autograd.grad(sum(result.sum() for result in results), [x, w])
        for gradient, eager in zip(found, torch.autograd.grad(sum(one.sum() for one in wanted), [x, w]), strict=True):
            torch.testing.assert_close(gradient, eager)
