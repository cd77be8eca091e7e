"""Results lie in memory as eager's do, so that code after a graph may view them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

from eqsat import EqsatWarning, optimize_and_compile
from eqsat.frontends.torch.backend import eqsat as backend
from eqsat.frontends.torch.memory_order import laid_as, order_of
from ir.diagnostics import Kind, fail


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def channels_last(*shape: int) -> Any:
    return torch.randn(shape).to(memory_format=torch.channels_last)


def flat_rows(x: Any) -> Any:
    """A view of the channels of each pixel, which needs that they lie side by side."""
    y = (x * 2).permute(0, 2, 3, 1)
    return y.reshape(y.shape[0], -1), y


def test_results_have_the_strides_of_eager() -> None:
    def function(x: Any) -> Any:
        y = x.t() * 2
        return y, y.t(), x.sum(0), y.t()

    x = torch.randn(3, 5)
    for ours, theirs in zip(torch.compile(function, backend=backend)(x), function(x), strict=True):
        torch.testing.assert_close(ours, theirs)
        assert ours.stride() == theirs.stride()


@pytest.mark.slow
@pytest.mark.parametrize("gradients", [False, True])
def test_a_view_of_an_image_with_its_channels_last(gradients: bool) -> None:
    compiled = torch.compile(flat_rows, backend=backend, options={"fallback": False})
    for batch in (2, 3):
        x = channels_last(batch, 3, 4, 5).requires_grad_(gradients)
        for ours, theirs in zip(compiled(x), flat_rows(x), strict=True):
            torch.testing.assert_close(ours, theirs)
            assert ours.stride() == theirs.stride()


def test_a_result_of_another_order_is_no_view_and_may_be_changed() -> None:
    compiled, weight = torch.compile(lambda x: x.t() + 1, backend=backend), torch.ones(3, requires_grad=True)
    y = compiled(torch.zeros(3, 2))
    y.mul_(weight)
    assert not y._is_view()
    assert torch.equal(y.detach(), torch.ones(2, 3))


@pytest.mark.slow
def test_eager_runs_a_backward_graph_whose_arguments_lie_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []

    def only_forward(*arguments: Any, **options: Any) -> Any:
        if built:
            fail(Kind.RESOURCE_EXCEEDED, "plan", "too large")
        built.append(optimize_and_compile(*arguments, **options))
        return built[0]

    monkeypatch.setattr("eqsat.frontends.torch.compiled_graph.optimize_and_compile", only_forward)
    layer = torch.nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)

    def function(x: Any) -> Any:
        return flat_rows(layer(x))[0].sin()

    gradients = []
    for run in (torch.compile(function, backend=backend), function):
        x = channels_last(2, 3, 4, 5).copy_(torch.arange(120.0).reshape(2, 3, 4, 5) / 50).requires_grad_()
        result = run(x)
        if run is not function:
            with pytest.warns(EqsatWarning, match="too large"):
                result.square().sum().backward()
        else:
            result.square().sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


Make = Callable[[], Any]


@pytest.mark.parametrize(
    ("make", "order"),
    [
        (lambda: torch.zeros(2, 3), None),
        (lambda: torch.zeros(2, 3).t(), (1, 0)),
        (lambda: channels_last(2, 3, 4, 5), (0, 2, 3, 1)),
        (lambda: channels_last(2, 1, 4, 5), None),
        (lambda: torch.zeros(2, 3)[:, :2].t(), None),
        (lambda: torch.zeros(3, 1).expand(3, 2), None),
        (lambda: torch.zeros(()), None),
    ],
)
def test_the_order_of_axes(make: Make, order: tuple[int, ...] | None) -> None:
    assert order_of(make()) == order


def test_a_tensor_is_copied_only_into_another_order() -> None:
    x, y = torch.randn(2, 3, 4, 5), channels_last(2, 3, 4, 5)
    assert laid_as(x, torch.empty(2, 3, 4, 5)) is x
    for source, like in ((x, y), (y, x)):
        copy = laid_as(source, like)
        assert copy.stride() == like.stride()
        assert torch.equal(copy, source)


def test_an_argument_in_another_order_is_read_where_it_lies() -> None:
    """As channels last: a program takes the axes as they lie in memory, so that a call copies nothing."""
    programs: list[Any] = []
    x = torch.randn(2, 6, 4, 5).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(3, 6, 2, 2).contiguous(memory_format=torch.channels_last)

    def convolve(x: Any, weight: Any) -> Any:
        return torch.nn.functional.conv2d(x, weight).relu()

    compiled = torch.compile(convolve, backend="eqsat", options={"on_program": programs.append})
    torch.testing.assert_close(compiled(x, weight), convolve(x, weight), rtol=1e-4, atol=1e-5)
    assert [array.shape for array in programs[0].random_inputs().values()] == [(2, 4, 5, 6), (3, 2, 2, 6)]
    contiguous = [x.contiguous(), weight.contiguous()]
    torch.testing.assert_close(compiled(*contiguous), convolve(x, weight), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("freezing", [False, True])
def test_parameters_in_another_order(freezing: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 7).contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(model, backend="eqsat", options={"freezing": freezing})
    with torch.no_grad():
        result, expected = compiled(x), model(x)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    assert result.stride() == expected.stride()


def test_gradients_have_eagers_order() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 7).contiguous(memory_format=torch.channels_last).requires_grad_()
    torch.compile(model, backend="eqsat")(x).square().sum().backward()
    found = [tensor.grad.clone(memory_format=torch.preserve_format) for tensor in (x, *model.parameters())]
    x.grad = None
    model.zero_grad()
    model(x).square().sum().backward()
    for gradient, tensor in zip(found, (x, *model.parameters()), strict=True):
        torch.testing.assert_close(gradient, tensor.grad, rtol=1e-3, atol=1e-4)
        assert gradient.stride() == tensor.grad.stride()
