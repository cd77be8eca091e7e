"""Graphs that write into their arguments."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")


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
