"""Graphs that write into their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")


def swap(x: Any, y: Any) -> Any:
    held = x.clone()
    x.copy_(y)
    y.copy_(held)
    return x + 0


def swap_transposed(x: Any, y: Any) -> Any:
    held = x.t().clone()
    x.copy_(y.t())
    y.copy_(held)
    return x - y


def part(x: Any, y: Any) -> Any:
    x[:, 1:] += y[:, 1:]
    turned = x.t()
    turned.relu_()
    return turned, y[1]


def before(x: Any, y: Any) -> Any:
    old = x.clone().view(-1)
    x.mul_(2)
    return old, y + x


@pytest.mark.parametrize("function", [swap, swap_transposed, part, before])
def test_arguments_and_results_are_eagers(function: Any) -> None:
    ours, theirs = (list(torch.arange(18.0).reshape(2, 3, 3).sub(7).unbind()) for _ in range(2))
    compiled = torch.compile(function, backend="eqsat")
    for _ in range(2):
        for actual, expected in zip([compiled(*ours), *ours], [function(*theirs), *theirs], strict=True):
            torch.testing.assert_close(actual, expected)


def test_a_parameter_that_is_only_written_has_no_gradient() -> None:
    """As in a teacher that follows its student: a gradient of zeros would let an optimizer decay the weights."""

    def step(weight: Any, teacher: Any) -> Any:
        loss = (weight - teacher.detach()).square().sum()
        with torch.no_grad():
            teacher.lerp_(weight, 0.25)
        return loss

    weight, teacher = (torch.full((3,), value, requires_grad=True) for value in (1.0, 5.0))
    torch.compile(step, backend="eqsat")(weight, teacher).backward()
    assert teacher.grad is None
    torch.testing.assert_close(weight.grad, torch.full((3,), -8.0))
    torch.testing.assert_close(teacher.detach(), torch.full((3,), 4.0))


class Counting(torch.nn.Module):  # type: ignore[misc]
    """A module that multiplies by what it writes, or by what it is about to write."""

    def __init__(self, is_old: bool) -> None:
        super().__init__()
        self.is_old = is_old
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("count", torch.tensor([0.5, 0.25, 1.0]))

    def forward(self, x: Any) -> Any:
        old = self.count.exp()
        self.count.add_(1)
        return x * self.weight * (old if self.is_old else self.count.sin())


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_read_the_values_that_the_forward_graph_read(is_old: bool, dynamic: bool) -> None:
    """The forward graph saves the old value of what it writes, from which the backward graph computes again."""
    ours, theirs = Counting(is_old), Counting(is_old)
    compiled = torch.compile(ours, backend="eqsat", dynamic=dynamic)
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(2):
        for result in (compiled(x), theirs(x)):
            result.square().sum().backward()
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
        torch.testing.assert_close(ours.count, theirs.count)
