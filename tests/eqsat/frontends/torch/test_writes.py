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


def in_place(programs: list[Any]) -> int:
    """The results that kernels write over arguments."""
    return sum(line.count(" over ") for program in programs for line in program.dump("module").splitlines())


def decode(keys: Any, values: Any, query: Any, at: Any) -> Any:
    """A token of a decoder with caches of a fixed size."""
    keys.index_copy_(2, at, query * 2)
    values.index_copy_(2, at, query - 1)
    hidden = torch.arange(keys.shape[2]) > at
    scores = (query @ keys.transpose(2, 3)).masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ values


def counted(x: Any, y: Any) -> Any:
    """A value that is also returned has memory of its own."""
    x.add_(1)
    y.mul_(3)
    return x + 0, y


def widened(x: Any, y: Any) -> Any:
    """Values of other dtypes and sizes, and of another order of axes."""
    x.copy_(y[:1].double())
    y.t().copy_((y * 2).t())
    return x.sum()


def test_caches_are_written_in_place() -> None:
    programs: list[Any] = []
    compiled = torch.compile(decode, backend="eqsat", options={"on_program": programs.append})
    ours, theirs = ([torch.zeros(2, 3, 16, 8) for _ in "kv"] for _ in range(2))
    with torch.no_grad():
        for step in range(4):
            query, at = torch.randn(2, 3, 1, 8, generator=torch.Generator().manual_seed(step)), torch.tensor([step])
            torch.testing.assert_close(compiled(*ours, query, at), decode(theirs[0], theirs[1], query, at))
            torch.testing.assert_close(ours, theirs)
    assert in_place(programs) == 2


@pytest.mark.parametrize(("function", "count"), [(counted, 1), (widened, 0)])
def test_values_with_other_uses_or_types_are_copied(function: Any, count: int) -> None:
    programs: list[Any] = []
    compiled = torch.compile(function, backend="eqsat", options={"on_program": programs.append})
    ours, theirs = ([torch.arange(12.0).reshape(4, 3) - 5, torch.ones(4, 3)] for _ in range(2))
    results, wanted = compiled(*ours), function(*theirs)
    torch.testing.assert_close([results, *ours], [wanted, *theirs])
    kept = [results[0].clone()] if isinstance(results, tuple) else []
    for value in ours:
        value.zero_()
    assert not kept or torch.equal(results[0], kept[0])
    assert in_place(programs) >= count


@pytest.mark.slow
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop", "Adagrad", "Lion"])
def test_optimizers_step_in_place(name: str, foreach: bool) -> None:
    if not hasattr(torch.optim, name):
        pytest.skip(f"this torch has no {name}")
    keywords: dict[str, Any] = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}

    def train(backend: str | None, programs: list[Any]) -> list[Any]:
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(sizes, generator=generator).requires_grad_() for sizes in ((7, 5), (5,), (3, 4, 2))]
        optimizer = getattr(torch.optim, name)(weights, lr=0.01, weight_decay=0.1, foreach=foreach, **keywords)
        options = {"on_program": programs.append}
        step = optimizer.step if backend is None else torch.compile(optimizer.step, backend=backend, options=options)
        for _ in range(4):
            for weight in weights:
                weight.grad = torch.randn(weight.shape, generator=generator)
            step()
        return weights

    programs: list[Any] = []
    torch.testing.assert_close(train("eqsat", programs), train(None, []))
    assert in_place(programs) >= 3
